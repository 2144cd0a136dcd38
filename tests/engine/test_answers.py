"""The main job in the real engine: every constrained answer is valid and complete."""

from __future__ import annotations

import itertools
import json

import jsonschema
import pytest
from client import faults, generate, generate_all, post
from mixed_requests import CONSTRAINTS, mixed_requests

from lave_plugin.demo import tasks

pytestmark = pytest.mark.engine


def in_batches(url: str, wanted: list) -> list[str]:
    """Send in batches of 1 to 8; returns the faults."""
    found, rest = [], list(wanted)
    for size in itertools.cycle(range(1, 9)):
        if not rest:
            return found
        batch, rest = rest[:size], rest[size:]
        answers = generate_all(url, [request.body() for request in batch], at_once=size)
        found += faults(batch, answers)


def test_200_mixed_requests_on_the_shipped_model(shipped_server, report):
    url = shipped_server.url
    wanted = list(mixed_requests(200, seed=1))
    assert not in_batches(url, wanted)
    free = generate_all(url, [request.body(constrained=False) for request in wanted], 8)
    report(
        f"200 mixed requests on the shipped model: 100 % valid under the constraint, "
        f"{100 - len(faults(wanted, free)) / 2:.1f} % without"
    )


def test_200_mixed_requests_on_random_weights(lave_server, report):
    """Noise must be complete too, and valid wherever xgrammar's grammar is the schema."""
    url = lave_server.url
    wanted = list(mixed_requests(200, seed=2))
    assert not in_batches(url, wanted)
    free = generate_all(url, [request.body(constrained=False) for request in wanted[:40]], 8)
    report(
        f"200 mixed requests on random weights: 100 % valid under the constraint, "
        f"{100 - len(faults(wanted[:40], free)) / 0.4:.1f} % without (of 40)"
    )


@pytest.mark.parametrize("name", [constraint.name for constraint in CONSTRAINTS])
def test_a_budget_without_a_token_to_spare(lave_server, name):
    """The engine is told to answer in what its own refusal says is enough.

    It may take fewer: the refusal counts the tokens of a sentence of the fewest bytes, and
    a longer one can be fewer tokens.
    """
    url = lave_server.url
    constraint = next(c for c in CONSTRAINTS if c.name == name)
    parameters = {"temperature": 0, constraint.field: constraint.value, "max_new_tokens": 1}
    refused = post(url, {"text": "x", "sampling_params": parameters})
    assert refused.status_code == 400
    least = int(refused.json()["error"]["message"].rsplit(" ", 1)[1].rstrip("."))
    parameters["max_new_tokens"] = least
    answer = generate(url, {"text": "x", "sampling_params": parameters})
    assert answer.finish == "stop"
    assert answer.tokens <= least
    assert constraint.is_valid(answer.text), answer.text


def test_extraction_of_held_out_records(shipped_server, report):
    """150 prompts that the model was not trained on, threshold 0.7."""
    url = shipped_server.url
    samples = tasks.held_out(150, seed=7)

    def body(sample, constrained: bool) -> dict:
        parameters = {"temperature": 0, "max_new_tokens": 99}
        if constrained:
            parameters["json_schema"] = json.dumps(sample.schema)
        prompt = f"<|im_start|>user\n{sample.prompt}<|im_end|>\n<|im_start|>assistant\n"
        return {"text": prompt, "sampling_params": parameters}

    def is_valid(sample, text: str) -> bool:
        try:
            return jsonschema.Draft202012Validator(sample.schema).is_valid(json.loads(text))
        except json.JSONDecodeError:
            return False

    scores = {}
    for constrained in (False, True):
        answers = generate_all(url, [body(sample, constrained) for sample in samples], 8)
        valid = sum(is_valid(s, a.text) for s, a in zip(samples, answers, strict=True))
        exact = sum(s.answer == a.text for s, a in zip(samples, answers, strict=True))
        scores[constrained] = (100 * valid / len(samples), 100 * exact / len(samples))
    report(
        "150 held-out extractions at threshold 0.7: valid "
        f"{scores[False][0]:.1f} -> {scores[True][0]:.1f} %, "
        f"exact {scores[False][1]:.1f} -> {scores[True][1]:.1f} %"
    )
    assert scores[True][0] == 100.0
    assert scores[True][1] >= scores[False][1] + 8
