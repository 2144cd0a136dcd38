"""What a terminal is made of: strings, ranges and Python's regular expressions as one tree."""

import re
import re._constants as ops
import re._parser as sre
from typing import NamedTuple

from lave_plugin.grammar.lark import characters
from lave_plugin.grammar.lark.characters import Characters
from lave_plugin.grammar.lark.source import UnsupportedPattern


class Chars(NamedTuple):
    """One character out of a set."""

    set: Characters


class Joined(NamedTuple):
    """One after the other; none is the empty text."""

    items: tuple["Pattern", ...]


class Either(NamedTuple):
    items: tuple["Pattern", ...]


class Times(NamedTuple):
    item: "Pattern"
    low: int
    high: int | None
    lazy: bool = False


class Look(NamedTuple):
    """An assertion about the text from here on, or up to here."""

    item: "Pattern"
    ahead: bool
    negative: bool


class ExactText(NamedTuple):
    """Inside a look-ahead: the terminal's text ends here."""


Pattern = Chars | Joined | Either | Times | Look | ExactText

EMPTY = Joined(())


def of_text(text: str, ignores_case: bool = False) -> Pattern:
    sets = [characters.one(character) for character in text]
    return Joined(tuple(Chars(characters.any_case(one) if ignores_case else one) for one in sets))


def of_range(low: str, high: str) -> Pattern:
    return Chars(characters.characters([(ord(low), ord(high))]))


def of_regexp(pattern: str, flags: str) -> Pattern:
    """Read a regular expression as `re` does.

    Raises:
        UnsupportedPattern: If `re` doesn't read it, or if it asks for what no grammar can say.
    """
    if "l" in flags:
        raise UnsupportedPattern("the flag l asks for a locale, which a server has not.")
    number = 0
    for flag in flags:
        number |= getattr(re, flag.upper())
    try:
        tree = sre.parse(pattern, number)
    except re.error as error:
        raise UnsupportedPattern(
            f"no regular expression: {error.msg}.", (error.pos or 0) + 1
        ) from None
    except (OverflowError, RecursionError):
        raise UnsupportedPattern("this regular expression is too large.") from None
    return _read(tree, tree.state.flags)


def any_of(pattern: Pattern, kind: type, lazy: bool | None = None) -> bool:
    """Whether a part of the pattern is of a kind.

    With `lazy`, repetitions only: lazy ones of any number, or greedy ones without bound.
    """
    pending = [pattern]
    while pending:
        part = pending.pop()
        if isinstance(part, kind) and (
            lazy is None
            or (part.lazy == lazy and part.high != part.low and (lazy or part.high is None))
        ):
            return True
        if isinstance(part, Joined | Either):
            pending += part.items
        elif isinstance(part, Times | Look):
            pending.append(part.item)
    return False


_WORD = r"\w"
_REFUSED = {
    ops.GROUPREF: "a back-reference, which no grammar can follow",
    ops.GROUPREF_EXISTS: "a conditional group, which no grammar can follow",
    ops.ATOMIC_GROUP: "an atomic group; write it without",
    ops.POSSESSIVE_REPEAT: "a possessive repetition; write it without",
}
_ANCHORS = {
    ops.AT_BEGINNING: "^",
    ops.AT_BEGINNING_STRING: r"\A",
    ops.AT_END: "$",
    ops.AT_END_STRING: r"\Z",
}


def _read(tree: sre.SubPattern, flags: int) -> Pattern:
    items = [_read_one(op, value, flags) for op, value in tree]
    return items[0] if len(items) == 1 else Joined(tuple(items))


def _read_one(op, value, flags: int) -> Pattern:
    if op is ops.LITERAL:
        return Chars(_cased(characters.one(chr(value)), flags))
    if op is ops.NOT_LITERAL:
        return Chars(characters.negation(_cased(characters.one(chr(value)), flags)))
    if op is ops.ANY:
        newline = characters.NONE if flags & re.DOTALL else characters.one("\n")
        return Chars(characters.negation(newline))
    if op is ops.IN:
        return Chars(_read_class(value, flags))
    if op is ops.BRANCH:
        return Either(tuple(_read(branch, flags) for branch in value[1]))
    if op is ops.SUBPATTERN:
        _, added, removed, inner = value
        return _read(inner, (flags | added) & ~removed)
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
        low, high, inner = value
        most = None if high is ops.MAXREPEAT else high
        return Times(_read(inner, flags), low, most, op is ops.MIN_REPEAT)
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        direction, inner = value
        return Look(_read(inner, flags), direction > 0, op is ops.ASSERT_NOT)
    if op is ops.AT and value in (ops.AT_BOUNDARY, ops.AT_NON_BOUNDARY):
        return _boundary(value is ops.AT_BOUNDARY, flags)
    if op is ops.AT:
        raise UnsupportedPattern(
            f"{_ANCHORS.get(value, 'an anchor')} stands for an end of the whole text, which a "
            "terminal does not know; leave it out."
        )
    if op is getattr(ops, "FAILURE", None):
        return Chars(characters.NONE)
    raise UnsupportedPattern(f"it has {_REFUSED.get(op, str(op).lower())}.")


def _boundary(is_one: bool, flags: int) -> Pattern:
    word = Chars(_category(_WORD, flags))

    def side(before_is_word: bool, after_is_word: bool) -> Pattern:
        return Joined((Look(word, False, not before_is_word), Look(word, True, not after_is_word)))

    return Either((side(True, not is_one), side(False, is_one)))


def _read_class(items: list, flags: int) -> Characters:
    found: list[Characters] = []
    negated = False
    for op, value in items:
        if op is ops.NEGATE:
            negated = True
        elif op is ops.LITERAL:
            found.append(_cased(characters.one(chr(value)), flags))
        elif op is ops.RANGE:
            found.append(_cased(characters.characters([value]), flags))
        elif op is ops.CATEGORY:
            name = str(value).removeprefix("CATEGORY_")
            category = _category("\\" + name.removeprefix("NOT_")[0].lower(), flags)
            found.append(characters.negation(category) if name.startswith("NOT_") else category)
        else:
            raise UnsupportedPattern(f"it has {op} in a class.")
    found_set = characters.union(*found)
    if negated:
        return characters.negation(found_set)
    return characters.intersection(found_set, characters.ALL)


def _category(escape: str, flags: int) -> Characters:
    found = characters.category(escape)
    if flags & re.ASCII:
        return characters.intersection(found, ((1, 0x7F),))
    return found


def _cased(these: Characters, flags: int) -> Characters:
    return characters.any_case(these) if flags & re.IGNORECASE else these
