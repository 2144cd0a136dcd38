"""How well the tiny dLLM does by itself, without any constraint.

The decoder is SGLang's ``LowConfidence`` at temperature 0, over a whole batch and without
a KV cache: every step commits each masked position whose best token is surer than the
threshold, or the surest one if none is. A higher threshold means more steps and fewer of
the errors of parallel decoding, which a grammar is there to prevent.

Run::

    python -m lave_plugin.demo.training.evaluate lave_plugin/demo/checkpoint
"""

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import torch
from tokenizers import Tokenizer
from tqdm import tqdm

from lave_plugin.demo.records import EXPRESSION_GRAMMAR, MAKERS, Sample, held_out
from lave_plugin.demo.training.model import (
    BLOCK_SIZE,
    TinyDLLM,
    block_causal,
    load_checkpoint,
)
from lave_plugin.demo.training.tokenizer import END_ID, MASK_ID, PAD_ID, chat, load_tokenizer

# No training run draws its held-out samples with this seed.
EVALUATION_SEED = 20260101
MAX_NEW_TOKENS = 128


@dataclass
class Decoding:
    """One prompt on its way: its tokens so far, the last BLOCK_SIZE of them the canvas."""

    prompt_length: int
    tokens: list[int]
    steps: int = 0
    finished: bool = False

    @property
    def answer(self) -> list[int]:
        """The new tokens up to the first end token, without it."""
        new = self.tokens[self.prompt_length :]
        return new[: new.index(END_ID)] if END_ID in new else new

    def open_block(self) -> None:
        """Fill up to the block's end with masks, or begin a new block."""
        missing = -len(self.tokens) % BLOCK_SIZE or BLOCK_SIZE
        self.tokens += [MASK_ID] * missing

    def close_block(self) -> None:
        """After a step: if no mask is left, finish or go on with the next block."""
        if MASK_ID in self.tokens[-BLOCK_SIZE:]:
            return
        new = self.tokens[self.prompt_length :]
        self.finished = END_ID in new or len(new) >= MAX_NEW_TOKENS
        if not self.finished:
            self.open_block()


@torch.inference_mode()
def decode(model: TinyDLLM, prompts: list[list[int]], threshold: float) -> list[Decoding]:
    """Answer each prompt (token ids, ended by the chat template); all rows go in step."""
    rows = [Decoding(len(prompt), list(prompt)) for prompt in prompts]
    for row in rows:
        row.open_block()
    while running := [row for row in rows if not row.finished]:
        length = max(len(row.tokens) for row in running)
        # Padding stands in later blocks than the canvas, where block-causal attention
        # does not look.
        padded = [row.tokens + [PAD_ID] * (length - len(row.tokens)) for row in running]
        token_ids = torch.tensor(padded)
        positions = torch.arange(length).expand(len(running), length)
        hidden = model.hidden(token_ids, positions, block_causal(length))
        canvas = torch.tensor([len(row.tokens) - BLOCK_SIZE for row in running])[:, None]
        canvas = canvas + torch.arange(BLOCK_SIZE)  # (rows, block): the canvas's positions
        row_index = torch.arange(len(running))[:, None]
        logits = model.logits(hidden[row_index, canvas])
        logits[..., MASK_ID] = -torch.inf  # committing a mask would never end
        confidence, best = logits.softmax(-1).max(-1)
        confidence = confidence.masked_fill(token_ids[row_index, canvas] != MASK_ID, -1.0)
        commit = confidence > threshold
        surest = confidence.argmax(-1, keepdim=True)
        commit.scatter_(1, surest, commit.gather(1, surest) | ~commit.any(1, keepdim=True))
        for index, row in enumerate(running):
            row.steps += 1
            for offset in commit[index].nonzero().flatten().tolist():
                row.tokens[canvas[index, offset]] = int(best[index, offset])
            row.close_block()
    return rows


def is_expression(text: str) -> bool:
    """Whether a text is in the language of EXPRESSION_GRAMMAR."""
    if "@" in text:
        return False
    text = re.sub(r"\b(?:[a-z]|0|[1-9][0-9]*)\b", "@", text)
    before = None
    while text != before:
        before, text = text, re.sub(r"\(@(?: [-+*/] @)*\)", "@", text)
    return re.fullmatch(r"@(?: [-+*/] @)*", text) is not None


def is_valid(sample: Sample, text: str) -> bool:
    """Whether a text meets the sample's constraint; always true where it has none."""
    if sample.schema is not None:
        try:
            jsonschema.validate(json.loads(text), sample.schema)
        except (json.JSONDecodeError, jsonschema.ValidationError):
            return False
        return True
    if sample.regex is not None:
        return re.fullmatch(sample.regex, text) is not None
    if sample.grammar == EXPRESSION_GRAMMAR:
        return is_expression(text)
    return True


@dataclass(frozen=True)
class Score:
    """Percentages over samples, and the mean number of committing forwards an answer."""

    valid: float
    exact: float
    forwards: float

    def __str__(self) -> str:
        return f"{self.valid:5.1f} % {self.exact:7.1f} % {self.forwards:9.1f}"


def evaluate(
    model: TinyDLLM,
    tokenizer: Tokenizer,
    samples: list[Sample],
    threshold: float,
    batch_size: int = 50,
) -> tuple[Score, list[str]]:
    """Decode every sample's prompt; the score and the texts, in the samples' order."""
    prompts = [tokenizer.encode(chat(sample.prompt)).ids for sample in samples]
    rows: list[Decoding] = []
    for start in range(0, len(prompts), batch_size):
        rows += decode(model, prompts[start : start + batch_size], threshold)
    texts = [tokenizer.decode(row.answer, skip_special_tokens=False) for row in rows]
    pairs = list(zip(samples, texts, strict=True))
    score = Score(
        valid=100 * sum(is_valid(sample, text) for sample, text in pairs) / len(pairs),
        exact=100 * sum(sample.answer == text for sample, text in pairs) / len(pairs),
        forwards=sum(row.steps for row in rows) / len(rows),
    )
    return score, texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--samples", type=int, default=200, help="held-out prompts of each task")
    parser.add_argument("--thresholds", type=float, nargs="+", default=[0.95, 0.85, 0.7, 0.5])
    parser.add_argument("--tasks", nargs="+", choices=list(MAKERS), default=["record"])
    parser.add_argument("--seed", type=int, default=EVALUATION_SEED)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="print this many wrong answers")
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    model, tokenizer = load_checkpoint(options.checkpoint), load_tokenizer(options.checkpoint)
    print("task        threshold   valid     exact  forwards")
    cells = [(task, threshold) for task in options.tasks for threshold in options.thresholds]
    for task, threshold in tqdm(cells, unit="pass", leave=False, disable=None):
        samples = held_out(options.samples, options.seed, task)
        score, texts = evaluate(model, tokenizer, samples, threshold)
        tqdm.write(f"{task:12} {threshold:8.2f} {score}")
        wrong = [pair for pair in zip(samples, texts, strict=True) if pair[0].answer != pair[1]]
        for sample, text in wrong[: options.show]:
            note = "valid" if is_valid(sample, text) else "INVALID"
            tqdm.write(f"  {sample.prompt}\n    wanted {sample.answer}\n    {note:7}{text}")


if __name__ == "__main__":
    main()
