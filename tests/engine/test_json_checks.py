"""The independent judge of finished JSON, without a server."""

from __future__ import annotations

import json
import time

import pytest

from lave_plugin.engines.sglang.json_checks import Judge
from lave_plugin.engines.sglang.json_judge import fault

OBJECT = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 3}, "b": {"$ref": "#/$defs/b"}},
    "required": ["a"],
    "additionalProperties": False,
    "$defs": {"b": {"pattern": "^x"}},
}
CASES = {
    "valid": (OBJECT, '{"a": 3, "b": "xy"}', None),
    "a number that is too small": (OBJECT, '{"a": 2}', "minimum at #/properties/a"),
    "behind a reference": (OBJECT, '{"a": 3, "b": "y"}', "pattern at #/properties/b"),
    "a property too many": (OBJECT, '{"a": 3, "c": 1}', "additionalProperties at #"),
    "a missing one": (OBJECT, "{}", "required at #"),
    "no JSON": (OBJECT, '{"a": 3', "not JSON"),
    "text behind the JSON": (OBJECT, '{"a": 3} x', "not JSON"),
    "what Python alone takes for JSON": ({"type": "number"}, "NaN", "not JSON"),
    "any JSON": (True, "[1, {}]", None),
    "an older draft": (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "type": "integer",
            "maximum": 3,
            "exclusiveMaximum": True,
        },
        "3",
        "maximum at #",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_fault(name):
    schema, text, expected = CASES[name]
    assert fault(json.dumps(schema), text) == expected


@pytest.fixture
def judge():
    judge = Judge(seconds=3.0)
    yield judge
    judge.dismiss()


def test_the_judge_answers_and_goes_on_behind_what_it_cannot_judge(judge):
    schema = json.dumps(OBJECT)
    assert judge.ask(schema, '{"a": 3}') == ("valid", "")
    assert judge.ask(schema, '{"a": 2}') == ("invalid", "minimum at #/properties/a")
    for unknown in (
        '{"pattern": "("}',
        '{"$ref": "http://127.0.0.1:9/schema"}',  # nothing is fetched
        '{"multipleOf": 0.1}',
        '{"$ref": "#"}',
    ):
        assert judge.ask(unknown, "0.35" if "Of" in unknown else '"x"')[0] == "undecided", unknown
    assert judge.ask(schema, '{"a": 4}') == ("valid", "")


def test_a_pattern_that_takes_for_ever_costs_its_judge_and_nobody_else(judge):
    assert judge.ask("true", "1") == ("valid", "")
    begin = time.monotonic()
    assert judge.ask('{"pattern": "^(a+)+$"}', f'"{"a" * 40}b"') == ("undecided", "TimeoutError")
    assert time.monotonic() - begin < 20
    assert judge.ask("true", "2") == ("valid", "")
