"""A schema's alternatives as xgrammar's EBNF."""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, combinations
from typing import NamedTuple

from lave_plugin.grammar.dfa import is_empty
from lave_plugin.grammar.json_schema.branches import (
    Array,
    Branch,
    Number,
    Object,
    Reader,
    Text,
    Values,
)
from lave_plugin.grammar.json_schema.document import Conjunction, Literal
from lave_plugin.grammar.json_schema.errors import UnsupportedSchema
from lave_plugin.grammar.json_schema.numbers import UnreadableNumber, notations
from lave_plugin.grammar.json_schema.pattern import UnreadablePattern
from lave_plugin.grammar.json_schema.strings import language, length_of, literal, rules_of

_MOST_CONJUNCTIONS = 1 << 12
_MOST_BYTES = 1 << 20  # xgrammar takes seconds to compile more than that
_MOST_POSITIONS = 256
_MOST_UNIQUE = 6

_BUILTIN = r"""any ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws "}" | "{" ws string colon any (comma string colon any)* ws "}"
array ::= "[" ws "]" | "[" ws any (comma any)* ws "]"
string ::= "\"" char* "\""
char ::= [^"\\\u0000-\u001f] | "\\" (["\\/bfnrt] | "u" unit)
unit ::= [0-9a-cA-CE-Fe-f] hex hex hex | [dD] [0-7] hex hex | [dD] [89aAbB] hex hex "\\u" [dD] low
low ::= [c-fC-F] hex hex
hex ::= [0-9a-fA-F]
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+\-]? [0-9] [0-9]?)?
integer ::= "0" | "-"? [1-9] [0-9]*
"""


class Layout(NamedTuple):
    """Whitespace between the parts of JSON.

    Attributes:
        free: Any whitespace; otherwise one blank behind commas and colons.
        most: Characters of it in a row; None for no limit.
    """

    free: bool = True
    most: int | None = None

    def rules(self) -> str:
        if not self.free:
            return 'ws ::= ""\ncomma ::= ", "\ncolon ::= ": "\n'
        bound = "*" if self.most is None else f"{{0,{self.most}}}"
        return f'ws ::= [ \\n\\r\\t]{bound}\ncomma ::= ws "," ws\ncolon ::= ws ":" ws\n'


class Emitter:
    """Writes one schema as JSON."""

    def __init__(self, reader: Reader, layout: Layout) -> None:
        self._reader = reader
        self._layout = layout
        self._branches: dict[Conjunction, list[Branch]] = {}
        self._explore()
        self._possible = self._productive()
        self._names: dict[Conjunction, str] = {}
        self._pending: list[Conjunction] = []
        self._rules: list[str] = []
        self._leaves: dict[Branch, str] = {}
        self._counter = 0
        self._size = self._measured = 0

    def grammar(self) -> str:
        """The grammar of everything that satisfies the schema, as far as `branches` goes.

        Raises:
            UnsupportedSchema: If a keyword can't be enforced, or if nothing satisfies the schema.
        """
        start = self._reader.document.start
        if start not in self._possible:
            raise UnsupportedSchema("#", "the schema", "can't be satisfied by any value")
        root = self._root(start)
        while self._pending:
            conjunction = self._pending.pop()
            ways = [
                way for b in self._branches[conjunction] for way in self._branch(b, conjunction)
            ]
            self._rules.append(_rule(self._names[conjunction], [way for way in ways if way]))
            self._check_size(conjunction)
        return f"root ::= {root}\n{_BUILTIN}{self._layout.rules()}" + "\n".join(self._rules) + "\n"

    def _check_size(self, conjunction: Conjunction) -> None:
        self._size += sum(map(len, self._rules[self._measured :]))
        self._measured = len(self._rules)
        if self._size > _MOST_BYTES:
            raise UnsupportedSchema(
                self._reader.document.path(conjunction),
                "the schema",
                f"is where its grammar becomes larger than {_MOST_BYTES} bytes; bound fewer lengths"
                " of strings beside patterns, or combine fewer alternatives",
            )

    def _root(self, start: Conjunction) -> str:
        return self._value(start)

    # Which conjunctions there are, and which of them some value satisfies.

    def _explore(self) -> None:
        pending = [self._reader.document.start]
        while pending:
            conjunction = pending.pop()
            if conjunction in self._branches:
                continue
            if len(self._branches) > _MOST_CONJUNCTIONS:
                raise UnsupportedSchema(
                    "#", "the schema", f"needs more than {_MOST_CONJUNCTIONS} combinations"
                )
            self._branches[conjunction] = self._reader.branches(conjunction) if conjunction else []
            for branch in self._branches[conjunction]:
                pending += self._inner(branch)

    def _inner(self, branch: Branch) -> Iterator[Conjunction]:
        match branch:
            case Array(prefix, rest, _, _, contains, _):
                parts = [*prefix, *([] if rest is None else [rest])]
                yield from parts
                for some in _subsets([literal_ for literal_, _ in contains]):
                    yield from (self._with(part, some) for part in parts)
            case Object(properties, others, _, _, wanted):
                yield from (inner for _, inner, _ in properties)
                yield from (inner for _, inner in (*others, *(wanted or ())))

    def _with(self, conjunction: Conjunction, more: Iterable[Literal]) -> Conjunction:
        return self._reader.document.conjunction([*conjunction, *more])

    def _productive(self) -> set[Conjunction]:
        possible: set[Conjunction] = {()}
        size = 0
        while size != len(possible):
            size = len(possible)
            for conjunction, branches in self._branches.items():
                if conjunction not in possible and any(
                    self._is_possible(branch, possible, conjunction) for branch in branches
                ):
                    possible.add(conjunction)
        for conjunction, branches in self._branches.items():
            for branch in branches:
                if isinstance(branch, Object) and branch.others and branch.low > 1:
                    self._check_minimum(branch, possible, conjunction)
        return possible

    def _check_minimum(self, branch: Object, possible: set[Conjunction], of: Conjunction) -> None:
        there = sum(inner in possible for _, inner, _ in branch.properties)
        if there + 1 < branch.low and any(inner in possible for _, inner in branch.others):
            raise UnsupportedSchema(
                self._reader.document.path(of),
                "minProperties",
                "can't be enforced on names that are not listed, of which two could be the same;"
                " list the properties, or ask for one at least",
            )

    def _is_possible(self, branch: Branch, possible: set[Conjunction], of: Conjunction) -> bool:
        match branch:
            case Values(values):
                return bool(values)
            case Text():
                length = length_of(branch)
                if length is None:
                    return not is_empty(self._language(branch, of))
                return length[1] is None or length[0] <= length[1]
            case Number(integer, terms):
                return not terms or not is_empty(self._notations(integer, terms, of))
            case Array(prefix, rest, low, _, contains, _):
                parts = [*prefix[:low], *([rest] if rest is not None and low > len(prefix) else [])]
                anywhere = (*prefix, *([] if rest is None else [rest]))
                for literal_, _ in contains:
                    if not any(self._with(part, [literal_]) in possible for part in anywhere):
                        return False
                return all(part in possible for part in parts)
            case Object(properties, others, low, _, wanted):
                there = [inner for _, inner, _ in properties if inner in possible]
                some = bool(self._open(others if wanted is None else wanted, possible, of))
                if wanted is not None and not some:
                    return False
                least = sum(required for _, _, required in properties) + (wanted is not None)
                if branch.high is not None and max(least, low) > branch.high:
                    return False
                return len(there) + some >= low and all(
                    inner in possible for _, inner, required in properties if required
                )

    def _open(
        self,
        others: tuple[tuple[Text, Conjunction], ...],
        possible: set[Conjunction],
        of: Conjunction,
    ) -> list[tuple[Text, Conjunction]]:
        """Those of the classes that have a name and a value."""
        return [
            (names, inner)
            for names, inner in others
            if inner in possible and not (names.terms and is_empty(self._language(names, of)))
        ]

    def _language(self, text: Text, of: Conjunction):
        try:
            return language(text)
        except UnreadablePattern as error:
            keyword = next((k for k, _, _ in text.terms if k in ("pattern", "format")), "pattern")
            patterns = [repr(a) for k, a, _ in text.terms if k == "pattern"]
            which = f"{', '.join(patterns)} {error}" if patterns else str(error)
            raise UnsupportedSchema(self._reader.document.path(of), keyword, which) from None

    def _notations(self, integer: bool, terms, of: Conjunction):
        try:
            return notations(integer, terms)
        except (UnreadableNumber, UnreadablePattern) as error:
            multiple = any(operator in ("multiple", "apart") for operator, _ in terms)
            keyword = "multipleOf" if multiple else "minimum or maximum"
            raise UnsupportedSchema(self._reader.document.path(of), keyword, str(error)) from None

    # The rules.

    def _value(self, conjunction: Conjunction) -> str:
        if not conjunction:
            return "any"
        if conjunction not in self._names:
            self._names[conjunction] = f"v{len(self._names)}"
            self._pending.append(conjunction)
        return self._names[conjunction]

    def _new(self, prefix: str) -> str:
        self._counter += 1
        return f"{prefix}{self._counter}"

    def _branch(self, branch: Branch, of: Conjunction) -> Iterator[str]:
        if not self._is_possible(branch, self._possible, of):
            return
        match branch:
            case Values(values):
                yield from (literal(_json(value)) for value in values)
            case Text():
                yield self._text(branch, of)
            case Number(integer, ()):
                yield "integer" if integer else "number"
            case Number(integer, terms):
                if branch not in self._leaves:
                    name = self._leaves[branch] = self._new("n")
                    self._rules += rules_of(name, self._notations(integer, terms, of), quoted=False)
                yield self._leaves[branch]
            case Array():
                yield self._array(branch, of)
            case Object():
                yield self._object(branch, of)

    def _text(self, text: Text, of: Conjunction) -> str:
        if not text.terms:
            return "string"
        if text not in self._leaves:
            name = self._leaves[text] = self._new("s")
            length = length_of(text)
            if length is not None:
                low, high = length
                bounds = f"{{{low},{'' if high is None else high}}}"
                self._rules.append(f'{name} ::= "\\"" char{bounds} "\\""')
            else:
                self._rules += rules_of(name, self._language(text, of), quoted=True)
        return self._leaves[text]

    def _array(self, array: Array, of: Conjunction) -> str:
        possible = self._possible
        prefix, rest, high = array.prefix, array.rest, array.high
        for at, part in enumerate(prefix):
            if part not in possible:
                prefix, rest = prefix[:at], None
                break
        if rest is not None and rest not in possible:
            rest = None
        if rest is None:
            high = len(prefix) if high is None else min(high, len(prefix))
        if array.contains or (array.unique and (high is None or high > 1)):
            return self._counted_array(prefix, rest, array.low, high, array, of)
        low = array.low
        empty = '"[" ws "]"'
        if high == 0:
            return empty
        # From the last part to the first: the repetition behind the prefix, then the prefix.
        following = None
        if rest is not None and (high is None or high > len(prefix)):
            least = max(low - len(prefix), 0)
            most = None if high is None else high - len(prefix)
            item = self._value(rest)
            if prefix:
                following = f"(comma {item}){_bounds(least, most)}"
            elif most == 1:
                following = item
            else:
                most = None if most is None else most - 1
                following = f"{item} (comma {item}){_bounds(max(least - 1, 0), most)}"
        length = len(prefix) if high is None else min(high, len(prefix))
        for at in range(length - 1, -1, -1):
            part = f"{'comma ' if at else ''}{self._value(prefix[at])}"
            if following is not None:
                rule = self._new("a")
                self._rules.append(f"{rule} ::= {following}")
                part += f" {rule}"
            following = f'{part} | ""' if low <= at and at else part
        inner = self._new("a")
        self._rules.append(f"{inner} ::= {following}")
        return f'"[" ws {inner} ws "]"' + ("" if low else f" | {empty}")

    def _counted_array(self, prefix, rest, low: int, high: int | None, array: Array, of) -> str:
        """Item by item: with what was found of `contains`, or which values are used."""
        path = self._reader.document.path(of)
        if array.unique and (high is None or high > 1):
            return self._unique_array(prefix, rest, low, high, array)
        last = max(low, len(prefix), high or 0)
        positions = last + 2
        for _, count in array.contains:
            positions *= count + 1
        if positions > _MOST_POSITIONS or len(array.contains) > 3:
            raise UnsupportedSchema(path, "contains", "stands beside too many items, or too often")
        names: dict[tuple[int, tuple[int, ...]], str] = {}
        pending: list[tuple[int, tuple[int, ...]]] = []
        wanted = tuple(count for _, count in array.contains)

        def rule(at: int, found: tuple[int, ...]) -> str:
            key = (min(at, last + 1), tuple(map(min, found, wanted)))
            if key not in names:
                names[key] = self._new("a")
                pending.append(key)
            return names[key]

        start = rule(0, (0,) * len(wanted))
        while pending:
            at, found = key = pending.pop()
            ways = ['""'] if at and at >= low and found == wanted else []
            part = prefix[at] if at < len(prefix) else rest
            if part is not None and (high is None or at < high):
                separator = "comma " if at else ""
                missing = [
                    n
                    for n, (some, all_) in enumerate(zip(found, wanted, strict=True))
                    if some < all_
                ]
                for chosen in _subsets(missing):
                    item = self._with(part, [array.contains[each][0] for each in chosen])
                    if item in self._possible:
                        after = tuple(n + (each in chosen) for each, n in enumerate(found))
                        ways.append(f"{separator}{self._value(item)} {rule(at + 1, after)}")
            self._rules.append(_rule(names[key], ways))
        return f'"[" ws {start} ws "]"'

    def _unique_array(self, prefix, rest, low: int, high: int | None, array: Array) -> str:
        values = None
        if not prefix and rest is not None and rest:
            branches = self._branches[rest]
            if all(isinstance(branch, Values) for branch in branches):
                values = [value for branch in branches for value in branch.values]
        if values is None or len(values) > _MOST_UNIQUE or array.contains:
            raise UnsupportedSchema(
                array.unique,
                "uniqueItems",
                f"can only be enforced where items are one of {_MOST_UNIQUE} values at most; leave"
                " it out, or list the values",
            )
        names: dict[int, str] = {}
        pending: list[int] = []

        def rule(used: int) -> str:
            if used not in names:
                names[used] = self._new("a")
                pending.append(used)
            return names[used]

        start = rule(0)
        while pending:
            used = pending.pop()
            count = used.bit_count()
            ways = ['""'] if count and count >= low else []
            if high is None or count < high:
                separator = "comma " if used else ""
                ways += [
                    f"{separator}{literal(_json(value))} {rule(used | 1 << at)}"
                    for at, value in enumerate(values)
                    if not used >> at & 1
                ]
            self._rules.append(_rule(names[used], ways))
        return f'"[" ws {start} ws "]"' + ("" if low else ' | "[" ws "]"')

    def _object(self, branch: Object, of: Conjunction) -> str:
        """Declared properties in order, then the others.

        A rule for each (position, properties so far); how many there are counts only as far as
        minProperties and maxProperties ask. Of the properties that are not listed two may have the
        same name, so for the minimum all of them count as one, and one that must be there is the
        last: another of its name would take its place.
        """
        members, may_be_empty = self._members(branch, of, self._pair, self._other_pair, "comma ")
        ways = [f'"{{" ws {members} ws "}}"'] if members else []
        return " | ".join([*ways, *(['"{" ws "}"'] if may_be_empty else [])])

    def _pair(self, name: str, inner: Conjunction) -> str:
        return f"{literal(_json(name))} colon {self._value(inner)}"

    def _other_pair(self, names: Text, inner: Conjunction, of: Conjunction) -> str:
        return f"{self._text(names, of)} colon {self._value(inner)}"

    def _members(
        self,
        branch: Object,
        of: Conjunction,
        pair: Callable[[str, Conjunction], str],
        other_pair: Callable[[Text, Conjunction, Conjunction], str],
        comma: str,
    ) -> tuple[str | None, bool]:
        """The rule of one member or more, if there can be one, and whether there may be none."""
        properties = [each for each in branch.properties if each[1] in self._possible]
        others = self._open(branch.others, self._possible, of)
        wanted = self._open(branch.wanted or (), self._possible, of)
        low, high = branch.low, branch.high
        most = max(low, 1) if high is None else max(low, high, 1)
        names: dict[tuple[int, int, int], str] = {}
        pending: list[tuple[int, int, int]] = []

        def rule(at: int, count: int, distinct: int) -> str:
            key = (at, min(count, most), min(distinct, low))
            if key not in names:
                names[key] = self._new("o")
                pending.append(key)
            return names[key]

        start = rule(0, 0, 0)
        while pending:
            at, count, distinct = key = pending.pop()
            ways = []
            room = high is None or count < high
            separator = comma if count else ""
            if at < len(properties):
                name, inner, required = properties[at]
                if room:
                    following = rule(at + 1, count + 1, distinct + 1)
                    ways.append(f"{separator}{pair(name, inner)} {following}")
                if not required:
                    ways.append(rule(at + 1, count, distinct))
            else:
                first = at == len(properties)
                if count and distinct >= low and not (wanted and first):
                    ways.append('""')
                classes = (wanted if first else []) if wanted else others
                if room and classes:
                    following = rule(len(properties) + 1, count + 1, distinct + first)
                    ways += [
                        f"{separator}{other_pair(names_, inner, of)} {following}"
                        for names_, inner in classes
                    ]
            self._rules.append(_rule(names[key], ways))
        empty = low == 0 and not wanted and not any(required for _, _, required in properties)
        some = (properties or others or wanted) and high != 0
        return (start if some else None), empty


def _subsets(items: list) -> Iterator[tuple]:
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


def _rule(name: str, ways: list[str]) -> str:
    """Where no way leads on, one that never ends, which is dropped when the grammar is read."""
    return f"{name} ::= {' | '.join(ways)}" if ways else f'{name} ::= "." {name}'


def _bounds(low: int, high: int | None) -> str:
    return f"{{{low},{'' if high is None else high}}}"


def _json(value) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair can only be written as an escape
        return json.dumps(value, separators=(",", ":"))
    return text
