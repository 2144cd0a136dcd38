"""The most probable valid block (DINGO, arXiv 2505.23061).

Its objective is the paper's Eq. 2: of all fillings of the block that the grammar accepts the
one with the highest product of probabilities, each position on its own; found by dynamic
programming over (position, state). What differs from the paper:

- The grammar may be any. Where its states are few, all of them, as in the paper, the whole
  vocabulary counts (``regular``). Those of another are unfolded over the candidates; where a
  layer has more than ``max_states`` of them it is pruned by mass (``counts["pruned"]``, ``cut``).
- The paper maximises over what this step commits and lets the other masks stand for any
  token. Here all masks count with their probabilities, so the filling is one that the model
  would write as a whole.
- A filling has to be able to finish in the tokens left.
- Of the filling's tokens those are committed that the engine's algorithm proposes as well,
  and at the other positions where it would commit those above its threshold; at least the
  most probable one.
"""

from __future__ import annotations

import math

from lave_plugin.layers import Filling, Lattice
from lave_plugin.strategies.lave import Proposals
from lave_plugin.strategies.on_layers import OnLayers, surest


class MostProbable(OnLayers):
    """The strategy's memory of one request."""

    def _choose(self, lattice: Lattice, proposals: Proposals) -> tuple[Filling, list[int]]:
        filling = lattice.best()
        proposed = [p for p, token in proposals.commits.items() if filling.tokens[p] == token]
        confidence = {
            # 0 of a filler, which is not among the weights, and nothing to be sure of.
            position: lattice.probability(position, token)
            for position, token in filling.tokens.items()
        }
        others = [
            position
            for position in proposals.commits
            if position not in proposed and confidence[position] > proposals.threshold
        ]
        return filling, proposed + others or surest(filling, confidence, math.inf)
