"""The main job in the real engine: every constrained answer is valid and complete."""

from __future__ import annotations

import itertools
import random
import time

import pytest
import requests
from client import faults, generate, generate_all, post
from mixed_requests import CONSTRAINTS, mixed_requests

from lave_plugin.demo import tasks
from lave_plugin.demo.records import Sample
from lave_plugin.demo.requests import CHAT, sampling_of
from lave_plugin.demo.tasks.judging import is_valid

pytestmark = pytest.mark.engine

TASKS = [task for task in tasks.MAKERS if task != "copy"]
"""Repeated words have no constraint."""


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


def test_the_shipped_model_ends_what_makes_no_sense_to_it_and_then_rests(shipped_server):
    """SGLang fills a mask with the mask if the model likes that best, and so for ever; its own
    health check begins with a token that no prompt begins with."""
    url = shipped_server.url
    rng = random.Random(0)
    prompts = [[0], [3], [0, 3] * 5, *([rng.randrange(1536) for _ in range(20)] for _ in range(29))]
    parameters = {"temperature": 0, "max_new_tokens": 24, "ignore_eos": True}
    asked = [{"input_ids": ids, "sampling_params": parameters} for ids in prompts]
    assert [answer.tokens for answer in generate_all(url, asked, 8)] == [24] * len(asked)
    made = steps_made(url)
    time.sleep(1)
    assert steps_made(url) == made > 0


def steps_made(url: str) -> int:
    info = requests.get(f"{url}/server_info", timeout=60).json()
    times = info["internal_states"][0]["lave"]["step_times"]
    return sum(entry["total"]["steps"] for entry in times)


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


# In percent of the prompts: what the constraint must add to exact answers of all tasks together.
GAIN = 12


def test_held_out_prompts_of_every_task(shipped_server, report):
    """30 prompts of each task that the model was not trained on, threshold 0.7."""
    url = shipped_server.url
    samples = {task: tasks.held_out(30, seed=7, task=task) for task in TASKS}

    def body(sample: Sample, constrained: bool) -> dict:
        parameters = {"temperature": 0, "max_new_tokens": 128}
        if constrained:
            parameters |= sampling_of(sample)
        return {"text": CHAT.format(prompt=sample.prompt), "sampling_params": parameters}

    every = [sample for of_task in samples.values() for sample in of_task]
    scores = {}
    for constrained in (False, True):
        answers = generate_all(url, [body(sample, constrained) for sample in every], 8)
        told = iter(answers)
        for task, of_task in samples.items():
            pairs = [(sample, next(told).text) for sample in of_task]
            valid = sum(is_valid(*pair) for pair in pairs)
            exact = sum(sample.answer == text for sample, text in pairs)
            scores[task, constrained] = (valid, exact)
    for task, of_task in samples.items():
        (valid, exact), (valid_now, exact_now) = scores[task, False], scores[task, True]
        report(f"30 of {task}: valid {valid} -> {valid_now}, exact {exact} -> {exact_now}")
        assert valid_now == len(of_task)
        assert exact_now >= exact
    exact, exact_now = (sum(scores[task, kept][1] for task in TASKS) for kept in (False, True))
    assert exact_now >= exact + len(every) * GAIN / 100
