"""The lattice over the whole vocabulary, and the tree over it, against enumeration."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from scripted import COMPILER
from test_any_logits import random_grammars

from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar import implementation
from lave_plugin.grammar.automaton import DEAD, Automaton
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.implementation import states_over
from lave_plugin.grammar.normal_form import read_normal_form
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.grammar.token_classes import NO_CLASS, class_automaton
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.lattice import Verdict, find_witness
from lave_plugin.layers import Layers
from lave_plugin.regular import ClassLayers
from lave_plugin.tree import Tree

# Small enough to try every filling: two end tokens, a mask, an id without text, ``a`` twice, and
# halves of a character.
TEXT = [b"a", b"b", b"c", b"aa", b"ab", b"abc", b"cc", b"a", b"\xc3", b"\xa9", b"\xa9b"]
VOCABULARY = Vocabulary([b"", b"", b"", *TEXT, b""], [0, len(TEXT) + 3])
SIZE = len(VOCABULARY)

REGULAR = {
    "any": "root ::= [ab]* [c] [a-c]?",
    "bounded": "root ::= [a-c]{2,4}",
    "uneven": 'root ::= [ab] [abc]* | "c" [bc]*',
    "choice": 'root ::= "aa" | "abc" | "b" | "ba"',
    "characters": 'root ::= ("é" | "a")+ "b"',
    "alternatives that are one": 'root ::= ("a" | x) "b"*\nx ::= "a"',
    "prefixes of each other": 'root ::= "a" | "a" "b"* | x*\nx ::= "ab" | "a" | "b"',
}
NESTED = {
    "nested": 'root ::= "a" root "b" | "c"',
    "ambiguous": 'root ::= "a" root "b" | root root | "ab"',
    "brackets": 'root ::= ("a" root "c" | "b")*',
}


def reference(ebnf: str) -> TokenAutomaton:
    """The Python states, whatever else was built."""
    printed = str(COMPILER.compile_grammar(ebnf).grammar)
    return TokenAutomaton(Automaton(read_normal_form(printed)), VOCABULARY)


def served(ebnf: str) -> TokenAutomaton:
    printed = str(COMPILER.compile_grammar(ebnf).grammar)
    return states_over(implementation.states_of_text(printed), VOCABULARY)


BUILDERS = [reference, served] if implementation.native_module() is not None else [reference]


def weights_of(seed: int, masks: int, sharpness: float, impossible: float) -> torch.Tensor:
    """Log-probabilities ``[masks, vocabulary]``; a share of the tokens is impossible."""
    random = np.random.default_rng(seed)
    logits = sharpness * random.standard_normal((masks, SIZE))
    logits[random.random((masks, SIZE)) < impossible] = -np.inf
    logits[:, 0] = np.where(np.isinf(logits).all(1), 0.0, logits[:, 0])
    return torch.from_numpy(logits).log_softmax(-1)


def enumerate_fillings(tokens, canvas: Canvas, log_probabilities) -> dict[tuple[int, ...], float]:
    """Probability of every valid filling over the whole vocabulary, by its tokens in order."""
    rows = dict(zip(canvas.masked(), log_probabilities.tolist(), strict=True))
    found = {(): (tokens.start, 0.0)}
    for position in range(canvas.first, len(canvas.tokens)):
        shown, longer = canvas.tokens[position], {}
        for chosen, (state, score) in found.items():
            for token in range(SIZE) if shown == MASKED else (shown,):
                weight = rows[position][token] if shown == MASKED else 0.0
                following = tokens.advance(state, token)
                if following == DEAD or weight == -math.inf:
                    continue
                if tokens.tokens_to_finish(following) <= canvas.left_after(position):
                    key = (*chosen, token) if shown == MASKED else chosen
                    longer[key] = following, score + weight
        found = longer
    return {chosen: math.exp(score) for chosen, (_, score) in found.items()}


@st.composite
def canvases(draw) -> tuple[Canvas, torch.Tensor]:
    block = draw(st.integers(1, 4))
    shown = draw(
        st.lists(
            st.sampled_from([MASKED, MASKED, MASKED, *range(SIZE)]), min_size=block, max_size=block
        )
    )
    canvas = Canvas(shown, draw(st.integers(0, min(1, block - 1))), draw(st.integers(1, 7)))
    log_probabilities = weights_of(
        draw(st.integers(0, 10_000)),
        len(canvas.masked()),
        draw(st.sampled_from([0.5, 3.0, 60.0])),
        draw(st.sampled_from([0.0, 0.4])),
    )
    return canvas, log_probabilities


def assert_equals_enumeration(lattice, canvas: Canvas, fillings, log_probabilities, draw) -> None:
    masked = canvas.masked()
    best = lattice.best()
    assert lattice.exact and lattice.cut == 0
    if not fillings:
        assert best is None and lattice.log_partition == -math.inf
        assert lattice.marginals() == {} == lattice.filtered()
        assert lattice.sample(Random(0)) is None
        return
    assert math.exp(best.score) == pytest.approx(max(fillings.values()))
    assert fillings[tuple(best.tokens[p] for p in masked)] == pytest.approx(math.exp(best.score))
    total = sum(fillings.values())
    assert math.exp(lattice.log_partition) == pytest.approx(total)
    marginals, filtered = lattice.marginals(), lattice.filtered()
    assert list(marginals) == masked
    for place, position in enumerate(masked):
        expected = Counter()
        for chosen, weight in fillings.items():
            expected[chosen[place]] += weight / total
        of_model = log_probabilities[place].exp()
        among = sum(float(of_model[token]) for token in expected)
        for token in range(SIZE):
            assert marginals[position].of(token) == pytest.approx(expected[token], abs=1e-12)
            share = float(of_model[token]) / among if token in expected else 0.0
            assert filtered[position].of(token) == pytest.approx(share, abs=1e-12)
        token, probability = marginals[position].best()
        assert probability == pytest.approx(max(expected.values()))
        assert expected[token] == pytest.approx(probability)
    drawn = lattice.sample(Random(len(fillings)))
    assert math.exp(drawn.score) == pytest.approx(fillings[tuple(drawn.tokens[p] for p in masked)])
    # With some of the tokens of some filling given, the best of those that have them.
    given_tokens = dict(zip(masked, draw(st.sampled_from(sorted(fillings))), strict=True))
    given_tokens = {p: token for p, token in given_tokens.items() if draw(st.booleans())}
    with_them = [
        weight
        for chosen, weight in fillings.items()
        if given_tokens.items() <= dict(zip(masked, chosen, strict=True)).items()
    ]
    best = lattice.best(given_tokens)
    assert math.exp(best.score) == pytest.approx(max(with_them))
    assert given_tokens.items() <= best.tokens.items()


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("name", REGULAR)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(block=canvases(), data=st.data())
def test_every_quantity_over_the_whole_vocabulary_equals_enumeration(name, build, block, data):
    canvas, log_probabilities = block
    tokens = build(REGULAR[name])
    fillings = enumerate_fillings(tokens, canvas, log_probabilities)
    automaton = class_automaton(tokens, 5_000)
    lattice = ClassLayers(automaton, tokens.start, canvas, log_probabilities)
    assert_equals_enumeration(lattice, canvas, fillings, log_probabilities, data.draw)
    if fillings:
        drawn = Tree(lattice).sample(Random(3))
        expected = fillings[tuple(drawn.tokens[p] for p in canvas.masked())]
        assert math.exp(drawn.score) == pytest.approx(expected)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(ebnf=random_grammars(), block=canvases(), data=st.data())
def test_random_grammars_in_both_forms(ebnf, block, data):
    """The candidates' form is exact for any grammar where every token is a candidate."""
    canvas, log_probabilities = block
    try:
        tokens = served(ebnf)
    except (RuntimeError, UnsupportedGrammar):
        assume(False)  # xgrammar refuses it, or it has no sentence
    fillings = enumerate_fillings(tokens, canvas, log_probabilities)
    weights = {
        position: dict(enumerate(row))
        for position, row in zip(canvas.masked(), log_probabilities.tolist(), strict=True)
    }
    layers = Layers(tokens, tokens.start, canvas, weights, 10_000)
    assert_equals_enumeration(layers, canvas, fillings, log_probabilities, data.draw)
    automaton = class_automaton(tokens, 200)
    if automaton is not None:
        lattice = ClassLayers(automaton, tokens.start, canvas, log_probabilities)
        assert_equals_enumeration(lattice, canvas, fillings, log_probabilities, data.draw)
    everything = {position: range(SIZE) for position in canvas.masked()}
    head = Canvas(canvas.tokens[: canvas.last_committed() + 1], canvas.first, canvas.tokens_left)
    found = find_witness(tokens, tokens.start, head, everything, 10**9)
    of_head = enumerate_fillings(tokens, head, torch.zeros(len(head.masked()), SIZE))
    assert (found.verdict is Verdict.ALIVE) == bool(of_head)


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("name", REGULAR)
def test_tokens_of_a_class_act_alike_and_those_of_two_do_not(name, build):
    tokens = build(REGULAR[name])
    automaton = class_automaton(tokens, 5_000)
    rows = {
        token: tuple(tokens.advance(state, token) for state in automaton.index)
        for token in range(SIZE)
    }
    alive = {token for token, row in rows.items() if set(row) != {DEAD}}
    assert {t for t in range(SIZE) if automaton.class_of[t] != NO_CLASS} == alive
    for one in alive:
        for other in alive:
            alike = automaton.class_of[one] == automaton.class_of[other]
            assert alike == (rows[one] == rows[other])


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize(
    ("ebnf", "recursive"),
    [
        (REGULAR["any"], False),
        (REGULAR["alternatives that are one"], False),
        ('root ::= x{2,9} y\nx ::= y "a"\ny ::= "b" | ""', False),
        ('root ::= "a" x\nx ::= "b" y?\ny ::= "c" x', True),
        *((ebnf, True) for ebnf in NESTED.values()),
    ],
)
def test_grammars_with_recursive_rules(ebnf, recursive, build):
    assert build(ebnf).automaton.is_recursive is recursive


@pytest.mark.parametrize("name", NESTED)
def test_a_grammar_whose_states_have_no_end_has_no_such_automaton(name):
    assert class_automaton(served(NESTED[name]), 500) is None


def test_states_that_were_dropped_are_unfolded_anew():
    tokens = served(REGULAR["bounded"])
    before = class_automaton(tokens, 5_000)
    assert class_automaton(tokens, 5_000) is before
    tokens.drop_states()
    after = class_automaton(tokens, 5_000)
    assert after is not before
    assert tokens.start in after.index


def chi_squared(drawn: Counter, fillings: dict, draws: int) -> float:
    """The p-value of what was drawn; what is awaited less than five times is taken together."""
    total = sum(fillings.values())
    expected = {chosen: draws * weight / total for chosen, weight in fillings.items()}
    rare = [chosen for chosen in expected if expected[chosen] < 5]
    often = [chosen for chosen in expected if expected[chosen] >= 5]
    observed = [drawn[chosen] for chosen in often]
    awaited = [expected[chosen] for chosen in often]
    if rare:
        observed.append(sum(drawn[chosen] for chosen in rare))
        awaited.append(sum(expected[chosen] for chosen in rare))
    return stats.chisquare(observed, awaited).pvalue


@pytest.mark.parametrize("sampler", ["chain", "tree"])
@pytest.mark.parametrize("name", REGULAR)
def test_chain_and_tree_draw_from_the_posterior(name, sampler):
    tokens = served(REGULAR[name])
    canvas = Canvas([MASKED, MASKED, VOCABULARY.id_of[b"b"], MASKED], 0, 6)
    log_probabilities = weights_of(11, 3, 1.5, 0.0)
    if name == "choice":
        canvas.tokens[2] = MASKED
        log_probabilities = weights_of(11, 4, 1.5, 0.0)
    fillings = enumerate_fillings(tokens, canvas, log_probabilities)
    assert len(fillings) > 3
    lattice = ClassLayers(class_automaton(tokens, 99), tokens.start, canvas, log_probabilities)
    source = Tree(lattice) if sampler == "tree" else lattice
    random, draws = Random(5), 4_000
    drawn = Counter(tuple(source.sample(random).tokens.values()) for _ in range(draws))
    assert set(drawn) <= set(fillings)
    assert chi_squared(drawn, fillings, draws) > 1e-3


@pytest.mark.parametrize(("block", "depth"), [(1, 0), (2, 1), (3, 2), (32, 5), (33, 6), (512, 9)])
def test_the_depth_of_the_tree(block, depth):
    tokens = served("root ::= [ab]* [c] [a-c]?")
    canvas = Canvas([MASKED] * block, 0, block + 9)
    lattice = ClassLayers(
        class_automaton(tokens, 99), tokens.start, canvas, weights_of(block, block, 1.0, 0.0)
    )
    tree = Tree(lattice)
    assert tree.depth == depth
    drawn = tree.sample(Random(1)).tokens
    state = tokens.start
    for token in drawn.values():
        state = tokens.advance(state, token)
    assert len(drawn) == block and state != DEAD


@pytest.mark.parametrize("sampler", ["chain", "tree"])
def test_weights_beyond_the_range_of_a_float_are_told_apart(sampler):
    """All that is valid weighs next to nothing, and half as much of it one way as the other."""
    tokens = served('root ::= "a"{40} | "b"{40}')
    log_probabilities = torch.full((40, SIZE), -math.inf, dtype=torch.float64)
    log_probabilities[:, VOCABULARY.id_of[b"c"]] = 0.0
    log_probabilities[:, VOCABULARY.id_of[b"a"]] = -1000.0
    log_probabilities[:, VOCABULARY.id_of[b"b"]] = -1000.0
    log_probabilities[0, VOCABULARY.id_of[b"b"]] -= math.log(2)
    canvas = Canvas([MASKED] * 40, 0, 50)
    lattice = ClassLayers(class_automaton(tokens, 99), tokens.start, canvas, log_probabilities)
    assert lattice.log_partition == pytest.approx(math.log(1.5) - 40_000)
    assert lattice.marginals()[7].of(VOCABULARY.id_of[b"a"]) == pytest.approx(2 / 3)
    source = Tree(lattice) if sampler == "tree" else lattice
    random = Random(2)
    drawn = Counter(source.sample(random).tokens[39] for _ in range(300))
    assert stats.binomtest(drawn[VOCABULARY.id_of[b"a"]], 300, 2 / 3).pvalue > 1e-3


# However many derivations a text has, it is one filling: states are deterministic.
AMBIGUOUS = {
    "(a|a)b*": ('root ::= (x | y) "b"*\nx ::= "a"\ny ::= "a"', 'root ::= "a" "b"*'),
    "a|ab*": ('root ::= "a" | "a" "b"*', 'root ::= "a" "b"*'),
    "(a*)*": ('root ::= x*\nx ::= "a"*', 'root ::= "a"*'),
    "a*a*b": ('root ::= "a"* "a"* "b"', 'root ::= "a"* "b"'),
    "(a|b|ab)*": ('root ::= ("a" | "b" | "ab")*', "root ::= [ab]*"),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_ways_to_derive_a_text_do_not_count(name):
    ambiguous, plain = (served(ebnf) for ebnf in AMBIGUOUS[name])
    canvas, log_probabilities = Canvas([MASKED] * 4, 0, 6), weights_of(4, 4, 1.0, 0.0)
    lattice = ClassLayers(
        class_automaton(ambiguous, 99), ambiguous.start, canvas, log_probabilities
    )
    fillings = enumerate_fillings(plain, canvas, log_probabilities)
    assert math.exp(lattice.log_partition) == pytest.approx(sum(fillings.values()))
    total = sum(fillings.values())
    for place in range(4):
        expected = Counter()
        for chosen, weight in fillings.items():
            expected[chosen[place]] += weight / total
        found = lattice.marginals()[place].all
        of_token = dict(zip(found.tokens.tolist(), found.probabilities.tolist(), strict=True))
        assert of_token == pytest.approx(dict(expected))
