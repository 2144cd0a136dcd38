"""The C++ token layer and search decide as the reference does."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_rules import rule_automata, vocabularies

from lave_plugin import native
from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar import automaton as reference
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.implementation import states_over
from lave_plugin.grammar.token_automaton import ENDED, TokenAutomaton
from lave_plugin.lattice import find_witness

VERDICTS = {"alive": native.ALIVE, "refuted": native.REFUTED, "undecided": native.UNDECIDED}


def both(rules, vocabulary):
    python = TokenAutomaton(reference.Automaton(rules), vocabulary)
    cpp = native.TokenAutomaton(native.Automaton(rules), vocabulary)
    return python, cpp


@st.composite
def token_ids(draw, vocabulary, **sizes):
    return draw(st.lists(st.integers(-3, len(vocabulary) + 2), **sizes))


@settings(max_examples=300, deadline=None)
@given(data=st.data(), rules=rule_automata(tokens=True), vocabulary=vocabularies())
def test_token_steps(data, rules, vocabulary):
    python, cpp = both(rules, vocabulary)
    assert python.start == cpp.start
    for text in data.draw(st.lists(token_ids(vocabulary, max_size=6), max_size=5)):
        one, other = python.start, cpp.start
        for token in text:
            if one != DEAD:
                finish = python.tokens_to_finish(one)
                assert cpp.tokens_to_finish(other) == finish
                assert cpp.shortest_ending(other) == python.shortest_ending(one)
                for left in (-1, 0, finish - 1, finish):
                    assert cpp.finishes_within(other, left) == (finish <= left)
            assert cpp.is_complete(other) == python.is_complete(one)
            assert cpp.fillers(other) == python.fillers(one)
            assert cpp.allowed_tokens(other) == python.allowed_tokens(one)
            assert cpp.allowed_tokens(other) == python.allowed_tokens(one)  # from the cache
            one, other = python.advance(one, token), cpp.advance(other, token)
            assert (one == DEAD) == (other == DEAD) and (one == ENDED) == (other == ENDED)


@st.composite
def rows(draw, vocabulary, block):
    """A canvas with candidates: a prefix to walk, then the arguments of a search."""
    token = st.one_of(st.just(MASKED), st.integers(0, len(vocabulary) - 1), st.integers(-5, 99))
    tokens = draw(st.lists(token, min_size=block, max_size=block))
    first = draw(st.integers(0, block))
    listed = st.lists(st.integers(0, len(vocabulary) + 1), max_size=4)
    return (
        draw(token_ids(vocabulary, max_size=3)),
        Canvas(tokens, first, draw(st.integers(-2, 2 * block + 6))),
        {position: draw(listed) for position in range(block)},
    )


def behind(tokens, prefix):
    state = tokens.start
    for token in prefix:
        state = tokens.advance(state, token)
    return state


budgets = st.one_of(st.integers(-1, 12), st.just(512))


@settings(max_examples=600, deadline=None)
@given(
    data=st.data(),
    rules=rule_automata(tokens=True),
    vocabulary=vocabularies(),
    budget=budgets,
    fillers=st.booleans(),
)
def test_searches_find_the_same(data, rules, vocabulary, budget, fillers):
    python, cpp = both(rules, vocabulary)
    for _ in range(2):
        prefix, canvas, candidates = data.draw(rows(vocabulary, data.draw(st.integers(0, 6))))
        given_to_both = {"budget": budget, "fillers": fillers}
        expected = find_witness(python, behind(python, prefix), canvas, candidates, **given_to_both)
        found = find_witness(cpp, behind(cpp, prefix), canvas, candidates, **given_to_both)
        assert found == expected


@settings(max_examples=200, deadline=None)
@given(
    data=st.data(),
    rules=st.lists(rule_automata(tokens=True), min_size=1, max_size=3),
    vocabulary=vocabularies(),
    budget=budgets,
    fillers=st.booleans(),
    threads=st.integers(1, 4),
)
def test_a_batch_finds_what_its_rows_find(data, rules, vocabulary, budget, fillers, threads):
    grammars = [both(each, vocabulary) for each in rules]
    block = data.draw(st.integers(0, 5))
    batch = data.draw(
        st.lists(st.tuples(st.integers(0, len(grammars) - 1), rows(vocabulary, block)), max_size=6)
    )
    candidates = numpy.full((len(batch), block, 4), -1, dtype=numpy.int32)
    for row, (_, (_, _, listed)) in enumerate(batch):
        for position, ids in listed.items():
            candidates[row, position, : len(ids)] = ids
    verdicts, witnesses = native.find_witness_batch(
        [grammars[grammar][1] for grammar, _ in batch],
        numpy.array(
            [behind(grammars[grammar][1], prefix) for grammar, (prefix, _, _) in batch],
            dtype=numpy.int64,
        ),
        numpy.array([canvas.tokens for _, (_, canvas, _) in batch], dtype=numpy.int32).reshape(
            len(batch), block
        ),
        numpy.array([canvas.first for _, (_, canvas, _) in batch], dtype=numpy.int64),
        numpy.array([canvas.tokens_left for _, (_, canvas, _) in batch], dtype=numpy.int64),
        candidates,
        budget,
        fillers=fillers,
        threads=threads,
    )
    for row, (grammar, (prefix, canvas, listed)) in enumerate(batch):
        python = grammars[grammar][0]
        expected = find_witness(
            python, behind(python, prefix), canvas, listed, budget, fillers=fillers
        )
        assert verdicts[row] == VERDICTS[expected.verdict.value]
        witness = expected.witness or {}
        assert witnesses[row].tolist() == [witness.get(p, MASKED) for p in range(block)]


def test_each_vocabulary_is_copied_once(monkeypatch):
    from lave_plugin.grammar.normal_form import read_normal_form
    from lave_plugin.grammar.vocabulary import Vocabulary

    made = []
    make = native._native.Vocabulary
    monkeypatch.setattr(
        native._native, "Vocabulary", lambda **arrays: made.append(1) or make(**arrays)
    )
    vocabulary = Vocabulary([b"", b"a"], [0])
    for _ in range(3):
        states_over(native.Automaton(read_normal_form('root ::= (("a"))')), vocabulary)
    assert len(made) == 1


def test_a_candidate_list_that_is_missing_is_an_error():
    from lave_plugin.grammar.normal_form import read_normal_form
    from lave_plugin.grammar.vocabulary import Vocabulary

    vocabulary = Vocabulary([b"", b"a"], [0])
    _, cpp = both(read_normal_form('root ::= (("aa"))'), vocabulary)
    with pytest.raises(KeyError):
        find_witness(cpp, cpp.start, Canvas([MASKED, 1], 0, 9), {}, 9)
