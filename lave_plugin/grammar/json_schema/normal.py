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
from urllib.parse import unquote

from lave_plugin.grammar.json_schema.check import is_type, matches, same, satisfies
from lave_plugin.grammar.json_schema.errors import UnsupportedSchema
from lave_plugin.grammar.json_schema.formats import EXPRESSIONS

TYPES = ("null", "boolean", "integer", "fraction", "string", "array", "object")
"""JSON schema's types; a number is an integer or a fraction."""

_MOST_WAYS = 512


class Literal(NamedTuple):
    """A subschema, by number, that must hold or must not."""

    node: int
    positive: bool


Conjunction = tuple[Literal, ...]
"""Sorted and without repetition; the empty one is any value."""


class Atom(NamedTuple):
    """What a single keyword says; `path` is where."""

    kind: str
    value: Any
    path: str


class Or(NamedTuple):
    """One of the ways must hold: lists of literals, atoms and further choices."""

    ways: list[list]


class Values(NamedTuple):
    """One of a few values."""

    values: tuple[Any, ...]


class Text(NamedTuple):
    """A string; every term is (kind, argument, whether it must hold)."""

    terms: tuple[tuple[str, Any, bool], ...]


class Number(NamedTuple):
    """A number; the terms are (operator, bound) with min, max, above, below, multiple, not."""

    integer: bool
    terms: tuple[tuple[str, Any], ...]


class Array(NamedTuple):
    """An array: `prefix`, then `rest` (None: nothing), `low` to `high` items in all."""

    prefix: tuple[Conjunction, ...]
    rest: Conjunction | None
    low: int
    high: int | None
    contains: tuple[Literal, int] | None
    """At least so many items satisfy the literal."""
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


Branch = Values | Text | Number | Array | Object

_OF_TYPE = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": (
        "items",
        "prefixItems",
        "additionalItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "unevaluatedItems",
    ),
    "object": (
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedProperties",
    ),
}
_TYPE_OF = {keyword: kind for kind, keywords in _OF_TYPE.items() for keyword in keywords}
_OTHER_KEYWORDS = {
    "type",
    "enum",
    "const",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
}
_UNKNOWN_SCOPE = ("$dynamicRef", "$recursiveRef")


def _types(name: str) -> frozenset[str]:
    return frozenset(("integer", "fraction") if name == "number" else (name,))


class Reader:
    """Reads one schema.

    Parameters
    ----------
    root
        The schema as `json.loads` gives it; kept, and never changed.
    """

    def __init__(self, root: Any) -> None:
        self._root = root
        self._schemas: list[Any] = []
        self._paths: list[str] = []
        self._by_identity: dict[int, int] = {}
        self._made: dict[tuple, int] = {}
        self._branches: dict[Conjunction, list[Branch]] = {}
        self.start: Conjunction = self.conjunction([self._literal(root, "#")])

    def branches(self, conjunction: Conjunction) -> list[Branch]:
        """The alternatives of a conjunction; none if nothing satisfies it.

        Raises
        ------
        UnsupportedSchema
            If a keyword can't be enforced.
        """
        if conjunction not in self._branches:
            self._branches[conjunction] = list(self._read(conjunction))
        return self._branches[conjunction]

    def conjunction(self, literals: Iterable[Literal]) -> Conjunction:
        """The literals in order, without those that say nothing."""
        return tuple(sorted({each for each in literals if not self._says_nothing(each)}))

    def path(self, conjunction: Conjunction) -> str:
        """Where the conjunction comes from, for a message."""
        return self._paths[conjunction[0].node] if conjunction else "#"

    def may_hold(self, conjunction: Conjunction, depth: int = 3) -> bool:
        """False only if no value satisfies the conjunction; a look that goes `depth` deep."""
        if depth == 0:
            return True
        for way in self._ways(conjunction, loose=True):
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

    def _literal(self, schema: Any, path: str, positive: bool = True) -> Literal:
        if isinstance(schema, bool):
            return Literal(self._make(("bool", schema), schema, path), positive)
        if not isinstance(schema, dict):
            raise UnsupportedSchema(path, "the schema", "is neither an object nor true or false")
        number = self._by_identity.get(id(schema))
        if number is None:
            number = self._by_identity[id(schema)] = self._add(schema, path)
        return Literal(number, positive)

    def _add(self, schema: Any, path: str) -> int:
        self._schemas.append(schema)
        self._paths.append(path)
        return len(self._schemas) - 1

    def _make(self, key: tuple, schema: Any, path: str) -> int:
        if key not in self._made:
            self._made[key] = self._add(schema, path)
        return self._made[key]

    def _says_nothing(self, literal: Literal) -> bool:
        schema = self._schemas[literal.node]
        if isinstance(schema, bool):
            return schema == literal.positive
        return literal.positive and not any(
            keyword in _TYPE_OF or keyword in _OTHER_KEYWORDS or keyword in _UNKNOWN_SCOPE
            for keyword in schema
        )

    def _is_false(self, conjunction: Conjunction) -> bool:
        return any(
            self._schemas[node] is not positive
            for node, positive in conjunction
            if isinstance(self._schemas[node], bool)
        )

    def resolve(self, reference: str) -> Any:
        """The schema that a `$ref` names."""
        return self._resolve(reference, "#")[0]

    def _resolve(self, reference: Any, path: str) -> tuple[Any, str]:
        if not isinstance(reference, str) or not (reference == "#" or reference[:2] == "#/"):
            raise UnsupportedSchema(
                path, "$ref", f"names {reference!r}; only what is in the same schema can be named"
            )
        schema = self._root
        for step in reference.split("/")[1:]:
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(schema, list) and step.isdigit() and int(step) < len(schema):
                schema = schema[int(step)]
            elif isinstance(schema, dict) and step in schema:
                schema = schema[step]
            else:
                raise UnsupportedSchema(path, "$ref", f"names {reference!r}, which is not there")
        return schema, reference

    # From literals to ways.

    def _ways(self, conjunction: Conjunction, *, loose: bool = False) -> Iterator[list[Atom]]:
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
                        self.path(conjunction),
                        "anyOf, oneOf, not, if or dependencies",
                        f"leave more than {_MOST_WAYS} combinations; name fewer alternatives",
                    )
                yield atoms

    def _positive(self, node: int, loose: bool) -> list:
        schema, path = self._schemas[node], self._paths[node]
        if isinstance(schema, bool):
            return [] if schema else [Or([])]
        items: list = []
        for keyword in schema:
            if keyword in _UNKNOWN_SCOPE:
                raise UnsupportedSchema(path, keyword, "can't be enforced; use $ref")

        def child(*steps: Any, positive: bool = True) -> Literal:
            part, where = schema, path
            for step in steps:
                part = part[step]
                where += "/" + str(step).replace("~", "~0").replace("/", "~1")
            return self._literal(part, where, positive)

        def all_children(keyword: str) -> list[Literal]:
            self._expect(isinstance(schema[keyword], list), path, keyword)
            return [child(keyword, at) for at in range(len(schema[keyword]))]

        if "$ref" in schema:
            items.append(self._literal(*self._resolve(schema["$ref"], path)))
        if "type" in schema:
            items.append(Atom("type", self._type_names(schema["type"], path), path))
        for keyword in ("enum", "const"):
            if keyword in schema:
                values = schema[keyword] if keyword == "enum" else [schema[keyword]]
                self._expect(isinstance(values, list), path, keyword)
                items.append(Atom("in", values, path))
        for keyword, kind in _TYPE_OF.items():
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
                if self.may_hold(self.conjunction([literal, other]))
            ),
        ]

    def _typed_atoms(self, schema: dict, path: str, child) -> Iterator[Atom]:
        for keyword in ("minLength", "maxLength"):
            if keyword in schema:
                count = self._count(schema, keyword, path)
                yield Atom("string", (keyword, count, True), path)
        if "pattern" in schema:
            self._expect(isinstance(schema["pattern"], str), path, "pattern")
            yield Atom("string", ("pattern", schema["pattern"], True), path)
        if "format" in schema:
            yield Atom("string", ("format", schema["format"], True), path)
        for operator, bound in self._bounds(schema, path):
            yield Atom("number", (operator, bound), path)
        if {"items", "prefixItems", "additionalItems", "unevaluatedItems"} & schema.keys():
            yield Atom("items", self._items(schema, path, child), path)
        for keyword in ("minItems", "maxItems", "minProperties", "maxProperties"):
            if keyword in schema:
                yield Atom(keyword, self._count(schema, keyword, path), path)
        if schema.get("uniqueItems"):
            yield Atom("unique", None, path)
        if "contains" in schema and schema.get("minContains", 1) != 0:
            if "maxContains" in schema:
                raise UnsupportedSchema(path, "maxContains", "can't be enforced")
            yield Atom("contains", (child("contains"), schema.get("minContains", 1)), path)
        elif "maxContains" in schema and "contains" in schema:
            raise UnsupportedSchema(path, "maxContains", "can't be enforced")
        for name in self._names(schema, "required", path):
            yield Atom("has", name, path)
        if {"properties", "patternProperties", "additionalProperties"} & schema.keys() or (
            "unevaluatedProperties" in schema
        ):
            yield Atom("object", self._object(schema, path, child), path)
        if "propertyNames" in schema:
            yield Atom("names", child("propertyNames"), path)
        for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
            self._expect(isinstance(schema.get(keyword, {}), dict), path, keyword)
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
        schema, path = self._schemas[node], self._paths[node]
        if isinstance(schema, bool):
            return [] if schema else [[]]
        ways: list[list] = []

        def of_type(*names: str) -> Atom:
            kinds = frozenset().union(*(_types(name) for name in names))
            return Atom("type", kinds, path)

        def child(*steps: Any, positive: bool = True) -> Literal:
            part, where = schema, path
            for step in steps:
                part = part[step]
                where += "/" + str(step).replace("~", "~0").replace("/", "~1")
            return self._literal(part, where, positive)

        def lacking(keyword: str, name: str) -> Literal:
            return child(keyword, name, positive=False)

        for keyword in schema:
            match keyword:
                case "$ref":
                    ways.append([self._literal(*self._resolve(schema["$ref"], path), False)])
                case "type":
                    others = frozenset(TYPES) - self._type_names(schema["type"], path)
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
                    count = self._count(schema, keyword, path)
                    if count:
                        ways.append([of_type(kind), Atom(opposite, count - 1, path)])
                case "maxItems" | "maxProperties":
                    kind, opposite = (
                        ("array", "minItems")
                        if keyword == "maxItems"
                        else ("object", "minProperties")
                    )
                    count = self._count(schema, keyword, path)
                    ways.append([of_type(kind), Atom(opposite, count + 1, path)])
                case "required":
                    ways += [
                        [of_type("object"), Atom("lacks", name, path)]
                        for name in self._names(schema, keyword, path)
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
                    none = self._make(
                        ("no", id(schema)), {"items": {"not": schema["contains"]}}, path
                    )
                    ways.append([of_type("array"), Literal(none, True)])
                case "then" | "else" | "minContains" | "maxContains":
                    pass  # with `if` and `contains`
                case _ if keyword in _TYPE_OF and keyword not in _OF_TYPE["number"]:
                    if keyword == "uniqueItems" and not schema[keyword]:
                        continue
                    raise UnsupportedSchema(
                        path, keyword, "can't be enforced where it must not hold (not, oneOf, if)"
                    )
        opposite = {"min": "below", "max": "above", "above": "max", "below": "min"}
        for operator, bound in self._bounds(schema, path):
            if operator == "multiple":
                raise UnsupportedSchema(
                    path, "multipleOf", "can't be enforced where it must not hold (not, oneOf, if)"
                )
            ways.append([of_type("number"), Atom("number", (opposite[operator], bound), path)])
        return ways

    # What the keywords hold.

    def _expect(self, fine: bool, path: str, keyword: str) -> None:
        if not fine:
            raise UnsupportedSchema(path, keyword, "has a value of the wrong type")

    def _count(self, schema: dict, keyword: str, path: str) -> int:
        count = schema[keyword]
        if isinstance(count, float) and count.is_integer():
            count = int(count)
        self._expect(is_type(count, "integer") and count >= 0, path, keyword)
        return count

    def _names(self, schema: dict, keyword: str, path: str) -> list[str]:
        names = schema.get(keyword, [])
        fine = isinstance(names, list) and all(isinstance(name, str) for name in names)
        self._expect(fine, path, keyword)
        return names

    def _type_names(self, names: Any, path: str) -> frozenset[str]:
        names = names if isinstance(names, list) else [names]
        known = {*TYPES, "number"} - {"fraction"}
        self._expect(all(isinstance(name, str) and name in known for name in names), path, "type")
        return frozenset().union(*(_types(name) for name in names))

    def _bounds(self, schema: dict, path: str) -> Iterator[tuple[str, Any]]:
        for keyword in _OF_TYPE["number"]:
            if keyword in schema:
                flag = keyword.startswith("exclusive") and isinstance(schema[keyword], bool)
                self._expect(flag or is_type(schema[keyword], "number"), path, keyword)
        # Draft 4's exclusive bounds are flags.
        if "minimum" in schema:
            strict = schema.get("exclusiveMinimum") is True
            yield "above" if strict else "min", schema["minimum"]
        if "maximum" in schema:
            strict = schema.get("exclusiveMaximum") is True
            yield "below" if strict else "max", schema["maximum"]
        if not isinstance(schema.get("exclusiveMinimum", True), bool):
            yield "above", schema["exclusiveMinimum"]
        if not isinstance(schema.get("exclusiveMaximum", True), bool):
            yield "below", schema["exclusiveMaximum"]
        if "multipleOf" in schema:
            yield "multiple", schema["multipleOf"]

    def _items(self, schema: dict, path: str, child) -> tuple[list[Literal], Literal | None]:
        items = schema.get("items")
        if isinstance(items, list):
            prefix = [child("items", at) for at in range(len(items))]
            rest = child("additionalItems") if "additionalItems" in schema else None
        else:
            self._expect(isinstance(schema.get("prefixItems", []), list), path, "prefixItems")
            prefix = [child("prefixItems", at) for at in range(len(schema.get("prefixItems", [])))]
            rest = child("items") if "items" in schema else None
        if schema.get("unevaluatedItems", False) not in (False, True):
            raise UnsupportedSchema(path, "unevaluatedItems", "can only be true or false here")
        if "unevaluatedItems" not in schema and not prefix and rest is None:
            rest = self._literal(True, path)  # additionalItems alone says nothing
        return prefix, rest

    def _object(self, schema: dict, path: str, child):
        for keyword in ("properties", "patternProperties"):
            self._expect(isinstance(schema.get(keyword, {}), dict), path, keyword)
        if schema.get("unevaluatedProperties", False) not in (False, True):
            raise UnsupportedSchema(path, "unevaluatedProperties", "can only be true or false here")
        properties = {name: child("properties", name) for name in schema.get("properties", {})}
        patterns = {
            pattern: child("patternProperties", pattern)
            for pattern in schema.get("patternProperties", {})
        }
        additional = child("additionalProperties") if "additionalProperties" in schema else None
        return properties, patterns, additional, schema.get("unevaluatedProperties") is False

    # From ways to branches.

    def _read(self, conjunction: Conjunction) -> Iterator[Branch]:
        seen = set()
        values: list[Any] = []
        for way in self._ways(conjunction):
            for branch in self._branches_of(way, conjunction):
                if isinstance(branch, Values):
                    values += [
                        each for each in branch.values if not any(same(each, v) for v in values)
                    ]
                elif branch not in seen:
                    seen.add(branch)
                    yield branch
        if values:
            yield Values(tuple(values))

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
                types = set().union(*(_types(kind) for kind in kinds))
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
                satisfies(value, self._schemas[node], self.resolve) == positive
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
        whole = [None if each is None else self.conjunction(each) for each in columns]
        prefix, rest = whole[:-1], whole[-1]
        contains = None
        for atom in by_kind.get("contains", ()):
            if contains is not None:
                raise UnsupportedSchema(atom.path, "contains", "stands twice for one array")
            contains = atom.value
            low = max(low, contains[1])
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
        if lacks & has.keys():
            return
        properties = []
        for name in (*declared, *(name for name in has if name not in declared)):
            literals = extra.get(name, [])[:]
            forbidden = name in lacks or not all(
                satisfies(name, self._schemas[node], self.resolve) for node, _ in names
            )
            for own, patterns, additional, closed in objects:
                parts = [part for pattern, part in patterns.items() if matches(pattern, name)]
                parts += [own[name]] if name in own else []
                if not parts and additional is not None:
                    parts = [additional]
                if not parts and closed and name not in declared:
                    forbidden = True
                literals += parts
            inner = self.conjunction(literals)
            if forbidden or self._is_false(inner):
                if name in has:
                    return
                continue
            properties.append((name, inner, name in has))
        low = max((atom.value for atom in by_kind.get("minProperties", ())), default=0)
        high = min((atom.value for atom in by_kind.get("maxProperties", ())), default=None)
        others = () if loose else tuple(self._others(objects, names, {*declared, *has, *lacks}))
        yield Object(tuple(properties), others, low, high)

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
            inner = self.conjunction(literals)
            if self._is_false(inner):
                continue
            terms = base + tuple(("pattern", each, each in matched) for each in every)
            if not names:
                yield Text(terms), inner
                continue
            for branch in self.branches(self.conjunction(names)):
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
