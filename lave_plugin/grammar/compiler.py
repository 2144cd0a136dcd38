"""From a compiled xgrammar grammar to its automaton."""

from collections.abc import Container, Sequence

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
        str(compiled.grammar),
        never,
        lambda: characters_of_tokens(compiled.tokenizer_info.decoded_vocab, never),
    )


def characters_of_tokens(texts: Sequence[bytes], never: Container[int] = ()) -> list[int | None]:
    """How many characters begin in the text of each token; `None` for those without text.

    `texts` are as xgrammar has them, where special tokens have a text too.
    """
    return [
        sum(byte & 0xC0 != 0x80 for byte in text) if text and token not in never else None
        for token, text in enumerate(texts)
    ]
