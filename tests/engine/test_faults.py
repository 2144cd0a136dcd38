"""What goes wrong stays where it went wrong, and a constraint is never silently missing."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from client import counts, generate, post
from launches import LAVE, MOVED_FUNCTION, install_plugin

from lave_plugin.engines.sglang.server import Server, ServerError

pytestmark = pytest.mark.engine

DIGITS = {"text": "x", "sampling_params": {"regex": "[0-9]{30}", "max_new_tokens": 40}}


FAULTY_SEARCH = """
def register():
    from lave_plugin.session import Session
    follow = Session.follow

    def faulty_follow(self, answer):
        if self.token_budget == 77:
            raise ArithmeticError("injected")
        return follow(self, answer)

    Session.follow = faulty_follow
"""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory) -> dict[str, str]:
    """The environment of a server whose search fails on requests of 77 tokens."""
    return install_plugin(tmp_path_factory.mktemp("plugin"), "faulty_search", FAULTY_SEARCH)


@pytest.fixture(params=[["--no-dllm-fdfo"], []], ids=["synchronous", "fdfo"])
def faulty_server(serve, small_random_checkpoint, faulty, request) -> Server:
    args = [*request.param, "--enable-metrics"]
    return serve(small_random_checkpoint, env=faulty, args=args, **LAVE)


def test_an_exception_fails_its_request_only(faulty_server):
    url = faulty_server.url
    bad = {"text": "x", "sampling_params": {"regex": "[0-9]{30}", "max_new_tokens": 77}}
    bodies = [DIGITS, bad, DIGITS, bad, DIGITS, DIGITS]
    with ThreadPoolExecutor(6) as pool:
        responses = list(pool.map(lambda body: post(url, body), bodies))
    for body, response in zip(bodies, responses, strict=True):
        if body is bad:
            assert response.status_code == 500, response.text
            assert "ArithmeticError: injected" in response.text
        else:
            assert response.status_code == 200
            assert len(response.json()["text"]) == 30
    assert len(generate(url, DIGITS).text) == 30
    counted = counts(url)
    assert counted["finished_requests_total", "failed lave"] == 2
    assert counted["finished_requests_total", "complete lave"] == 5
    assert counted["requests_total", "regex lave"] == 7
    assert counted["denoising_steps_total", "lave"] >= 5 * 3


def busy_share(server: Server, seconds: float = 1.0) -> float:
    """Cores that the server's processes keep busy at present."""

    def used() -> float:
        times = [process.cpu_times() for process in server.processes()]
        return sum(t.user + t.system for t in times)

    before = used()
    time.sleep(seconds)
    return (used() - before) / seconds


@pytest.mark.parametrize("faulty_server", [[]], ids=["fdfo"], indirect=True)
def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(faulty_server):
    """The last one on this server, which it stops."""
    server = faulty_server
    long = json.dumps({"type": "array", "items": {"type": "string"}, "minItems": 200})
    body = {
        "text": "x",
        "stream": True,
        "sampling_params": {"json_schema": long, "max_new_tokens": 1900},
    }
    for _ in range(3):
        with requests.post(
            f"{server.url}/generate", json=body, timeout=30, stream=True
        ) as response:
            next(response.iter_lines())
    # Also while the grammar is still being compiled.
    parameters = {"regex": "(abc|[x-z]{3}){300}", "max_new_tokens": 1900}
    fresh = {"text": "x", "sampling_params": parameters}
    with pytest.raises(requests.exceptions.ReadTimeout):
        requests.post(f"{server.url}/generate", json=fresh, timeout=0.05)
    # With --sleep-on-idle an engine that has nothing to do takes next to no time.
    assert any(busy_share(server) < 0.3 for _ in range(30)), "still at work for nobody"
    assert len(generate(server.url, DIGITS).text) == 30
    started = time.monotonic()
    server.stop()
    assert time.monotonic() - started < server.stop_timeout, "SIGTERM did not end it"


BROKEN_IN_SCHEDULERS = """
import multiprocessing

def register():
    if multiprocessing.parent_process() is not None:
        from sglang.srt.plugins.hook_registry import HookRegistry
        HookRegistry.register = lambda *args, **options: None  # of plugins still to come
        HookRegistry._hooks.clear()                            # of those before
"""
OTHER_XGRAMMAR = """
def register():
    from lave_plugin.grammar import self_test
    from lave_plugin.grammar.implementation import states_of_text

    def misread(compiled):
        return states_of_text(str(compiled.grammar).replace("[a-c]", "[a-d]"))

    self_test.version, self_test.automaton_of = lambda package: "9.9.9", misread
"""


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (BROKEN_IN_SCHEDULERS, "runs without the lave plugin"),
        (MOVED_FUNCTION, "get_new_batch_dllm takes (self, plan)"),
        (OTHER_XGRAMMAR, "was not tried with xgrammar 9.9.9 (tried: 0.2.7), and its own reading"),
    ],
    ids=["plugin missing in the scheduler", "hooked signature differs", "grammars print otherwise"],
)
def test_the_server_does_not_start_where_nothing_would_be_enforced(
    small_random_checkpoint, tmp_path, source, sentence
):
    env = install_plugin(tmp_path, "saboteur", source)
    log = tmp_path / "server.log"
    with pytest.raises(ServerError):
        Server(small_random_checkpoint, env=env, log_path=log, **LAVE).start()
    assert sentence in log.read_text()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"args": ["--grammar-backend", "llguidance"]}, "set --grammar-backend xgrammar"),
        (
            {"algorithm_config": {"block_size": 16, "lave": {"top_kk": 3}}},
            "lave.top_kk is not an option",
        ),
    ],
    ids=["other backend", "unknown option"],
)
def test_a_launch_that_cannot_keep_its_word_is_refused(small_random_checkpoint, options, sentence):
    with pytest.raises(ServerError, match=re.escape(sentence)):
        Server(small_random_checkpoint, **{**LAVE, **options}).start()
