"""Thinking before the answer: free text up to the tokens that end it, then the grammar.

The end of thinking can fall inside a block, and a diffusion model writes what stands behind
it before, with or after it. So a block is free as long as no end stands in it; once one does,
all that was written behind it without the grammar becomes a proposal and is verified.

The text is the model's own, but what would break the constraint is kept out of it: an end of
text, a mask that stays, and thinking for so long that the answer could not be finished.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from lave_plugin.canvas import MASKED


class Thinking:
    """How one request thinks.

    Args:
        end: the ids that end the thinking, together and in this order.
        barred: ids that may not stand in the thinking.
        longest: tokens of thinking, without its end; ``None`` leaves them to what the answer
            needs.
    """

    def __init__(
        self, end: Sequence[int], barred: Iterable[int], longest: int | None = None
    ) -> None:
        self.end = tuple(end)
        self.barred = frozenset(barred)
        self.longest = longest

    def behind_end(self, tokens: Sequence[int], start: int = 0) -> int | None:
        """Where the grammar begins in ``tokens``: behind the first end of thinking.

        start: tokens before it are known to hold no end.
        """
        size = len(self.end)
        for behind in range(max(start + 1, size), len(tokens) + 1):
            if tuple(tokens[behind - size : behind]) == self.end:
                return behind
        return None

    def room(self, length: int, tokens_left: int, needed: int) -> int:
        """How many tokens may still come before the end of thinking.

        Args:
            length: tokens of the answer before this block.
            tokens_left: tokens that it may still have from there.
            needed: tokens that the shortest sentence of the grammar takes, end included.
        """
        room = tokens_left - needed - len(self.end)
        return room if self.longest is None else min(room, self.longest - length)

    def step(
        self,
        canvas: np.ndarray,
        proposed: np.ndarray,
        first: int,
        answer: Sequence[int],
        room: int,
        best: Callable[[int, Collection[int]], int],
    ) -> int:
        """One denoising step of a block that begins in thought.

        Commits at least one token where one is masked, unless the grammar's part has a mask.

        Args:
            canvas: int ``[block]``, ``MASKED`` where no token stands; on return with the
                thinking's tokens, and masked behind an end that has just come to stand.
            proposed: int ``[block]``, what the engine's algorithm would write, ``MASKED``
                where nothing; on return what is proposed behind the end.
            first: the position where the answer goes on.
            answer: its tokens before.
            room: how many may stand between ``first`` and the end of thinking.
            best: the most probable token of a position that is none of these.

        Returns:
            The position where the grammar begins, ``block`` where it does not.
        """
        begin = self._begin(canvas, first, answer)
        latest = first + room if begin is None else begin - len(self.end)
        has_committed = False
        for position in range(first, min(latest, len(canvas))):
            token = int(proposed[position])
            if token == MASKED:
                continue
            is_commit = canvas[position] == MASKED
            if token in self._barred(begin):
                if not is_commit:
                    continue
                token = best(position, self._barred(begin))
            canvas[position] = token
            has_committed = has_committed or is_commit
        if begin is None:
            begin = self._propose_anew(canvas, proposed, first, answer)
        free = len(canvas) if begin is None else begin
        masked = np.flatnonzero(canvas[: max(min(latest, free), 0)] == MASKED)
        if len(masked) and not has_committed and MASKED not in canvas[free:]:
            canvas[masked[0]] = best(int(masked[0]), self._barred(begin))
            masked = masked[1:]
            if begin is None:
                begin = self._propose_anew(canvas, proposed, first, answer)
        if begin is None and latest < len(canvas) and not len(masked):
            self._end_at(latest, canvas, first)
            begin = self._propose_anew(canvas, proposed, first, answer)
        free = len(canvas) if begin is None else begin
        proposed[:free] = MASKED
        return free

    def _barred(self, begin: int | None) -> frozenset[int]:
        """Where an end stands, another before it would make its text the answer's."""
        return self.barred if begin is None else self.barred.union(self.end)

    def _begin(self, canvas: np.ndarray, first: int, answer: Sequence[int]) -> int | None:
        """The position behind an end in the block, part of which may stand in ``answer``."""
        tail = list(answer[max(len(answer) - len(self.end) + 1, 0) :])
        behind = self.behind_end([*tail, *canvas[first:].tolist()])
        return None if behind is None else first + behind - len(tail)

    def _end_at(self, position: int, canvas: np.ndarray, first: int) -> None:
        """End the thinking; what finds no place in this block comes first in the next."""
        for place, token in enumerate(self.end, start=position):
            if first <= place < len(canvas):
                canvas[place] = token

    def _propose_anew(
        self, canvas: np.ndarray, proposed: np.ndarray, first: int, answer: Sequence[int]
    ) -> int | None:
        """Where an end has come to stand, what was written behind it is no more than a proposal.

        It was written without the grammar. Returns the position behind the end.
        """
        begin = self._begin(canvas, first, answer)
        if begin is not None:
            behind = slice(begin, None)
            stands = (canvas[behind] != MASKED) & (proposed[behind] == MASKED)
            proposed[behind][stands] = canvas[behind][stands]
            canvas[behind] = MASKED
        return begin
