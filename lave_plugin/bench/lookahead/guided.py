"""Our lookahead on rows: the search over states, in C++ and in Python."""

from __future__ import annotations

import time

import numpy

from lave_plugin.bench.lookahead.rows import BLOCK, TOP_K, Row
from lave_plugin.canvas import Canvas
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.lattice import Verdict, find_witness
from lave_plugin.options import LaveOptions

TOKENS_LEFT = 400


def state_behind(tokens: TokenAutomaton, prefix: list[int]) -> int:
    """The state behind some tokens of a text.

    Raises:
        ValueError: They are none of the grammar's.
    """
    state = tokens.start
    for token in prefix:
        state = tokens.advance(state, token)
    if state == DEAD:
        raise ValueError("the text is not of the grammar")
    return state


def search(
    tokens: TokenAutomaton, rows: list[Row], budget: int = LaveOptions.search_budget
) -> tuple[float, list[Verdict]]:
    """Milliseconds of the lookahead for all rows, and the verdicts; the states may be of C++."""
    reference = isinstance(tokens, TokenAutomaton)
    return (_search_python if reference else _search_native)(tokens, rows, budget)


def _search_native(tokens, rows: list[Row], budget: int) -> tuple[float, list[Verdict]]:
    from lave_plugin import native

    candidates = numpy.full((len(rows), BLOCK, TOP_K), -1, dtype=numpy.int32)
    for index, row in enumerate(rows):
        for position, ids in row.candidates.items():
            candidates[index, position] = ids
    canvases = numpy.array([row.canvas for row in rows], dtype=numpy.int32)
    states = numpy.array([state_behind(tokens, row.prefix) for row in rows], dtype=numpy.int64)
    first = numpy.zeros(len(rows), dtype=numpy.int64)
    left = numpy.full(len(rows), TOKENS_LEFT, dtype=numpy.int64)
    automata = [tokens] * len(rows)
    begin = time.perf_counter()
    verdicts, _ = native.find_witness_batch(
        automata, states, canvases, first, left, candidates, budget
    )
    elapsed = 1e3 * (time.perf_counter() - begin)
    return elapsed, [list(Verdict)[verdict] for verdict in verdicts]


def _search_python(
    tokens: TokenAutomaton, rows: list[Row], budget: int
) -> tuple[float, list[Verdict]]:
    canvases = [Canvas(row.canvas, 0, TOKENS_LEFT) for row in rows]
    states = [state_behind(tokens, row.prefix) for row in rows]
    begin = time.perf_counter()
    found = [
        find_witness(tokens, state, canvas, row.candidates, budget)
        for state, canvas, row in zip(states, canvases, rows, strict=True)
    ]
    elapsed = 1e3 * (time.perf_counter() - begin)
    return elapsed, [each.verdict for each in found]
