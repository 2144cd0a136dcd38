"""Classes that begin with an escaped caret (xgrammar prints and reads them as negated)."""

import re

import pytest
from xgrammar_oracle import Oracle

from lave_plugin.grammar.caret import move_carets_in_ebnf, move_carets_in_regex
from lave_plugin.grammar.compiler import automaton_of

SAME = ["[^a]", "[a\\^]", "[\\\\^a]", '"[\\^a]" [b]', "# [\\^a]\n", "\\[\\^a]"]


@pytest.mark.parametrize("source", SAME)
def test_others_stay_as_they_are(source):
    if source != "\\[\\^a]":
        assert move_carets_in_ebnf(source) == source
    if not source.startswith(("#", '"')):
        assert move_carets_in_regex(source) == source


@pytest.mark.parametrize("char_class", ["[\\^a]", "[\\^]", "[\\^-b]", "[\\^\\-]", "[\\^_0-9]"])
def test_a_caret_in_front_is_a_caret(compiler, char_class):
    as_python = re.compile(char_class)
    for compiled in (
        compiler.compile_grammar(move_carets_in_ebnf(f"root ::= {char_class}")),
        compiler.compile_regex(move_carets_in_regex(char_class)),
    ):
        automaton = automaton_of(compiled)
        oracle = Oracle(compiled)
        for character in map(chr, range(32, 127)):
            expected = as_python.fullmatch(character) is not None
            state = automaton.run(automaton.start, character.encode())
            assert automaton.accepting(state) == expected
            assert (oracle.judge(character.encode()) == "accepted") == expected
