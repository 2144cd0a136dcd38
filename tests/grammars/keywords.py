"""Writes the rule of names that are no keywords, which stands in the grammars that ship.

EBNF has no difference of two sets, but a name minus some words is regular: along the words, letter
by letter, whatever leaves them is a name. `python tests/grammars/keywords.py cpp` prints the rule
for the words that the head of `cpp.ebnf` lists.
"""

import re
import sys
from collections.abc import Iterable
from textwrap import wrap

from lave_plugin import grammars

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"


def keywords_of(text: str) -> list[str]:
    """The words behind `# Keywords:` in the head of a grammar."""
    listed = re.search(r"^# Keywords: ((?:.*\n#  +)*.*)", text, re.MULTILINE)
    return sorted(listed[1].replace("#", "").rstrip(".").split())


def rule_of(keywords: Iterable[str], *, any_case: bool = False) -> str:
    """The rules `name` and `tail`: a letter, then letters and digits, but no keyword."""
    words = {word.lower() if any_case else word for word in keywords}
    body = _behind("", words, any_case)
    lines = wrap(f"name ::= {body}", 98, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join([*lines, f"tail ::= {_char_class(LETTERS + DIGITS)}*"])


def _behind(prefix: str, words: set[str], any_case: bool) -> str:
    """What may follow `prefix`, which begins some of the words, in a name that is none of them."""
    longer = [word for word in words if word.startswith(prefix) and word != prefix]
    following = sorted({word[len(prefix)] for word in longer})
    letters = LETTERS if prefix == "" else LETTERS + DIGITS
    used = {*following, *(char.upper() for char in following if any_case)}
    choices = [f"{_char_class(c for c in letters if c not in used)} tail"]
    for char in following:
        deeper = prefix + char
        read = f"[{char.upper()}{char}]" if any_case and char.isalpha() else f'"{char}"'
        # At a word's end a name goes on, before it a name may end.
        rest = _behind(deeper, words, any_case)
        if not any(word.startswith(deeper) and word != deeper for word in words):
            rest = f"{_char_class(LETTERS + DIGITS)} tail"
            choices.append(f"{read} {rest}")
        else:
            choices.append(f"{read} ({rest}){'' if deeper in words else '?'}")
    return " | ".join(choices)


def _char_class(chars: Iterable[str]) -> str:
    chars = sorted(chars)
    parts, begin = [], 0
    for index in range(1, len(chars) + 1):
        if index < len(chars) and ord(chars[index]) == ord(chars[index - 1]) + 1:
            continue
        first, last = chars[begin], chars[index - 1]
        parts.append(first if first == last else f"{first}-{last}")
        begin = index
    return f"[{''.join(parts)}]"


if __name__ == "__main__":
    print(rule_of(keywords_of(grammars.load(sys.argv[1])[1]), any_case=sys.argv[1] == "sql"))
