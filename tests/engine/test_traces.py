"""What a request is told of its own steps, by the real engine."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from client import post
from typer.testing import CliRunner

from lave_plugin.cli import app
from lave_plugin.cli.watch import EXAMPLE

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
