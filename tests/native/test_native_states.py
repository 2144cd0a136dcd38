"""The C++ states are the reference's states: same texts, same completions, same ids."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_rules import ALPHABET, rule_automata
from test_sentences import EBNF, JSON_SCHEMA, REGEX, judge

from lave_plugin import native
from lave_plugin.grammar import automaton as reference
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.normal_form import read_normal_form


def compile_any(compiler, grammar, kind):
    compile_it = {
        "ebnf": compiler.compile_grammar,
        "schema": compiler.compile_json_schema,
        "regex": compiler.compile_regex,
    }[kind]
    return read_normal_form(str(compile_it(grammar).grammar))


TABLE = [
    (kind, *row)
    for kind, table in (("ebnf", EBNF), ("schema", JSON_SCHEMA), ("regex", REGEX))
    for row in table
]


@pytest.mark.parametrize(("kind", "grammar", "text", "verdict"), TABLE)
def test_the_reference_tables(compiler, kind, grammar, text, verdict):
    text = text.encode() if isinstance(text, str) else text
    assert judge(native.Automaton(compile_any(compiler, grammar, kind)), text) == verdict


def assert_same_state(python, cpp, one, other):
    assert python.accepting(one) == cpp.accepting(other)
    assert python.can_continue(one) == cpp.can_continue(other)
    assert python.allowed_bytes(one) == cpp.allowed_bytes(other)
    assert python.forced_bytes(one, 9) == cpp.forced_bytes(other, 9)
    if one != DEAD:
        assert python.shortest_length(one) == cpp.shortest_length(other)
        assert python.shortest_completion(one) == cpp.shortest_completion(other)


GRAMMARS = {(kind, repr(row[0])): (kind, row[0]) for kind, *row in TABLE}


@pytest.mark.parametrize("name", GRAMMARS, ids=" ".join)
def test_walks_through_the_same_states(compiler, name):
    kind, grammar = GRAMMARS[name]
    rules = compile_any(compiler, grammar, kind)
    python, cpp = reference.Automaton(rules), native.Automaton(rules)
    rng = random.Random(repr(name))
    for _ in range(8):
        state = python.start
        assert cpp.start == state
        for _ in range(25):
            assert_same_state(python, cpp, state, state)
            allowed = python.allowed_bytes(state)
            byte = rng.choice(allowed) if allowed and rng.random() < 0.9 else rng.randrange(256)
            following = python.step(state, byte)
            # Asked the same in the same order, both number the states alike.
            assert cpp.step(state, byte) == following
            if following == DEAD:
                break
            state = following
    assert python.state_count == cpp.state_count


@settings(max_examples=400, deadline=None)
@given(rules=rule_automata(), texts=st.lists(st.lists(st.sampled_from(ALPHABET), max_size=9)))
def test_any_automata(rules, texts):
    python, cpp = reference.Automaton(rules), native.Automaton(rules)
    for text in texts:
        state = python.start
        for byte in text:
            assert_same_state(python, cpp, state, state)
            following = python.step(state, byte)
            assert cpp.step(state, byte) == following
            state = following
        assert cpp.run(cpp.start, bytes(text)) == state
    assert python.state_count == cpp.state_count
    assert cpp.memory > 0


def test_a_dead_state_stays_dead():
    rules = read_normal_form('root ::= (("a"))')
    cpp = native.Automaton(rules)
    assert cpp.step(DEAD, 97) == DEAD
    assert cpp.run(DEAD, b"a") == DEAD
    assert cpp.allowed_bytes(DEAD) == b""
    assert not cpp.accepting(DEAD) and not cpp.can_continue(DEAD)
    with pytest.raises(ValueError, match="dead"):
        cpp.shortest_length(DEAD)
    with pytest.raises(ValueError, match="dead"):
        cpp.shortest_completion(DEAD)


@pytest.mark.parametrize("state", [-2, 10**6, 2**40, -(2**62)])
def test_a_state_that_is_not_there_is_refused(state):
    cpp = native.Automaton(read_normal_form('root ::= (("a"))'))
    calls = [
        lambda: cpp.step(state, 97),
        lambda: cpp.run(state, b"a"),
        lambda: cpp.accepting(state),
        lambda: cpp.can_continue(state),
        lambda: cpp.shortest_length(state),
        lambda: cpp.shortest_completion(state),
        lambda: cpp.allowed_bytes(state),
        lambda: cpp.forced_bytes(state),
    ]
    for call in calls:
        with pytest.raises(IndexError):
            call()


@pytest.mark.parametrize("byte", [-1, 256, 2**40])
def test_a_byte_that_is_none_is_refused(byte):
    cpp = native.Automaton(read_normal_form('root ::= (("a"))'))
    with pytest.raises(ValueError, match="byte"):
        cpp.step(cpp.start, byte)
