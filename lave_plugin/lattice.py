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
from heapq import heappop, heappush

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


DISCREPANCY = 8
"""Positions that one discrepancy weighs as much as (see ``find_witness``)."""

FILLERS = 2
"""Discrepancies that turning to the fillers of a node counts for."""


class _Node:
    """A masked position with the state before it, or the end of the way."""

    def __init__(
        self, position: int, state: int, before: _Node | None, token: int, discrepancies: int
    ) -> None:
        self.position = position
        self.state = state
        self.before = before  # the node that ``token`` was chosen at
        self.token = token
        self.discrepancies = discrepancies
        self.choices: Sequence[int] | None = None
        self.at = 0
        self.on_fillers = False

    def turn_to(self, fillers: Sequence[int]) -> None:
        """Try these when the candidates have failed."""
        self.on_fillers = True
        self.choices = fillers
        self.at = 0
        self.discrepancies += FILLERS

    def rank(self) -> int:
        """The lower, the sooner the search goes on here."""
        return DISCREPANCY * self.discrepancies - self.position

    def filling(self) -> dict[int, int]:
        """The tokens chosen on the way to here, by position."""
        chosen, node = {}, self
        while node.before is not None:
            chosen[node.before.position] = node.token
            node = node.before
        return chosen


def find_witness(
    tokens: TokenAutomaton,
    state: int,
    canvas: Canvas,
    candidates: Mapping[int, Sequence[int]],
    budget: int,
    *,
    fillers: bool = True,
) -> Lookahead:
    """Best first over the lattice, by position and discrepancies.

    The search follows the most probable token that fits, as a depth-first one does. Where
    it is stuck it goes back, but not to the last choice, which is seldom the one to blame:
    a node ranks by its position less ``DISCREPANCY`` for each time that the way on from it,
    or to it, departs from the first token that fits (limited discrepancy search, Harvey and
    Ginsberg 1995). ``lave bench verify`` has the figures.

    A (position, state) is entered once, since equal states have the same future. So
    without a budget the search ends, and a refutation is exact over the candidates.
    Positions behind the last committed one need no filling: the state there only has to
    be able to finish in the tokens left.

    Args:
        tokens: the grammar's states over the vocabulary.
        state: the state before ``canvas.first``.
        canvas: the block.
        candidates: tokens to try at each masked position, in this order.
        budget: lattice nodes (masked position, state) to enter before giving up as
            ``UNDECIDED``, looked at where the search goes back: one that goes straight
            through is never cut short.
        fillers: count the state's fillers (``TokenAutomaton.fillers``) among the
            candidates of every masked position, behind all others: when the model's own
            fail, one byte nearly always goes on. Without them only the end token is
            added, which has to fill what stands behind an end.
    """
    if not isinstance(tokens, TokenAutomaton):  # the native states bring their own search
        verdict, witness = tokens.find_witness(
            state, canvas.tokens, canvas.first, canvas.tokens_left, candidates, budget, fillers
        )
        return Lookahead(Verdict(verdict), witness)
    return _Search(tokens, canvas, candidates, fillers).run(state, budget)


class _Search:
    """One run of ``find_witness``."""

    def __init__(
        self,
        tokens: TokenAutomaton,
        canvas: Canvas,
        candidates: Mapping[int, Sequence[int]],
        fillers: bool,
    ) -> None:
        self._tokens = tokens
        self._canvas = canvas
        self._last = canvas.last_committed()
        self._candidates = candidates
        self._fillers = fillers
        self._entered: set[tuple[int, int]] = set()
        self._open: list[tuple[int, int, _Node]] = []
        self._pushed = 0

    def run(self, state: int, budget: int) -> Lookahead:
        start = self._beyond_committed(self._canvas.first, state)
        if start[1] == DEAD:
            return Lookahead(Verdict.REFUTED)
        self._entered.add(start)
        node = _Node(*start, None, MASKED, 0)
        while node.position <= self._last:
            following = self._choose(node)
            if following is None:
                if not self._open:
                    return Lookahead(Verdict.REFUTED)
                if len(self._entered) >= budget:
                    return Lookahead(Verdict.UNDECIDED)
                _, _, following = heappop(self._open)
            node = following
        return Lookahead(Verdict.ALIVE, node.filling())

    def _choose(self, node: _Node) -> _Node | None:
        """Follow the next choice that fits; what ``node`` has left waits in ``_open``."""
        if node.choices is None:
            node.choices = self._candidates[node.position]
        following = None
        while following is None and node.at < len(node.choices):
            token = node.choices[node.at]
            node.at += 1
            reached = self._beyond_committed(
                node.position + 1, self._advance(node.position, node.state, token)
            )
            if reached[1] != DEAD and reached not in self._entered:
                self._entered.add(reached)
                following = _Node(*reached, node, token, node.discrepancies)
                node.discrepancies += 1
        if following is None:
            if node.on_fillers:
                return None
            node.turn_to(
                self._tokens.fillers(node.state)
                if self._fillers
                else (self._tokens.vocabulary.end_token,)
            )
        self._pushed += 1
        heappush(self._open, (node.rank(), -self._pushed, node))  # of equals the newest first
        return following

    def _beyond_committed(self, position: int, state: int) -> tuple[int, int]:
        """The next masked position, or the one behind the last committed, and the state there."""
        while state != DEAD and position <= self._last and self._canvas.tokens[position] != MASKED:
            state = self._advance(position, state, self._canvas.tokens[position])
            position += 1
        return position, state

    def _advance(self, position: int, state: int, token: int) -> int:
        following = self._tokens.advance(state, token)
        left = self._canvas.left_after(position)
        if following != DEAD and self._tokens.finishes_within(following, left):
            return following
        return DEAD
