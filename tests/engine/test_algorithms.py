"""Every algorithm that is covered, first-done-first-out and synchronous."""

from __future__ import annotations

import itertools
import json

import pytest
from client import faults, generate, generate_all, post
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


@pytest.fixture(scope="module", params=CASES)
def url(request, serve, small_random_checkpoint):
    algorithm, config, args = CASES[request.param]
    return serve(
        small_random_checkpoint,
        algorithm=algorithm,
        algorithm_config={"block_size": 16, **config},
        constrained_decoding="lave",
        args=args,
    ).url


def test_every_answer_is_valid_and_complete(url):
    wanted = list(mixed_requests(26, seed=4))
    answers = generate_all(url, [request.body() for request in wanted], at_once=8)
    assert not faults(wanted, answers)


def test_a_stream_never_shows_a_token_that_is_taken_back(url):
    """Also where committed tokens are edited: they are shown when their block is done."""
    for request in mixed_requests(4, seed=5):
        body = request.body()
        body["sampling_params"]["temperature"] = 0
        response = post(url, body | {"stream": True})
        events = [line[6:] for line in response.text.splitlines() if line]
        assert events.pop() == "[DONE]"
        shown = [json.loads(event)["text"] for event in events]
        for shorter, longer in itertools.pairwise(shown):
            assert longer.startswith(shorter)
        assert shown[-1] == generate(url, body).text
