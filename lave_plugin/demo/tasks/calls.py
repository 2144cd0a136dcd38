"""Function calls: a list of tools and a request that one of them serves, as JSON or in Python.

A tool is a verb and a noun with up to three arguments; in training about half of these words are
coined. Which pairs training sees is settled by ``records.split_of`` of their names, so that
held-out requests go to tools it never saw; half of them are of verbs, nouns and arguments that
stand in no training sample at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lave_plugin.demo.records import (
    BOOLEAN,
    COLOURS,
    DATE,
    GOODS,
    INTEGER,
    NUMBER,
    STRING,
    TIME,
    WEEKDAYS,
    Draw,
    Sample,
    object_of,
    one_of,
    split_of,
    typed,
    words,
)

VERBS = words(
    "add book buy call cancel check close copy count find lock mark move open order pay plan play "
    "print rate rename repair save sell send share show start stop store watch wash"
)
NOUNS = words(
    "alarm album bag bill bus card cart chair class door field film gate group guest house lamp "
    "lesson list mail menu note pass photo radio report robot room shop song table task taxi "
    "ticket timer tour trip van video wall window"
)

UNSEEN_VERBS = words("varnish borrow dispatch inflate polish rehearse sharpen translate")
UNSEEN_NOUNS = words("balloon catalogue diploma hammock nephew sandwich trumpet")
UNSEEN_SHARE = 0.5

Makes = Callable[[Draw], Any]


def _time(draw: Draw) -> str:
    return f"{draw.whole(0, 23):02d}:{draw.whole(0, 59):02d}"


Kind = tuple[Makes, dict[str, Any]]
"""Of an argument: its values, and their schema."""

ARGUMENTS: dict[str, Kind] = {
    **{
        name: (lambda draw: draw.whole(1, draw.pick(9, 99, 999)), INTEGER)
        for name in words("amount copies level limit minutes number people volume floor pages")
    },
    **{
        name: (lambda draw: draw.decimal(0, draw.pick(9, 99), places=1), NUMBER)
        for name in words("price weight degrees ratio")
    },
    **{
        name: (lambda draw: draw.person() if draw.chance(0.5) else draw.invented(), STRING)
        for name in words("author driver friend person title user")
    },
    **{name: (lambda draw: draw.town(), STRING) for name in words("from place to town")},
    **{
        name: (lambda draw: draw.chance(0.5), BOOLEAN)
        for name in words("again loud private quick silent urgent")
    },
    **{name: (lambda draw: draw.date()[0], DATE) for name in words("date start until")},
    "time": (_time, TIME),
    "day": (lambda draw: draw.pick(*WEEKDAYS), one_of(WEEKDAYS)),
    "colour": (lambda draw: draw.pick(*COLOURS), one_of(COLOURS)),
    "object": (lambda draw: draw.pick(*GOODS), STRING),
    "code": (lambda draw: draw.code("ABCDKLMRT", 1, 999), STRING),
}


UNSEEN_ARGUMENTS: dict[str, Kind] = {
    "litres": (lambda draw: draw.whole(1, draw.pick(9, 99)), INTEGER),
    "discount": (lambda draw: draw.decimal(0, 9, places=1), NUMBER),
    "recipient": (lambda draw: draw.person(), STRING),
    "venue": (lambda draw: draw.town(), STRING),
    "anonymous": (lambda draw: draw.chance(0.5), BOOLEAN),
    "renewal": (lambda draw: draw.date()[0], DATE),
    "departure": (_time, TIME),
}
UNSEEN_WORDS = frozenset([*UNSEEN_VERBS, *UNSEEN_NOUNS, *UNSEEN_ARGUMENTS])


@dataclass(frozen=True)
class Tool:
    verb: str
    noun: str
    arguments: dict[str, Kind]

    @property
    def name(self) -> str:
        return f"{self.verb}_{self.noun}"

    @property
    def signature(self) -> str:
        # Days and colours are texts here: their names would fill the prompt.
        arguments = (
            typed(name, STRING if "enum" in schema else schema)
            for name, (_, schema) in self.arguments.items()
        )
        return f"{self.name}({','.join(arguments)})"


def _arguments(draw: Draw, known: dict[str, Kind]) -> dict[str, Kind]:
    """Up to three; a coined name has the kind of one that is known."""
    return {draw.word([name]): known[name] for name in draw.some(list(known), 1, 3)}


def _tool(draw: Draw, unseen: bool) -> Tool:
    if unseen:
        verb, noun = draw.pick(*UNSEEN_VERBS), draw.pick(*UNSEEN_NOUNS)
        return Tool(verb, noun, _arguments(draw, UNSEEN_ARGUMENTS))
    while True:
        tool = Tool(draw.word(VERBS), draw.word(NOUNS), _arguments(draw, ARGUMENTS))
        if split_of(tool.name) == draw.split:
            return tool


def _spoken(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _request(draw: Draw, tool: Tool, values: dict[str, Any]) -> str:
    told = [f"{name} {_spoken(value)}" for name, value in values.items()]
    draw.rng.shuffle(told)
    joined = told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"
    verb, noun = tool.verb, tool.noun
    return draw.pick(
        f"{verb.capitalize()} the {noun} with {joined}.",
        f"Please {verb} a {noun}: {joined}.",
        f"I want to {verb} the {noun}, {joined}.",
        f"For {joined}, {verb} that {noun}.",
    )


def schema_of(tools: list[Tool]) -> dict[str, Any]:
    """A call of one of the tools, with all its arguments in their order."""
    return {
        "anyOf": [
            object_of(
                {
                    "name": one_of([tool.name]),
                    "arguments": object_of(
                        {name: schema for name, (_, schema) in tool.arguments.items()}
                    ),
                }
            )
            for tool in tools
        ]
    }


VALUE_RULES = """\
string ::= "\\"" [^"\\\\\\n]* "\\""
integer ::= "-"? ("0" | [1-9] [0-9]*)
number ::= integer ("." [0-9]+)?
boolean ::= "True" | "False"
date ::= "\\"" [0-9]{4} "-" [0-9]{2} "-" [0-9]{2} "\\""
time ::= "\\"" [0-9]{2} ":" [0-9]{2} "\\""
"""


def _rule(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "(" + " | ".join(f'"\\"{option}\\""' for option in schema["enum"]) + ")"
    if schema is DATE:
        return "date"
    return "time" if schema is TIME else schema["type"]


def grammar_of(tools: list[Tool]) -> str:
    """The same as ``schema_of`` in Python's syntax, with keyword arguments; EBNF."""
    calls = []
    for tool in tools:
        parts = [f'"{name}=" {_rule(schema)}' for name, (_, schema) in tool.arguments.items()]
        inside = ' ", " '.join(parts)
        calls.append(f'"{tool.name}(" {inside} ")"')
    return f"root ::= {' | '.join(calls)}\n{VALUE_RULES}"


def _literal(value: Any) -> str:
    return repr(value) if isinstance(value, bool) else json.dumps(value)


def _drawn(draw: Draw) -> tuple[list[Tool], Tool, dict[str, Any], str]:
    unseen = draw.split == "held-out" and draw.chance(UNSEEN_SHARE)
    tools = [_tool(draw, unseen) for _ in range(draw.whole(2, 3))]
    if len({(tool.verb, tool.noun) for tool in tools}) < len(tools):
        return _drawn(draw)
    wanted = draw.pick(*tools)
    values = {name: make(draw) for name, (make, _) in wanted.arguments.items()}
    request = _request(draw, wanted, values)
    return tools, wanted, values, request


def json_call_sample(draw: Draw) -> Sample:
    tools, wanted, values, request = _drawn(draw)
    told = ",".join(tool.signature for tool in tools)
    return Sample(
        kind="json call",
        prompt=f"Tools [{told}]. Call as JSON: {request}",
        answer=json.dumps({"name": wanted.name, "arguments": values}),
        schema=schema_of(tools),
    )


def python_call_sample(draw: Draw) -> Sample:
    tools, wanted, values, request = _drawn(draw)
    told = ",".join(tool.signature for tool in tools)
    given = ", ".join(f"{name}={_literal(value)}" for name, value in values.items())
    return Sample(
        kind="python call",
        prompt=f"Tools [{told}]. Call in Python: {request}",
        answer=f"{wanted.name}({given})",
        grammar=grammar_of(tools),
    )
