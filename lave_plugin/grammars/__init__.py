"""Grammars that ship, by name: programming languages and notations, as xgrammar's EBNF.

Each file says in its head which standard it follows, where it departs from it, and what no
context-free grammar says. It is plain EBNF, to be copied and changed.
"""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files


class UnknownGrammar(ValueError):
    """No grammar of that name ships; the message lists those that do."""

    def __init__(self, name: object, known: Iterable[str]) -> None:
        super().__init__(f"No grammar named {name!r} ships; there are {', '.join(known)}.")


@cache
def names() -> tuple[str, ...]:
    """The grammars that ship, in alphabetical order."""
    here = files(__name__).iterdir()
    return tuple(sorted(file.name[:-5] for file in here if file.name.endswith(".ebnf")))


def load(name: str) -> tuple[str, str]:
    """A grammar that ships.

    Returns:
        kind: The sampling parameter that takes the text: `ebnf`.
        text: The grammar, its comments included.

    Raises:
        UnknownGrammar: If there is none of that name.
    """
    if name not in names():
        raise UnknownGrammar(name, names())
    return "ebnf", files(__name__).joinpath(f"{name}.ebnf").read_text(encoding="utf-8")
