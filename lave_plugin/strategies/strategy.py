"""What a session asks of a strategy that takes the steps of one row."""

from __future__ import annotations

from typing import Protocol

from lave_plugin.candidates import Candidates
from lave_plugin.canvas import Canvas
from lave_plugin.strategies.lave import Proposals
from lave_plugin.strategies.tally import Tally


class Strategy(Protocol):
    """The memory of one request; made of its states, the options and the request's seed.

    Attributes:
        counts: what became of the tokens, by name.
    """

    counts: Tally

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
