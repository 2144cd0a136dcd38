"""Whether a value satisfies a schema: for the values of `enum` and `const`, and for declared names.

Draft 2020-12 with what earlier drafts have beside it (`dependencies`, `items` as a list). A format
counts where it is one of `formats`; what this does not know it refuses rather than passing over.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from lave_plugin.grammar.json_schema.errors import UnsupportedSchema
from lave_plugin.grammar.json_schema.formats import EXPRESSIONS, expression

Resolve = Callable[[str], Any]
"""From the text of a `$ref` to the schema that it names."""


def satisfies(value: Any, schema: Any, resolve: Resolve, depth: int = 0) -> bool:
    """Whether `value` (of `json.loads`) is an instance of `schema`."""
    if isinstance(schema, bool):
        return schema
    if depth > 64:
        raise UnsupportedSchema("#", "$ref", "refers to itself without end")

    def holds(part: Any, inner: Any = value) -> bool:
        return satisfies(inner, part, resolve, depth + 1)

    if "$ref" in schema and not holds(resolve(schema["$ref"])):
        return False
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(is_type(value, each) for each in types):
            return False
    if "const" in schema and not same(value, schema["const"]):
        return False
    if "enum" in schema and not is_one_of(value, schema["enum"]):
        return False
    if not all(holds(each) for each in schema.get("allOf", ())):
        return False
    if "anyOf" in schema and not any(holds(each) for each in schema["anyOf"]):
        return False
    if "oneOf" in schema and sum(holds(each) for each in schema["oneOf"]) != 1:
        return False
    if "not" in schema and holds(schema["not"]):
        return False
    if "if" in schema:
        branch = "then" if holds(schema["if"]) else "else"
        if branch in schema and not holds(schema[branch]):
            return False
    if isinstance(value, str):
        return _string(value, schema)
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, int | float):
        return _number(value, schema)
    return (_array if isinstance(value, list) else _object)(value, schema, holds)


def is_type(value: Any, name: str) -> bool:
    """Whether a value is of one of JSON schema's types; 1.0 is an integer."""
    match name:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            if isinstance(value, float):
                return value.is_integer()
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
    return False


def is_one_of(value: Any, values: list[Any]) -> bool:
    """Whether some value is the same; quick for a string among many."""
    if isinstance(value, str):
        return value in values
    return any(same(value, each) for each in values)


def same(first: Any, second: Any) -> bool:
    """JSON's equality: 1 is 1.0, and neither is true."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    return (type(first) is type(second) and first == second) or (
        is_type(first, "number") and is_type(second, "number") and first == second
    )


def matches(pattern: str, text: str) -> bool:
    """A search, as JSON schema has it."""
    try:
        return re.search(pattern, text) is not None
    except re.error as error:
        raise UnsupportedSchema("#", "pattern", f"{pattern!r} can't be read ({error})") from None


def _string(value: str, schema: dict) -> bool:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        return False
    if "pattern" in schema and not matches(schema["pattern"], value):
        return False
    form = schema.get("format")
    return form not in EXPRESSIONS or re.fullmatch(expression(form)[1:-1], value) is not None


def _number(value: int | float, schema: dict) -> bool:
    # Draft 4's exclusive bounds are flags.
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if low is not None and (value < low or (above is True and value == low)):
        return False
    if high is not None and (value > high or (below is True and value == high)):
        return False
    if above is not None and not isinstance(above, bool) and value <= above:
        return False
    if below is not None and not isinstance(below, bool) and value >= below:
        return False
    step = schema.get("multipleOf")
    return step is None or Decimal(repr(value)) % Decimal(repr(step)) == 0


def _array(value: list, schema: dict, holds: Callable[..., bool]) -> bool:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return False
    items = schema.get("items", True)
    prefix = schema.get("prefixItems", ())
    if isinstance(items, list):
        prefix, items = items, schema.get("additionalItems", True)
    if not all(holds(part, each) for part, each in zip(prefix, value, strict=False)):
        return False
    if not all(holds(items, each) for each in value[len(prefix) :]):
        return False
    if "contains" in schema:
        found = sum(holds(schema["contains"], each) for each in value)
        if not schema.get("minContains", 1) <= found <= schema.get("maxContains", found):
            return False
    if schema.get("uniqueItems"):
        return not any(same(each, other) for at, each in enumerate(value) for other in value[:at])
    return True


def _object(value: dict, schema: dict, holds: Callable[..., bool]) -> bool:
    if not all(name in value for name in schema.get("required", ())):
        return False
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
        return False
    properties = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    for name, inner in value.items():
        parts = [part for pattern, part in patterns.items() if matches(pattern, name)]
        if name in properties:
            parts.append(properties[name])
        if not all(
            holds(part, inner) for part in parts or [schema.get("additionalProperties", True)]
        ):
            return False
        if "propertyNames" in schema and not holds(schema["propertyNames"], name):
            return False
    demands = {
        **schema.get("dependencies", {}),
        **schema.get("dependentRequired", {}),
    }
    for name, demand in demands.items():
        if name not in value:
            continue
        if isinstance(demand, list):
            if not all(each in value for each in demand):
                return False
        elif not holds(demand):
            return False
    return all(
        holds(part) for name, part in schema.get("dependentSchemas", {}).items() if name in value
    )
