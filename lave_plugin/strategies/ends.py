"""What stands behind an end token."""

from __future__ import annotations

from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar.vocabulary import Vocabulary


def fill_behind_end(vocabulary: Vocabulary, canvas: Canvas) -> None:
    """Only end tokens can stand behind an end token, so they need no proposals."""
    for position in range(canvas.first, len(canvas.tokens)):
        if canvas.tokens[position] in vocabulary.end_tokens:
            for behind in range(position + 1, len(canvas.tokens)):
                if canvas.tokens[behind] == MASKED:
                    canvas.tokens[behind] = vocabulary.end_token
            return
