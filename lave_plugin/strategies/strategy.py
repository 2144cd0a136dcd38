"""What a session asks of a strategy that takes the steps of one row."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from lave_plugin.candidates import Candidates
from lave_plugin.canvas import Canvas
from lave_plugin.strategies.lave import Proposals


class Strategy(Protocol):
    """The memory of one request; made of its states, the options and the request's seed.

    Attributes:
        counts: what became of the tokens, by name.
    """

    counts: Counter[str]

    def start_block(self) -> None:
        """Forget what was about the block before."""

    def step(
        self, state: int, canvas: Canvas, candidates: Candidates, proposals: Proposals
    ) -> None:
        """One denoising step, in place; commits at least one token where one is masked.

        Args:
            state: the grammar's state before ``canvas.first``.
            canvas: the block.
            candidates: of its masked positions.
            proposals: what the engine's own algorithm would do.
        """
