"""The strategies beside LAVE: what each guarantees, and what its nature is."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats
from scripted import END, MASK_ID, VOCABULARY, ScriptedEngine, text_of, token_automaton
from test_any_logits import GRAMMARS, is_sentence, random_grammars

from lave_plugin.candidates import CandidateCutter, Candidates
from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.lattice import Verdict, find_witness
from lave_plugin.layers import Layers
from lave_plugin.options import InvalidOptions, LaveOptions
from lave_plugin.session import Session
from lave_plugin.strategies.intersection import Intersection, complete, intersects
from lave_plugin.strategies.lave import Lave, Proposals
from lave_plugin.strategies.map import MostProbable
from lave_plugin.strategies.posterior import Posterior
from lave_plugin.strategies.sequential import Sequential
from lave_plugin.thinking import Thinking

KEEPING = {
    "sequential": LaveOptions(strategy="sequential"),
    "map": LaveOptions(strategy="map"),
    "map, candidates": LaveOptions(strategy="map", regular_states=0),
    "map, pruned": LaveOptions(strategy="map", regular_states=0, max_states=1),
    "posterior": LaveOptions(strategy="posterior"),
    "posterior, mf": LaveOptions(strategy="posterior", posterior="mf"),
    "posterior, pruned": LaveOptions(strategy="posterior", regular_states=0, max_states=2),
    "draws": LaveOptions(strategy="posterior", posterior="draws"),
    "draws, candidates": LaveOptions(strategy="posterior", posterior="draws", regular_states=0),
    "draws by the tree": LaveOptions(strategy="posterior", posterior="draws", sampler="tree"),
}
NOT_KEEPING = {
    "none": LaveOptions(strategy="none"),
    "any gaps": LaveOptions(strategy="intersection", search_budget=64),
    "exact gaps": LaveOptions(strategy="intersection", gaps="exact"),
    "completed": LaveOptions(strategy="intersection", search_budget=64, completion=True),
}


@pytest.mark.parametrize("edits", [False, True], ids=["masks only", "with edits"])
@pytest.mark.parametrize("name", GRAMMARS)
@pytest.mark.parametrize("strategy", KEEPING)
def test_every_answer_is_a_sentence_within_the_budget(strategy, name, edits):
    tokens = token_automaton(GRAMMARS[name])
    shortest = tokens.tokens_to_finish(tokens.start)
    for seed, slack in enumerate([0, 1, 9]):
        engine = ScriptedEngine(
            block=6,
            edits=edits,
            seed=seed,
            threshold=[0.0, 0.7][seed % 2],
            options=KEEPING[strategy],
        )
        answer, session, _ = engine.answer(tokens, shortest + slack, prompt_tail=seed)
        assert session.ended and not session.batched
        assert END in answer, "cut by length"
        assert is_sentence(GRAMMARS[name], text_of(answer)), text_of(answer)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    ebnf=random_grammars(),
    strategy=st.sampled_from(sorted(KEEPING)),
    block=st.integers(1, 6),
    slack=st.integers(0, 8),
    threshold=st.sampled_from([0.0, 0.3, 0.9]),
    sharpness=st.sampled_from([0.5, 4.0, 30.0]),
    seed=st.integers(0, 10_000),
)
def test_random_grammars(ebnf, strategy, block, slack, threshold, sharpness, seed):
    try:
        tokens = token_automaton(ebnf)
    except (RuntimeError, UnsupportedGrammar):
        return  # xgrammar refuses it, or it has no sentence
    budget = tokens.tokens_to_finish(tokens.start) + slack
    options = KEEPING[strategy]
    engine = ScriptedEngine(
        block, threshold=threshold, sharpness=sharpness, seed=seed, options=options
    )
    answer, session, _ = engine.answer(tokens, budget)
    assert session.ended and END in answer
    assert is_sentence(ebnf, text_of(answer))


@pytest.mark.parametrize("edits", [False, True], ids=["masks only", "with edits"])
@pytest.mark.parametrize("name", ["nested", "arithmetic", "json-like"])
@pytest.mark.parametrize("strategy", NOT_KEEPING)
def test_the_others_fill_every_block_and_come_to_an_end(strategy, name, edits):
    tokens = token_automaton(GRAMMARS[name])
    for seed in range(3):
        options = NOT_KEEPING[strategy]
        engine = ScriptedEngine(block=6, edits=edits, seed=seed, options=options)
        answer, session, _ = engine.answer(tokens, 18)
        assert len(answer) == 18 or session.ended
        assert MASK_ID not in answer
        assert session.ended == (END in answer)


def test_without_a_constraint_noise_stays_noise():
    tokens = token_automaton(GRAMMARS["bounded"])
    for seed in range(5):
        engine = ScriptedEngine(block=6, seed=seed, options=NOT_KEEPING["none"])
        answer, _, _ = engine.answer(tokens, 12)
        assert not is_sentence(GRAMMARS["bounded"], text_of(answer))


# --- Single steps -----------------------------------------------------------------------


def token(text: str) -> int:
    return VOCABULARY.id_of[text.encode()]


def candidates(*positions: dict[int, float], top_k: int = 16) -> Candidates:
    """Candidates of positions 0, 1, ...; tokens without a probability share next to nothing."""
    logits = torch.full((1, len(positions), len(VOCABULARY)), -20.0)
    for position, weights in enumerate(positions):
        for number, probability in weights.items():
            logits[0, position, number] = torch.tensor(probability).log()
    cutter = CandidateCutter(VOCABULARY, MASK_ID, top_k)
    masked = np.ones((1, len(positions)), dtype=bool)
    return cutter.cut(logits, masked, logits.argmax(-1).numpy()).of_row(0, logits[0], cutter)


A, B, C = token("a"), token("b"), token("c")
TWO = 'root ::= "ac" | "bb"'
TWO_WEIGHTS = [{A: 0.6, B: 0.4}, {B: 0.9, C: 0.1}]  # "bb" 0.36, "ac" 0.06


def one_step(strategy, proposals: Proposals, ebnf: str = TWO, weights=TWO_WEIGHTS) -> list[int]:
    canvas = Canvas([MASKED] * len(weights), 0, 9)
    strategy.step(strategy.tokens.start, canvas, candidates(*weights), proposals)
    return canvas.tokens


def test_map_commits_of_the_best_block_what_it_is_sure_of():
    """``a`` is the favourite of its position and not in the most probable block."""
    tokens = token_automaton(TWO)
    proposals = Proposals({0: A, 1: B}, threshold=0.5)
    assert one_step(MostProbable(tokens, LaveOptions()), proposals) == [MASKED, B]
    low = Proposals({0: A, 1: B}, threshold=0.3)
    assert one_step(MostProbable(tokens, LaveOptions()), low) == [B, B]
    elsewhere = Proposals({0: A}, threshold=0.5)
    assert one_step(MostProbable(tokens, LaveOptions()), elsewhere) == [MASKED, B]


def test_the_posterior_knows_of_the_grammar_what_the_marginals_do_not():
    tokens = token_automaton(TWO)
    sure = Proposals({0: A}, threshold=0.8)  # the posterior of "bb" is 0.36 / 0.42 = 0.857
    assert one_step(Posterior(tokens, LaveOptions()), sure) == [B, B]
    unsure = one_step(Posterior(tokens, LaveOptions()), Proposals({0: A}, threshold=0.9))
    assert sorted(unsure) == [MASKED, B]


def test_filtering_alone_does_not_weigh_what_goes_together():
    """``a`` and ``b`` are both allowed in front, and the model likes ``a`` better."""
    strategy = Posterior(token_automaton(TWO), LaveOptions(posterior="mf"))
    # 0.6 and 0.4 in front, 0.9 and 0.1 behind: b is the surest, and leaves only b before it.
    assert one_step(strategy, Proposals(threshold=0.95)) == [MASKED, B]
    strategy = Posterior(
        token_automaton('root ::= "ac" | "bb" | "bd"'), LaveOptions(posterior="mf")
    )
    weights = [{A: 0.55, B: 0.4}, {B: 0.3, C: 0.3, token("d"): 0.3}]
    assert one_step(strategy, Proposals(threshold=0.5), weights=weights) == [A, MASKED]
    by_marginals = Posterior(strategy.tokens, LaveOptions())
    assert one_step(by_marginals, Proposals(threshold=0.55), weights=weights) == [B, MASKED]


def test_the_models_own_confidence_is_not_shared_out_among_what_the_grammar_allows():
    """In front the model wants ``c``, which no sentence has, and ``a`` is what is left."""
    weights = [{C: 0.7, A: 0.2, B: 0.05}, {B: 0.35, C: 0.3}]
    tokens = token_automaton("root ::= [ab] [bc]")
    by_model = Posterior(tokens, LaveOptions(posterior="mf"))
    assert one_step(by_model, Proposals(threshold=0.9), weights=weights) == [MASKED, B]
    by_marginals = Posterior(tokens, LaveOptions())  # 0.8 in front, 0.54 behind
    assert one_step(by_marginals, Proposals(threshold=0.9), weights=weights) == [A, MASKED]


def test_the_whole_vocabulary_counts_where_the_states_are_few():
    """With one candidate a position, none of which fits, only the vocabulary has a filling."""
    tokens = token_automaton(TWO)
    canvas = Canvas([MASKED] * 2, 0, 9)
    weights = [{C: 0.5, A: 0.3, B: 0.2}, {A: 0.5, C: 0.3, B: 0.2}]
    few = candidates(*weights, top_k=1)
    strategy = MostProbable(tokens, LaveOptions())
    strategy.step(tokens.start, canvas, few, Proposals({}, threshold=0.1))
    assert strategy.counts["whole"] == 1 and strategy.cut == 0
    assert strategy.filling == {0: A, 1: C}
    other = MostProbable(tokens, LaveOptions(regular_states=0))
    other.step(tokens.start, Canvas([MASKED] * 2, 0, 9), few, Proposals({}, threshold=0.1))
    assert other.counts["whole"] == 0


def test_a_nested_grammar_is_weighed_over_the_candidates():
    tokens = token_automaton(BRACKETS)
    strategy = Posterior(tokens, LaveOptions(regular_states=500))
    weights = [{token("("): 0.6, token("x"): 0.4}, {token("x"): 0.9}, {token(")"): 0.9}]
    written = one_step(strategy, Proposals(threshold=0.1), weights=weights)
    assert written == [token("("), token("x"), token(")")]
    assert strategy.counts["whole"] == 0 and strategy.counts["lattices"] == 1


def test_the_best_tokens_of_the_posterior_need_not_go_together():
    """Most probable are ``a`` and ``a``, each by itself; ``aa`` is no sentence."""
    tokens = token_automaton('root ::= "ab" | "ba" | "cb" | "bc"')
    weights = [{A: 0.5, B: 0.3, C: 0.2}, {A: 0.5, B: 0.3, C: 0.2}]
    strategy = Posterior(tokens, LaveOptions())
    written = one_step(strategy, Proposals(threshold=0.0), weights=weights)
    assert MASKED not in written or written.count(MASKED) == 1
    canvas = Canvas(written, 0, 9)
    everything = {p: range(len(VOCABULARY)) for p in canvas.masked()}
    found = find_witness(tokens, tokens.start, canvas, everything, 10**9)
    assert found.verdict is Verdict.ALIVE


@pytest.mark.parametrize("changed", [{}, {"regular_states": 0}, {"sampler": "tree"}])
def test_draws_of_the_strategy_are_from_the_posterior(changed):
    tokens = token_automaton(TWO)
    options = LaveOptions(posterior="draws", **changed)
    proposals = Proposals(threshold=0.0)
    drawn = Counter(
        tuple(one_step(Posterior(tokens, options, seed), proposals)) for seed in range(150)
    )
    assert set(drawn) == {(A, C), (B, B)}
    expected = [150 * 0.06 / 0.42, 150 * 0.36 / 0.42]
    assert stats.chisquare([drawn[A, C], drawn[B, B]], expected).pvalue > 1e-3


def test_sequential_takes_the_leftmost_mask_whatever_is_proposed():
    tokens = token_automaton('root ::= "b" [ab]')
    strategy = Sequential(tokens, LaveOptions())
    assert one_step(strategy, Proposals({1: B}, threshold=0.1)) == [B, MASKED]
    assert strategy.counts == {"replaced": 1}


def test_what_was_pruned_is_reported():
    tokens = token_automaton("root ::= [a-c]{2} | [ab]{2} [a-c]")
    strategy = MostProbable(tokens, LaveOptions(max_states=1, regular_states=0))
    weights = [{A: 0.5, C: 0.4}, {A: 0.5, B: 0.4}, {END: 0.9}, {END: 0.9}]
    one_step(strategy, Proposals(threshold=0.1), weights=weights)
    assert strategy.counts["pruned"] == 1
    assert 0.4 <= strategy.cut < 1


# --- Gaps of any length against gaps of exact length ------------------------------------

BRACKETS = 'root ::= "(" root ")" | "x"'
SUMS = 'root ::= term (("+" | "-") term)*\nterm ::= [0-9] | "(" root ")"'
TWINS = 'root ::= "x" root "y" | "z"'
PALINDROMES = 'root ::= "x" root "x" | "y" root "y" | "z"'

# Each character is a token of one byte, "_" a mask, "$" an end token. The vocabulary has a
# few longer tokens (scripted.PIECES), none of which fills these gaps.
DEAD_CANVASES = {
    "for ( MASK )": ('root ::= "for(" [a-z]* ";" [a-z]* ";" [a-z]* "){}"', "for(_)"),
    "while ( MASK )": ('root ::= "while(" [a-z] [<>] [a-z] "){}"', "while(_)"),
    "if ( MASK )": ('root ::= "if(" [a-z]+ "==" [a-z]+ ")"', "if(_)"),
    "two arguments": ('root ::= [a-z]+ "(" [0-9]+ "," [0-9]+ ")"', "f(_)$"),
    "member and value": ('root ::= "{a:" [0-9] "}"', "{_}"),
    "a string of six": ('root ::= "\'" [a-z]{6} "\'"', "'_'$"),
    "six letters": ("root ::= [a-c]{6}", "a_a$"),
    "an even number of pairs": ('root ::= ("xyxy")+', "xy_$"),
    "a year": ('root ::= [0-9]{4} "-" [0-9]{2}', "20_-12$"),
    "a closing tag": ('root ::= "<" [a-z] ">" [0-9] "</" [a-z] ">"', "<a>_a>"),
    "begin and end": ('root ::= "begin" [a-z]* "end"', "be_end$"),
    "half a character": ('root ::= "éü"', "\xc3_\xbc"),
    "an end too early": ('root ::= "xyz"', "x_$"),
    "nothing to put there": ('root ::= "xy"', "x_y"),
    "nothing to put there twice": ('root ::= "xy"', "x__y"),
    "two gaps": ('root ::= "x" [0-9]{2} "y" [0-9]{2} "z"', "x__y_z"),
    "list of an even length": ('root ::= "[" [0-9] (";" [0-9])* "]"', "[__]"),
    "left recursion": ('root ::= root "," item | item\nitem ::= "xx"', "xx_x$"),
    "brackets: one too few": (BRACKETS, "((_)$"),
    "brackets: parity": (BRACKETS, "(__)$"),
    "sums: brackets": (SUMS, "(_+1$"),
    "sums: parity": (SUMS, "1__1$"),
    "twins: one too few": (TWINS, "xxx_yy$"),
    "twins: too many": (TWINS, "x__yyy$"),
    "palindromes": (PALINDROMES, "xy_x$"),
}


def canvas_of(drawn: str) -> Canvas:
    special = {"_": MASKED, "$": END}
    ids = [special[c] if c in special else VOCABULARY.id_of[c.encode("latin-1")] for c in drawn]
    return Canvas(ids, 0, 99)


def is_alive(tokens, canvas: Canvas) -> bool:
    """Exact over the whole vocabulary."""
    everything = {position: range(len(VOCABULARY)) for position in canvas.masked()}
    found = find_witness(tokens, tokens.start, canvas, everything, 10**9)
    assert found.verdict is not Verdict.UNDECIDED
    return found.verdict is Verdict.ALIVE


def before_it_died(tokens, canvas: Canvas) -> tuple[Canvas, int]:
    """The pieces behind the first mask committed one by one, up to the first that is fatal.

    Returns the canvas before that, and the position of the fatal one.
    """
    pieces = canvas.tokens
    first_mask = pieces.index(MASKED)
    shown = pieces[:first_mask] + [MASKED] * (len(pieces) - first_mask)
    for position in range(first_mask, len(pieces)):
        if pieces[position] == MASKED:
            continue
        before = Canvas(list(shown), 0, 99)
        shown[position] = pieces[position]
        if not is_alive(tokens, Canvas(list(shown), 0, 99)):
            return before, position
    raise AssertionError("nothing is wrong with this canvas")


@pytest.mark.parametrize("name", DEAD_CANVASES)
def test_gaps_of_any_length_accept_what_no_filling_can_save(name):
    ebnf, drawn = DEAD_CANVASES[name]
    tokens = token_automaton(ebnf)
    canvas = canvas_of(drawn)
    assert intersects(tokens, tokens.start, canvas, 1024) is Verdict.ALIVE
    assert not is_alive(tokens, canvas)


@pytest.mark.parametrize("name", DEAD_CANVASES)
def test_the_fatal_proposal_is_taken_by_intersection_and_by_no_other(name):
    ebnf, drawn = DEAD_CANVASES[name]
    tokens = token_automaton(ebnf)
    alive, position = before_it_died(tokens, canvas_of(drawn))
    fatal = canvas_of(drawn).tokens[position]
    # The model is sure of the fatal token, and thinks of a way out as well.
    evenly = {p: dict.fromkeys(range(len(VOCABULARY)), 0.0) for p in alive.masked()}
    way_out = Layers(tokens, tokens.start, alive, evenly, 10_000).best()
    weights = [
        {way_out.tokens[p]: 0.3} if p in way_out.tokens else {} for p in range(len(alive.tokens))
    ]
    weights[position] = {**weights[position], fatal: 0.69}
    cut = candidates(*weights)
    for committed in set(range(len(alive.tokens))) - set(alive.masked()):
        del cut.tokens[committed], cut.probabilities[committed]
    proposals = Proposals({position: fatal}, threshold=0.9)

    def after(strategy) -> Canvas:
        canvas = Canvas(list(alive.tokens), 0, 99)
        strategy.step(tokens.start, canvas, cut, proposals)
        assert len(canvas.masked()) < len(alive.masked())
        return canvas

    taken = after(Intersection(tokens, LaveOptions()))
    assert taken.tokens[position] == fatal
    assert not is_alive(tokens, taken)
    for strategy in (
        Lave(tokens, LaveOptions()),
        MostProbable(tokens, LaveOptions()),
        Posterior(tokens, LaveOptions()),
        Posterior(tokens, LaveOptions(posterior="draws")),
        Intersection(tokens, LaveOptions(gaps="exact")),
    ):
        assert is_alive(tokens, after(strategy)), type(strategy)


LIST = 'root ::= "[" [0-9] (";" [0-9])* "]"'

# What stands in the last block, and what becomes of it; "$" is an end token.
COMPLETED = {
    "as long as it may be": (LIST, "[1;2;3;4", 8, "[1;2;3]$"),
    "behind the budget nothing counts": (LIST, "[1;2;3;4", 6, "[1;2]$$$"),
    "what no text goes on from": (LIST, "[1;x;3;4", 8, "[1;0]$$$"),
    "no room for its end token": (LIST, "[1]", 3, None),
    "finished by itself": (LIST, "[1;2]$$$", 8, None),
    "past saving from the start": (LIST, "]1;2]$$$", 3, None),
    "nested": (BRACKETS, "(((((((", 7, "((x))$$"),
    "the shortest there is": (BRACKETS, "(((", 2, "x$$"),
}


@pytest.mark.parametrize("name", COMPLETED)
def test_an_unfinished_answer_is_completed(name):
    ebnf, drawn, left, expected = COMPLETED[name]
    tokens = token_automaton(ebnf)
    canvas = Canvas(canvas_of(drawn).tokens, 0, left)
    assert complete(tokens, tokens.start, canvas) is (expected is not None)
    assert canvas.tokens == canvas_of(expected or drawn).tokens


@pytest.mark.parametrize("name", GRAMMARS)
def test_with_completion_no_answer_ends_invalid_that_had_a_way(name):
    """Blocks as long as the answers: then all that is committed can still be completed."""
    tokens = token_automaton(GRAMMARS[name])
    budget = tokens.tokens_to_finish(tokens.start) + 3
    for seed in range(3):
        engine = ScriptedEngine(block=budget, seed=seed, options=NOT_KEEPING["completed"])
        answer, session, _ = engine.answer(tokens, budget)
        assert session.ended
        assert is_sentence(GRAMMARS[name], text_of(answer)), text_of(answer)


@pytest.mark.parametrize(
    ("ebnf", "drawn"),
    [
        (BRACKETS, "x_x"),
        (BRACKETS, "(_x$"),
        ('root ::= "a" [0-9]* "b"', "a_c_"),
        ('root ::= "xyz"', "y_"),
        ('root ::= "xyz"', "_$_z"),
        ('root ::= "xyz"', "x_z_z"),
    ],
)
def test_gaps_of_any_length_refute_what_has_no_sentence(ebnf, drawn):
    tokens = token_automaton(ebnf)
    verdict = intersects(tokens, tokens.start, canvas_of(drawn), 1024)
    # Behind ( there are brackets of any depth to search, none of which ends with an x.
    assert verdict is (Verdict.UNDECIDED if drawn == "(_x$" else Verdict.REFUTED)


def test_a_search_that_does_not_end_is_undecided_and_counts_as_accepted():
    """Behind the gap there are brackets of any depth, and never a ``z``."""
    tokens = token_automaton(BRACKETS)
    assert intersects(tokens, tokens.start, canvas_of("_z"), 20) is Verdict.UNDECIDED
    strategy = Intersection(tokens, LaveOptions(search_budget=20))
    z = token("z")
    assert one_step(strategy, Proposals({1: z}), weights=[{}, {z: 0.9}]) == [MASKED, z]
    assert strategy.counts["undecided"] == 1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(GRAMMARS)),
    st.lists(st.sampled_from([MASKED, MASKED, A, B, C, END]), min_size=1, max_size=5),
)
def test_exact_gaps_accept_nothing_that_any_gaps_refuse(name, drawn):
    tokens = token_automaton(GRAMMARS[name])
    canvas = Canvas(drawn, 0, 99)
    if is_alive(tokens, canvas):
        assert intersects(tokens, tokens.start, canvas, 512) is not Verdict.REFUTED


@pytest.mark.parametrize(
    "wrong",
    [
        *({"strategy": "dingo"}, {"gaps": "some"}, {"posterior": "mode"}, {"max_states": 0}),
        *({"regular_states": -1}, {"sampler": "gibbs"}),
    ],
)
def test_options_that_are_none_are_named(wrong):
    (name,) = wrong
    with pytest.raises(InvalidOptions, match=f"lave.{name} must be"):
        LaveOptions.from_mapping(wrong)


FACTS = {
    "a sentence": ("abc$", True),
    "cut before its end token": ("abc", True),
    "cut": ("ab", False),
    "not of the grammar": ("ba$", False),
    "nothing": ("", False),
}


@pytest.mark.parametrize("name", FACTS)
def test_what_is_said_of_an_answer(name):
    drawn, complete = FACTS[name]
    session = Session(token_automaton('root ::= "abc"'), LaveOptions(strategy="none"), 9)
    facts = session.facts(canvas_of(drawn).tokens)
    assert (facts["strategy"], facts["complete"]) == ("none", complete)


def test_of_a_thinking_answer_what_stands_behind_the_thinking_counts():
    tokens = token_automaton('root ::= "abc"')
    thinking = Thinking([token("z")], barred={MASK_ID})
    session = Session(tokens, LaveOptions(), 9, thinking=thinking)
    facts = session.facts(canvas_of("xyzabc$").tokens)
    assert facts["complete"] and facts["thinking_tokens"] == 3
    facts = session.facts(canvas_of("abc$").tokens)
    assert not facts["complete"] and facts["thinking_tokens"] == 4


def test_the_facts_are_those_of_the_strategy():
    engine = ScriptedEngine(block=6, seed=3)
    answer, session, steps = engine.answer(token_automaton(GRAMMARS["json-like"]), 30)
    facts, counts = session.facts(answer), session.strategy.counts
    assert facts["steps"] == steps and facts["complete"]
    assert facts["refusals"] == counts["refused"] > 0
    assert facts["recoveries"] == counts["recovered"]
    assert facts["forced_tokens"] == counts["forced"] > 0
    assert facts["accepted"] == counts["accepted"]
    assert facts["undecided"] == counts.get("undecided", 0)
    assert facts.items() >= session.tallies().items()
