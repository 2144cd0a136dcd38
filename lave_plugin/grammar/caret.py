"""A caret that stands first in a character class, put last, before xgrammar reads the grammar.

`[\\^a]` means a caret or an a. xgrammar 0.2.7 prints that class as `[^a]`, which reads as anything
but an a, so the printed normal form of an EBNF grammar would say something else than the grammar;
and its converter for regular expressions reads `[\\^a]` as `[^a]` itself. `[a\\^]` is safe.
"""

import re

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT = r"#[^\n]*"
_CLASS = r"\[(?:[^\]\\]|\\.)*\]"
_EBNF_TOKEN = re.compile(rf"{_STRING}|{_COMMENT}|({_CLASS})", re.DOTALL)
_REGEX_TOKEN = re.compile(rf"\\.|({_CLASS})", re.DOTALL)
_LEADING_CARET = re.compile(r"\[(?:\\\^|\\x5[eE]|\\u005[eE]|\\U0000005[eE])(-(?!\]))?")


def move_carets_in_ebnf(source: str) -> str:
    """The same EBNF grammar without a class that begins with an escaped caret."""
    return _EBNF_TOKEN.sub(lambda token: _move_caret(token, alone='"^"'), source)


def move_carets_in_regex(source: str) -> str:
    """The same regular expression without a class that begins with an escaped caret."""
    return _REGEX_TOKEN.sub(lambda token: _move_caret(token, alone="\\^"), source)


def _move_caret(token: re.Match[str], *, alone: str) -> str:
    char_class = token[1]
    caret = _LEADING_CARET.match(char_class) if char_class else None
    if caret is None:
        return token[0]
    rest = char_class[caret.end() : -1]
    if not rest:
        return alone
    # A range from the caret goes on from the character behind it, the underscore.
    return f"[{'_-' if caret[1] else ''}{rest}\\^]"
