"""All that the tiny dLLM is trained on, and what it is judged by.

Training is a function of a lesson, a seed and a number: ``training_samples(lesson, seed, group)``
is the group-th handful of samples, whatever was drawn before, so a run that stops can go on where
it was.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lave_plugin.demo.coined import ENDINGS, MORE_ENDINGS
from lave_plugin.demo.records import (
    Draw,
    Sample,
    copy_sample,
    expression_sample,
    field_sample,
    record_sample,
    split_of,
)
from lave_plugin.demo.tasks import calls, extraction, sql
from lave_plugin.demo.tasks.calls import json_call_sample, python_call_sample
from lave_plugin.demo.tasks.cpp import cpp_sample, plain_cpp_sample
from lave_plugin.demo.tasks.extraction import composed_sample, unseen_sample, woven_sample
from lave_plugin.demo.tasks.molecules import smiles_sample
from lave_plugin.demo.tasks.sql import sql_sample

MAKERS: Mapping[str, Callable[[Draw], Sample]] = {
    "record": record_sample,
    "composed": composed_sample,
    "unseen": unseen_sample,
    "json call": json_call_sample,
    "python call": python_call_sample,
    "cpp": cpp_sample,
    "smiles": smiles_sample,
    "sql": sql_sample,
    "expression": expression_sample,
    "field": field_sample,
    "copy": copy_sample,
}
"""``record`` and ``composed`` are extraction of types that training knows, ``unseen`` of others."""

UNSEEN_WORDS = extraction.UNSEEN_WORDS | calls.UNSEEN_WORDS | sql.UNSEEN_WORDS
"""Words that stand in no training sample of any task."""

PRACTICE: Mapping[str, Callable[[Draw], Sample]] = {
    "plain cpp": plain_cpp_sample,
    "woven": woven_sample,
}
"""Easier or wilder forms of the tasks, of training only."""


@dataclass(frozen=True)
class Lesson:
    """What a part of training draws from.

    shares: how often it shows each task; ``copy`` has a share of its own, ``unseen`` has none.
    coined_share: how often it coins a word instead of taking a listed one.
    endings: of the words that it coins.
    """

    shares: Mapping[str, float]
    coined_share: float
    endings: Sequence[str] = tuple(ENDINGS)


FIRST_LESSON = Lesson(
    {
        "record": 0.15,
        "composed": 0.25,
        "json call": 0.08,
        "python call": 0.08,
        "plain cpp": 0.16,
        "smiles": 0.1,
        "sql": 0.13,
        "expression": 0.03,
        "field": 0.02,
    },
    coined_share=0.5,
)
LAST_LESSON = Lesson(
    {
        "record": 0.05,
        "composed": 0.2,
        "woven": 0.24,
        "json call": 0.1,
        "python call": 0.17,
        "cpp": 0.1,
        "smiles": 0.06,
        "sql": 0.06,
        "expression": 0.01,
        "field": 0.01,
    },
    coined_share=0.85,
    endings=(*ENDINGS, *MORE_ENDINGS),
)


def drawn(draw: Draw, task: str) -> Sample:
    """A sample of a task whose prompt belongs to ``draw.split``."""
    while True:
        sample = (MAKERS.get(task) or PRACTICE[task])(draw)
        if split_of(sample.prompt) == draw.split:
            return sample


def training_samples(
    lesson: Lesson, seed: int, group: int, count: int, copy_share: float
) -> list[Sample]:
    """The ``group``-th samples of the training stream; ``copy_share`` of them are to copy."""
    rng = random.Random(f"train {seed} {group}")
    draw = Draw(rng, "train", UNSEEN_WORDS, lesson.coined_share, lesson.endings)
    tasks = rng.choices(list(lesson.shares), list(lesson.shares.values()), k=count)
    return [drawn(draw, "copy" if draw.chance(copy_share) else task) for task in tasks]


def held_out(count: int, seed: int, task: str = "record") -> list[Sample]:
    """``count`` samples of one task that training never sees."""
    draw = Draw(random.Random(f"held-out {seed}"), "held-out")
    return [drawn(draw, task) for _ in range(count)]
