"""Draws from the posterior in logarithmic depth (the tree sampler of arXiv 2607.07026).

The transition weights of a position are a matrix, [states before it, states behind it]. The
products of such matrices over neighbouring positions, in a binary tree, hold the mass of all ways
between two states across a span. From the root downward the state in the middle of each span is
drawn, given those at its ends: all spans of a level at once. So a block of b positions takes
log2(b) products and as many draws one after the other, where the chain takes b steps.

A product costs the cube of the states where a step of the chain costs the edges: the tree pays
where states are few and a device does the cube for nothing (``benchmarks/tree_sampler.py``).
"""

from __future__ import annotations

from random import Random

import torch

from lave_plugin.layers import Filling, Lattice

MAX_STATES = 1024
"""States of a layer beyond which the matrices are not made: 8 MiB for each position."""


class Tree:
    """The tree over one lattice; ``sample`` draws as ``Lattice.sample`` does."""

    def __init__(self, lattice: Lattice, device: torch.device | str = "cpu") -> None:
        """Multiply up.

        Args:
            lattice: with at least one filling and at most ``MAX_STATES`` states in a layer.
            device: for the matrices, float64 ``[positions, states, states]``.
        """
        self._lattice = lattice
        self._device = device
        matrices = torch.from_numpy(lattice.transitions()).to(device)
        # Each row is scaled to have a maximum of 1: what is small in all of a matrix is not lost.
        matrices, scales = _scaled(matrices)
        self._levels: list[tuple[torch.Tensor, torch.Tensor]] = []
        while len(matrices) > 1:
            left, right = matrices[0::2], matrices[1::2]
            weights = left.log() + scales[1::2, None, :]
            shift = weights.amax(-1)
            shift = shift.masked_fill(shift == -torch.inf, 0.0)
            weights = (weights - shift[..., None]).exp()
            self._levels.append((weights, right))
            outer = scales[0::2] + shift
            matrices, scales = _scaled(weights @ right)
            scales = scales + outer
        self._root = matrices[0, 0]

    @property
    def depth(self) -> int:
        """Products, and draws of middles, one after the other."""
        return len(self._levels)

    def sample(self, random: Random) -> Filling:
        """A filling drawn from the posterior."""
        states = torch.stack(
            (torch.zeros_like(self._root[:1]), self._draw(self._root[None], random))
        )
        states = states.reshape(-1).long()
        for left, right in reversed(self._levels):
            span = torch.arange(len(left), device=left.device)
            shares = left[span, states[:-1]] * right[span, :, states[1:]]
            middles = self._draw(shares, random).long()
            between = torch.stack((states[:-1], middles), 1).reshape(-1)
            states = torch.cat((between, states[-1:]))
        return self._lattice.filling_along(states.tolist(), random)

    def _draw(self, shares: torch.Tensor, random: Random) -> torch.Tensor:
        """An index of each row of ``[rows, states]``, by its shares."""
        total = shares.cumsum(-1)
        uniform = torch.tensor([random.random() for _ in range(len(shares))], dtype=total.dtype)
        bound = (uniform.to(total.device) * total[:, -1])[:, None]
        # Against rounding: not behind the last that has a share.
        drawn = torch.searchsorted(total, bound, right=True)[:, 0]
        last = torch.searchsorted(total, total[:, -1:].contiguous())[:, 0]
        return torch.minimum(drawn, last)


def _scaled(matrices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows with a maximum of 1, and the logarithms of what they were multiplied with."""
    most = matrices.amax(-1)
    scaled = matrices / most.masked_fill(most == 0, 1.0)[..., None]
    return scaled, most.log()
