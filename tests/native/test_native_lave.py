"""The batched native step writes what the reference strategy writes, and refuses bad arrays."""

import re
import sys
from pathlib import Path

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent / "core"))

from scripted import COMPILER, VOCABULARY, ScriptedEngine

from lave_plugin import native
from lave_plugin.candidates import Candidates
from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar import automaton, token_automaton
from lave_plugin.grammar.normal_form import read_normal_form
from lave_plugin.options import LaveOptions
from lave_plugin.session import Session
from lave_plugin.strategies import confidence
from lave_plugin.strategies.batched import BatchedLave
from lave_plugin.strategies.lave import Lave, Proposals

GRAMMARS = {
    "nested": 'root ::= "a" root "b" | "c"',
    "lists": 'root ::= "[" (item ("," item)*)? "]"\nitem ::= root | [0-9]+ | "\\"" [a-z]* "\\""',
    "keys": 'root ::= "{\\"abc\\": " ("true" | "false") ", \\"cab\\": " [0-9]+ "}"',
    "ambiguous": 'root ::= ("a" | "ab" | "b" | "abc" | "c")+ "a"',
    "one sentence": 'root ::= "abcabcabcabcabcabc"',
    "three": 'root ::= "a" [ab] [ab]',
    "either end": 'root ::= "a" [ab]{3} "a" | "b" [ab]{3} "b"',
}


def both(name):
    rules = read_normal_form(str(COMPILER.compile_grammar(GRAMMARS[name]).grammar))
    yield token_automaton.TokenAutomaton(automaton.Automaton(rules), VOCABULARY), Lave
    yield native.TokenAutomaton(native.Automaton(rules), VOCABULARY), BatchedLave


@given(
    name=st.sampled_from(list(GRAMMARS)),
    block=st.sampled_from([1, 4, 8, 13]),
    seed=st.integers(0, 999),
    edits=st.booleans(),
    sharpness=st.sampled_from([0.5, 2.0, 5.0]),
    threshold=st.sampled_from([0.2, 0.7, 0.95]),
    slack=st.integers(0, 12),
    options=st.builds(
        LaveOptions,
        top_k=st.sampled_from([1, 3, 16]),
        attempts=st.integers(1, 5),
        search_budget=st.sampled_from([1, 5, 1024]),
        plausibility=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
        forced_tokens=st.booleans(),
        confidence=st.sampled_from(["constrained", "model"]),
    ),
)
@settings(max_examples=150, deadline=None)
def test_answers_are_the_reference_s(
    name, block, seed, edits, sharpness, threshold, slack, options
):
    answers = []
    for tokens, strategy in both(name):
        engine = ScriptedEngine(
            block,
            threshold=threshold,
            edits=edits,
            sharpness=sharpness,
            seed=seed,
            options=options,
        )
        budget = tokens.tokens_to_finish(tokens.start) + slack
        answer, session, steps = engine.answer(tokens, budget, prompt_tail=min(2, block - 1))
        assert isinstance(session.strategy, strategy)
        counts = dict(session.strategy.counts)
        written = [counts.get(key, 0) for key in ("accepted", "refused", "recovered", "forced")]
        answers.append((answer, steps, written, set(session.strategy.forced)))
    assert answers[0] == answers[1]


def arguments(**changes):
    """Two rows that can be stepped, but for the changes."""
    sessions = []
    for _ in range(2):
        tokens = list(both("nested"))[1][0]
        sessions.append(Session(tokens, LaveOptions(), 30))
    rows = {
        "laves": [session.strategy for session in sessions],
        "states": numpy.array([session.state for session in sessions]),
        "canvases": numpy.full((2, 4), -1, numpy.int32),
        "first": numpy.array([0, 1]),
        "tokens_left": numpy.array([9, 9]),
        "proposed": numpy.full((2, 4), -1, numpy.int32),
        "best": numpy.full((2, 4), VOCABULARY.id_of[b"a"], numpy.int32),
        "candidates": numpy.full((2, 4, 3), VOCABULARY.id_of[b"c"], numpy.int32),
        "probabilities": numpy.full((2, 4, 3), 0.2, numpy.float32),
        "stages": numpy.zeros(2, numpy.uint8),
        "threshold": 0.9,
    }
    return {**rows, **changes}


def test_the_arguments_without_changes_are_good():
    written, needs, _, _, errors = native.step_batch(**arguments())
    assert (written != -1).any(1).all() and not needs.any() and not errors


BAD = {
    "a request twice": {"laves": lambda good: [good["laves"][0]] * 2},
    "no strategy": {"laves": lambda good: [None, good["laves"][0]]},
    "too few rows": {"laves": lambda good: good["laves"][:1]},
    "a state that is not there": {"states": lambda good: numpy.array([0, 10**9])},
    "first beyond the block": {"first": lambda good: numpy.array([0, 5])},
    "negative first": {"first": lambda good: numpy.array([0, -1])},
    "another width": {"canvases": lambda good: good["canvases"].astype(numpy.int64)},
    "proposals of another shape": {"proposed": lambda good: good["proposed"][:, :3].copy()},
    "candidates without probabilities": {"probabilities": lambda good: None},
    "probabilities in double": {
        "probabilities": lambda good: good["probabilities"].astype(numpy.float64)
    },
    "a stage that there is not": {"stages": lambda good: numpy.full(2, 9, numpy.uint8)},
    "a stage that needs candidates": {
        "stages": lambda good: numpy.full(2, 1, numpy.uint8),
        "candidates": lambda good: None,
        "probabilities": lambda good: None,
    },
}


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD)
def test_bad_arrays_are_refused(changes):
    good = arguments()
    with pytest.raises((TypeError, ValueError, IndexError)):
        native.step_batch(**{**good, **{name: change(good) for name, change in changes.items()}})


wild = st.integers(-(2**31), 2**31 - 1)


@given(
    data=st.data(),
    first=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    left=st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 12)),
    stage=st.integers(0, 3),
)
@settings(max_examples=200, deadline=None)
def test_no_ids_harm(data, first, left, stage):
    """A canvas may even be dead, which no caller of ours lets happen: an error or a result."""
    ids = st.one_of(wild, st.just(-1), st.integers(0, len(VOCABULARY)))

    def array(*shape):
        count = int(numpy.prod(shape))
        listed = data.draw(st.lists(ids, min_size=count, max_size=count))
        return numpy.array(listed, numpy.int32).reshape(shape)

    written, *_ = native.step_batch(
        **arguments(
            canvases=array(2, 4),
            first=numpy.array(first),
            tokens_left=numpy.array(left),
            proposed=array(2, 4),
            best=array(2, 4),
            candidates=array(2, 4, 3),
            stages=numpy.full(2, stage, numpy.uint8),
        )
    )
    assert written.shape == (2, 4)


@pytest.mark.parametrize(("light", "committed"), [(0.0008, [0, 1]), (0.0012, [0])])
def test_the_posterior_leaves_out_what_is_too_light(light, committed):
    """Beside an "a" of 0.9995: followed, a "b" takes so much that "a" is below the threshold."""
    a, b, c = (VOCABULARY.id_of[text] for text in (b"a", b"b", b"c"))
    listed = {0: [a], 1: [a, b], 2: [c, a]}
    probabilities = {0: [0.99999], 1: [0.9995, light], 2: [0.5, 0.3]}
    threshold, proposed = 0.9993, {0: a, 2: c}
    options = LaveOptions(forced_tokens=False)
    (reference, _), (tokens, _) = both("three")

    canvas = Canvas([MASKED] * 3, 0, 9)
    Session(reference, options, 9).strategy.step(
        reference.start,
        canvas,
        Candidates(listed, probabilities, ranking=None, cutter=None),
        Proposals(proposed, {}, threshold),
    )
    assert [at for at, token in enumerate(canvas.tokens) if token != MASKED] == committed

    def array(dtype, of, missing):
        return numpy.array([[(of[at] + [missing])[:2] for at in range(3)]], dtype)

    written, *_ = native.step_batch(
        laves=[Session(tokens, options, 9).strategy],
        states=numpy.array([tokens.start]),
        canvases=numpy.full((1, 3), MASKED, numpy.int32),
        first=numpy.array([0]),
        tokens_left=numpy.array([9]),
        proposed=numpy.array([[a, MASKED, c]], numpy.int32),
        best=numpy.array([[a, a, c]], numpy.int32),
        candidates=array(numpy.int32, listed, -1),
        probabilities=array(numpy.float32, probabilities, 0.0),
        threshold=threshold,
    )
    assert written.tolist() == [canvas.tokens]


def test_the_posterior_follows_as_many_states_as_the_reference():
    """More than that many in a layer, each with a say, are beyond a small grammar."""
    header = (Path(native.__file__).parent / "src" / "posterior.hpp").read_text()
    assert int(re.search("kMaxStates = ([^;]+);", header)[1]) == confidence.MAX_STATES
