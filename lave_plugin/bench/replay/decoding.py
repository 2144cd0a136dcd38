"""A server's denoising loop with a simulated model in place of the real one.

Block by block, with LowConfidence decoding; what a request commits is decided by the same
``batch.denoise`` that the engine's adapter calls. The model's vocabulary is a slice of the real
one, since logits over 151,643 columns cost 20 MB a row and step on a CPU.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy
import torch

from lave_plugin.batch import Row, denoise
from lave_plugin.bench.replay.references import Request
from lave_plugin.bench.synthetic.simulated import Marginal, SimulatedModel
from lave_plugin.bench.synthetic.vocabularies import tokenize
from lave_plugin.candidates import CandidateCutter
from lave_plugin.canvas import MASKED
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.options import LaveOptions
from lave_plugin.session import Session

BLOCK = 32

# --- a vocabulary of a size that a CPU can take -------------------------------------------


def slice_of(whole: Vocabulary, size: int, references: list[bytes], seed: int) -> Vocabulary:
    """Every byte, every token of a reference, the first ids (the most frequent tokens of a BPE),
    and as many random others, ``size`` in all; then the end token and the mask."""
    needed = {token for text in references for token in tokenize(whole, text)}
    needed.update(whole.byte_tokens)
    text_tokens = [token for token, data in enumerate(whole.token_bytes) if data]
    if size:
        needed.update(text_tokens[: size // 2])
        others = [token for token in text_tokens if token not in needed]
        random.Random(f"slice {seed}").shuffle(others)
        needed.update(others[: max(0, size - len(needed))])
        text_tokens = sorted(needed)
    spelled = [whole.token_bytes[token] for token in text_tokens]
    return Vocabulary([*spelled, b"", b""], [len(spelled)])


# --- one answer ---------------------------------------------------------------------------


@dataclass
class Answer:
    """How a request was answered."""

    text: bytes
    tokens: int
    complete: bool
    steps: int
    error: str | None = None


class Decoding:
    """One request on its way: what the engine keeps of it."""

    def __init__(
        self, request: Request, model: SimulatedModel, session: Session | None, budget: int
    ) -> None:
        self.request = request
        self.model = model
        self.session = session
        self.budget = budget
        self.answer: list[int] = []
        self.block = [MASKED] * BLOCK
        self.steps = 0
        self.error: str | None = None

    def marginals(self, vocabulary: Vocabulary) -> dict[int, Marginal]:
        before = b"".join(vocabulary.token_bytes[token] for token in self.answer)
        return self.model.predict(before, len(self.answer), self.block)

    def take(self, block: list[int], end_token: int) -> bool:
        """The block after a step; whether that was the last step."""
        if block.count(MASKED) == self.block.count(MASKED):
            self.error = "a step committed nothing"
            return True
        self.block = block
        self.steps += 1
        if MASKED in block:
            return False
        self.answer += block
        self.block = [MASKED] * BLOCK
        return end_token in self.answer or len(self.answer) >= self.budget

    def result(self, vocabulary: Vocabulary) -> Answer:
        """The answer as the engine would cut it."""
        tokens = self.answer[: self.budget]
        complete = vocabulary.end_token in tokens
        if complete:
            tokens = tokens[: tokens.index(vocabulary.end_token)]
        text = b"".join(vocabulary.token_bytes[token] for token in tokens)
        return Answer(text, len(tokens) + complete, complete, self.steps, self.error)


def low_confidence(block: list[int], marginals: dict[int, Marginal], threshold: float) -> list[int]:
    """What the engine's LowConfidence makes of a block (sglang, low_confidence.py)."""
    sure = [p for p, marginal in marginals.items() if marginal.probabilities[0] > threshold]
    sure = sure or [max(marginals, key=lambda p: marginals[p].probabilities[0])]
    proposed = list(block)
    for position in sure:
        proposed[position] = marginals[position].tokens[0]
    return proposed


# --- a batch ------------------------------------------------------------------------------


class TimedCutter(CandidateCutter):
    """Knows how long it has cut, so that the rest of a step can be told from it."""

    seconds = 0.0

    def best(self, *arguments, **named):
        with self._timed():
            return super().best(*arguments, **named)

    def cut(self, *arguments, **named):
        with self._timed():
            return super().cut(*arguments, **named)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - begin


class Engine:
    """Runs requests in batches; a place that falls free is taken by the next one.

    Args:
        vocabulary: the model's; its last id is the mask.
        batch: rows of a step.
    """

    def __init__(self, vocabulary: Vocabulary, batch: int) -> None:
        self.vocabulary = vocabulary
        self.batch = batch
        self.mask_id = len(vocabulary) - 1
        self.logits = numpy.zeros((batch, BLOCK, len(vocabulary)), dtype=numpy.float32)
        self.cutter = TimedCutter(vocabulary, self.mask_id, LaveOptions.top_k)
        self.step_seconds: list[float] = []
        self.lookahead_seconds: list[float] = []

    def run(self, waiting: list[Decoding], threshold: float) -> Iterator[tuple[Decoding, Answer]]:
        """Answer all of them."""
        waiting, running = waiting[::-1], []
        while waiting or running:
            while waiting and len(running) < self.batch:
                running.append(waiting.pop())
            blocks = self._step(running, threshold)
            going_on = []
            for decoding, block in zip(running, blocks, strict=True):
                if decoding.take(block, self.vocabulary.end_token):
                    yield decoding, decoding.result(self.vocabulary)
                else:
                    going_on.append(decoding)
            running = going_on

    def _step(self, running: list[Decoding], threshold: float) -> list[list[int]]:
        marginals = [decoding.marginals(self.vocabulary) for decoding in running]
        proposed = [
            low_confidence(decoding.block, each, threshold)
            for decoding, each in zip(running, marginals, strict=True)
        ]
        constrained = [index for index, each in enumerate(running) if each.session is not None]
        if not constrained:
            return proposed
        for index in constrained:
            running[index].model.write_logits(marginals[index], self.logits[index])
        rows = [
            Row(index, running[index].session, running[index].answer, 0) for index in constrained
        ]
        before = torch.tensor([self._with_masks(decoding.block) for decoding in running])
        after = torch.tensor([self._with_masks(block) for block in proposed])
        cut_before, begin = self.cutter.seconds, time.perf_counter()
        outcome = denoise(
            rows,
            before,
            after,
            torch.from_numpy(self.logits[: len(running)]),
            cutter=self.cutter,
            mask_id=self.mask_id,
            threshold=threshold,
        )
        elapsed = time.perf_counter() - begin
        self.step_seconds.append(elapsed / len(rows))
        self.lookahead_seconds.append((elapsed - self.cutter.seconds + cut_before) / len(rows))
        for place, index in enumerate(constrained):
            if place in outcome.errors:
                running[index].error = repr(outcome.errors[place])
            proposed[index] = [
                MASKED if token == self.mask_id else token
                for token in outcome.tokens[place].tolist()
            ]
        return proposed

    def _with_masks(self, block: list[int]) -> list[int]:
        return [self.mask_id if token == MASKED else token for token in block]
