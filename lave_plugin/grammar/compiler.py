"""From a compiled xgrammar grammar to its automaton."""

from collections.abc import Container, Sequence

import xgrammar

from lave_plugin.grammar.automaton import Automaton
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.implementation import states_of_text

OBJECT_OR_ARRAY = '{"anyOf": [{"type": "object"}, {"type": "array"}]}'
"""The JSON schema of what xgrammar's builtin JSON grammar accepts. That one has no limit on
whitespace, which a schema's grammar can have."""

MOST_BYTES = 1 << 22
"""Of a printed normal form: about a second to read. The largest of 806 real-world schemas has 1.1
million, and the next 0.26."""


def automaton_of(compiled: xgrammar.CompiledGrammar, never: Container[int] = ()) -> Automaton:
    """The states of a compiled grammar, which may name tokens but can't have those in `never`.

    Raises:
        UnsupportedGrammar: If the grammar has something that can't be modelled, is too large, or
            has no sentence.
    """
    normal_form = str(compiled.grammar)
    if len(normal_form) > MOST_BYTES:
        raise UnsupportedGrammar(
            f"The grammar takes {len(normal_form)} bytes in xgrammar's normal form, and"
            f" {MOST_BYTES} are the limit. Lower its bounds of repetition, or list fewer"
            " alternatives."
        )
    return states_of_text(
        normal_form,
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
