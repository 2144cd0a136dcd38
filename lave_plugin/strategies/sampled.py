"""The paper's lookahead: independent fillings drawn from the marginals (arXiv 2602.00612)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.lattice import Lookahead, Verdict


def sample_witness(
    tokens: TokenAutomaton,
    state: int,
    canvas: Canvas,
    candidates: Mapping[int, Sequence[int]],
    probabilities: Mapping[int, Sequence[float]],
    samples: int,
    rng: random.Random,
) -> Lookahead:
    """Draw ``samples`` fillings, each position on its own, and test each of them.

    Finding none refutes nothing: the verdict is then ``UNDECIDED``.

    Args:
        probabilities: weights of the leading candidates of each position; candidates
            behind them are never drawn.
        rng: seeded by the request, so that all ranks draw the same.
    """
    last = canvas.last_committed()
    for _ in range(samples):
        here, filling = state, {}
        for position in range(canvas.first, last + 1):
            token = canvas.tokens[position]
            if token == MASKED:
                weights = probabilities[position]
                token = rng.choices(candidates[position][: len(weights)], weights)[0]
                filling[position] = token
            here = tokens.advance(here, token)
            if here == DEAD or tokens.tokens_to_finish(here) > canvas.left_after(position):
                break
        else:
            return Lookahead(Verdict.ALIVE, filling)
    return Lookahead(Verdict.UNDECIDED)
