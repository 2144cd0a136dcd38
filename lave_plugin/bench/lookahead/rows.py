"""Canvases that have a witness.

A row is a block of 32 tokens of a text of the grammar, with a part of its positions masked and 16
candidates at each of them: the true token at a rank that is 0 in most cases, and tokens that are
frequent in such texts or random. So a lookahead that finds no witness has failed.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lave_plugin.canvas import MASKED
from lave_plugin.grammar.vocabulary import Vocabulary

BLOCK, TOP_K = 32, 16
RANK_DECAY = 0.7
"""The true token has rank r with a probability in proportion to exp(-RANK_DECAY * r)."""
WEIGHTS = [math.exp(-RANK_DECAY * rank) for rank in range(TOP_K)]
"""Probabilities of the candidates by rank, as far as a lookahead draws by them: those that the
true tokens' ranks come from."""


@dataclass(frozen=True)
class Row:
    """The tokens before a block, the block, and its candidates by position."""

    prefix: list[int]
    canvas: list[int]
    candidates: dict[int, list[int]]


class RowMaker:
    """Makes rows of texts, which are given as tokens."""

    def __init__(
        self, texts: Sequence[list[int]], vocabulary: Vocabulary, rng: random.Random
    ) -> None:
        self._texts, self._vocabulary, self._rng = texts, vocabulary, rng
        counts = Counter(token for text in texts for token in text)
        self._frequent, self._weights = list(counts), list(counts.values())

    def row(self, masked: float) -> Row:
        """With so large a part of its positions masked."""
        rng = self._rng
        text = rng.choice(self._texts)
        begin = rng.randrange(max(1, len(text) - BLOCK // 2))
        block = text[begin : begin + BLOCK]
        block += [self._vocabulary.end_token] * (BLOCK - len(block))
        canvas, candidates = list(block), {}
        for position in rng.sample(range(BLOCK), round(masked * BLOCK)):
            canvas[position] = MASKED
            candidates[position] = self._ranked(block[position])
        return Row(text[:begin], canvas, candidates)

    def _ranked(self, true: int) -> list[int]:
        rng = self._rng
        others = rng.choices(self._frequent, self._weights, k=TOP_K - 5)
        others += [rng.randrange(len(self._vocabulary) - 1) for _ in range(4)]
        rank = min(int(rng.expovariate(RANK_DECAY)), TOP_K - 1)
        return [*others[:rank], true, *others[rank:]]
