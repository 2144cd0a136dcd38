"""Memory for states is capped, and no answer shows it."""

import pytest
from scripted import COMPILER, VOCABULARY, ScriptedEngine

from lave_plugin import batch
from lave_plugin.grammar import automaton, token_automaton
from lave_plugin.grammar.normal_form import read_normal_form
from lave_plugin.grammar.room import Room

try:
    from lave_plugin import native
except ImportError:
    native = None

GRAMMARS = [
    'root ::= "a" root "b" | "c"',
    'root ::= "[" (item ("," item)*)? "]"\nitem ::= root | [0-9]+',
    "root ::= ([a-c] root [a-c])?",
]


def python_states(grammar):
    rules = read_normal_form(str(COMPILER.compile_grammar(grammar).grammar))
    return token_automaton.TokenAutomaton(automaton.Automaton(rules), VOCABULARY)


def native_states(grammar):
    rules = read_normal_form(str(COMPILER.compile_grammar(grammar).grammar))
    return native.TokenAutomaton(native.Automaton(rules), VOCABULARY)


IMPLEMENTATIONS = [
    python_states,
    pytest.param(native_states, marks=pytest.mark.skipif(native is None, reason="not built")),
]


def walk(tokens, count):
    """Away from the end of the sentence, to a new state with every token."""
    state = tokens.start
    for _ in range(count):
        following = [tokens.advance(state, token) for token in tokens.fillers(state)]
        state = max(following, key=tokens.tokens_to_finish)
    return state


@pytest.mark.parametrize("states", IMPLEMENTATIONS)
def test_what_was_used_longest_ago_goes_first(states):
    first, second, third = map(states, GRAMMARS)
    for tokens, length in ((first, 20), (second, 90), (third, 4)):
        walk(tokens, length)
    assert second.memory > first.memory + third.memory  # so one is enough
    room = Room(first.memory + second.memory + third.memory - 1)
    room.make([first])
    room.make([second])
    room.make([first])
    assert (first.generation, second.generation) == (0, 0)
    room.make([third])
    assert (first.generation, second.generation, third.generation) == (0, 1, 0)
    assert second.automaton.state_count < 5
    assert walk(second, 30) > second.start  # and it can be walked again


@pytest.mark.parametrize("states", IMPLEMENTATIONS)
def test_below_the_cap_nothing_is_dropped(states):
    tokens = states(GRAMMARS[0])
    walk(tokens, 30)
    room = Room(tokens.memory)
    for _ in range(3):
        room.make([tokens, tokens])
    assert tokens.generation == 0


@pytest.mark.parametrize("states", IMPLEMENTATIONS)
def test_grammars_that_are_gone_do_not_count(states):
    room = Room(8 * states(GRAMMARS[0]).memory)
    kept = states(GRAMMARS[1])
    for _ in range(20):
        room.make([states(GRAMMARS[0])])
        room.make([kept])
    assert kept.generation == 0


@pytest.mark.parametrize("grammar", GRAMMARS)
@pytest.mark.parametrize("states", IMPLEMENTATIONS)
def test_answers_do_not_depend_on_the_cap(states, grammar, monkeypatch):
    answers = []
    generations = []
    for cap in (1 << 30, 1):
        monkeypatch.setattr(batch.room, "of_process", Room(cap))
        tokens = states(grammar)
        answers.append(
            [ScriptedEngine(8, sharpness=2.0, seed=seed).answer(tokens, 40)[0] for seed in (0, 1)]
        )
        generations.append(tokens.generation)
    assert answers[0] == answers[1]
    assert generations[0] == 0 and generations[1] > 4


def test_the_reference_is_capped_too(monkeypatch):
    tokens = python_states(GRAMMARS[0])
    old = walk(tokens, 30)
    monkeypatch.setattr(token_automaton, "MAX_BYTES", tokens.memory)
    tokens.make_room()
    assert tokens.generation == 0
    walk(tokens, 40)
    tokens.make_room()
    assert tokens.generation == 1 and tokens.automaton.state_count < old
    assert walk(tokens, 5) > tokens.start
