"""JSON schemas whose every keyword is kept.

xgrammar's converter is exact on a part of JSON schema (`plain`) and lets through, in silence, what
the rest of it forbids. A schema beyond that part is read here: as alternatives without logic
(`branches`), with string keywords as automata (`pattern`, `formats`, `strings`) and so with numbers
(`numbers`), and written as a grammar (`emit`). What can't be written so is refused by name.
"""

import json

from lave_plugin.grammar.json_schema.branches import Reader
from lave_plugin.grammar.json_schema.document import Document
from lave_plugin.grammar.json_schema.emit import Layout, grammar_of
from lave_plugin.grammar.json_schema.errors import UnsupportedSchema
from lave_plugin.grammar.json_schema.plain import is_plain

__all__ = ["Layout", "UnsupportedSchema", "exact_grammar"]


def exact_grammar(source: str, layout: Layout) -> str | None:
    """EBNF for xgrammar; None where xgrammar's own reading of the schema is as exact.

    Parameters
    ----------
    source
        The schema, as JSON text.
    layout
        Where the grammar allows whitespace.

    Raises
    ------
    UnsupportedSchema
        If a keyword can't be enforced, with its name and path.
    ValueError
        If the source is no JSON.
    """
    schema = json.loads(source)
    if is_plain(schema):
        return None
    try:
        return grammar_of(Reader(Document(schema)), layout)
    except RecursionError:
        raise UnsupportedSchema("#", "the schema", "is nested too deeply") from None
