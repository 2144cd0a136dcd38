"""Schemas of which every keyword is kept: tables, and `jsonschema` as the judge of random ones."""

import json
import random
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lave_plugin.grammar import compiler
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.json_schema import Layout, UnsupportedSchema, exact_grammar
from lave_plugin.grammar.text_compiler import text_compiler

LAYOUT = Layout(most=2)


def states(schema):
    grammar = exact_grammar(json.dumps(schema), LAYOUT)
    if grammar is None:
        compiled = text_compiler().compile_json_schema(schema, max_whitespace_cnt=LAYOUT.most)
    else:
        compiled = text_compiler().compile_grammar(grammar)
    return automaton_of(compiled)


def takes(automaton, text: str) -> bool:
    state = automaton.run(automaton.start, text.encode())
    return state != DEAD and automaton.accepting(state)


def validator(schema):
    cls = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    return cls(schema, format_checker=jsonschema.FormatChecker())


LINES = Path(__file__).with_name("json_schema_cases.jsonl").read_text().splitlines()
CASES = [json.loads(line) for line in LINES]
"""{"schema", "good": texts that are taken, "bad": texts that are not}, or {"schema", "refused":
[what the sentence names, what else it says]}."""
TABLE = [(case["schema"], case["good"], case["bad"]) for case in CASES if "good" in case]
REFUSED = [(case["schema"], *case["refused"]) for case in CASES if "refused" in case]


@pytest.mark.parametrize(
    ("schema", "good", "bad"), TABLE, ids=[json.dumps(row[0])[:60] for row in TABLE]
)
def test_what_a_keyword_takes(schema, good, bad):
    automaton = states(schema)
    judge = validator(schema)
    for text in good:
        assert takes(automaton, text), text
        assert judge.is_valid(json.loads(text))
    for text in bad:
        assert not takes(automaton, text), text


@pytest.mark.parametrize(("schema", "keyword", "part"), REFUSED)
def test_a_refusal_names_keyword_and_path(schema, keyword, part):
    with pytest.raises(UnsupportedSchema) as refusal:
        exact_grammar(json.dumps(schema), LAYOUT)
    assert keyword in str(refusal.value)
    assert part in str(refusal.value)


PLAIN = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "who"},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
        "home": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]},
    },
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


def test_a_schema_that_xgrammar_keeps_is_left_to_it():
    assert exact_grammar(json.dumps(PLAIN), LAYOUT) is None


@pytest.mark.parametrize(
    ("layout", "good", "bad"),
    [
        (Layout(most=1), ['{ "a" :\n[1]\t}', '{"a":[1]}', "{ }"], ['{  "a":[1]}', "{  }"]),
        (Layout(free=False), ['{"a": [1, 2]}', "{}"], ['{"a":[1,2]}', '{ "a": [1]}', "{ }"]),
        (Layout(), ['{     "a":[1]}'], []),
    ],
)
def test_whitespace(layout, good, bad):
    items = {"type": "array", "items": {"minimum": 0}}
    schema = {"properties": {"a": items}, "dependencies": {}}
    compiled = text_compiler().compile_grammar(exact_grammar(json.dumps(schema), layout))
    automaton = automaton_of(compiled)
    assert [text for text in good if not takes(automaton, text)] == []
    assert [text for text in bad if takes(automaton, text)] == []


SCALARS = st.sampled_from([None, True, 0, 1, 3, -2, 2.5, "", "a", "ab", "b1"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abx"), inner, max_size=3)
    ),
    max_leaves=5,
)
LEAVES = st.one_of(
    st.sampled_from(
        [
            True,
            False,
            {"minLength": 2},
            {"maxLength": 1},
            {"pattern": "^a"},
            {"pattern": "b|\\d$"},
            {"minimum": 1},
            {"maximum": 2.5},
            {"exclusiveMinimum": 0},
            {"multipleOf": 3},
            {"minItems": 1},
            {"maxItems": 1},
            {"required": ["a"]},
            {"required": ["x"]},
            {"minProperties": 1},
            {"maxProperties": 1},
            {"uniqueItems": True},
            {"dependentRequired": {"a": ["b"]}},
            {"propertyNames": {"pattern": "^[ab]"}},
        ]
    ),
    st.sampled_from(["string", "integer", "number", "array", "object", "null", "boolean"]).map(
        lambda name: {"type": name}
    ),
    st.lists(SCALARS, min_size=1, max_size=3).map(lambda values: {"enum": values}),
    st.lists(VALUES, min_size=1, max_size=2).map(lambda values: {"enum": values}),
)


def _combined(inner):
    names = st.sampled_from("abx")
    pairs = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        *(pairs.map(lambda each, key=key: {key: each}) for key in ("allOf", "anyOf", "oneOf")),
        inner.map(lambda each: {"not": each}),
        st.tuples(inner, inner, inner).map(
            lambda each: dict(zip(("if", "then", "else"), each, strict=True))
        ),
        st.dictionaries(names, inner, min_size=1).map(lambda each: {"properties": each}),
        st.dictionaries(st.sampled_from(["^a", "x|b", "."]), inner, min_size=1, max_size=2).map(
            lambda each: {"patternProperties": each}
        ),
        inner.map(lambda each: {"additionalProperties": each}),
        inner.map(lambda each: {"items": each}),
        inner.map(lambda each: {"contains": each}),
        pairs.map(lambda each: {"prefixItems": each}),
        st.tuples(inner, inner).map(lambda each: _merged(*each)),
        st.tuples(inner, inner, inner).map(lambda each: _merged(*each)),
    )


def _merged(*schemas):
    merged = {}
    for each in schemas:
        merged |= each if isinstance(each, dict) else {}
    return merged


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.recursive(LEAVES, _combined, max_leaves=8), st.lists(VALUES, max_size=5), st.randoms())
def test_nothing_that_a_schema_forbids_is_taken(schema, values, draw: random.Random):
    try:
        automaton = states(schema)
    except UnsupportedGrammar:
        assume(False)
    judge = validator(schema)
    for value in values:
        text = json.dumps(value, separators=(",", ":"))
        assert not takes(automaton, text) or judge.is_valid(value), text
    for _ in range(5):
        state, text = automaton.start, bytearray()
        for _ in range(draw.choice([5, 30, 60])):
            if not automaton.can_continue(state):
                break
            allowed = automaton.allowed_bytes(state)
            near = [byte for byte in allowed if byte in b'{}[]",:abx013.5"null']
            text.append(draw.choice(near if near and draw.random() < 0.9 else allowed))
            state = automaton.step(state, text[-1])
        text += automaton.shortest_completion(state)
        assert judge.is_valid(json.loads(bytes(text))), bytes(text)
        last = json.loads(bytes(text), object_pairs_hook=lambda pairs: dict(pairs[::-1]))
        assert judge.is_valid(last), bytes(text)


def test_a_schema_whose_grammar_would_be_too_large_is_refused_soon():
    ways = [{"pattern": f"{a}.*{b}.*{c}"} for a in "abc" for b in "def" for c in "ghi"]
    schema = {"type": "string", "anyOf": ways, "maxLength": 90}
    with pytest.raises(UnsupportedSchema, match="larger than 1048576 bytes"):
        exact_grammar(json.dumps(schema), LAYOUT)


def test_a_grammar_whose_normal_form_is_too_large_is_refused(monkeypatch):
    compiled = text_compiler().compile_grammar('root ::= "a" | "b"')
    size = len(str(compiled.grammar))
    monkeypatch.setattr(compiler, "MOST_BYTES", size)
    automaton_of(compiled)
    monkeypatch.setattr(compiler, "MOST_BYTES", size - 1)
    with pytest.raises(UnsupportedGrammar, match=f"in xgrammar's normal form, and {size - 1}"):
        automaton_of(compiled)
