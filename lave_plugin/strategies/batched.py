"""The steps of many requests in few native calls.

What is decided is what ``strategies.lave`` decides row by row. Most rows need no more than
the best token of each position; the others' candidates are cut together, for a second call.

Importing this fails where the native part was not built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lave_plugin import native
from lave_plugin.options import LaveOptions
from lave_plugin.strategies.lave import best_fitting

if TYPE_CHECKING:
    from lave_plugin.candidates import CandidateArrays

_CANDIDATES, _TOKEN = 1, 2
"""What a row that the native step could not finish needs."""


class BatchedLave(native.Lave):
    """The strategy's memory of one request (see ``strategies.lave.Lave``)."""

    def __init__(self, tokens: native.TokenAutomaton, options: LaveOptions) -> None:
        super().__init__(
            tokens,
            attempts=options.attempts,
            search_budget=options.search_budget,
            plausibility=options.plausibility,
            forced_tokens=options.forced_tokens,
            constrained_confidence=options.confidence == "constrained",
        )
        self.tokens = tokens


def step(
    strategies: Sequence[BatchedLave],
    states: np.ndarray,
    canvases: np.ndarray,
    first: np.ndarray,
    tokens_left: np.ndarray,
    proposed: np.ndarray,
    best: np.ndarray,
    threshold: float,
    cut: Callable[[np.ndarray], CandidateArrays],
    by_rank: Callable[[int, int], Iterable[int]],
) -> tuple[np.ndarray, dict[int, Exception]]:
    """One denoising step of every row.

    Args:
        strategies: of the rows, none twice.
        states: int64 ``[rows]``, the grammar's states before ``first``.
        canvases: int32 ``[rows, block]``, ``MASKED`` where no token stands.
        first: int64 ``[rows]``, the position where the answer begins.
        tokens_left: int64 ``[rows]``, as of ``Canvas``.
        proposed: int32 ``[rows, block]``, what the engine's algorithm would write, ``MASKED``
            where nothing; a commit where the canvas is masked, else an edit.
        best: int32 ``[rows, block]``, the candidate to try first at each masked position.
        threshold: as of ``Proposals``.
        cut: gives the candidates of some rows.
        by_rank: gives the tokens of a row and position, the model's favourite first.

    Returns:
        The canvases after the step, and what failed, by row.
    """
    written, needs, stages, _, messages = native.step_batch(
        strategies, states, canvases, first, tokens_left, proposed, best, threshold=threshold
    )
    errors = dict(messages)
    rows = np.flatnonzero(needs == _CANDIDATES)
    if not len(rows):
        return written, _as_exceptions(errors)
    candidates = cut(rows)
    arrays = [array[rows] for array in (states, first, tokens_left, proposed, best)]

    def go_on(some: np.ndarray):
        """Take up the step of ``rows[some]`` where it stands."""
        states, first, tokens_left, proposed, best = (array[some] for array in arrays)
        answer = native.step_batch(
            [strategies[row] for row in rows[some]],
            states,
            written[rows[some]],
            first,
            tokens_left,
            proposed,
            best,
            candidates=candidates.tokens[some],
            probabilities=candidates.probabilities[some],
            stages=stages[rows[some]],
            threshold=threshold,
        )
        written[rows[some]], stages[rows[some]] = answer[0], answer[2]
        errors.update({int(rows[some][at]): message for at, message in answer[4].items()})
        return answer

    _, needs, _, positions, _ = go_on(np.arange(len(rows)))
    # No candidate fits: look further down the model's ranking.
    stuck = np.flatnonzero(needs == _TOKEN)
    for at in stuck.tolist():
        row = int(rows[at])
        position, state = positions[at]
        left = max(0, int(tokens_left[row]) - (position + 1 - int(first[row])))
        written[row, position] = best_fitting(
            strategies[row].tokens, state, left, by_rank(row, position)
        )
    if len(stuck):
        go_on(stuck)
    return written, _as_exceptions(errors)


def _as_exceptions(messages: dict[int, str]) -> dict[int, Exception]:
    return {row: RuntimeError(message) for row, message in messages.items()}
