"""LLaDA2 on the CPU: a mixture of experts, blocks of 32, several end tokens."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from client import faults, generate_all, post
from mixed_requests import mixed_requests
from random_llada2 import ENDS, MASK_ID, write_random_llada2

pytestmark = pytest.mark.engine

CASES = {
    "LowConfidence": ("LowConfidence", {"threshold": 0.3}),
    # LLaDA2.1 as it is served.
    "JointThreshold": ("JointThreshold", {"threshold": 0.5, "edit_threshold": 0.0}),
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write_random_llada2(tmp_path_factory.mktemp("random-llada2"))


@pytest.fixture(scope="module", params=CASES)
def url(request, serve, checkpoint):
    algorithm, config = CASES[request.param]
    return serve(
        checkpoint,
        algorithm=algorithm,
        algorithm_config=config,
        constrained_decoding="lave",
        args=["--trust-remote-code"],
    ).url


def test_every_answer_is_valid_and_complete(url):
    wanted = list(mixed_requests(26, seed=6))
    answers = generate_all(url, [request.body() for request in wanted], at_once=8)
    assert not faults(wanted, answers)


def test_any_end_token_ends_an_answer_and_none_stands_inside(url, checkpoint):
    """Short answers to many prompts, so that the end falls anywhere in a block of 32."""
    tokenizer = json.loads((checkpoint / "tokenizer.json").read_text())
    ends = {t["id"] for t in tokenizer["added_tokens"] if t["content"] in ENDS}
    assert len(ends) == 3
    bodies = [
        {"input_ids": [7 + seed] * (1 + seed), "sampling_params": {"regex": "[a-f]{1,60}"}}
        for seed in range(24)
    ]
    with ThreadPoolExecutor(8) as pool:
        results = [response.json() for response in pool.map(lambda body: post(url, body), bodies)]
    matched = set()
    for result in results:
        assert result["meta_info"]["finish_reason"]["type"] == "stop", result
        *inside, last = result["output_ids"]
        assert last in ends and ends.isdisjoint(inside) and MASK_ID not in inside
        matched.add(last)
    assert len(matched) > 1, "always the same one"
