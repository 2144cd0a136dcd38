"""Requests with every kind of constraint, each with a judge that is not ours."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jsonschema
import lark


@dataclass(frozen=True)
class Constraint:
    """A constraint and its judge.

    Attributes:
        field: the sampling parameter of SGLang's native API.
        value: its value.
        room: tokens that are ample for an answer.
        is_valid: judges a whole answer.
    """

    name: str
    field: str
    value: str
    room: int
    is_valid: Callable[[str], bool]


def schema(name: str, value: dict[str, Any], room: int = 120) -> Constraint:
    validator = jsonschema.Draft202012Validator(value)

    def is_valid(text: str) -> bool:
        try:
            return validator.is_valid(json.loads(text))
        except json.JSONDecodeError:
            return False

    return Constraint(name, "json_schema", json.dumps(value), room, is_valid)


def regex(name: str, pattern: str, room: int = 60) -> Constraint:
    return Constraint(
        name, "regex", pattern, room, lambda text: re.fullmatch(pattern, text) is not None
    )


def closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


ARITHMETIC_EBNF = """\
root ::= term (" " [-+] " " term)*
term ::= factor (" " [*/] " " factor)*
factor ::= [0-9]{1,4} | [a-z] | "(" root ")"
"""
ARITHMETIC_LARK = lark.Lark(
    r"""
    start: term (" " /[-+]/ " " term)*
    term: factor (" " /[*\/]/ " " factor)*
    factor: /[0-9]{1,4}/ | /[a-z]/ | "(" start ")"
    """
)


def is_arithmetic(text: str) -> bool:
    try:
        ARITHMETIC_LARK.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


CALL = closed({"city": {"enum": ["Oslo", "Lima"]}, "days": {"type": "integer"}})
CALL_TAG = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<call="],
        "tags": [
            {
                "begin": "<call=weather>",
                "content": {"type": "json_schema", "json_schema": CALL},
                "end": "</call>",
            }
        ],
        "at_least_one": True,
        "stop_after_first": True,
    },
}


def is_call(text: str) -> bool:
    match = re.fullmatch(r"<call=weather>(.*)</call>", text, re.DOTALL)
    return match is not None and schema("", CALL).is_valid(match[1])


CODE = {"type": "string", "pattern": "^[A-Z]{2}$"}
TREE = {
    "type": "object",
    "properties": {
        "value": {"type": "integer"},
        "children": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
    },
    "required": ["value", "children"],
    "additionalProperties": False,
}
PERSON = closed(
    {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "address": closed({"street": {"type": "string"}, "zip": {"type": "string"}}),
    }
)

CONSTRAINTS = [
    schema("nested object", PERSON),
    schema("enum", closed({"level": {"enum": ["low", "medium", "high", 3, None, True]}})),
    schema("integer range", closed({"age": {"type": "integer", "minimum": 18, "maximum": 99}})),
    schema(
        "array with bounds",
        {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 5},
    ),
    schema("array of numbers", closed({"x": {"type": "array", "items": {"type": "number"}}})),
    schema("recursive reference", TREE),
    schema(
        "alternatives",
        closed(
            {"id": {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[A-Z]{2}$"}]}}
        ),
    ),
    schema("constant", closed({"kind": {"const": "invoice"}, "paid": {"type": "boolean"}})),
    regex("date", r"[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])", 12),
    regex("phone number", r"\+[0-9]{1,3}( [0-9]{2,4}){2,4}", 30),
    regex("words", r"([a-z]{1,8} ){0,5}[a-z]{1,8}\.", 60),
    Constraint("arithmetic", "ebnf", ARITHMETIC_EBNF, 40, is_arithmetic),
    Constraint("tool call", "structural_tag", json.dumps(CALL_TAG), 60, is_call),
]


@dataclass(frozen=True)
class Request:
    constraint: Constraint
    prompt: str
    temperature: float
    max_new_tokens: int

    def body(self, constrained: bool = True) -> dict[str, Any]:
        """The body of a native ``/generate`` request."""
        parameters: dict[str, Any] = {
            "temperature": self.temperature,
            "max_new_tokens": self.max_new_tokens,
        }
        if constrained:
            parameters[self.constraint.field] = self.constraint.value
        return {"text": self.prompt, "sampling_params": parameters}


PROMPTS = [
    "Alice Brown is 41 years old and lives in Oslo.",
    "Order 12 of the blue chair, 3 pieces at 9.50 each, is shipped.",
    "x",
    "The weather in Lima is sunny with 21 degrees and a light wind from the north east today.",
]


def mixed_requests(count: int, seed: int) -> Iterator[Request]:
    """``count`` requests over all constraints, both temperatures, odd lengths."""
    draw = random.Random(seed)
    for constraint in itertools.islice(itertools.cycle(CONSTRAINTS), count):
        yield Request(
            constraint,
            f"<|im_start|>user\n{draw.choice(PROMPTS)}<|im_end|>\n<|im_start|>assistant\n",
            draw.choice([0.0, 1.0]),
            # Never a multiple of a block of 4, 16 or 32.
            (constraint.room + draw.randint(0, 30)) // 4 * 4 + draw.choice([1, 2, 3]),
        )
