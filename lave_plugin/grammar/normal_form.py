"""From xgrammar's printed normal form to one byte automaton for each rule.

The language is the one that xgrammar's matcher accepts, restricted to well-formed UTF-8 (xgrammar
takes overlong forms and surrogates in a class and any byte in the free text of a tag dispatch).
A negated class excludes what it lists, also beyond ASCII, where xgrammar 0.2.7 forgets about it.

The automata are small on purpose, since parsing costs by the item: powers are folded, rules that
are used once are built in place, recursion at either end of a rule becomes a loop, each automaton
is deterministic over its symbols, and nodes with equal futures are shared between rules.
"""

import gc
import heapq
from collections import Counter
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from lave_plugin.grammar.dispatch import build_dispatch
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.limits import apply_limits, fewest_characters, inline, too_few_tokens
from lave_plugin.grammar.nfa import Nfa, Node, TokenSet, determinise
from lave_plugin.grammar.notation import (
    Body,
    CharClass,
    Dispatch,
    Element,
    Limited,
    Limits,
    Macro,
    Regex,
    Repeat,
    RuleRef,
    Substring,
    Text,
    read_rules,
)
from lave_plugin.grammar.powers import fold_powers, references
from lave_plugin.grammar.regex_macro import build_regex
from lave_plugin.grammar.repetition import split_long_repetition

UNREACHABLE = 1 << 60


@dataclass
class RuleAutomata:
    """Automata of all rules over one numbering of nodes; there are no empty edges.

    Every node lies on a way to the end of its rule, and every rule derives some string: edges to
    where nothing can end are left out.
    """

    names: list[str] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    """Start node of each rule."""
    root: int = 0
    """The rule of whole sentences."""
    byte_edges: list[tuple[tuple[int, int, int], ...]] = field(default_factory=list)
    """For each node (low, high, target): a byte from low to high leads to target."""
    rule_edges: list[tuple[tuple[int, int], ...]] = field(default_factory=list)
    """For each node (rule, target): a string of the rule leads to target."""
    final: list[bool] = field(default_factory=list)
    """For each node whether its rule may end there."""
    distance: list[int] = field(default_factory=list)
    """For each node the fewest bytes to the end of its rule; a token edge counts as one."""
    token_sets: list[TokenSet] = field(default_factory=list)
    """What the token edges of the grammar read."""
    token_edges: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """For the nodes that have some (set, target): one token of the set leads to target."""
    token_budgets: dict[int, int] = field(default_factory=dict)
    """For the rules that have one: how many tokens may begin inside a string of the rule."""
    character_budgets: dict[int, int] = field(default_factory=dict)
    """The same for characters."""
    characters: dict[int, int] = field(default_factory=dict)
    """For each node of those rules: how many characters begin on the way to the end of the rule, of
    the shortest ways in bytes where they are fewest."""

    def has_budget(self, rule: int) -> bool:
        """Whether a string of the rule is counted, in tokens or in characters."""
        return rule in self.token_budgets or rule in self.character_budgets

    def counts_through_rules(self) -> bool:
        """Whether `counting.CountingAutomaton` has to count, since `automaton.Automaton` can't.

        That one takes rules that refer to no other, and where characters count, have a string
        within their limit, read no tokens as a whole, and have no way to their end of fewer
        characters than one of the fewest bytes.
        """
        for rule in {*self.token_budgets, *self.character_budgets}:
            start = self.start[rule]
            reached = _reached_within(self, start)
            if any(self.rule_edges[node] for node in reached):
                return True
            if rule in self.character_budgets:
                if any(self.token_edges.get(node) for node in reached):
                    return True
                characters = _characters(self, reached)
                if characters[start] > self.character_budgets[rule]:
                    return True  # the rule has no string within its limit
                if characters != _characters(self, reached, in_fewest_bytes=False):
                    return True
        return False


def read_normal_form(text: str, never: Container[int] = ()) -> RuleAutomata:
    """Read `str(compiled.grammar)`.

    Args:
        text: The grammar as xgrammar prints it.
        never: Tokens that no answer may hold even where the grammar names them: those that end it,
            the mask, ids without a token.

    Raises:
        UnsupportedGrammar: If something in the grammar can't be modelled, or if the grammar has no
            sentence.
    """
    with _collector_paused():
        rules = read_rules(text)
        if "root" not in rules:
            raise UnsupportedGrammar(
                "The grammar has no rule named 'root'; print it with xgrammar."
            )
        builder = _RuleBuilder(split_long_repetition(fold_powers(rules)), never)
        linker = _Linker()
        linker.link(*builder.build_all())
        return linker.finish()


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Without garbage collection: nothing here is cyclic, and most of it lives on.

    The many small containers would set off collections of the whole process, each of which costs
    more than the construction (160 ms of 300 ms for a schema of 115 KB in an empty process).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _RuleBuilder:
    """Builds the automata of the rules that are reachable from the root and not used in place."""

    def __init__(self, rules: dict[str, Body], never: Container[int]) -> None:
        self._rules = rules
        self._never = never
        self._reached, self._in_place = self._count_uses()

    def build_all(self) -> tuple[dict[str, list[Node]], dict[str, Limits]]:
        """Deterministic automata by rule name, and budgets; each automaton starts at node 0."""
        automata: dict[str, list[Node]] = {}
        for name in self._reached:
            if name in self._in_place:
                continue
            body = self._unlimited(name)
            if isinstance(body, Dispatch):
                automata[name] = build_dispatch(body)
            elif isinstance(body, Regex):
                automata.update(self._build_regex(name, body))
            elif isinstance(body, Substring):
                automata[name] = determinise(_any_run_of(body.chunks))
            else:
                automata[name] = determinise(self._build_choice(name))
        limited = [name for name in automata if isinstance(self._rules.get(name), Limited)]
        budgets: dict[str, Limits] = {}
        for name in limited:
            limits = self._rules[name].limits
            alone = inline(automata, name, set(limited))
            if alone is not None:
                automata[name], budgets[name] = apply_limits(name, alone, limits)
            elif limits.lazy:
                raise UnsupportedGrammar(
                    f"Rule {name!r} is lazy, and is recursive or refers to a rule with limits of"
                    " its own, so it has no shortest match; take the attribute off."
                )
            else:
                budgets[name] = limits
        return automata, budgets

    def _unlimited(self, name: str) -> Body:
        body = self._rules[name]
        return body.body if isinstance(body, Limited) else body

    def _count_uses(self) -> tuple[list[str], set[str]]:
        """Rules in the order in which they are reached, and those that have a single use.

        A loop at the end of a rule isn't a use. Repetition and dispatch need the rule as a rule.
        """
        uses: Counter[str] = Counter({"root": 2})
        reached = {"root": None}
        pending = ["root"]
        while pending:
            name = pending.pop()
            body = self._unlimited(name)
            for callee in references(body):
                if callee not in self._rules:
                    raise UnsupportedGrammar(
                        f"Rule {name!r} refers to {callee!r}, which is not defined; define it."
                    )
                if callee not in reached:
                    reached[callee] = None
                    pending.append(callee)
            if isinstance(body, Dispatch):
                uses.update({callee: 2 for callee in references(body)})
                continue
            if isinstance(body, Macro):
                continue
            for sequence in body:
                for position, element in enumerate(sequence):
                    if isinstance(element, Repeat) and isinstance(element.element, RuleRef):
                        uses[element.element.name] += 2
                    elif isinstance(element, RuleRef) and not _is_loop(name, sequence, position):
                        uses[element.name] += 1
        plain = (name for name in reached if not isinstance(self._rules[name], Macro | Limited))
        return list(reached), {name for name in plain if uses[name] == 1}

    def _build_regex(self, name: str, regex: Regex) -> dict[str, list[Node]]:
        """A regular expression and its parts, which are named after it."""
        parts = build_regex(regex.source)
        names = {part: name if part == "root" else f"{name}.{part}" for part in parts}
        return {
            names[part]: [
                node._replace(
                    rule_edges=tuple((names[rule], target) for rule, target in node.rule_edges)
                )
                for node in nodes
            ]
            for part, nodes in parts.items()
        }

    def _build_choice(self, name: str) -> Nfa:
        nfa = Nfa()
        pending = [(name, nfa.start, nfa.end)]
        while pending:
            rule, source, target = pending.pop()
            for element, before, after in self._edges_of(nfa, rule, source, target):
                if isinstance(element, RuleRef) and element.name in self._in_place:
                    pending.append((element.name, before, after))
                else:
                    self._add_element(nfa, element, before, after)
        return nfa

    def _edges_of(self, nfa: Nfa, rule: str, source: int, target: int):
        """The elements of a rule as edges (element, from, to) between `source` and `target`.

        With A ::= p A | A q | b, the language of A is p* b q*: a reference to the rule itself at
        the end leads back to its entry, one at the beginning is left out and starts at the exit.
        """
        body = self._unlimited(rule)
        entry, leave = source, target
        if any(sequence and sequence[-1] == RuleRef(rule) for sequence in body):
            entry = nfa.new_node()
            nfa.empty_edges[source].append(entry)
        if any(_starts_with_itself(rule, sequence) for sequence in body):
            leave = nfa.new_node()
            nfa.empty_edges[leave].append(target)
        for sequence in body:
            before, last = entry, leave
            if sequence and sequence[-1] == RuleRef(rule):
                sequence, last = sequence[:-1], entry
            elif _starts_with_itself(rule, sequence):
                sequence, before = sequence[1:], leave
            if not sequence:
                nfa.empty_edges[before].append(last)
            for position, element in enumerate(sequence):
                after = last if position == len(sequence) - 1 else nfa.new_node()
                yield element, before, after
                before = after

    def _add_element(self, nfa: Nfa, element: Element, before: int, after: int) -> None:
        match element:
            case Text(data):
                nfa.add_text(before, data, after)
            case RuleRef(name):
                nfa.add_rule(name, before, after)
            case CharClass(ranges):
                nfa.add_class(before, ranges, after)
            case TokenSet(ids, excluded):
                if not excluded:
                    element = TokenSet(tuple(t for t in ids if t not in self._never), False)
                if excluded or element.ids:
                    nfa.add_tokens(element, before, after)
            case Repeat(inner, low, high):
                add_one = partial(self._add_element, nfa, inner)
                nfa.add_repeat(before, add_one, low, high, after)


def _any_run_of(chunks: tuple[bytes, ...]) -> Nfa:
    """Neighbouring chunks, from any of them to any other, or nothing."""
    nfa = Nfa()
    between = [nfa.new_node() for _ in range(len(chunks) + 1)]
    for node in between:
        nfa.empty_edges[nfa.start].append(node)
        nfa.empty_edges[node].append(nfa.end)
    for chunk, before, after in zip(chunks, between, between[1:], strict=False):
        nfa.add_text(before, chunk, after)
    return nfa


def _is_loop(rule: str, sequence: tuple[Element, ...], position: int) -> bool:
    if sequence[position] != RuleRef(rule):
        return False
    return position == len(sequence) - 1 or (position == 0 and _starts_with_itself(rule, sequence))


def _starts_with_itself(rule: str, sequence: tuple[Element, ...]) -> bool:
    return len(sequence) > 1 and sequence[0] == RuleRef(rule) and sequence[-1] != RuleRef(rule)


class _Linker:
    """Puts the automata into one numbering, in which equal futures share their nodes."""

    def __init__(self) -> None:
        self._out = RuleAutomata()
        self._rule_ids: dict[str, int] = {}
        self._node_of: dict[tuple, int] = {}
        self._rule_at: dict[tuple[int, Limits], int] = {}
        self._set_ids: dict[TokenSet, int] = {}

    def link(self, automata: dict[str, list[Node]], budgets: dict[str, Limits]) -> None:
        for name in _callees_first(automata, "root"):
            start = self._link_rule(automata[name])
            budget = budgets.get(name, Limits())
            key = (start, budget)
            if name not in self._rule_ids:  # not yet referred to, so it may be an old rule
                if key in self._rule_at:
                    self._rule_ids[name] = self._rule_at[key]
                    continue
                self._rule_id(name)
            rule = self._rule_ids[name]
            self._out.start[rule] = start
            if budget.max_tokens is not None:
                self._out.token_budgets[rule] = budget.max_tokens
            if budget.max_chars is not None:
                self._out.character_budgets[rule] = budget.max_chars
            self._rule_at.setdefault(key, rule)
        self._out.root = self._rule_ids["root"]

    def finish(self) -> RuleAutomata:
        """Distances to the ends of the rules, and without the edges that lead nowhere."""
        out = self._out
        out.distance = shortest_distances(out)
        if out.distance[out.start[out.root]] >= UNREACHABLE:
            raise UnsupportedGrammar(
                "The grammar has no sentence: every way through its rules goes on for ever."
                " Give some rule an alternative that ends."
            )
        for node in range(len(out.final)):
            out.byte_edges[node] = tuple(
                edge for edge in out.byte_edges[node] if out.distance[edge[2]] < UNREACHABLE
            )
            out.rule_edges[node] = tuple(
                (rule, target)
                for rule, target in out.rule_edges[node]
                if out.distance[target] < UNREACHABLE
                and out.distance[out.start[rule]] < UNREACHABLE
            )
        for node, edges in out.token_edges.items():
            out.token_edges[node] = tuple(
                edge for edge in edges if out.distance[edge[1]] < UNREACHABLE
            )
        self._check_budgets()
        out.token_sets = list(self._set_ids)
        out.characters = characters_of(out)
        return out

    def _check_budgets(self) -> None:
        """What is counted in tokens is counted by the states; here it is seen to be possible.

        A byte may need a token, so whatever is begun has to end within as many bytes.
        """
        out = self._out
        for budgets in (out.token_budgets, out.character_budgets):
            for rule in [rule for rule in budgets if out.distance[out.start[rule]] >= UNREACHABLE]:
                del budgets[rule]  # it has no string
        for rule, most in out.token_budgets.items():
            if out.distance[out.start[rule]] > most:
                raise too_few_tokens(out.names[rule], most, out.distance[out.start[rule]])

    def _rule_id(self, name: str) -> int:
        if name not in self._rule_ids:
            self._rule_ids[name] = len(self._out.names)
            self._out.names.append(name)
            self._out.start.append(-1)
        return self._rule_ids[name]

    def _link_rule(self, nodes: list[Node]) -> int:
        """Number the nodes of one rule, targets first; returns the number of the start."""
        numbers: dict[int, int] = {}
        for index in _targets_first(nodes):
            node = nodes[index]
            for _, _, target in node.byte_edges:
                if target not in numbers and target != index:
                    numbers[target] = self._new_node()  # a loop leads back to it
            for _, target in node.rule_edges:
                if target not in numbers and target != index:
                    numbers[target] = self._new_node()
            for _, target in node.token_edges:
                if target not in numbers and target != index:
                    numbers[target] = self._new_node()
            itself = numbers.get(index, -1)
            byte_edges = tuple(
                (low, high, itself if target == index else numbers[target])
                for low, high, target in node.byte_edges
            )
            rule_edges = tuple(
                (self._rule_id(rule), itself if target == index else numbers[target])
                for rule, target in node.rule_edges
            )
            token_edges = tuple(
                (self._set_id(tokens), itself if target == index else numbers[target])
                for tokens, target in node.token_edges
            )
            numbers[index] = self._place(itself, node.final, byte_edges, rule_edges, token_edges)
        return numbers[0]

    def _set_id(self, tokens: TokenSet) -> int:
        return self._set_ids.setdefault(tokens, len(self._set_ids))

    def _new_node(self) -> int:
        out = self._out
        out.byte_edges.append(())
        out.rule_edges.append(())
        out.final.append(False)
        return len(out.final) - 1

    def _place(
        self,
        number: int,
        final: bool,
        byte_edges: tuple,
        rule_edges: tuple,
        token_edges: tuple,
    ) -> int:
        """Fill the node `number`; if that is -1, share the node that has these edges."""
        key = (final, byte_edges, rule_edges, token_edges)
        if number < 0:
            known = self._node_of.get(key)
            if known is not None:
                return known
            number = self._node_of[key] = self._new_node()
            if any(edge[-1] < 0 for edge in byte_edges + rule_edges + token_edges):
                byte_edges = tuple(
                    (low, high, number if target < 0 else target)
                    for low, high, target in byte_edges
                )
                rule_edges = tuple(
                    (rule, number if target < 0 else target) for rule, target in rule_edges
                )
                token_edges = tuple(
                    (tokens, number if target < 0 else target) for tokens, target in token_edges
                )
        self._out.final[number] = final
        self._out.byte_edges[number] = byte_edges
        self._out.rule_edges[number] = rule_edges
        if token_edges:
            self._out.token_edges[number] = token_edges
        return number


def _callees_first(automata: dict[str, list[Node]], root: str) -> list[str]:
    """Depth-first post-order over the rules, without recursion."""

    def callees(name: str):
        return iter({rule: None for node in automata[name] for rule, _ in node.rule_edges})

    order: list[str] = []
    visited = {root}
    path = [(root, callees(root))]
    while path:
        name, rest = path[-1]
        for callee in rest:
            if callee not in visited:
                visited.add(callee)
                path.append((callee, callees(callee)))
                break
        else:
            path.pop()
            order.append(name)
    return order


def _targets_first(nodes: list[Node]) -> list[int]:
    """Depth-first post-order over the nodes of a rule, without recursion."""

    def targets(index: int):
        node = nodes[index]
        return iter([edge[-1] for edge in (*node.byte_edges, *node.rule_edges, *node.token_edges)])

    order: list[int] = []
    visited = {0}
    path = [(0, targets(0))]
    while path:
        index, rest = path[-1]
        for target in rest:
            if target not in visited:
                visited.add(target)
                path.append((target, targets(target)))
                break
        else:
            path.pop()
            order.append(index)
    return order


def characters_of(rules: RuleAutomata) -> dict[int, int]:
    """`RuleAutomata.characters`."""
    starts = (rules.start[rule] for rule in rules.character_budgets)
    return _characters(rules, _reached_within(rules, *starts))


def _reached_within(rules: RuleAutomata, *starts: int) -> list[int]:
    """The nodes of the rules that start there."""
    reached = dict.fromkeys(starts)
    pending = list(reached)
    for node in pending:
        for edge in (
            *rules.byte_edges[node],
            *rules.rule_edges[node],
            *rules.token_edges.get(node, ()),
        ):
            if edge[-1] not in reached:
                reached[edge[-1]] = None
                pending.append(edge[-1])
    return pending


def _characters(
    rules: RuleAutomata, nodes: list[int], *, in_fewest_bytes: bool = True
) -> dict[int, int]:
    ends = [node for node in nodes if rules.final[node]]
    byte_edges = {node: rules.byte_edges[node] for node in nodes}
    return fewest_characters(byte_edges, ends, in_fewest_bytes=in_fewest_bytes)


def shortest_distances(rules: RuleAutomata) -> list[int]:
    """Fewest bytes from each node to the end of its rule (Knuth 1977, Dijkstra for grammars).

    Nodes are settled in the order of their distance. A rule edge counts once both the rule's start
    and its target are settled. Sweeping over all nodes until nothing changes would give the same,
    but in quadratic time on the long chains that bounded repetition makes.
    """
    count = len(rules.final)
    byte_sources: list[list[int]] = [[] for _ in range(count)]
    rule_sources: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    rule_uses: list[list[tuple[int, int]]] = [[] for _ in rules.start]
    rules_at: dict[int, list[int]] = {}
    for rule, start in enumerate(rules.start):
        rules_at.setdefault(start, []).append(rule)
    for node in range(count):
        for _, _, target in rules.byte_edges[node]:
            byte_sources[target].append(node)
        for _, target in rules.token_edges.get(node, ()):
            byte_sources[target].append(node)
        for rule, target in rules.rule_edges[node]:
            rule_sources[target].append((node, rule))
            rule_uses[rule].append((node, target))

    distance = [UNREACHABLE] * count
    queue = [(0, node) for node in range(count) if rules.final[node]]
    while queue:
        length, node = heapq.heappop(queue)
        if distance[node] <= length:
            continue
        distance[node] = length
        for source in byte_sources[node]:
            if distance[source] > length + 1:
                heapq.heappush(queue, (length + 1, source))
        for source, rule in rule_sources[node]:
            inner = distance[rules.start[rule]]
            if inner < UNREACHABLE and distance[source] > inner + length:
                heapq.heappush(queue, (inner + length, source))
        for rule in rules_at.get(node, ()):
            for source, target in rule_uses[rule]:
                if distance[target] < UNREACHABLE and distance[source] > length + distance[target]:
                    heapq.heappush(queue, (length + distance[target], source))
    return distance
