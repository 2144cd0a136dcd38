"""Short C++ functions from one line, with tests that compile and run.

A task is put together from a form (a loop over a vector, over a range, over digits or characters,
or one expression), what is aggregated, which elements count and what happens to each. A held-out
task combines them as no training task does, under function names that training never has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lave_plugin.demo.records import Draw, Sample, split_of, words
from lave_plugin.grammars import load

NAMES = words(
    "answer apply assess balance build collect combine compute count derive digest evaluate figure "
    "find gather handle inspect judge make measure obtain pick process reckon reduce result scan "
    "score select solve survey tally total treat value weigh work"
)

INDENT = "  "
INT_END = 2**31


@dataclass(frozen=True)
class Part:
    """A piece of a task: what it is, how it is said, its C++ of ``x``, and what it does."""

    kind: str
    said: str
    code: str
    apply: Callable[[int], int]


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


def _elements(condition: Part | None, change: Part, noun: str) -> str:
    """Such as ``numbers in v above 3, each squared``."""
    said = noun
    if condition is not None:
        if condition.kind in ("even", "odd"):
            said = f"{condition.said} {noun}"
        else:
            joined = " " in condition.kind
            said = f"{noun} {'that are ' if joined else ''}{condition.said}"
    return f"{said}, each {change.said}" if change.said else said


def _guarded(condition: Part | None, statement: str, depth: int) -> str:
    pad = INDENT * depth
    if condition is None:
        return f"{pad}{statement}\n"
    return f"{pad}if ({condition.code}) {{\n{pad}{INDENT}{statement}\n{pad}}}\n"


@dataclass(frozen=True)
class Function:
    """A task: which combination it is, its parts, and calls with the results they must have."""

    combination: str
    signature: str
    said: str
    body: str
    calls: list[tuple[str, str]]


def _vectors(draw: Draw) -> list[list[int]]:
    fixed = [[], [1, 2, 3, 4], [5], [-3, 4, 6]]
    return fixed + [[draw.whole(-6, 9) for _ in range(draw.whole(2, 4))] for _ in range(4)]


def _braces(numbers: list[int]) -> str:
    return "{" + ", ".join(map(str, numbers)) + "}"


def _over(elements: list[int], aggregate: Aggregate, condition: Part | None, change: Part) -> int:
    result = aggregate.first
    for x in elements:
        if condition is None or condition.apply(x):
            result = aggregate.step(result, change.apply(x))
    return result


def _loop(
    parts: Parts, name: str, parameter: str, head: str, where: str, inputs: list[tuple[str, list]]
) -> Function:
    aggregate = parts.draw.pick(*AGGREGATES)
    condition, change = parts.condition(), parts.change()
    noun = "numbers " + where
    kinds = (head.split()[0], aggregate.kind, condition and condition.kind, change.kind)
    body = (
        f"{INDENT}int r = {aggregate.first};\n{INDENT}{head} {{\n"
        f"{_guarded(condition, aggregate.statement(change.code), 2)}{INDENT}}}\n{INDENT}return r;\n"
    )
    return Function(
        f"{parameter} {kinds}",
        f"int {name}({parameter})",
        f"the {aggregate.said} of the {_elements(condition, change, noun)}",
        body,
        [
            (call, str(result))
            for call, xs in inputs
            if abs(result := _over(xs, aggregate, condition, change)) < INT_END
        ],
    )


def over_vector(parts: Parts, name: str) -> Function:
    inputs = [(f"vector<int>{_braces(v)}", v) for v in _vectors(parts.draw)]
    return _loop(parts, name, "vector<int> v", "for (int x : v)", "in v", inputs)


def over_range(parts: Parts, name: str) -> Function:
    first = parts.draw.pick(0, 1, 1, 2, 3)
    inputs = [(str(n), list(range(first, n + 1))) for n in (0, 1, 2, 3, 4, 5)]
    head = f"for (int x = {first}; x <= n; x++)"
    return _loop(parts, name, "int n", head, f"from {first} to n", inputs)


def counting(parts: Parts, name: str) -> Function:
    condition = parts.some_condition()
    body = (
        f"{INDENT}int r = 0;\n{INDENT}for (int x : v) {{\n"
        f"{_guarded(condition, 'r++;', 2)}{INDENT}}}\n{INDENT}return r;\n"
    )
    return Function(
        f"count {condition.kind}",
        f"int {name}(vector<int> v)",
        f"how many {_elements(condition, _SAME, 'numbers in v')} there are",
        body,
        [
            (f"vector<int>{_braces(v)}", str(sum(bool(condition.apply(x)) for x in v)))
            for v in _vectors(parts.draw)
        ],
    )


_SAME = Part("same", "", "x", lambda x: x)


def holding(parts: Parts, name: str) -> Function:
    """Whether all, or any, of the elements are such."""
    condition = parts.some_condition()
    every = parts.draw.chance(0.5)
    test = f"!({condition.code})" if every else condition.code
    on_hit, at_end = ("false", "true") if every else ("true", "false")
    body = (
        f"{INDENT}for (int x : v) {{\n{INDENT * 2}if ({test}) {{\n{INDENT * 3}return {on_hit};\n"
        f"{INDENT * 2}}}\n{INDENT}}}\n{INDENT}return {at_end};\n"
    )
    judge = all if every else any
    return Function(
        f"{'every' if every else 'some'} {condition.kind}",
        f"bool {name}(vector<int> v)",
        f"whether {'all' if every else 'some'} numbers in v are {condition.said}",
        body,
        [
            (f"vector<int>{_braces(v)}", str(judge(condition.apply(x) for x in v)).lower())
            for v in _vectors(parts.draw)
        ],
    )


def filtering(parts: Parts, name: str) -> Function:
    """A vector of the elements that count, each changed."""
    condition, change = parts.condition(), parts.change()
    body = (
        f"{INDENT}vector<int> r;\n{INDENT}for (int x : v) {{\n"
        f"{_guarded(condition, f'r.push_back({change.code});', 2)}{INDENT}}}\n{INDENT}return r;\n"
    )

    def kept(v: list[int]) -> list[int]:
        return [change.apply(x) for x in v if condition is None or condition.apply(x)]

    return Function(
        f"filter {condition and condition.kind} {change.kind}",
        f"vector<int> {name}(vector<int> v)",
        f"a vector of the {_elements(condition, change, 'numbers in v')}",
        body,
        [
            (f"vector<int>{_braces(v)}", f"vector<int>{_braces(kept(v))}")
            for v in _vectors(parts.draw)
        ],
    )


def over_digits(parts: Parts, name: str) -> Function:
    aggregate, condition = parts.draw.pick(*AGGREGATES[:3]), parts.condition()
    body = (
        f"{INDENT}int r = {aggregate.first};\n{INDENT}while (n > 0) {{\n"
        f"{INDENT * 2}int x = n % 10;\n{_guarded(condition, aggregate.statement('x'), 2)}"
        f"{INDENT * 2}n /= 10;\n{INDENT}}}\n{INDENT}return r;\n"
    )
    return Function(
        f"digits {aggregate.kind} {condition and condition.kind}",
        f"int {name}(int n)",
        f"the {aggregate.said} of the {_elements(condition, _SAME, 'digits of n')}",
        body,
        [
            (str(n), str(_over([int(d) for d in str(n)] if n else [], aggregate, condition, _SAME)))
            for n in (0, 7, 42, 358, 9261, 70605)
        ],
    )


def over_letters(parts: Parts, name: str) -> Function:
    draw = parts.draw
    letter, other = draw.rng.sample("abcdefghiklmnoprstuwy", 2)
    texts = ["", letter, "banana", "salt mill", f"{other}{letter}{letter}r", "wonderful day"]
    what = draw.pick("count", "drop", "replace", "double")
    if what == "count":
        said, kind, first = f"how often '{letter}' is in s", "int", "int r = 0;"
        inner, end = _guarded(Part("", "", f"c == '{letter}'", abs), "r++;", 2), "r"
        results = [str(text.count(letter)) for text in texts]
    elif what == "drop":
        said, kind, first = f"s without '{letter}'", "string", "string r;"
        inner, end = _guarded(Part("", "", f"c != '{letter}'", abs), "r += c;", 2), "r"
        results = [f'"{text.replace(letter, "")}"' for text in texts]
    elif what == "replace":
        said, kind, first = f"s with '{letter}' replaced by '{other}'", "string", "string r;"
        inner = f"{INDENT * 2}r += c == '{letter}' ? '{other}' : c;\n"
        end, results = "r", [f'"{text.replace(letter, other)}"' for text in texts]
    else:
        said, kind, first = f"s with every '{letter}' doubled", "string", "string r;"
        inner = f"{INDENT * 2}r += c;\n" + _guarded(
            Part("", "", f"c == '{letter}'", abs), "r += c;", 2
        )
        end, results = "r", [f'"{text.replace(letter, letter * 2)}"' for text in texts]
    body = (
        f"{INDENT}{first}\n{INDENT}for (char c : s) {{\n{inner}{INDENT}}}\n{INDENT}return {end};\n"
    )
    return Function(
        f"letters {what} {letter} {other if what == 'replace' else ''}",
        f"{kind} {name}(string s)",
        said,
        body,
        [(f'"{text}"', result) for text, result in zip(texts, results, strict=True)],
    )


def choosing(parts: Parts, name: str) -> Function:
    """One of two changes of a number."""
    change, other = parts.change(), parts.change()
    condition = parts.some_condition()
    body = (
        f"{INDENT}if ({condition.code}) {{\n{INDENT * 2}return {change.code};\n{INDENT}}}\n"
        f"{INDENT}return {other.code};\n"
    )

    def result(x: int) -> int:
        return change.apply(x) if condition.apply(x) else other.apply(x)

    return Function(
        f"choose {condition.kind} {change.kind} {other.kind}",
        f"int {name}(int x)",
        f"{_of_x(change)} if x is {condition.said}, else {_of_x(other)}",
        body,
        [(str(x), str(result(x))) for x in (*range(-3, 11), 24, 35)],
    )


def choosing_of_three(parts: Parts, name: str) -> Function:
    """One of three changes of a number, by two conditions in a row."""
    changes = [parts.change() for _ in range(3)]
    first, second = parts.some_condition(), parts.some_condition()
    body = (
        f"{INDENT}if ({first.code}) {{\n{INDENT * 2}return {changes[0].code};\n{INDENT}}}\n"
        f"{INDENT}if ({second.code}) {{\n{INDENT * 2}return {changes[1].code};\n{INDENT}}}\n"
        f"{INDENT}return {changes[2].code};\n"
    )

    def result(x: int) -> int:
        which = 0 if first.apply(x) else 1 if second.apply(x) else 2
        return changes[which].apply(x)

    return Function(
        f"choose {first.kind} {second.kind} {' '.join(change.kind for change in changes)}",
        f"int {name}(int x)",
        f"{_of_x(changes[0])} if x is {first.said}, else {_of_x(changes[1])} if x is "
        f"{second.said}, else {_of_x(changes[2])}",
        body,
        [(str(x), str(result(x))) for x in (*range(-3, 11), 24, 35)],
    )


def _of_x(change: Part) -> str:
    return f"x {change.said}".strip()


PLAIN_FORMS: tuple[Callable[[Parts, str], Function], ...] = (
    over_vector,
    over_vector,
    over_range,
    over_range,
    counting,
    holding,
    filtering,
    over_digits,
    over_letters,
    choosing,
    choosing,
)

FORMS = (*PLAIN_FORMS, choosing_of_three, choosing_of_three)
JOINED = 0.5
"""How often a condition or a change is joined of two, in the full task."""


HEADERS = "#include <algorithm>\n#include <string>\n#include <vector>\nusing namespace std;\n"


def program(answer: str, tests: str) -> str:
    """An answer between the headers it may count on and a ``main`` that is 0 where it is right."""
    return f"{HEADERS}\n{answer}\n\n{tests}"


def tests_of(name: str, calls: list[tuple[str, str]]) -> str:
    """A ``main`` that returns 0 where the function has all these results."""
    checks = "".join(
        f"  if ({name}({argument}) != {result}) return {number};\n"
        for number, (argument, result) in enumerate(calls, 1)
    )
    return f"int main() {{\n{checks}  return 0;\n}}\n"


def cpp_sample(draw: Draw) -> Sample:
    """A one-line description; the answer is the function, ``tests`` the ``main`` that judges."""
    return _sample(Parts(draw, JOINED), FORMS)


def plain_cpp_sample(draw: Draw) -> Sample:
    """A function of simple parts, to begin with."""
    return _sample(Parts(draw, 0.0), PLAIN_FORMS)


def _sample(parts: Parts, forms: tuple[Callable[[Parts, str], Function], ...]) -> Sample:
    draw = parts.draw
    name = draw.within_split(lambda: draw.word(NAMES))
    while True:
        function = draw.pick(*forms)(parts, name)
        if split_of(function.combination) == draw.split:
            break
    return Sample(
        kind="cpp",
        prompt=f"Write in C++: {function.signature} returns {function.said}.",
        answer=f"{function.signature} {{\n{function.body}}}",
        grammar=load("cpp")[1],
        tests=tests_of(name, function.calls),
    )
