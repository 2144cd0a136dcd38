"""One rule's automaton while it is being built, and how it becomes deterministic.

Symbols are bytes, rules and sets of tokens alike: an edge reads a byte out of a range, a whole
rule, or one token whatever its bytes. Determinism is meant over those symbols, so edges of two
kinds can still leave one node.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from lave_plugin.grammar.utf8 import DECODER, CodePointRange, byte_sequences

# A powerset that outgrows the automaton by more than this is given up; see `determinise`.
_GROWTH_LIMIT = 8


class TokenSet(NamedTuple):
    """One token as a whole: one of `ids`, or any token of text but those."""

    ids: tuple[int, ...]
    excluded: bool


class Node(NamedTuple):
    """A node of a finished automaton."""

    final: bool
    byte_edges: tuple[tuple[int, int, int], ...]
    """(low, high, target)"""
    rule_edges: tuple[tuple[str, int], ...]
    """(rule, target)"""
    token_edges: tuple[tuple[TokenSet, int], ...] = ()
    """(tokens, target)"""


class Nfa:
    """Nodes are numbers, edges lists by source; node 0 is the start, node 1 the only end.

    Most nodes have edges of one kind, so lists exist only where there are edges: each container
    that a construction makes costs twice, the second time in Python's garbage collector.
    """

    start = 0
    end = 1

    def __init__(self) -> None:
        self.node_count = 2
        self.byte_edges: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        self.rule_edges: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        self.token_edges: defaultdict[int, list[tuple[TokenSet, int]]] = defaultdict(list)
        self.empty_edges: defaultdict[int, list[int]] = defaultdict(list)

    def new_node(self) -> int:
        self.node_count += 1
        return self.node_count - 1

    def add_rule(self, rule: str, source: int, target: int) -> None:
        self.rule_edges[source].append((rule, target))

    def add_tokens(self, tokens: TokenSet, source: int, target: int) -> None:
        self.token_edges[source].append((tokens, target))

    def add_text(self, source: int, data: bytes, target: int) -> None:
        for byte in data[:-1]:
            node = self.new_node()
            self.byte_edges[source].append((byte, byte, node))
            source = node
        self.byte_edges[source].append((data[-1], data[-1], target))

    def add_class(self, source: int, ranges: tuple[CodePointRange, ...], target: int) -> None:
        """One character: the encodings as a trie whose equal tails are shared."""
        tails: dict[tuple, int] = {((),): target}
        pending = [(source, byte_sequences(ranges))]
        while pending:
            node, sequences = pending.pop()
            by_first: dict[tuple[int, int], list[tuple]] = {}
            for first, *rest in sequences:
                by_first.setdefault(first, []).append(tuple(rest))
            for (low, high), rests in by_first.items():
                tail = tuple(rests)
                if tail not in tails:
                    tails[tail] = self.new_node()
                    pending.append((tails[tail], tail))
                self.byte_edges[node].append((low, high, tails[tail]))

    def add_repeat(
        self,
        source: int,
        add_one: Callable[[int, int], None],
        low: int,
        high: int | None,
        target: int,
    ) -> None:
        """A chain of `high` copies that may be left from `low` on; without bound, a loop."""
        node = source
        for _ in range(low):
            following = self.new_node()
            add_one(node, following)
            node = following
        if high is None:
            loop = self.new_node()
            self.empty_edges[node].append(loop)
            add_one(loop, loop)
            self.empty_edges[loop].append(target)
            return
        for _ in range(high - low):
            self.empty_edges[node].append(target)
            following = self.new_node()
            add_one(node, following)
            node = following
        self.empty_edges[node].append(target)


def determinise(nfa: Nfa) -> list[Node]:
    """The powerset automaton (start at index 0), or the same automaton without empty edges.

    A powerset can be exponential. Past the limit the nodes are kept as they are: the parser takes
    nondeterminism in its stride, it only holds more items.
    """
    closures = _closures(nfa)
    nodes = _powerset(nfa, closures)
    return _without_empty_edges(nfa, closures) if nodes is None else nodes


def powerset(nfa: Nfa, limit: int | None = None) -> list[Node] | None:
    """The powerset automaton, or None where it outgrows the limit on its nodes."""
    return _powerset(nfa, _closures(nfa), limit)


def _closures(nfa: Nfa) -> list[tuple[int, ...]]:
    """For each node the nodes with edges, or the end, that are reached by reading nothing."""
    matters = nfa.byte_edges.keys() | nfa.rule_edges.keys() | nfa.token_edges.keys() | {nfa.end}
    closures = [(node,) if node in matters else () for node in range(nfa.node_count)]
    for node in nfa.empty_edges:
        seen = {node}
        pending = [node]
        while pending:
            for target in nfa.empty_edges.get(pending.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    pending.append(target)
        closures[node] = tuple(sorted(seen & matters))
    return closures


def _powerset(
    nfa: Nfa, closures: list[tuple[int, ...]], limit: int | None = None
) -> list[Node] | None:
    if limit is None:
        limit = _GROWTH_LIMIT * nfa.node_count + 64
    start = closures[nfa.start]
    numbers = {start: 0}
    subsets = [start]
    nodes: list[Node] = []

    def number_of(targets: Iterable[int]) -> int:
        if len(targets) == 1:
            (target,) = targets
            subset = closures[target]
        else:
            subset = tuple(sorted({member for target in targets for member in closures[target]}))
        number = numbers.get(subset)
        if number is None:
            number = numbers[subset] = len(subsets)
            subsets.append(subset)
        return number

    while len(nodes) < len(subsets):
        if len(subsets) > limit:
            return None
        subset = subsets[len(nodes)]
        if len(subset) == 1:
            byte_edges = nfa.byte_edges.get(subset[0], ())
            rule_edges = nfa.rule_edges.get(subset[0], ())
        else:
            byte_edges = [edge for member in subset for edge in nfa.byte_edges.get(member, ())]
            rule_edges = [edge for member in subset for edge in nfa.rule_edges.get(member, ())]
        final = nfa.end in subset
        token_edges = (
            [edge for member in subset for edge in nfa.token_edges.get(member, ())]
            if nfa.token_edges
            else ()
        )
        if (
            len(byte_edges) == 1 and not rule_edges and not token_edges
        ):  # inside a literal, the most frequent case
            low, high, target = byte_edges[0]
            nodes.append(Node(final, ((low, high, number_of((target,))),), ()))
            continue
        by_rule: dict[str, list[int]] = {}
        for rule, target in rule_edges:
            by_rule.setdefault(rule, []).append(target)
        by_tokens: dict[TokenSet, list[int]] = {}
        for tokens, target in token_edges:
            by_tokens.setdefault(tokens, []).append(target)
        nodes.append(
            Node(
                final,
                _join(
                    (low, high, number_of(targets)) for low, high, targets in disjoint(byte_edges)
                ),
                tuple((rule, number_of(by_rule[rule])) for rule in sorted(by_rule)),
                tuple((tokens, number_of(by_tokens[tokens])) for tokens in sorted(by_tokens)),
            )
        )
    return nodes


def disjoint(edges: list[tuple[int, int, int]]) -> list[tuple[int, int, tuple[int, ...]]]:
    """Cut overlapping byte ranges so that each part has one set of targets."""
    if len(edges) == 1:
        low, high, target = edges[0]
        return [(low, high, (target,))]
    by_range: dict[tuple[int, int], set[int]] = {}
    for low, high, target in edges:
        by_range.setdefault((low, high), set()).add(target)
    ranges = sorted(by_range)
    if all(before[1] < after[0] for before, after in itertools.pairwise(ranges)):
        return [(low, high, tuple(by_range[low, high])) for low, high in ranges]
    cuts = sorted({low for low, _ in ranges} | {high + 1 for _, high in ranges})
    parts = []
    for low, above in itertools.pairwise(cuts):
        targets: set[int] = set()
        for first, last in ranges:
            if first <= low <= last:
                targets |= by_range[first, last]
        if targets:
            parts.append((low, above - 1, tuple(targets)))
    return parts


def _join(edges: Iterable[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    """Join neighbouring ranges that lead to one node."""
    joined: list[tuple[int, int, int]] = []
    for low, high, target in edges:
        if joined and joined[-1][2] == target and joined[-1][1] + 1 == low:
            joined[-1] = (joined[-1][0], high, target)
        else:
            joined.append((low, high, target))
    return tuple(joined)


def _without_empty_edges(nfa: Nfa, closures: list[tuple[int, ...]]) -> list[Node]:
    nodes = []
    for closure in closures:
        byte_edges = [edge for member in closure for edge in nfa.byte_edges.get(member, ())]
        rule_edges = [edge for member in closure for edge in nfa.rule_edges.get(member, ())]
        token_edges = [edge for member in closure for edge in nfa.token_edges.get(member, ())]
        nodes.append(
            Node(nfa.end in closure, tuple(byte_edges), tuple(rule_edges), tuple(token_edges))
        )
    return nodes


def only_utf8(nodes: list[Node]) -> list[Node]:
    """The product with the UTF-8 decoder: what reads bytes freely reads whole characters.

    Rules begin and end between two characters, so a rule edge leaves only from there.
    """
    numbers = {(0, 0): 0}
    pairs = [(0, 0)]

    def number_of(node: int, decoder: int) -> int:
        pair = (node, decoder)
        if pair not in numbers:
            numbers[pair] = len(pairs)
            pairs.append(pair)
        return numbers[pair]

    product: list[Node] = []
    while len(product) < len(pairs):
        node, decoder = pairs[len(product)]
        between = decoder == 0
        byte_edges = [
            (max(low, lead), min(high, trail), number_of(target, decoded))
            for low, high, target in nodes[node].byte_edges
            for lead, trail, decoded in DECODER[decoder]
            if max(low, lead) <= min(high, trail)
        ]
        rule_edges = [
            (rule, number_of(target, 0)) for rule, target in nodes[node].rule_edges if between
        ]
        product.append(
            Node(nodes[node].final and between, tuple(sorted(byte_edges)), tuple(rule_edges))
        )
    return product
