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
from lave_plugin.grammar.token_automaton import ENDED, TokenAutomaton


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


COMPLETION = 2
"""Ranks, or positions, that a byte of the shortest completion weighs as much as."""


class _Node:
    """A masked position with the state before it, or the end of the way."""

    def __init__(
        self, position: int, state: int, before: _Node | None, token: int, cost: int
    ) -> None:
        self.position = position
        self.state = state
        self.before = before  # the node that ``token`` was chosen at
        self.token = token
        self.cost = cost  # the ranks of the tokens chosen on the way, summed
        self.choices: Sequence[int] | None = None
        self.at = 0
        self.fillers_rank: int | None = None  # once it is their turn

    def turn_to(self, fillers: Sequence[int]) -> None:
        """Try these when the candidates have failed; one ranks as another, behind all of them."""
        self.fillers_rank = len(self.choices)
        self.choices = fillers
        self.at = 0

    def cost_of_next(self) -> int:
        """What the way costs with the next choice."""
        return self.cost + (self.at if self.fillers_rank is None else self.fillers_rank)

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
    """Best first over the lattice, by rank, position and what is left to complete.

    The search follows the most probable token that fits, as a depth-first one does. Where
    it is stuck it goes back, but not to the last choice, which is seldom the one to blame:
    it goes on at the node with the least sum of

    - the ranks of the tokens on the way to it and of its next one, for improbability;
    - less its position, for what is left of the block;
    - ``COMPLETION`` times the bytes of its shortest completion, for what is left open. Most
      ways fail where the committed tokens behind a run of masks need another depth of
      brackets; the states with few of them open are few, and the rest is many.

    ``lave bench verify`` has the figures.

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
            token, cost = node.choices[node.at], node.cost_of_next()
            node.at += 1
            reached = self._beyond_committed(
                node.position + 1, self._advance(node.position, node.state, token)
            )
            if reached[1] != DEAD and reached not in self._entered:
                self._entered.add(reached)
                following = _Node(*reached, node, token, cost)
        if following is None:
            if node.fillers_rank is not None:
                return None
            node.turn_to(
                self._tokens.fillers(node.state)
                if self._fillers
                else (self._tokens.vocabulary.end_token,)
            )
        self._pushed += 1
        # Of equals the newest first.
        heappush(self._open, (self._priority(node), -self._pushed, node))
        return following

    def _priority(self, node: _Node) -> int:
        """The lower, the sooner the search goes on here."""
        state = node.state
        left = 0 if state == ENDED else self._tokens.automaton.shortest_length(state)
        return node.cost_of_next() - node.position + COMPLETION * left

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
