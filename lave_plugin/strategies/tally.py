"""What becomes of tokens, counted; and told one by one, where somebody listens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable


class Tally(Counter[str]):
    """Counts by name.

    Attributes:
        listener: is told the fate of each token, with its position in the block.
    """

    listener: Callable[[str, int, int], None] | None = None

    def token(self, fate: str, position: int, token: int) -> None:
        """Count one token under its ``fate``."""
        self[fate] += 1
        if self.listener is not None:
            self.listener(fate, position, token)
