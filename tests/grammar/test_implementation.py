"""Which implementation serves, and what is said where the native one is missing."""

import logging
import sys

import pytest

import lave_plugin
from lave_plugin.grammar import automaton, implementation, token_automaton
from lave_plugin.grammar.counting import CountingAutomaton
from lave_plugin.grammar.normal_form import read_normal_form
from lave_plugin.grammar.vocabulary import Vocabulary

RULES = read_normal_form('root ::= (("a"))')
VOCABULARY = Vocabulary([b"", b"a"], [0])


@pytest.fixture
def without_native(monkeypatch):
    """As where no compiler was at hand."""
    monkeypatch.setitem(sys.modules, "lave_plugin.native", None)
    monkeypatch.delattr(lave_plugin, "native", raising=False)
    implementation._built_module.cache_clear()
    yield
    implementation._built_module.cache_clear()


@pytest.fixture
def any_choice(monkeypatch):
    monkeypatch.delenv("LAVE_NATIVE", raising=False)


def test_the_reference_on_request(monkeypatch):
    monkeypatch.setenv("LAVE_NATIVE", "0")
    states = implementation.states_of(RULES)
    assert type(states) is automaton.Automaton
    assert type(implementation.states_over(states, VOCABULARY)) is token_automaton.TokenAutomaton


def test_native_where_it_is_there(any_choice):
    native = pytest.importorskip("lave_plugin.native")
    states = implementation.states_of(RULES)
    assert type(states) is native.Automaton
    assert type(implementation.states_over(states, VOCABULARY)) is native.TokenAutomaton


def test_limits_over_rules_within_rules_are_counted_in_python(any_choice):
    rules = read_normal_form('root ::= ((a "!"))\na[max_tokens=5] ::= (("(" a ")") | ("x"))')
    states = implementation.states_of(rules)
    assert type(states) is CountingAutomaton
    assert type(implementation.states_over(states, VOCABULARY)) is token_automaton.TokenAutomaton


def test_one_warning_where_it_is_missing(any_choice, without_native, caplog):
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert type(implementation.states_of(RULES)) is automaton.Automaton
    assert len(caplog.records) == 1
    assert "LAVE_NATIVE=0" in caplog.text


def test_no_warning_where_the_reference_is_wanted(monkeypatch, without_native, caplog):
    monkeypatch.setenv("LAVE_NATIVE", "0")
    with caplog.at_level(logging.WARNING):
        implementation.states_of(RULES)
    assert not caplog.records


def test_an_error_where_native_is_demanded(monkeypatch, without_native):
    monkeypatch.setenv("LAVE_NATIVE", "1")
    with pytest.raises(ImportError, match="C\\+\\+ compiler"):
        implementation.states_of(RULES)
