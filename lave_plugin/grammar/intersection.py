"""Grammars put together: the product with a regular one, and one behind the other.

The texts that a context-free grammar and a regular one both take are context-free again
(Bar-Hillel, Perles and Shamir 1961): a rule becomes one rule for each pair of states (p, q) of the
regular one's automaton, of the strings that lead it from p to q. What comes out are rule automata
like any other, so states, shortest completions and everything above them know nothing of it.

Only pairs that can occur are made. The exits that a node can reach are tabulated first, from the
root down, and a node of the product is (node, state, exits): to finish the rule of `node` when the
automaton is in `state` so that it ends in one of `exits`. A reference at the end of a rule keeps
all exits of its caller and stays one at the end, which the parser takes without a continuation.
"""

from collections import defaultdict
from collections.abc import Sequence

from lave_plugin.grammar.dfa import Dfa, TooLarge, both, common, joined_ranges, minimal, of_nfa
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.nfa import Nfa
from lave_plugin.grammar.normal_form import UNREACHABLE, RuleAutomata, shortest_distances

MOST_STATES = 1 << 14
"""States of a regular grammar's automaton; beyond that it counts as not regular."""

MOST_NODES = 1 << 17
"""Nodes of a product."""

MOST_EXITS = 1 << 18
"""Of all places together, while they are tabulated: seconds of work, on a thread of the server."""


def all_of(grammars: Sequence[RuleAutomata]) -> RuleAutomata:
    """What all of the grammars take.

    Raises:
        UnsupportedGrammar: If more than one of them is not regular, if one counts tokens or
            characters, if the product would be too large, or if no text is in all of them.
    """
    for grammar in grammars:
        _refuse_what_is_counted(grammar)
    automata = [as_dfa(grammar) for grammar in grammars]
    others = [grammar for grammar, dfa in zip(grammars, automata, strict=True) if dfa is None]
    if len(others) > 1:
        raise UnsupportedGrammar(
            f"{len(others)} of the constraints in all_of are recursive, or too large to be taken as"
            f" regular (more than {MOST_STATES} states), and the intersection of two such grammars"
            " can't be computed in general. Keep at most one of them; the others must do without"
            " recursion."
        )
    regular = [dfa for dfa in automata if dfa is not None]
    # The larger one last: what it is cut with is small by then.
    regular.sort(key=lambda dfa: len(dfa.final))
    while len(regular) > 1:
        try:
            regular[:2] = [minimal(both(*regular[:2]))]
        except TooLarge:
            raise _too_large() from None
    if not others:
        return rules_of_dfa(regular[0])
    return intersect(others[0], regular[0]) if regular else others[0]


def intersect(rules: RuleAutomata, dfa: Dfa) -> RuleAutomata:
    """What both the grammar and the automaton take.

    Raises:
        UnsupportedGrammar: If that is nothing, if it would be too large, or if the grammar counts.
    """
    _refuse_what_is_counted(rules)
    return _Product(rules, dfa).build()


def in_order(grammars: Sequence[RuleAutomata]) -> RuleAutomata:
    """A sentence of each grammar, one behind the other."""
    out = RuleAutomata()
    chain = []
    for grammar in grammars:
        chain.append(_append(out, grammar))
    # The chain's nodes, the last one first.
    after = _add_node(out, final=True)
    for root in reversed(chain):
        before = _add_node(out, final=False)
        out.rule_edges[before] = ((root, after),)
        after = before
    out.root = len(out.names)
    out.names.append("root")
    out.start.append(after)
    out.distance = shortest_distances(out)
    return out


def _append(out: RuleAutomata, rules: RuleAutomata) -> int:
    """Copy all rules into `out`; returns the number of their root there."""
    nodes, names, sets = len(out.final), len(out.names), len(out.token_sets)
    out.names += [f"{len(out.start)}.{name}" for name in rules.names]
    out.start += [nodes + start for start in rules.start]
    out.final += rules.final
    out.byte_edges += [
        tuple((low, high, nodes + target) for low, high, target in edges)
        for edges in rules.byte_edges
    ]
    out.rule_edges += [
        tuple((names + rule, nodes + target) for rule, target in edges)
        for edges in rules.rule_edges
    ]
    out.token_sets += rules.token_sets
    for node, edges in rules.token_edges.items():
        out.token_edges[nodes + node] = tuple((sets + each, nodes + to) for each, to in edges)
    for budgets, copied in (
        (rules.token_budgets, out.token_budgets),
        (rules.character_budgets, out.character_budgets),
    ):
        copied.update((names + rule, budget) for rule, budget in budgets.items())
    out.characters.update((nodes + node, count) for node, count in rules.characters.items())
    return names + rules.root


def _add_node(out: RuleAutomata, *, final: bool) -> int:
    out.final.append(final)
    out.byte_edges.append(())
    out.rule_edges.append(())
    return len(out.final) - 1


def rules_of_dfa(dfa: Dfa) -> RuleAutomata:
    """The automaton as a grammar of one rule."""
    if not any(dfa.final):
        raise _nothing_left()
    rules = RuleAutomata(
        names=["root"],
        start=[0],
        byte_edges=list(dfa.edges),
        rule_edges=[()] * len(dfa.final),
        final=list(dfa.final),
    )
    rules.distance = shortest_distances(rules)
    return rules


def as_dfa(rules: RuleAutomata) -> Dfa | None:
    """The smallest automaton of a regular grammar; None if it is not regular, or too large.

    A grammar is taken as regular if its rules refer to each other without recursion, or only where
    nothing follows. (A grammar can have a regular language in spite of its recursion; whether it
    has cannot be decided.)
    """
    nfa = _in_place(rules)
    return None if nfa is None else of_nfa(nfa, MOST_STATES)


def _in_place(rules: RuleAutomata) -> Nfa | None:
    """The root with every rule built in place, once for each node that follows it."""
    component = _components(rules)
    is_tail = _tails(rules)
    nfa = Nfa()
    entries: dict[tuple[int, int], int] = {}
    pending: list[tuple[int, int]] = []

    def entry(rule: int, after: int) -> int:
        key = (rule, after)
        if key not in entries:
            entries[key] = nfa.new_node()
            pending.append(key)
        return entries[key]

    nfa.empty_edges[nfa.start].append(entry(rules.root, nfa.end))
    while pending:
        if nfa.node_count > 4 * MOST_STATES:
            return None
        rule, after = pending.pop()
        copies: dict[int, int] = {rules.start[rule]: entries[rule, after]}
        nodes = [rules.start[rule]]

        def copy_of(node: int, copies=copies, nodes=nodes) -> int:
            if node not in copies:
                copies[node] = nfa.new_node()
                nodes.append(node)
            return copies[node]

        for node in nodes:
            copy = copies[node]
            if rules.final[node]:
                nfa.empty_edges[copy].append(after)
            for low, high, target in rules.byte_edges[node]:
                nfa.byte_edges[copy].append((low, high, copy_of(target)))
            for callee, target in rules.rule_edges[node]:
                if is_tail[target]:
                    nfa.empty_edges[copy].append(entry(callee, after))
                elif component[callee] == component[rule]:
                    return None  # recursion with something behind it
                else:
                    nfa.empty_edges[copy].append(entry(callee, copy_of(target)))
    return nfa


def _tails(rules: RuleAutomata) -> list[bool]:
    """For each node whether its rule is over there."""
    return [
        final and not byte_edges and not rule_edges and node not in rules.token_edges
        for node, (final, byte_edges, rule_edges) in enumerate(
            zip(rules.final, rules.byte_edges, rules.rule_edges, strict=True)
        )
    ]


def _components(rules: RuleAutomata) -> list[int]:
    """The strongly connected component of each rule, among the references (Tarjan 1972)."""
    references = [_callees(rules, start) for start in rules.start]
    component = [-1] * len(references)
    order = [-1] * len(references)
    lowest = [0] * len(references)
    stack: list[int] = []
    count = 0
    for root in range(len(references)):
        if order[root] >= 0:
            continue
        path = [(root, iter(references[root]))]
        order[root] = lowest[root] = count
        count += 1
        stack.append(root)
        while path:
            rule, rest = path[-1]
            for callee in rest:
                if order[callee] < 0:
                    order[callee] = lowest[callee] = count
                    count += 1
                    stack.append(callee)
                    path.append((callee, iter(references[callee])))
                    break
                if component[callee] < 0:
                    lowest[rule] = min(lowest[rule], order[callee])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[rule])
                if lowest[rule] == order[rule]:
                    while component[rule] < 0:
                        component[stack.pop()] = rule
    return component


def _callees(rules: RuleAutomata, start: int) -> list[int]:
    seen, nodes, callees = {start}, [start], {}
    for node in nodes:
        callees.update(dict.fromkeys(callee for callee, _ in rules.rule_edges[node]))
        for edge in (*rules.byte_edges[node], *rules.rule_edges[node]):
            if edge[-1] not in seen:
                seen.add(edge[-1])
                nodes.append(edge[-1])
    return list(callees)


class _Product:
    """The product of a grammar and an automaton, of which only what can occur is made."""

    def __init__(self, rules: RuleAutomata, dfa: Dfa) -> None:
        self._rules = rules
        self._dfa = dfa
        self._is_tail = _tails(rules)
        self._exits = self._tabulate()
        self._numbers: dict[tuple[int, int, frozenset[int]], int] = {}
        self._nodes: list[tuple[int, int, frozenset[int]]] = []
        self._rule_ids: dict[tuple[int, int, frozenset[int]], int] = {}

    def build(self) -> RuleAutomata:
        rules, dfa = self._rules, self._dfa
        ends = frozenset(state for state, final in enumerate(dfa.final) if final)
        start = rules.start[rules.root]
        ends &= self._exits.get((start, 0), set())
        if not ends:
            raise _nothing_left()
        out = RuleAutomata()
        out.root = self._rule(rules.root, 0, ends)
        while len(out.final) < len(self._nodes):
            self._add(out, *self._nodes[len(out.final)])
            if len(self._nodes) > MOST_NODES:
                raise _too_large()
        for rule, entry, exits in self._rule_ids:
            out.names.append(f"{rules.names[rule]}[{entry}:{','.join(map(str, sorted(exits)))}]")
            out.start.append(self._node(rules.start[rule], entry, exits))
        out.distance = shortest_distances(out)
        assert max(out.distance) < UNREACHABLE  # by construction
        return out

    def _add(self, out: RuleAutomata, node: int, state: int, exits: frozenset[int]) -> None:
        rules, dfa = self._rules, self._dfa
        out.final.append(rules.final[node] and state in exits)
        out.byte_edges.append(
            joined_ranges(
                [
                    (low, high, self._node(target, following, exits))
                    for low, high, (target, following) in common(
                        rules.byte_edges[node], dfa.edges[state]
                    )
                    if not exits.isdisjoint(self._exits[target, following])
                ]
            )
        )
        edges = []
        for callee, target in rules.rule_edges[node]:
            reached = self._exits[rules.start[callee], state]
            if self._is_tail[target]:
                if both := exits & reached:
                    # Behind it, whatever the state, nothing follows.
                    end = self._node(target, min(both), frozenset([min(both)]))
                    edges.append((self._rule(callee, state, both), end))
                continue
            for between in sorted(reached):
                if not exits.isdisjoint(self._exits[target, between]):
                    rule = self._rule(callee, state, frozenset([between]))
                    edges.append((rule, self._node(target, between, exits)))
        out.rule_edges.append(tuple(edges))

    def _node(self, node: int, state: int, exits: frozenset[int]) -> int:
        if self._is_tail[node]:
            state, exits = 0, frozenset([0])  # one end for all rules
        else:
            exits = exits & self._exits[node, state]
        key = (node, state, exits)
        if key not in self._numbers:
            self._numbers[key] = len(self._nodes)
            self._nodes.append(key)
        return self._numbers[key]

    def _rule(self, rule: int, state: int, exits: frozenset[int]) -> int:
        start = self._rules.start[rule]
        exits = exits & self._exits[start, state]
        key = (rule, state, exits)
        if key not in self._rule_ids:
            self._rule_ids[key] = len(self._rule_ids)
            self._node(start, state, exits)
        return self._rule_ids[key]

    def _tabulate(self) -> dict[tuple[int, int], set[int]]:
        """For every (node, state) that can occur the states in which the node's rule can end.

        Ends are carried backwards along the edges by which a place was reached, as they are found;
        a reference waits for the ends of its rule.
        """
        rules, dfa = self._rules, self._dfa
        exits: dict[tuple[int, int], set[int]] = {}
        # (place): the places that end wherever it ends.
        before: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        # (start of a rule, state): the places that refer to it there, and what follows.
        waiting: defaultdict[tuple[int, int], list[tuple[tuple[int, int], int]]]
        waiting = defaultdict(list)
        new: list[tuple[tuple[int, int], int]] = []
        places: list[tuple[int, int]] = []
        count = 0

        def reach(place: tuple[int, int]) -> None:
            if place not in exits:
                exits[place] = set()
                places.append(place)
                if len(exits) > MOST_NODES:
                    raise _too_large()

        def follow(place: tuple[int, int], following: tuple[int, int]) -> None:
            reach(following)
            before[following].append(place)
            new.extend((place, end) for end in exits[following])

        reach((rules.start[rules.root], 0))
        while places or new:
            if places:
                node, state = place = places.pop()
                if rules.final[node]:
                    new.append((place, state))
                for _, _, following in common(rules.byte_edges[node], dfa.edges[state]):
                    follow(place, following)
                for callee, target in rules.rule_edges[node]:
                    called = (rules.start[callee], state)
                    reach(called)
                    waiting[called].append((place, target))
                    for between in list(exits[called]):
                        follow(place, (target, between))
                continue
            place, end = new.pop()
            if end in exits[place]:
                continue
            exits[place].add(end)
            count += 1
            if count > MOST_EXITS:
                raise _too_large()
            new.extend((source, end) for source in before[place])
            for source, target in waiting[place]:
                follow(source, (target, end))
        return exits


def _refuse_what_is_counted(rules: RuleAutomata) -> None:
    """What isn't said by the edges on bytes alone would be lost in a product."""
    if rules.token_sets or rules.token_budgets:
        raise UnsupportedGrammar(
            "A grammar that speaks of tokens (Token, ExcludeToken, token_dispatch, max_tokens)"
            " can't be combined with others in all_of, which compares texts. Say it in"
            " characters, or send it alone."
        )
    if rules.character_budgets:
        raise UnsupportedGrammar(
            "A grammar with max_chars on a rule can't be combined with others in all_of. Bound the"
            " repetition instead (x{0,9}), or send it alone."
        )


def _too_large() -> UnsupportedGrammar:
    return UnsupportedGrammar(
        f"The combination of the constraints would take more than {MOST_NODES} nodes. Lower the"
        " bounds of repetition ({m,n}, max_chars) in one of them, or leave such a bound out:"
        " max_new_tokens bounds the whole answer."
    )


def _nothing_left() -> UnsupportedGrammar:
    return UnsupportedGrammar(
        "No text obeys all of the constraints at once. Leave one of them out, or loosen it."
    )
