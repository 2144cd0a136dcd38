"""Every algorithm that is covered, first-done-first-out and synchronous."""

from __future__ import annotations

import pytest
from client import faults, generate_all
from mixed_requests import mixed_requests

pytestmark = pytest.mark.engine

CASES = {
    "LowConfidence, synchronous": ("LowConfidence", {"threshold": 0.7}, ["--no-dllm-fdfo"]),
    "LowConfidence, block of 4": ("LowConfidence", {"block_size": 4}, []),
    "LowConfidence, sampled lookahead": (
        "LowConfidence",
        {"lave": {"lookahead": "sampled", "samples": 10}},
        [],
    ),
    "JointThreshold": ("JointThreshold", {"threshold": 0.5}, []),
    "JointThreshold, every position edited": ("JointThreshold", {"edit_threshold": 0.0}, []),
    "JointThreshold, edits, synchronous": (
        "JointThreshold",
        {"edit_threshold": 0.0, "max_post_edit_steps": 4},
        ["--no-dllm-fdfo"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_answer_is_valid_and_complete(serve, small_random_checkpoint, name):
    algorithm, config, args = CASES[name]
    server = serve(
        small_random_checkpoint,
        algorithm=algorithm,
        algorithm_config={"block_size": 16, **config},
        constrained_decoding="lave",
        args=args,
    )
    wanted = list(mixed_requests(39, seed=4))
    answers = generate_all(server.url, [request.body() for request in wanted], at_once=8)
    assert not faults(wanted, answers)
