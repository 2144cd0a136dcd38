"""A grammar in which the text behind a terminal matters, as one in which it doesn't.

Each rule is written once for each of the few conditions that may hold before it: the product of the
grammar with the automaton of those conditions.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lave_plugin.grammar.lark import definitions as of_lark
from lave_plugin.grammar.lark.characters import intersection
from lave_plugin.grammar.lark.definitions import Rules
from lave_plugin.grammar.lark.ebnf import (
    IMPOSSIBLE,
    NOTHING,
    ROOT,
    Alt,
    Ref,
    Seq,
    Tree,
    of_matcher,
    of_pattern,
)
from lave_plugin.grammar.lark.matching import FREELY, Follow, both, matcher_of
from lave_plugin.grammar.lark.source import UnsupportedPattern
from lave_plugin.grammar.lark.terminals import Prepared, first_characters

_BARE = "\0"  # marks the use of a terminal behind which nothing is ignored
_MOST_RULES = 20_000

_Ways = dict[int, Tree]
"""By the condition that holds behind it, the texts."""


@dataclass
class Product:
    """Rules by (what they are of, the condition before them); a condition is a `Follow`."""

    rules: Rules
    terminals: dict[str, Prepared]
    _conditions: list[Follow] = field(default_factory=lambda: [FREELY])
    _trees: dict[str, Tree] = field(default_factory=dict)
    _pending: list[tuple[str, of_lark.Node, int]] = field(default_factory=list)
    _begun: set[tuple[str, int]] = field(default_factory=set)
    _parts: dict[tuple, tuple[Any, of_lark.Node]] = field(default_factory=dict)
    _texts: dict[tuple[str, int], _Ways] = field(default_factory=dict)

    def trees(self, skips_first: bool) -> dict[str, Tree]:
        for prepared in self.terminals.values():
            for follow in prepared.follows:
                if follow not in self._conditions:
                    self._conditions.append(follow)
        start: of_lark.Node = of_lark.Ref(self.rules.start)
        if skips_first:
            start = of_lark.Seq((self._ignored, start))
        self._trees[ROOT] = Alt(
            tuple(tree for end, tree in self._ways(start, 0).items() if self._conditions[end].end)
        )
        while self._pending:
            if len(self._trees) > _MOST_RULES:
                raise UnsupportedPattern(
                    "this grammar looks ahead in too many places; it would take more than "
                    f"{_MOST_RULES} rules."
                )
            prefix, node, before = self._pending.pop()
            ways = self._ways(node, before)
            for end in range(len(self._conditions)):
                self._trees[f"{prefix}.{before}.{end}"] = ways.get(end, IMPOSSIBLE)
        return self._trees

    def __post_init__(self) -> None:
        ignored = tuple(of_lark.Token(f"{name}{_BARE}") for name in self.rules.ignored)
        self._ignored = of_lark.Rep(of_lark.Alt(ignored), 0, None)

    def _named(self, name: str, node: of_lark.Node, before: int) -> _Ways:
        """A rule of its own for the node."""
        if (name, before) not in self._begun:
            self._begun.add((name, before))
            self._pending.append((name, node, before))
        return {end: Ref(f"{name}.{before}.{end}") for end in range(len(self._conditions))}

    def _helper(self, node: of_lark.Node, before: int) -> _Ways:
        return self._named(
            self._made(("name", id(node)), node, lambda: f"part {len(self._parts)}"), node, before
        )

    def _made(self, key: tuple, node: of_lark.Node, make: Callable[[], Any]) -> Any:
        """What was made for a node before; by identity, since comparing deep trees is slow."""
        if key not in self._parts:
            self._parts[key] = (make(), node)  # the node is kept alive with its identity
        return self._parts[key][0]

    def _ways(self, node: of_lark.Node, before: int) -> _Ways:
        match node:
            case of_lark.Token(name) if name.endswith(_BARE):
                return self._text(name[:-1], before)
            case of_lark.Token(name):
                if not self.rules.ignored:
                    return self._text(name, before)
                return self._named(f"{name} and", self._then_ignored(name), before)
            case of_lark.Ref(rule):
                return self._named(rule, self.rules.rules[rule], before)
            case of_lark.Seq(items):
                if not items:
                    return {before: NOTHING}
                if len(items) == 1:
                    return self._ways(items[0], before)
                rest = self._rest(items)
                return _joined(
                    self._ways(items[0], before), lambda between: self._helper(rest, between)
                )
            case of_lark.Alt(items):
                return _merged([self._ways(item, before) for item in items])
            case of_lark.Rep(item, low, high):
                return self._repeated(node, item, low, high, before)

    def _then_ignored(self, name: str) -> of_lark.Node:
        return of_lark.Seq((of_lark.Token(f"{name}{_BARE}"), self._ignored))

    def _rest(self, items: tuple[of_lark.Node, ...]) -> of_lark.Node:
        rest = of_lark.Seq(items[1:])
        return self._made(("rest", *map(id, items[1:])), rest, lambda: rest)

    def _repeated(
        self, node: of_lark.Rep, item: of_lark.Node, low: int, high: int | None, before: int
    ) -> _Ways:
        if high == 0:
            return {before: NOTHING}
        if high is not None and high > 1000:
            raise UnsupportedPattern(
                f"{high} times is too much in a grammar whose terminals look ahead."
            )
        less = self._made(
            ("less", id(node)),
            node,
            lambda: (
                node
                if (low, high) == (0, None)
                else of_lark.Rep(item, max(low - 1, 0), None if high is None else high - 1)
            ),
        )
        ways = _joined(self._ways(item, before), lambda between: self._helper(less, between))
        return _merged([{before: NOTHING}, ways]) if low == 0 else ways

    def _text(self, name: str, before: int) -> _Ways:
        """The texts of a terminal that may stand behind `before`."""
        key = (name, before)
        if key not in self._texts:
            self._texts[key] = self._new_text(name, before)
        return self._texts[key]

    def _new_text(self, name: str, before: int) -> _Ways:
        prepared, allowed = self.terminals[name], self._conditions[before].characters
        ways: _Ways = {}
        matcher = prepared.matcher
        if matcher is None:
            first, empty = first_characters(prepared.pattern)
            if intersection(first, allowed) == first and not (empty and before):
                self._trees.setdefault(name, of_pattern(prepared.pattern))
                return {self._conditions.index(prepared.follow): Ref(name)}
            if not intersection(first, allowed) and not empty:
                return {}
            matcher = matcher_of(prepared.pattern)
        for follow in prepared.follows:
            wanted = follow if prepared.matcher is not None else FREELY
            rule, more = of_matcher(
                f"{name}.{before}.{self._conditions.index(follow)}",
                matcher,
                allowed if before else None,
                wanted,
            )
            self._trees |= more
            ways[self._conditions.index(follow)] = Ref(rule)
        if before and (empty := matcher.states[0].final) is not None:
            if both(empty, prepared.follow) != FREELY:
                raise UnsupportedPattern(f"{name} may be empty and looks ahead; make it longer.")
            ways = _merged([ways, {before: NOTHING}])
        return ways


def _joined(first: _Ways, rest_behind) -> _Ways:
    found: dict[int, list[Tree]] = {}
    for between, tree in first.items():
        for end, rest in rest_behind(between).items():
            found.setdefault(end, []).append(Seq((tree, rest)))
    return {end: Alt(tuple(trees)) for end, trees in found.items()}


def _merged(parts: list[_Ways]) -> _Ways:
    found: dict[int, list[Tree]] = {}
    for part in parts:
        for end, tree in part.items():
            found.setdefault(end, []).append(tree)
    return {end: trees[0] if len(trees) == 1 else Alt(tuple(trees)) for end, trees in found.items()}
