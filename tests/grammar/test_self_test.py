"""Another xgrammar than those that were tried must print and judge as the states are built."""

import logging

import pytest

from lave_plugin.grammar import self_test
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.implementation import states_of_text, states_over


@pytest.fixture
def untried(monkeypatch):
    monkeypatch.setattr(self_test, "version", lambda package: "9.9.9")


@pytest.mark.parametrize("case", self_test.CASES, ids=lambda case: case.name)
def test_the_texts_of_the_table_are_read_to_their_end(case):
    """A text that broke off would test less than it shows."""
    tokens = states_over(automaton_of(case.compile(self_test._compiler())), self_test._VOCABULARY)
    for text in case.texts:
        state = tokens.start
        for token in text.encode() if isinstance(text, str) else text:
            state = tokens.advance(state, token)
        assert state != DEAD


def test_an_untried_version_that_agrees_is_warned_of(untried, caplog):
    with caplog.at_level(logging.WARNING):
        self_test.check_version()
    assert "xgrammar 9.9.9 was not tried" in caplog.text


def test_a_tried_version_is_not_tested(monkeypatch):
    monkeypatch.setattr(self_test, "first_difference", lambda cases: pytest.fail("tested"))
    self_test.check_version()


def print_otherwise(monkeypatch, old, new):
    """As if xgrammar printed `new` for what it prints as `old` today."""
    monkeypatch.setattr(
        self_test,
        "automaton_of",
        lambda compiled: states_of_text(str(compiled.grammar).replace(old, new)),
    )


def test_a_grammar_that_is_judged_in_two_ways_is_named(untried, monkeypatch):
    print_otherwise(monkeypatch, '"<g>", ', '"<h>", ')
    with pytest.raises(self_test.XgrammarMismatch) as refusal:
        self_test.check_version()
    assert str(refusal.value) == (
        "the lave plugin was not tried with xgrammar 9.9.9 (tried: 0.2.7), and its own reading of"
        " a grammar is not that version's: tags with triggers: xgrammar refuses"
        r" b'\x00' behind b'\xc3\xa9 < <f=a>abc</f><g>'. So it could not enforce a constraint."
        " Install xgrammar 0.2.7, or start without --constrained-decoding."
    )


OTHER_PRINTS = [
    ("::=", "->", "not a grammar"),
    ("TagDispatch", "TagSwitch", "tags with triggers"),
    ("excludes=", "stops=", "TagDispatch"),
    ("loop_after_dispatch=true", "loop_after_dispatch=false", "behind"),
    ("loop_after_dispatch=false", "loop_after_dispatch=true", "nothing may come"),
    ('excludes=("no", "n\\xe9")', "excludes=()", "must not"),
    ("\\xe0", "\\xe1", "escape"),
    ("\\u4e00", "\\u4f00", "escape"),
    ("\\x01", "\\x02", "escape"),
    ("\\t", "t", "escape"),
    ("[^", "[", "xgrammar"),
    ("]*", "]", "xgrammar"),
    ("{0, 172}", "{0, 171}", "long repetition"),
    ("{72, 72}", "{71, 71}", "without bound"),
    ("{", "<", "normal form"),
    ("Regex(", "Pattern(", "JSON schema"),
    ("json_string=true", "json_string=maybe", "JSON schema"),
    ('("" | ', "(", "xgrammar"),
    (") | (", ") / (", "left and right"),
    ("root ::= ", "start ::= ", "root"),
    ("ExcludeToken(", "NoToken(", "all but some"),
    ("Token(256, 258)", "Token(258)", "all but some"),
    ("ExcludeToken(256, 259)", "ExcludeToken(259)", "between tokens"),
    ("TokenTagDispatch", "TokenTagSwitch", "tokens with triggers"),
    ("max_tokens=3", "max_tokens=2", "a budget in tokens"),
    ("max_chars=3", "max_chars=2", "a budget in characters"),
]


@pytest.mark.parametrize(("old", "new", "named"), OTHER_PRINTS)
def test_another_print_is_noticed(monkeypatch, old, new, named):
    print_otherwise(monkeypatch, old, new)
    difference = self_test.first_difference(self_test.CASES)
    assert difference is not None and named in difference


def test_what_an_unknown_version_raises_is_a_difference(monkeypatch):
    def changed(compiled):
        raise KeyError("complete_fsm")

    monkeypatch.setattr(self_test, "automaton_of", changed)
    assert "KeyError: 'complete_fsm'" in self_test.first_difference(self_test.CASES)
