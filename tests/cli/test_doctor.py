"""What ``lave doctor`` finds at fault, what it says of it, and its exit status."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from lave_plugin.cli import app
from lave_plugin.demo.shipped import CHECKPOINT
from lave_plugin.engines.sglang import diagnosis

WELL = {
    "json_schema": '{"city": "Oslo", "days": 3}',
    "json_object": "{}",
    "regex": "2030-11",
    "ebnf": "no, yes",
    "structural_tag": '<call>{"city": "Lima", "days": 0}</call>',
}
LAVE = {"version": "9", "dllm_algorithm": "LowConfidence", "internal_states": [{"lave": {}}]}


@pytest.fixture
def pretend():
    """``pretend(info, answers)``: the URL of a server that knows only these.

    A list of infos is told one after the other.
    """
    servers = []

    def pretend(info: dict | list[dict], answers: dict[str, str | tuple[int, str]]) -> str:
        fields = [constraint for _, constraint, _ in diagnosis.SELF_TEST]

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                told = info.pop(0) if isinstance(info, list) else info
                self.reply(200, told)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked = body["sampling_params"]
                place = next(i for i, field in enumerate(fields) if field.items() <= asked.items())
                answer = answers[diagnosis.SELF_TEST[place][0]]
                if isinstance(answer, str):
                    self.reply(200, {"text": answer})
                else:
                    self.reply(*answer)

            def reply(self, status: int, content) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(content).encode())

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield pretend
    for server in servers:
        server.shutdown()
        server.server_close()


def doctor(*arguments: str):
    result = CliRunner().invoke(app, ["doctor", *arguments])
    return result.exit_code, " ".join(result.output.split())


def test_a_server_that_is_well(pretend, monkeypatch):
    monkeypatch.setattr(diagnosis, "REST_SECONDS", 0)
    status, output = doctor("--url", pretend(LAVE, WELL) + "/")
    assert status == 0
    assert output.endswith("7 checks: 0 at fault, 0 to look at")


@pytest.mark.parametrize(("made", "warnings"), [(0, 0), (180, 1)])
def test_a_server_that_steps_while_nothing_is_asked_of_it(pretend, monkeypatch, made, warnings):
    monkeypatch.setattr(diagnosis, "REST_SECONDS", 0)

    def after(*steps: int) -> dict:
        times = [{"rows": rows, "total": {"steps": count}} for rows, count in enumerate(steps, 1)]
        return LAVE | {"internal_states": [{"lave": {"step_times": times}}]}

    infos = [after(1, 0), after(50, 7), after(50 + made, 7)]
    status, output = doctor("--url", pretend(infos, WELL))
    assert status == 0
    assert output.endswith(f"7 checks: 0 at fault, {warnings} to look at")
    assert (f"{made} steps in" in output) == bool(made)


SICK = {
    "no plugin": ({"internal_states": [{}]}, {}, "--constrained-decoding lave"),
    "a worker without it": ({"internal_states": [{"lave": {}}, {}]}, {}, "runs without"),
    "an invalid answer": (LAVE, {"regex": "2030-1"}, "'2030-1' is not valid"),
    "an answer that is cut": (LAVE, {"json_object": '{"a": '}, "not JSON"),
    "a refusal": (LAVE, {"ebnf": (400, {"error": "no such thing"})}, "400: "),
}


@pytest.mark.parametrize("name", SICK)
def test_a_server_that_is_not(pretend, monkeypatch, name):
    monkeypatch.setattr(diagnosis, "REST_SECONDS", 0)
    info, answers, sentence = SICK[name]
    status, output = doctor("--url", pretend(info, WELL | answers))
    assert status == 1
    assert sentence in output
    assert "1 at fault" in output


def test_no_server_at_all():
    status, output = doctor("--url", "http://127.0.0.1:9")
    assert status == 1
    assert "does not answer" in output


def test_the_installation(monkeypatch, tmp_path):
    """Without the hooks, which need SGLang (tests/engine/test_doctor.py)."""
    monkeypatch.setattr(
        diagnosis, "hooks", lambda: diagnosis.Finding("warning", "hooks", "not tried", "Try them.")
    )
    status, output = doctor("--no-server")
    assert status == 0
    assert "0 at fault, 1 to look at" in output and "Try them." in output
    status, output = doctor("--no-server", "--model", str(tmp_path))
    assert status == 1
    assert "Look into" in output


@pytest.mark.parametrize(
    ("plugins", "status"),
    [("", "ok"), ("lave", "ok"), ("other, lave", "ok"), ("other", "fault"), ("none", "fault")],
)
def test_a_plugin_that_is_left_out(monkeypatch, plugins, status):
    monkeypatch.setenv("SGLANG_PLUGINS", plugins)
    found = diagnosis.plugin()
    assert found.status == status
    assert status == "ok" or f"SGLANG_PLUGINS={plugins}" in found.found


def test_a_plugin_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(diagnosis, "entry_points", lambda **_: ())
    assert diagnosis.plugin().status == "fault"
    assert "pip" in diagnosis.plugin().advice


def test_packages_that_are_missing(monkeypatch):
    monkeypatch.setattr(diagnosis, "PACKAGES", ("numpy", "no-such-package"))
    found = list(diagnosis.packages())
    assert [finding.status for finding in found] == ["ok", "ok", "fault"]


def test_grammars_that_are_read_otherwise(monkeypatch):
    from lave_plugin.grammar import self_test

    monkeypatch.setattr(self_test, "first_difference", lambda cases: "regex: at 'a'")
    found = diagnosis.reading_of_grammars()
    assert found.status == "fault" and "regex: at 'a'" in found.found


def test_the_tokenizer_and_the_mask_of_a_checkpoint():
    tokenizer, mask = diagnosis.checkpoint(CHECKPOINT)
    assert tokenizer.status == mask.status == "ok"
    assert tokenizer.found.startswith("1536 tokens") and mask.found == "id 3"
