"""`benchmarks/agreement.py` at a small scale: both implementations beside xgrammar's matcher."""

import os
import random

import comparison.pair
import pytest
from comparison.fuzz import fuzz_bytes, fuzz_tokens
from comparison.grammars import GRAMMARS, over_tokens
from comparison.pair import BYTES, Pair, compiler_for
from comparison.schemas import construction_of, judge_schemas
from test_sentences import PERSON

from lave_plugin.bench.synthetic.vocabularies import synthetic_vocabulary
from lave_plugin.grammar.automaton import Automaton
from lave_plugin.grammar.implementation import states_of_text
from lave_plugin.grammar.vocabulary import Vocabulary

PIECES = ["é", "ée", "日本", "😀", '":"', '"}', "},{", "</", "f>", "<f=", "xx;", "ab,", "é</"]
# Tokenizers also split characters.
SPLIT = [b"\xe6\x97", b"\xa5", b"a\xc3", b'\xa9"', b"\xf0\x9f\x98", b"\xc3\xa9\xc3"]


DATA = [*synthetic_vocabulary(1_200), *(piece.encode() for piece in PIECES), *SPLIT]
DATA = [*dict.fromkeys(DATA), b"", b"", b"", b""]
CALL, DONE, OTHER, END = range(len(DATA) - 4, len(DATA))
OVER_TOKENS = over_tokens((CALL, DONE, OTHER))


@pytest.fixture(scope="session")
def vocabulary():
    return Vocabulary(DATA, [END])


@pytest.fixture(params=["reference", "native"])
def states(request, monkeypatch):
    """The implementation that serves in the test."""
    if request.param == "native" and os.environ.get("LAVE_NATIVE") != "1":
        pytest.importorskip("lave_plugin.native")
    monkeypatch.setenv("LAVE_NATIVE", "1" if request.param == "native" else "0")
    return request.param


@pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda grammar: grammar.name)
def test_walks_by_bytes(states, grammar):
    pair = Pair(grammar.compile(compiler_for(BYTES)), BYTES)
    assert isinstance(pair.automaton, Automaton) == (states == "reference")
    fuzz_bytes(pair, 4_000, random.Random(1), completion_every=8)
    assert pair.problems == []
    assert pair.counts["steps"] == 4_000 and pair.counts["completions"] > 300


@pytest.mark.parametrize("grammar", [*GRAMMARS, *OVER_TOKENS], ids=lambda grammar: grammar.name)
def test_walks_by_tokens(states, grammar, vocabulary):
    pair = Pair(grammar.compile(compiler_for(vocabulary, grammar.special)), vocabulary)
    fuzz_tokens(pair, vocabulary, 1_500, 20, random.Random(2))
    assert pair.problems == []
    assert pair.counts["steps"] == 1_500 and pair.counts["completions"] > 50
    assert pair.counts["equal masks"] > 5 or grammar.name == "nullable"


# Damages to what is read, and what must then be found out.
DAMAGES = [
    ("[a-z]", "[a-y]", b"z"),
    ('"abc"', '"abcd"', b"abc"),
    ('("" | ("x"))', '(("x"))', b""),
]


@pytest.mark.parametrize(("printed", "misread", "text"), DAMAGES)
@pytest.mark.parametrize("walk", ["bytes", "tokens"])
def test_a_disagreement_is_found(states, monkeypatch, vocabulary, walk, printed, misread, text):
    compiled = compiler_for(BYTES if walk == "bytes" else vocabulary).compile_grammar(
        'root ::= a | b | "abc"\na ::= [a-z] [A-Z] a | [a-z]\nb ::= "" | "x"'
    )
    monkeypatch.setattr(
        comparison.pair,
        "automaton_of",
        lambda compiled: states_of_text(replaced(str(compiled.grammar), printed, misread)),
    )
    pair = Pair(compiled, BYTES if walk == "bytes" else vocabulary)
    if walk == "bytes":
        fuzz_bytes(pair, 2_000, random.Random(3))
    else:
        fuzz_tokens(pair, vocabulary, 2_000, 50, random.Random(3))
    assert any(repr(text) in problem for problem in pair.problems)


ALL_BUT = f"ExcludeToken({CALL}, {DONE}, {OTHER})"
DAMAGES_OVER_TOKENS = [
    ("tokens, thinking", ALL_BUT, f"ExcludeToken(301, {CALL}, {DONE}, {OTHER})", 301),
    ("tokens, nested", ALL_BUT, f"ExcludeToken(300, {CALL}, {DONE}, {OTHER})", 300),
    ("tokens, nested", f"Token({OTHER})", f"Token({DONE})", DONE),
    ("tokens, triggers", f"({OTHER}, token", f"({END}, token", OTHER),
]


@pytest.mark.parametrize(("name", "printed", "misread", "token"), DAMAGES_OVER_TOKENS)
def test_a_disagreement_over_tokens_is_found(
    states, monkeypatch, vocabulary, name, printed, misread, token
):
    grammar = next(each for each in OVER_TOKENS if each.name == name)
    monkeypatch.setattr(
        comparison.pair,
        "automaton_of",
        lambda compiled: states_of_text(replaced(str(compiled.grammar), printed, misread)),
    )
    pair = Pair(grammar.compile(compiler_for(vocabulary, grammar.special)), vocabulary)
    fuzz_tokens(pair, vocabulary, 2_000, 50, random.Random(3))
    assert any(f"token {token} " in problem for problem in pair.problems)


def replaced(text, old, new):
    assert old in text
    return text.replace(old, new)


CASES = [
    {
        "id": "person",
        "schema": PERSON,
        "tests": [{"data": {"name": "Ada", "age": 7}}, {"data": {"name": "A"}}, {"data": 3}],
    },
    {"id": "refused", "schema": {"type": "nothing"}, "tests": []},
]


def test_schemas(states):
    report = judge_schemas(CASES, compile_seconds=20)
    assert report.problems == []
    assert report.counts["schemas"] == 2 and report.counts["refused by xgrammar"] == 1
    assert report.counts["texts"] == 6 and report.counts["refused by both"] == 4
    # Behind each of its bytes this text has a state of its own.
    assert report.counts["completions"] >= len('{"name":"Ada","age":7}')
    cost = construction_of(report.largest, repeats=1)
    assert cost.rules == report.largest.count("::=") and 0 < cost.milliseconds < 5_000
