"""What a request is told of its own steps, by the real engine."""

from __future__ import annotations

import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import requests
from client import TIMEOUT, post
from typer.testing import CliRunner

from lave_plugin.bench.client import events
from lave_plugin.cli import app
from lave_plugin.cli.watch import EXAMPLE
from lave_plugin.trace import join, nothing_told

pytestmark = pytest.mark.engine

BODY = {
    "text": "x",
    "sampling_params": {"regex": "[a-z]{4} is forced", "temperature": 0, "max_new_tokens": 40},
}


def tracing(body: dict, chosen: dict) -> dict:
    parameters = {**body["sampling_params"], "custom_params": {"lave": chosen}}
    return {**body, "sampling_params": parameters}


@pytest.mark.parametrize("strategy", ["lave", "map"])
def test_a_trace_adds_up_to_its_answer_and_changes_nothing(lave_server, strategy):
    url = lave_server.url
    plain = post(url, tracing(BODY, {"strategy": strategy, "trace": False})).json()
    traced = post(url, tracing(BODY, {"strategy": strategy, "trace": True})).json()
    facts = traced["meta_info"]["lave"]
    trace = facts.pop("trace")
    assert (plain["text"], plain["meta_info"]["lave"]) == (traced["text"], facts)
    assert len(trace["steps"]) == facts["steps"]
    fates = Counter(fate for step in trace["steps"] for fate, *_ in step["events"])
    assert fates["refused"] == facts["refusals"]
    assert fates["recovered"] == facts["recoveries"]
    assert fates["forced"] == facts["forced_tokens"]
    blocks = {step["begin"]: step["after"] for step in trace["steps"]}
    written = [token for block in blocks.values() for token in block]
    assert written[: len(traced["output_ids"])] == traced["output_ids"]
    end = next(place for place, token in enumerate(written) if token in trace["end_tokens"])
    assert "".join(trace["texts"][str(token)] for token in written[:end]) == traced["text"]


LONG = {"regex": "[a-z]{40} is forced", "temperature": 0}
"""Three blocks and more: a stream has text while others are still masked."""
NATIVE = {"text": "x", "sampling_params": {**LONG, "max_new_tokens": 80}}


def streamed(url: str, body: dict) -> list[dict]:
    body = {**body, "stream": True}
    with requests.post(url, json=body, stream=True, timeout=TIMEOUT) as response:
        assert response.status_code == 200, response.text
        return list(events(response))


def test_in_a_stream_the_steps_come_as_they_are_made(lave_server):
    body = tracing(NATIVE, {"trace": True})
    whole = post(lave_server.url, body).json()
    facts = whole["meta_info"]["lave"]
    trace = facts.pop("trace")
    chunks = streamed(f"{lave_server.url}/generate", body)
    told, early, with_steps = nothing_told(), 0, 0
    for chunk in chunks:
        of_lave = dict(chunk["meta_info"]["lave"])
        part = of_lave.pop("trace")
        join(told, part)
        if chunk["meta_info"]["finish_reason"] is None:
            assert not of_lave and len(chunk["text"]) < len(whole["text"])
            early += len(part["steps"])
            with_steps += bool(part["steps"])
    assert told == trace
    assert (of_lave, chunk["text"]) == (facts, whole["text"])
    # By the step and not by the block, and most of them before the answer ends.
    blocks = len({step["begin"] for step in trace["steps"]})
    assert blocks > 2 and with_steps > blocks and early > len(trace["steps"]) / 2


def test_who_asks_for_no_steps_gets_none_beside_one_who_does(lave_server):
    bodies = [NATIVE, tracing(NATIVE, {"trace": True})]
    with ThreadPoolExecutor() as pool:
        untraced, traced = pool.map(partial(streamed, f"{lave_server.url}/generate"), bodies)
    assert len(untraced) > 3
    assert [chunk for chunk in untraced if "lave" in chunk["meta_info"]] == untraced[-1:]
    assert "trace" not in untraced[-1]["meta_info"]["lave"]
    assert all("trace" in chunk["meta_info"]["lave"] for chunk in traced)


def test_a_streamed_chat_tells_them_beside_its_text(lave_server):
    chat = {"model": "default", "messages": [{"role": "user", "content": "x"}], "max_tokens": 80}
    told, text, early = nothing_told(), "", 0
    for chunk in streamed(
        f"{lave_server.url}/v1/chat/completions",
        {**chat, **LONG, "custom_params": {"lave": {"trace": True, "report": True}}},
    ):
        text += chunk["choices"][0]["delta"].get("content") or ""
        if "metadata" in chunk:
            (facts,) = chunk["metadata"]["lave"]
            join(told, facts["trace"])
            early += len(facts["trace"]["steps"]) if len(text) < 40 else 0
    assert re.fullmatch(LONG["regex"], text)
    assert len(told["steps"]) == facts["steps"] > early > 3


def test_what_is_no_answer_to_trace_is_refused(lave_server):
    response = post(lave_server.url, tracing(BODY, {"trace": 1}), timeout=20)
    assert response.status_code == 400
    assert "lave.trace must be true or false" in response.json()["error"]["message"]


def test_watching_a_running_server(shipped_server, tmp_path):
    """The example: the model would have genres, and the schema a year."""
    result = CliRunner().invoke(app, ["watch", "--url", shipped_server.url])
    assert result.exit_code == 0, result.output
    assert "✘ refused" in result.output and "→ forced" in result.output
    answer = next(line for line in result.output.splitlines() if line.startswith('{"director"'))
    assert json.loads(answer).keys() == set(json.loads(EXAMPLE[1])["properties"])
    page = tmp_path / "page.html"
    command = ["watch", "--url", shipped_server.url, "--grammar", "smiles", "--max-tokens", "30"]
    result = CliRunner().invoke(app, [*command, "a molecule", "--html", str(page)])
    assert result.exit_code == 0, result.output
    assert '"kind":"grammar","constraint":"smiles"' in page.read_text()
