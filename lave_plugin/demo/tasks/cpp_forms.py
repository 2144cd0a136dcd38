"""The forms of the C++ tasks: each draws its parts and writes a function and its tests' calls."""

from __future__ import annotations

from dataclasses import dataclass

from lave_plugin.demo.records import Draw
from lave_plugin.demo.tasks.cpp_parts import (
    AGGREGATES,
    INDENT,
    SAME,
    Aggregate,
    Part,
    Parts,
    elements,
    guarded,
)

INT_END = 2**31


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
        f"{guarded(condition, aggregate.statement(change.code), 2)}{INDENT}}}\n{INDENT}return r;\n"
    )
    return Function(
        f"{parameter} {kinds}",
        f"int {name}({parameter})",
        f"the {aggregate.said} of the {elements(condition, change, noun)}",
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
        f"{guarded(condition, 'r++;', 2)}{INDENT}}}\n{INDENT}return r;\n"
    )
    return Function(
        f"count {condition.kind}",
        f"int {name}(vector<int> v)",
        f"how many {elements(condition, SAME, 'numbers in v')} there are",
        body,
        [
            (f"vector<int>{_braces(v)}", str(sum(bool(condition.apply(x)) for x in v)))
            for v in _vectors(parts.draw)
        ],
    )


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
        f"{guarded(condition, f'r.push_back({change.code});', 2)}{INDENT}}}\n{INDENT}return r;\n"
    )

    def kept(v: list[int]) -> list[int]:
        return [change.apply(x) for x in v if condition is None or condition.apply(x)]

    return Function(
        f"filter {condition and condition.kind} {change.kind}",
        f"vector<int> {name}(vector<int> v)",
        f"a vector of the {elements(condition, change, 'numbers in v')}",
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
        f"{INDENT * 2}int x = n % 10;\n{guarded(condition, aggregate.statement('x'), 2)}"
        f"{INDENT * 2}n /= 10;\n{INDENT}}}\n{INDENT}return r;\n"
    )
    return Function(
        f"digits {aggregate.kind} {condition and condition.kind}",
        f"int {name}(int n)",
        f"the {aggregate.said} of the {elements(condition, SAME, 'digits of n')}",
        body,
        [
            (str(n), str(_over([int(d) for d in str(n)] if n else [], aggregate, condition, SAME)))
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
        inner, end = guarded(Part("", "", f"c == '{letter}'", abs), "r++;", 2), "r"
        results = [str(text.count(letter)) for text in texts]
    elif what == "drop":
        said, kind, first = f"s without '{letter}'", "string", "string r;"
        inner, end = guarded(Part("", "", f"c != '{letter}'", abs), "r += c;", 2), "r"
        results = [f'"{text.replace(letter, "")}"' for text in texts]
    elif what == "replace":
        said, kind, first = f"s with '{letter}' replaced by '{other}'", "string", "string r;"
        inner = f"{INDENT * 2}r += c == '{letter}' ? '{other}' : c;\n"
        end, results = "r", [f'"{text.replace(letter, other)}"' for text in texts]
    else:
        said, kind, first = f"s with every '{letter}' doubled", "string", "string r;"
        inner = f"{INDENT * 2}r += c;\n" + guarded(
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
