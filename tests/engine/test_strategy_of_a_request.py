"""Requests that choose their strategy, side by side on one server."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from client import faults, generate, generate_all, post
from launches import LAVE
from mixed_requests import mixed_requests

from lave_plugin.engines.sglang.config import options_of_server
from lave_plugin.options import InvalidOptions

pytestmark = pytest.mark.engine


def choosing(body: dict, chosen) -> dict:
    parameters = {**body["sampling_params"], "custom_params": {"lave": chosen}}
    return {**body, "sampling_params": parameters}


def test_every_strategy_that_keeps_to_the_grammar_does(lave_server):
    url = lave_server.url
    wanted = list(mixed_requests(24, seed=5))
    strategies = itertools.cycle(["lave", "sequential", "map", "posterior"])
    bodies = [
        choosing(request.body(), {"strategy": strategy})
        for request, strategy in zip(wanted, strategies, strict=False)
    ]
    assert not faults(wanted, generate_all(url, bodies, at_once=8))


@pytest.mark.parametrize("strategy", ["intersection", "none"])
def test_the_others_answer_and_their_neighbours_stay_valid(lave_server, strategy):
    url = lave_server.url
    wanted = list(mixed_requests(8, seed=6))
    bodies = [
        choosing(request.body(), {"strategy": strategy}) if place % 2 else request.body()
        for place, request in enumerate(wanted)
    ]
    answers = generate_all(url, bodies, at_once=8)
    assert not faults(wanted[::2], answers[::2])
    for request, answer in zip(wanted[1::2], answers[1::2], strict=True):
        assert answer.finish in ("stop", "length")
        assert answer.tokens <= request.max_new_tokens
    if strategy == "none":
        assert faults(wanted[1::2], answers[1::2]), "random weights spelled four valid answers"


def test_an_answer_says_which_strategy_made_it(lave_server):
    """In one batch, streamed and not; a neighbour without a constraint says nothing."""
    url = lave_server.url
    body = {
        "text": "x",
        "sampling_params": {"regex": "[a-z]{4} is forced", "temperature": 0, "max_new_tokens": 40},
    }
    bodies = {
        "lave": body,
        **{name: choosing(body, {"strategy": name}) for name in ("map", "none", "intersection")},
        None: {"text": "x", "sampling_params": {"temperature": 0, "max_new_tokens": 8}},
        "streamed": {**choosing(body, {"strategy": "none"}), "stream": True},
    }
    with ThreadPoolExecutor(len(bodies)) as pool:
        responses = dict(
            zip(bodies, pool.map(lambda body: post(url, body), bodies.values()), strict=True)
        )
    lines = [line for line in responses.pop("streamed").text.split("\n") if "{" in line]
    facts = {name: of.json()["meta_info"].get("lave") for name, of in responses.items()}
    facts["streamed"] = json.loads(lines[-1].removeprefix("data: "))["meta_info"]["lave"]
    assert facts.pop(None) is None
    assert {name: of["strategy"] for name, of in facts.items()} == {
        **{name: name for name in ("lave", "map", "none", "intersection")},
        "streamed": "none",
    }
    assert facts["lave"]["complete"] and facts["map"]["complete"]
    assert not facts["none"]["complete"] and not facts["streamed"]["complete"]
    assert facts["lave"]["forced_tokens"] > 0 == facts["none"]["forced_tokens"]
    for of_answer in facts.values():
        assert {"refusals", "recoveries", "unverified"} <= of_answer.keys()


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        ({"strategy": "dingo"}, "lave.strategy must be one of lave, sequential, map"),
        ({"strategy": "map", "top_k": 4}, "lave.top_k is nothing that a request can choose"),
        ("map", "lave must be an object"),
    ],
)
def test_what_is_no_choice_is_refused(lave_server, chosen, sentence):
    url = lave_server.url
    body = {"text": "x", "sampling_params": {"regex": "ab", "max_new_tokens": 9}}
    response = post(url, choosing(body, chosen), timeout=20)
    assert response.status_code == 400, response.text
    assert sentence in response.json()["error"]["message"]
    assert generate(url, choosing(body, {"strategy": "map"})).text == "ab"


def test_a_server_of_another_strategy(serve, small_random_checkpoint):
    """It enforces what the hooks enforce, and a request may have LAVE there."""
    url = serve(small_random_checkpoint, **{**LAVE, "constrained_decoding": "sequential"}).url
    wanted = list(mixed_requests(6, seed=7))
    bodies = [request.body() for request in wanted]
    bodies[::2] = [choosing(body, {"strategy": "lave"}) for body in bodies[::2]]
    assert not faults(wanted, generate_all(url, bodies, at_once=6))


FLAGS = {
    ("lave", None): "lave",
    ("map", None): "map",
    ("lave", "none"): "none",
    ("posterior", "posterior"): "posterior",
    ("none", None): "lave",
}


@pytest.mark.parametrize(("flag", "in_file"), FLAGS)
def test_the_flag_names_the_strategy_or_leaves_it_to_the_file(flag, in_file):
    settings = {} if in_file is None else {"lave": {"strategy": in_file}}
    server_args = SimpleNamespace(_constrained_decoding=flag)
    assert options_of_server(server_args, settings).strategy == FLAGS[flag, in_file]


def test_flag_and_file_must_not_name_two():
    server_args = SimpleNamespace(_constrained_decoding="map")
    with pytest.raises(InvalidOptions, match="name one"):
        options_of_server(server_args, {"lave": {"strategy": "none"}})
