"""Rows without a constraint get what the engine gives without the plugin, to the token."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from client import post
from mixed_requests import PROMPTS

pytestmark = pytest.mark.engine

OPTIONS = {"algorithm_config": {"block_size": 16, "threshold": 0.5}}
BODIES = [
    {"text": prompt * repeat, "sampling_params": {"temperature": 0, "max_new_tokens": length}}
    for prompt, repeat, length in zip(PROMPTS, (1, 3, 1, 2), (7, 32, 20, 33), strict=True)
]
# Few and short: with the engine's own vocabulary of 151,670 a step is slow on a CPU.
CONSTRAINED = [
    {"text": "x", "sampling_params": {"max_new_tokens": 30, field: value}}
    for field, value in (
        ("regex", "[0-9]{4}-[0-9]{2}"),
        ("json_schema", '{"type": "array", "items": {"type": "boolean"}, "maxItems": 3}'),
        ("ebnf", 'root ::= "yes" | "no" ", " root'),
        ("regex", "[a-f]{17}"),
    )
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

    mixed = [body for pair in zip(BODIES, CONSTRAINED, strict=True) for body in pair]
    with ThreadPoolExecutor(8) as pool:
        among = list(pool.map(lambda body: output_ids(server.url, body), mixed))
    assert among[::2] == expected, "among constrained rows"
