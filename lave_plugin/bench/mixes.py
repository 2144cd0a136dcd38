"""The request mixes of ``lave bench serve``: what is asked, how it is constrained, who judges.

The prompts are held-out ones of the shipped model's kind; any other chat model reads them as
well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lave_plugin import grammars
from lave_plugin.demo import checks
from lave_plugin.demo.checks import Check
from lave_plugin.demo.tasks import held_out

MIXES = ("none", "json_schema", "json_object", "regex", "cpp")
"""``none`` holds the prompts of the others, unconstrained."""

MAX_TOKENS = 96


@dataclass(frozen=True)
class Ask:
    """One request.

    Attributes:
        prompt: What the user says.
        constraint: More fields of the chat completion; empty for none.
        check: Says of an answer why it doesn't meet the constraint, or None.
    """

    prompt: str
    constraint: Mapping[str, Any]
    check: Check

    def body(self, model: str, *, constrained: bool, max_tokens: int) -> dict[str, Any]:
        """The chat completion, at temperature 0."""
        return {
            "model": model,
            "messages": [{"role": "user", "content": self.prompt}],
            "temperature": 0,
            "max_tokens": max_tokens,
            **(self.constraint if constrained else {}),
        }


def asks(mix: str, count: int, seed: int) -> list[Ask]:
    """``count`` requests of one mix, the same for the same seed."""
    if mix == "none":
        kinds = [asks(kind, count, seed) for kind in MIXES[1:]]
        mixed = [kinds[place % len(kinds)][place] for place in range(count)]
        return [Ask(ask.prompt, {}, _anything) for ask in mixed]
    return {
        "json_schema": _json_schema,
        "json_object": _json_object,
        "regex": _regex,
        "cpp": _cpp,
    }[mix](count, seed)


def _anything(text: str) -> None:
    """No constraint, no complaint."""


def schema_constraint(schema: Mapping[str, Any]) -> dict[str, Any]:
    """``response_format`` for one JSON schema."""
    named = {"name": "answer", "schema": schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _json_schema(count: int, seed: int) -> list[Ask]:
    return [
        Ask(s.prompt, schema_constraint(s.schema), checks.json_schema(s.schema))
        for s in held_out(count, seed)
    ]


def _json_object(count: int, seed: int) -> list[Ask]:
    constraint = {"response_format": {"type": "json_object"}}
    return [Ask(s.prompt, constraint, checks.json_object) for s in held_out(count, seed)]


def _regex(count: int, seed: int) -> list[Ask]:
    return [
        Ask(s.prompt, {"regex": s.regex}, checks.regex(s.regex))
        for s in held_out(count, seed, "field")
    ]


def _cpp(count: int, seed: int) -> list[Ask]:
    _, grammar = grammars.load("cpp")
    constraint, check = {"ebnf": grammar}, checks.ebnf(grammar)
    return [Ask(s.prompt, constraint, check) for s in held_out(count, seed, "cpp")]
