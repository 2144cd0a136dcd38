"""Grammars drawn at random: any automata over a few rules, with all the loops that come of it."""

from __future__ import annotations

from hypothesis import strategies as st

from lave_plugin.grammar.normal_form import UNREACHABLE, RuleAutomata, shortest_distances
from lave_plugin.grammar.vocabulary import Vocabulary

ALPHABET = b"abcd"
BYTE_RANGES = [(97, 97), (98, 98), (97, 98), (98, 100), (100, 100), (0, 255)]


@st.composite
def rule_automata(draw: st.DrawFn) -> RuleAutomata:
    """Rules over shared nodes, among them left-recursive, nullable and ambiguous ones."""
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
    return _with_ends(automata)


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
    return automata


@st.composite
def vocabularies(draw: st.DrawFn) -> Vocabulary:
    """Tokens over the alphabet: duplicates, empty ones, missing bytes, several end tokens."""
    text = st.lists(st.sampled_from(ALPHABET), max_size=4).map(bytes)
    tokens = draw(st.lists(text, min_size=2, max_size=14))
    if draw(st.booleans()):
        tokens += [bytes([byte]) for byte in (ALPHABET if draw(st.booleans()) else range(256))]
    ends = draw(st.lists(st.integers(0, len(tokens) - 1), min_size=1, max_size=3, unique=True))
    return Vocabulary(tokens, ends)
