"""How well the tiny dLLM does by itself, without any constraint.

The decoder is SGLang's ``LowConfidence`` at temperature 0, over a whole batch and without
a KV cache: every step commits each masked position whose best token is surer than the
threshold, or the surest one if none is. A higher threshold means more steps and fewer of
the errors of parallel decoding, which a grammar is there to prevent.

Run::

    python -m lave_plugin.demo.training.evaluate lave_plugin/demo/checkpoint --tasks record
    python -m lave_plugin.demo.training.evaluate DIR --constrained --thresholds 0.7

The second takes the plugin's own step after each of those. Figures to publish come from the real
engine: ``benchmarks/tiny_dllm.py``.
"""

import argparse
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tqdm import tqdm

from lave_plugin.batch import Row
from lave_plugin.demo.records import Sample
from lave_plugin.demo.tasks import MAKERS, held_out
from lave_plugin.demo.tasks.judging import is_right, is_valid
from lave_plugin.demo.training.constraints import Constraints
from lave_plugin.demo.training.model import TinyDLLM, block_causal, load_checkpoint
from lave_plugin.demo.training.tokenizer import END_ID, MASK_ID, PAD_ID, chat, load_tokenizer
from lave_plugin.session import Session

# No training run draws its held-out samples with this seed.
EVALUATION_SEED = 20260101
MAX_NEW_TOKENS = 128
# Rows that are decoded in step.
ROWS = 48


@dataclass
class Decoding:
    """One prompt on its way: its tokens so far, the last block of them the canvas."""

    block_size: int
    prompt_length: int
    tokens: list[int]
    session: Session | None = None
    steps: int = 0
    finished: bool = False

    @property
    def answer(self) -> list[int]:
        """The new tokens up to the first end token, without it."""
        new = self.tokens[self.prompt_length :]
        return new[: new.index(END_ID)] if END_ID in new else new

    def constrained(self, index: int) -> Row:
        """This row as the plugin sees it, in the batch's place ``index``."""
        canvas = len(self.tokens) - self.block_size
        committed = self.tokens[self.prompt_length : canvas]
        return Row(index, self.session, committed, max(0, self.prompt_length - canvas))

    def open_block(self) -> None:
        """Fill up to the block's end with masks, or begin a new block."""
        missing = -len(self.tokens) % self.block_size or self.block_size
        self.tokens += [MASK_ID] * missing

    def close_block(self) -> None:
        """After a step: if no mask is left, finish or go on with the next block."""
        if MASK_ID in self.tokens[-self.block_size :]:
            return
        new = self.tokens[self.prompt_length :]
        self.finished = END_ID in new or len(new) >= MAX_NEW_TOKENS
        if not self.finished:
            self.open_block()


@torch.inference_mode()
def decode(
    model: TinyDLLM,
    prompts: list[list[int]],
    threshold: float,
    temperature: float = 0.0,
    constraints: Constraints | None = None,
    sessions: Sequence[Session | None] | None = None,
) -> list[Decoding]:
    """Answer each prompt (token ids, ended by the chat template); all rows go in step.

    Above temperature 0 a position's token is drawn, from torch's global generator, and its
    confidence is the probability it was drawn with. Rows with a session are kept to their
    constraint, at temperature 0 alone: what the plugin does with draws is the engine's to show.
    """
    if constraints is not None and temperature > 0:
        raise ValueError("constrained rows are decoded at temperature 0")
    device, block_size = model.device, model.size.block_size
    rows = [
        Decoding(block_size, len(prompt), list(prompt), session)
        for prompt, session in zip(prompts, sessions or [None] * len(prompts), strict=True)
    ]
    for row in rows:
        row.open_block()
    while running := [row for row in rows if not row.finished]:
        length = max(len(row.tokens) for row in running)
        # Padding stands in later blocks than the canvas, where block-causal attention
        # does not look.
        padded = [row.tokens + [PAD_ID] * (length - len(row.tokens)) for row in running]
        token_ids = torch.tensor(padded)
        positions = torch.arange(length).expand(len(running), length)
        visible = block_causal(length, block_size)
        hidden = model.hidden(token_ids.to(device), positions.to(device), visible.to(device))
        canvas = torch.tensor([len(row.tokens) - block_size for row in running])[:, None]
        canvas = canvas + torch.arange(block_size)  # (rows, block): the canvas's positions
        row_index = torch.arange(len(running))[:, None]
        logits = model.logits(hidden[row_index, canvas]).cpu()
        logits[..., MASK_ID] = -torch.inf  # committing a mask would never end
        if temperature > 0:
            shares = (logits / temperature).softmax(-1)
            best = torch.multinomial(shares.flatten(0, 1), 1).view(shares.shape[:-1])
            confidence = shares.gather(-1, best[..., None]).squeeze(-1)
        else:
            confidence, best = logits.softmax(-1).max(-1)
        before = token_ids[row_index, canvas]
        confidence = confidence.masked_fill(before != MASK_ID, -1.0)
        commit = confidence > threshold
        surest = confidence.argmax(-1, keepdim=True)
        commit.scatter_(1, surest, commit.gather(1, surest) | ~commit.any(1, keepdim=True))
        after = torch.where(commit, best, before)
        if kept := [row.constrained(i) for i, row in enumerate(running) if row.session]:
            constraints.step(kept, before, after, logits, threshold)
        for row, block in zip(running, after.tolist(), strict=True):
            row.steps += 1
            row.tokens[-block_size:] = block
            row.close_block()
    return rows


@dataclass(frozen=True)
class Score:
    """Percentages over samples, and the mean number of committing forwards an answer.

    valid: the constraint is met. exact: the reference, to the letter. right: by what it does.
    """

    valid: float
    exact: float
    right: float
    forwards: float

    def __str__(self) -> str:
        shares = "   ".join(f"{x:5.1f} %" for x in (self.valid, self.exact, self.right))
        return f"{shares} {self.forwards:9.1f}"


def score_of(samples: list[Sample], texts: list[str], steps: list[int]) -> Score:
    pairs = list(zip(samples, texts, strict=True))

    def percentage(judge: Callable[[Sample, str], bool]) -> float:
        return 100 * sum(judge(sample, text) for sample, text in pairs) / len(pairs)

    return Score(
        valid=percentage(is_valid),
        exact=percentage(lambda sample, text: text == sample.answer),
        right=percentage(is_right),
        forwards=sum(steps) / len(steps),
    )


def answers(
    model: TinyDLLM,
    tokenizer: Tokenizer,
    samples: list[Sample],
    threshold: float,
    temperature: float = 0.0,
    constraints: Constraints | None = None,
) -> tuple[list[str], list[int]]:
    """The answer to every sample's prompt, and its forward passes, in the samples' order."""
    prompts = [tokenizer.encode(chat(sample.prompt)).ids for sample in samples]
    # Rows of similar length go together: each pays for the longest of its batch.
    order = sorted(range(len(prompts)), key=lambda place: len(prompts[place]))
    texts, steps = [""] * len(samples), [0] * len(samples)
    for start in range(0, len(order), ROWS):
        places = order[start : start + ROWS]
        rows = decode(
            model,
            [prompts[place] for place in places],
            threshold,
            temperature,
            constraints,
            constraints and [constraints.session(samples[p], MAX_NEW_TOKENS) for p in places],
        )
        for place, row in zip(places, rows, strict=True):
            texts[place] = tokenizer.decode(row.answer, skip_special_tokens=False)
            steps[place] = row.steps
    return texts, steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--samples", type=int, default=200, help="held-out prompts of each task")
    parser.add_argument("--thresholds", type=float, nargs="+", default=[0.95, 0.7, 0.5])
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0])
    parser.add_argument("--tasks", nargs="+", choices=list(MAKERS), default=list(MAKERS))
    parser.add_argument("--seed", type=int, default=EVALUATION_SEED)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--constrained", action="store_true", help="the same under constraints")
    parser.add_argument("--show", type=int, default=0, help="print this many wrong answers")
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    model, tokenizer = load_checkpoint(options.checkpoint), load_tokenizer(options.checkpoint)
    constraints = Constraints(tokenizer) if options.constrained else None
    print("task         temperature threshold   valid     exact     right  forwards")
    cells = list(itertools.product(options.tasks, options.temperatures, options.thresholds))
    for task, temperature, threshold in tqdm(cells, unit="pass", leave=False, disable=None):
        samples = held_out(options.samples, options.seed, task)
        texts, steps = answers(model, tokenizer, samples, threshold, temperature, constraints)
        score = score_of(samples, texts, steps)
        tqdm.write(f"{task:12} {temperature:11.1f} {threshold:9.2f} {score}")
        wrong = [pair for pair in zip(samples, texts, strict=True) if pair[0].answer != pair[1]]
        for sample, text in wrong[: options.show]:
            note = "valid" if is_valid(sample, text) else "INVALID"
            tqdm.write(f"  {sample.prompt}\n    wanted {sample.answer}\n    {note:7}{text}")


if __name__ == "__main__":
    main()
