"""Grammars drawn at random: any automata over a few rules, with all the loops that come of it."""

from __future__ import annotations

from hypothesis import strategies as st

from lave_plugin.grammar.nfa import TokenSet
from lave_plugin.grammar.normal_form import (
    UNREACHABLE,
    RuleAutomata,
    characters_of,
    shortest_distances,
)
from lave_plugin.grammar.vocabulary import Vocabulary

ALPHABET = b"abcd\x80"
BYTE_RANGES = [(97, 97), (98, 98), (97, 98), (98, 100), (100, 100), (128, 191), (0, 255)]


@st.composite
def rule_automata(draw: st.DrawFn, *, tokens: bool = False) -> RuleAutomata:
    """Rules over shared nodes, among them left-recursive, nullable and ambiguous ones.

    With `tokens`, some speak of tokens as well as of bytes, and some count what they read.
    """
    nodes = draw(st.integers(1, 7))
    rules = draw(st.integers(1, 4))
    node, rule = st.integers(0, nodes - 1), st.integers(0, rules - 1)
    byte_edge = st.tuples(st.sampled_from(BYTE_RANGES), node).map(lambda edge: (*edge[0], edge[1]))
    each = {"min_size": nodes, "max_size": nodes}
    automata = RuleAutomata(
        names=[f"r{number}" for number in range(rules)],
        start=draw(st.lists(node, min_size=rules, max_size=rules)),
        root=draw(rule),
        byte_edges=draw(st.lists(st.lists(byte_edge, max_size=2).map(tuple), **each)),
        rule_edges=draw(st.lists(st.lists(st.tuples(rule, node), max_size=2).map(tuple), **each)),
        final=draw(st.lists(st.booleans(), **each)),
    )
    automata.final[draw(node)] = True
    if tokens and draw(st.booleans()):
        _speak_of_tokens(draw, automata, node)
    if tokens and draw(st.booleans()):
        _count(draw, automata)
    return _with_ends(automata)


def _speak_of_tokens(draw: st.DrawFn, automata: RuleAutomata, node: st.SearchStrategy[int]) -> None:
    """Token edges of some nodes."""
    ids = st.lists(st.integers(0, 9), max_size=3, unique=True).map(sorted).map(tuple)
    sets = st.lists(st.builds(TokenSet, ids, st.booleans()), min_size=1, max_size=3, unique=True)
    automata.token_sets = draw(sets)
    edge = st.tuples(st.integers(0, len(automata.token_sets) - 1), node)
    edges = st.lists(edge, min_size=1, max_size=2).map(tuple)
    automata.token_edges = draw(st.dictionaries(node, edges, max_size=3))


def _count(draw: st.DrawFn, automata: RuleAutomata) -> None:
    """Budgets of rules that may have one."""
    for rule, start in enumerate(automata.start):
        reached = _reached(automata, start)
        if any(automata.rule_edges[node] for node in reached):
            continue
        if draw(st.booleans()):
            automata.token_budgets[rule] = draw(st.integers(4, 6))
        if draw(st.booleans()) and not any(node in automata.token_edges for node in reached):
            automata.character_budgets[rule] = draw(st.integers(0, 4))


def _reached(automata: RuleAutomata, start: int) -> list[int]:
    reached = [start]
    for node in reached:
        edges = (*automata.byte_edges[node], *automata.token_edges.get(node, ()))
        reached += dict.fromkeys(edge[-1] for edge in edges if edge[-1] not in reached)
    return reached


def _with_ends(automata: RuleAutomata) -> RuleAutomata:
    """Without the edges that lead nowhere; a root with no sentence gets the empty one."""
    if shortest_distances(automata)[automata.start[automata.root]] >= UNREACHABLE:
        automata.final[automata.start[automata.root]] = True
    distance = automata.distance = shortest_distances(automata)
    automata.byte_edges = [
        tuple(edge for edge in edges if distance[edge[2]] < UNREACHABLE)
        for edges in automata.byte_edges
    ]
    automata.rule_edges = [
        tuple(
            (rule, target)
            for rule, target in edges
            if distance[target] < UNREACHABLE and distance[automata.start[rule]] < UNREACHABLE
        )
        for edges in automata.rule_edges
    ]
    automata.token_edges = {
        node: tuple(edge for edge in edges if distance[edge[1]] < UNREACHABLE)
        for node, edges in automata.token_edges.items()
    }
    automata.token_budgets = {
        rule: max(budget, distance[automata.start[rule]])
        for rule, budget in automata.token_budgets.items()
        if distance[automata.start[rule]] < UNREACHABLE
    }
    automata.characters = characters_of(automata)
    automata.character_budgets = {
        rule: max(budget, automata.characters[automata.start[rule]])
        for rule, budget in automata.character_budgets.items()
        if distance[automata.start[rule]] < UNREACHABLE
    }
    return automata


@st.composite
def vocabularies(draw: st.DrawFn) -> Vocabulary:
    """Tokens over the alphabet: duplicates, empty ones, missing bytes, several end tokens, and
    those of a request."""
    text = st.lists(st.sampled_from(ALPHABET), max_size=4).map(bytes)
    tokens = draw(st.lists(text, min_size=2, max_size=14))
    if draw(st.booleans()):
        tokens += [bytes([byte]) for byte in (ALPHABET if draw(st.booleans()) else range(256))]
    ends = draw(st.lists(st.integers(0, len(tokens) - 1), min_size=1, max_size=3, unique=True))
    vocabulary = Vocabulary(tokens, ends)
    stops = draw(st.frozensets(st.integers(0, len(tokens) - 1), max_size=2))
    return vocabulary.with_stop_tokens(stops)
