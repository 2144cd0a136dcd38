"""Whatever arrays come: an exception or an answer, never a crash."""

from array import array

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lave_plugin import native
from lave_plugin.grammar.normal_form import read_normal_form
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.native import _native

REFUSED = (TypeError, ValueError, IndexError)


def rules(**changes):
    """The arrays of `root ::= "ab"`: nodes 0, 1 and 2 in a row."""
    arrays = {
        "byte_begins": array("i", [0, 1, 2, 2]),
        "byte_edges": array("i", [97, 97, 1, 98, 98, 2]),
        "rule_begins": array("i", [0, 0, 0, 0]),
        "rule_edges": array("i", []),
        "final": array("B", [0, 0, 1]),
        "start": array("i", [0]),
        "root": 0,
        "max_states": 1000,
    }
    return {**arrays, **changes}


def test_the_arrays_as_they_should_be():
    automaton = _native.Automaton(**rules())
    assert automaton.accepting(automaton.run(automaton.start, b"ab"))


BAD_RULES = {
    "no nodes": {"final": array("B", []), "byte_begins": array("i", [0])},
    "no rules": {"start": array("i", [])},
    "offsets too short": {"byte_begins": array("i", [0, 1, 2])},
    "offsets empty": {"byte_begins": array("i", [])},
    "offsets too long": {"byte_begins": array("i", [0, 1, 2, 2, 2])},
    "offsets that fall": {"byte_begins": array("i", [0, 2, 1, 2])},
    "offsets beyond the edges": {"byte_begins": array("i", [0, 1, 2, 9])},
    "negative offsets": {"byte_begins": array("i", [0, -1, 2, 2])},
    "offsets that don't begin at 0": {"byte_begins": array("i", [1, 1, 2, 2])},
    "half an edge": {"byte_edges": array("i", [97, 97, 1, 98, 98])},
    "half a rule edge": {"rule_edges": array("i", [0])},
    "target out of range": {"byte_edges": array("i", [97, 97, 3, 98, 98, 2])},
    "negative target": {"byte_edges": array("i", [97, 97, -1, 98, 98, 2])},
    "byte above 255": {"byte_edges": array("i", [97, 256, 1, 98, 98, 2])},
    "range upside down": {"byte_edges": array("i", [98, 97, 1, 98, 98, 2])},
    "rule out of range": {
        "rule_begins": array("i", [0, 1, 1, 1]),
        "rule_edges": array("i", [1, 1]),
    },
    "negative rule": {"rule_begins": array("i", [0, 1, 1, 1]), "rule_edges": array("i", [-1, 1])},
    "start out of range": {"start": array("i", [3])},
    "root out of range": {"root": 1},
    "negative root": {"root": -1},
    "huge root": {"root": 2**63},
    "no sentence": {"final": array("B", [0, 0, 0])},
    "an edge to where nothing ends": {"final": array("B", [0, 1, 0])},
    "wrong type": {"byte_edges": array("d", [97, 97, 1, 98, 98, 2])},
    "wrong width": {"byte_edges": array("q", [97, 97, 1, 98, 98, 2])},
    "unsigned": {"byte_edges": array("I", [97, 97, 1, 98, 98, 2])},
    "a list": {"byte_edges": [97, 97, 1, 98, 98, 2]},
    "None": {"byte_edges": None},
    "two dimensions": {"byte_edges": numpy.zeros((2, 3), numpy.int32)},
    "gaps": {"byte_edges": numpy.zeros(12, numpy.int32)[::2]},
    "backwards": {"byte_edges": numpy.zeros(6, numpy.int32)[::-1]},
    "no dimension": {"byte_edges": numpy.array(1, numpy.int32)},
    "no states": {"max_states": 0},
    "token set out of range": {"token_edges": array("i", [0, 1, 1])},
    "negative token set": {"token_edges": array("i", [0, -1, 1])},
    "node of a token edge out of range": {"token_edges": array("i", [3, 0, 1])},
    "target of a token edge out of range": {"token_edges": array("i", [0, 0, -1])},
    "token edges out of order": {"token_edges": array("i", [1, 0, 2, 0, 0, 1])},
    "half a token edge": {"token_edges": array("i", [0, 0])},
    "a token set that is none": {"token_sets": [(["a"], True)]},
    "budget of no rule": {"token_budgets": array("i", [1, 9])},
    "half a budget": {"token_budgets": array("i", [0])},
    "negative budget": {"token_budgets": array("i", [0, -1])},
    "budget below the shortest string": {"token_budgets": array("i", [0, 1])},
    "characters of no rule": {"character_budgets": array("i", [-1, 9])},
    "half a budget of characters": {"character_budgets": array("i", [0])},
    "negative budget of characters": {"character_budgets": array("i", [0, -1])},
    "characters below the shortest string": {"character_budgets": array("i", [0, 1])},
    "characters of tokens": {
        "token_edges": array("i", [0, 0, 2]),
        "character_budgets": array("i", [0, 9]),
    },
    "budget of a rule that refers to another": {
        "rule_begins": array("i", [0, 1, 1, 1]),
        "rule_edges": array("i", [0, 1]),
        "token_budgets": array("i", [0, 9]),
    },
}


@pytest.mark.parametrize("what", BAD_RULES)
def test_rules_that_are_none(what):
    with pytest.raises(REFUSED):
        _native.Automaton(**rules(**{"token_sets": [([5], False)], **BAD_RULES[what]}))


def test_token_edges_and_a_budget_as_they_should_be():
    arrays = rules(
        token_sets=[([5], False)],
        token_edges=array("i", [0, 0, 2]),
        token_budgets=array("i", [0, 1]),
    )
    tokens = _native.TokenAutomaton(
        _native.Automaton(**arrays),
        _native.Vocabulary(bytes=b"ab", begins=array("q", [0, 1, 2, 2, 2, 2, 2]), end_tokens=[3]),
    )
    assert tokens.shortest_ending(tokens.start) == [5]
    assert tokens.advance(tokens.start, 0) == -1  # a second token would be one too many


numbers = st.lists(
    st.one_of(st.integers(-2, 4), st.integers(90, 100), st.sampled_from([255, 256, -(2**31)])),
    max_size=9,
)


@settings(max_examples=500, deadline=None)
@given(data=st.data())
def test_any_rules(data):
    arrays = {
        name: array("i", data.draw(numbers))
        for name in ("byte_begins", "byte_edges", "rule_begins", "rule_edges", "start")
    }
    arrays["final"] = array("B", data.draw(st.lists(st.integers(0, 2), max_size=4)))
    for name in data.draw(st.sets(st.sampled_from(sorted(arrays)))):
        arrays[name] = rules()[name]  # so that some get past the first check
    if data.draw(st.booleans()):
        arrays["token_sets"] = [(data.draw(numbers), data.draw(st.booleans()))]
        arrays["token_edges"] = array("i", data.draw(numbers))
        arrays["token_budgets"] = array("i", data.draw(numbers))
    if data.draw(st.booleans()):
        arrays["character_budgets"] = array("i", data.draw(numbers))
    try:
        automaton = _native.Automaton(**arrays, root=data.draw(st.integers(-1, 2)), max_states=50)
        automaton.run(automaton.start, bytes(data.draw(st.lists(st.sampled_from(b"abc")))))
        automaton.shortest_completion(automaton.start)
    except (*REFUSED, LookupError):
        return


BAD_VOCABULARIES = {
    "no end token": {"end_tokens": []},
    "negative end token": {"end_tokens": [-1]},
    "huge end token": {"end_tokens": [2**40]},
    "no offsets": {"begins": array("q", [])},
    "offsets that fall": {"begins": array("q", [0, 2, 1, 2])},
    "offsets beyond the bytes": {"begins": array("q", [0, 0, 1, 3])},
    "offsets that leave bytes out": {"begins": array("q", [0, 0, 1, 1])},
    "wrong width": {"begins": array("i", [0, 0, 1, 2])},
    "text": {"bytes": "ab"},
}


@pytest.mark.parametrize("what", BAD_VOCABULARIES)
def test_vocabularies_that_are_none(what):
    good = {"bytes": b"ab", "begins": array("q", [0, 0, 1, 2]), "end_tokens": [0]}
    assert len(_native.Vocabulary(**good)) == 3
    with pytest.raises(REFUSED):
        _native.Vocabulary(**{**good, **BAD_VOCABULARIES[what]})


def test_an_end_token_has_no_bytes_whatever_the_arena_says():
    """So vocabularies that differ in their end tokens only share their bytes."""
    automaton = _native.Automaton(**rules())  # of "ab"
    spelled = _native.Vocabulary(bytes=b"abab", begins=array("q", [0, 1, 2, 4]), end_tokens=[9])
    one = _native.TokenAutomaton(automaton, spelled)
    assert one.shortest_ending(one.start) == [2]
    other = _native.TokenAutomaton(automaton, spelled.with_end_tokens([2, 9]))
    assert other.shortest_ending(other.start) == [0, 1]
    assert other.advance(other.start, 2) == -1
    assert other.advance(other.advance(other.advance(other.start, 0), 1), 2) == -2


VOCABULARY = Vocabulary([b"", b"a", b"b", b"ab"], [0])


@pytest.fixture(scope="module")
def tokens():
    automaton = native.Automaton(read_normal_form('root ::= (("a" root "b") | ("ab"))'))
    return native.TokenAutomaton(automaton, VOCABULARY)


def batch(tokens, **changes):
    arrays = {
        "tokens": [tokens] * 2,
        "states": numpy.array([tokens.start] * 2),
        "canvases": numpy.array([[-1, 2, -1], [1, -1, 2]], numpy.int32),
        "first": numpy.array([0, 1]),
        "tokens_left": numpy.array([9, 9]),
        "candidates": numpy.full((2, 3, 4), 1, numpy.int32),
        "budget": 99,
        "threads": 2,
    }
    return native.find_witness_batch(**{**arrays, **changes})


def int64(*values):
    return numpy.array(values, numpy.int64)


BAD_BATCHES = {
    "state that is not there": {"states": int64(0, 9999)},
    "huge state": {"states": int64(0, 2**62)},
    "too few states": {"states": int64(0)},
    "too many states": {"states": int64(0, 0, 0)},
    "states of another width": {"states": numpy.zeros(2, numpy.int32)},
    "states of another kind": {"states": numpy.zeros(2)},
    "too few automata": {"tokens": []},
    "no automata": {"tokens": [None, None]},
    "another thing": {"tokens": [1, 2]},
    "first beyond the block": {"first": int64(0, 4)},
    "negative first": {"first": int64(0, -1)},
    "flat canvases": {"canvases": numpy.zeros(6, numpy.int32)},
    "canvases of another width": {"canvases": numpy.zeros((2, 3), numpy.int64)},
    "more canvases": {"canvases": numpy.zeros((3, 3), numpy.int32)},
    "longer canvases": {"canvases": numpy.zeros((2, 4), numpy.int32)},
    "canvases with gaps": {"canvases": numpy.zeros((2, 6), numpy.int32)[:, ::2]},
    "columns first": {"canvases": numpy.zeros((3, 2), numpy.int32).T},
    "unsigned candidates": {"candidates": numpy.zeros((2, 3, 4), numpy.uint32)},
    "flat candidates": {"candidates": numpy.zeros((2, 12), numpy.int32)},
    "fewer candidates": {"candidates": numpy.zeros((2, 2, 4), numpy.int32)},
    "candidates of one row": {"candidates": numpy.zeros((1, 3, 4), numpy.int32)},
    "other byte order": {"candidates": numpy.zeros((2, 3, 4), ">i4")},
    "no threads": {"threads": 0},
    "a list": {"states": [0, 0]},
    "huge budget": {"budget": 2**64},
    "a budget that is no number": {"budget": "all"},
}


@pytest.mark.parametrize("what", BAD_BATCHES)
def test_batches_that_are_none(tokens, what):
    batch(tokens)
    with pytest.raises(REFUSED):
        batch(tokens, **BAD_BATCHES[what])


def test_empty_batches(tokens):
    empty = numpy.zeros(0, numpy.int64)
    for block, top_k in ((0, 0), (3, 0), (0, 4), (3, 4)):
        verdicts, witnesses = native.find_witness_batch(
            [],
            empty,
            numpy.zeros((0, block), numpy.int32),
            empty,
            empty,
            numpy.zeros((0, block, top_k), numpy.int32),
            9,
        )
        assert verdicts.shape == (0,) and witnesses.shape == (0, block)


extreme = st.one_of(
    st.integers(-3, 9),
    st.sampled_from([-(2**31), 2**31 - 1, 2**30]),
    st.integers(-(2**31), 2**31 - 1),
)
wide = st.one_of(extreme, st.sampled_from([-(2**63), 2**63 - 1]), st.integers(-(2**63), 2**63 - 1))


@settings(max_examples=500, deadline=None)
@given(data=st.data())
def test_any_batch(tokens, data):
    def draw(dtype, values, *shape):
        size = int(numpy.prod(shape))
        listed = data.draw(st.lists(values, min_size=size, max_size=size))
        return numpy.array(listed, dtype).reshape(shape)

    rows, block, top_k = (data.draw(st.integers(0, most)) for most in (3, 4, 3))
    arrays = {
        "states": draw(numpy.int64, st.one_of(st.just(tokens.start), wide), rows),
        "canvases": draw(numpy.int32, st.one_of(st.integers(-1, 3), extreme), rows, block),
        "first": draw(numpy.int64, st.one_of(st.integers(0, block), wide), rows),
        "tokens_left": draw(numpy.int64, wide, rows),
        "candidates": draw(numpy.int32, extreme, rows, block, top_k),
    }
    try:
        verdicts, witnesses = native.find_witness_batch(
            [tokens] * rows, budget=data.draw(wide), **arrays
        )
    except REFUSED:
        return
    assert set(verdicts.tolist()) <= {native.ALIVE, native.REFUTED, native.UNDECIDED}
    assert ((witnesses >= -1) & (witnesses < len(VOCABULARY))).all()


@settings(max_examples=300, deadline=None)
@given(state=wide, token=wide, left=wide)
def test_any_state_and_token(tokens, state, token, left):
    for call in (
        lambda: tokens.advance(state, token),
        lambda: tokens.is_complete(state),
        lambda: tokens.fillers(state),
        lambda: tokens.tokens_to_finish(state),
        lambda: tokens.finishes_within(state, left),
        lambda: tokens.shortest_ending(state),
        lambda: tokens.allowed_tokens(state),
        lambda: tokens.find_witness(state, [token, -1, 1], 0, left, {0: [1], 1: [token]}, 9),
        lambda: tokens.find_witness(tokens.start, [-1, 1], left, left, {0: [token]}, left),
    ):
        try:
            call()
        except REFUSED:
            continue


@pytest.mark.parametrize("canvas", [["a"], [None], [1.5], None, 3, [[1]]])
def test_canvases_of_one_row_that_are_none(tokens, canvas):
    with pytest.raises(TypeError):
        tokens.find_witness(tokens.start, canvas, 0, 9, {}, 9)


@pytest.mark.parametrize("candidates", [{0: 1}, {0: ["a"]}, {0: None}, None, {0: [1.5]}])
def test_candidates_of_one_row_that_are_none(tokens, candidates):
    with pytest.raises(TypeError):
        tokens.find_witness(tokens.start, [-1, 1], 0, 9, candidates, 9)


@pytest.mark.parametrize("token", [2**31, 2**63, -(2**63) - 1, 10**30, numpy.int64(99)])
def test_an_id_that_is_no_token_fits_nowhere(tokens, token):
    assert tokens.find_witness(tokens.start, [token], 0, 9, {}, 9) == ("refuted", None)
    found = tokens.find_witness(tokens.start, [-1, 2], 0, 9, {0: (token, numpy.int32(1))}, 9)
    assert found == ("alive", {0: 1})
