"""Rows laid out in C++ are those that NumPy lays out."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lave_plugin import batch, native
from lave_plugin.batch import NOTHING_DRAWN, Row
from lave_plugin.candidates import CandidateCutter
from lave_plugin.grammar.vocabulary import Vocabulary

MASK_ID = 1
BLOCK = 6
NOTHING = SimpleNamespace(special_tokens=frozenset())
SESSION = SimpleNamespace(tokens=NOTHING, is_thinking=False, tokens_left=99)


def cutter_of(size: int, without_text: list[int]) -> CandidateCutter:
    data = [b"" if token in without_text else b"x%d" % token for token in range(size)]
    return CandidateCutter(Vocabulary(data, [0]), MASK_ID, 4)


def laid_out(rows, before, after, logits, cutter) -> dict[str, np.ndarray]:
    step = batch._Step(rows, before, after, logits, cutter, MASK_ID, 0.7, NOTHING_DRAWN)
    if not step.is_refined:
        step.masked = step.owed
        step._refine_proposals()
    best = np.where(step.owed, step.best, 0)
    return {
        "before": step.before,
        "canvases": step.canvases,
        "proposed": step.proposed,
        "best": best,
        "owed": step.owed,
    }


@settings(max_examples=120, deadline=None)
@given(
    size=st.integers(3, 90),
    padding=st.integers(0, 20),
    rows=st.integers(1, 4),
    others=st.integers(0, 2),
    distinct=st.booleans(),
    seed=st.integers(0, 1 << 20),
    without_text=st.lists(st.integers(2, 89), max_size=30),
)
def test_as_numpy_lays_them_out(size, padding, rows, others, distinct, seed, without_text):
    generator = torch.Generator().manual_seed(seed)
    shape, width = (rows + others, BLOCK), size + padding

    def tokens() -> torch.Tensor:
        return torch.randint(0, size, shape, generator=generator)

    def sometimes(share: float) -> torch.Tensor:
        return torch.rand(shape, generator=generator) < share

    before = torch.where(sometimes(0.6), MASK_ID, tokens())
    after = torch.where(sometimes(0.5), tokens(), before)
    logits = torch.randn(*shape, width, generator=generator)
    if not distinct:
        logits = logits.round()
    index = torch.randperm(rows + others, generator=generator)[:rows].tolist()
    firsts = torch.randint(0, BLOCK, (rows,), generator=generator).tolist()
    given = [Row(at, SESSION, [], first) for at, first in zip(index, firsts, strict=True)]
    cutter = cutter_of(size, without_text)
    found = laid_out(given, before, after, logits, cutter)
    expected = laid_out(given, before, after, logits.double(), cutter)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array), name


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("width", [5, 8, 21])
def test_whatever_the_logits_are_the_best_is_a_token(value, width):
    before = np.full((1, BLOCK), MASK_ID)
    logits = np.full((1, BLOCK, width), value, dtype=np.float32)
    where = (np.zeros(1, np.int64), np.zeros(1, np.int64))
    for barred in (np.zeros(width, bool), np.ones(width, bool)):
        *_, best, _ = native.lay_out(before, before, logits, *where, barred, MASK_ID)
        assert ((best >= 0) & (best < width)).all()


GOOD = {
    "before": np.full((2, BLOCK), MASK_ID),
    "after": np.full((2, BLOCK), 3),
    "logits": np.zeros((2, BLOCK, 9), np.float32),
    "index": np.array([1]),
    "first": np.array([0]),
    "barred": np.zeros(9, bool),
    "mask_id": MASK_ID,
}
BAD = [
    {"before": GOOD["before"].astype(np.int32)},
    {"before": GOOD["before"][:, :4]},
    {"after": GOOD["after"][:1]},
    {"after": np.full((2, BLOCK), 9)},
    {"after": np.full((2, BLOCK), -7)},
    {"logits": np.zeros((2, BLOCK, 9))},
    {"logits": np.zeros((2, BLOCK, 0), np.float32), "barred": np.zeros(0, bool)},
    {"index": np.array([2])},
    {"index": np.array([-1])},
    {"first": np.array([0, 0])},
    {"barred": np.zeros(8, bool)},
    {"barred": np.zeros(9, np.float32)},
]


@pytest.mark.parametrize("change", BAD, ids=lambda change: ", ".join(change))
def test_what_is_no_batch_is_refused(change):
    native.lay_out(**GOOD)
    with pytest.raises((TypeError, ValueError, IndexError)):
        native.lay_out(**{**GOOD, **change})


@settings(max_examples=30, deadline=None)
@given(first=st.integers(-(2**62), 2**62), token=st.integers(-(2**62), 2**62))
def test_any_number_is_laid_out_or_refused(first, token):
    change = {"first": np.array([first]), "before": np.full((2, BLOCK), token)}
    with contextlib.suppress(TypeError, ValueError, IndexError):
        native.lay_out(**{**GOOD, **change})
