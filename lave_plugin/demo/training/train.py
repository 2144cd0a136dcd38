"""Trains the tiny dLLM from nothing: tokenizer, model, checkpoint.

Block-diffusion training (arXiv 2503.09573) lays a sample out as its clean sequence and,
behind it, noisy copies of the answer's blocks. A noisy block sees itself and the clean
blocks before it, and is to restore its masked tokens, so one pass trains every block.

That alone teaches a model of this size the form of JSON and not the copying of values.
So most batches of the first part are in *autoregressive form*, which is the same layout
at block size 1 with every answer token masked: each token is restored from all the text
to its left, where copying is easiest to learn. Later they are few.

Run (most of an hour on one CPU core that others use too)::

    python -m lave_plugin.demo.training.train --out DIR --minutes 40

The samples, the masks and the initial weights follow from ``--seed``. The learning rate
follows the share of the steps or of the time that has passed, whichever is further on:
a run that ``--steps`` ends, with time to spare, can be repeated exactly.
"""

import argparse
import itertools
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor
from tqdm import tqdm

from lave_plugin.demo.records import Sample, held_out, training_stream
from lave_plugin.demo.training.evaluate import evaluate
from lave_plugin.demo.training.model import BLOCK_SIZE, TinyDLLM, load_checkpoint, save_checkpoint
from lave_plugin.demo.training.tokenizer import (
    END_ID,
    MASK_ID,
    PAD_ID,
    chat,
    save_tokenizer,
    train_tokenizer,
)

TOKENIZER_SAMPLES = 30_000
# Held-out samples that training looks at; `evaluate` uses another seed.
VALIDATION_SEED = 1
VALIDATION_SAMPLES = 64

# Rows of a block-diffusion batch. A row in autoregressive form is about half as long.
ROWS = 16
NOISY_COPIES = 2
# How many blocks have every token masked, as each block has when decoding begins.
FULLY_MASKED = 0.15
# What an end token after the first counts for, against 1 for a token of the answer.
PADDING_WEIGHT = 0.3

# Until this share of the run, batches are mostly in autoregressive form.
AUTOREGRESSIVE_UNTIL = 0.35
AUTOREGRESSIVE_EARLY, AUTOREGRESSIVE_LATE = 0.8, 0.15
COPY_EARLY, COPY_LATE = 0.25, 0.05

# The learning rate rises over WARM_UP_STEPS, is flat until FLAT_UNTIL, then falls to 0.
MATRIX_RATE, EMBEDDING_RATE, NORM_RATE = 0.02, 0.004, 0.016
WARM_UP_STEPS = 100
FLAT_UNTIL = 0.4


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


@dataclass(frozen=True)
class Example:
    prompt: list[int]
    answer: list[int]


def tokenize(tokenizer: Tokenizer, sample: Sample) -> Example:
    return Example(tokenizer.encode(chat(sample.prompt)).ids, tokenizer.encode(sample.answer).ids)


def pack(examples: list[Example], noise: np.random.Generator, autoregressive: bool) -> Batch:
    """Lay examples out as one batch, one example a row.

    The clean part leaves out the last block, which nothing may see. The noisy part holds
    the blocks from the answer's first on; a prompt's tail in that block stays unmasked.
    """
    block_size = 1 if autoregressive else BLOCK_SIZE
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


def batches_of(
    stream: Iterator[Example], noise: np.random.Generator, autoregressive: bool
) -> list[Batch]:
    """Four batches of examples of similar length, in random order."""
    rows = ROWS * (2 if autoregressive else 1)
    examples = sorted(
        itertools.islice(stream, 4 * rows),
        key=lambda example: len(example.prompt) + len(example.answer),
    )
    packed = [
        pack(examples[start : start + rows], noise, autoregressive)
        for start in range(0, len(examples), rows)
    ]
    noise.shuffle(packed)
    return packed


def loss_and_accuracy(model: TinyDLLM, batch: Batch) -> tuple[Tensor, float]:
    """The mean loss of the masked tokens, and the share restored right (padding aside)."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = model.hidden(batch.token_ids, batch.positions, batch.visible, batch.noisy)
        chosen = batch.targets >= 0
        logits = model.logits(hidden[chosen])
    targets, weights = batch.targets[chosen], batch.weights[chosen]
    losses = F.cross_entropy(logits.float(), targets, reduction="none")
    right = (logits.argmax(-1) == targets)[weights == 1.0]
    return (losses * weights).sum() / weights.sum(), right.float().mean().item()


class Optimizers:
    """Muon for the matrices, AdamW for the embedding and the norms."""

    def __init__(self, model: TinyDLLM):
        named = list(model.named_parameters())
        embeddings = [p for name, p in named if "embed_tokens" in name]
        matrices = [p for name, p in named if p.dim() == 2 and "embed_tokens" not in name]
        norms = [p for _, p in named if p.dim() == 1]
        muon = torch.optim.Muon(matrices, lr=MATRIX_RATE, weight_decay=0.0)
        adam = torch.optim.AdamW(
            [
                {"params": embeddings, "lr": EMBEDDING_RATE},
                # QK-norm bounds the attention logits by its gains, which must grow fast.
                {"params": norms, "lr": NORM_RATE},
            ],
            betas=(0.9, 0.95),
            weight_decay=0.0,
        )
        self.all = [muon, adam]
        self.full_rates = [[group["lr"] for group in one.param_groups] for one in self.all]

    def step(self, rate: float) -> None:
        """Take one step at `rate` times the full learning rates."""
        for one, full_rates in zip(self.all, self.full_rates, strict=True):
            for group, full_rate in zip(one.param_groups, full_rates, strict=True):
                group["lr"] = full_rate * rate
            one.step()
            one.zero_grad()


def learning_rate(step: int, progress: float) -> float:
    """The share of the full rate; `progress` runs from 0 to 1."""
    warm_up = min(1.0, (step + 1) / WARM_UP_STEPS)
    return warm_up * min(1.0, (1 - progress) / (1 - FLAT_UNTIL))


class Validation:
    """Looks at the model on held-out samples, between training steps."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.records = held_out(VALIDATION_SAMPLES, VALIDATION_SEED)
        self.copies = held_out(VALIDATION_SAMPLES, VALIDATION_SEED, "copy")

    @torch.no_grad()
    def accuracies(self, model: TinyDLLM) -> dict[str, float]:
        """Share of masked tokens restored right, for each task and form of batch."""
        result = {}
        for task, samples in (("record", self.records), ("copy", self.copies)):
            examples = [tokenize(self.tokenizer, sample) for sample in samples]
            for form, autoregressive in (("autoregressive", True), ("block", False)):
                batch = pack(examples, np.random.default_rng(0), autoregressive)
                result[f"{task} {form}"] = round(loss_and_accuracy(model, batch)[1], 3)
        return result

    def decoded(self, model: TinyDLLM, threshold: float) -> str:
        score, _ = evaluate(model, self.tokenizer, self.records, threshold)
        return f"{score.valid:.0f} / {score.exact:.0f}"


def tokenizer_of_samples(seed: int) -> Tokenizer:
    """A tokenizer learnt from the prompts and answers of the training stream."""
    samples = itertools.islice(training_stream(seed), TOKENIZER_SAMPLES)
    return train_tokenizer(
        text
        for sample in samples
        for text in (f"user\n{sample.prompt}\nassistant\n", sample.answer)
    )


def train(out: Path, minutes: float, steps: int | None, seed: int, look_every: int) -> None:
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    noise = np.random.default_rng(seed)
    choice = random.Random(seed)

    tokenizer = tokenizer_of_samples(seed)
    save_tokenizer(tokenizer, out)
    early, late = (
        (tokenize(tokenizer, sample) for sample in training_stream(seed + offset, copy_share))
        for offset, copy_share in ((1, COPY_EARLY), (2, COPY_LATE))
    )

    model = TinyDLLM()
    optimizers = Optimizers(model)
    validation = Validation(tokenizer)
    log = (out / "log.jsonl").open("w")
    began, tokens, smooth_loss, step = time.monotonic(), 0, 0.0, 0
    waiting: list[Batch] = []
    bar = tqdm(total=100.0, bar_format="{l_bar}{bar}| {elapsed}<{remaining}{postfix}")
    while True:
        elapsed = time.monotonic() - began
        progress = max(elapsed / 60 / minutes, step / steps if steps else 0.0)
        if progress >= 1.0:
            break
        if not waiting:
            is_early = progress < AUTOREGRESSIVE_UNTIL
            share = AUTOREGRESSIVE_EARLY if is_early else AUTOREGRESSIVE_LATE
            waiting = batches_of(early if is_early else late, noise, choice.random() < share)
        batch = waiting.pop()
        loss, accuracy = loss_and_accuracy(model, batch)
        loss.backward()
        optimizers.step(learning_rate(step, progress))

        step += 1
        tokens += batch.token_ids.numel()
        smooth_loss += (loss.item() - smooth_loss) * max(0.03, 1 / step)
        if step % 10 == 0:
            bar.update(round(100 * progress - bar.n, 3))
            bar.set_postfix(
                step=step,
                loss=f"{smooth_loss:.3f}",
                right=f"{accuracy:.2f}",
                tokens_per_s=int(tokens / (time.monotonic() - began)),
            )
        if step % look_every == 0:
            look = {
                "step": step,
                "minutes": round((time.monotonic() - began) / 60, 2),
                "tokens": tokens,
                "loss": round(smooth_loss, 4),
                "right": validation.accuracies(model),
                "valid/exact at 0.95": validation.decoded(model, 0.95),
                "valid/exact at 0.7": validation.decoded(model, 0.7),
            }
            tqdm.write(json.dumps(look))
            log.write(json.dumps(look) + "\n")
            log.flush()
            save_checkpoint(model, out)
    bar.close()

    save_checkpoint(model, out)
    # What is judged is what was saved, after its weights were rounded.
    saved = load_checkpoint(out)
    print(f"{step} steps, {tokens} tokens, {(time.monotonic() - began) / 60:.1f} minutes")
    for threshold in (0.95, 0.7):
        print(f"held-out valid / exact at {threshold}: {validation.decoded(saved, threshold)} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the checkpoint")
    parser.add_argument("--minutes", type=float, default=40.0, help="time limit")
    parser.add_argument("--steps", type=int, help="step limit (default: none)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--look-every", type=int, default=300, help="steps between validations")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    # A second thread on a core that others use makes a step many times slower.
    torch.set_num_threads(options.threads)
    train(options.out, options.minutes, options.steps, options.seed, options.look_every)


if __name__ == "__main__":
    main()
