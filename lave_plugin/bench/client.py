"""A client of OpenAI's chat completions that notes when the answer began and ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import requests
from requests.adapters import HTTPAdapter

TIMEOUT = 600.0
CONNECTIONS = 256


class ServerLost(RuntimeError):
    """The server can't be reached any more, so nothing can be said of it."""


@dataclass(frozen=True)
class Reply:
    """What came back for one request.

    Attributes:
        text: The answer.
        ttft, latency: Seconds to the first piece of text, and to the end. ``ttft`` is ``latency``
            where the answer has no text. Measured from the moment the request is sent.
        prompt_tokens, output_tokens: As the server counts them.
        finish: Why it ended: ``"stop"``, ``"length"``, ...; None if it did not.
        error: What the server refused it with, or None.
        facts: What the plugin says of a constrained answer (``lave`` in its ``meta_info``), or
            None.
    """

    text: str
    ttft: float
    latency: float
    prompt_tokens: int = 0
    output_tokens: int = 0
    finish: str | None = None
    error: str | None = None
    facts: dict[str, Any] | None = None


class Client:
    """One server that speaks ``/v1/chat/completions``.

    Args:
        base_url: The root of the server, such as ``http://127.0.0.1:30000``.
        api_key: Sent as a bearer token, if the server asks for one.
    """

    def __init__(self, base_url: str, api_key: str | None = None) -> None:
        self.base_url = base_url.rstrip("/").removesuffix("/v1")
        self._session = requests.Session()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_maxsize=CONNECTIONS))
        if api_key:
            self._session.headers["Authorization"] = f"Bearer {api_key}"

    def model(self) -> str:
        """The name of the model that is served.

        Raises:
            ServerLost: Nothing that speaks OpenAI's API answers there.
        """
        try:
            answer = self._session.get(f"{self.base_url}/v1/models", timeout=60)
            answer.raise_for_status()
            return answer.json()["data"][0]["id"]
        except (requests.RequestException, ValueError, LookupError, TypeError) as error:
            raise ServerLost(f"{self.base_url}: {type(error).__name__}: {error}") from None

    def server_info(self) -> dict[str, Any] | None:
        """SGLang's ``/server_info``; None from a server that has none or keeps it to itself."""
        try:
            answer = self._session.get(f"{self.base_url}/server_info", timeout=60)
            return answer.json() if answer.ok else None
        except (requests.RequestException, ValueError):
            return None

    def send(self, body: Mapping[str, Any]) -> Reply:
        """Send one chat completion as a stream and wait for its end.

        A refusal is a reply with an ``error``: it is what the server gives for this request.

        Raises:
            ServerLost: There was no answer, or no whole one.
        """
        sent = perf_counter()
        body = {**body, "stream": True, "stream_options": {"include_usage": True}}
        pieces: list[str] = []
        first, finish, usage = None, None, {}
        try:
            with self._session.post(
                f"{self.base_url}/v1/chat/completions", json=body, stream=True, timeout=TIMEOUT
            ) as response:
                if not response.ok:
                    return _failed(sent, f"{response.status_code}: {message(response.text)}")
                for event in events(response):
                    if "error" in event:
                        return _failed(sent, message(json.dumps(event)))
                    usage = event.get("usage") or usage
                    for choice in event.get("choices", ()):
                        if piece := (choice.get("delta") or {}).get("content"):
                            first = first or perf_counter()
                            pieces.append(piece)
                        finish = choice.get("finish_reason") or finish
        except (requests.RequestException, ValueError) as error:
            raise ServerLost(f"{self.base_url}: {type(error).__name__}: {error}") from None
        end = perf_counter()
        if finish is None:
            raise ServerLost(f"{self.base_url}: the stream ended before the answer.")
        return Reply(
            "".join(pieces),
            (first or end) - sent,
            end - sent,
            usage.get("prompt_tokens", 0),
            usage.get("completion_tokens", 0),
            finish,
        )

    def ask(self, body: Mapping[str, Any]) -> Reply:
        """Send one chat completion that is not a stream: its ``ttft`` is its ``latency``.

        Only so does SGLang tell ``facts``.

        Raises:
            ServerLost: There was no answer.
        """
        sent = perf_counter()
        try:
            response = self._session.post(
                f"{self.base_url}/v1/chat/completions",
                json={**body, "return_meta_info": True},
                timeout=TIMEOUT,
            )
            if not response.ok:
                return _failed(sent, f"{response.status_code}: {message(response.text)}")
            answer = response.json()
            choice, usage = answer["choices"][0], answer["usage"]
            seconds = perf_counter() - sent
            return Reply(
                choice["message"]["content"] or "",
                seconds,
                seconds,
                usage["prompt_tokens"],
                usage["completion_tokens"],
                choice["finish_reason"],
                facts=(choice.get("meta_info") or {}).get("lave"),
            )
        except (requests.RequestException, ValueError, LookupError, TypeError) as error:
            raise ServerLost(f"{self.base_url}: {type(error).__name__}: {error}") from None

    def send_all(
        self, bodies: Sequence[Mapping[str, Any]], concurrency: int
    ) -> tuple[list[Reply], float]:
        """Send all, ``concurrency`` at a time; the replies in order, and seconds altogether."""
        begin = perf_counter()
        with ThreadPoolExecutor(concurrency) as pool:
            replies = list(pool.map(self.send, bodies))
        return replies, perf_counter() - begin


def events(response: requests.Response) -> Iterator[dict[str, Any]]:
    """The JSON of a stream of server-sent events, each as it arrives."""
    for line in response.iter_lines(chunk_size=None):
        if line.startswith(b"data:"):
            data = line[5:].strip()
            if data == b"[DONE]":
                return
            yield json.loads(data)


def message(text: str) -> str:
    """What an error says, out of OpenAI's or SGLang's envelope."""
    try:
        content = json.loads(text)
    except ValueError:
        return text[:500]
    error = content.get("error", content) if isinstance(content, dict) else content
    return str(error.get("message", error) if isinstance(error, dict) else error)[:500]


def _failed(sent: float, error: str) -> Reply:
    seconds = perf_counter() - sent
    return Reply("", seconds, seconds, error=error)
