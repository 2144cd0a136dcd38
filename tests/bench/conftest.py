"""A server that speaks OpenAI's chat completions and answers by a script, without a model."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lave_plugin.bench.results import Results
from lave_plugin.bench.synthetic.vocabularies import synthetic_vocabulary

Answer = Callable[[dict], str | int]


class Scripted(ThreadingHTTPServer):
    """``answer(body)`` gives the text of a chat completion, or the status of a refusal.

    Attributes:
        bodies: What was asked for, in order.
        steps: ``/server_info`` says the plugin took so many steps of one constrained row for each
            answer; None says nothing of it.
    """

    daemon_threads = True

    def __init__(self, answer: Answer, steps: int | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.steps = steps
        self.bodies: list[dict] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Scripted
    protocol_version = "HTTP/1.1"

    def log_message(self, *_) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._reply(200, {"data": [{"id": "scripted"}]})
        elif self.path == "/server_info" and self.server.steps is not None:
            count = self.server.steps * len(self.server.bodies)
            total = {"steps": count, "step_s": 0.01 * count, "verification_s": 0.002 * count}
            entry = {"rows": 1, "constrained": "all", "steps": min(count, 512), "total": total}
            self._reply(200, {"internal_states": [{"lave": {"step_times": [entry]}}]})
        else:
            self._reply(404, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        text = self.server.answer(body)
        if isinstance(text, int):
            self._reply(text, {"error": {"message": "refused on purpose"}})
            return
        usage = {"prompt_tokens": 7, "completion_tokens": len(text)}
        if not body.get("stream"):
            choice = {"message": {"content": text}, "finish_reason": "stop"}
            if body.get("return_meta_info") and self.server.steps is not None:
                choice["meta_info"] = {"lave": {"steps": self.server.steps}}
            self._reply(200, {"choices": [choice], "usage": usage})
            return
        middle = len(text) // 2
        events = [
            {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
            *(
                {"choices": [{"delta": {"content": part}}]}
                for part in (text[:middle], text[middle:])
            ),
            {"choices": [{"delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": usage},
        ]
        lines = [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"]
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            self.wfile.write(f"{len(line.encode()):x}\r\n{line}\r\n".encode())
        self.wfile.write(b"0\r\n\r\n")

    def _reply(self, status: int, content: dict) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture(scope="session")
def scripted() -> Iterator[Callable[..., Scripted]]:
    """``scripted(answer, steps=None)``: a running server."""
    running: list[Scripted] = []

    def start(answer: Answer, steps: int | None = None) -> Scripted:
        server = Scripted(answer, steps)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        running.append(server)
        return server

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture
def results(tmp_path) -> Callable[..., Results]:
    """``results(benchmark, **options)``: an empty file of results."""
    return lambda benchmark, **options: Results.open(
        tmp_path / f"{benchmark}.json", benchmark, options
    )


@pytest.fixture(scope="session")
def vocabulary_file(tmp_path_factory) -> Path:
    """1,500 tokens in a .tiktoken file."""
    path = tmp_path_factory.mktemp("vocabulary") / "small.tiktoken"
    lines = [
        f"{base64.b64encode(data).decode()} {rank}"
        for rank, data in enumerate(synthetic_vocabulary(1500))
    ]
    path.write_text("\n".join(lines) + "\n")
    return path
