"""JSON schema's keywords, and their values as far as a schema has them right."""

from collections.abc import Iterator
from typing import Any

from lave_plugin.grammar.json_schema.check import is_type
from lave_plugin.grammar.json_schema.errors import UnsupportedSchema

TYPES = ("null", "boolean", "integer", "fraction", "string", "array", "object")
"""JSON schema's types; a number is an integer or a fraction."""

OF_TYPE = {
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
TYPE_OF = {keyword: kind for kind, keywords in OF_TYPE.items() for keyword in keywords}
OTHER_KEYWORDS = {
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
UNKNOWN_SCOPE = ("$dynamicRef", "$recursiveRef")


def types_of(name: str) -> frozenset[str]:
    return frozenset(("integer", "fraction") if name == "number" else (name,))


def expect(fine: bool, path: str, keyword: str) -> None:
    if not fine:
        raise UnsupportedSchema(path, keyword, "has a value of the wrong type")


def count_of(schema: dict, keyword: str, path: str) -> int:
    count = schema[keyword]
    if isinstance(count, float) and count.is_integer():
        count = int(count)
    expect(is_type(count, "integer") and count >= 0, path, keyword)
    return count


def names_of(schema: dict, keyword: str, path: str) -> list[str]:
    names = schema.get(keyword, [])
    fine = isinstance(names, list) and all(isinstance(name, str) for name in names)
    expect(fine, path, keyword)
    return names


def types_named(names: Any, path: str) -> frozenset[str]:
    names = names if isinstance(names, list) else [names]
    known = {*TYPES, "number"} - {"fraction"}
    expect(all(isinstance(name, str) and name in known for name in names), path, "type")
    return frozenset().union(*(types_of(name) for name in names))


def bounds_of(schema: dict, path: str) -> Iterator[tuple[str, Any]]:
    for keyword in OF_TYPE["number"]:
        if keyword in schema:
            flag = keyword.startswith("exclusive") and isinstance(schema[keyword], bool)
            expect(flag or is_type(schema[keyword], "number"), path, keyword)
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
