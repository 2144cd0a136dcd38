"""Deterministic automata over an alphabet of numbers: bytes, or code points."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lave_plugin.grammar.nfa import Nfa, powerset


class TooLarge(Exception):
    """An automaton would have more states than is allowed."""


class Dfa(NamedTuple):
    """A deterministic automaton; state 0 is the start."""

    final: tuple[bool, ...]
    edges: tuple[tuple[tuple[int, int, int], ...], ...]
    """For each state (low, high, target), disjoint and in ascending order."""


def of_nfa(nfa: Nfa, most_states: int) -> Dfa | None:
    """The smallest automaton of an NFA without rule and token edges, or None past the limit."""
    nodes = powerset(nfa, most_states)
    if nodes is None:
        return None
    return minimal(
        Dfa(tuple(node.final for node in nodes), tuple(node.byte_edges for node in nodes))
    )


def complement(dfa: Dfa, alphabet: Iterable[tuple[int, int]]) -> Dfa:
    """Every text over the ranges of `alphabet`, which are sorted, that `dfa` does not take."""
    sink = len(dfa.final)
    edges = []
    for known in (*dfa.edges, ()):
        missing = []
        for low, high in alphabet:
            free = low
            for first, last, _ in known:
                if last < free or first > high:
                    continue
                if first > free:
                    missing.append((free, first - 1, sink))
                free = last + 1
            if free <= high:
                missing.append((free, high, sink))
        edges.append(tuple(sorted((*known, *missing))))
    return minimal(Dfa((*(not final for final in dfa.final), True), tuple(edges)))


def is_empty(dfa: Dfa) -> bool:
    """Whether a minimal automaton takes nothing."""
    return not any(dfa.final)


def both(first: Dfa, second: Dfa, most_states: int = 1 << 18) -> Dfa:
    """The product of two automata: what both take.

    Raises:
        TooLarge: Past so many states.
    """
    numbers = {(0, 0): 0}
    pairs = [(0, 0)]
    edges = []
    for one, other in pairs:
        joined = []
        for low, high, (target, paired) in common(first.edges[one], second.edges[other]):
            pair = (target, paired)
            if pair not in numbers:
                numbers[pair] = len(pairs)
                pairs.append(pair)
            joined.append((low, high, numbers[pair]))
        edges.append(tuple(joined))
        if len(pairs) > most_states:
            raise TooLarge
    final = tuple(first.final[one] and second.final[other] for one, other in pairs)
    return Dfa(final, tuple(edges))


def common(
    edges: Iterable[tuple[int, int, int]], others: Iterable[tuple[int, int, int]]
) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """(low, high, (target, other target)) for what both read."""
    for low, high, target in edges:
        for first, last, other in others:
            if first > high:
                break
            if last >= low:
                yield max(low, first), min(high, last), (target, other)


def minimal(dfa: Dfa) -> Dfa:
    """The same automaton without dead states and with equal ones merged."""
    sources: list[list[int]] = [[] for _ in dfa.final]
    for state, edges in enumerate(dfa.edges):
        for _, _, target in edges:
            sources[target].append(state)
    alive = {state for state, final in enumerate(dfa.final) if final}
    pending = list(alive)
    for state in pending:
        for source in sources[state]:
            if source not in alive:
                alive.add(source)
                pending.append(source)
    if 0 not in alive:
        return Dfa((False,), ((),))
    edges_of = {state: [edge for edge in dfa.edges[state] if edge[2] in alive] for state in alive}
    block = _equal_states(edges_of, dfa.final)
    # Numbered anew from the start, so that equal languages give equal automata.
    order = {block[0]: 0}
    members = [0]
    edges = []
    for state in members:
        moves = []
        for low, high, target in edges_of[state]:
            if block[target] not in order:
                order[block[target]] = len(members)
                members.append(target)
            moves.append((low, high, order[block[target]]))
        edges.append(joined_ranges(moves))
    return Dfa(tuple(dfa.final[state] for state in members), tuple(edges))


def _equal_states(
    edges_of: dict[int, list[tuple[int, int, int]]], final: tuple[bool, ...]
) -> dict[int, int]:
    """The block of each state, equal for states with equal futures (Hopcroft 1971)."""
    cuts = {low for edges in edges_of.values() for low, _, _ in edges}
    cuts |= {high + 1 for edges in edges_of.values() for _, high, _ in edges}
    symbols = {cut: number for number, cut in enumerate(sorted(cuts))}
    into: list[dict[int, list[int]]] = [{} for _ in symbols]
    for state, edges in edges_of.items():
        for low, high, target in edges:
            for symbol in range(symbols[low], symbols[high + 1]):
                into[symbol].setdefault(target, []).append(state)
    blocks = [
        members
        for kind in (True, False)
        if (members := {state for state in edges_of if final[state] == kind})
    ]
    block = {state: number for number, members in enumerate(blocks) for state in members}
    waiting = {(number, symbol) for number in range(len(blocks)) for symbol in range(len(into))}
    while waiting:
        number, symbol = waiting.pop()
        inverse = into[symbol]
        led: dict[int, set[int]] = {}
        for state in blocks[number]:
            for source in inverse.get(state, ()):
                led.setdefault(block[source], set()).add(source)
        for split, inside in led.items():
            if len(inside) == len(blocks[split]):
                continue
            small = inside if 2 * len(inside) <= len(blocks[split]) else blocks[split] - inside
            blocks[split] -= small
            added = len(blocks)
            blocks.append(small)
            for state in small:
                block[state] = added
            # The symbols of the old block that still wait stand for what is left of it.
            waiting.update((added, each) for each in range(len(into)))
    return block


def joined_ranges(edges: Iterable[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    joined: list[tuple[int, int, int]] = []
    for low, high, target in sorted(edges):
        if joined and joined[-1][2] == target and joined[-1][1] + 1 == low:
            joined[-1] = (joined[-1][0], high, target)
        else:
            joined.append((low, high, target))
    return tuple(joined)
