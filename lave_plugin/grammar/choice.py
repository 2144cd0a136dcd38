"""A choice between texts as a grammar."""

import re
from collections.abc import Sequence
from functools import lru_cache

from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.literal import quoted

_IMPOSSIBLE = re.compile("[\0\ud800-\udfff]")


def ebnf_of_choice(alternatives: Sequence[str]) -> str:
    """xgrammar's EBNF of exactly these texts.

    Raises:
        UnsupportedGrammar: If there are none, or if one is not a text.
    """
    if isinstance(alternatives, str) or not isinstance(alternatives, Sequence):
        raise UnsupportedGrammar(
            f'choice must be a list of texts, such as ["yes", "no"], got {alternatives!r}.'
        )
    if not alternatives:
        raise UnsupportedGrammar(
            "choice is an empty list, which leaves no answer; name at least one text."
        )
    for place, text in enumerate(alternatives, 1):
        if not isinstance(text, str):
            raise UnsupportedGrammar(
                f"choice holds {text!r} at place {place}, which is not a text; put it in quotes."
            )
        if _IMPOSSIBLE.search(text):
            raise UnsupportedGrammar(
                f"choice holds a character at place {place} that no answer can have (U+0000 or "
                "half of a surrogate pair); leave it out."
            )
    return _written(tuple(alternatives))


@lru_cache(maxsize=32)  # of one list there may be many requests
def _written(alternatives: tuple[str, ...]) -> str:
    return f"root ::= {' | '.join(map(quoted, dict.fromkeys(alternatives)))}\n"
