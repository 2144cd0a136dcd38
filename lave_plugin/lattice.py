"""The layered graph of (position, state) that a canvas spans, and its search for a witness.

A path through the layers is a filling of the masks: at a committed position one edge,
at a masked one an edge for each candidate token. Because states are interned, two
fillings that reach the same state at the same position have the same future, and one
of them is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.token_automaton import TokenAutomaton


class Verdict(Enum):
    """What a lookahead can say of a canvas."""

    ALIVE = "alive"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Lookahead:
    """The result of a lookahead.

    Attributes:
        verdict: ``REFUTED`` is exact over the candidates.
        witness: a token for every masked position up to the last committed one, where
            the verdict is ``ALIVE``.
    """

    verdict: Verdict
    witness: dict[int, int] | None = None


def find_witness(
    tokens: TokenAutomaton,
    state: int,
    canvas: Canvas,
    candidates: Mapping[int, Sequence[int]],
    budget: int,
    *,
    fillers: bool = True,
) -> Lookahead:
    """Depth first over the lattice, most probable token first.

    A (position, state) that failed is remembered and never entered again, so without a
    budget the search ends after at most layers x states x candidates transitions, and a
    refutation is exact over the candidates. Positions behind the last committed one need
    no filling: the state there only has to be able to finish in the tokens left.

    Args:
        tokens: the grammar's states over the vocabulary.
        state: the state before ``canvas.first``.
        canvas: the block.
        candidates: tokens to try at each masked position, in this order.
        budget: transitions to try before giving up as ``UNDECIDED``, looked at where one
            fails: a search that goes straight through is never cut short.
        fillers: count the state's fillers (``TokenAutomaton.fillers``) among the
            candidates of every masked position: when the model's own all fail, one byte
            nearly always goes on. Without them only the end token is added, which has to
            fill what stands behind an end.
    """
    if not isinstance(tokens, TokenAutomaton):  # the native states bring their own search
        verdict, witness = tokens.find_witness(
            state, canvas.tokens, canvas.first, canvas.tokens_left, candidates, budget, fillers
        )
        return Lookahead(Verdict(verdict), witness)
    last = canvas.last_committed()
    failed: set[tuple[int, int]] = set()
    path: dict[int, int] = {}
    tried = 0
    # One frame for each position on the path: (position, state before it, next candidate).
    stack = [(canvas.first, state, 0)]
    while stack:
        position, here, at = stack.pop()
        if position > last:
            return Lookahead(Verdict.ALIVE, path)
        fixed = canvas.tokens[position]
        if fixed != MASKED:
            choices = (fixed,)
        elif fillers:
            choices = (*candidates[position], *tokens.fillers(here))
        else:
            choices = (*candidates[position], tokens.vocabulary.end_token)
        left = canvas.left_after(position)
        while at < len(choices):
            token = choices[at]
            at += 1
            tried += 1
            following = tokens.advance(here, token)
            if (
                following != DEAD
                and (position + 1, following) not in failed
                and tokens.tokens_to_finish(following) <= left
            ):
                if fixed == MASKED:
                    path[position] = token
                stack.append((position, here, at))
                stack.append((position + 1, following, 0))
                break
            if tried >= budget:
                return Lookahead(Verdict.UNDECIDED)
        else:
            failed.add((position, here))
    return Lookahead(Verdict.REFUTED)
