"""A choice accepts exactly its texts."""

import random
import string
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lave_plugin.grammar.by_bytes import compile_text
from lave_plugin.grammar.choice import ebnf_of_choice
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.errors import UnsupportedGrammar

# Everything that EBNF or Lark would read as something else.
SPECIAL = [
    "yes", "yes!", "", '"', "\\", "\\n", "\n", "a|b", "[a-z]", "(x)*", "root ::= x", "start: x",
    "^", "#", "//", "é", "日本", "\U0001f600", "\x7f", "\x5cd", "\u1234a", "{1,2}", "\t", " a ",
    "''",
]  # fmt: skip


def accepted(automaton, text: str) -> bool:
    return automaton.accepting(automaton.run(automaton.start, text.encode()))


def test_special_characters_are_themselves():
    automaton = automaton_of(compile_text("ebnf", ebnf_of_choice(SPECIAL)))
    for text in SPECIAL:
        assert accepted(automaton, text), text
        for other in (text + "x", "x" + text, text[1:], text[:-1]):
            assert accepted(automaton, other) == (other in SPECIAL), other


LETTERS = st.characters(codec="utf-8", exclude_characters="\0")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(LETTERS, max_size=6), min_size=1, max_size=8), st.text(LETTERS, max_size=6))
def test_exactly_these(alternatives, other):
    automaton = automaton_of(compile_text("ebnf", ebnf_of_choice(alternatives)))
    assert all(accepted(automaton, text) for text in alternatives)
    assert accepted(automaton, other) == (other in alternatives)


REFUSED = [
    ([], "empty list"),
    ("yes", "a list of texts"),
    ({"yes": 1}, "a list of texts"),
    (7, "a list of texts"),
    (["yes", 1], "holds 1 at place 2"),
    (["yes", None], "holds None at place 2"),
    (["a\0"], "at place 1"),
    (["a", "\ud800"], "at place 2"),
]


@pytest.mark.parametrize(("alternatives", "sentence"), REFUSED)
def test_refused_with_a_sentence(alternatives, sentence):
    with pytest.raises(UnsupportedGrammar, match=sentence):
        ebnf_of_choice(alternatives)


def test_a_long_list_is_written_in_no_time():
    """On the scheduler's thread; compiling it is done on another."""
    rng = random.Random(0)
    texts = ["".join(rng.choices(string.printable, k=rng.randrange(1, 30))) for _ in range(5000)]
    fastest = min(_seconds([*texts, str(place)]) for place in range(3))
    assert fastest < 0.3
    assert min(_seconds(texts) for _ in range(4)) < fastest / 2  # known by now
    automaton = automaton_of(compile_text("ebnf", ebnf_of_choice(texts)))
    assert all(accepted(automaton, text) for text in texts)
    assert not accepted(automaton, texts[0] + "?!")


def _seconds(texts: list[str]) -> float:
    begin = time.perf_counter()
    ebnf_of_choice(texts)
    return time.perf_counter() - begin
