"""The disjunctive normal form of a conjunction of subschemas: ways, which are lists of atoms."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from lave_plugin.grammar.json_schema.document import Conjunction, Document, Literal
from lave_plugin.grammar.json_schema.errors import UnsupportedSchema
from lave_plugin.grammar.json_schema.keywords import (
    OF_TYPE,
    TYPE_OF,
    TYPES,
    UNKNOWN_SCOPE,
    bounds_of,
    count_of,
    expect,
    names_of,
    types_named,
    types_of,
)

_MOST_WAYS = 512


class Atom(NamedTuple):
    """What a single keyword says; `path` is where."""

    kind: str
    value: Any
    path: str


class Other(NamedTuple):
    """A property that there must be, by what its name is and by what its value satisfies."""

    none_of: frozenset[str]
    matching: tuple[str, ...]
    not_matching: tuple[str, ...]
    name: Literal | None
    value: Literal | None


class Or(NamedTuple):
    """One of the ways must hold: lists of literals, atoms and further choices."""

    ways: list[list]


class Ways:
    """The ways in which conjunctions of a document hold.

    Args:
        may_hold: False only where no value satisfies a conjunction: alternatives of `oneOf` that
            exclude each other anyway need not be told so.
    """

    def __init__(self, document: Document, may_hold: Callable[[Conjunction], bool]) -> None:
        self._document = document
        self._may_hold = may_hold

    def of(self, conjunction: Conjunction, *, loose: bool = False) -> Iterator[list[Atom]]:
        """The disjunctive normal form; `loose` passes over what a look need not know."""
        count = 0
        pending: list[tuple[list, list[Atom], frozenset[Literal]]] = [
            (list(conjunction[::-1]), [], frozenset())
        ]
        while pending:
            todo, atoms, seen = pending.pop()
            while todo:
                item = todo.pop()
                if isinstance(item, Atom):
                    atoms.append(item)
                    continue
                if isinstance(item, Literal):
                    if item in seen or (loose and not item.positive):
                        continue
                    if item._replace(positive=not item.positive) in seen:
                        break
                    seen = seen | {item}
                    todo += (
                        self._positive(item.node, loose)
                        if item.positive
                        else [Or(self._negative(item.node))]
                    )[::-1]
                    continue
                if not item.ways:
                    break
                for way in item.ways[:0:-1]:
                    pending.append(([*todo, *way[::-1]], list(atoms), seen))
                todo += item.ways[0][::-1]
            else:
                count += 1
                if count > _MOST_WAYS:
                    raise UnsupportedSchema(
                        self._document.path(conjunction),
                        "anyOf, oneOf, not, if or dependencies",
                        f"leave more than {_MOST_WAYS} combinations; name fewer alternatives",
                    )
                yield atoms

    def _positive(self, node: int, loose: bool) -> list:
        schema, path = self._document.schemas[node], self._document.paths[node]
        if isinstance(schema, bool):
            return [] if schema else [Or([])]
        items: list = []
        for keyword in schema:
            if keyword in UNKNOWN_SCOPE:
                raise UnsupportedSchema(path, keyword, "can't be enforced; use $ref")

        def child(*steps: Any, positive: bool = True) -> Literal:
            part, where = schema, path
            for step in steps:
                part = part[step]
                where += "/" + str(step).replace("~", "~0").replace("/", "~1")
            return self._document.literal(part, where, positive)

        def all_children(keyword: str) -> list[Literal]:
            expect(isinstance(schema[keyword], list), path, keyword)
            return [child(keyword, at) for at in range(len(schema[keyword]))]

        if "$ref" in schema:
            items.append(self._document.literal(*self._document.located(schema["$ref"], path)))
        if "type" in schema:
            items.append(Atom("type", types_named(schema["type"], path), path))
        for keyword in ("enum", "const"):
            if keyword in schema:
                values = schema[keyword] if keyword == "enum" else [schema[keyword]]
                expect(isinstance(values, list), path, keyword)
                items.append(Atom("in", values, path))
        for keyword, kind in TYPE_OF.items():
            if keyword in schema:
                items.append(Atom("speaks of", kind, path))
        items += self._typed_atoms(schema, path, child)
        if "allOf" in schema:
            items += all_children("allOf")
        if "anyOf" in schema:
            items.append(Or([[each] for each in all_children("anyOf")]))
        if "oneOf" in schema:
            literals = all_children("oneOf")
            items.append(Or([self._only(at, literals, loose) for at in range(len(literals))]))
        if "not" in schema:
            items.append(child("not", positive=False))
        if "if" in schema:
            condition = child("if")
            then = [child("then")] if "then" in schema else []
            otherwise = [child("else")] if "else" in schema else []
            if then or otherwise:
                holds_not = condition._replace(positive=False)
                items.append(Or([[condition, *then], [holds_not, *otherwise]]))
        return items

    def _only(self, at: int, literals: list[Literal], loose: bool) -> list[Literal]:
        """One of `oneOf`, and none of the others that could hold as well."""
        literal = literals[at]
        if loose:
            return [literal]
        return [
            literal,
            *(
                other._replace(positive=False)
                for other in (*literals[:at], *literals[at + 1 :])
                if self._may_hold(self._document.conjunction([literal, other]))
            ),
        ]

    def _typed_atoms(self, schema: dict, path: str, child) -> Iterator[Atom]:
        for keyword in ("minLength", "maxLength"):
            if keyword in schema:
                count = count_of(schema, keyword, path)
                yield Atom("string", (keyword, count, True), path)
        if "pattern" in schema:
            expect(isinstance(schema["pattern"], str), path, "pattern")
            yield Atom("string", ("pattern", schema["pattern"], True), path)
        if "format" in schema:
            yield Atom("string", ("format", schema["format"], True), path)
        for operator, bound in bounds_of(schema, path):
            yield Atom("number", (operator, bound), path)
        if {"items", "prefixItems", "additionalItems", "unevaluatedItems"} & schema.keys():
            yield Atom("items", self._items(schema, path, child), path)
        for keyword in ("minItems", "maxItems", "minProperties", "maxProperties"):
            if keyword in schema:
                yield Atom(keyword, count_of(schema, keyword, path), path)
        if schema.get("uniqueItems"):
            yield Atom("unique", None, path)
        if "contains" in schema and schema.get("minContains", 1) != 0:
            if "maxContains" in schema:
                raise UnsupportedSchema(path, "maxContains", "can't be enforced")
            yield Atom("contains", (child("contains"), schema.get("minContains", 1)), path)
        elif "maxContains" in schema and "contains" in schema:
            raise UnsupportedSchema(path, "maxContains", "can't be enforced")
        for name in names_of(schema, "required", path):
            yield Atom("has", name, path)
        if {"properties", "patternProperties", "additionalProperties"} & schema.keys() or (
            "unevaluatedProperties" in schema
        ):
            yield Atom("object", self._object(schema, path, child), path)
        if "propertyNames" in schema:
            yield Atom("names", child("propertyNames"), path)
        for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
            expect(isinstance(schema.get(keyword, {}), dict), path, keyword)
            for name, demand in schema.get(keyword, {}).items():
                if isinstance(demand, list):
                    ways = [Atom("has", each, path) for each in demand]
                else:
                    ways = [child(keyword, name)]
                is_object = Atom("type", frozenset(["object"]), path)
                has = [is_object, Atom("has", name, path), *ways]
                yield Or([has, [Atom("lacks", name, path)]])

    def _negative(self, node: int) -> list[list]:
        """The ways in which the schema does not hold."""
        schema, path = self._document.schemas[node], self._document.paths[node]
        if isinstance(schema, bool):
            return [] if schema else [[]]
        ways: list[list] = []

        def of_type(*names: str) -> Atom:
            kinds = frozenset().union(*(types_of(name) for name in names))
            return Atom("type", kinds, path)

        def child(*steps: Any, positive: bool = True) -> Literal:
            part, where = schema, path
            for step in steps:
                part = part[step]
                where += "/" + str(step).replace("~", "~0").replace("/", "~1")
            return self._document.literal(part, where, positive)

        def lacking(keyword: str, name: str) -> Literal:
            return child(keyword, name, positive=False)

        for keyword in schema:
            match keyword:
                case "$ref":
                    ways.append(
                        [
                            self._document.literal(
                                *self._document.located(schema["$ref"], path), False
                            )
                        ]
                    )
                case "type":
                    others = frozenset(TYPES) - types_named(schema["type"], path)
                    ways.append([Atom("type", others, path)])
                case "enum" | "const":
                    values = schema[keyword] if keyword == "enum" else [schema[keyword]]
                    ways.append([Atom("not in", values, path)])
                case "allOf":
                    ways += [
                        [child("allOf", at, positive=False)] for at in range(len(schema[keyword]))
                    ]
                case "anyOf":
                    ways.append(
                        [child("anyOf", at, positive=False) for at in range(len(schema[keyword]))]
                    )
                case "oneOf":
                    each = [child("oneOf", at) for at in range(len(schema[keyword]))]
                    ways.append([one._replace(positive=False) for one in each])
                    ways += [[one, other] for at, one in enumerate(each) for other in each[:at]]
                case "not":
                    ways.append([child("not")])
                case "if":
                    for branch, holds in (("then", True), ("else", False)):
                        if branch in schema:
                            ways.append(
                                [child("if", positive=holds), child(branch, positive=False)]
                            )
                case "minLength" | "maxLength" | "pattern" | "format":
                    term = (keyword, schema[keyword], False)
                    ways.append([of_type("string"), Atom("string", term, path)])
                case "minItems" | "minProperties":
                    kind, opposite = (
                        ("array", "maxItems")
                        if keyword == "minItems"
                        else ("object", "maxProperties")
                    )
                    count = count_of(schema, keyword, path)
                    if count:
                        ways.append([of_type(kind), Atom(opposite, count - 1, path)])
                case "maxItems" | "maxProperties":
                    kind, opposite = (
                        ("array", "minItems")
                        if keyword == "maxItems"
                        else ("object", "minProperties")
                    )
                    count = count_of(schema, keyword, path)
                    ways.append([of_type(kind), Atom(opposite, count + 1, path)])
                case "required":
                    ways += [
                        [of_type("object"), Atom("lacks", name, path)]
                        for name in names_of(schema, keyword, path)
                    ]
                case "properties":
                    ways += [
                        [
                            of_type("object"),
                            Atom("has", name, path),
                            Atom("property", (name, lacking(keyword, name)), path),
                        ]
                        for name in schema[keyword]
                    ]
                case "dependencies" | "dependentRequired" | "dependentSchemas":
                    for name, demand in schema[keyword].items():
                        has = [of_type("object"), Atom("has", name, path)]
                        if isinstance(demand, list):
                            ways += [[*has, Atom("lacks", each, path)] for each in demand]
                        else:
                            ways.append([*has, lacking(keyword, name)])
                case "contains" if "minContains" not in schema and "maxContains" not in schema:
                    none = self._document.make(
                        ("no", id(schema)), {"items": {"not": schema["contains"]}}, path
                    )
                    ways.append([of_type("array"), Literal(none, True)])
                case "items" if not isinstance(schema[keyword], list) | ("prefixItems" in schema):
                    lacking_it = Atom("contains", (child("items", positive=False), 1), path)
                    ways.append([of_type("array"), lacking_it])
                case "additionalProperties" | "patternProperties" | "propertyNames":
                    ways += [
                        [of_type("object"), Atom("other", other, path)]
                        for other in self._others(keyword, schema, child)
                    ]
                case "then" | "else" | "minContains" | "maxContains":
                    pass  # with `if` and `contains`
                case _ if keyword in TYPE_OF and keyword not in OF_TYPE["number"]:
                    if keyword == "uniqueItems" and not schema[keyword]:
                        continue
                    raise UnsupportedSchema(
                        path, keyword, "can't be enforced where it must not hold (not, oneOf, if)"
                    )
        opposite = {
            "min": "below",
            "max": "above",
            "above": "max",
            "below": "min",
            "multiple": "apart",
        }
        for operator, bound in bounds_of(schema, path):
            ways.append([of_type("number"), Atom("number", (opposite[operator], bound), path)])
        return ways

    def _others(self, keyword: str, schema: dict, child) -> Iterator[Other]:
        """The properties of which any would do to break the keyword."""
        patterns = tuple(schema.get("patternProperties", ()))
        if keyword == "additionalProperties":
            named = frozenset(schema.get("properties", ()))
            yield Other(named, (), patterns, None, child(keyword, positive=False))
        elif keyword == "propertyNames":
            yield Other(frozenset(), (), (), child(keyword, positive=False), None)
        else:
            for pattern in patterns:
                value = child(keyword, pattern, positive=False)
                yield Other(frozenset(), (pattern,), (), None, value)

    def _items(self, schema: dict, path: str, child) -> tuple[list[Literal], Literal | None]:
        items = schema.get("items")
        if isinstance(items, list):
            prefix = [child("items", at) for at in range(len(items))]
            rest = child("additionalItems") if "additionalItems" in schema else None
        else:
            expect(isinstance(schema.get("prefixItems", []), list), path, "prefixItems")
            prefix = [child("prefixItems", at) for at in range(len(schema.get("prefixItems", [])))]
            rest = child("items") if "items" in schema else None
        if schema.get("unevaluatedItems", False) not in (False, True):
            raise UnsupportedSchema(path, "unevaluatedItems", "can only be true or false here")
        if "unevaluatedItems" not in schema and not prefix and rest is None:
            rest = self._document.literal(True, path)  # additionalItems alone says nothing
        return prefix, rest

    def _object(self, schema: dict, path: str, child):
        for keyword in ("properties", "patternProperties"):
            expect(isinstance(schema.get(keyword, {}), dict), path, keyword)
        if schema.get("unevaluatedProperties", False) not in (False, True):
            raise UnsupportedSchema(path, "unevaluatedProperties", "can only be true or false here")
        properties = {name: child("properties", name) for name in schema.get("properties", {})}
        patterns = {
            pattern: child("patternProperties", pattern)
            for pattern in schema.get("patternProperties", {})
        }
        additional = child("additionalProperties") if "additionalProperties" in schema else None
        return properties, patterns, additional, schema.get("unevaluatedProperties") is False
