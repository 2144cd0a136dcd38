"""JSON schemas whose every keyword is kept.

xgrammar's converter is exact on a part of JSON schema (`plain`) and lets through, in silence, what
the rest of it forbids. A schema beyond that part is read here: as alternatives without logic
(`branches`), with string keywords as automata (`pattern`, `formats`, `strings`) and so with numbers
(`numbers`), and written as a grammar (`emit`; between tags: `markup`). What can't be written so is
refused by name.
"""

import json

from lave_plugin.grammar.json_schema.branches import Reader
from lave_plugin.grammar.json_schema.document import Document
from lave_plugin.grammar.json_schema.emit import Emitter, Layout
from lave_plugin.grammar.json_schema.errors import UnsupportedSchema
from lave_plugin.grammar.json_schema.markup import STYLES, MarkupEmitter
from lave_plugin.grammar.json_schema.plain import unkept_keyword

__all__ = ["Layout", "UnsupportedSchema", "exact_grammar"]


def exact_grammar(source: str, layout: Layout, style: str = "json") -> str | None:
    """EBNF for xgrammar; None where xgrammar's own reading of the schema is as exact.

    Args:
        source: The schema, as JSON text.
        layout: Where the grammar allows whitespace.
        style: How a structural tag has the value written (`style` of its `json_schema`).

    Raises:
        UnsupportedSchema: If a keyword can't be enforced, with its name and path.
        ValueError: If the source is no JSON.
    """
    schema = json.loads(source)
    if style in STYLES:
        if schema == {}:
            return None
    else:
        # Of a definition xgrammar makes one rule, for between tags and for inside JSON.
        unkept = unkept_keyword(schema, references=style == "json")
        if unkept is None:
            return None
        if style != "json":
            raise UnsupportedSchema(
                *unkept, f"can't be enforced in the style {style}; leave it out, or use JSON"
            )
    try:
        reader = Reader(Document(schema))
        if style == "json":
            return Emitter(reader, layout).grammar()
        return MarkupEmitter(reader, layout, STYLES[style]).grammar()
    except RecursionError:
        raise UnsupportedSchema("#", "the schema", "is nested too deeply") from None
