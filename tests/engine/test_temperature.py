"""Temperature, nucleus and seed of constrained requests, in the real engine."""

from __future__ import annotations

import re

import pytest
from client import generate_all

pytestmark = pytest.mark.engine

PATTERN = "[a-z]{3,9}( [a-z]{2,9}){2}"
ALGORITHMS = {
    "LowConfidence": {"block_size": 16, "threshold": 0.7},
    "JointThreshold": {"block_size": 16, "threshold": 0.5, "edit_threshold": 0},
}


def body(**parameters) -> dict:
    parameters = {"regex": PATTERN, "max_new_tokens": 43, **parameters}
    return {"text": "Some words:", "sampling_params": parameters}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_draws_go_by_the_seed_and_nothing_else(serve, small_random_checkpoint, algorithm):
    url = serve(
        small_random_checkpoint,
        algorithm=algorithm,
        algorithm_config=ALGORITHMS[algorithm],
        constrained_decoding="lave",
    ).url

    def answers(bodies, at_once):
        found = [answer.text for answer in generate_all(url, bodies, at_once)]
        assert all(re.fullmatch(PATTERN, text) for text in found), found
        return found

    seeds = [body(temperature=1.0, sampling_seed=seed) for seed in range(5)]
    alone = answers(seeds, 1)
    assert len(set(alone)) > 3
    crowd = [body(temperature=0.0), *seeds, body(temperature=0.7, sampling_seed=1)]
    together = answers(crowd, 8)
    assert together[1:-1] == alone

    greedy = answers([body(temperature=0.0), body(temperature=0.0, sampling_seed=5)], 1)
    assert greedy[0] == greedy[1] == together[0]
    unlikely = answers([body(temperature=1.0, sampling_seed=s, top_p=1e-6) for s in (1, 2)], 1)
    assert unlikely == [greedy[0]] * 2
    unseeded = answers([body(temperature=1.0)] * 5, 5)
    assert len(set(unseeded)) > 3
