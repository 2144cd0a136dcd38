"""Free text with triggers, as an automaton (Aho and Corasick 1975).

Behaves as xgrammar's TagDispatch: text runs freely until it ends in a trigger, then the trigger's
rule must follow, or the rest of a longer trigger. Afterwards the text runs on
(loop_after_dispatch) or the match ends. Text that ends in an excluded word is dead. The match may
end anywhere in the free text, but not inside the rule and not directly behind a trigger.

A trigger or an excluded word counts where the longest suffix of the text that is a prefix of any
such word is that word itself. So, as in xgrammar, an excluded word goes unnoticed while it is the
end of something longer that may still become a trigger.
"""

from lave_plugin.grammar.nfa import Node, only_utf8
from lave_plugin.grammar.notation import Dispatch


def build_dispatch(dispatch: Dispatch) -> list[Node]:
    """The automaton of a dispatch; the start is node 0."""
    children, rules, excluded = _trie(dispatch)
    fallback, order = _fallbacks(children)

    after = len(children)  # behind a dispatched rule that ends the match
    target_after = 0 if dispatch.loops else after
    next_node: list[list[int]] = [[]] * len(children)
    nodes: list[Node | None] = [None] * len(children)
    for node in order:
        step = [0] * 256 if node == 0 else list(next_node[fallback[node]])
        for byte, child in children[node].items():
            step[byte] = child
        next_node[node] = step
        if node in rules:
            # Only the rule, or a longer trigger that begins with this one.
            edges = [(byte, byte, child) for byte, child in sorted(children[node].items())]
        else:
            edges = [(byte, byte, step[byte]) for byte in range(256)]
        nodes[node] = Node(
            node not in rules,
            _ranges([edge for edge in edges if edge[2] not in excluded]),
            tuple((rule, target_after) for rule in rules.get(node, ())),
        )
    nodes.append(Node(True, (), ()))
    return only_utf8(nodes)


def _trie(dispatch: Dispatch):
    """Children by byte, the rules that each trigger node starts, the nodes of excluded words."""
    children: list[dict[int, int]] = [{}]
    rules: dict[int, list[str]] = {}
    excluded: set[int] = set()

    def insert(word: bytes) -> int:
        node = 0
        for byte in word:
            if byte not in children[node]:
                children.append({})
                children[node][byte] = len(children) - 1
            node = children[node][byte]
        return node

    for trigger, rule in dispatch.triggers:
        rules.setdefault(insert(trigger), []).append(rule)
    for word in dispatch.excludes:
        excluded.add(insert(word))
    return children, rules, excluded


def _fallbacks(children: list[dict[int, int]]) -> tuple[list[int], list[int]]:
    """For each node the node of its longest proper suffix, and the nodes in breadth-first order."""
    fallback = [0] * len(children)
    order = [0]
    for node in order:
        for byte, child in children[node].items():
            suffix = fallback[node]
            while suffix and byte not in children[suffix]:
                suffix = fallback[suffix]
            if node:
                fallback[child] = children[suffix].get(byte, 0)
            order.append(child)
    return fallback, order


def _ranges(edges: list[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    joined: list[tuple[int, int, int]] = []
    for low, high, target in edges:
        if joined and joined[-1][2] == target and joined[-1][1] + 1 == low:
            joined[-1] = (joined[-1][0], high, target)
        else:
            joined.append((low, high, target))
    return tuple(joined)
