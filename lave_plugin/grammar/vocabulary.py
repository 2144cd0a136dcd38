"""The tokenizer as the grammar sees it: each token id is a string of bytes, or an end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache

UNSPELLABLE = 1 << 30
"""A token count that no budget reaches: the tokenizer cannot spell the bytes."""

LONGEST_IN_SPELLING = 32
"""Bytes of the longest token that a spelling uses; bounds its cost on vocabularies that
hold runs of a hundred spaces as one token."""


class Vocabulary:
    """Token ids with their bytes.

    Args:
        token_bytes: the bytes of each id. Special tokens have none: to a grammar they
            are not text, and a JSON string must not be able to hold ``<|mask|>``.
        end_tokens: the ids that end a text, the tokenizer's own first. They have no
            bytes either.
    """

    def __init__(self, token_bytes: Sequence[bytes], end_tokens: Iterable[int]) -> None:
        self.base: Vocabulary | None = None
        """The vocabulary that this one differs from in its end tokens only."""
        ends = list(end_tokens)
        if not ends:
            raise ValueError("a vocabulary needs an end token: without one no answer can end")
        self.end_token = ends[0]
        self.end_tokens = frozenset(ends)
        self.token_bytes = [
            b"" if token in self.end_tokens else bytes(data)
            for token, data in enumerate(token_bytes)
        ]

    @cached_property
    def id_of(self) -> dict[bytes, int]:
        """The token with these bytes; some tokenizers hold the same twice: the first of them."""
        ids: dict[bytes, int] = {}
        for token, data in enumerate(self.token_bytes):
            if data:
                ids.setdefault(data, token)
        return ids

    @cached_property
    def byte_tokens(self) -> list[int]:
        """The tokens of single bytes, in the order of the bytes."""
        single = (bytes([byte]) for byte in range(256))
        return [self.id_of[data] for data in single if data in self.id_of]

    @cached_property
    def in_order(self) -> tuple[list[bytes], list[int]]:
        """The tokens with bytes in the order of these, and their ids."""
        texts = [(data, token) for token, data in enumerate(self.token_bytes) if data]
        texts.sort()
        return [data for data, _ in texts], [token for _, token in texts]

    @cached_property
    def _longest(self) -> int:
        return min(max(map(len, self.id_of), default=0), LONGEST_IN_SPELLING)

    def __len__(self) -> int:
        return len(self.token_bytes)

    def is_text_or_end(self, token: int) -> bool:
        """Whether a grammar can ever allow this id."""
        return bool(self.token_bytes[token]) or token in self.end_tokens

    def spelling(self, data: bytes) -> list[int] | None:
        """The fewest tokens that spell ``data``, or ``None`` where none do.

        Of equally short spellings it takes the one with the longest last token first,
        a choice that depends on nothing but ``data``.
        """
        fewest = [0] + [UNSPELLABLE] * len(data)
        last_length = [0] * (len(data) + 1)
        for end in range(1, len(data) + 1):
            for length in range(1, min(self._longest, end) + 1):
                count = fewest[end - length] + 1
                if count <= fewest[end] and data[end - length : end] in self.id_of:
                    fewest[end], last_length[end] = count, length
        if fewest[-1] >= UNSPELLABLE:
            return None
        tokens = []
        end = len(data)
        while end:
            tokens.append(self.id_of[data[end - last_length[end] : end]])
            end -= last_length[end]
        return tokens[::-1]

    @lru_cache(maxsize=16)  # noqa: B019 - a server has one vocabulary, alive to its end
    def with_stop_tokens(self, stop_tokens: frozenset[int]) -> Vocabulary:
        """The same vocabulary where ``stop_tokens`` end a text as well.

        The engine cuts an answer at a request's own ``stop_token_ids``, so they may
        stand only where the answer is complete.
        """
        if stop_tokens <= self.end_tokens:
            return self
        # A request comes with them while others are served, so the tokens are not made again, and
        # what is found by them only where it is asked for.
        derived = Vocabulary.__new__(Vocabulary)
        derived.base = self
        derived.end_token = self.end_token
        derived.end_tokens = self.end_tokens | stop_tokens
        derived.token_bytes = self.token_bytes.copy()
        for token in stop_tokens:
            if 0 <= token < len(self):
                derived.token_bytes[token] = b""
        return derived
