"""Proposals drawn from the model's distribution, in place of the most probable tokens.

The engine's dLLM algorithms take the most probable token of each position, whatever
temperature a request asks for. Here a token is drawn by the Gumbel-max trick: the highest
sum of log-probability and noise. The noise is a function of the request's seed, the position
in the answer and the token, and of nothing else. So a request with a seed gets the same
answer in any batch; and since a position keeps its noise from step to step, a draw changes
only as far as the model changes its mind, and edits of committed tokens come to an end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class Sampling:
    """How a request wants its tokens drawn.

    Attributes:
        temperature: above 0.
        seed: any integer.
        top_k: only the so many most probable tokens; 0 for all.
        top_p: only the most probable tokens that make up this mass (nucleus), 0 to 1.
        min_p: only tokens at least this probable, as a share of the most probable one.
    """

    temperature: float
    seed: int
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


@dataclass(frozen=True)
class Draw:
    """What was drawn for one row.

    Attributes:
        tokens: int64 ``[block]``.
        ranking: float32 ``[block, vocabulary]``. What may be drawn comes first, by
            log-probability and noise: the tokens are the highest. Then what was cut away
            comes, by log-probability, for where a grammar allows nothing else; ``-inf``
            for what is never drawn.
    """

    tokens: torch.Tensor
    ranking: torch.Tensor = field(repr=False)

    def as_logits(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits with the drawn tokens on top, each with the probability it has in ``logits``.

        For an algorithm that commits the most probable token where its probability is
        high enough: it then commits what was drawn, where the model is sure enough of it.
        The confidence is the model's own, not that of the tempered and cut distribution:
        a low temperature should not make it sure of everything. ``[block, vocabulary]``.
        A probability below ``2 / vocabulary`` cannot be on top and is shown as that.
        """
        size = logits.shape[-1]
        drawn = self.tokens[:, None]
        probabilities = logits.float().softmax(-1)
        confidence = probabilities.gather(1, drawn).clamp(2 / size, 1 - 1e-6)
        rest = ((1 - confidence) / (size - 1)).log()
        return rest.expand(-1, size).scatter(1, drawn, confidence.log())


def draw(
    logits: torch.Tensor, never: torch.Tensor, sampling: Sampling, first_position: int
) -> Draw:
    """Draw a token for each position of a row's block.

    Args:
        logits: ``[block, vocabulary]``, any float dtype.
        never: bool ``[vocabulary]``, tokens that are not to be drawn.
        first_position: where in the answer the block's first position stands; negative
            for the prompt's tail.
    """
    logits = logits.float().masked_fill(never, -math.inf) / sampling.temperature
    log_probabilities = logits.log_softmax(-1)
    positions = torch.arange(len(logits), device=logits.device) + first_position
    noise = gumbel_noise(sampling.seed, positions, logits.shape[-1])
    ranking = torch.where(
        _kept(log_probabilities, sampling), log_probabilities + noise, log_probabilities - _BEHIND
    )
    return Draw(ranking.argmax(-1), ranking)


_BEHIND = 1e4
"""More than any log-probability of a token that the model gives a thought."""


def _kept(log_probabilities: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """What may be drawn, bool ``[block, vocabulary]``: by top_k, then top_p, then min_p."""
    kept = log_probabilities > -math.inf
    if 0 < sampling.top_k < log_probabilities.shape[-1]:
        least = log_probabilities.topk(sampling.top_k, dim=-1).values[:, -1:]
        kept &= log_probabilities >= least
    if sampling.top_p < 1:
        left = log_probabilities.masked_fill(~kept, -math.inf).softmax(-1)
        ranked, order = left.sort(-1, descending=True)
        in_nucleus = ranked.cumsum(-1) - ranked < sampling.top_p
        kept &= torch.zeros_like(kept).scatter(1, order, in_nucleus)
    if sampling.min_p > 0:
        most = log_probabilities.max(-1, keepdim=True).values
        kept &= log_probabilities >= most + math.log(sampling.min_p)
    return kept


def gumbel_noise(seed: int, positions: torch.Tensor, size: int) -> torch.Tensor:
    """Standard Gumbel variables, float32 ``[positions, size]``, the same on every device.

    A counter-based generator: SplitMix64 (Steele, Lea and Flood 2014) of seed, position and
    token, in integers that wrap around.
    """
    tokens = torch.arange(size, device=positions.device)
    start = _mix(_mix(_wrap(seed)) + positions.long())
    word = _mix(start[:, None] + tokens * _GOLDEN)
    # 23 bits and a half: exact in float32, and neither 0 nor 1.
    uniform = (((word >> 41) & 0x7FFFFF).float() + 0.5) / (1 << 23)
    return -(-uniform.log()).log()


def _wrap(number: int) -> int:
    """The number as a signed 64-bit integer."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


_GOLDEN = _wrap(0x9E3779B97F4A7C15)
_FACTORS = (_wrap(0xBF58476D1CE4E5B9), _wrap(0x94D049BB133111EB))


def _mix(word: torch.Tensor | int) -> torch.Tensor:
    if isinstance(word, int):
        word = torch.tensor(word)
    word = word + _GOLDEN
    for shift, factor in zip((30, 27), _FACTORS, strict=True):
        # >> keeps the sign, so the bits that it shifts in are masked away.
        word = (word ^ ((word >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return word ^ ((word >> 31) & ((1 << 33) - 1))
