"""Single-token mutations of texts: what is nearly of a language."""

import random
import re

KINDS = ("delete", "duplicate", "swap", "replace")

PROGRAM = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//[^\n]*|/\*.*?\*/|#[^\n]*|`[^`]*`'
    r"|\w+(?:\.\d+)?|\.\d+|<<=|>>=|->|\+\+|--|&&|\|\||::|:=|<<|>>|[-+*/%&|^=!<>]=|\S",
    re.DOTALL,
)
"""A token of C++, Java or Go."""

SMILES = re.compile(r"\[[^\]]*\]|Cl|Br|%\d\d|.")
SMILES_INSIDE = re.compile(r"Cl|Br|@@|.")
"""A token of SMILES: brackets as a whole, or letter by letter."""

SQL = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\w+(?:\.\d+)?|<>|<=|>=|!=|\|\||\S")


def mutate(
    text: str, token: re.Pattern[str], rng: random.Random, *, blanks: bool = True
) -> tuple[str, str]:
    """One mutation of `text`, and its kind.

    With `blanks`, a token that comes to stand beside another is kept apart from it by a blank, so
    that the two are not read as one.
    """
    spans = [found.span() for found in token.finditer(text)]
    kind = rng.choice(KINDS)
    at = rng.randrange(len(spans) - (kind == "swap"))
    first, last = spans[at]
    this = text[first:last]
    apart = " " if blanks else ""
    if kind == "delete":
        new = apart
    elif kind == "duplicate":
        new = this + apart + this
    elif kind == "swap":
        begin, end = spans[at + 1]
        new, last = text[begin:end] + (text[last:begin] or apart) + this, end
    else:
        begin, end = rng.choice(spans)
        new = text[begin:end]
    if apart and kind != "delete":
        new = apart + new + apart
    return text[:first] + new + text[last:], kind
