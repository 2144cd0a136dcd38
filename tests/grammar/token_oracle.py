"""xgrammar's matcher as the oracle on tokens, with its budgets enforced.

The vocabulary is ASCII by the byte, a few longer tokens, and special tokens. To xgrammar a special
token is text as well; here its bytes are such as no text has, so that only a token edge reads it.
"""

import json

import numpy
import xgrammar

from lave_plugin.grammar.vocabulary import Vocabulary

TEXT = [bytes([byte]) for byte in range(128)] + [
    *(b"ab", b"abc", b"bc", b"<a>", b"</a>", b"</", b"xy", b"xyz", b'{"', b'":', b"12"),
    *("é".encode(), "€x".encode(), "a€".encode(), "</é".encode()),
]
CALL, DONE, SEP, MASK, PADDING, END = range(len(TEXT), len(TEXT) + 6)
SPECIAL = (CALL, DONE, SEP)
NEVER = frozenset({MASK, PADDING, END})

VOCABULARY = Vocabulary([*TEXT, *[b""] * 6], [END])

_INFO = xgrammar.TokenizerInfo(
    [*TEXT, *(b"\xff" + bytes([special]) for special in SPECIAL), b"\xffmask", b"", b"<eos>"],
    vocab_size=len(VOCABULARY),
    stop_token_ids=[END],
)
_COMPILER = xgrammar.GrammarCompiler(_INFO, max_threads=1, cache_enabled=False)


def compile_grammar(source: str | dict) -> xgrammar.CompiledGrammar:
    """An EBNF grammar, or the format of a structural tag."""
    if isinstance(source, str):
        return _COMPILER.compile_grammar(source)
    return _COMPILER.compile_structural_tag(
        json.dumps({"type": "structural_tag", "format": source})
    )


def compile_lark(source: str) -> xgrammar.CompiledGrammar:
    return _COMPILER.compile_grammar(xgrammar.Grammar.from_lark(source, tokenizer_info=_INFO))


class TokenOracle:
    """Walks xgrammar's matcher token by token."""

    def __init__(self, compiled: xgrammar.CompiledGrammar) -> None:
        self._matcher = xgrammar.GrammarMatcher(compiled)
        self._mask = xgrammar.allocate_token_bitmask(1, len(VOCABULARY))

    def allowed(self) -> set[int]:
        """All tokens that may come next; computing them is what makes a budget hold."""
        self._matcher.fill_next_token_bitmask(self._mask)
        return tokens_of_mask(self._mask.numpy().tobytes())

    def feed(self, token: int) -> bool:
        """Read one token, under the budgets; a refused one leaves the matcher as it was."""
        return token in self.allowed() and self._matcher.accept_token(token)

    def accepting(self) -> bool:
        return self._matcher.is_completed()

    def judge(self, tokens: list[int]) -> str:
        """`accepted`, `open` (a viable prefix) or `dead`."""
        if not all(self.feed(token) for token in tokens):
            return "dead"
        return "accepted" if self.accepting() else "open"


def tokens_of_mask(mask: bytes) -> set[int]:
    """The tokens that a next-token mask allows."""
    bits = numpy.unpackbits(numpy.frombuffer(mask, dtype=numpy.uint8), bitorder="little")
    return set(numpy.flatnonzero(bits[: len(VOCABULARY)]).tolist())
