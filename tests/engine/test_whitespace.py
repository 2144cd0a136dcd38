"""Whitespace in JSON is bounded, so that no answer is filled with blanks."""

from __future__ import annotations

import json
import re

import pytest
from client import generate_all
from launches import LAVE

from lave_plugin.options import LaveOptions

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


@pytest.fixture(scope="module")
def bounded_server(serve, small_random_checkpoint):
    config = {**LAVE["algorithm_config"], "lave": {"json_max_whitespace": 2}}
    return serve(small_random_checkpoint, **{**LAVE, "algorithm_config": config})


def widest(url: str, name: str) -> int:
    """Over several answers, each of which is JSON."""
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
    return max(map(widest_blank, texts))


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_noise_shows_that_a_limit_matters(lave_server, name):
    """With the default, which is wide."""
    assert 2 < widest(lave_server.url, name) <= LaveOptions().json_max_whitespace


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_no_answer_has_more_blanks_than_the_limit(bounded_server, name):
    assert widest(bounded_server.url, name) <= 2
