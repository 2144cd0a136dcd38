"""Does every constrained answer come out valid and complete, however wrong the model is?

    python benchmarks/replay.py --quick
    python benchmarks/replay.py --data DIR --vocabulary qwen.tiktoken --json OUT

Replays reference answers (JSON by schemas, C++, SMILES) with a simulated dLLM that is wrong as
often as asked for (benchmarks/simulated.py), block by block as the engine does, with LowConfidence
decoding, and compares three modes: no constraint, LAVE with its guided lookahead, and LAVE with
the paper's sampled one (N = 10 fillings, tau = 5 attempts; arXiv 2602.00612). DIR holds
json_bench.jsonl and humaneval_cpp.jsonl; without it records and programs are made up.

A budget is max_new_tokens: `shortest`, all that the grammar's shortest answer takes; `reference`,
all that the reference takes; `ample`, twice that and a block. An answer is cut where it ends or at
its budget. It is complete if it ended, valid if a judge outside the plugin accepts its text
(jsonschema on strict JSON, lark on SMILES, xgrammar's matcher on C++), exact if it is the
reference. `wider` counts complete answers that xgrammar's matcher accepts and the judge does not:
xgrammar's grammar is wider than the schema there. Steps are those of all the blocks, tokens those
that are left of them.

The model's vocabulary is a slice of the real one, its most frequent tokens and a sample of the
rest, because logits over 151,643 columns cost 20 MB a row and step on a CPU; `--slice 0` takes
all of it. `ms` are the time of a denoising step for one row: all of it, and without cutting the
candidates. The exit code is 1 where a guided answer is cut or not of its grammar.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import torch
from rich.console import Console
from rich.table import Table
from simulated import Marginal, SimulatedModel, TextKind
from tasks import Request, Task, tasks
from tqdm import tqdm
from vocabularies import read_vocabulary, synthetic_vocabulary, tokenize

from lave_plugin.batch import Row, denoise
from lave_plugin.candidates import CandidateCutter
from lave_plugin.canvas import MASKED
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.implementation import states_over
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.options import LaveOptions
from lave_plugin.session import Session

BLOCK = 32
MODES = {
    "none": None,
    "guided": LaveOptions(),
    "sampled": LaveOptions(lookahead="sampled", samples=10, attempts=5),
}
BUDGETS = ("shortest", "reference", "ample")


# --- a vocabulary of a size that a CPU can take ---------------------------------------------------


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


# --- one answer -----------------------------------------------------------------------------------


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


# --- a batch --------------------------------------------------------------------------------------


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


# --- cells of the table ---------------------------------------------------------------------------


@dataclass
class Cell:
    """Figures of one task at one accuracy, threshold and budget, in one mode."""

    task: str
    accuracy: float
    threshold: float
    budget: str
    mode: str
    requests: int = 0
    valid: int = 0
    complete: int = 0
    exact: int = 0
    wider: int = 0
    steps: int = 0
    tokens: int = 0
    step_ms: float = 0.0
    lookahead_ms: float = 0.0
    failures: list[dict] = field(default_factory=list)

    def count(self, request: Request, answer: Answer) -> None:
        try:
            problem = request.check(answer.text.decode())
        except UnicodeDecodeError:
            problem = "not UTF-8"
        wider = answer.complete and problem is not None and request.in_grammar(answer.text)
        self.requests += 1
        self.valid += problem is None
        self.complete += answer.complete
        self.exact += answer.complete and answer.text == request.reference
        self.wider += wider
        self.steps += answer.steps
        self.tokens += answer.tokens
        problem = answer.error or problem or (None if answer.complete else "valid, but cut")
        if problem is not None:
            self.failures.append(
                {
                    "request": request.name,
                    "wider": wider,
                    "cut": not answer.complete,
                    "problem": problem,
                    "text": answer.text.decode(errors="backslashreplace"),
                }
            )


class Replay:
    """All cells over one vocabulary; the options of a mode are None without a constraint."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        every_task: list[Task],
        batch: int,
        seed: int,
        modes: Mapping[str, LaveOptions | None] = MODES,
    ):
        self.vocabulary = vocabulary
        self.modes = modes
        self.engine = Engine(vocabulary, batch)
        self.seed = seed
        self._kinds = {
            task.name: TextKind(
                vocabulary, [request.reference for request in task.requests], len(vocabulary)
            )
            for task in every_task
        }
        self._states: dict[str, object] = {}

    def states(self, request: Request):
        """The states of the request's grammar, shared by all requests that have it."""
        printed = str(request.compiled.grammar)
        if printed not in self._states:
            self._states[printed] = states_over(automaton_of(request.compiled), self.vocabulary)
        return self._states[printed]

    def budget(self, request: Request, name: str) -> int:
        """Tokens of an answer, its end token included."""
        states = self.states(request)
        shortest = states.tokens_to_finish(states.start)
        reference = max(shortest, len(tokenize(self.vocabulary, request.reference)) + 1)
        return {"shortest": shortest, "reference": reference, "ample": 2 * reference + BLOCK}[name]

    def cell(self, cell: Cell, requests: list[Request], bar: tqdm) -> None:
        """Run the requests of ``cell`` and count."""
        options = self.modes[cell.mode]
        decodings = []
        for index, request in enumerate(requests):
            # The same errors whatever the mode and the budget.
            seed = f"{self.seed} {cell.task} {index} {cell.accuracy}"
            model = SimulatedModel(self._kinds[cell.task], request.reference, cell.accuracy, seed)
            budget = self.budget(request, cell.budget)
            session = options and Session(self.states(request), options, budget, seed=index)
            decodings.append(Decoding(request, model, session, budget))
        self.engine.step_seconds, self.engine.lookahead_seconds = [], []
        for decoding, answer in self.engine.run(decodings, cell.threshold):
            cell.count(decoding.request, answer)
            bar.update()
        if options:
            cell.step_ms = 1e3 * statistics.median(self.engine.step_seconds)
            cell.lookahead_ms = 1e3 * statistics.median(self.engine.lookahead_seconds)


def table_of(cells: list[Cell]) -> Table:
    table = Table()
    for name in ("task", "accuracy", "threshold", "budget", "mode"):
        table.add_column(name)
    for name in ("valid %", "complete %", "exact %", "wider", "steps/token", "ms", "lookahead ms"):
        table.add_column(name, justify="right")
    for cell in cells:
        table.add_row(
            cell.task,
            f"{cell.accuracy:g}",
            f"{cell.threshold:g}",
            cell.budget,
            cell.mode,
            *(f"{100 * n / cell.requests:.1f}" for n in (cell.valid, cell.complete, cell.exact)),
            str(cell.wider),
            f"{cell.steps / max(1, cell.tokens):.2f}",
            *(
                (f"{cell.step_ms:.2f}", f"{cell.lookahead_ms:.2f}")
                if MODES[cell.mode]
                else ("", "")
            ),
            end_section=cell.mode == list(MODES)[-1],
        )
    return table


def summary_of(cells: list[Cell]) -> list[str]:
    """For each mode one line, and how guided stands beside none."""
    lines = []
    for mode in MODES:
        of_mode = [cell for cell in cells if cell.mode == mode]
        requests = sum(cell.requests for cell in of_mode)
        bad = sum(len(cell.failures) for cell in of_mode)
        wider = sum(cell.wider for cell in of_mode)
        exact = sum(cell.exact for cell in of_mode)
        steps = sum(cell.steps for cell in of_mode)
        line = f"{mode}: {requests - bad} of {requests} valid and complete, {exact} exact,"
        line += f" {steps} steps"
        if wider:
            line += f"; {wider} more are in xgrammar's grammar, which is wider than the schema"
        lines.append(line)
    pairs: dict[tuple, dict[str, int]] = {}
    for cell in cells:
        place = (cell.task, cell.accuracy, cell.threshold, cell.budget)
        pairs.setdefault(place, {})[cell.mode] = cell.exact
    behind = [place for place, exact in pairs.items() if exact["guided"] < exact["none"]]
    lines.append(
        f"exact matches: guided has at least as many as none in {len(pairs) - len(behind)}"
        f" of {len(pairs)} cells"
        + "".join(f"\n  fewer: {place}, {pairs[place]}" for place in behind)
    )
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer cells and requests (< 50 s)")
    parser.add_argument("--data", type=Path, help="folder of the references")
    parser.add_argument("--vocabulary", type=Path, help="a .tiktoken file")
    parser.add_argument("--slice", type=int, help="tokens of it (8192; 4096 with --quick); 0: all")
    parser.add_argument("--requests", type=int, help="requests of a cell (40; 5 with --quick)")
    parser.add_argument("--accuracies", type=float, nargs="+")
    parser.add_argument("--thresholds", type=float, nargs="+")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the cells with their failures here")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)  # of slices this small more threads only wait for each other
    quick = options.quick
    count = options.requests or (5 if quick else 40)
    accuracies = options.accuracies or ([0.5, 0.9] if quick else [0.5, 0.7, 0.85, 0.95])
    thresholds = options.thresholds or ([0.7] if quick else [0.7, 0.95])
    size = options.slice if options.slice is not None else (4096 if quick else 8192)

    data = read_vocabulary(options.vocabulary) if options.vocabulary else synthetic_vocabulary()
    whole = Vocabulary([*data, b""], [len(data)])
    every_task = tasks(options.data, count, options.seed)
    references = [request.reference for task in every_task for request in task.requests]
    vocabulary = slice_of(whole, size, references, options.seed)
    replay = Replay(vocabulary, every_task, options.batch, options.seed)
    print(f"seed {options.seed}; {len(vocabulary) - 2} of {len(data)} tokens; block {BLOCK}")
    chosen = {}
    for task in every_task:
        chosen[task.name] = random.Random(f"{options.seed} {task.name}").sample(
            task.requests, min(count, len(task.requests))
        )
        print(
            f"{task.name}: {len(task.requests)} of {task.offered} references are of their grammar,"
            f" {len(chosen[task.name])} are replayed"
        )

    cells = [
        Cell(task.name, accuracy, threshold, budget, mode)
        for task in every_task
        for accuracy in accuracies
        for threshold in thresholds
        for budget in BUDGETS
        for mode in MODES
    ]
    with tqdm(total=sum(len(chosen[cell.task]) for cell in cells), disable=None) as bar:
        for cell in cells:
            bar.set_description(f"{cell.task} {cell.accuracy:g} {cell.budget} {cell.mode}")
            replay.cell(cell, chosen[cell.task], bar)
    Console(width=130).print(table_of(cells))
    guided = [
        (cell, failure) for cell in cells if cell.mode == "guided" for failure in cell.failures
    ]
    for cell, failure in sorted(guided, key=lambda pair: pair[1]["wider"])[:20]:
        print(f"{cell.task} {cell.accuracy:g} {cell.threshold:g} {cell.budget}: {failure}")
    print(*summary_of(cells), sep="\n")
    if options.json:
        report = {"seed": options.seed, "cells": [vars(cell) for cell in cells]}
        options.json.write_text(json.dumps(report, indent=1))
    return 0 if all(failure["wider"] for _, failure in guided) else 1


if __name__ == "__main__":
    sys.exit(main())
