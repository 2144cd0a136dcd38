"""Vocabularies of the size that models have, and a tokenizer over them."""

import base64
import random
from pathlib import Path

from lave_plugin.bench.synthetic.subjects import WORDS
from lave_plugin.grammar.vocabulary import Vocabulary

LONGEST_TOKEN = 24
"""Bytes of the longest token that ``tokenize`` uses."""


def read_vocabulary(path: Path) -> list[bytes]:
    tokens = {}
    for line in path.read_text().splitlines():
        data, rank = line.split()
        tokens[int(rank)] = base64.b64decode(data)
    return [tokens.get(rank, b"") for rank in range(max(tokens) + 1)]


def synthetic_vocabulary(size: int = 151_643) -> list[bytes]:
    """All bytes, then pieces of words, numbers and signs, as a BPE would have them."""
    rng = random.Random(0)
    letters, signs = "etaoinshrdlucmfwypvbgkqjxz", ' {}[]():;,."=<>+-*/_\\\n'
    tokens = {bytes([byte]): None for byte in range(256)}
    for word in WORDS:
        for end in range(1, len(word) + 1):
            for piece in (word[:end], word[:end].title(), " " + word[:end]):
                tokens.setdefault(piece.encode())
    while len(tokens) < size:
        kind, length = rng.random(), rng.randrange(2, 9)
        if kind < 0.08:
            piece = "".join(rng.choices(signs, k=rng.randrange(2, 4)))
        else:
            weights = [1 / (rank + 2) for rank in range(len(letters))]
            piece = "".join(rng.choices(letters, weights, k=length))
            piece = " " + piece if kind < 0.5 else piece
        tokens.setdefault(piece.encode())
    return list(tokens)


def tokenize(vocabulary: Vocabulary, data: bytes) -> list[int]:
    """The longest token first, from the left."""
    tokens, at = [], 0
    while at < len(data):
        length = next(
            n
            for n in range(min(LONGEST_TOKEN, len(data) - at), 0, -1)
            if data[at : at + n] in vocabulary.id_of
        )
        tokens.append(vocabulary.id_of[data[at : at + length]])
        at += length
    return tokens
