"""The decimal notations of the numbers between bounds, or that are multiples of something."""

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from lave_plugin.grammar.dfa import Dfa, TooLarge, both, complement, minimal
from lave_plugin.grammar.json_schema.pattern import ALPHABET, search

_INTEGER = "(?:0|[1-9][0-9]*)"
_PLACES = 6
"""Digits behind the point of a number with bounds; more would begin to round."""
_EXACT = 15
"""Digits of a number that floating point keeps apart from its neighbours; what has a point has no
more of them in all, and neither has what must be a multiple."""
_FAR = 10**18
_MOST_REMAINDERS = 4096
_MOST_STATES = 8192


class UnreadableNumber(ValueError):
    """A bound or step can't be modelled; the message says why, without a subject."""


@lru_cache(maxsize=1024)
def notations(integer: bool, terms: tuple[tuple[str, Any], ...]) -> Dfa:
    """Without exponents. The terms are those of `branches.Number`."""
    exact = [(operator, Decimal(repr(value))) for operator, value in terms if value is not None]
    places = max([_PLACES, *(_places(value) for _, value in exact)])
    digits = max([_EXACT, *(len(f"{abs(value):.0f}") for _, value in exact)])
    steps = [value for operator, value in exact if operator in ("multiple", "apart")]
    # Integers are exact at any length, but not divided by what is none.
    last = f"{{0,{digits - 1}}}" if any(_places(step) for step in steps) else "*"
    of_size = f"(?:0|[1-9][0-9]{last})"
    with_point = rf"(?:0|[1-9][0-9]{{0,{max(digits - places, 1) - 1}}})\."
    if integer:
        whole = f"-?[1-9][0-9]{last}|0"
    elif ("fraction", None) in terms:
        whole = rf"-?{with_point}[0-9]{{0,{places - 1}}}[1-9]"
    else:
        whole = rf"-?(?:{of_size}|{with_point}[0-9]{{1,{places}}})"
    dfa = _expression(whole)
    for operator, value in exact:
        match operator:
            case "min" | "above":
                part = _expression(_at_least(value, operator == "above"))
            case "max" | "below":
                part = _expression(_at_most(value, operator == "below"))
            case "multiple":
                part = _multiples(value, integer)
            case "apart":
                part = complement(_multiples(value, integer), ALPHABET)
            case "not":
                spelled = rf"{value:f}".rstrip("0").rstrip(".") if value else "-?0"
                spelled = spelled if "." in f"{value:f}" or not value else f"{value:f}"
                tail = "(?:0*)" if "." in spelled else r"(?:\.0*)?"
                part = complement(_expression(spelled.replace(".", r"\.") + tail), ALPHABET)
        try:
            dfa = minimal(both(dfa, part, _MOST_STATES))
        except TooLarge:
            raise UnreadableNumber("and its neighbours are too much together") from None
    return dfa


def _expression(pattern: str) -> Dfa:
    return search(f"^(?:{pattern})$")


def _places(value: Decimal) -> int:
    return max(0, -value.normalize().as_tuple().exponent)


def _at_least(bound: Decimal, strict: bool) -> str:
    if bound < 0:
        return rf"{_ANY}|-(?:{_up_to(-bound, strict)})"
    return _from(bound, strict)


def _at_most(bound: Decimal, strict: bool) -> str:
    if bound < 0 or (bound == 0 and strict):
        return rf"-(?:{_from(-bound, strict)})"
    return rf"-{_ANY}|{_up_to(bound, strict)}"


_ANY = rf"{_INTEGER}(?:\.[0-9]+)?"
_NOTHING = "[^\\s\\S]"


def _from(bound: Decimal, strict: bool) -> str:
    """Unsigned notations of at least `bound`, or above it."""
    whole, digits = _split(bound)
    larger = rf"(?:{_integers(whole + 1, None)})(?:\.[0-9]+)?"
    ways = [
        digits[:at] + f"[{int(digits[at]) + 1}-9][0-9]*"
        for at in range(len(digits))
        if digits[at] < "9"
    ]
    # Equal so far, and nothing but zeros behind, or more than that.
    ways.append(f"{digits}0*[1-9][0-9]*" if strict else f"{digits}[0-9]*")
    equal = rf"{whole}\.(?:{'|'.join(ways)})"
    if not digits and not strict:
        equal += f"|{whole}"
    return rf"{larger}|{equal}"


def _up_to(bound: Decimal, strict: bool) -> str:
    """Unsigned notations of at most `bound`, or below it."""
    whole, digits = _split(bound)
    parts = []
    if whole:
        parts.append(rf"(?:{_integers(0, whole - 1)})(?:\.[0-9]+)?")
    ways = [
        digits[:at] + f"[0-{int(digits[at]) - 1}][0-9]*"
        for at in range(len(digits))
        if digits[at] > "0"
    ]
    ways += [digits[:at] for at in range(1, len(digits))]  # the last digit is no zero
    if not strict:
        ways.append(f"{digits}0*" if digits else "0+")
    if ways:
        parts.append(rf"{whole}\.(?:{'|'.join(ways)})")
    if digits or not strict:
        parts.append(f"{whole}")
    return "|".join(parts) or _NOTHING


def _split(bound: Decimal) -> tuple[int, str]:
    """The whole part, and the digits behind the point without zeros at their end."""
    if bound > _FAR * _FAR:
        raise UnreadableNumber(f"{bound} is too large")
    whole, _, digits = f"{bound:f}".partition(".")
    return int(whole), digits.rstrip("0")


def _integers(low: int, high: int | None) -> str:
    """Unsigned integers from `low` to `high`, without zeros in front."""
    if high is None:
        first = str(low)
        longer = f"[1-9][0-9]{{{len(first)},}}"
        return rf"{_same_length(first, '9' * len(first))}|{longer}"
    ways = []
    for length in range(len(str(low)), len(str(high)) + 1):
        least = max(low, 10 ** (length - 1) if length > 1 else 0)
        most = min(high, 10**length - 1)
        ways.append(_same_length(str(least), str(most)))
    return "|".join(ways)


def _same_length(low: str, high: str) -> str:
    if not low:
        return ""
    rest = len(low) - 1
    if low == "0" * len(low) and high == "9" * len(high):
        return f"[0-9]{{{len(low)}}}"
    if low[0] == high[0]:
        return low[0] + _same_length(low[1:], high[1:])
    ways = [low[0] + _same_length(low[1:], "9" * rest)]
    if int(low[0]) + 1 < int(high[0]):
        ways.append(f"[{int(low[0]) + 1}-{int(high[0]) - 1}][0-9]{{{rest}}}")
    ways.append(high[0] + _same_length("0" * rest, high[1:]))
    return f"(?:{'|'.join(ways)})"


def _multiples(step: Decimal, integer: bool) -> Dfa:
    """The remainder is kept while the digits are read, behind the point in units of the last place.

    A step that is no binary fraction is refused for numbers that are not integers: validators that
    divide in floating point would not agree that 0.07 is a multiple of 0.01.
    """
    ratio = Fraction(step)
    if step <= 0:
        raise UnreadableNumber("is not above zero")
    if integer:
        modulus, places = ratio.numerator, 0
    else:
        denominator = ratio.denominator
        if denominator & (denominator - 1):
            raise UnreadableNumber(
                f"{step} is no binary fraction, so validators don't agree on its multiples; use an"
                " integer in a smaller unit"
            )
        places = max(_places(step), 0)
        modulus = int(ratio * 10**places)
    if modulus * (places + 1) > _MOST_REMAINDERS:
        raise UnreadableNumber(f"{step} has too many digits")
    numbers: dict[tuple[int, int], int] = {}
    order: list[tuple[int, int]] = []

    def number(phase: int, rest: int) -> int:
        if (phase, rest) not in numbers:
            numbers[phase, rest] = len(order) + 2
            order.append((phase, rest))
        return numbers[phase, rest]

    def digits(phase: int, rest: int) -> list[tuple[int, int, int]]:
        return [(48 + d, 48 + d, number(phase, (rest * 10 + d) % modulus)) for d in range(10)]

    # Phase -1 is before the point, phase n has n digits behind it. State 1 is behind a sign.
    final, edges = [False, False], [[(45, 45, 1), *digits(-1, 0)], digits(-1, 0)]
    for phase, rest in order:
        scale = 10 ** max(places - max(phase, 0), 0)
        final.append(phase != 0 and rest * scale % modulus == 0)
        if phase < 0:
            point = [(46, 46, number(0, rest))] if not integer else []
            edges.append(point + digits(-1, rest))
        elif phase < places:
            edges.append(digits(phase + 1, rest))
        else:
            edges.append([(48, 48, number(max(phase, 1), rest))])  # more zeros
    return minimal(Dfa(tuple(final), tuple(tuple(sorted(each)) for each in edges)))
