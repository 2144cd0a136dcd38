"""What the attributes of a rule take away from its language: `lazy`, `max_chars`, `max_tokens`.

All three are modelled on the automaton of the rule with every rule inside it built in place, where
it is regular, as nearly all are: xgrammar asks that of a lazy rule, and its structural tags put a
budget on free text and free tokens. Budgets are counted by the states, so that a long one costs no
more than a short one. Those of other rules, which are recursive, hold another such rule or count
the characters of tokens, are left to states that count through rules (`counting`).

Where xgrammar finds that a budget is spent and the rule can't end, it lets the rule go on. Here the
budget holds: what would run into that is left out, so each match that is begun can be ended within
its budget, if need be by tokens of one byte.
"""

import heapq
from collections.abc import Collection, Mapping, Sequence

from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.nfa import Nfa, Node, determinise, powerset
from lave_plugin.grammar.notation import Limits
from lave_plugin.grammar.utf8 import split_at_characters

_MOST_NODES = 1 << 15
"""A budget takes a copy of the automaton for each character; so many take a second."""


def inline(automata: dict[str, list[Node]], rule: str, limited: Collection[str]) -> Nfa | None:
    """The automaton of `rule` with every rule that it refers to in place.

    None where there is none of reasonable size: recursion or another rule with limits is in it.
    """
    nfa = Nfa()
    # Rule, the nodes before and behind it, the rules that it stands in.
    pending = [(rule, nfa.start, nfa.end, frozenset[str]())]
    while pending:
        name, before, after, around = pending.pop()
        nodes = automata[name]
        if (
            name in around
            or (around and name in limited)
            or nfa.node_count + len(nodes) > _MOST_NODES
        ):
            return None
        copies = [nfa.new_node() for _ in nodes]
        nfa.empty_edges[before].append(copies[0])
        for copy, node in zip(copies, nodes, strict=True):
            if node.final:
                nfa.empty_edges[copy].append(after)
            for low, high, target in node.byte_edges:
                nfa.byte_edges[copy].append((low, high, copies[target]))
            for tokens, target in node.token_edges:
                nfa.add_tokens(tokens, copy, copies[target])
            for callee, target in node.rule_edges:
                pending.append((callee, copy, copies[target], around | {name}))
    return nfa


def apply_limits(rule: str, nfa: Nfa, limits: Limits) -> tuple[list[Node], Limits]:
    """The automaton of a rule that stands alone, and the limits that are left to the states.

    Raises:
        UnsupportedGrammar: If the shortest matches can't be told.
    """
    nodes = _shortest_matches(rule, nfa) if limits.lazy else determinise(nfa)
    limits = limits._replace(lazy=False)
    if (
        limits.max_chars is not None
        and not any(node.token_edges for node in nodes)
        and not _states_can_count(nodes, limits.max_chars)
    ):
        product = _count_characters(nodes, limits.max_chars)
        if product is not None:
            nodes, limits = product, limits._replace(max_chars=None)
    return nodes, limits


def _states_can_count(nodes: list[Node], most: int) -> bool:
    """Whether no way to an end has fewer characters than one of the fewest bytes.

    Of an item the states know one way to the end, of the fewest bytes; so only then they know
    exactly which items a budget leaves. Free text is of this kind, and nearly all else.
    """
    byte_edges = dict(enumerate(node.byte_edges for node in nodes))
    ends = [index for index, node in enumerate(nodes) if node.final]
    characters = fewest_characters(byte_edges, ends)
    return characters.get(0, most + 1) <= most and characters == fewest_characters(
        byte_edges, ends, in_fewest_bytes=False
    )


def fewest_characters(
    byte_edges: Mapping[int, Sequence[tuple[int, int, int]]],
    ends: Collection[int],
    *,
    in_fewest_bytes: bool = True,
) -> dict[int, int]:
    """Of each node the characters that have to begin on a way to an end, by default of those ways
    that are shortest in bytes. Nodes without a way are left out."""
    sources: dict[int, list[tuple[int, int]]] = {node: [] for node in byte_edges}
    for node, edges in byte_edges.items():
        for low, high, target in edges:
            for _, _, begun in split_at_characters(low, high):
                sources[target].append((node, begun))
    characters: dict[int, int] = {}
    queue = [(0, 0, node) for node in sorted(ends)]
    while queue:
        length, begun, node = heapq.heappop(queue)
        if node in characters:
            continue
        characters[node] = begun
        for source, begins in sources[node]:
            if source not in characters:
                counted = begun + begins
                key = length + 1 if in_fewest_bytes else counted
                heapq.heappush(queue, (key, counted, source))
    return characters


def _shortest_matches(rule: str, nfa: Nfa) -> list[Node]:
    """Those that have no shorter match as a prefix: nothing goes on from where a match may end."""
    nodes = None if nfa.token_edges else powerset(nfa, _MOST_NODES)
    if nodes is None:
        raise UnsupportedGrammar(
            f"Rule {rule!r} is lazy, and its body speaks of tokens or is so ambiguous that it would"
            f" take more than {_MOST_NODES} nodes; write what ends it into the body instead."
        )
    return [Node(True, (), ()) if node.final else node for node in nodes]


def _count_characters(nodes: list[Node], most: int) -> list[Node] | None:
    """The product with a counter of the bytes that begin a character, where they are few."""
    numbers = {(0, 0): 0}
    pairs = [(0, 0)]

    def number_of(node: int, count: int) -> int:
        pair = (node, count)
        if pair not in numbers:
            numbers[pair] = len(pairs)
            pairs.append(pair)
        return numbers[pair]

    product: list[Node] = []
    while len(product) < len(pairs):
        if len(pairs) > _MOST_NODES:
            return None
        node, count = pairs[len(product)]
        byte_edges = []
        for low, high, target in nodes[node].byte_edges:
            for first, last, begun in split_at_characters(low, high):
                if count + begun <= most:
                    byte_edges.append((first, last, number_of(target, count + begun)))
        product.append(Node(nodes[node].final, tuple(byte_edges), ()))
    return product


def too_few_tokens(rule: str, most: int, shortest: int) -> UnsupportedGrammar:
    """What is said of a rule that may not be finished in as many tokens as it may have."""
    return UnsupportedGrammar(
        f"Rule {rule!r} has max_tokens={most}, and its shortest text may take {shortest}; allow"
        " more."
    )
