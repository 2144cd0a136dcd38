"""Regular expressions as automata over code points, with JSON schema's search semantics.

Python's own reader of expressions (`re._parser`) gives the tree. Where ECMA 262 and Python's `re`
disagree, what is taken is what both take, so an instance satisfies the schema in either reading;
`wide` asks for what one of them takes, which is what a negation needs:

    \\d \\w    ASCII in ECMA, all of Unicode in Python
    \\s        U+FEFF in ECMA, U+001C-U+001F and U+0085 in Python
    .          no U+000D, U+2028, U+2029 in ECMA
    $          in Python also before a last line feed
"""

import warnings
from functools import lru_cache
from re import _constants as sre
from re import _parser as sre_parser

from lave_plugin.grammar.dfa import Dfa, minimal
from lave_plugin.grammar.nfa import disjoint
from lave_plugin.grammar.utf8 import MAX_CODE_POINT, CodePointRange, normalise_ranges
from lave_plugin.grammar.utf8 import complement as without

ALPHABET = ((0, 0xD7FF), (0xE000, MAX_CODE_POINT))
"""The code points that a text can hold."""

MOST_STATES = 1 << 11
"""Of one expression; every state is a rule of the grammar in the end."""

_MOST_NODES = 1 << 14


class UnreadablePattern(ValueError):
    """The expression can't be modelled; the message says what of it, without a subject."""


@lru_cache(maxsize=1024)
def search(pattern: str, wide: bool = False) -> Dfa:
    """All strings in which the expression matches somewhere.

    Raises:
        UnreadablePattern: If it is none, if it has look-around, back references, flags or word
            boundaries, or if it would be too large.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = sre_parser.parse(pattern)
    except (sre_parser.error, OverflowError, RecursionError) as error:
        raise UnreadablePattern(f"is no regular expression that can be read ({error})") from None
    if tree.state.flags & ~sre.SRE_FLAG_UNICODE:
        raise UnreadablePattern("sets flags")
    expression = _Expression(wide)
    before, behind = expression.new_node(), expression.new_node()
    expression.empty[expression.start].append(before)
    expression.empty[behind].append(expression.end)
    for loop in (before, behind):
        expression.add(ALPHABET, loop, loop)
    expression.sequence(tree, before, behind)
    return expression.determine()


class _Expression:
    """An NFA with edges that read nothing: always, or only where the text begins or ends."""

    start, end = 0, 1

    def __init__(self, wide: bool) -> None:
        self._wide = wide
        self.moves: list[list[tuple[int, int, int]]] = [[], []]
        self.empty: list[list[int]] = [[], []]
        self.at_beginning: list[list[int]] = [[], []]
        self.at_end: list[list[int]] = [[], []]

    def new_node(self) -> int:
        if len(self.moves) > _MOST_NODES:
            raise UnreadablePattern("repeats too much")
        for edges in (self.moves, self.empty, self.at_beginning, self.at_end):
            edges.append([])
        return len(self.moves) - 1

    def add(self, ranges: tuple[CodePointRange, ...], source: int, target: int) -> None:
        self.moves[source] += [(low, high, target) for low, high in ranges]

    def sequence(self, tree, source: int, target: int) -> None:
        """Edges for the elements of `tree`, one behind the other."""
        for operator, argument in tree:
            following = self.new_node()
            self._element(operator, argument, source, following)
            source = following
        self.empty[source].append(target)

    def _element(self, operator, argument, source: int, target: int) -> None:
        match operator:
            case sre.LITERAL:
                self.add(((argument, argument),), source, target)
            case sre.NOT_LITERAL:
                self.add(_within_alphabet(without(((argument, argument),))), source, target)
            case sre.ANY:
                excluded = "\n" if self._wide else "\n\r\u2028\u2029"
                ranges = normalise_ranges([(ord(each), ord(each)) for each in excluded])
                self.add(_within_alphabet(without(ranges)), source, target)
            case sre.IN:
                self.add(self._class(argument), source, target)
            case sre.BRANCH:
                for alternative in argument[1]:
                    self.sequence(alternative, source, target)
            case sre.SUBPATTERN:
                _, added, removed, inner = argument
                if added or removed:
                    raise UnreadablePattern("sets flags")
                self.sequence(inner, source, target)
            case sre.MAX_REPEAT | sre.MIN_REPEAT:
                self._repeat(*argument, source, target)
            case sre.AT if argument == sre.AT_BEGINNING:
                self.at_beginning[source].append(target)
            case sre.AT if argument == sre.AT_END:
                self.at_end[source].append(target)
                if self._wide:
                    line_feed = self.new_node()
                    self.moves[source].append((10, 10, line_feed))
                    self.at_end[line_feed].append(target)
            case sre.AT:
                raise UnreadablePattern("has a word boundary or another anchor than ^ and $")
            case sre.ASSERT | sre.ASSERT_NOT:
                raise UnreadablePattern("has look-around")
            case _:
                raise UnreadablePattern(f"has {str(operator).lower()}, which is not regular here")

    def _repeat(self, low: int, high: int, inner, source: int, target: int) -> None:
        for _ in range(low):
            following = self.new_node()
            self.sequence(inner, source, following)
            source = following
        if high == sre.MAXREPEAT:
            loop = self.new_node()
            self.empty[source].append(loop)
            self.sequence(inner, loop, loop)
            self.empty[loop].append(target)
            return
        for _ in range(high - low):
            self.empty[source].append(target)
            following = self.new_node()
            self.sequence(inner, source, following)
            source = following
        self.empty[source].append(target)

    def _class(self, items) -> tuple[CodePointRange, ...]:
        negated = items[0][0] == sre.NEGATE
        ranges: list[CodePointRange] = []
        for operator, argument in items[negated:]:
            match operator:
                case sre.LITERAL:
                    ranges.append((argument, argument))
                case sre.RANGE:
                    ranges.append(argument)
                case sre.CATEGORY:
                    ranges += _category(argument, wide=self._wide != negated)
        joined = normalise_ranges(ranges)
        return _within_alphabet(without(joined) if negated else joined)

    def _closure(self, nodes, *kinds) -> frozenset[int]:
        seen = set(nodes)
        pending = list(seen)
        for node in pending:
            for edges in kinds:
                for target in edges[node]:
                    if target not in seen:
                        seen.add(target)
                        pending.append(target)
        return frozenset(seen)

    def determine(self) -> Dfa:
        """The smallest automaton: subsets, of which the first has the beginning's edges too."""
        first = self._closure([self.start], self.empty, self.at_beginning)
        subsets, numbers = [first], {}
        final, edges = [], []
        for subset in subsets:
            if len(subsets) > MOST_STATES:
                raise UnreadablePattern(f"needs more than {MOST_STATES} states")
            at_beginning = (self.at_beginning,) if not final else ()
            final.append(self.end in self._closure(subset, self.empty, self.at_end, *at_beginning))
            moves = []
            for low, high, targets in disjoint(
                [edge for node in subset for edge in self.moves[node]]
            ):
                following = self._closure(targets, self.empty)
                if following not in numbers:
                    numbers[following] = len(subsets)
                    subsets.append(following)
                moves.append((low, high, numbers[following]))
            edges.append(tuple(moves))
        return minimal(Dfa(tuple(final), tuple(edges)))


_SPACES = "\t\n\v\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_ONLY_ECMA_SPACES = "\ufeff"
_ONLY_PYTHON_SPACES = "\x1c-\x1f\x85"
_CATEGORIES = {
    sre.CATEGORY_DIGIT: ("digit", False),
    sre.CATEGORY_NOT_DIGIT: ("digit", True),
    sre.CATEGORY_SPACE: ("space", False),
    sre.CATEGORY_NOT_SPACE: ("space", True),
    sre.CATEGORY_WORD: ("word", False),
    sre.CATEGORY_NOT_WORD: ("word", True),
}


def _category(name, *, wide: bool) -> tuple[CodePointRange, ...]:
    kind, negated = _CATEGORIES[name]
    ranges = _members(kind, wide != negated)
    return without(ranges) if negated else ranges


@lru_cache(maxsize=8)
def _members(kind: str, wide: bool) -> tuple[CodePointRange, ...]:
    """What both readings take for a class, or what one of them takes."""
    if kind == "space":
        return _ranges_of(_SPACES + (_ONLY_ECMA_SPACES + _ONLY_PYTHON_SPACES if wide else ""))
    if not wide:
        return _ranges_of("0-9" if kind == "digit" else "0-9A-Z_a-z")
    test = str.isdecimal if kind == "digit" else str.isalnum
    found = [(code, code) for code in range(MAX_CODE_POINT + 1) if test(chr(code))]
    return normalise_ranges([*found, (ord("_"), ord("_"))] if kind == "word" else found)


def _ranges_of(source: str) -> tuple[CodePointRange, ...]:
    ranges = []
    position = 0
    while position < len(source):
        low = high = ord(source[position])
        if source[position + 1 : position + 2] == "-":
            high = ord(source[position + 2])
            position += 2
        ranges.append((low, high))
        position += 1
    return normalise_ranges(ranges)


def _within_alphabet(ranges: tuple[CodePointRange, ...]) -> tuple[CodePointRange, ...]:
    return tuple(
        (max(low, first), min(high, last))
        for low, high in ranges
        for first, last in ALPHABET
        if max(low, first) <= min(high, last)
    )
