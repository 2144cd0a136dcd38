"""C++ functions of a few statements, at random; the `cpp` grammar that ships accepts them."""

from __future__ import annotations

import random

from lave_plugin.bench.synthetic.subjects import WORDS

TYPES = ["int", "bool", "long long", "string", "vector<int>", "map<string, int>"]


def program(rng: random.Random) -> str:
    """A function of a few statements, with what it includes."""

    def name() -> str:
        return rng.choice(WORDS)

    def expression(depth: int = 0) -> str:
        kind = rng.randrange(8 if depth < 2 else 3)
        if kind == 0:
            return name()
        if kind == 1:
            return str(rng.randrange(100))
        if kind == 2:
            return f"{name()}.size()"
        inner = expression(depth + 1)
        if kind == 3:
            return f"{inner} {rng.choice(['+', '-', '*', '%', '<', '==', 'and'])} {name()}"
        if kind == 4:
            return f"max({inner}, {expression(depth + 1)})"
        if kind == 5:
            return f"{name()}[{inner}]"
        if kind == 6:
            return f"({inner})"
        return f'"{name()}"'

    def statement(depth: int = 1) -> str:
        pad = "    " * depth
        kind = rng.randrange(7 if depth < 3 else 4)
        if kind == 0:
            return f"{pad}{rng.choice(TYPES)} {name()} = {expression()};\n"
        if kind == 1:
            return f"{pad}{name()} {rng.choice(['=', '+=', '*='])} {expression()};\n"
        if kind == 2:
            return f"{pad}{name()}.push_back({expression()});\n"
        if kind == 3:
            return f"{pad}return {expression()};\n"
        inner = "".join(statement(depth + 1) for _ in range(rng.randrange(1, 3)))
        if kind == 4:
            return f"{pad}if ({expression()}) {{\n{inner}{pad}}}\n"
        if kind == 5:
            return f"{pad}while ({name()} > {expression()}) {{\n{inner}{pad}}}\n"
        return f"{pad}for (int i = 0; i < {name()}.size(); i++) {{\n{inner}{pad}}}\n"

    body = "".join(statement() for _ in range(rng.randrange(2, 5)))
    head = f"{rng.choice(TYPES)} {name()}({rng.choice(TYPES)} {name()}, int {name()})"
    return f"#include <vector>\nusing namespace std;\n{head} {{\n{body}}}\n"
