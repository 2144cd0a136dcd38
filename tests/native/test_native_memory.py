"""States are capped: dropped between steps, numbered anew, and the answers stay the same."""

import sys
from pathlib import Path

import numpy
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "core"))

from scripted import COMPILER, VOCABULARY, ScriptedEngine

from lave_plugin import native
from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar.normal_form import read_normal_form
from lave_plugin.lattice import Verdict, find_witness

GRAMMARS = {
    "nested": 'root ::= "a" root "b" | "c"',
    "lists": 'root ::= "[" (item ("," item)*)? "]"\nitem ::= root | [0-9]+ | "\\"" [a-z]* "\\""',
}


def states(name, max_states=native.MAX_STATES):
    rules = read_normal_form(str(COMPILER.compile_grammar(GRAMMARS[name]).grammar))
    return native.TokenAutomaton(native.Automaton(rules, max_states), VOCABULARY)


@pytest.mark.parametrize("name", GRAMMARS)
def test_answers_do_not_depend_on_the_cap(name):
    roomy, tight = states(name), states(name, 12)
    for seed in range(4):
        answers = [
            ScriptedEngine(block=8, sharpness=2.0, seed=seed).answer(tokens, 40)[0]
            for tokens in (roomy, tight)
        ]
        assert answers[0] == answers[1]
    assert roomy.generation == 0 and tight.generation > 2
    assert tight.automaton.state_count < roomy.automaton.state_count


def walk_deeper(tokens, count):
    state = tokens.start
    for _ in range(count):
        state = tokens.advance(state, 2 + ord("a"))
    return state


def test_a_state_from_before_is_refused_and_never_taken_for_another():
    tokens = states("nested", 4)
    old = walk_deeper(tokens, 6)
    start = tokens.start
    tokens.make_room()
    assert tokens.generation == 1
    assert tokens.start > old
    for stale in (old, start):
        with pytest.raises(IndexError, match="dropped"):
            tokens.advance(stale, 2 + ord("a"))
        with pytest.raises(IndexError, match="dropped"):
            find_witness(tokens, stale, Canvas([MASKED], 0, 9), {0: []}, 9)
    assert walk_deeper(tokens, 3) > tokens.start
    tokens.make_room()  # few states: nothing to do
    assert tokens.generation == 1


def test_tables_of_the_tokens_are_dropped_with_the_states():
    tokens, fresh = states("nested", 12), states("nested")
    for _ in range(3):
        for depth in range(7):
            one, other = walk_deeper(tokens, depth), walk_deeper(fresh, depth)
            assert tokens.fillers(one) == fresh.fillers(other)
            assert tokens.tokens_to_finish(one) == fresh.tokens_to_finish(other)
            assert tokens.shortest_ending(one) == fresh.shortest_ending(other)
            assert tokens.allowed_tokens(one) == fresh.allowed_tokens(other)
            tokens.make_room()
    assert tokens.generation > 0


def test_only_the_latest_masks_are_kept():
    tokens = states("nested")
    first = tokens.allowed_tokens(tokens.start)
    for depth in range(300):
        tokens.allowed_tokens(walk_deeper(tokens, depth))
    assert tokens.allowed_tokens(tokens.start) == first


def test_four_times_the_cap_is_the_end():
    tokens = states("nested", 2)
    with pytest.raises(native.StatesExhausted, match="make room"):
        walk_deeper(tokens, 20)
    letter = 2 + ord("a")
    found = find_witness(tokens, tokens.start, Canvas([letter] * 20, 0, 99), {}, 512)
    assert found.verdict is Verdict.UNDECIDED
    verdicts, _ = native.find_witness_batch(
        [tokens],
        numpy.array([tokens.start]),
        numpy.full((1, 20), letter, dtype=numpy.int32),
        numpy.array([0]),
        numpy.array([99]),
        numpy.zeros((1, 20, 0), dtype=numpy.int32),
        512,
    )
    assert verdicts.tolist() == [native.UNDECIDED]
    tokens.make_room()
    assert tokens.advance(tokens.start, letter) > tokens.start


def test_flat_memory():
    tokens = states("nested", 200)
    sizes = []
    for _ in range(12):
        walk_deeper(tokens, 400)
        sizes.append(tokens.automaton.memory)
        tokens.make_room()
    assert tokens.generation == 12
    assert len(set(sizes)) == 1
