"""From a compiled xgrammar grammar to its automaton."""

from collections.abc import Container

import xgrammar

from lave_plugin.grammar.automaton import Automaton
from lave_plugin.grammar.implementation import states_of_text

OBJECT_OR_ARRAY = '{"anyOf": [{"type": "object"}, {"type": "array"}]}'
"""The JSON schema of what xgrammar's builtin JSON grammar accepts. That one has no limit on
whitespace, which a schema's grammar can have."""


def automaton_of(compiled: xgrammar.CompiledGrammar, never: Container[int] = ()) -> Automaton:
    """The states of a compiled grammar, which may name tokens but can't have those in `never`.

    Raises
    ------
    UnsupportedGrammar
        If the grammar has something that can't be modelled, or has no sentence.
    """
    return states_of_text(
        str(compiled.grammar), never, lambda: _characters_of_tokens(compiled, never)
    )


def _characters_of_tokens(
    compiled: xgrammar.CompiledGrammar, never: Container[int]
) -> list[int | None]:
    """How many characters begin in the text of each token, which special tokens have here too."""
    return [
        sum(byte & 0xC0 != 0x80 for byte in data) if data and token not in never else None
        for token, data in enumerate(compiled.tokenizer_info.decoded_vocab)
    ]
