"""How samples are laid out for training: a clean part, and noisy copies of the answer behind it."""

from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from lave_plugin.demo.records import Sample
from lave_plugin.demo.training.tokenizer import END_ID, MASK_ID, PAD_ID, chat

NOISY_COPIES = 2
# How many blocks have every token masked, as each block has when decoding begins.
FULLY_MASKED = 0.15
# What an end token after the first counts for, against 1 for a token of the answer.
PADDING_WEIGHT = 0.3


@dataclass(frozen=True)
class Batch:
    """B rows of T tokens: a clean part, then the noisy copies, which begin at `noisy`.

    token_ids, positions: int64 (B, T). visible: bool (B, T, T).
    targets: int64 (B, T - noisy), the token to restore, or -100 where there is none.
    weights: float32 (B, T - noisy).
    """

    token_ids: Tensor
    positions: Tensor
    visible: Tensor
    noisy: int
    targets: Tensor
    weights: Tensor

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        moved = {
            name: value.to(device) if isinstance(value, Tensor) else value
            for name, value in vars(self).items()
        }
        return Batch(**moved)


@dataclass(frozen=True)
class Example:
    prompt: list[int]
    answer: list[int]


def tokenize(tokenizer: Tokenizer, sample: Sample) -> Example:
    return Example(tokenizer.encode(chat(sample.prompt)).ids, tokenizer.encode(sample.answer).ids)


def pack(
    examples: list[Example], noise: np.random.Generator, block_size: int, *, autoregressive: bool
) -> Batch:
    """Lay examples out as one batch, one example a row.

    The clean part leaves out the last block, which nothing may see. The noisy part holds
    the blocks from the answer's first on; a prompt's tail in that block stays unmasked. In
    autoregressive form blocks are of one token, whatever the model's ``block_size`` is.
    """
    if autoregressive:
        block_size = 1
    copies = 1 if autoregressive else NOISY_COPIES
    sequences, first_blocks = [], []
    for example in examples:
        tokens = [*example.prompt, *example.answer, END_ID]
        tokens += [END_ID] * (-len(tokens) % block_size)
        sequences.append(np.array(tokens))
        first_blocks.append(len(example.prompt) // block_size)
    clean_length = max(len(sequence) for sequence in sequences) - block_size
    noisy_length = max(
        len(sequence) - first * block_size
        for sequence, first in zip(sequences, first_blocks, strict=True)
    )
    shape = (len(examples), clean_length + copies * noisy_length)
    token_ids = np.full(shape, PAD_ID)
    positions = np.zeros(shape, dtype=np.int64)
    blocks = np.zeros(shape, dtype=np.int64)
    parts = np.full(shape, -1)  # 0: clean, k: the k-th noisy copy, -1: nothing
    targets = np.full(shape, -100)
    weights = np.zeros(shape, dtype=np.float32)

    for row, (example, sequence, first) in enumerate(
        zip(examples, sequences, first_blocks, strict=True)
    ):
        where = np.arange(len(sequence))
        clean = slice(0, len(sequence) - block_size)
        token_ids[row, clean] = sequence[clean]
        positions[row, clean] = where[clean]
        parts[row, clean] = 0

        tail, where = sequence[first * block_size :], where[first * block_size :]
        in_answer = where >= len(example.prompt)
        is_padding = where > len(example.prompt) + len(example.answer)
        for copy in range(copies):
            count = len(tail) // block_size
            # Each copy draws from its own stretch of mask rates, so that a sample shows
            # both a sparse and a dense canvas.
            rates = (copy + noise.random(count)) / copies
            rates[noise.random(count) < FULLY_MASKED] = 1.0
            if autoregressive:
                rates[:] = 1.0
            masked = in_answer & (noise.random(len(tail)) < np.repeat(rates, block_size))
            start = clean_length + copy * noisy_length
            here = slice(start, start + len(tail))
            token_ids[row, here] = np.where(masked, MASK_ID, tail)
            positions[row, here] = where
            parts[row, here] = copy + 1
            targets[row, here] = np.where(masked, tail, -100)
            weights[row, here] = np.where(is_padding, PADDING_WEIGHT, 1.0) * masked
    blocks = positions // block_size

    query_part, key_part = parts[:, :, None], parts[:, None, :]
    query_block, key_block = blocks[:, :, None], blocks[:, None, :]
    from_clean = (query_part == 0) & (key_part == 0) & (key_block <= query_block)
    from_noisy = (query_part > 0) & (
        ((key_part == 0) & (key_block < query_block))
        | ((key_part == query_part) & (key_block == query_block))
    )
    # A token that sees nothing, as padding would, has an attention of 0 / 0.
    itself = np.eye(shape[1], dtype=bool)
    return Batch(
        token_ids=torch.from_numpy(token_ids),
        positions=torch.from_numpy(positions),
        visible=torch.from_numpy(from_clean | from_noisy | itself),
        noisy=clean_length,
        targets=torch.from_numpy(targets[:, clean_length:]),
        weights=torch.from_numpy(weights[:, clean_length:]),
    )
