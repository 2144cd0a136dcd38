"""A grammar as a user writes it, compiled over single bytes: no tokenizer is needed.

What a server does with the text before xgrammar reads it is done here as well, so both have the
same sentences.
"""

from functools import cache

import xgrammar

from lave_plugin.grammar.caret import move_carets_in_ebnf, move_carets_in_regex
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.json_schema import Layout, exact_grammar
from lave_plugin.grammar.lark import is_lark, lark_to_ebnf
from lave_plugin.grammar.lost_limits import check_limits


def compile_text(
    kind: str, text: str, json_max_whitespace: int | None = None
) -> xgrammar.CompiledGrammar:
    """Compile a grammar; the kinds are json_schema, regex, ebnf (or Lark, as in a request), lark.

    Args:
        kind, text: What the text is, and the text.
        json_max_whitespace: Characters of whitespace in a row that a schema's JSON may have between
            its parts.

    Raises:
        UnsupportedGrammar: If the text is no such grammar, with what is wrong about it.
    """
    try:
        if kind == "json_schema":
            return _compile_schema(text, json_max_whitespace)
        if kind == "regex":
            return _compiler().compile_regex(move_carets_in_regex(text))
        if kind == "lark" or is_lark(text):
            return _compiler().compile_grammar(lark_to_ebnf(text))
        check_limits(text)
        return _compiler().compile_grammar(move_carets_in_ebnf(text))
    except RuntimeError as error:
        raise UnsupportedGrammar(_without_origin(str(error))) from None


def _compile_schema(text: str, max_whitespace: int | None) -> xgrammar.CompiledGrammar:
    try:
        exact = exact_grammar(text, Layout(most=max_whitespace))
    except UnsupportedGrammar:
        raise
    except ValueError:
        exact = None  # xgrammar says what is wrong with the JSON
    if exact is not None:
        return _compiler().compile_grammar(exact)
    return _compiler().compile_json_schema(text, max_whitespace_cnt=max_whitespace)


@cache
def _compiler() -> xgrammar.GrammarCompiler:
    vocabulary = [*(bytes([byte]) for byte in range(256)), b""]
    info = xgrammar.TokenizerInfo(vocabulary, vocab_size=257, stop_token_ids=[256])
    return xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)


def _without_origin(message: str) -> str:
    """xgrammar's message without the time and its own file's name in front."""
    head, separator, rest = message.partition("] ")
    return (rest if separator and head.startswith("[") else message).strip()
