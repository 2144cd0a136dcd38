"""Short C++ functions from one line, with tests that compile and run.

A task is put together from a form (a loop over a vector, over a range, over digits or characters,
or one expression), what is aggregated, which elements count and what happens to each. A held-out
task combines them as no training task does, under function names that training never has.
"""

from __future__ import annotations

from collections.abc import Callable

from lave_plugin.demo.records import Draw, Sample, split_of, words
from lave_plugin.demo.tasks.cpp_forms import (
    Function,
    choosing,
    choosing_of_three,
    counting,
    filtering,
    holding,
    over_digits,
    over_letters,
    over_range,
    over_vector,
)
from lave_plugin.demo.tasks.cpp_parts import Parts
from lave_plugin.grammars import load

NAMES = words(
    "answer apply assess balance build collect combine compute count derive digest evaluate figure "
    "find gather handle inspect judge make measure obtain pick process reckon reduce result scan "
    "score select solve survey tally total treat value weigh work"
)

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
