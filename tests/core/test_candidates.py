"""Candidates of rows that stand among others in the logits, whatever the logits are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import CALL, DONE, MASK_ID, VOCABULARY

from lave_plugin.candidates import CandidateCutter, most_probable

CUTTER = CandidateCutter(VOCABULARY, MASK_ID, 4)


@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 5),
    block=st.integers(1, 4),
    seed=st.integers(0, 10_000),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
    data=st.data(),
)
def test_rows_among_others_are_cut_as_they_are_by_themselves(batch, block, seed, dtype, data):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn((batch, block, len(VOCABULARY)), generator=generator)
    logits[..., MASK_ID] += 3.0
    logits = logits.to(dtype)  # which makes equals of many
    index = np.array(data.draw(st.lists(st.integers(0, batch - 1), min_size=1, unique=True)))
    special = [data.draw(st.sampled_from([frozenset(), frozenset({CALL, DONE})])) for _ in index]
    alone = logits[torch.from_numpy(index)]

    best = most_probable(logits, index.tolist())[torch.from_numpy(index)]
    assert torch.equal(best, alone.argmax(-1))

    masked = torch.rand((len(index), block), generator=generator).numpy() < 0.7
    at = np.stack(masked.nonzero())
    assert np.array_equal(
        CUTTER.best(logits, at, special, index=index), CUTTER.best(alone, at, special)
    )
    found = CUTTER.cut(logits, masked, best.numpy(), special=special, index=index)
    expected = CUTTER.cut(alone, masked, best.numpy(), special=special)
    assert np.array_equal(found.tokens, expected.tokens)
    assert np.array_equal(found.probabilities, expected.probabilities)


@pytest.mark.parametrize("value", [0.0, -torch.inf, torch.nan])
def test_of_equals_the_first_one_is_the_most_probable(value):
    logits = torch.full((2, 3, 7), value)
    logits[1, 1, 4:] = 1.0
    assert torch.equal(most_probable(logits, [0, 1]), logits.argmax(-1))
