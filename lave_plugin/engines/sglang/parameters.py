"""What a request's sampling parameters ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from lave_plugin import grammars
from lave_plugin.grammar.composition import AS_EBNF
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.options import InvalidOptions, LaveOptions
from lave_plugin.sampling import Sampling

ANY_JSON = "$$ANY$$"
"""What the engine makes of ``response_format: json_object``, in the place of a schema."""


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
    the method is the server's. ``report`` is no option: see ``openai_report.py``.

    Raises:
        InvalidOptions: for anything else under ``lave`` but a constraint and ``trace``, and for a
            strategy that is none.
    """
    constraints = (*AS_EBNF, *_COMPOSED)
    others = (*constraints, "trace", "report")
    chosen = {name: value for name, value in _of_lave(request).items() if name not in others}
    if not isinstance(report := _of_lave(request).get("report", False), bool):
        raise InvalidOptions(f"custom_params: lave.report must be true or false, got {report!r}.")
    if unknown := sorted(str(name) for name in chosen if name != "strategy"):
        raise InvalidOptions(
            f"custom_params: lave.{unknown[0]} is nothing that a request can choose; it can "
            f"choose lave.strategy, lave.{', lave.'.join(others)}, and the rest stands in "
            "the server's --dllm-algorithm-config."
        )
    try:
        return replace(of_server, **chosen)
    except InvalidOptions as error:
        raise InvalidOptions(f"custom_params: {error}") from None


def wants_trace(request: Any) -> bool:
    """Whether a request asks for its steps with ``custom_params: {"lave": {"trace": true}}``.

    Raises:
        InvalidOptions: for anything but true and false.
    """
    asked = _of_lave(request).get("trace", False)
    if not isinstance(asked, bool):
        raise InvalidOptions(f"custom_params: lave.trace must be true or false, got {asked!r}.")
    return asked


_COMPOSED = ("all_of", "template")
"""What puts constraints together (``grammar/composition.py``)."""


def composed(request: Any) -> list[dict[str, Any]]:
    """The constraints that a request puts together under ``custom_params: {"lave": ...}``.

    Raises:
        InvalidOptions: for something under ``lave`` that is no object.
    """
    chosen = _of_lave(request)
    return [{name: chosen[name]} for name in _COMPOSED if chosen.get(name) is not None]


def own_constraint(request: Any) -> str | None:
    """The name of what constrains ``request`` under ``custom_params: {"lave": ...}``, if anything.

    Raises:
        InvalidOptions: for something under ``lave`` that is no object, and for two constraints.
    """
    given = [name for name in AS_EBNF if _of_lave(request).get(name) is not None]
    if len(given) > 1:
        raise InvalidOptions(
            f"lave.{given[0]} and lave.{given[1]} are two constraints, and a request has one: "
            "leave one out."
        )
    return given[0] if given else None


def ebnf_of_own_constraint(request: Any) -> str | None:
    """That constraint in EBNF.

    Raises:
        InvalidOptions: as ``own_constraint``, and where the constraint is not one.
    """
    name = own_constraint(request)
    if name is None:
        return None
    try:
        return AS_EBNF[name](_of_lave(request)[name])
    except (grammars.UnknownGrammar, UnsupportedGrammar) as error:
        raise InvalidOptions(f"custom_params: lave.{name}: {error}") from None


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
