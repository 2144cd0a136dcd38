"""A Lark text, and what is said about a place in it."""

from collections.abc import Iterator
from contextlib import contextmanager

from lave_plugin.grammar.errors import UnsupportedGrammar


class LarkError(UnsupportedGrammar):
    """The text is no Lark grammar, or one that can't be kept; the message names the place."""

    def __init__(self, line: int, column: int, sentence: str) -> None:
        super().__init__(f"Lark grammar, line {line}, column {column}: {sentence}")
        self.line = line
        self.column = column
        self.sentence = sentence


class UnsupportedPattern(ValueError):
    """A terminal can't be kept: a sentence without its place.

    `at` is the offset in the regular expression, its slash included, where known.
    """

    def __init__(self, sentence: str, at: int = 0) -> None:
        super().__init__(sentence)
        self.at = at


class Source:
    """A text whose offsets can be told as line and column, both from 1."""

    def __init__(self, text: str) -> None:
        self.text = text

    def error(self, at: int, sentence: str) -> LarkError:
        before = self.text[:at]
        line = before.count("\n") + 1
        return LarkError(line, at - (before.rfind("\n") + 1) + 1, sentence)

    @contextmanager
    def placed(self, at: int) -> Iterator[None]:
        """Say where it is if a pattern can't be kept."""
        try:
            yield
        except UnsupportedPattern as error:
            raise self.error(at + error.at, str(error)) from None
