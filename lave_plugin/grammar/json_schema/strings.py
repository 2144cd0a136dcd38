"""The strings that several keywords allow together, and how a grammar writes them as JSON."""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from lave_plugin.grammar.dfa import Dfa, TooLarge, both, complement, minimal
from lave_plugin.grammar.json_schema.branches import Text
from lave_plugin.grammar.json_schema.formats import expression
from lave_plugin.grammar.json_schema.pattern import (
    ALPHABET,
    MOST_STATES,
    UnreadablePattern,
    search,
)
from lave_plugin.grammar.utf8 import MAX_CODE_POINT, CodePointRange

_FEWEST = 32
"""Characters above minLength that must be left where maxLength is lowered to keep a bound on the
states. It is never raised."""

_SHORT = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}


def length_of(text: Text) -> tuple[int, int | None] | None:
    """The bounds on the number of characters, if the terms say nothing else."""
    low, high = 0, None
    for kind, argument, positive in text.terms:
        if kind not in ("minLength", "maxLength"):
            return None
        if (kind == "minLength") == positive:
            low = max(low, argument if positive else argument + 1)
        else:
            bound = argument if positive else argument - 1
            high = bound if high is None else min(high, bound)
    return low, high


@lru_cache(maxsize=1024)
def language(text: Text) -> Dfa:
    """The values of the strings, over code points.

    Raises:
        UnreadablePattern: If a pattern can't be modelled, or all of it would be too large.
    """
    dfa = Dfa((True,), (tuple((low, high, 0) for low, high in ALPHABET),))
    excluded = tuple(argument for kind, argument, _ in text.terms if kind == "is")
    if excluded:
        dfa = complement(_one_of(excluded), ALPHABET)
    for kind, argument, positive in text.terms:
        match kind:
            case "pattern":
                part = search(argument, not positive)
            case "format":
                part = search(expression(argument), not positive)
            case "one of":
                part = _one_of(argument)
            case _:
                continue
        dfa = meet(dfa, part if positive else complement(part, ALPHABET))
    lengths = Text(tuple(term for term in text.terms if term[0] in ("minLength", "maxLength")))
    low, high = length_of(lengths)
    longest = _longest(dfa)
    if high is not None and longest is not None and longest <= high:
        high = None
    if high is not None:
        # The counter takes a copy of the automaton for each character.
        most = MOST_STATES // len(dfa.final)
        if high > most:
            if most < low + _FEWEST:
                raise UnreadablePattern(f"stands beside a length of {high}, which is too much")
            high = most
    return meet(dfa, _chain(low, high)) if low or high is not None else dfa


def meet(first: Dfa, second: Dfa) -> Dfa:
    """What both take; raises UnreadablePattern past the limit."""
    try:
        dfa = minimal(both(first, second, 4 * MOST_STATES))
    except TooLarge:
        dfa = None
    if dfa is None or len(dfa.final) > MOST_STATES:
        raise UnreadablePattern(f"needs more than {MOST_STATES} states with its neighbours")
    return dfa


def _longest(dfa: Dfa) -> int | None:
    """Characters of the longest string that a minimal automaton takes; None without a bound."""
    length = [0] * len(dfa.final)
    uses = [0] * len(dfa.final)
    for edges in dfa.edges:
        for _, _, target in edges:
            uses[target] += 1
    order = [state for state in range(len(uses)) if not uses[state]]
    for state in order:
        for _, _, target in dfa.edges[state]:
            length[target] = max(length[target], length[state] + 1)
            uses[target] -= 1
            if not uses[target]:
                order.append(target)
    return max(length) if len(order) == len(uses) else None


def _chain(low: int, high: int | None) -> Dfa:
    """Any characters, `low` to `high` of them."""
    if high is not None and high < low:
        return Dfa((False,), ((),))
    last = low if high is None else high
    if last > MOST_STATES:
        raise UnreadablePattern(f"stands beside a length of {last}, which is too much")
    edges = [tuple((a, b, at + 1) for a, b in ALPHABET) for at in range(last)]
    edges.append(tuple((a, b, last) for a, b in ALPHABET) if high is None else ())
    return Dfa(tuple(at >= low for at in range(last + 1)), tuple(edges))


def _one_of(words) -> Dfa:
    nodes: list[dict[int, int]] = [{}]
    ends = set()
    for word in words:
        node = 0
        for character in map(ord, word):
            if character not in nodes[node]:
                nodes.append({})
                nodes[node][character] = len(nodes) - 1
            node = nodes[node][character]
        ends.add(node)
    edges = tuple(tuple((c, c, to) for c, to in sorted(node.items())) for node in nodes)
    return Dfa(tuple(node in ends for node in range(len(nodes))), edges)


def rules_of(name: str, dfa: Dfa, *, quoted: bool) -> Iterator[str]:
    """The automaton as rules, the first of them `name`.

    With `quoted` it is a JSON string: every character is written as itself where JSON allows that,
    else by its short escape, else by four digits.
    """
    names = [f"{name}_{state}" for state in range(len(dfa.final))]
    yield f'{name} ::= "\\"" {names[0]}' if quoted else f"{name} ::= {names[0]}"
    for state, (final, edges) in enumerate(zip(dfa.final, dfa.edges, strict=True)):
        ways = [('"\\""' if quoted else '""')] if final else []
        by_target: dict[int, list[tuple[int, int]]] = {}
        for low, high, target in edges:
            by_target.setdefault(target, []).append((low, high))
        for target, ranges in by_target.items():
            ways += [f"{each} {names[target]}" for each in _characters(tuple(ranges), quoted)]
        yield f"{names[state]} ::= {' | '.join(ways)}"


@lru_cache(maxsize=4096)
def _characters(ranges: tuple[CodePointRange, ...], quoted: bool) -> tuple[str, ...]:
    """The ways to write one character out of the ranges."""
    if not quoted:
        return (char_class(ranges),)
    ways = []
    plain = [
        (max(low, first), min(high, last))
        for low, high in ranges
        for first, last in ((0x20, 0x21), (0x23, 0x5B), (0x5D, MAX_CODE_POINT))
        if max(low, first) <= min(high, last)
    ]
    if plain:
        ways.append(char_class(plain))
    special = [c for c in (*range(0x20), 0x22, 0x5C) if any(a <= c <= b for a, b in ranges)]
    short = "".join(_SHORT[chr(code)] for code in special if chr(code) in _SHORT)
    if short:
        ways.append('"\\\\" ' + char_class([(ord(each), ord(each)) for each in short]))
    for tens in "01":
        rest = [c for c in special if f"{c:02x}"[0] == tens and chr(c) not in _SHORT and c < 0x20]
        if rest:
            digits = {ord(each) for code in rest for each in f"{code & 15:x}{code & 15:X}"}
            ways.append(f'"\\\\u00{tens}" ' + char_class([(each, each) for each in digits]))
    return tuple(ways)


def char_class(ranges: Iterable[CodePointRange]) -> str:
    """A class of xgrammar's EBNF; a caret never stands first, where xgrammar misreads it."""
    ranges = sorted(ranges)
    first = [(low, high) for low, high in ranges if low != ord("^")]
    caret = [(low, high) for low, high in ranges if low == ord("^")]
    if caret and caret[0][1] > ord("^"):
        first.append((ord("_"), caret[0][1]))
    if caret and not first:
        return '"^"'
    items = "".join(
        _escape(low) if low == high else f"{_escape(low)}-{_escape(high)}"
        for low, high in sorted(first)
    )
    return f"[{items}{_escape(ord('^')) if caret else ''}]"


def _escape(code: int) -> str:
    character = chr(code)
    if character.isascii() and character.isalnum():
        return character
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def literal(text: str) -> str:
    """A string of xgrammar's EBNF that reads `text`."""
    inner = "".join(
        each if each.isascii() and each.isprintable() and each not in '"\\' else _escape(ord(each))
        for each in text
    )
    return f'"{inner}"'
