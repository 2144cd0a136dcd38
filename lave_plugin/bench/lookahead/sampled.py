"""The lookahead of the paper (arXiv 2602.00612) on xgrammar's matchers.

N fillings, each position drawn on its own from the candidates' probabilities, at most until one
fits.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import xgrammar

from lave_plugin.bench.lookahead.rows import WEIGHTS, Row
from lave_plugin.canvas import MASKED


@dataclass(frozen=True)
class Sampling:
    """How a lookahead went.

    Attributes:
        first: which filling was the first that fits, from 1 on; None if none did.
        ms: milliseconds by N, which are the whole time where fewer fillings did.
    """

    first: int | None
    ms: dict[int, float]

    def found(self, samples: int) -> bool:
        """Whether one of so many fillings fits."""
        return self.first is not None and self.first <= samples


class SampledLookahead:
    """For rows of one grammar.

    Args:
        compiled: the grammar over the rows' vocabulary.
        samples: values of N to be timed; the largest is how many fillings are drawn.
    """

    def __init__(self, compiled: xgrammar.CompiledGrammar, samples: tuple[int, ...]) -> None:
        self._matcher = xgrammar.GrammarMatcher(compiled)
        self._samples = samples

    def search(self, row: Row, rng: random.Random) -> Sampling:
        """Draw fillings until one fits.

        Raises:
            ValueError: What stands before the block is not of the grammar.
        """
        self._matcher.reset()
        if not all(map(self._matcher.accept_token, row.prefix)):
            raise ValueError("the text is not of the grammar")
        last = max(position for position, token in enumerate(row.canvas) if token != MASKED)
        ms: dict[int, float] = {}
        begin = time.perf_counter()
        for number in range(1, max(self._samples) + 1):
            fits = self._fits(row, last, rng)
            elapsed = 1e3 * (time.perf_counter() - begin)
            if fits or number in self._samples:
                ms[number] = elapsed
            if fits:
                break
        first = number if fits else None
        return Sampling(first, {n: ms.get(n, elapsed) for n in self._samples})

    def _fits(self, row: Row, last: int, rng: random.Random) -> bool:
        """Whether one filling, up to the last committed token, is of the grammar."""
        matcher, accepted, fits = self._matcher, 0, True
        for position in range(last + 1):
            token = row.canvas[position]
            if token == MASKED:
                (token,) = rng.choices(row.candidates[position], WEIGHTS)
            if matcher.is_terminated():
                fits = token == matcher.stop_token_ids[0]  # behind an end only ends stand
            elif fits := matcher.accept_token(token):
                accepted += 1
            if not fits:
                break
        matcher.rollback(accepted)
        return fits
