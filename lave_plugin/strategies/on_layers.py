"""What the strategies that weigh whole fillings of a block have in common.

They commit from one valid filling, which they keep: should the next step's candidates have
none around what is committed by then, the kept filling is the way out, so every step
commits something and every answer ends valid.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

from lave_plugin.candidates import Candidates
from lave_plugin.canvas import Canvas
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.grammar.token_classes import class_automaton
from lave_plugin.layers import Filling, Lattice, Layers
from lave_plugin.options import LaveOptions
from lave_plugin.regular import ClassLayers
from lave_plugin.strategies.ends import fill_behind_end
from lave_plugin.strategies.lave import Proposals
from lave_plugin.strategies.sequential import commit_leftmost
from lave_plugin.strategies.tally import Tally

_LEAST = 1e-12
"""Probability below which tokens are not told apart."""

Weights = dict[int, dict[int, float]]


class OnLayers(ABC):
    """A strategy that reads the layered lattice; its memory of one request.

    Attributes:
        filling: a token for every masked position, the rest of the last filling that was
            committed from.
        counts: ``accepted`` and ``recovered`` tokens, the lattices (``lattices``) unfolded,
            how many were over the whole vocabulary (``whole``) and how many ``pruned``.
        cut: of the last lattice the mass that was cut away (see ``Layers.cut``).
    """

    def __init__(self, tokens: TokenAutomaton, options: LaveOptions, seed: int = 0) -> None:
        self.tokens = tokens
        self.options = options
        self.filling: dict[int, int] = {}
        self.counts = Tally()
        self.cut = 0.0

    def start_block(self) -> None:
        """Forget what was about the block before."""
        self.filling = {}

    def step(
        self, state: int, canvas: Canvas, candidates: Candidates, proposals: Proposals
    ) -> None:
        """One denoising step, in place; commits at least one token where one is masked.

        Edits of committed tokens are not taken.

        Args:
            state: the grammar's state before ``canvas.first``.
            canvas: the block; it is alive before and after.
        """
        masked = canvas.masked()
        if not masked:
            return
        if not self._commit_from_lattice(state, canvas, candidates, proposals):
            if masked[0] in self.filling:
                canvas.tokens[masked[0]] = self.filling[masked[0]]
            else:  # nothing but a prefix is committed: no filling has been there to keep
                commit_leftmost(self.tokens, state, canvas, masked[0], candidates)
            self.counts.token("recovered", masked[0], canvas.tokens[masked[0]])
        fill_behind_end(self.tokens.vocabulary, canvas)

    @abstractmethod
    def _choose(self, lattice: Lattice, proposals: Proposals) -> tuple[Filling, list[int]]:
        """A filling, of those that there are, and positions to commit from it, at least one."""

    def _commit_from_lattice(
        self, state: int, canvas: Canvas, candidates: Candidates, proposals: Proposals
    ) -> bool:
        for lattice in self._lattices(state, canvas, candidates):
            self.counts["lattices"] += 1
            self.counts["pruned"] += not lattice.exact
            self.cut = lattice.cut
            if lattice.log_partition > -math.inf:
                break
        else:
            return False
        filling, positions = self._choose(lattice, proposals)
        for position in positions:
            canvas.tokens[position] = filling.tokens[position]
            self.counts.token("accepted", position, filling.tokens[position])
        self.filling = filling.tokens
        return True

    def _lattices(self, state: int, canvas: Canvas, candidates: Candidates) -> Iterator[Lattice]:
        """One after the other, until one has a filling."""
        automaton = None
        if self.options.regular_states:
            automaton = class_automaton(self.tokens, self.options.regular_states)
        if automaton is not None:
            self.counts["whole"] += 1
            log_probabilities = candidates.log_probabilities(canvas.masked())
            yield ClassLayers(automaton, state, canvas, log_probabilities)
        weights, floor = _weights(candidates, self.tokens.vocabulary.end_token)
        # Only where the candidates alone don't fill the block may any token do.
        for fillers in (None, floor):
            yield Layers(self.tokens, state, canvas, weights, self.options.max_states, fillers)


def surest(filling: Filling, confidence: dict[int, float], threshold: float) -> list[int]:
    """Positions of a filling with a confidence above the threshold, or the one with the most."""
    sure = [p for p in filling.tokens if confidence[p] > threshold]
    return sure or [max(filling.tokens, key=lambda p: confidence[p])]


def _weights(candidates: Candidates, end_token: int) -> tuple[Weights, dict[int, float]]:
    """Log-probabilities of the candidates, and for each position of any other token.

    Of the others no more is known than that each is at most as probable as the last
    candidate and as all that the candidates leave over: that is what it is given. The end
    token is always among the candidates, since it has to fill what stands behind an end.
    """
    weights: Weights = {}
    floor: dict[int, float] = {}
    for position, tokens in candidates.tokens.items():
        probabilities = candidates.probabilities[position]
        rest = min(1.0 - sum(probabilities), min(probabilities))
        floor[position] = math.log(max(rest, _LEAST))
        weights[position] = {
            token: math.log(max(probability, _LEAST))
            for token, probability in zip(tokens, probabilities, strict=True)
        }
        weights[position].setdefault(end_token, floor[position])
    return weights, floor
