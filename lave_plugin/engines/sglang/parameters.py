"""What a request's sampling parameters ask for."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from lave_plugin.sampling import Sampling


def sampling_of(request: Any) -> Sampling | None:
    """How to draw the tokens of a request; ``None`` to take the most probable.

    The engine writes temperature 0 as ``top_k = 1`` (``SamplingParams.normalize``).
    """
    parameters = request.sampling_params
    if parameters.top_k == 1:
        return None
    return Sampling(
        temperature=parameters.temperature,
        seed=seed_of(request),
        top_k=parameters.top_k,
        top_p=parameters.top_p,
        min_p=parameters.min_p,
    )


def seed_of(request: Any) -> int:
    """The request's seed, or one made of its id, which is the same on every rank."""
    seed = request.sampling_params.sampling_seed
    if seed is not None:
        return seed
    return int.from_bytes(blake2b(str(request.rid).encode(), digest_size=8).digest(), "big")
