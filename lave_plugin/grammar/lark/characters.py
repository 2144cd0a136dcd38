"""Sets of characters as sorted ranges of code points, the way Python's `re` reads them."""

import re
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable
from functools import cache, lru_cache

from lave_plugin.grammar.utf8 import CodePointRange, complement, normalise_ranges

Characters = tuple[CodePointRange, ...]

_SURROGATES = ((0xD800, 0xDFFF),)
NONE: Characters = ()
# U+0000 is left out: xgrammar's grammars are C strings where they are printed.
ALL: Characters = ((1, 0xD7FF), (0xE000, 0x10FFFF))


def characters(ranges: Iterable[CodePointRange]) -> Characters:
    return intersection(normalise_ranges(list(ranges)), ALL)


def one(character: str) -> Characters:
    return ((ord(character), ord(character)),)


def union(*sets: Characters) -> Characters:
    return normalise_ranges([part for each in sets for part in each])


def negation(these: Characters) -> Characters:
    return intersection(complement(these), ALL)


def intersection(these: Characters, those: Characters) -> Characters:
    common = []
    i = j = 0
    while i < len(these) and j < len(those):
        low = max(these[i][0], those[j][0])
        high = min(these[i][1], those[j][1])
        if low <= high:
            common.append((low, high))
        if these[i][1] < those[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


@cache
def category(escape: str) -> Characters:
    """What `\\d`, `\\s` or `\\w` stands for in a pattern of text."""
    everything = _everything()
    found = re.finditer(f"{escape}+", everything)
    offsets = [(run.start(), run.end() - 1) for run in found]
    return characters((ord(everything[low]), ord(everything[high])) for low, high in offsets)


@cache
def _everything() -> str:
    codes = array("I", [code for low, high in ALL for code in range(low, high + 1)])
    return codes.tobytes().decode("utf-32-le" if sys.byteorder == "little" else "utf-32-be")


@lru_cache(maxsize=4096)
def any_case(these: Characters) -> Characters:
    """These, and what `re.IGNORECASE` takes for one of them."""
    more = [
        (other, other)
        for low, high in these
        for code, others in _cased()
        if low <= code <= high
        for other in others
    ]
    return normalise_ranges([*these, *more])


@cache
def _cased() -> list[tuple[int, list[int]]]:
    """For the characters that have cases, their other cases."""
    same = defaultdict(set)
    for code in range(0x1E944):
        character = chr(code)
        upper, lower = character.upper(), character.lower()
        if upper != lower:
            folded = upper.lower() if len(upper) == 1 else lower
            same[folded if len(folded) == 1 else character].add(character)
    same["i"] |= {"İ", "ı"}  # which only `re` takes for an i
    pairs = []
    for group in same.values():
        for character in group:
            others = [
                ord(other)
                for other in group
                if other != character
                and (
                    (character.isascii() and other.isascii())
                    or re.fullmatch(re.escape(character), other, re.IGNORECASE)
                )
            ]
            if others:
                pairs.append((ord(character), others))
    return pairs
