"""Algorithm 1 of arXiv 2602.00612 (``lookahead: sampled``), part by part.

That its answers are valid and complete whatever the logits: ``test_any_logits.py``.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from math import prod

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats
from scripted import END, token_automaton
from test_lave import candidates, texts, token

from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.options import LaveOptions
from lave_plugin.session import Session
from lave_plugin.strategies.lave import Lave, Proposals
from lave_plugin.strategies.sampled import Sampled, draw_fillings, extends


def canvas_of(text: str, tokens_left: int = 20) -> Canvas:
    """One token a character, ``_`` a mask and ``$`` an end token."""
    named = {"_": MASKED, "$": END}
    return Canvas([named.get(c) if c in named else token(c) for c in text], 0, tokens_left)


def commits(**proposed: str) -> dict[int, int]:
    """Proposals by position, as ``p1="b"``."""
    return {int(name[1:]): END if text == "$" else token(text) for name, text in proposed.items()}


def step(strategy: Sampled, canvas: Canvas, cut, threshold: float = 0.99, **proposed: str) -> None:
    """With the proposed tokens in front of their positions' candidates, as the batch has them."""
    proposals = Proposals(commits(**proposed), threshold=threshold)
    for position, text in proposals.commits.items():
        ranked = list(zip(cut.tokens[position], cut.probabilities[position], strict=True))
        ranked.sort(key=lambda candidate: candidate[0] != text)
        cut.tokens[position], cut.probabilities[position] = map(list, zip(*ranked, strict=True))
    strategy.step(strategy.tokens.start, canvas, cut, proposals)


def sampled(ebnf: str, seed: int = 0, **options) -> Sampled:
    return Sampled(token_automaton(ebnf), LaveOptions(lookahead="sampled", **options), seed)


# --- Lookahead: N distinct fillings from the marginals ----------------------------------

MARGINALS = [([0, 1, 2], [0.6, 0.3, 0.1]), ([5, 6], [0.9, 0.08]), ([7, 8], [0.5, 0.5])]
FILLINGS = list(itertools.product(*(tokens for tokens, _ in MARGINALS)))


def probability(filling) -> float:
    """Of one draw, from the marginals that stand for all their candidates."""
    return prod(
        probabilities[tokens.index(chosen)] / sum(probabilities)
        for chosen, (tokens, probabilities) in zip(filling, MARGINALS, strict=True)
    )


@pytest.mark.parametrize(
    ("marginals", "number"),
    [
        (MARGINALS, 12),
        ([([1, 2], [1 - 1e-12, 1e-12]), ([3, 4], [1 - 1e-12, 1e-12])], 4),
        ([([1, 2, 3], [0.9, 0.1, 0.0])], 2),
        ([([1], [0.2]), ([2, 3], [0.0, 0.0])], 0),
        ([([1], [0.2]), ([], [])], 0),
        ([], 1),
    ],
    ids=[
        "ordinary",
        "sure of itself",
        "a probability of 0",
        "none but 0",
        "no candidate",
        "no mask",
    ],
)
def test_all_fillings_come_and_none_twice(marginals, number):
    drawn = list(draw_fillings(marginals, random.Random(0)))
    assert len(drawn) == len(set(drawn)) == number


def refused_by_all(accepted: set, draws: int) -> float:
    """Probability that so many distinct draws are all outside ``accepted``, by enumeration."""

    def of_the_rest(left: int, drawn: frozenset) -> float:
        mass = 1.0 - sum(map(probability, drawn))
        if not left or mass <= 1e-12:
            return 1.0
        return sum(
            probability(filling) / mass * of_the_rest(left - 1, drawn | {filling})
            for filling in FILLINGS
            if filling not in accepted | drawn
        )

    return of_the_rest(draws, frozenset())


@pytest.mark.parametrize("draws", [1, 2, 4])
@pytest.mark.parametrize(
    "accepted",
    [{(0, 5, 7)}, {(2, 6, 8)}, {(1, 5, 7), (0, 6, 8), (2, 5, 8)}],
    ids=["likely", "unlikely", "several"],
)
def test_the_probability_of_acceptance_is_that_of_enumeration(accepted, draws):
    times = 3000
    found = sum(
        any(
            filling in accepted
            for filling in itertools.islice(draw_fillings(MARGINALS, random.Random(seed)), draws)
        )
        for seed in range(times)
    )
    expected = 1.0 - refused_by_all(accepted, draws)
    assert stats.binomtest(found, times, expected).pvalue > 1e-3, (found / times, expected)


def test_the_first_draw_is_from_the_product_of_the_marginals():
    first = Counter(next(draw_fillings(MARGINALS, random.Random(seed))) for seed in range(3000))
    expected = [3000 * probability(filling) for filling in FILLINGS]
    assert stats.chisquare([first[filling] for filling in FILLINGS], expected).pvalue > 1e-3


@pytest.mark.parametrize(("samples", "accepted"), [(1, False), (3, False), (4, True), (10, True)])
def test_n_fillings_are_tried(samples, accepted):
    """The one filling that fits is the least probable of four: the fourth draw has it."""
    cut = candidates({"a": 0.97, "b": 0.02, "c": 0.009, "d": 0.0001}, {"x": 1})
    strategy, canvas = sampled('root ::= "dx"', samples=samples, attempts=1), canvas_of("__")
    step(strategy, canvas, cut, p1="x")
    assert (texts(canvas)[1] == "x") == accepted
    assert strategy.counts["refused"] == (not accepted)
    assert strategy.counts["lookaheads"] == 1
    assert strategy.counts["fillings"] == min(samples, 4)
    assert strategy.cache == ({0: token("d")} if accepted else {})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    ebnf=st.sampled_from(
        ['root ::= "a" root "b" | "c"', "root ::= [ab]{2,5}", 'root ::= ("ab" | "b") root | "a"']
    ),
    masks=st.integers(0, 4),
    proposed=st.sampled_from("abc$"),
    tokens_left=st.integers(1, 9),
)
def test_with_enough_fillings_the_verdict_is_that_of_all_of_them(
    ebnf, masks, proposed, tokens_left
):
    choices = ["a", "b", "c", END]
    weights = dict(zip(choices, [0.4, 0.3, 0.2, 0.1], strict=True))
    strategy = sampled(ebnf, samples=4**4, attempts=1)
    written = canvas_of("_" * masks + proposed, tokens_left)
    alive = [
        filling
        for chosen in itertools.product([END, *map(token, "abc")], repeat=masks)
        if extends(
            strategy.tokens, strategy.tokens.start, written, filling := dict(enumerate(chosen))
        )
    ]
    canvas = canvas_of("_" * (masks + 1), tokens_left)
    step(strategy, canvas, candidates(*[weights] * (masks + 1)), **{f"p{masks}": proposed})
    assert strategy.counts["accepted"] == bool(alive)
    assert strategy.counts["recovered"] == (not alive)
    assert not alive or strategy.cache in alive


# --- Propose: the surest first, what was refused left out -------------------------------


@pytest.mark.parametrize(
    ("threshold", "written"),
    [(0.99, "a__"), (0.65, "ab_"), (0.5, "abc")],
    ids=["one is owed", "and what is surer than the threshold", "three"],
)
def test_a_step_commits_what_the_engine_would(threshold, written):
    """Position 0 is refused its first token, and the next is sure by then: 0.3 of 0.37."""
    cut = candidates({"x": 0.63, "a": 0.3, "z": 0.07}, {"b": 0.7, "x": 0.3}, {"c": 0.6, "x": 0.4})
    strategy, canvas = sampled("root ::= [a-c]{3}", attempts=9), canvas_of("___")
    step(strategy, canvas, cut, threshold, p0="x")
    assert "".join(texts(canvas)) == written
    assert strategy.counts["refused"] == 1


def test_a_refused_token_is_not_drawn_for_a_lookahead_of_the_same_step():
    """``x`` is half of the marginal of position 0, and nothing else there is wrong."""
    cut = candidates({"x": 0.5, "a": 0.3, "d": 0.2}, {"b": 0.9})
    for seed in range(12):
        strategy = sampled("root ::= [ad] [b]", seed, samples=1)
        canvas = canvas_of("__")
        step(strategy, canvas, cut, p0="x")
        assert texts(canvas)[1] == "b"
        assert (strategy.counts["refused"], strategy.counts["fillings"]) == (1, 2)


# --- Cache ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("second", "cached", "lookaheads", "written"),
    [({"p0": "a"}, 1, 1, "a_c"), ({"p0": "b"}, 0, 2, "b_c"), ({"p1": "a"}, 1, 1, "_ac")],
    ids=["hit", "another token", "hit at the other mask"],
)
def test_what_the_cached_filling_contains_is_not_verified_again(
    second, cached, lookaheads, written
):
    strategy, canvas = sampled('root ::= [ab] [ab] "c"'), canvas_of("___")
    step(strategy, canvas, candidates({"a": 1}, {"a": 1}, {"c": 1}), threshold=2, p2="c")
    assert strategy.cache == {0: token("a"), 1: token("a")}
    unsure = candidates({"a": 0.5, "b": 0.5}, {"a": 0.5, "b": 0.5}, {"c": 1})
    step(strategy, canvas, unsure, threshold=2, **second)
    assert "".join(texts(canvas)) == written
    assert (strategy.counts["cached"], strategy.counts["lookaheads"]) == (cached, lookaheads)


def test_a_block_that_begins_again_has_no_cache():
    strategy = sampled('root ::= [ab] "c"')
    step(strategy, canvas_of("__"), candidates({"a": 1}, {"c": 1}), threshold=2, p1="c")
    assert strategy.cache
    strategy.start_block()
    assert not strategy.cache


# --- Recovery ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempts", "refused", "recovered"), [(1, 1, 1), (3, 3, 1), (4, 3, 0), (5, 3, 0)]
)
def test_tau_refusals_in_a_row_lead_to_recovery(attempts, refused, recovered):
    cut = candidates({"x": 0.5, "y": 0.3, "z": 0.15, "a": 0.05})
    strategy, canvas = sampled('root ::= "a"', attempts=attempts), canvas_of("_")
    step(strategy, canvas, cut, p0="x")
    assert texts(canvas) == ["a"]
    assert strategy.counts["refused"] == refused
    assert strategy.counts["recovered"] == recovered
    assert strategy.counts["accepted"] == 1 - recovered


@pytest.mark.parametrize(("attempts", "cached", "recovered"), [(2, 0, 1), (3, 1, 0)])
def test_an_acceptance_begins_the_count_of_refusals_anew(attempts, cached, recovered):
    """``x`` at 2 is refused and ``c`` accepted there, then ``x`` and ``y`` at 1 are refused."""
    cut = candidates({"a": 0.9}, {"x": 0.5, "y": 0.3, "b": 0.2}, {"x": 0.55, "c": 0.45})
    strategy, canvas = sampled('root ::= "abc"', attempts=attempts), canvas_of("___")
    step(strategy, canvas, cut, 0.0, p0="a")
    assert "".join(texts(canvas)) == "abc"
    assert strategy.counts["refused"] == 3
    assert (strategy.counts["cached"], strategy.counts["recovered"]) == (cached, recovered)


@pytest.mark.parametrize(
    ("before", "proposed", "after", "recovered"),
    [
        ("__c_", "p3", "abc_", 2),
        ("a_c_", "p3", "abc_", 1),
        ("____", "p3", "a___", 1),
        ("abc_", "p3", "abcd", 1),
    ],
    ids=["the prefix", "what is left of it", "no prefix: a token", "no mask in it: a token"],
)
def test_recovery_commits_the_cached_prefix_or_else_one_token(before, proposed, after, recovered):
    wrong = {"x": 0.9, "a": 0.05, "d": 0.01}
    strategy = sampled('root ::= "abcd"', attempts=1)
    strategy.cache = {0: token("a"), 1: token("b")}  # as when ``c`` was verified
    canvas = canvas_of(before)
    step(strategy, canvas, candidates(*[wrong] * 4), **{proposed: "x"})
    assert "".join(texts(canvas)) == after
    assert strategy.counts["recovered"] == recovered
    assert strategy.counts["refused"] == 1


@pytest.mark.parametrize(("tokens_left", "written"), [(9, "a"), (6, "a"), (3, "b")])
def test_the_net_takes_no_token_that_leaves_too_little_to_finish(tokens_left, written):
    """The model prefers ``a``, with which a sentence has five tokens and an end token."""
    cut = candidates(*[{"x": 0.9, "a": 0.05, "b": 0.01}] * 8)
    strategy = sampled('root ::= "acaca" | "b" "b"', attempts=1)
    canvas = canvas_of("_" * 8, tokens_left)
    step(strategy, canvas, cut, p0="x")
    assert texts(canvas)[0] == written
    assert strategy.counts["recovered"] == 1


# --- Beside the paper -------------------------------------------------------------------


def test_each_edit_is_verified_by_itself():
    strategy, canvas = sampled('root ::= [ab] [ab] "c" | "ddc"'), canvas_of("ab_")
    edits = {0: token("d"), 1: token("a")}
    proposals = Proposals({2: token("c")}, edits, 0.9)
    strategy.step(strategy.tokens.start, canvas, candidates(*[{"c": 0.95}] * 3), proposals)
    assert "".join(texts(canvas)) == "aac"
    assert (strategy.counts["accepted"], strategy.counts["refused"]) == (2, 1)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"lookahead": "sampled"}, Sampled),
        ({"lookahead": "sampled", "strategy": "sequential"}, None),
        ({"lookahead": "guided"}, Lave),
    ],
)
def test_a_request_gets_it_by_its_lookahead(options, kind):
    session = Session(token_automaton('root ::= "a"'), LaveOptions(**options), 9)
    if kind is None:
        assert not isinstance(session.strategy, Sampled | Lave)
    else:
        assert isinstance(session.strategy, kind) or session.batched
        assert isinstance(session.strategy, Sampled) == (kind is Sampled)
