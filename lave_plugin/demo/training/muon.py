"""Muon, the optimizer of the matrices, in the number format that the machine is fast in.

``torch.optim.Muon`` computes in bfloat16 whatever the machine. A CPU below AVX-512 emulates that,
and the optimizer then takes four fifths of a training step of the tiny dLLM; in float32, and with
matrices of one shape in one stack, it takes a tenth.
"""

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor

MOMENTUM = 0.95
# The quintic of https://kellerjordan.github.io/posts/muon: five rounds bring every singular value
# near 1, which is near enough.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
EPSILON = 1e-7


def orthogonalised(matrices: Tensor) -> Tensor:
    """(N, rows, columns), each matrix replaced by about the nearest (semi-)orthogonal one."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=EPSILON)
    a, b, c = COEFFICIENTS
    for _ in range(ROUNDS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum whose steps are orthogonalised, for matrices alone.

    The same rule and defaults as ``torch.optim.Muon`` without weight decay. `dtype` is what
    :func:`orthogonalised` computes in; momentum and weights keep their own.
    """

    def __init__(self, matrices: Iterable[Tensor], lr: float, dtype: torch.dtype):
        super().__init__(matrices, {"lr": lr})
        self.dtype = dtype

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            alike: defaultdict[torch.Size, list[Tensor]] = defaultdict(list)
            for matrix in group["params"]:
                alike[matrix.shape].append(matrix)
            for shape, matrices in alike.items():
                moves = torch.stack([self._momentum(matrix) for matrix in matrices])
                moves = orthogonalised(moves.to(self.dtype)).to(matrices[0].dtype)
                rate = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for matrix, move in zip(matrices, moves, strict=True):
                    matrix.add_(move, alpha=-rate)

    def _momentum(self, matrix: Tensor) -> Tensor:
        state = self.state[matrix]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(matrix)
        held = state["momentum"].lerp_(matrix.grad, 1 - MOMENTUM)
        return matrix.grad.lerp(held, MOMENTUM)
