"""Characters and texts as xgrammar's EBNF writes them."""


def escaped(code: int) -> str:
    """One character in a string or in a class."""
    character = chr(code)
    if character.isascii() and (character.isalnum() or character in " _.,:;!?/<>=(){}*+&%$@~|#'`"):
        return character
    # Not \x..: xgrammar reads as many digits there as come.
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quoted(text: str) -> str:
    """A text as a string."""
    return '"' + "".join(escaped(ord(character)) for character in text) + '"'
