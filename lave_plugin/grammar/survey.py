"""What can be told about a grammar from its rules, and by walking it for a moment."""

import random
import time
from typing import NamedTuple

from lave_plugin.grammar.automaton import Automaton
from lave_plugin.grammar.notation import (
    Body,
    CharClass,
    Limited,
    Repeat,
    RuleRef,
    Sequence,
    Text,
    read_rules,
)

_SENTENCE = 400
"""Bytes after which a random walk takes the shortest way out."""


def left_recursive(normal_form: str) -> list[str]:
    """The rules that can begin with themselves, read from xgrammar's printed normal form."""
    rules = read_rules(normal_form)
    nullable = _nullable(rules)
    begins = {
        name: {
            reference
            for sequence in _sequences(body)
            for reference in _first_references(sequence, nullable)
        }
        for name, body in rules.items()
    }
    found = []
    for name in rules:
        seen: set[str] = set()
        pending = list(begins[name])
        while pending:
            callee = pending.pop()
            if callee not in seen:
                seen.add(callee)
                pending += begins.get(callee, ())
        if name in seen:
            found.append(name)
    return found


def surely_ambiguous(normal_form: str) -> list[str]:
    """Rules with an alternative that begins and ends with the rule itself.

    `a ::= a "+" a` reads 1+1+1 in two ways. A grammar without such a rule may be ambiguous too:
    that can't be decided.
    """
    return [
        name
        for name, body in read_rules(normal_form).items()
        if any(
            len(sequence) > 1 and sequence[0] == sequence[-1] == RuleRef(name)
            for sequence in _sequences(body)
        )
    ]


def _sequences(body: Body) -> tuple[Sequence, ...]:
    if isinstance(body, Limited):
        body = body.body
    # Macros are regular, but for the rules that a dispatch hands over to behind some text.
    return body if type(body) is tuple else ()


def _nullable(rules: dict[str, Body]) -> set[str]:
    found: set[str] = set()
    while True:
        more = {
            name
            for name, body in rules.items()
            if name not in found
            and any(
                all(_may_be_empty(element, found) for element in sequence)
                for sequence in _sequences(body)
            )
        }
        if not more:
            return found
        found |= more


def _may_be_empty(element, nullable: set[str]) -> bool:
    match element:
        case Text(data):
            return not data
        case RuleRef(name):
            return name in nullable
        case Repeat(inner, low, _):
            return low == 0 or _may_be_empty(inner, nullable)
    return False


def _first_references(sequence: Sequence, nullable: set[str]):
    for element in sequence:
        inner = element.element if isinstance(element, Repeat) else element
        if isinstance(inner, RuleRef):
            yield inner.name
        if isinstance(inner, Text | CharClass) and not isinstance(element, Repeat):
            return
        if not _may_be_empty(element, nullable):
            return


class Walks(NamedTuple):
    """What random sentences of a grammar have met.

    `of_a_byte` are the seconds that a byte takes where its states are known, `of_a_state` those
    that a new state takes on top.
    """

    sentences: int
    bytes: int
    states: int
    new_states_in_second_half: int
    of_a_byte: float
    of_a_state: float


def walk_at_random(automaton: Automaton, seconds: float, seed: int = 0) -> Walks:
    """Draw sentences for so long, each byte uniformly among those that may follow."""
    rng = random.Random(seed)
    deadline = time.perf_counter() + seconds
    texts: list[bytes] = []
    states_after: list[int] = []
    while not texts or time.perf_counter() < deadline:
        state, data = automaton.start, bytearray()
        while len(data) < _SENTENCE and automaton.can_continue(state):
            if automaton.accepting(state) and rng.random() < 0.05:
                break
            data.append(rng.choice(automaton.allowed_bytes(state)))
            state = automaton.step(state, data[-1])
        texts.append(bytes(data) + automaton.shortest_completion(state))
        states_after.append(automaton.state_count)
    automaton.drop_states()
    with_new_states, with_known_states = (_seconds_to_run(automaton, texts) for _ in range(2))
    total = sum(map(len, texts))
    return Walks(
        len(texts),
        total,
        states_after[-1],
        states_after[-1] - states_after[len(states_after) // 2],
        with_known_states / max(total, 1),
        max(with_new_states - with_known_states, 0) / states_after[-1],
    )


def _seconds_to_run(automaton: Automaton, texts: list[bytes]) -> float:
    begin = time.perf_counter()
    for text in texts:
        automaton.run(automaton.start, text)
    return time.perf_counter() - begin
