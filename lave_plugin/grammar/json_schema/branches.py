"""A schema as alternatives that a grammar can say: one type each, and no logic.

What is to be written is a conjunction of literals: subschemas that must hold, or must not. Its
disjunctive normal form gives ways, each a list of atoms ("has the property a", "is at most 5
characters long"); the atoms of a way are sorted by type and become a branch for each type that
they leave. What lies inside (properties, items) is again a conjunction of literals, named by what
it says, so that recursion through `$ref` becomes recursion of the grammar.

A branch may be narrower than its conjunction, never wider. It is narrower where xgrammar is: an
object that lists `properties` has no others unless `additionalProperties` says so, an array with
`prefixItems` likewise, and a schema without `type` whose keywords speak of one type has that type.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from lave_plugin.grammar.json_schema.check import is_one_of, is_type, matches, same, satisfies
from lave_plugin.grammar.json_schema.document import Conjunction, Document, Literal
from lave_plugin.grammar.json_schema.errors import UnsupportedSchema
from lave_plugin.grammar.json_schema.formats import EXPRESSIONS
from lave_plugin.grammar.json_schema.keywords import TYPES, types_of
from lave_plugin.grammar.json_schema.ways import Atom, Other, Ways


class Values(NamedTuple):
    """One of a few values."""

    values: tuple[Any, ...]


class Text(NamedTuple):
    """A string; every term is (kind, argument, whether it must hold)."""

    terms: tuple[tuple[str, Any, bool], ...]


class Number(NamedTuple):
    """A number; the terms are (operator, bound) with min, max, above, below, multiple,
    apart (no multiple), not (this number)."""

    integer: bool
    terms: tuple[tuple[str, Any], ...]


class Array(NamedTuple):
    """An array: `prefix`, then `rest` (None: nothing), `low` to `high` items in all."""

    prefix: tuple[Conjunction, ...]
    rest: Conjunction | None
    low: int
    high: int | None
    contains: tuple[tuple[Literal, int], ...]
    """Of each literal how many items at least satisfy it."""
    unique: str | None
    """The path of `uniqueItems`."""


class Object(NamedTuple):
    """An object: declared properties in order, then others by what their names match."""

    properties: tuple[tuple[str, Conjunction, bool], ...]
    """(name, what its value satisfies, whether it must be there)"""
    others: tuple[tuple[Text, Conjunction], ...]
    """(names, what their values satisfy); a name is of one class at most."""
    low: int
    high: int | None
    wanted: tuple[tuple[Text, Conjunction], ...] | None = None
    """Like `others`; if not None, one of these there must be."""


Branch = Values | Text | Number | Array | Object


class Reader:
    """The branches of the conjunctions of a document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._ways = Ways(document, self.may_hold)
        self._branches: dict[Conjunction, list[Branch]] = {}

    def branches(self, conjunction: Conjunction) -> list[Branch]:
        """The alternatives of a conjunction; none if nothing satisfies it.

        Raises:
            UnsupportedSchema: If a keyword can't be enforced.
        """
        if conjunction not in self._branches:
            self._branches[conjunction] = list(self._read(conjunction))
        return self._branches[conjunction]

    def may_hold(self, conjunction: Conjunction, depth: int = 3) -> bool:
        """False only if no value satisfies the conjunction; a look that goes `depth` deep."""
        if depth == 0:
            return True
        for way in self._ways.of(conjunction, loose=True):
            for branch in self._branches_of(way, conjunction, loose=True):
                match branch:
                    case Values(values):
                        if values:
                            return True
                    case Object(properties, _, _, _):
                        if all(
                            self.may_hold(inner, depth - 1)
                            for _, inner, required in properties
                            if required
                        ):
                            return True
                    case _:
                        return True
        return False

    def _read(self, conjunction: Conjunction) -> Iterator[Branch]:
        seen = set()
        values: list[Any] = []
        strings: dict[str, None] = {}
        for way in self._ways.of(conjunction):
            for branch in self._branches_of(way, conjunction):
                if isinstance(branch, Values):
                    for value in branch.values:
                        if isinstance(value, str):
                            strings[value] = None
                        elif not is_one_of(value, values):
                            values.append(value)
                elif branch not in seen:
                    seen.add(branch)
                    yield branch
        if values or strings:
            yield Values((*strings, *values))

    def _branches_of(
        self, way: list[Atom], conjunction: Conjunction, *, loose: bool = False
    ) -> Iterator[Branch]:
        by_kind: dict[str, list[Atom]] = {}
        for atom in way:
            by_kind.setdefault(atom.kind, []).append(atom)
        if "in" in by_kind:
            yield Values(tuple(self._values(by_kind["in"][0].value, conjunction)))
            return
        types = set(TYPES)
        if "type" in by_kind:
            for atom in by_kind["type"]:
                types &= atom.value
        else:
            kinds = [atom.value for atom in by_kind.get("speaks of", ())]
            kinds += ["object"] if {"has", "lacks"} & by_kind.keys() else []
            if kinds:
                types = set().union(*(types_of(kind) for kind in kinds))
        excluded = [value for atom in by_kind.get("not in", ()) for value in atom.value]
        few = [v for v in (None, False, True) if self._type_of(v) in types]
        few = [v for v in few if not any(same(v, other) for other in excluded)]
        if few:
            yield Values(tuple(few))
        if types & {"integer", "fraction"}:
            terms = [atom.value for atom in by_kind.get("number", ())]
            terms += [("not", value) for value in excluded if is_type(value, "number")]
            if "integer" not in types:
                terms.append(("fraction", None))
            yield Number("fraction" not in types, tuple(dict.fromkeys(terms)))
        if "string" in types:
            yield self._text(by_kind.get("string", ()), excluded)
        for kind, wrong in (("array", list), ("object", dict)):
            if kind in types and any(isinstance(value, wrong) for value in excluded):
                raise UnsupportedSchema(
                    by_kind["not in"][0].path,
                    "not, oneOf or if",
                    f"exclude a whole {kind}, which can't be enforced",
                )
        if "array" in types:
            yield from self._array(by_kind)
        if "object" in types:
            yield from self._object_of(by_kind, loose)

    def _type_of(self, value: Any) -> str:
        return "null" if value is None else "boolean"

    def _values(self, values: list[Any], conjunction: Conjunction) -> Iterator[Any]:
        for value in values:
            if all(
                satisfies(value, self.document.schemas[node], self.document.resolve) == positive
                for node, positive in conjunction
            ):
                yield value

    def _text(self, atoms: Iterable[Atom], excluded: list[Any]) -> Text:
        terms = []
        for atom in atoms:
            kind, argument, _ = atom.value
            if kind == "format" and not (isinstance(argument, str) and argument in EXPRESSIONS):
                raise UnsupportedSchema(
                    atom.path, "format", f"{argument!r} is none that can be enforced; leave it out"
                )
            terms.append(atom.value)
        terms += [("is", value, False) for value in excluded if isinstance(value, str)]
        return Text(tuple(dict.fromkeys(terms)))

    def _array(self, by_kind: dict[str, list[Atom]]) -> Iterator[Array]:
        low = max((atom.value for atom in by_kind.get("minItems", ())), default=0)
        high = min((atom.value for atom in by_kind.get("maxItems", ())), default=None)
        parts = [atom.value for atom in by_kind.get("items", ())]
        length = max((len(prefix) for prefix, _ in parts), default=0)
        columns: list[list[Literal] | None] = []
        for at in range(length + 1):
            column: list[Literal] | None = []
            for prefix, rest in parts:
                if at < len(prefix):
                    part = prefix[at]
                elif rest is None:
                    column = None
                    break
                else:
                    part = rest
                column.append(part)
            columns.append(column)
            if column is None:
                break
        whole = [None if each is None else self.document.conjunction(each) for each in columns]
        prefix, rest = whole[:-1], whole[-1]
        contains = tuple(dict.fromkeys(atom.value for atom in by_kind.get("contains", ())))
        low = max([low, *(count for _, count in contains)])
        unique = by_kind["unique"][0].path if "unique" in by_kind else None
        if rest is None and (high is None or high > len(prefix)):
            high = len(prefix)
        if high is None or low <= high:
            yield Array(tuple(prefix), rest, low, high, contains, unique)

    def _object_of(self, by_kind: dict[str, list[Atom]], loose: bool) -> Iterator[Object]:
        objects = [atom.value for atom in by_kind.get("object", ())]
        has = {atom.value: atom.path for atom in by_kind.get("has", ())}
        lacks = {atom.value for atom in by_kind.get("lacks", ())}
        names = [atom.value for atom in by_kind.get("names", ())]
        extra: dict[str, list[Literal]] = {}
        for atom in by_kind.get("property", ()):
            extra.setdefault(atom.value[0], []).append(atom.value[1])
        declared = dict.fromkeys(name for properties, *_ in objects for name in properties)
        low = max((atom.value for atom in by_kind.get("minProperties", ())), default=0)
        high = min((atom.value for atom in by_kind.get("maxProperties", ())), default=None)
        others = () if loose else tuple(self._others(objects, names, {*declared, *has, *lacks}))
        demands = [] if loose else by_kind.get("other", [])
        if len(demands) > 1:
            raise UnsupportedSchema(
                demands[1].path,
                "additionalProperties, patternProperties or propertyNames",
                "must not hold (not, oneOf, if) beside another of them, which can't be enforced",
            )
        if not demands:
            properties = self._properties(objects, declared, names, has, lacks, extra)
            if properties is not None:
                yield Object(properties, others, low, high)
            return
        other = demands[0].value
        for name in (*declared, *has):
            if self._is(name, other):
                more = {
                    **extra,
                    name: [*extra.get(name, ()), *([other.value] if other.value else [])],
                }
                there = {**has, name: demands[0].path}
                properties = self._properties(objects, declared, names, there, lacks, more)
                if properties is not None:
                    yield Object(properties, others, low, high)
        properties = self._properties(objects, declared, names, has, lacks, extra)
        wanted = tuple(self._wanted(others, other))
        if properties is not None and wanted:
            yield Object(properties, others, low, high, wanted)

    def _is(self, name: str, other: Other) -> bool:
        """Whether a property of this name could be the one."""
        return (
            name not in other.none_of
            and all(matches(pattern, name) for pattern in other.matching)
            and not any(matches(pattern, name) for pattern in other.not_matching)
            and (
                other.name is None
                or satisfies(name, self.document.schemas[other.name.node], self.document.resolve)
                == other.name.positive
            )
        )

    def _wanted(
        self, others: Iterable[tuple[Text, Conjunction]], other: Other
    ) -> Iterator[tuple[Text, Conjunction]]:
        """Those of the names that are not listed, and their values, that could be the one."""
        terms = tuple(("is", name, False) for name in sorted(other.none_of))
        terms += tuple(("pattern", each, True) for each in other.matching)
        terms += tuple(("pattern", each, False) for each in other.not_matching)
        named: list[tuple] = [()]
        if other.name is not None:
            branches = self.branches(self.document.conjunction([other.name]))
            named = [branch.terms for branch in branches if isinstance(branch, Text)]
            strings = [v for b in branches if isinstance(b, Values) for v in b.values]
            strings = [value for value in strings if isinstance(value, str)]
            named += [(("one of", tuple(strings), True),)] if strings else []
        for text, inner in others:
            value = self.document.conjunction([*inner, *([other.value] if other.value else [])])
            if not self.document.is_false(value):
                for each in named:
                    yield Text(tuple(dict.fromkeys(text.terms + terms + each))), value

    def _properties(
        self,
        objects: list,
        declared: dict[str, None],
        names: list[Literal],
        has: dict[str, str],
        lacks: set[str],
        extra: dict[str, list[Literal]],
    ) -> tuple[tuple[str, Conjunction, bool], ...] | None:
        """What is listed, in order; None if something that must be there can't be."""
        if lacks & has.keys():
            return None
        properties = []
        for name in (*declared, *(name for name in has if name not in declared)):
            literals = extra.get(name, [])[:]
            forbidden = name in lacks or not all(
                satisfies(name, self.document.schemas[node], self.document.resolve)
                for node, _ in names
            )
            for own, patterns, additional, closed in objects:
                parts = [part for pattern, part in patterns.items() if matches(pattern, name)]
                parts += [own[name]] if name in own else []
                if not parts and additional is not None:
                    parts = [additional]
                if not parts and closed and name not in declared:
                    forbidden = True
                literals += parts
            inner = self.document.conjunction(literals)
            if forbidden or self.document.is_false(inner):
                if name in has:
                    return None
                continue
            properties.append((name, inner, name in has))
        return tuple(properties)

    def _others(self, objects, names: list[Literal], declared: set[str]):
        """Classes of names that are not declared, by the patterns that they match."""
        stated = [additional for _, _, additional, _ in objects if additional is not None]
        lists = any(properties or patterns for properties, patterns, _, _ in objects)
        is_open = bool(stated) or not lists
        if any(closed for *_, closed in objects) and not stated:
            is_open = False
        base = tuple(("is", name, False) for name in sorted(declared))
        every = dict.fromkeys(pattern for _, patterns, _, _ in objects for pattern in patterns)
        if len(every) > 6:
            raise UnsupportedSchema("#", "patternProperties", "has more than 6 patterns")
        for chosen in range(1 << len(every)):
            matched = {pattern for at, pattern in enumerate(every) if chosen >> at & 1}
            if not matched and not is_open:
                continue
            literals = []
            for _, patterns, additional, _ in objects:
                own = [part for pattern, part in patterns.items() if pattern in matched]
                literals += own or ([additional] if additional is not None else [])
            inner = self.document.conjunction(literals)
            if self.document.is_false(inner):
                continue
            terms = base + tuple(("pattern", each, each in matched) for each in every)
            if not names:
                yield Text(terms), inner
                continue
            for branch in self.branches(self.document.conjunction(names)):
                if isinstance(branch, Text):
                    yield Text(tuple(dict.fromkeys(branch.terms + terms))), inner
                elif isinstance(branch, Values):
                    chosen_names = [
                        v
                        for v in branch.values
                        if isinstance(v, str)
                        and v not in declared
                        and all(matches(p, v) == (p in matched) for p in every)
                    ]
                    if chosen_names:
                        yield Text((("one of", tuple(chosen_names), True),)), inner
