"""Rows without a constraint get what the engine gives without the plugin, to the token."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from client import post
from mixed_requests import PROMPTS, mixed_requests

pytestmark = pytest.mark.engine

OPTIONS = {"algorithm_config": {"block_size": 16, "threshold": 0.5}}
BODIES = [
    {"text": prompt * repeat, "sampling_params": {"temperature": 0, "max_new_tokens": length}}
    for prompt in PROMPTS
    for repeat in (1, 3)
    for length in (7, 32, 45)
]


def output_ids(url: str, body: dict) -> list[int]:
    response = post(url, body)
    assert response.status_code == 200, response.text
    return response.json()["output_ids"]


@pytest.mark.parametrize("algorithm", ["LowConfidence", "JointThreshold"])
def test_identical_alone_and_among_constrained_rows(serve, random_checkpoint, algorithm):
    """This checkpoint has the engine's own mask id, so it runs without any plugin."""
    server = serve(random_checkpoint, algorithm=algorithm, plugins=False, **OPTIONS)
    expected = [output_ids(server.url, body) for body in BODIES]

    server = serve(random_checkpoint, algorithm=algorithm, constrained_decoding="lave", **OPTIONS)
    assert [output_ids(server.url, body) for body in BODIES] == expected, "alone"

    constrained = [request.body() for request in mixed_requests(len(BODIES), seed=3)]
    mixed = [body for pair in zip(BODIES, constrained, strict=True) for body in pair]
    with ThreadPoolExecutor(8) as pool:
        among = list(pool.map(lambda body: output_ids(server.url, body), mixed))
    assert among[::2] == expected, "among constrained rows"
