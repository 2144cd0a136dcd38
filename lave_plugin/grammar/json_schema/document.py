"""The subschemas of a schema by number, and what a `$ref` names."""

from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote

from lave_plugin.grammar.json_schema.errors import UnsupportedSchema
from lave_plugin.grammar.json_schema.keywords import OTHER_KEYWORDS, TYPE_OF, UNKNOWN_SCOPE


class Literal(NamedTuple):
    """A subschema, by number, that must hold or must not."""

    node: int
    positive: bool


Conjunction = tuple[Literal, ...]
"""Sorted and without repetition; the empty one is any value."""


class Document:
    """One schema.

    Args:
        root: The schema as `json.loads` gives it; kept, and never changed.

    Attributes:
        schemas, paths: The subschemas that were asked for, and where each of them stands.
    """

    def __init__(self, root: Any) -> None:
        self._root = root
        self.schemas: list[Any] = []
        self.paths: list[str] = []
        self._by_identity: dict[int, int] = {}
        self._made: dict[tuple, int] = {}
        self.start: Conjunction = self.conjunction([self.literal(root, "#")])

    def conjunction(self, literals: Iterable[Literal]) -> Conjunction:
        """The literals in order, without those that say nothing."""
        return tuple(sorted({each for each in literals if not self._says_nothing(each)}))

    def path(self, conjunction: Conjunction) -> str:
        """Where the conjunction comes from, for a message."""
        return self.paths[conjunction[0].node] if conjunction else "#"

    def literal(self, schema: Any, path: str, positive: bool = True) -> Literal:
        if isinstance(schema, bool):
            return Literal(self.make(("bool", schema), schema, path), positive)
        if not isinstance(schema, dict):
            raise UnsupportedSchema(path, "the schema", "is neither an object nor true or false")
        number = self._by_identity.get(id(schema))
        if number is None:
            number = self._by_identity[id(schema)] = self._add(schema, path)
        return Literal(number, positive)

    def _add(self, schema: Any, path: str) -> int:
        self.schemas.append(schema)
        self.paths.append(path)
        return len(self.schemas) - 1

    def make(self, key: tuple, schema: Any, path: str) -> int:
        if key not in self._made:
            self._made[key] = self._add(schema, path)
        return self._made[key]

    def _says_nothing(self, literal: Literal) -> bool:
        schema = self.schemas[literal.node]
        if isinstance(schema, bool):
            return schema == literal.positive
        return literal.positive and not any(
            keyword in TYPE_OF or keyword in OTHER_KEYWORDS or keyword in UNKNOWN_SCOPE
            for keyword in schema
        )

    def is_false(self, conjunction: Conjunction) -> bool:
        return any(
            self.schemas[node] is not positive
            for node, positive in conjunction
            if isinstance(self.schemas[node], bool)
        )

    def resolve(self, reference: str) -> Any:
        """The schema that a `$ref` names."""
        return self.located(reference, "#")[0]

    def located(self, reference: Any, path: str) -> tuple[Any, str]:
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
