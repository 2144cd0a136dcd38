"""UTF-8 as byte automata: code-point ranges to byte ranges, and the encoding's own automaton.

The tables follow RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
"""

import codecs
from collections.abc import Iterator
from functools import lru_cache

ByteRange = tuple[int, int]
CodePointRange = tuple[int, int]

MAX_CODE_POINT = 0x10FFFF

# Ranges of code points whose encodings have one length; the surrogates have no encoding.
_SAME_LENGTH = ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF))


def unfinished_character(data: bytes) -> bytes | None:
    """What follows the last whole character, or None where no text begins with the data."""
    try:
        _, whole = codecs.utf_8_decode(data, "strict", False)
    except UnicodeDecodeError:
        return None
    rest = data[whole:]
    # Python waits for the third byte of a surrogate before it says no.
    return None if rest[:1] == b"\xed" and rest[1:] >= b"\xa0" else rest


def split_at_characters(low: int, high: int) -> Iterator[tuple[int, int, int]]:
    """A range of bytes in parts (low, high, how many characters such a byte begins)."""
    for first, last, begun in ((0x00, 0x7F, 1), (0x80, 0xBF, 0), (0xC0, 0xFF, 1)):
        if max(low, first) <= min(high, last):
            yield max(low, first), min(high, last), begun


def normalise_ranges(ranges: list[CodePointRange]) -> tuple[CodePointRange, ...]:
    """Sort ranges and merge those that touch, so that equal sets get equal tuples."""
    merged: list[CodePointRange] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(ranges: tuple[CodePointRange, ...]) -> tuple[CodePointRange, ...]:
    """The code points outside normalised `ranges`."""
    outside = []
    next_free = 0
    for low, high in ranges:
        if low > next_free:
            outside.append((next_free, low - 1))
        next_free = high + 1
    if next_free <= MAX_CODE_POINT:
        outside.append((next_free, MAX_CODE_POINT))
    return tuple(outside)


@lru_cache(maxsize=4096)
def byte_sequences(ranges: tuple[CodePointRange, ...]) -> tuple[tuple[ByteRange, ...], ...]:
    """Sequences of byte ranges that together match exactly the encodings of `ranges`.

    Ranges of one position in two sequences are equal or disjoint as long as those before them are
    equal, so the sequences can be merged into a trie without splitting a range.
    """
    sequences: list[tuple[ByteRange, ...]] = []
    for low, high in ranges:
        for shortest, longest in _SAME_LENGTH:
            if max(low, shortest) <= min(high, longest):
                first = chr(max(low, shortest)).encode()
                last = chr(min(high, longest)).encode()
                sequences.extend(_between(first, last))
    return tuple(sequences)


def _between(first: bytes, last: bytes) -> list[tuple[ByteRange, ...]]:
    """Byte-range sequences for the encodings from `first` to `last`, both of one length."""
    if len(first) == 1:
        return [((first[0], last[0]),)]
    tail = len(first) - 1
    if first[0] == last[0]:
        return [((first[0], first[0]), *rest) for rest in _between(first[1:], last[1:])]
    lead_low, lead_high = first[0], last[0]
    sequences: list[tuple[ByteRange, ...]] = []
    if first[1:] != b"\x80" * tail:
        rests = _between(first[1:], b"\xbf" * tail)
        sequences += [((lead_low, lead_low), *rest) for rest in rests]
        lead_low += 1
    closing: list[tuple[ByteRange, ...]] = []
    if last[1:] != b"\xbf" * tail:
        rests = _between(b"\x80" * tail, last[1:])
        closing = [((lead_high, lead_high), *rest) for rest in rests]
        lead_high -= 1
    if lead_low <= lead_high:
        sequences.append(((lead_low, lead_high), *[(0x80, 0xBF)] * tail))
    return sequences + closing


# The encoding itself as an automaton: DECODER[state] lists (low, high, next state). State 0 is the
# boundary between two characters; the others say what the rest of a character may be.
DECODER: tuple[tuple[tuple[int, int, int], ...], ...] = (
    (
        (0x00, 0x7F, 0),
        (0xC2, 0xDF, 1),
        (0xE0, 0xE0, 4),
        (0xE1, 0xEC, 2),
        (0xED, 0xED, 5),
        (0xEE, 0xEF, 2),
        (0xF0, 0xF0, 6),
        (0xF1, 0xF3, 3),
        (0xF4, 0xF4, 7),
    ),
    ((0x80, 0xBF, 0),),  # one byte to come
    ((0x80, 0xBF, 1),),  # two
    ((0x80, 0xBF, 2),),  # three
    ((0xA0, 0xBF, 1),),  # after E0: less would be overlong
    ((0x80, 0x9F, 1),),  # after ED: more would be a surrogate
    ((0x90, 0xBF, 2),),  # after F0: less would be overlong
    ((0x80, 0x8F, 2),),  # after F4: more would be above U+10FFFF
)
