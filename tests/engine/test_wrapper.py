"""Retraction, preemption, abort and a slow reader, on the plugin's side of the engine.

In SGLang 0.5.23 no dLLM request survives the first two: preemption looks for running requests
where there are none, and ``/pause_generation`` with mode retract ends the scheduler ("Redundant
requests detected"), with the plugin or without. So this is our side of it, on objects that
have what ours reads (``scripted_scheduler.py``). Aborts are in ``test_faults.py`` as well. How
fast a stream is read can't be timed with the real engine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lave_plugin.engines.sglang import cpu

pytestmark = pytest.mark.engine

HERE = Path(__file__).parent
DISTURBED = [
    "retracted in its first block",
    "retracted in a later block",
    "retracted before its first pass",
    "retracted, alone when it comes back",
    "retracted again and again",
    "the order of the batch changes",
    "a request comes later",
]


@pytest.fixture(scope="module")
def outcomes() -> dict:
    environment = cpu.environment()
    paths = [str(HERE.parent / "core"), environment.get("PYTHONPATH", "")]
    result = subprocess.run(
        [sys.executable, str(HERE / "scripted_scheduler.py")],
        env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_the_requests_are_what_the_others_are_compared_with(outcomes):
    """Several blocks each, complete, and one of them without a constraint."""
    for rid, outcome in outcomes["undisturbed"].items():
        assert outcome["failure"] is None
        assert len(outcome["ids"]) > 8, "more than a block"
        assert outcome["valid"] is (None if rid == "free" else True)


@pytest.mark.parametrize("name", DISTURBED)
def test_every_request_gets_the_answer_that_it_gets_undisturbed(outcomes, name):
    assert outcomes[name] == outcomes["undisturbed"]


def test_a_block_that_begins_again_begins_without_what_was_known_of_it(outcomes):
    """The model proposes something else the second time, so only the others can stay the same."""
    disturbed, others = (
        outcomes["retracted, and the model of another mind"],
        outcomes["undisturbed"],
    )
    assert disturbed["list"]["valid"]
    assert disturbed["list"] != others["list"]
    for rid in others.keys() - {"list"}:
        assert disturbed[rid] == others[rid]


def test_a_slow_reader_is_told_every_step_once(outcomes):
    traced = outcomes["traced"]
    assert traced["streamed"] == traced["streamed to a slow reader"] == traced["whole"]
    assert [rid for rid, told in traced["whole"].items() if not told["steps"]] == ["free"]


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("aborted in the middle of a block", {"message": "Aborted", "status_code": None}),
        ("without its grammar", {"message": "LookupError", "status_code": 500}),
    ],
)
def test_an_end_in_the_middle_is_that_request_s_alone(outcomes, name, failure):
    ended = outcomes[name].pop("bounded")
    assert failure["message"] in ended["failure"]["message"]
    assert ended["failure"]["status_code"] == failure["status_code"]
    others = {rid: of_it for rid, of_it in outcomes["undisturbed"].items() if rid != "bounded"}
    assert outcomes[name] == others
