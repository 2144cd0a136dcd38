"""From Lark text to xgrammar's EBNF.

Every terminal is a set of texts, and rules put them one after the other: any way of cutting the
text into terminals counts, as with Lark's Earley parser and `lexer="dynamic_complete"`. Priorities
say which way is preferred and so nothing about which texts there are.

Where the text behind a terminal matters (a look-ahead at its end, a keyword under
`strict_keywords`), each rule is written once for each of the few conditions that may hold before
it: the product of the grammar with the automaton of those conditions.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lave_plugin.grammar.caret import move_carets_in_ebnf
from lave_plugin.grammar.lark import definitions as of_lark
from lave_plugin.grammar.lark.characters import NONE, Characters, intersection, union
from lave_plugin.grammar.lark.definitions import Rules, Terminal, resolve
from lave_plugin.grammar.lark.ebnf import (
    IMPOSSIBLE,
    NOTHING,
    Alt,
    Ref,
    Rep,
    Seq,
    Tree,
    of_matcher,
    of_pattern,
    write,
)
from lave_plugin.grammar.lark.keywords import keywords_apart, longest
from lave_plugin.grammar.lark.matching import FREELY, Follow, Matcher, both, matcher_of
from lave_plugin.grammar.lark.pattern import (
    Chars,
    Either,
    Joined,
    Look,
    Pattern,
    Times,
    any_of,
)
from lave_plugin.grammar.lark.source import UnsupportedPattern
from lave_plugin.grammar.lark.syntax import Grammar

_ROOT = ""
_IGNORED = "ignored text"
_BARE = "\0"  # marks the use of a terminal behind which nothing is ignored
_MOST_RULES = 20_000


def compile_grammar(grammar: Grammar) -> str:
    """The EBNF of a parsed Lark grammar.

    Raises
    ------
    LarkError
        With line and column, for what can't be kept.
    """
    rules = resolve(grammar)
    terminals: dict[str, _Prepared] = {}
    for name, terminal in rules.terminals.items():
        with grammar.source.placed(terminal.at):
            terminals[name] = _prepare(terminal)
    for name in rules.ignored:
        with grammar.source.placed(rules.terminals[name].at):
            _take_longest(name, terminals)
    if grammar.strict_keywords:
        used = [each for name, each in rules.terminals.items() if name not in rules.ignored]
        for name, (matcher, follow) in keywords_apart(used, grammar.source).items():
            terminals[name] = _Prepared(rules.terminals[name].pattern, matcher, follow)
    if all(prepared.is_free for prepared in terminals.values()):
        trees = _plain(rules, terminals, grammar.allow_initial_skip)
    else:
        with grammar.source.placed(0):
            trees = _Product(rules, terminals).trees(grammar.allow_initial_skip)
    ebnf = write(trees, _ROOT)
    if not ebnf:
        at = next((each.at for each in grammar.definitions if each.name == rules.start), 0)
        raise grammar.source.error(
            at, f"the grammar has no sentence: {rules.start} never comes to an end."
        )
    return move_carets_in_ebnf(ebnf)


@dataclass
class _Prepared:
    """A terminal's texts: its pattern, or where that needs one its automaton."""

    pattern: Pattern
    matcher: Matcher | None
    follow: Follow = FREELY
    """What may stand behind any of its texts; with an automaton, its states say it."""

    @property
    def is_free(self) -> bool:
        if self.matcher is None:
            return self.follow == FREELY
        return all(state.final in (None, FREELY) for state in self.matcher.states)


def _prepare(terminal: Terminal) -> _Prepared:
    needs_automaton = any_of(terminal.pattern, Look) or any_of(terminal.pattern, Times, lazy=True)
    matcher = matcher_of(terminal.pattern) if needs_automaton else None
    return _Prepared(terminal.pattern, matcher)


def _take_longest(name: str, terminals: dict[str, _Prepared]) -> None:
    """Let text that is ignored end where it can't go on, as in Lark: a comment up to the end of the
    line is not followed by code on that line.

    Where nothing that may come next could be taken for more of it, there is nothing to do.
    """
    prepared = terminals[name]
    matcher = prepared.matcher or matcher_of(prepared.pattern)
    goes_on = union(
        *(
            matcher.next_characters(index)
            for index, state in enumerate(matcher.states)
            if state.final is not None
        )
    )
    next_ones = (
        first_characters(each.pattern)[0] for key, each in terminals.items() if key != name
    )
    if any(intersection(goes_on, first) for first in next_ones):
        terminals[name] = _Prepared(prepared.pattern, longest(matcher))


def _plain(rules: Rules, terminals: dict[str, _Prepared], skips_first: bool) -> dict[str, Tree]:
    """The grammar as it is: nothing asks what stands behind it."""
    trees: dict[str, Tree] = {}
    for name, prepared in terminals.items():
        if prepared.matcher is None:
            trees[name] = of_pattern(prepared.pattern)
        else:
            start, more = of_matcher(name, prepared.matcher, None, FREELY)
            trees |= more
            trees[name] = Ref(start)
    behind: tuple[Tree, ...] = ()
    if rules.ignored:
        trees[_IGNORED] = Rep(Alt(tuple(Ref(name) for name in rules.ignored)), 0, None)
        behind = (Ref(_IGNORED),)
    anonymous = {
        name: tree for name, tree in trees.items() if name[:1] in '"/' and name in terminals
    }

    def tree_of(node: of_lark.Node) -> Tree:
        match node:
            case of_lark.Token(name):
                return Seq((anonymous.get(name) or Ref(name), *behind))
            case of_lark.Ref(rule):
                return Ref(rule)
            case of_lark.Seq(items):
                return Seq(tuple(map(tree_of, items)))
            case of_lark.Alt(items):
                return Alt(tuple(map(tree_of, items)))
            case of_lark.Rep(item, low, high):
                return NOTHING if high == 0 else Rep(tree_of(item), low, high)

    for rule, node in rules.rules.items():
        trees[rule] = tree_of(node)
    before = behind if skips_first else ()
    trees[_ROOT] = Seq((*before, Ref(rules.start)))
    return trees


def first_characters(pattern: Pattern) -> tuple[Characters, bool]:
    """What a text of the pattern may begin with, and whether it may be empty."""
    match pattern:
        case Chars(these):
            return these, False
        case Joined(items):
            found = NONE
            for item in items:
                these, empty = first_characters(item)
                found = union(found, these)
                if not empty:
                    return found, False
            return found, True
        case Either(items):
            parts = [first_characters(item) for item in items]
            return union(*(these for these, _ in parts)), any(empty for _, empty in parts)
        case Times(item, low, high):
            these, empty = first_characters(item)
            return (NONE if high == 0 else these), low == 0 or empty
    return NONE, True  # it looks around and reads nothing


_Ways = dict[int, Tree]
"""By the condition that holds behind it, the texts."""


@dataclass
class _Product:
    """Rules by (what they are of, the condition before them); a condition is a `Follow`."""

    rules: Rules
    terminals: dict[str, _Prepared]
    _conditions: list[Follow] = field(default_factory=lambda: [FREELY])
    _trees: dict[str, Tree] = field(default_factory=dict)
    _pending: list[tuple[str, of_lark.Node, int]] = field(default_factory=list)
    _begun: set[tuple[str, int]] = field(default_factory=set)
    _parts: dict[tuple, tuple[Any, of_lark.Node]] = field(default_factory=dict)
    _texts: dict[tuple[str, int], _Ways] = field(default_factory=dict)

    def trees(self, skips_first: bool) -> dict[str, Tree]:
        for prepared in self.terminals.values():
            for follow in _follows(prepared):
                if follow not in self._conditions:
                    self._conditions.append(follow)
        start: of_lark.Node = of_lark.Ref(self.rules.start)
        if skips_first:
            start = of_lark.Seq((self._ignored, start))
        self._trees[_ROOT] = Alt(
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
        for follow in _follows(prepared):
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


def _follows(prepared: _Prepared) -> list[Follow]:
    if prepared.matcher is None:
        return [prepared.follow]
    return list(
        dict.fromkeys(state.final for state in prepared.matcher.states if state.final is not None)
    )


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
