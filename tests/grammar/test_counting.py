"""Limits over rules within rules: recursive ones, one in another, characters of tokens."""

import itertools
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import accepts
from test_tokens import (
    COMPILED,
    assert_agreement,
    assert_it_can_finish,
    tokens_over,
)
from token_oracle import (
    CALL,
    DONE,
    END,
    NEVER,
    SPECIAL,
    TEXT,
    VOCABULARY,
    TokenOracle,
    compile_grammar,
    tokens_of_mask,
)

from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar import token_automaton
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.compiler import characters_of_tokens
from lave_plugin.grammar.counting import CountingAutomaton
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.implementation import states_of_text, states_over
from lave_plugin.grammar.lost_limits import check_limits
from lave_plugin.grammar.normal_form import read_normal_form
from lave_plugin.grammar.structural_tag import grammars_in
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.lattice import Verdict, find_witness

AB = TEXT.index(b"ab")


def token_of(symbol: str | int) -> int:
    return symbol if isinstance(symbol, int) else TEXT.index(symbol.encode())


def walk(tokens: TokenAutomaton, sentence) -> int:
    state = tokens.start
    for token in sentence:
        state = tokens.advance(state, token)
    return state


# Each with the symbols of the sentences that are tried.
COUNTED = {
    "recursion": ('root ::= a "!"\na[max_tokens=5] ::= "(" a ")" | "x"', "()x!"),
    "recursion in a rule inside": (
        'root ::= a "!"\na[max_tokens=5] ::= b\nb ::= "(" b ")" | "x"', "()x!",
    ),
    "by way of another": (
        'root ::= a "!"\na[max_tokens=4] ::= "(" b ")" | "x"\nb ::= a | a "x" b', "()x!",
    ),
    "left recursion": (
        'root ::= a "!"\na[max_tokens=4] ::= a "," b | b\nb ::= "x" | "(" a ")"', "()x,!",
    ),
    "recursion, in characters": (
        'root ::= a "!"\na[max_chars=5] ::= "(" a ")" | "x" | "\u20ac"', "()x!",
    ),
    "one in another": (
        'root ::= a "!"\na[max_tokens=5] ::= ("x" b "y")*\nb[max_tokens=2] ::= "z"*',
        ("x", "y", "z", "!", "xy"),
    ),
    "one in another, in characters": (
        'root ::= a "!"\na[max_chars=5] ::= ("x" b "y")*\nb[max_chars=2] ::= "z"*',
        ("x", "y", "z", "!", "xy"),
    ),
    "left recursion around another": (
        'root ::= a "!"\na[max_chars=5] ::= c\nc ::= c "," b | b\n'
        'b[max_chars=3] ::= "x"* | "(" c ")"',
        "()x,!",
    ),
    "both kinds": (
        'root ::= a "!" | "x" a\na[max_tokens=4] ::= "(" b ")" | "x"\n'
        'b[max_chars=3] ::= a "x" | b "y" | a',
        "()x!y",
    ),
    "nothing counted around what is": (
        'root ::= "(" root ")" | a\na[max_tokens=3] ::= "x" | "y" root "z"', "()xyz",
    ),
    "where it ends is ambiguous": (
        'root ::= a b\na[max_tokens=2] ::= "x"* | "(" a ")"\nb ::= "x" "x" "x" | "!"', "x!()",
    ),
    "rules that may be empty": (
        'root ::= a a "!"\na[max_tokens=2] ::= b b\nb[max_chars=1] ::= "" | "x" | "(" b ")"',
        "x()!",
    ),
    "characters of tokens": (
        f'root ::= a "!"\na[max_chars=4] ::= (Token({CALL}) | Token({AB}) | "x")* "b"',
        (CALL, "ab", "x", "b", "!"),
    ),
    "characters of tokens, in a rule of tokens": (
        f'root ::= a Token({DONE})\na[max_tokens=3] ::= b | "x" a\n'
        f"b[max_chars=2] ::= Token({AB}, 120)*",
        ("ab", "x", DONE),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_every_short_sequence_is_judged_as_the_grammar_says(name):
    grammar, symbols = COUNTED[name]
    compiled = compile_grammar(grammar)
    printed, tokens = str(compiled.grammar), tokens_over(compiled)
    assert isinstance(tokens.automaton, CountingAutomaton)
    characters = [
        length or 0 for length in characters_of_tokens(compiled.tokenizer_info.decoded_vocab)
    ]
    accepted = 0
    for length in range(7 if len(symbols) < 5 else 6):
        for sentence in itertools.product(map(token_of, symbols), repeat=length):
            state = walk(tokens, sentence)
            expected = accepts(printed, VOCABULARY.token_bytes, sentence, characters)
            assert (state != DEAD and tokens.is_complete(state)) == expected, sentence
            accepted += expected
            if state != DEAD:
                assert_it_can_finish(tokens, state)
    assert accepted > 1


# Rules that may end wherever a limit is reached: there xgrammar keeps the limits as well.
KEPT_BY_XGRAMMAR = {
    "tokens": (
        'root ::= "<" a ">"\na[max_tokens=4] ::= ([a-z] | "," b)*\nb[max_tokens=2] ::= [0-9]*'
    ),
    "characters and tokens": (
        'root ::= "<" a ">"\na[max_chars=6] ::= ([a-z\u20ac] | "," b)*\nb[max_tokens=2] ::= [0-9]*'
    ),
    "a rule that refers to itself": (
        'root ::= "<" a ">"\na[max_chars=5] ::= "" | [a-z\u20ac] a | "," a [0-9]? a'
    ),
    "again and again": (
        'root ::= "<" a ">" root | "."\na[max_tokens=3] ::= ([a-z] b)*\nb[max_tokens=1] ::= [0-9]*'
    ),
    "special tokens": (
        f'root ::= "<" a Token({DONE})\n'
        f"a[max_tokens=4] ::= (Token({CALL}, 97) | b)*\nb[max_tokens=2] ::= [0-9]*"
    ),
}


@pytest.mark.parametrize(
    ("grammar", "same"),
    [
        *((grammar, True) for grammar in KEPT_BY_XGRAMMAR.values()),
        *((grammar, False) for grammar, _ in COUNTED.values()),
    ],
    ids=[*KEPT_BY_XGRAMMAR, *COUNTED],
)
def test_walks_agree_with_xgrammar(grammar, same):
    """Where it keeps the limits the same; nowhere more, and every ending is one for it too."""
    compiled = compile_grammar(grammar)
    tokens = tokens_over(compiled)
    random_choice = random.Random(5)
    for _ in range(20):
        oracle, state, walked = TokenOracle(compiled), tokens.start, []
        for _ in range(12):
            assert tokens.is_complete(state) == oracle.accepting()
            allowed, theirs = tokens_of_mask(tokens.allowed_tokens(state)), oracle.allowed()
            if same:
                assert_agreement(allowed, theirs)
            assert allowed <= theirs
            assert_it_can_finish(tokens, state)
            ending = tokens.shortest_ending(state)
            assert TokenOracle(compiled).judge(walked + ending) == "accepted"
            allowed -= {END}
            if not allowed:
                break
            few = [t for t in (*ending[:1], *SPECIAL, *range(128, len(TEXT))) if t in allowed]
            choices = few if few and random_choice.random() < 0.6 else sorted(allowed)
            walked.append(random_choice.choice(choices))
            assert oracle.feed(walked[-1])
            state = tokens.advance(state, walked[-1])


@pytest.mark.parametrize("name", COMPILED)
def test_grammars_that_the_plain_states_count_are_counted_the_same(name):
    compiled = COMPILED[name]
    rules = read_normal_form(str(compiled.grammar), NEVER)
    if rules.counts_through_rules():
        pytest.skip("only this one counts it")
    characters = characters_of_tokens(compiled.tokenizer_info.decoded_vocab, NEVER)
    ours = TokenAutomaton(CountingAutomaton(rules, characters), VOCABULARY)
    plain = tokens_over(compiled)
    random_choice = random.Random(3)
    for _ in range(6):
        one, other = ours.start, plain.start
        for _ in range(10):
            assert ours.is_complete(one) == plain.is_complete(other)
            assert ours.only_end(one) == plain.only_end(other)
            assert ours.forced_bytes(one) == plain.forced_bytes(other)
            allowed = tokens_of_mask(ours.allowed_tokens(one))
            assert allowed == tokens_of_mask(plain.allowed_tokens(other))
            assert_it_can_finish(ours, one)
            allowed -= {END}
            if not allowed:
                break
            token = random_choice.choice(sorted(allowed))
            one, other = ours.advance(one, token), plain.advance(other, token)


LOST = [
    'root ::= a "!"\na[lazy] ::= b "x"\nb[max_tokens=3] ::= [a-z]*',
    'root ::= a "!"\na[lazy] ::= b "x"\nb ::= c\nc[max_chars=3] ::= [a-z]*',
]


@pytest.mark.parametrize("grammar", LOST)
def test_limits_that_xgrammar_loses_are_named(grammar):
    assert "max_" not in str(compile_grammar(grammar).grammar).partition("a[lazy]")[2]
    with pytest.raises(UnsupportedGrammar, match="'a' is lazy and holds"):
        check_limits(grammar)
    tag = {"type": "structural_tag", "format": {"type": "grammar", "grammar": grammar}}
    assert grammars_in(json.dumps(tag)) == [grammar]


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= a "!"\na[lazy, max_chars=3] ::= b "x"\nb ::= [a-z]*',
        'root[max_tokens=9] ::= a "!"\na[lazy] ::= [a-z]* "x"',
        'root ::= "lazy" a\na[max_tokens=3] ::= "(" a ")" | b\nb[max_chars=2] ::= "x"*',
        "root ::= lazy",
    ],
)
def test_other_limits_are_not_lost(grammar):
    check_limits(grammar)


def test_states_may_be_dropped(monkeypatch):
    """Above the cap all go, and who walks again comes to the same."""
    grammar = 'root ::= a "!"\na[max_tokens=50] ::= "(" a ")" | "x" | b\nb[max_chars=9] ::= "y"*'
    tokens = tokens_over(compile_grammar(grammar))
    sentence = [token_of(symbol) for symbol in "((((yy"]
    state = walk(tokens, sentence)
    allowed, ending = tokens.allowed_tokens(state), tokens.shortest_ending(state)
    tokens.make_room()
    assert tokens.generation == 0
    monkeypatch.setattr(token_automaton, "MAX_BYTES", 1000)
    before = tokens.memory
    tokens.make_room()
    assert tokens.generation == 1 and tokens.memory < before
    state = walk(tokens, sentence)
    assert (tokens.allowed_tokens(state), tokens.shortest_ending(state)) == (allowed, ending)


def test_the_search_for_a_witness_knows_what_is_left():
    """Of the rows that native states can't step."""
    tokens = tokens_over(compile_grammar('root ::= a "!"\na[max_tokens=5] ::= "(" a ")" | "x"'))
    opened, closed, x, end = map(token_of, "()x!")
    candidates = [opened, x, closed, end]

    def search(fixed: str, budget: int):
        block = [MASKED if symbol == "_" else token_of(symbol) for symbol in fixed]
        canvas = Canvas(block, 0, budget)
        masked = {at: candidates for at, symbol in enumerate(fixed) if symbol == "_"}
        return find_witness(tokens, tokens.start, canvas, masked, 1000)

    assert search("__x__!", 9).witness == {0: opened, 1: opened, 3: closed, 4: closed}
    assert search("___x___!", 9).verdict == Verdict.REFUTED  # seven tokens in a rule of five
    assert search("((___!", 6).verdict == Verdict.REFUTED  # and no end token left
    assert search("((___!", 7).witness == {2: x, 3: closed, 4: closed}


LETTERS = "ab("
_atoms = st.sampled_from(['"a"', '"b"', '"("', "r", "s", "t", '"\u20ac"'])
_sequences = st.lists(_atoms, max_size=3).map(lambda atoms: " ".join(atoms) or '""')
_bodies = st.lists(_sequences, max_size=2).map(lambda bodies: " | ".join(['"b"', *bodies]))
_most = st.integers(1, 4)
_limits = st.one_of(
    st.just(""),
    _most.map("[max_tokens={}]".format),
    _most.map("[max_chars={}]".format),
    st.tuples(_most, _most).map(lambda most: "[max_tokens={}, max_chars={}]".format(*most)),
)
_grammars = st.lists(st.tuples(_limits, _bodies), min_size=4, max_size=4).map(
    lambda rules: "\n".join(
        f"{name}{limits} ::= {body}"
        for name, (limits, body) in zip(("root", "r", "s", "t"), rules, strict=True)
    )
)
BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), b""], [256])


@settings(max_examples=60, deadline=None)
@given(_grammars)
def test_random_grammars_are_judged_as_they_say(grammar):
    """Over single bytes; and where the plain states can count as well, they judge the same."""
    printed = str(compile_grammar(grammar).grammar)
    counting = TokenAutomaton(CountingAutomaton(read_normal_form(printed)), BYTES)
    served = states_over(states_of_text(printed), BYTES)
    may_be_narrow = all(each in grammar for each in ("max_tokens", "max_chars", "\u20ac"))
    for length in range(5):
        for sentence in itertools.product(map(ord, LETTERS), repeat=length):
            state = walk(counting, sentence)
            accepted = state != DEAD and counting.is_complete(state)
            expected = accepts(printed, BYTES.token_bytes, sentence)
            assert accepted == expected or (may_be_narrow and expected), sentence
            if state != DEAD:
                assert_it_can_finish(counting, state)
            other = walk(served, sentence)
            assert (other == DEAD) == (state == DEAD)
            assert served.is_complete(other) == counting.is_complete(state)
