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


def is_plain(root: Any) -> bool:
    """Whether every keyword in the schema is one that xgrammar 0.2.7 keeps where it stands.

    One visit for every subschema, definitions that nothing refers to included.
    """
    pending = [root]
    while pending:
        schema = pending.pop()
        if not isinstance(schema, dict):
            return False
        spoken = _SPEAKING & schema.keys()
        if spoken == {"type"} and isinstance(schema["type"], str):
            pass
        elif "properties" in spoken or spoken == {"type", "additionalProperties"}:
            properties = schema.get("properties", {})
            if not _is_plain_object(schema, properties, spoken):
                return False
            pending += properties.values()
        elif "items" in spoken:
            if schema.get("type") != "array":
                return False
            if not spoken <= {"type", "items", "minItems", "maxItems"}:
                return False
            pending.append(schema["items"])
        elif spoken == {"$ref"}:
            if not _resolves(root, schema["$ref"]):
                return False
        elif spoken == {"anyOf"}:
            if not isinstance(schema["anyOf"], list):
                return False
            pending += schema["anyOf"]
        elif not _is_plain_leaf(schema, spoken):
            return False
        for keyword in ("$defs", "definitions"):
            if keyword in schema:
                if not isinstance(schema[keyword], dict):
                    return False
                pending += schema[keyword].values()
    return True


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
