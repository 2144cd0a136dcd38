"""Where this project deliberately differs from xgrammar 0.2.7, each with the smallest example.

The walks of `test_agreement.py` keep out of these. A test that fails here says that xgrammar has
changed: then the exception goes, and what is said about it.
"""

import pytest
import xgrammar
from comparison.pair import Pair, compiler_for
from xgrammar_oracle import Oracle

from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.vocabulary import Vocabulary

DIFFERENCES = {
    "its matcher miscounts bounded repetition of a rule that refers to itself": (
        'root ::= "b" (root{2,4}){0,2}',
        b"bb",
        "open",
        "accepted",
    ),
    "it forgets what a negated class excludes beyond ASCII": (
        "root ::= [^aé]",
        "é".encode(),
        "dead",
        "accepted",
    ),
    "it takes steps from which no sentence can be reached": (
        'root ::= "a" | "b" x\nx ::= "c" x',
        b"b",
        "dead",
        "open",
    ),
    "it takes overlong forms": ("root ::= [^a]", b"\xe0\x80\x80", "dead", "accepted"),
    "it takes surrogates": ("root ::= [^a]", b"\xed\xa0\x80", "dead", "accepted"),
    "it takes any byte in free text": (
        "root ::= TagDispatch(loop_after_dispatch=true)",
        b"\xff",
        "dead",
        "accepted",
    ),
    "its free text may end within a character": (
        "root ::= TagDispatch(loop_after_dispatch=true)",
        b"\xc3",
        "open",
        "accepted",
    ),
}


@pytest.mark.parametrize(
    ("grammar", "text", "ours", "theirs"), DIFFERENCES.values(), ids=DIFFERENCES.keys()
)
def test_verdicts(compiler, grammar, text, ours, theirs):
    compiled = compiler.compile_grammar(grammar)
    assert Oracle(compiled).judge(text) == theirs
    automaton = automaton_of(compiled)
    state = automaton.run(automaton.start, text)
    alive = "accepted" if automaton.accepting(state) else "open"
    assert ("dead" if state == DEAD else alive) == ours


def test_a_class_that_begins_with_an_escaped_caret_is_printed_as_negated(compiler):
    """So `grammar.caret` moves the caret before xgrammar reads the grammar."""
    compiled = compiler.compile_grammar("root ::= [\\^a]")
    assert Oracle(compiled).judge(b"b") == "dead"
    assert "[^a]" in str(compiled.grammar)


def test_its_mask_contradicts_its_matcher_behind_a_nullable_rule():
    """The look-ahead hint that it gives such a rule forgets that the rule may go on."""
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), b";;", b""], [257])
    compiled = compiler_for(vocabulary).compile_grammar('root ::= root? ";"')
    matcher = xgrammar.GrammarMatcher(compiled)
    assert matcher.accept_token(256)
    pair = Pair(compiled, vocabulary)
    assert pair.compare_mask()
    assert pair.counts == {"masks against xgrammar's own matcher": 1}
