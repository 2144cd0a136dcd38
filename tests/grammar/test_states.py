"""What states promise: equal id means equal future, no hope without end, exact distances."""

from collections import deque

import pytest
from xgrammar_oracle import Oracle

from lave_plugin.grammar.automaton import DEAD, Automaton
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.normal_form import read_normal_form

ARITHMETIC = 'root ::= root [+*] term | term\nterm ::= [0-9]+ | "(" root ")"'
NESTED = 'root ::= "[" (root ("," root)*)? "]" | "{" root "}" | [a-z]{1,3}'
PALINDROMES = 'root ::= "a" root "a" | "b" root "b" | "c"'
HIDDEN = 'root ::= n root "b" | "ab"\nn ::= "" | "x"'
CHARACTERS = 'root ::= [à-ü]{2,3} "." | "日" [^a]'
LIST = 'root ::= item*\nitem ::= [a-z]+ "," | item2\nitem2 ::= "(" root ")"'

SMALL = [ARITHMETIC, NESTED, PALINDROMES, HIDDEN, CHARACTERS, LIST]


@pytest.fixture
def automaton_for(compiler):
    return lambda grammar: automaton_of(compiler.compile_grammar(grammar))


def reached(automaton: Automaton, limit: int) -> dict[int, bytes]:
    """Some states, breadth first, each with a text that leads there."""
    texts = {automaton.start: b""}
    queue = deque(texts)
    while queue and len(texts) < limit:
        state = queue.popleft()
        for byte in automaton.allowed_bytes(state):
            target = automaton.step(state, byte)
            if target not in texts:
                texts[target] = texts[state] + bytes([byte])
                queue.append(target)
    return texts


@pytest.mark.parametrize(
    ("grammar", "one", "other"),
    [
        (ARITHMETIC, b"1+2", b"34*(5+6)*7"),
        (NESTED, b"[a,", b"[[b,c],{d},"),
        (LIST, b"ab,(", b"(c,)x,("),
        ("root ::= ([a-z] | [A-Z]){3} [a-z]*", b"aBc", b"XyZ"),
    ],
)
def test_texts_with_one_future_come_to_one_state(automaton_for, grammar, one, other):
    automaton = automaton_for(grammar)
    assert automaton.run(automaton.start, one) == automaton.run(automaton.start, other) != DEAD


def test_depth_is_part_of_the_future(automaton_for):
    automaton = automaton_for(NESTED)
    assert automaton.run(automaton.start, b"[[a") != automaton.run(automaton.start, b"[a")


def test_long_text_needs_few_states(automaton_for):
    automaton = automaton_for(ARITHMETIC)
    automaton.run(automaton.start, b"1+2*(3+4)*" * 500)
    assert automaton.state_count < 20


@pytest.mark.parametrize("grammar", SMALL)
def test_shortest_completion_is_minimal(automaton_for, grammar):
    """Breadth-first search over the states finds nothing shorter, and that length exactly."""
    automaton = automaton_for(grammar)
    for state in reached(automaton, 40):
        length = automaton.shortest_length(state)
        frontier = {state}
        for _ in range(length):
            assert not any(map(automaton.accepting, frontier))
            frontier = {
                automaton.step(member, byte)
                for member in frontier
                for byte in automaton.allowed_bytes(member)
            }
        assert any(map(automaton.accepting, frontier))


@pytest.mark.parametrize("grammar", SMALL)
def test_shortest_completion_is_confirmed_by_xgrammar(compiler, grammar):
    compiled = compiler.compile_grammar(grammar)
    automaton = automaton_of(compiled)
    oracle = Oracle(compiled)
    for state, text in reached(automaton, 40).items():
        completion = automaton.shortest_completion(state)
        assert len(completion) == automaton.shortest_length(state)
        assert automaton.accepting(automaton.run(state, completion))
        assert oracle.judge(text + completion) == "accepted"


@pytest.mark.parametrize("grammar", SMALL)
def test_completion_behind_the_first_byte_is_the_rest(automaton_for, grammar):
    automaton = automaton_for(grammar)
    for state in reached(automaton, 60):
        completion = automaton.shortest_completion(state)
        if completion:
            following = automaton.step(state, completion[0])
            assert automaton.shortest_completion(following) == completion[1:]


def test_completion_prefers_what_people_write(automaton_for):
    automaton = automaton_for('root ::= "<" [^>]{3} ">"')
    assert automaton.shortest_completion(automaton.start) == b"<000>"


@pytest.mark.parametrize("grammar", SMALL)
def test_allowed_bytes_are_those_that_live(automaton_for, grammar):
    automaton = automaton_for(grammar)
    for state in reached(automaton, 40):
        alive = bytes(byte for byte in range(256) if automaton.step(state, byte) != DEAD)
        assert automaton.allowed_bytes(state) == alive
        assert automaton.can_continue(state) == bool(alive)


@pytest.mark.parametrize(
    ("grammar", "text", "forced"),
    [
        ('root ::= "{\\"name\\": " [a-z]+ "}"', b"", b'{"name": '),
        ('root ::= "{\\"name\\": " [a-z]+ "}"', b'{"name": a', b""),
        ('root ::= "ab" ("cd" | "ce") "f"', b"", b"abc"),
        ('root ::= "ab" ("cd")?', b"", b"ab"),  # the sentence may end here
        ('root ::= "ab" ("cd")?', b"abc", b"d"),
        ('root ::= "abc"', b"abc", b""),
        ('root ::= "日" | "旦"', b"", b"\xe6\x97"),
    ],
)
def test_forced_bytes(automaton_for, grammar, text, forced):
    automaton = automaton_for(grammar)
    assert automaton.forced_bytes(automaton.run(automaton.start, text)) == forced


def test_forced_bytes_keep_to_the_limit(automaton_for):
    automaton = automaton_for('root ::= "abcdefgh"')
    assert automaton.forced_bytes(automaton.start, limit=3) == b"abc"


def test_dead_is_dead(automaton_for):
    automaton = automaton_for('root ::= "a"')
    assert automaton.step(automaton.start, ord("b")) == DEAD
    assert automaton.run(DEAD, b"a") == automaton.step(DEAD, ord("a")) == DEAD
    assert not automaton.accepting(DEAD)
    assert not automaton.can_continue(DEAD)
    assert automaton.allowed_bytes(DEAD) == b""
    with pytest.raises(ValueError, match="dead"):
        automaton.shortest_length(DEAD)


def test_the_empty_sentence(automaton_for):
    automaton = automaton_for('root ::= ""')
    assert automaton.accepting(automaton.start)
    assert not automaton.can_continue(automaton.start)
    assert automaton.shortest_completion(automaton.start) == b""


def test_no_state_is_alive_without_hope(automaton_for):
    # `endless` never ends, so no byte may lead into it, and what refers to it is gone as well.
    automaton = automaton_for(
        'root ::= "a" good | "b" endless | "c" good endless\n'
        'good ::= "." | endless "x"\nendless ::= "x" endless'
    )
    assert automaton.allowed_bytes(automaton.start) == b"a"
    assert automaton.shortest_completion(automaton.start) == b"a."


@pytest.mark.parametrize("grammar", ['root ::= "a" root', 'root ::= x\nx ::= "a" x "b" | x'])
def test_a_grammar_without_sentence_is_refused(automaton_for, grammar):
    with pytest.raises(UnsupportedGrammar, match="no sentence"):
        automaton_for(grammar)


def test_deep_grammars_and_deep_texts_do_not_overflow():
    rules = [f'r{level} ::= (("(" r{level + 1} ")") | (r{level + 1} "x"))' for level in range(5000)]
    rules += ['r5000 ::= (("."))', "root ::= ((r0))"]
    automaton = Automaton(read_normal_form("\n".join(rules) + "\n"))
    assert automaton.shortest_length(automaton.start) == 5001
    state = automaton.run(automaton.start, b"(((")
    assert automaton.shortest_length(state) == 4998 + 3


def test_deep_nesting(automaton_for):
    automaton = automaton_for(NESTED)
    state = automaton.run(automaton.start, b"[" * 2_000)
    assert automaton.shortest_length(state) == 2_000
    assert automaton.accepting(automaton.run(state, b"]" * 2_000))
