"""Strictly from left to right under the next-token mask (FS-CD).

What constrained decoding of autoregressive models does (Willard and Louf, arXiv 2307.09702),
forced upon a diffusion model: a step commits the leftmost mask, with the most probable token
that the grammar allows there. It is the baseline FS-CD of arXiv 2508.10111 and 2602.00612.
Unlike there, a token has to leave enough of the budget to finish, so every answer ends valid.
Edits of committed tokens are not taken.
"""

from __future__ import annotations

from lave_plugin.candidates import Candidates
from lave_plugin.canvas import Canvas
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.options import LaveOptions
from lave_plugin.strategies.ends import fill_behind_end
from lave_plugin.strategies.lave import RANKS_IN_RECOVERY, Proposals, best_fitting
from lave_plugin.strategies.tally import Tally


class Sequential:
    """The strategy of one request; it has no memory.

    Attributes:
        counts: ``accepted`` tokens, which were the model's favourites, and ``replaced``
            ones, where the grammar did not allow that.
    """

    def __init__(self, tokens: TokenAutomaton, options: LaveOptions, seed: int = 0) -> None:
        self.tokens = tokens
        self.counts = Tally()

    def start_block(self) -> None:
        """Nothing is kept from block to block."""

    def step(
        self, state: int, canvas: Canvas, candidates: Candidates, proposals: Proposals
    ) -> None:
        """One denoising step, in place; commits one token where one is masked."""
        masked = canvas.masked()
        if not masked:
            return
        position = masked[0]
        token = commit_leftmost(self.tokens, state, canvas, position, candidates)
        favourite = token == candidates.tokens[position][0]
        self.counts.token("accepted" if favourite else "replaced", position, token)
        fill_behind_end(self.tokens.vocabulary, canvas)


def commit_leftmost(
    tokens: TokenAutomaton, state: int, canvas: Canvas, position: int, candidates: Candidates
) -> int:
    """Commit the most probable token that fits at ``position``, and return it.

    Args:
        state: the grammar's state before ``canvas.first``.
        position: the leftmost mask.
    """
    for token in canvas.tokens[canvas.first : position]:
        state = tokens.advance(state, token)
    token = best_fitting(
        tokens,
        state,
        canvas.left_after(position),
        candidates.by_rank(position, RANKS_IN_RECOVERY),
    )
    canvas.tokens[position] = token
    return token
