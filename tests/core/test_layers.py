"""Whatever the lattice says of a block equals what enumerating all fillings says."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats
from scripted import COMPILER, END, MASK_ID, VOCABULARY, token_automaton

from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar import implementation
from lave_plugin.grammar.automaton import DEAD, Automaton
from lave_plugin.grammar.normal_form import read_normal_form
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.lattice import Verdict, find_witness
from lave_plugin.layers import Layers
from lave_plugin.strategies import confidence

GRAMMARS = {
    "regular": "root ::= [ab]* [c] [a-c]?",
    "bounded": "root ::= [a-c]{2,4}",
    "uneven": 'root ::= [ab] [abc]* | "c" [bc]*',
    "choice": 'root ::= "aa" | "abc" | "b" | "ba"',
    "nested": 'root ::= "a" root "b" | "c"',
    "left recursive": 'root ::= root "a" item | item\nitem ::= "b" | "cc"',
    "ambiguous": 'root ::= root root | "a" | "b" | "ab"',
    "ambiguous and nullable": 'root ::= opt opt opt "c"?\nopt ::= "" | "a" | "ab" | "b"',
    "brackets": 'root ::= ("a" root "c" | "b")*',
}
SMALL = [END, *(VOCABULARY.id_of[text] for text in (b"a", b"b", b"c", b"aa", b"ab", b"abc", b"cc"))]


def reference_automaton(ebnf: str) -> TokenAutomaton:
    """The Python states, whatever else was built."""
    printed = str(COMPILER.compile_grammar(ebnf).grammar)
    return TokenAutomaton(Automaton(read_normal_form(printed, {END, MASK_ID})), VOCABULARY)


BUILDERS = [reference_automaton]
if implementation.native_module() is not None:
    BUILDERS.append(token_automaton)
AUTOMATA = {(name, build): build(GRAMMARS[name]) for name in GRAMMARS for build in BUILDERS}


@st.composite
def blocks(draw, longest: int = 4):
    """A grammar, a canvas of it, and weights for the masks."""
    tokens = AUTOMATA[draw(st.sampled_from(sorted(GRAMMARS))), draw(st.sampled_from(BUILDERS))]
    block = draw(st.integers(1, longest))
    shown = [draw(st.just(MASKED) | st.sampled_from([MASKED, *SMALL])) for _ in range(block)]
    first = draw(st.integers(0, 1)) if block > 1 else 0
    weights = {}
    for position in range(first, block):
        if shown[position] == MASKED:
            some = draw(st.lists(st.sampled_from(SMALL), unique=True, min_size=2, max_size=5))
            shares = np.array([draw(st.integers(1, 20)) for _ in some], float)
            shares *= draw(st.sampled_from([1.0, 0.7])) / shares.sum()
            weights[position] = dict(zip(some, np.log(shares).tolist(), strict=True))
    return tokens, Canvas(shown, first, draw(st.integers(1, 7))), weights


def enumerate_fillings(tokens, canvas: Canvas, weights) -> dict[tuple[int, ...], float]:
    """Probability of each valid filling, by its tokens in order of position."""
    fillings = {}
    for chosen in product(*weights.values()):
        filled = list(canvas.tokens)
        score = 0.0
        for (position, of_position), token in zip(weights.items(), chosen, strict=True):
            filled[position] = token
            score += of_position[token]
        state = tokens.start
        for position in range(canvas.first, len(filled)):
            state = tokens.advance(state, filled[position])
            if state == DEAD or tokens.tokens_to_finish(state) > canvas.left_after(position):
                break
        else:
            fillings[chosen] = math.exp(score)
    return fillings


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(blocks())
def test_every_quantity_equals_enumeration(block):
    tokens, canvas, weights = block
    fillings = enumerate_fillings(tokens, canvas, weights)
    layers = Layers(tokens, tokens.start, canvas, weights, 10_000)
    assert layers.exact and layers.cut == 0
    best = layers.best()
    if not fillings:
        assert best is None and layers.log_partition == -math.inf
        assert layers.marginals() == {} and layers.sample(Random(0)) is None
        return
    assert math.exp(best.score) == pytest.approx(max(fillings.values()))
    assert fillings[tuple(best.tokens[p] for p in weights)] == pytest.approx(math.exp(best.score))
    total = sum(fillings.values())
    assert math.exp(layers.log_partition) == pytest.approx(total)
    marginals = layers.marginals()
    assert list(marginals) == list(weights)
    for place, position in enumerate(weights):
        expected = Counter()
        for chosen, weight in fillings.items():
            expected[chosen[place]] += weight / total
        found = dict(zip(*(a.tolist() for a in vars(marginals[position]).values()), strict=True))
        assert found == pytest.approx(dict(expected))
    drawn = layers.sample(Random(len(fillings)))
    assert math.exp(drawn.score) == pytest.approx(fillings[tuple(drawn.tokens[p] for p in weights)])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(blocks())
def test_existence_is_what_the_search_for_a_witness_finds(block):
    """Up to the last committed position, where that search stops."""
    tokens, canvas, weights = block
    head = Canvas(canvas.tokens[: canvas.last_committed() + 1], canvas.first, canvas.tokens_left)
    ends = {p: {END: -9.0, **of_position} for p, of_position in weights.items()}
    layers = Layers(tokens, tokens.start, head, ends, 10_000)
    choices = {p: list(of_position) for p, of_position in ends.items()}
    found = find_witness(tokens, tokens.start, canvas, choices, 10_000, fillers=False)
    assert (found.verdict is Verdict.ALIVE) == (layers.best() is not None)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(blocks(), st.data())
def test_the_best_with_given_tokens(block, data):
    tokens, canvas, weights = block
    given_tokens = {
        position: data.draw(st.sampled_from(sorted(of_position)))
        for position, of_position in weights.items()
        if data.draw(st.booleans())
    }
    fitting = [
        weight
        for chosen, weight in enumerate_fillings(tokens, canvas, weights).items()
        if given_tokens.items() <= dict(zip(weights, chosen, strict=True)).items()
    ]
    best = Layers(tokens, tokens.start, canvas, weights, 10_000).best(given_tokens)
    assert (best is None) == (not fitting)
    if best is not None:
        assert math.exp(best.score) == pytest.approx(max(fitting))
        assert given_tokens.items() <= best.tokens.items()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(blocks())
def test_the_confidence_of_lave_is_the_same_posterior(block):
    tokens, canvas, weights = block
    choices = {p: list(of_position) for p, of_position in weights.items()}
    probabilities = {p: np.exp(list(w.values())).tolist() for p, w in weights.items()}
    with patch.object(confidence, "LEAST_SHARE", 0.0):
        found = confidence.posterior_marginals(tokens, tokens.start, canvas, choices, probabilities)
    marginals = Layers(tokens, tokens.start, canvas, weights, 10_000).marginals()
    if not marginals:
        assert found is None or not weights
        return
    for position, marginal in marginals.items():
        assert found[position] == pytest.approx([marginal.of(t) for t in choices[position]])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(blocks(), st.integers(1, 3))
def test_what_was_cut_is_bounded_by_what_is_reported(block, max_states):
    tokens, canvas, weights = block
    fillings = enumerate_fillings(tokens, canvas, weights)
    layers = Layers(tokens, tokens.start, canvas, weights, max_states)
    assert layers.largest <= max_states
    kept, total = math.exp(layers.log_partition), sum(fillings.values())
    assert kept <= total + 1e-12
    assert total <= kept + layers.cut + 1e-12
    best = layers.best()
    if best is not None:
        assert math.exp(best.score) <= max(fillings.values()) * (1 + 1e-9)
        if best.score > layers.best_cut:
            assert math.exp(best.score) == pytest.approx(max(fillings.values()))
    elif fillings:
        assert not layers.exact and math.log(max(fillings.values())) <= layers.best_cut + 1e-9


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("name", ["regular", "nested", "ambiguous", "ambiguous and nullable"])
def test_draws_are_from_the_posterior(name, build):
    tokens = AUTOMATA[name, build]
    random, shares = Random(7), np.random.default_rng(7)
    weights = {
        position: dict(zip(SMALL, np.log(shares.dirichlet(np.ones(len(SMALL)))), strict=True))
        for position in range(3)
    }
    canvas = Canvas([MASKED] * 3, 0, 6)
    fillings = enumerate_fillings(tokens, canvas, weights)
    assert len(fillings) > 3
    layers = Layers(tokens, tokens.start, canvas, weights, 10_000)
    draws = 5_000
    drawn = Counter(tuple(layers.sample(random).tokens.values()) for _ in range(draws))
    assert set(drawn) <= set(fillings)
    total = sum(fillings.values())
    expected = {chosen: draws * weight / total for chosen, weight in fillings.items()}
    rare = [chosen for chosen in expected if expected[chosen] < 5]  # the test asks for 5 each
    observed = [drawn[chosen] for chosen in expected if expected[chosen] >= 5]
    awaited = [expected[chosen] for chosen in expected if expected[chosen] >= 5]
    if rare:
        observed.append(sum(drawn[chosen] for chosen in rare))
        awaited.append(sum(expected[chosen] for chosen in rare))
    assert stats.chisquare(observed, awaited).pvalue > 1e-3


def test_paths_of_an_ambiguous_grammar_are_counted_once():
    """``ab`` has as many derivations as one likes here; each filling is one path all the same."""
    ambiguous = token_automaton('root ::= root root | x | y | z\nx ::= "a"\ny ::= "a"\nz ::= "b"')
    plain = token_automaton("root ::= [ab]+")
    a, b = SMALL[1], SMALL[2]
    weights = {p: {a: math.log(0.5), b: math.log(0.25), END: math.log(0.25)} for p in range(4)}
    canvas = Canvas([MASKED] * 4, 0, 9)
    of_both = [
        Layers(tokens, tokens.start, canvas, weights, 10_000) for tokens in (ambiguous, plain)
    ]
    assert of_both[0].log_partition == pytest.approx(of_both[1].log_partition, abs=1e-12)
    for position in range(4):
        first, second = (layers.marginals()[position] for layers in of_both)
        assert first.tokens.tolist() == second.tokens.tolist()
        assert first.probabilities == pytest.approx(second.probabilities)


def test_fillers_stand_in_where_no_candidate_fits():
    tokens = token_automaton('root ::= "abc"')
    c = VOCABULARY.id_of[b"c"]
    weights = {p: {c: math.log(0.9)} for p in range(4)}
    canvas = Canvas([MASKED] * 4, 0, 9)
    assert Layers(tokens, tokens.start, canvas, weights, 99).best() is None
    floor = dict.fromkeys(weights, math.log(0.01))
    best = Layers(tokens, tokens.start, canvas, weights, 99, floor).best()
    assert list(best.tokens.values()) == [VOCABULARY.id_of[b"a"], VOCABULARY.id_of[b"b"], c, END]
    assert best.score == pytest.approx(3 * math.log(0.01) + math.log(0.9))
