"""What verification costs, as a line over the rows of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy


@dataclass(frozen=True)
class Cost:
    """Verification of one step on one host core: so much, and so much more for each row."""

    fixed_ms: float
    row_ms: float

    @classmethod
    def fit(cls, by_rows: Mapping[int, float]) -> Cost:
        """The line through measured milliseconds by rows, by least squares.

        Raises:
            ValueError: There are not two sizes of batch to lay a line through.
        """
        if len(by_rows) < 2:
            raise ValueError("the cost of a row takes measurements at two sizes of batch or more")
        rows, milliseconds = numpy.array(list(by_rows)), numpy.array(list(by_rows.values()))
        row_ms, fixed_ms = numpy.polyfit(rows, milliseconds, 1)
        if fixed_ms < 0:  # noise: then the rows are all of it
            return cls(0.0, float(milliseconds @ rows / (rows @ rows)))
        return cls(float(fixed_ms), float(row_ms))

    def ms(self, rows: int, threads: int = 1) -> float:
        """Milliseconds of a step, its rows spread evenly over the threads."""
        return self.fixed_ms + self.row_ms * -(-rows // threads)

    def share(self, rows: int, forward_ms: float, threads: int = 1) -> float:
        """The part of the step that is verification: it waits for the forward pass."""
        verifying = self.ms(rows, threads)
        return verifying / (verifying + forward_ms)

    def first_above(self, share: float, forward_ms: Mapping[int, float]) -> int | None:
        """The smallest batch, out of these, whose share is above ``share``."""
        return next((rows for rows, ms in forward_ms.items() if self.share(rows, ms) > share), None)
