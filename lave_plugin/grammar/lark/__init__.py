"""Lark grammars: from text to xgrammar's EBNF.

xgrammar has a converter of its own for the dialect that llguidance made of Lark; what is in that
dialect only (`%json`, special tokens, attributes of rules) is left to it. Everything else is read
here, the way the `lark` package reads it, with what that converter lacks: priorities, templates,
`%extend`, `%override`, look-around, start rules of any name.
"""

import re

import xgrammar

from lave_plugin.grammar.lark.compile import compile_grammar
from lave_plugin.grammar.lark.source import LarkError
from lave_plugin.grammar.lark.syntax import Extension, parse

__all__ = ["LarkError", "is_lark", "lark_to_ebnf"]

_BLANK = r"(?:\s|(?://|\#)[^\n]*+(?:\n|$))*+"
_HEAD = r"_?[A-Za-z]\w*+\s*+(?:\{[\w\s,]*+\}|\[[^\]]*+\])?(?:\.-?\d++)?\s*+:(?!:=)"
_LARK = re.compile(rf"{_BLANK}(?:%[a-z]|[!?]|{_HEAD})")


def is_lark(text: str) -> bool:
    """Whether a grammar is written in Lark's syntax, and not in xgrammar's EBNF.

    The first statement tells: `name:` or a directive such as `%import`, where EBNF has `name ::=`.
    """
    return _LARK.match(text) is not None


def lark_to_ebnf(text: str, tokenizer_info: xgrammar.TokenizerInfo | None = None) -> str:
    """The same grammar in xgrammar's EBNF.

    Args:
        text: The grammar in Lark.
        tokenizer_info: Where special tokens (`<|name|>`) are looked up.

    Raises:
        LarkError: With line and column, if it is no grammar or one that can't be kept.
    """
    try:
        return compile_grammar(parse(text))
    except Extension:
        return _by_xgrammar(text, tokenizer_info)
    except RecursionError:
        raise LarkError(1, 1, "it is nested too deep; make rules of its parts.") from None


_PLACE = re.compile(r"Lark error at line (\d+), column (\d+): ([^\n]*)")


def _by_xgrammar(text: str, tokenizer_info: xgrammar.TokenizerInfo | None) -> str:
    try:
        return str(xgrammar.Grammar.from_lark(text, tokenizer_info=tokenizer_info))
    except RuntimeError as error:
        place = _PLACE.search(str(error))
        if place is None:
            raise LarkError(1, 1, f"xgrammar can't read it: {error}") from None
        line, column, what = place.groups()
        raise LarkError(
            int(line),
            int(column),
            f"{what} (read by xgrammar, since the text has what only llguidance's Lark has).",
        ) from None
