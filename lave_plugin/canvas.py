"""The block as the engine has it: what is prompt, committed, and still masked."""

from __future__ import annotations

from dataclasses import dataclass

MASKED = -1
"""A position without a token. Not the model's mask id, which may stand in a prompt as text."""


@dataclass
class Canvas:
    """One row's block.

    Attributes:
        tokens: one entry for each position of the block, ``MASKED`` or a token id.
        first: the position where the answer begins; the prompt's tail stands before it.
        tokens_left: how many tokens the request may still produce, counted from
            ``first`` and the end token included. May be more or less than the block.
    """

    tokens: list[int]
    first: int
    tokens_left: int

    def masked(self) -> list[int]:
        """Positions of the answer that have no token yet."""
        return [p for p in range(self.first, len(self.tokens)) if self.tokens[p] == MASKED]

    def last_committed(self) -> int:
        """The last position with a token; ``first - 1`` where there is none."""
        position = len(self.tokens) - 1
        while position >= self.first and self.tokens[position] == MASKED:
            position -= 1
        return position

    def left_after(self, position: int) -> int:
        """Tokens that may still follow the one at ``position``.

        Not below 0: behind the budget's end the engine cuts the block, so the end tokens
        that fill it there cost nothing. Anything else needs at least its own end token.
        """
        return max(0, self.tokens_left - (position + 1 - self.first))
