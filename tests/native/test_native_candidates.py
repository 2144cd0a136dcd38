"""Candidates cut in C++ are those that torch cuts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lave_plugin import native
from lave_plugin.candidates import CandidateCutter
from lave_plugin.grammar.vocabulary import Vocabulary

REFUSED = (TypeError, ValueError, IndexError)


def cutter_of(size: int, top_k: int, without_text: list[int]) -> CandidateCutter:
    data = [b"" if token in without_text else b"x%d" % token for token in range(size)]
    return CandidateCutter(Vocabulary(data, [0]), 1, top_k)


@settings(max_examples=80, deadline=None)
@given(
    size=st.integers(2, 300),
    top_k=st.integers(0, 70),
    padding=st.integers(0, 20),
    scale=st.sampled_from([0.1, 3.0, 40.0]),
    seed=st.integers(0, 1 << 20),
    data=st.data(),
)
def test_as_torch_cuts_them(size, top_k, padding, scale, seed, data):
    without_text = data.draw(st.lists(st.integers(1, size - 1), max_size=9))
    special = frozenset(data.draw(st.lists(st.sampled_from(without_text))) if without_text else [])
    cutter = cutter_of(size, top_k, without_text)
    generator = torch.Generator().manual_seed(seed)
    width = size + padding
    # No two are equal: which of them comes first would be torch's own business.
    ranks = torch.stack([torch.randperm(width, generator=generator) for _ in range(8)])
    logits = (ranks.float() / width * scale).reshape(2, 4, width)
    masked = torch.rand((2, 4), generator=generator).numpy() < 0.8
    first = np.zeros((2, 4), np.int32)
    for row, position in np.argwhere(masked):
        allowed = [t for t in range(size) if not cutter.barred(width)[t] or t in special]
        first[row, position] = data.draw(st.sampled_from(allowed))
    found = cutter.cut(logits, masked, first, special=[special, special])
    expected = cutter.cut(logits.double(), masked, first, special=[special, special])
    assert np.array_equal(found.tokens, expected.tokens)
    there = found.tokens >= 0
    assert np.allclose(
        found.probabilities[there], expected.probabilities[there], rtol=1e-5, atol=1e-7
    )


def test_of_equals_the_lower_id_comes_first():
    cutter = cutter_of(50, 4, [2])
    found = cutter.cut(torch.zeros(1, 1, 50), np.ones((1, 1), bool), np.full((1, 1), 40, np.int32))
    assert found.tokens.tolist() == [[[40, 0, 3, 4, 5]]]
    assert np.allclose(found.probabilities, 1 / 48)


def test_a_large_vocabulary_loses_no_mass():
    logits = torch.randn(1, 1, 151_000, generator=torch.Generator().manual_seed(0)).mul_(2)
    cutter = cutter_of(151_000, 16, [])
    first = logits.argmax(-1).numpy().astype(np.int32)
    found = cutter.cut(logits, np.ones((1, 1), bool), first)
    expected = logits.double().index_fill(-1, torch.tensor([1]), -torch.inf).softmax(-1)
    tokens, probabilities = found.tokens[0, 0, :-1], found.probabilities[0, 0, :-1]
    assert (tokens >= 0).all()
    assert np.allclose(probabilities, expected[0, 0][tokens], rtol=1e-5)


@pytest.mark.parametrize("value", [-torch.inf, torch.inf, torch.nan])
def test_logits_that_are_no_numbers_leave_the_first_alone(value):
    cutter = cutter_of(20, 4, [])
    logits = torch.full((1, 1, 20), value)
    found = cutter.cut(logits, np.ones((1, 1), bool), np.zeros((1, 1), np.int32))
    assert found.tokens.tolist() == [[[0, -1, -1, -1, -1]]]


def test_logits_may_be_a_slice_of_wider_rows():
    """As the engine's are where the vocabulary was padded."""
    wide = torch.randn(3, 2, 24, generator=torch.Generator().manual_seed(0))
    cutter, index = cutter_of(20, 4, [2]), np.array([2, 0])
    masked, first = np.ones((2, 2), bool), np.zeros((2, 2), np.int32)
    found = cutter.cut(wide[..., :20], masked, first, index=index)
    expected = cutter.cut(wide[..., :20].contiguous(), masked, first, index=index)
    assert np.array_equal(found.tokens, expected.tokens)
    assert np.array_equal(found.probabilities, expected.probabilities)


def arrays(**changes) -> dict:
    return {
        "logits": np.zeros((3, 2, 9), np.float32),
        "index": np.array([2, 0]),
        "masked": np.ones((2, 2), bool),
        "first": np.zeros((2, 2), np.int32),
        "never": np.array([1, 8], np.int32),
        "named": [[1], []],
        "top_k": 3,
        **changes,
    }


def test_the_arrays_as_they_should_be():
    tokens, probabilities = native.cut_candidates(**arrays())
    assert tokens.tolist() == [[[0, 1, 2, -1]] * 2, [[0, 2, 3, -1]] * 2]
    assert probabilities.shape == tokens.shape


@pytest.mark.parametrize(
    "changes",
    [
        {"logits": np.zeros((3, 2, 9))},
        {"logits": np.zeros((3, 9), np.float32)},
        {"logits": np.zeros((3, 2, 18), np.float32)[..., ::2]},
        {"logits": np.zeros((3, 2, 0), np.float32)},
        {"index": np.array([0, 3])},
        {"index": np.array([0, -1])},
        {"index": np.array([0])},
        {"masked": np.ones((2, 3), bool)},
        {"first": np.full((2, 2), 9, np.int32)},
        {"first": np.full((2, 2), -1, np.int32)},
        {"never": np.array([9], np.int32)},
        {"never": np.array([-1], np.int32)},
        {"named": [[1]]},
        {"named": [[9], []]},
        {"named": [[-1], []]},
        {"top_k": -1},
        {"logits": None},
    ],
    ids=str,
)
def test_arrays_that_are_refused(changes):
    with pytest.raises(REFUSED):
        native.cut_candidates(**arrays(**changes))


def test_more_candidates_than_there_are_tokens():
    tokens, _ = native.cut_candidates(**arrays(top_k=1 << 40))
    assert tokens.shape == (2, 2, 10)
