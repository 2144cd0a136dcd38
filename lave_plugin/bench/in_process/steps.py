"""Few denoising steps: the papers' sweep over T, the steps for an answer of 256 tokens.

As in LAVE (arXiv 2602.00612), table of few steps: with T steps for 256 tokens, a step commits the
256 / T positions of which the model is surest, sure or not. SGLang's algorithms have a threshold
instead, so the loop is our own; what a constrained row commits is decided by ``batch.denoise``, as
in the engine. A row whose proposals were refused takes the steps that it needs beyond its share.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from lave_plugin.batch import Row, denoise
from lave_plugin.bench.cells import CellBenchmark
from lave_plugin.bench.in_process.model import ShippedModel
from lave_plugin.bench.results import Results
from lave_plugin.bench.scoring import same_json
from lave_plugin.candidates import CandidateCutter
from lave_plugin.demo.checks import json_schema
from lave_plugin.demo.records import Sample
from lave_plugin.demo.tasks import held_out
from lave_plugin.demo.training.tokenizer import END_ID, MASK_ID
from lave_plugin.options import LaveOptions
from lave_plugin.session import Session

LENGTH = 256
"""Tokens that T is for, as in the papers."""
MAX_TOKENS = 128
"""Of an answer; the shipped model's are shorter."""
STEPS = (16, 32, 64, 128, 256)
MODES: dict[str, LaveOptions | None] = {"none": None, "lave": LaveOptions()}
ROWS = 10
"""Of a batch."""
NEVER_SURE = 1.0
"""A threshold that no probability is above: so many positions a step, and no others."""


@dataclass
class Decoding:
    """One answer on its way: the prompt and what is committed, and a block with masks."""

    sample: Sample
    prompt: int
    committed: list[int]
    block: list[int]
    session: Session | None
    steps: int = 0
    answer: list[int] = field(default_factory=list)

    @property
    def first(self) -> int:
        """Where in the block the answer goes on."""
        return max(0, self.prompt - len(self.committed))

    def take(self, block: list[int]) -> bool:
        """The block after a step; whether the answer has ended."""
        self.steps += 1
        self.block = block
        if MASK_ID in block[self.first :]:
            return False
        self.committed += block
        self.block = [MASK_ID] * len(block)
        self.answer = self.committed[self.prompt :]
        return END_ID in self.answer or len(self.answer) >= MAX_TOKENS


class StepsBenchmark(CellBenchmark[tuple[int, str, int]]):
    """Answers to so many held-out prompts for each T, without a constraint and with LAVE."""

    label = "steps"

    def __init__(self, model: ShippedModel, count: int, seed: int) -> None:
        self.model = model
        self.samples = held_out(count, seed)
        self._cutter = CandidateCutter(model.vocabulary, MASK_ID, LaveOptions.top_k)
        self._checks = [json_schema(sample.schema) for sample in self.samples]

    def cells(self) -> dict[str, tuple[int, str, int]]:
        """T, mode, and where its samples begin, by key."""
        begins = range(0, len(self.samples), ROWS)
        return {
            f"{steps}/{begin}/{mode}": (steps, mode, begin)
            for steps, begin, mode in itertools.product(STEPS, begins, MODES)
        }

    def measure(self, cell: tuple[int, str, int]) -> dict[str, Any]:
        steps, mode, begin = cell
        samples = self.samples[begin : begin + ROWS]
        answers = self._answer(samples, LENGTH // steps, MODES[mode])
        texts = [self.model.text(decoding.answer[:MAX_TOKENS]) for decoding in answers]
        checks = self._checks[begin : begin + ROWS]
        return {
            "T": steps,
            "mode": mode,
            "answers": len(samples),
            "syntactic": sum(
                check(text) is None for check, text in zip(checks, texts, strict=True)
            ),
            "functional": sum(
                same_json(text, sample.answer) for text, sample in zip(texts, samples, strict=True)
            ),
            "steps": sum(decoding.steps for decoding in answers),
            "tokens": sum(len(decoding.answer) for decoding in answers),
        }

    def _answer(
        self, samples: Sequence[Sample], at_once: int, options: LaveOptions | None
    ) -> list[Decoding]:
        decodings = [self._begin(sample, options) for sample in samples]
        running = decodings
        while running:
            blocks = self._step(running, at_once)
            running = [
                decoding
                for decoding, block in zip(running, blocks, strict=True)
                if not decoding.take(block)
            ]
        return decodings

    def _begin(self, sample: Sample, options: LaveOptions | None) -> Decoding:
        prompt = self.model.prompted(sample.prompt)
        whole = len(prompt.tokens) - prompt.first
        block = [*prompt.tokens[whole:], *[MASK_ID] * (self.model.block_size - prompt.first)]
        session = options and Session(
            self.model.states(json.dumps(sample.schema)), options, MAX_TOKENS
        )
        return Decoding(sample, len(prompt.tokens), prompt.tokens[:whole], block, session)

    def _step(self, running: list[Decoding], at_once: int) -> list[list[int]]:
        logits = self.model.logits([[*each.committed, *each.block] for each in running])
        before = torch.tensor([each.block for each in running])
        after = surest(before, logits, at_once)
        rows = [
            Row(index, each.session, each.committed[each.prompt :], each.first)
            for index, each in enumerate(running)
            if each.session is not None
        ]
        if not rows:
            return after.tolist()
        outcome = denoise(
            rows,
            before,
            after,
            logits,
            cutter=self._cutter,
            mask_id=MASK_ID,
            threshold=NEVER_SURE,
        )
        for error in outcome.errors.values():
            raise error
        return outcome.tokens.tolist()


def surest(before: torch.Tensor, logits: torch.Tensor, at_once: int) -> torch.Tensor:
    """``[rows, block]``: the blocks with the ``at_once`` surest masks of each filled."""
    confidence, best = logits.softmax(-1).max(-1)
    masked = before == MASK_ID
    confidence = confidence.masked_fill(~masked, -1.0)
    rank = torch.argsort(confidence, dim=-1, descending=True, stable=True).argsort(-1)
    return torch.where(masked & (rank < at_once), best, before)


def summary(results: Results) -> list[dict[str, Any]]:
    """One row for each mode and T; scores in percent, steps and tokens an answer."""
    rows = []
    for mode, steps in itertools.product(MODES, STEPS):
        mine = results.all(mode=mode, T=steps)
        if mine:
            answers = sum(entry["answers"] for entry in mine)
            rows.append(
                {
                    "mode": mode,
                    "T": steps,
                    "answers": answers,
                    **{
                        name: 100 * sum(entry[name] for entry in mine) / answers
                        for name in ("syntactic", "functional")
                    },
                    **{
                        name: sum(entry[name] for entry in mine) / answers
                        for name in ("steps", "tokens")
                    },
                }
            )
    return rows
