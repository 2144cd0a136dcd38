"""Grammars put together, against what their definition says about every short text."""

import itertools
import json
import random
import re

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xgrammar_oracle import byte_compiler

from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.implementation import states_of
from lave_plugin.grammar.intersection import all_of, as_dfa, in_order, intersect
from lave_plugin.grammar.normal_form import read_normal_form

COMPILER = byte_compiler()
TEXTS = [bytes(t) for n in range(7) for t in itertools.product(b"ab", repeat=n)]

RECURSIVE = {
    "balanced": 'root ::= "" | "a" root "b" root',
    "palindromes": 'root ::= "a" root "a" | "b" root "b" | "a" | "b" | ""',
    "left": 'root ::= root "a" | root "b" "b" | [ab]',
    "ambiguous": 'root ::= root root | "a" | "ab" | ""',
    "through each other": 'root ::= x "a" | "a"\nx ::= root "b" | x "a" x | "b"',
    "nullable": 'root ::= n root n "b" | n "a"\nn ::= "" | "a" n "b"',
}
REGULAR = {
    "even": "(aa|ab|ba|bb)*",
    "no bb": "(a|ba)*b?",
    "third from the end": "(a|b)*a(a|b)(a|b)",
    "a few": "abab|ba|a{3,5}",
    "counted": "(ab?){2,4}",
}


def ebnf(source):
    return read_normal_form(str(COMPILER.compile_grammar(source).grammar))


def regex(source):
    return read_normal_form(str(COMPILER.compile_regex(source).grammar))


def taken(rules):
    automaton = states_of(rules)
    return {t for t in TEXTS if automaton.accepting(automaton.run(automaton.start, t))}


def completed(rules):
    """Every prefix of a short text with its shortest completion, both in one."""
    automaton = states_of(rules)
    for text in TEXTS:
        state = automaton.run(automaton.start, text)
        if state != -1:
            yield text + automaton.shortest_completion(state)


@pytest.mark.parametrize("regular", REGULAR)
@pytest.mark.parametrize("recursive", RECURSIVE)
def test_the_product_takes_what_both_take(recursive, regular):
    first, second = ebnf(RECURSIVE[recursive]), regex(REGULAR[regular])
    both = taken(first) & taken(second)
    product = all_of([first, second])
    assert taken(product) == both
    automaton, others = states_of(product), [states_of(first), states_of(second)]
    for text in completed(product):
        assert all(a.accepting(a.run(a.start, text)) for a in others), text
    # Alive is what begins a sentence, as far as the short ones show it.
    for text in both:
        assert all(automaton.run(automaton.start, text[:n]) != -1 for n in range(len(text)))


EXPRESSIONS = st.recursive(
    st.sampled_from(["a", "b", "[ab]", ""]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        inner.filter(bool).map(lambda each: f"({each})*"),
        inner.filter(bool).map(lambda each: f"({each}){{1,3}}"),
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(RECURSIVE)), st.lists(EXPRESSIONS, min_size=1, max_size=3))
def test_any_expressions(recursive, expressions):
    parts = [ebnf(RECURSIVE[recursive])]
    parts += [regex(each) if each else ebnf('root ::= ""') for each in expressions]
    expected = {
        text
        for text in taken(parts[0])
        if all(re.fullmatch(each.encode(), text) for each in expressions)
    }
    for order in (parts, parts[::-1]):
        try:
            found = taken(all_of(order))
        except UnsupportedGrammar as error:
            assert "No text obeys" in str(error)
            found = set()
        assert found == expected


RIGHT_LINEAR = 'root ::= "a" x | "b"\nx ::= "b" root | "a" y | ""\ny ::= "a" y | "b" x'


@pytest.mark.parametrize("source", [RIGHT_LINEAR, 'root ::= x x "b"\nx ::= "a" | "b" x'])
def test_recursion_at_the_end_is_regular(source):
    rules = ebnf(source)
    dfa = as_dfa(rules)
    assert dfa is not None
    assert taken(intersect(ebnf('root ::= "" | [ab] root'), dfa)) == taken(rules)


def test_a_schema_and_an_expression():
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "inner": {"$ref": "#"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    rules = read_normal_form(str(COMPILER.compile_json_schema(schema).grammar))
    automaton = states_of(all_of([rules, regex('[a-z{}": ,]{20,60}')]))
    draw = random.Random(7)
    for _ in range(50):
        text, state = b"", automaton.start
        while len(text) < 60 and automaton.can_continue(state):
            text += bytes([draw.choice(automaton.allowed_bytes(state))])
            state = automaton.step(state, text[-1])
        text += automaton.shortest_completion(state)
        jsonschema.validate(json.loads(text), schema)
        assert re.fullmatch('[a-z{}": ,]{20,60}', text.decode()), text


def test_one_behind_the_other():
    parts = [ebnf(RECURSIVE["balanced"]), regex("b{1,2}"), ebnf(RECURSIVE["palindromes"])]
    whole = {b"".join(each) for each in itertools.product(*map(taken, parts))}
    assert taken(in_order(parts)) == {text for text in whole if len(text) < 7}
    assert as_dfa(in_order([regex("a*"), regex("b?a")])) is not None


COUNTED = 'root ::= a "b"\na[max_chars=2] ::= ("a" | "ab")*'


def test_budgets_of_what_stands_in_a_row():
    """Each has its own, in characters and in tokens."""
    rules = in_order([ebnf(COUNTED), regex("b"), ebnf(COUNTED)])
    assert rules.character_budgets
    assert taken(rules) == {
        first + b"b" + second
        for first in taken(ebnf(COUNTED))
        for second in taken(ebnf(COUNTED))
        if len(first + second) < 6
    }
    assert in_order([ebnf('root ::= a "b"\na[max_tokens=3] ::= "a"*')] * 2).token_budgets


def test_limits_over_rules_within_rules_stand_in_a_row_as_well():
    limited = 'root ::= a\na[max_chars=3] ::= "a" a "b" | b\nb[max_chars=1] ::= "a"*'
    alone = {b"", b"a", b"ab", b"aab"}
    assert taken(ebnf(limited)) == alone
    together = taken(in_order([ebnf(limited), regex("b"), ebnf(limited)]))
    assert together == {
        one + b"b" + other for one in alone for other in alone if len(one + other) < 6
    }


@pytest.mark.parametrize(
    ("sources", "sentence"),
    [
        ([RECURSIVE["balanced"], RECURSIVE["palindromes"]], "Keep at most one"),
        ([RECURSIVE["balanced"], 'root ::= "ba"'], "No text obeys"),
        (['root ::= "a"', 'root ::= "b"'], "No text obeys"),
        ([RECURSIVE["balanced"], "root ::= Token(97)"], "speaks of tokens"),
        ([RECURSIVE["balanced"], 'root ::= a "b"\na[max_tokens=3] ::= "a"*'], "speaks of tokens"),
        ([RECURSIVE["balanced"], COUNTED], "max_chars"),
    ],
)
def test_refusals(sources, sentence):
    with pytest.raises(UnsupportedGrammar, match=sentence):
        all_of([ebnf(source) for source in sources])
