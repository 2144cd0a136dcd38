"""Posterior marginals against enumeration, and what they change."""

import itertools
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import END, VOCABULARY, token_automaton

from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.strategies import confidence

GRAMMARS = {
    "regular": 'root ::= ("a" | "bc")* "c"?',
    "nested": 'root ::= "a" root "b" | "c" | root "c"',
    "ambiguous": 'root ::= ("a" | "ab" | "b" | "aba")+',
}
TOKENS = [VOCABULARY.id_of[text] for text in (b"a", b"b", b"c", b"ab")] + [END]


def enumerate_marginals(tokens, canvas, candidates, probabilities):
    """By trying every filling."""
    positions = canvas.masked()
    weights = {position: [0.0] * len(candidates[position]) for position in positions}
    total = 0.0
    for ranks in itertools.product(*(range(len(candidates[p])) for p in positions)):
        filled, weight = list(canvas.tokens), 1.0
        for position, rank in zip(positions, ranks, strict=True):
            filled[position] = candidates[position][rank]
            weight *= probabilities[position][rank]
        state = tokens.start
        for position in range(canvas.first, len(filled)):
            state = tokens.advance(state, filled[position])
            if state == DEAD or not tokens.finishes_within(state, canvas.left_after(position)):
                break
        else:
            total += weight
            for position, rank in zip(positions, ranks, strict=True):
                weights[position][rank] += weight
    if total == 0.0:
        return None
    return {position: [w / total for w in of] for position, of in weights.items()}


@pytest.mark.parametrize("name", GRAMMARS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_marginals_are_those_of_all_fillings(name, data):
    tokens = token_automaton(GRAMMARS[name])
    block = data.draw(st.integers(1, 5))
    canvas = Canvas(
        data.draw(
            st.lists(st.sampled_from([MASKED, MASKED, *TOKENS]), min_size=block, max_size=block)
        ),
        data.draw(st.integers(0, block - 1)),
        data.draw(st.integers(1, 12)),
    )
    candidates, probabilities = {}, {}
    for position in canvas.masked():
        listed = data.draw(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=4, unique=True))
        candidates[position] = listed
        probabilities[position] = [
            data.draw(st.sampled_from([0.5, 0.25, 0.125, 0.01])) for _ in listed
        ]
    with patch.object(confidence, "LEAST_SHARE", 0.0):
        found = confidence.posterior_marginals(
            tokens, tokens.start, canvas, candidates, probabilities
        )
    expected = enumerate_marginals(tokens, canvas, candidates, probabilities)
    assert (found is None) == (expected is None)
    for position in canvas.masked() if expected else ():
        assert np.allclose(found[position], expected[position])


@pytest.mark.parametrize(("light", "share"), [(0.0008, 0.0), (0.0012, 0.0012 / 0.9012)])
def test_what_is_too_light_is_not_followed(light, share):
    """Beside 0.9: on which side of a thousandth of it."""
    tokens = token_automaton('root ::= "a" | "b"')
    listed, probabilities = {0: TOKENS[:2]}, {0: [0.9, light]}
    canvas = Canvas([MASKED], 0, 9)
    found = confidence.posterior_marginals(tokens, tokens.start, canvas, listed, probabilities)
    assert found[0] == pytest.approx([1 - share, share])


def test_numbers_too_small_give_no_marginals():
    tokens = token_automaton('root ::= "a"+')
    canvas = Canvas([MASKED] * 3, 0, 9)
    listed = {position: TOKENS[:1] for position in range(3)}
    nothing = {position: [0.0] for position in range(3)}
    assert confidence.posterior_marginals(tokens, tokens.start, canvas, listed, nothing) is None
