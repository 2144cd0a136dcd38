"""The posterior of the block as confidence, or to draw from (arXiv 2607.07026).

Given that the block is valid, how probable is this token here? The model's probabilities do
not know of the grammar; the posterior does: it is the model's product of marginals,
conditioned on the grammar, and its marginals come from one pass forward and one backward
over the lattice. What the grammar leaves no choice about has a marginal of 1 and is
committed without being asked for.

``mar``: the most probable tokens by the posterior are committed, surest first, where
the marginal is above the engine's threshold; at least the surest. Each is taken only if a
filling has it together with those before.
``mf``: of the tokens that some valid filling has at a position the one that the model likes best,
with the model's own probability of it, of which the grammar knows nothing, as confidence.
``draws``: a block is drawn from the posterior, token by token or by the tree (``tree``), and of
it are committed those whose marginal is above the threshold; at least the surest.

The two are the paper's confidences Mar (the constrained marginal) and Mf (that of the mean field,
unconstrained). **Its text was not at hand**: that is how a public re-implementation reads it, whose
notes are on DiffusionGemma (a table of the paper's has Mar ahead of Mf).

What differs from the paper: the states are deterministic, so no filling is counted twice. The
grammar may be any; where its states are many they are unfolded over the candidates instead of
the vocabulary (``regular``) and pruned by mass (``counts["pruned"]``, ``cut``). And a filling
has to be able to finish in the tokens left. What the engine proposes is not used but its
threshold.
"""

from __future__ import annotations

import random

from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.layers import Filling, Lattice
from lave_plugin.options import LaveOptions
from lave_plugin.regular import ClassLayers
from lave_plugin.strategies.lave import Proposals
from lave_plugin.strategies.on_layers import OnLayers, surest
from lave_plugin.tree import MAX_STATES, Tree


class Posterior(OnLayers):
    """The strategy's memory of one request."""

    def __init__(self, tokens: TokenAutomaton, options: LaveOptions, seed: int = 0) -> None:
        super().__init__(tokens, options, seed)
        self._random = random.Random(seed)

    def _choose(self, lattice: Lattice, proposals: Proposals) -> tuple[Filling, list[int]]:
        if self.options.posterior == "draws":
            marginals, drawn = lattice.marginals(), self._draw(lattice)
            confidence = {p: marginals[p].of(token) for p, token in drawn.tokens.items()}
            return drawn, surest(drawn, confidence, proposals.threshold)
        favourites = self._favourites(lattice)
        order = sorted(favourites, key=lambda p: -favourites[p][1])
        filling, chosen = None, {}
        for position in order:
            token, confidence = favourites[position]
            if chosen and confidence <= proposals.threshold:
                break
            if filling is None or filling.tokens[position] != token:
                found = lattice.best({**chosen, position: token})
                if found is None:
                    continue  # sure of it by itself, but not beside those before
                filling = found
            chosen[position] = token
        return filling, list(chosen)

    def _favourites(self, lattice: Lattice) -> dict[int, tuple[int, float]]:
        """By masked position a token and how sure it is."""
        if self.options.posterior == "mar":
            return {position: found.best() for position, found in lattice.marginals().items()}
        allowed = {position: found.best()[0] for position, found in lattice.filtered().items()}
        return {p: (token, lattice.probability(p, token)) for p, token in allowed.items()}

    def _draw(self, lattice: Lattice) -> Filling:
        by_tree = self.options.sampler == "tree" and isinstance(lattice, ClassLayers)
        if by_tree and lattice.largest <= MAX_STATES:
            return Tree(lattice, lattice.device).sample(self._random)
        return lattice.sample(self._random)
