"""What a request's sampling parameters ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from lave_plugin import grammars
from lave_plugin.options import InvalidOptions, LaveOptions
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
    """The request's seed.

    Without one, the same for all requests that take the most probable tokens, so that each
    gives the same answer every time; else one made of its id, the same on every rank.
    """
    parameters = request.sampling_params
    if parameters.sampling_seed is not None:
        return parameters.sampling_seed
    if parameters.top_k == 1:
        return 0
    return int.from_bytes(blake2b(str(request.rid).encode(), digest_size=8).digest(), "big")


def options_of(request: Any, of_server: LaveOptions) -> LaveOptions:
    """The server's options, with the strategy that the request chooses for itself.

    It does so with ``custom_params: {"lave": {"strategy": ...}}``. Everything else about
    the method is the server's.

    Raises:
        InvalidOptions: for anything else under ``lave`` but the name of a grammar, and for a
            strategy that is none.
    """
    chosen = {name: value for name, value in _of_lave(request).items() if name != "grammar"}
    if unknown := sorted(str(name) for name in chosen if name != "strategy"):
        raise InvalidOptions(
            f"custom_params: lave.{unknown[0]} is nothing that a request can choose; it can "
            "choose lave.strategy and lave.grammar, and the rest stands in the server's "
            "--dllm-algorithm-config."
        )
    try:
        return replace(of_server, **chosen)
    except InvalidOptions as error:
        raise InvalidOptions(f"custom_params: {error}") from None


def names_grammar(request: Any) -> bool:
    """Whether the request names a grammar: ``custom_params: {"lave": {"grammar": ...}}``.

    Raises:
        InvalidOptions: for something under ``lave`` that is no object.
    """
    return _of_lave(request).get("grammar") is not None


def named_grammar(request: Any) -> str | None:
    """The EBNF of the grammar that the request names, if it names one.

    Raises:
        InvalidOptions: for something under ``lave`` that is no object, and an unknown name.
    """
    if not names_grammar(request):
        return None
    try:
        _, text = grammars.load(_of_lave(request)["grammar"])
    except grammars.UnknownGrammar as error:
        raise InvalidOptions(f"custom_params: lave.grammar: {error}") from None
    return text


def _of_lave(request: Any) -> Mapping[str, Any]:
    chosen = (request.sampling_params.custom_params or {}).get("lave")
    if chosen is None:
        return {}
    if not isinstance(chosen, Mapping):
        raise InvalidOptions(
            'custom_params: lave must be an object, such as {"strategy": ...} or '
            f'{{"grammar": ...}}, got {chosen!r}.'
        )
    return chosen
