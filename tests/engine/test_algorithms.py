"""Every algorithm that is covered, first-done-first-out and synchronous."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from client import faults, generate, generate_all, post
from mixed_requests import mixed_requests

pytestmark = pytest.mark.engine

CASES = {
    "LowConfidence, block of 4, synchronous": (
        "LowConfidence",
        {"block_size": 4},
        ["--no-dllm-fdfo"],
    ),
    "LowConfidence, sampled lookahead": (
        "LowConfidence",
        {"lave": {"lookahead": "sampled", "samples": 10}},
        [],
    ),
    "JointThreshold, every position edited": (
        "JointThreshold",
        {"threshold": 0.5, "edit_threshold": 0.0},
        [],
    ),
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


PATTERN = "[a-z]{3,9}( [a-z]{2,9}){2}"


def words(**parameters) -> dict:
    parameters = {"regex": PATTERN, "max_new_tokens": 43, **parameters}
    return {"text": "Some words:", "sampling_params": parameters}


def test_draws_go_by_the_seed_and_nothing_else(url):
    def answers(bodies, at_once):
        found = [answer.text for answer in generate_all(url, bodies, at_once)]
        assert all(re.fullmatch(PATTERN, text) for text in found), found
        return found

    seeds = [words(temperature=1.0, sampling_seed=seed) for seed in range(5)]
    alone = answers(seeds, 1)
    assert len(set(alone)) > 3
    crowd = [words(temperature=0.0), *seeds, words(temperature=0.7, sampling_seed=1)]
    together = answers(crowd, 8)
    assert together[1:-1] == alone

    greedy = answers([words(temperature=0.0), words(temperature=0.0, sampling_seed=5)], 1)
    assert greedy[0] == greedy[1] == together[0]
    unlikely = answers([words(temperature=1.0, sampling_seed=s, top_p=1e-6) for s in (1, 2)], 1)
    assert unlikely == [greedy[0]] * 2
    unseeded = answers([words(temperature=1.0)] * 5, 5)
    assert len(set(unseeded)) > 3
