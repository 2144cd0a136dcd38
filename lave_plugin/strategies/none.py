"""No constraint (NO-CD, the baseline of the literature): the grammar is deliberately off.

What the engine's algorithm would write is written. Two things are not as without the plugin:
the mask itself and special tokens that no grammar could allow give way to the most probable
other token, so that every step commits something; and they are not edited in. An answer may
end invalid: that is what the baseline is there to show.
"""

from __future__ import annotations

from collections.abc import Mapping

from lave_plugin.candidates import Candidates
from lave_plugin.canvas import Canvas
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.options import LaveOptions
from lave_plugin.strategies.lave import Proposals
from lave_plugin.strategies.tally import Tally


class Unconstrained:
    """The strategy of one request; it has no memory.

    Attributes:
        counts: ``accepted`` tokens.
    """

    def __init__(self, tokens: TokenAutomaton, options: LaveOptions, seed: int = 0) -> None:
        self.tokens = tokens
        self.counts = Tally()

    def start_block(self) -> None:
        """Nothing is kept from block to block."""

    def step(
        self, state: int, canvas: Canvas, candidates: Candidates, proposals: Proposals
    ) -> None:
        """One denoising step, in place; commits at least one token where one is masked."""
        edits = {p: token for p, token in proposals.edits.items() if self._may_stand(token)}
        for position, token in {**unverified(candidates, proposals), **edits}.items():
            canvas.tokens[position] = token
            self.counts.token("accepted", position, token)

    def _may_stand(self, token: int) -> bool:
        return token in self.tokens.special_tokens or (
            0 <= token < len(self.tokens.vocabulary)
            and self.tokens.vocabulary.is_text_or_end(token)
        )


def unverified(candidates: Candidates, proposals: Proposals) -> Mapping[int, int]:
    """What the engine's algorithm would commit, or where its choice is MASK one token else."""
    if proposals.commits or not candidates.tokens:
        return proposals.commits
    position = max(candidates.tokens, key=lambda p: candidates.probabilities[p][0])
    return {position: candidates.tokens[position][0]}
