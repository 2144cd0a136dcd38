"""Whatever the logits say: blocks fill, every step commits, answers end valid and in budget."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive import accepts
from scripted import (
    CALL,
    COMPILER,
    DONE,
    END,
    MASK_ID,
    VOCABULARY,
    ScriptedEngine,
    text_of,
    token_automaton,
)

from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.options import LaveOptions

GRAMMARS = {
    "literal": 'root ::= "abcabc"',
    "choice": 'root ::= "aa" | "abc" | "b"',
    "nested": 'root ::= "a" root "b" | "c"',
    "left recursive": 'root ::= root "," item | item\nitem ::= "a" | "bb"',
    "ambiguous": 'root ::= root root | "a" | "b"',
    "nullable": 'root ::= opt opt "c"\nopt ::= "" | "ab"',
    "arithmetic": 'root ::= term (("+" | "-") term)*\nterm ::= [0-9]+ | "(" root ")"',
    "utf-8": 'root ::= "é" [α-ω]{2} "漢"',
    "json-like": 'root ::= "{" "\\"a\\":" val "}"\nval ::= "true" | "[" [0-9] ("," [0-9])* "]"',
    "bounded": "root ::= [a-c]{3,9}",
}


def is_sentence(ebnf: str, data: bytes) -> bool:
    """xgrammar's own word on it."""
    import xgrammar as xgr

    matcher = xgr.GrammarMatcher(COMPILER.compile_grammar(ebnf), terminate_without_stop_token=True)
    return matcher.accept_string(data) and matcher.is_terminated()


@pytest.mark.parametrize("lookahead", ["guided", "sampled"])
@pytest.mark.parametrize("edits", [False, True], ids=["masks only", "with edits"])
@pytest.mark.parametrize("name", GRAMMARS)
def test_every_answer_is_a_sentence_within_the_budget(name, edits, lookahead):
    tokens = token_automaton(GRAMMARS[name])
    shortest = tokens.tokens_to_finish(tokens.start)
    for seed, slack in enumerate([0, 1, 3, 20]):
        engine = ScriptedEngine(
            block=8, edits=edits, seed=seed, options=LaveOptions(lookahead=lookahead)
        )
        budget = shortest + slack
        answer, session, _ = engine.answer(tokens, budget, prompt_tail=seed)
        assert session.ended
        assert END in answer, "cut by length"
        assert is_sentence(GRAMMARS[name], text_of(answer)), text_of(answer)


# Random grammars: rules over a small alphabet, nested, recursive, nullable, ambiguous.
# Terminals come first so that shrinking finds the small ones.
TERMINALS = st.sampled_from(['"a"', '"b"', '"ab"', "[a-c]", '"c"', '""', '"é"', "[^a]"])


@st.composite
def random_grammars(draw, terminals=TERMINALS, attributes=("",)) -> str:
    names = ["root", "x", "y"][: draw(st.integers(1, 3))]
    atoms = terminals | st.sampled_from(names)
    repeated = st.tuples(atoms, st.sampled_from(["", "", "*", "?", "+", "{1,3}"])).map("".join)
    sequences = st.lists(repeated, min_size=1, max_size=3).map(" ".join)
    rules = []
    for name in names:
        alternatives = draw(st.lists(sequences, min_size=1, max_size=3))
        # One alternative without references keeps most grammars from being empty.
        alternatives.append(draw(terminals))
        attribute = draw(st.sampled_from(attributes)) if name != "root" else ""
        rules.append(f"{name}{attribute} ::= {' | '.join(alternatives)}")
    return "\n".join(rules)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    ebnf=random_grammars(),
    block=st.integers(1, 9),
    slack=st.integers(0, 12),
    edits=st.booleans(),
    threshold=st.sampled_from([0.0, 0.3, 0.9]),
    sharpness=st.sampled_from([0.5, 4.0, 30.0]),
    seed=st.integers(0, 10_000),
)
def test_random_grammars(ebnf, block, slack, edits, threshold, sharpness, seed):
    try:
        tokens = token_automaton(ebnf)
    except (RuntimeError, UnsupportedGrammar):
        return  # xgrammar refuses it, or it has no sentence
    budget = tokens.tokens_to_finish(tokens.start) + slack
    engine = ScriptedEngine(block, threshold=threshold, edits=edits, sharpness=sharpness, seed=seed)
    answer, session, steps = engine.answer(tokens, budget)
    blocks = -(-budget // block)
    assert steps <= blocks * (block + 16)
    assert session.ended and END in answer
    assert is_sentence(ebnf, text_of(answer))


def id_of(text: str) -> int:
    return VOCABULARY.id_of[text.encode()]


TOKEN_GRAMMARS = {
    "between tokens": f'root ::= Token({CALL}) "{{" [a-c]{{2,5}} "}}" Token({DONE})',
    "thought": (
        f'root ::= Token({CALL}) thought Token({DONE}) "abc"\n'
        f'thought[max_tokens=4] ::= "" | ExcludeToken({DONE}) thought'
    ),
    "calls among free tokens": (
        f"root ::= TokenTagDispatch(({CALL}, body), loop_after_dispatch=true,"
        f' excludes=({id_of("a")}))\nbody ::= "aa" Token({DONE})'
    ),
    "text, counted in tokens": 'root ::= "(" a ")"\na[max_tokens=3] ::= [a-z]*',
    "text, counted in characters": 'root ::= "(" a ")"\na[max_chars=3] ::= [^)]*',
    "lazy": 'root ::= a "!"\na[lazy] ::= [a-z]* "c"',
}


def is_token_sentence(ebnf: str, answer: list[int]) -> bool:
    """xgrammar's word on the tokens up to the first end token, with its budgets enforced."""
    import xgrammar as xgr

    matcher = xgr.GrammarMatcher(COMPILER.compile_grammar(ebnf))
    mask = xgr.allocate_token_bitmask(1, len(VOCABULARY))
    for token in answer[: answer.index(END)]:
        matcher.fill_next_token_bitmask(mask)
        allowed = mask[0, token // 32].item() >> token % 32 & 1
        if not allowed or not matcher.accept_token(token):
            return False
    return matcher.is_completed()


@pytest.mark.parametrize("lookahead", ["guided", "sampled"])
@pytest.mark.parametrize("edits", [False, True], ids=["masks only", "with edits"])
@pytest.mark.parametrize("name", TOKEN_GRAMMARS)
def test_every_answer_of_a_grammar_over_tokens(name, edits, lookahead):
    tokens = token_automaton(TOKEN_GRAMMARS[name])
    shortest = tokens.tokens_to_finish(tokens.start)
    for seed, slack in enumerate([0, 1, 3, 20]):
        engine = ScriptedEngine(
            block=8, edits=edits, seed=seed, options=LaveOptions(lookahead=lookahead)
        )
        answer, session, _ = engine.answer(tokens, shortest + slack, prompt_tail=seed)
        assert session.ended and END in answer
        assert is_token_sentence(TOKEN_GRAMMARS[name], answer), answer
        assert MASK_ID not in answer


TOKEN_TERMINALS = st.sampled_from(
    [
        *('"a"', '"b"', '"ab"', "[a-c]", '""', f"Token({CALL})", f"Token({DONE}, {id_of('a')})"),
        *(f"ExcludeToken({CALL})", f"ExcludeToken({id_of('a')}, {id_of('ab')})"),
        *(f"Token({id_of('ab')}, {id_of('abc')})", f"Token({MASK_ID}, {CALL})"),
    ]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    ebnf=random_grammars(TOKEN_TERMINALS, ["", "", "", "[max_tokens=2]", "[max_tokens=4]"]),
    block=st.integers(1, 9),
    slack=st.integers(0, 8),
    edits=st.booleans(),
    sharpness=st.sampled_from([0.5, 4.0, 30.0]),
    seed=st.integers(0, 10_000),
)
def test_random_grammars_over_tokens(ebnf, block, slack, edits, sharpness, seed):
    """Judged by a naive reader: where a token is read both ways xgrammar's matcher is not exact."""
    try:
        tokens = token_automaton(ebnf)
    except (RuntimeError, UnsupportedGrammar):
        return  # xgrammar refuses it, it has no sentence, or a budget on recursion
    budget = tokens.tokens_to_finish(tokens.start) + slack
    engine = ScriptedEngine(block, edits=edits, sharpness=sharpness, seed=seed)
    answer, session, _ = engine.answer(tokens, budget)
    assert session.ended and END in answer
    printed = str(COMPILER.compile_grammar(ebnf).grammar)
    assert accepts(printed, VOCABULARY.token_bytes, tuple(answer[: answer.index(END)]))


@pytest.mark.parametrize("edits", [False, True], ids=["masks only", "with edits"])
@pytest.mark.parametrize("name", GRAMMARS)
def test_a_block_that_begins_again_after_a_retraction(name, edits):
    """What was known of the lost canvas, its witness above all, says nothing of the new one."""
    tokens = token_automaton(GRAMMARS[name])
    budget = tokens.tokens_to_finish(tokens.start) + 6
    for seed in range(12):
        engine = ScriptedEngine(block=8, edits=edits, seed=seed, retractions=5)
        answer, session, _ = engine.answer(tokens, budget)
        assert session.ended and is_sentence(GRAMMARS[name], text_of(answer)), text_of(answer)


def test_the_scripted_model_alone_is_nearly_never_valid():
    """The property above would hold trivially if noise spelled sentences by itself."""
    engine = ScriptedEngine(block=8)
    valid = 0
    for _ in range(50):
        ids = engine.logits()[0].argmax(-1).tolist()
        data = b"".join(VOCABULARY.token_bytes[token] for token in ids)
        valid += bool(re.fullmatch(rb"[a-c]{3,9}", data))
    assert valid == 0
