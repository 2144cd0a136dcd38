"""Sends requests to a server, several at once, and judges the answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import requests
from mixed_requests import Request

TIMEOUT = 120
"""Seconds after which a request counts as hung."""


@dataclass(frozen=True)
class Answer:
    """One answer of the native API.

    Attributes:
        text: without the end token.
        finish: ``finish_reason["type"]``.
        tokens: number of output tokens.
    """

    text: str
    finish: str
    tokens: int


def post(url: str, body: dict[str, Any], timeout: float = TIMEOUT) -> requests.Response:
    return requests.post(f"{url}/generate", json=body, timeout=timeout)


def generate(url: str, body: dict[str, Any]) -> Answer:
    response = post(url, body)
    assert response.status_code == 200, response.text
    result = response.json()
    meta = result["meta_info"]
    return Answer(result["text"], meta["finish_reason"]["type"], meta["completion_tokens"])


def generate_all(url: str, bodies: Iterable[dict[str, Any]], at_once: int) -> list[Answer]:
    """Answers in the order of ``bodies``, ``at_once`` of them under way."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda body: generate(url, body), bodies))


def faults(batch: list[Request], answers: list[Answer]) -> list[str]:
    """A line for each answer that is invalid, cut, or longer than asked for."""
    lines = []
    for request, answer in zip(batch, answers, strict=True):
        wrong = [
            *(["invalid"] if not request.constraint.is_valid(answer.text) else []),
            *([f"ended by {answer.finish}"] if answer.finish != "stop" else []),
            *(["too long"] if answer.tokens > request.max_new_tokens else []),
        ]
        if wrong:
            lines.append(f"{request.constraint.name}: {', '.join(wrong)}: {answer.text!r}")
    return lines


def counts(url: str) -> Counter[tuple[str, str]]:
    """What the server counts for the plugin: by series and the labels that are its own."""
    found: Counter[tuple[str, str]] = Counter()
    for line in requests.get(f"{url}/metrics", timeout=20).text.splitlines():
        if match := re.fullmatch(r"lave:(\w+)\{(.*)\} (\S+)", line):
            assert 'model_name="' in match[2]
            own = re.findall(
                r'\b(?:strategy|constraint|outcome|reason|result|le)="([^"]*)"', match[2]
            )
            found[match[1], " ".join(own)] += float(match[3])
    return found
