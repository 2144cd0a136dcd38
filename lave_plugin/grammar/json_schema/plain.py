"""Which schemas xgrammar enforces as they stand, so that they can be left to it."""

from typing import Any

# Besides these, what a schema says to people: no grammar knows of it.
_SPEAKING = frozenset(
    {
        *("type", "enum", "const", "$ref", "$dynamicRef", "$recursiveRef"),
        *("anyOf", "allOf", "oneOf", "not", "if", "then", "else"),
        *("minLength", "maxLength", "pattern", "format"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("items", "prefixItems", "additionalItems", "unevaluatedItems", "minItems", "maxItems"),
        *("uniqueItems", "contains", "minContains", "maxContains"),
        *("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
        *("unevaluatedProperties", "minProperties", "maxProperties"),
        *("dependencies", "dependentRequired", "dependentSchemas"),
    }
)
_SIMPLE_TYPES = frozenset(["null", "boolean", "integer", "number", "string"])


def unkept_keyword(root: Any, *, references: bool = True) -> tuple[str, str] | None:
    """The path and name of a keyword that xgrammar 0.2.7 doesn't keep where it stands, if any.

    One visit for every subschema, definitions that nothing refers to included. Without
    `references` a `$ref` counts as not kept.
    """
    pending = [("#", root)]
    while pending:
        path, schema = pending.pop()
        if not isinstance(schema, dict):
            return path, "a schema that is true, false or no schema at all"
        spoken = _SPEAKING & schema.keys()
        inner: list[tuple[str, Any]] = []
        if spoken == {"type"} and isinstance(schema["type"], str):
            pass
        elif "properties" in spoken or spoken == {"type", "additionalProperties"}:
            properties = schema.get("properties", {})
            if not _is_plain_object(schema, properties, spoken):
                return path, _named(spoken - {"type", "properties", "required"}, "required")
            inner = [(f"{path}/properties/{name}", each) for name, each in properties.items()]
        elif "items" in spoken:
            if schema.get("type") != "array":
                return path, "items"
            if not spoken <= {"type", "items", "minItems", "maxItems"}:
                return path, _named(spoken - {"type", "items", "minItems", "maxItems"}, "items")
            inner = [(f"{path}/items", schema["items"])]
        elif spoken == {"$ref"}:
            if not references or not _resolves(root, schema["$ref"]):
                return path, "$ref"
        elif spoken == {"anyOf"}:
            if not isinstance(schema["anyOf"], list):
                return path, "anyOf"
            inner = [(f"{path}/anyOf/{at}", each) for at, each in enumerate(schema["anyOf"])]
        elif not _is_plain_leaf(schema, spoken):
            return path, _named(spoken - {"type"}, "type")
        pending += inner
        for keyword in ("$defs", "definitions"):
            if keyword in schema:
                if not isinstance(schema[keyword], dict):
                    return path, keyword
                definitions = schema[keyword].items()
                pending += [(f"{path}/{keyword}/{name}", each) for name, each in definitions]
    return None


def _named(keywords: frozenset[str], otherwise: str) -> str:
    return ", ".join(sorted(keywords)) or otherwise


def _is_plain_object(schema: dict, properties: Any, spoken: frozenset[str]) -> bool:
    return (
        spoken <= {"type", "properties", "required", "additionalProperties"}
        and schema.get("type", "object") == "object"
        and schema.get("additionalProperties", False) is False
        and isinstance(properties, dict)
        and isinstance(schema.get("required", []), list)
        and all(isinstance(each, str) and each in properties for each in schema.get("required", []))
    )


def _is_plain_leaf(schema: dict, spoken: frozenset[str]) -> bool:
    if not spoken:
        return True
    if spoken <= {"type", "enum"} and "enum" in spoken:
        values = schema["enum"]
        return (
            isinstance(values, list)
            and bool(values)
            and all(isinstance(value, str) for value in values)
            and schema.get("type", "string") == "string"
        )
    if spoken <= {"type", "const"} and "const" in spoken:
        return isinstance(schema["const"], str) and schema.get("type", "string") == "string"
    if spoken <= {"type", "minimum", "maximum"} and schema.get("type") == "integer":
        bounds = [schema[keyword] for keyword in ("minimum", "maximum") if keyword in schema]
        return all(type(bound) is int and abs(bound) < 10**15 for bound in bounds)
    if spoken == {"type"} and isinstance(schema["type"], list):
        return all(isinstance(each, str) and each in _SIMPLE_TYPES for each in schema["type"])
    return False


def _resolves(root: Any, reference: Any) -> bool:
    if not isinstance(reference, str) or not reference.startswith("#/") or "%" in reference:
        return False
    schema = root
    for step in reference.split("/")[1:]:
        if "~" in step or not isinstance(schema, dict) or step not in schema:
            return False
        schema = schema[step]
    return True
