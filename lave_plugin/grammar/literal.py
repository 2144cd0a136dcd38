"""Characters and texts as xgrammar's EBNF writes them."""

import re

_PLAIN = r"A-Za-z0-9 _.,:;!?/<>=(){}*+&%$@~|#'`"
_NOT_PLAIN = re.compile(rf"[^{_PLAIN}]")


def escaped(code: int) -> str:
    """One character in a string or in a class."""
    character = chr(code)
    if not _NOT_PLAIN.match(character):
        return character
    # Not \x..: xgrammar reads as many digits there as come.
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quoted(text: str) -> str:
    """A text as a string."""
    return '"' + _NOT_PLAIN.sub(lambda found: escaped(ord(found[0])), text) + '"'
