"""Writing a grammar in xgrammar's EBNF."""

from collections.abc import Iterable
from typing import NamedTuple

from lave_plugin.grammar.lark.characters import Characters, intersection
from lave_plugin.grammar.lark.matching import Follow, Matcher
from lave_plugin.grammar.lark.pattern import Chars, Either, Joined, Pattern, Times
from lave_plugin.grammar.literal import escaped


class Text(NamedTuple):
    """EBNF that stands for itself."""

    ebnf: str


class Ref(NamedTuple):
    rule: str


class Seq(NamedTuple):
    items: tuple["Tree", ...]


class Alt(NamedTuple):
    items: tuple["Tree", ...]


class Rep(NamedTuple):
    item: "Tree"
    low: int
    high: int | None


Tree = Text | Ref | Seq | Alt | Rep

ROOT = ""
"""The name of the first rule; no rule of Lark has it."""
NOTHING = Seq(())
IMPOSSIBLE = Alt(())


def write(rules: dict[str, Tree]) -> str:
    """The grammar as EBNF, without what derives no text and what the root doesn't reach.

    Empty if the root derives no text.
    """
    productive = _productive(rules)
    if ROOT not in productive:
        return ""
    names = _Names()
    names.of(ROOT)
    lines, written, pending = [], {ROOT}, [ROOT]
    while pending:
        name = pending.pop()
        tree = _without(rules[name], productive)
        lines.append(f"{names.of(name)} ::= {_expression(tree, names, 0)}")
        for callee in _references(tree):
            if callee not in written:
                written.add(callee)
                pending.append(callee)
    return "\n".join(lines) + "\n"


class _Names:
    """Names that EBNF can have; the first one is root."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, rule: str) -> str:
        if rule not in self._names:
            plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in rule)
            name = plain if self._taken else "root"
            number = 0
            while name in self._taken:
                number += 1
                name = f"{plain}_{number}"
            self._taken.add(name)
            self._names[rule] = name
        return self._names[rule]


def _references(tree: Tree) -> Iterable[str]:
    pending = [tree]
    while pending:
        part = pending.pop()
        match part:
            case Ref(rule):
                yield rule
            case Seq(items) | Alt(items):
                pending += items
            case Rep(item):
                pending.append(item)


def _productive(rules: dict[str, Tree]) -> set[str]:
    users: dict[str, list[str]] = {}
    for name, tree in rules.items():
        for callee in _references(tree):
            users.setdefault(callee, []).append(name)
    found: set[str] = set()
    pending = list(rules)
    while pending:
        name = pending.pop()
        if name not in found and _derives(rules[name], found):
            found.add(name)
            pending += users.get(name, ())
    return found


def _derives(tree: Tree, productive: set[str]) -> bool:
    match tree:
        case Text():
            return True
        case Ref(rule):
            return rule in productive
        case Seq(items):
            return all(_derives(item, productive) for item in items)
        case Alt(items):
            return any(_derives(item, productive) for item in items)
        case Rep(item, low, _):
            return low == 0 or _derives(item, productive)


def _without(tree: Tree, productive: set[str]) -> Tree:
    match tree:
        case Seq(items):
            return Seq(tuple(_without(item, productive) for item in items))
        case Alt(items):
            return Alt(
                tuple(_without(item, productive) for item in items if _derives(item, productive))
            )
        case Rep(item, low, high):
            if not _derives(item, productive):
                return NOTHING
            return Rep(_without(item, productive), low, high)
    return tree


# How tightly a place binds: 0 alternatives, 1 a sequence, 2 what may be repeated.


def _expression(tree: Tree, names: _Names, level: int) -> str:
    match tree:
        case Text(ebnf):
            return ebnf
        case Ref(rule):
            return names.of(rule)
        case Seq(items):
            parts = [_expression(item, names, 1) for item in items if item != NOTHING]
            return _grouped(" ".join(parts) or '""', len(parts) > 1 and level > 1)
        case Alt(items):
            parts = list(dict.fromkeys(_expression(item, names, 1) for item in items))
            return _grouped(" | ".join(parts), len(parts) > 1 and level > 0)
        case Rep(item, low, high):
            # In parentheses whatever it is: a string of several characters is one item.
            return f"({_expression(item, names, 0)}){_times(low, high)}"


def _grouped(text: str, needed: bool) -> str:
    return f"({text})" if needed else text


def _times(low: int, high: int | None) -> str:
    simple = {(0, 1): "?", (0, None): "*", (1, None): "+"}.get((low, high))
    return simple or f"{{{low},{'' if high is None else high}}}"


# --- terminals ------------------------------------------------------------------------------


def of_pattern(pattern: Pattern) -> Tree:
    """A pattern without look-around and without lazy repetition."""
    match pattern:
        case Chars(these):
            return Text(_class(these)) if these else IMPOSSIBLE
        case Joined(items):
            return _joined(items)
        case Either(items):
            return Alt(tuple(map(of_pattern, items)))
        case Times(item, low, high):
            if high == 0:
                return NOTHING
            return Rep(of_pattern(item), low, high)
    raise TypeError(f"{type(pattern).__name__} has no form in EBNF")


def _joined(items: tuple[Pattern, ...]) -> Tree:
    """Characters in a row are one string."""
    trees: list[Tree] = []
    text: list[str] = []

    def end_text() -> None:
        if text:
            trees.append(Text('"' + "".join(text) + '"'))
            text.clear()

    for item in items:
        match item:
            case Chars(((low, high),)) if low == high:
                text.append(escaped(low))
            case _:
                end_text()
                trees.append(of_pattern(item))
    end_text()
    return trees[0] if len(trees) == 1 else Seq(tuple(trees))


def of_matcher(
    name: str, matcher: Matcher, first: Characters | None, follow: Follow
) -> tuple[str, dict[str, Tree]]:
    """Rules of the matches that begin in `first` (None: with any character, or none) and before
    which `follow` may stand; with the name of the rule that begins them."""
    rules: dict[str, Tree] = {}

    def rule_of(state: int) -> str:
        return f"{name}.{state}"

    for index, state in enumerate(matcher.states):
        ways: list[Tree] = [NOTHING] if state.final == follow else []
        ways += [Seq((Text(_class(these)), Ref(rule_of(to)))) for these, to in state.edges]
        rules[rule_of(index)] = Alt(tuple(ways))
    if first is None:
        return rule_of(0), rules
    ways = [
        Seq((Text(_class(common)), Ref(rule_of(to))))
        for these, to in matcher.states[0].edges
        if (common := intersection(these, first))
    ]
    rules[name] = Alt(tuple(ways))
    return name, rules


def _class(these: Characters) -> str:
    if len(these) == 1 and these[0][0] == these[0][1]:
        return f'"{escaped(these[0][0])}"'
    return "[" + "".join(map(_class_range, these)) + "]"


def _class_range(bounds: tuple[int, int]) -> str:
    low, high = bounds
    if low == high:
        return escaped(low)
    return f"{escaped(low)}-{escaped(high)}"
