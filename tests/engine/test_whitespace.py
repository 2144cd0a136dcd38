"""Whitespace in JSON is bounded, so that no answer is filled with blanks."""

from __future__ import annotations

import json
import re

import pytest
from client import generate_all

pytestmark = pytest.mark.engine

STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
PAIR = {"properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["a", "b"]}


def widest_blank(text: str) -> int:
    return max(map(len, re.findall(r"\s*", STRING.sub('""', text))))


SCHEMA = {"type": "object", **PAIR}
CONSTRAINTS = {
    "any JSON": {"json_schema": "$$ANY$$"},
    "schema": {"json_schema": json.dumps(SCHEMA)},
    "structural tag": {
        "structural_tag": json.dumps(
            {
                "type": "structural_tag",
                "format": {"type": "json_schema", "json_schema": SCHEMA},
            }
        )
    },
}


@pytest.fixture(scope="module", params=[2, None], ids=["bounded", "unbounded"])
def limit(request) -> int | None:
    return request.param


@pytest.fixture(scope="module")
def url(serve, small_random_checkpoint, limit) -> str:
    return serve(
        small_random_checkpoint,
        algorithm="LowConfidence",
        algorithm_config={
            "block_size": 16,
            "threshold": 0.7,
            "lave": {"json_max_whitespace": limit},
        },
        constrained_decoding="lave",
    ).url


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_blanks(url, limit, name):
    """Without the limit the noise of a random model shows that it would matter."""
    bodies = [
        {
            "text": f"{seed} {{",
            "sampling_params": {
                **CONSTRAINTS[name],
                "max_new_tokens": 60,
                "temperature": 1.0,
                "sampling_seed": seed,
            },
        }
        for seed in range(16)
    ]
    texts = [answer.text for answer in generate_all(url, bodies, 8)]
    for text in texts:
        json.loads(text)
    widest = max(map(widest_blank, texts))
    assert widest <= 2 if limit else widest > 2
