"""Single steps of the strategy, each with the one thing it shows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scripted import END, MASK_ID, VOCABULARY, token_automaton

from lave_plugin.candidates import CandidateCutter, Candidates
from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.lattice import Verdict, find_witness
from lave_plugin.options import LaveOptions
from lave_plugin.strategies.lave import Lave, Proposals


def token(text: str) -> int:
    return VOCABULARY.id_of[text.encode()]


def candidates(*positions: dict[str | int, float]) -> Candidates:
    """Candidates of positions 0, 1, ... from probabilities of a few tokens each."""
    logits = torch.full((1, len(positions), len(VOCABULARY)), -20.0)
    for position, weights in enumerate(positions):
        for name, probability in weights.items():
            logits[0, position, name if isinstance(name, int) else token(name)] = torch.tensor(
                probability
            ).log()
    cutter = CandidateCutter(VOCABULARY, MASK_ID, 4)
    masked = np.ones((1, len(positions)), dtype=bool)
    return cutter.cut(logits, masked, logits.argmax(-1).numpy()).of_row(0, logits[0], cutter)


def texts(canvas: Canvas) -> list[str]:
    return [
        "_" if t == MASKED else "$" if t == END else VOCABULARY.token_bytes[t].decode()
        for t in canvas.tokens
    ]


def step(ebnf: str, canvas: Canvas, cut: Candidates, proposals: Proposals, **options) -> Lave:
    tokens = token_automaton(ebnf)
    strategy = Lave(tokens, LaveOptions(**options))
    strategy.step(tokens.start, canvas, cut, proposals)
    return strategy


def test_edits_alone_do_not_count_as_a_commit():
    """The algorithm's choice at every mask may be MASK, and two edits pass together."""
    canvas = Canvas([token("a"), token("b"), MASKED, MASKED], 0, 9)
    cut = candidates({"a": 1}, {"b": 1}, {"c": 0.9}, {END: 0.9})
    edits = {0: token("b"), 1: token("a")}
    step('root ::= ("ab" | "ba") "c"', canvas, cut, Proposals(edits=edits))
    assert texts(canvas)[:2] == ["b", "a"]
    assert texts(canvas)[2] == "c" or texts(canvas)[3] == "$"


def test_a_refused_token_gives_way_to_the_next_candidate():
    canvas = Canvas([MASKED, MASKED], 0, 9)
    cut = candidates({"c": 0.8, "a": 0.2}, {"b": 0.6, "c": 0.4})
    proposals = Proposals({0: token("c")}, threshold=0.99)
    strategy = step('root ::= "a" "b"+', canvas, cut, proposals, confidence="model")
    assert texts(canvas)[0] == "a"
    assert strategy.counts["refused"] == 1


def test_after_a_refusal_what_the_grammar_rules_out_goes_last():
    """``a`` is the most probable token of all, and no sentence has it."""
    cut = candidates({"c": 0.55, "d": 0.45}, {"a": 0.6, "b": 0.4}, {END: 0.5, "d": 0.5})
    proposals = Proposals({1: token("a")}, threshold=0.6)
    for confidence, written, refused in (("constrained", "c", 0), ("model", "_", 1)):
        canvas = Canvas([MASKED] * 3, 0, 9)
        strategy = step(
            'root ::= "cb"', canvas, cut, proposals, confidence=confidence, forced_tokens=False
        )
        assert texts(canvas)[0] == written
        assert strategy.counts["refused"] == refused


def test_a_proposal_with_an_implausible_witness_waits():
    """``b`` behind the mask is grammatical only with ``c`` between, which the model rules out."""
    canvas = Canvas([MASKED, MASKED, MASKED], 0, 9)
    cut = candidates({"a": 0.95}, {"b": 0.97, "c": 0.01}, {"b": 0.99})
    proposals = Proposals({0: token("a"), 1: token("b"), 2: token("b")}, threshold=0.9)
    ebnf = 'root ::= "a" ("b" | "cb")'
    step(ebnf, canvas, cut, proposals, forced_tokens=False)
    assert texts(canvas) == ["a", "b", "_"]
    canvas = Canvas([MASKED, MASKED, MASKED], 0, 9)
    step(ebnf, canvas, cut, proposals, plausibility=0.0, confidence="model")
    assert texts(canvas) == ["a", "c", "b"], "without it the surer b stands, and drags c along"


def test_only_end_tokens_follow_an_end_token_and_cost_no_step():
    canvas = Canvas([MASKED] * 5, 0, 9)
    cut = candidates(*[{"a": 0.5, END: 0.4}] * 5)
    step('root ::= "a"', canvas, cut, Proposals({1: END, 0: token("a")}))
    assert texts(canvas) == ["a", "$", "$", "$", "$"]


def test_what_the_grammar_forces_is_committed_at_once():
    canvas = Canvas([MASKED] * 6, 0, 9)
    cut = candidates({"c": 0.9}, {"b": 0.6, "a": 0.3}, {"ab": 0.2, "a": 0.7}, *[{"c": 1}] * 3)
    strategy = step('root ::= [a-c] "aab" ("c" | "cc")', canvas, cut, Proposals({0: token("c")}))
    assert texts(canvas) == ["c", "a", "a", "b", "c", "_"], "as the model spells it"
    assert strategy.forced == {1, 2, 3, 4}
    assert strategy.counts["forced"] == 4


def test_forced_bytes_inside_a_token_that_goes_on_are_a_choice():
    """Behind ``a`` only ``b`` may stand, but the model wants it in one token with ``c``."""
    cut = candidates({"a": 0.9}, {"abc": 0.9, "ab": 0.1}, *[{"c": 1}] * 2)
    canvas = Canvas([MASKED] * 4, 0, 9)
    step('root ::= "a" "ab" [cd]', canvas, cut, Proposals({0: token("a")}))
    assert texts(canvas) == ["a", "_", "_", "_"]


def test_what_is_forced_stays_fixed():
    tokens = token_automaton('root ::= "a" ("ab" | "ba") "c"')
    strategy = Lave(tokens, LaveOptions())
    canvas = Canvas([token("a"), MASKED, MASKED, MASKED], 0, 9)
    cut = candidates({"a": 1}, {"a": 1}, {"b": 1}, {"c": 1})
    strategy.step(tokens.start, canvas, cut, Proposals({1: token("a")}))
    assert texts(canvas) == ["a", "a", "b", "c"]
    assert strategy.forced == {2, 3}
    edits = {1: token("b"), 2: token("a")}
    strategy.step(tokens.start, canvas, cut, Proposals(edits=edits))
    assert texts(canvas) == ["a", "a", "b", "c"]


def test_recovery_takes_the_best_token_that_fits_when_all_proposals_fail():
    canvas = Canvas([MASKED, MASKED], 0, 9)
    cut = candidates({"c": 0.9, "cc": 0.05, "a": 0.01, "b": 0.001}, {"c": 1.0})
    strategy = step('root ::= "b" "a"', canvas, cut, Proposals({0: token("c")}), attempts=1)
    assert texts(canvas)[0] == "b"
    assert strategy.counts["recovered"] == 1


def test_no_token_that_leaves_too_little_to_finish():
    """Three tokens are left and ``a`` begins a sentence of six."""
    canvas = Canvas([MASKED] * 8, 0, 3)
    cut = candidates(*[{"a": 0.9, "b": 0.1}] * 8)
    step('root ::= "acacac" | "b" "b"', canvas, cut, Proposals({0: token("a")}))
    assert texts(canvas)[0] == "b" or texts(canvas)[1] == "b"


def test_an_undecided_search_says_so():
    tokens = token_automaton('root ::= "a" [ab]{8} "a" | "b" [ab]{8} "b"')
    canvas = Canvas([MASKED] * 9 + [token("b"), END], 0, 20)
    choices = {position: [token("a"), token("b")] for position in range(9)}
    assert find_witness(tokens, tokens.start, canvas, choices, 3).verdict is Verdict.UNDECIDED
    found = find_witness(tokens, tokens.start, canvas, choices, 512)
    assert found.verdict is Verdict.ALIVE and found.witness[0] == token("b")
    short = Canvas([MASKED] * 8 + [token("b"), END], 0, 20)
    assert find_witness(tokens, tokens.start, short, choices, 9999).verdict is Verdict.REFUTED


@pytest.mark.parametrize("order", ["([a+)]", "(a[)]+", "([)a]+"])
def test_a_search_closes_what_it_has_opened(order):
    """Of the ways through eleven masks nearly all leave a bracket open before the semicolon."""
    tokens = token_automaton(
        'root ::= sum ";"\nsum ::= item | item "+" sum\nitem ::= "a" | "(" sum ")" | "[" sum "]"'
    )
    canvas = Canvas([MASKED] * 11 + [token(";")], 0, 60)
    choices = {position: [token(sign) for sign in order] for position in range(11)}
    assert find_witness(tokens, tokens.start, canvas, choices, 200).verdict is Verdict.ALIVE
    other_depth = Canvas([MASKED, token("+"), MASKED, token(")"), token(";")], 0, 60)
    refuted = find_witness(tokens, tokens.start, other_depth, choices, 200)
    assert refuted.verdict is Verdict.REFUTED


def test_the_prompt_tail_is_no_part_of_the_answer():
    canvas = Canvas([token("c"), MASK_ID, MASKED], 2, 9)
    cut = candidates({"c": 1}, {"c": 1}, {"a": 1})
    step('root ::= "a"', canvas, cut, Proposals({2: token("a")}))
    assert canvas.tokens == [token("c"), MASK_ID, token("a")]
