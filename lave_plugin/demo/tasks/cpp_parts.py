"""What the C++ tasks are put together from: conditions, changes, aggregates, and their C++."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lave_plugin.demo.records import Draw

INDENT = "  "


@dataclass(frozen=True)
class Part:
    """A piece of a task: what it is, how it is said, its C++ of ``x``, and what it does."""

    kind: str
    said: str
    code: str
    apply: Callable[[int], int]


SAME = Part("same", "", "x", lambda x: x)


def _condition(draw: Draw) -> Part | None:
    k = draw.whole(2, 9)
    return draw.pick(
        None,
        Part("even", "even", "x % 2 == 0", lambda x: x % 2 == 0),
        Part("odd", "odd", "x % 2 != 0", lambda x: x % 2 != 0),
        Part("above", f"above {k}", f"x > {k}", lambda x: x > k),
        Part("below", f"below {k}", f"x < {k}", lambda x: x < k),
        Part("divisible", f"divisible by {k}", f"x % {k} == 0", lambda x: x % k == 0),
        Part("unequal", f"unequal to {k}", f"x != {k}", lambda x: x != k),
    )


def _change(draw: Draw) -> Part:
    k = draw.whole(2, 9)
    return draw.pick(
        Part("same", "", "x", lambda x: x),
        Part("square", "squared", "x * x", lambda x: x * x),
        Part("times", f"times {k}", f"x * {k}", lambda x: x * k),
        Part("plus", f"plus {k}", f"x + {k}", lambda x: x + k),
        Part("minus", f"minus {k}", f"x - {k}", lambda x: x - k),
        Part("from", f"taken from {k}", f"{k} - x", lambda x: k - x),
    )


def _joined_condition(draw: Draw) -> Part:
    """Two conditions as one, such as ``even and above 3``."""
    one = _drawn_of(draw, _condition, ("even", "odd", "divisible"))
    other = _drawn_of(draw, _condition, ("above", "below", "unequal"))
    kind = f"{one.kind} {other.kind}"
    if draw.chance(0.5):
        return Part(
            f"both {kind}",
            f"{one.said} and {other.said}",
            f"{one.code} && {other.code}",
            lambda x: one.apply(x) and other.apply(x),
        )
    return Part(
        f"either {kind}",
        f"{one.said} or {other.said}",
        f"{one.code} || {other.code}",
        lambda x: one.apply(x) or other.apply(x),
    )


def _joined_change(draw: Draw) -> Part:
    """Two changes one after the other, such as ``squared, then plus 3``."""
    first = _drawn_of(draw, _change, ("square", "times", "plus", "minus", "from"))
    then = _drawn_of(draw, _change, ("square", "times", "plus", "minus", "from"))
    return Part(
        f"{first.kind} {then.kind}",
        f"{first.said}, then {then.said}",
        then.code.replace("x", f"({first.code})"),
        lambda x: then.apply(first.apply(x)),
    )


def _drawn_of(draw: Draw, part: Callable[[Draw], Part | None], kinds: tuple[str, ...]) -> Part:
    while (drawn := part(draw)) is None or drawn.kind not in kinds:
        pass
    return drawn


@dataclass(frozen=True)
class Parts:
    """Draws the conditions and changes of a function.

    joined: how often one is put together of two.
    """

    draw: Draw
    joined: float

    def condition(self) -> Part | None:
        if self._joins():
            return _joined_condition(self.draw)
        return _condition(self.draw)

    def some_condition(self) -> Part:
        while (condition := self.condition()) is None:
            pass
        return condition

    def change(self) -> Part:
        return _joined_change(self.draw) if self._joins() else _change(self.draw)

    def _joins(self) -> bool:
        # Where nothing is joined, nothing is drawn: plain functions are those of a plain draw.
        return self.joined > 0 and self.draw.chance(self.joined)


@dataclass(frozen=True)
class Aggregate:
    """How elements become one number: its first value, and a statement on ``e``, the element."""

    kind: str
    said: str
    first: int
    statement: Callable[[str], str]
    step: Callable[[int, int], int]


AGGREGATES = (
    Aggregate("sum", "sum", 0, lambda e: f"r += {e};", lambda r, x: r + x),
    Aggregate("product", "product", 1, lambda e: f"r *= {_bound(e)};", lambda r, x: r * x),
    Aggregate("largest", "largest (or 0)", 0, lambda e: f"r = max(r, {e});", max),
    Aggregate("smallest", "smallest (or 99)", 99, lambda e: f"r = min(r, {e});", min),
)


def _bound(e: str) -> str:
    """An operand that stays whole beside a multiplication."""
    return f"({e})" if " " in e else e


def elements(condition: Part | None, change: Part, noun: str) -> str:
    """Such as ``numbers in v above 3, each squared``."""
    said = noun
    if condition is not None:
        if condition.kind in ("even", "odd"):
            said = f"{condition.said} {noun}"
        else:
            joined = " " in condition.kind
            said = f"{noun} {'that are ' if joined else ''}{condition.said}"
    return f"{said}, each {change.said}" if change.said else said


def guarded(condition: Part | None, statement: str, depth: int) -> str:
    pad = INDENT * depth
    if condition is None:
        return f"{pad}{statement}\n"
    return f"{pad}if ({condition.code}) {{\n{pad}{INDENT}{statement}\n{pad}}}\n"
