"""How often a lookahead finds the witness that is there, by the number N of its fillings.

The figure by which LAVE (arXiv 2602.00612) shows that its lookahead is feasible: of right answers
20 % of the tokens are masked, and the model's own probabilities say what stands there. Here block
by block, since the model sees no more than that, and with more of a block masked as well; the
answers are those of held-out prompts.

- ``independent``: each position drawn on its own, as in the paper
- ``distinct``: the same without replacement, which is this plugin's ``lookahead="sampled"``
- ``guided``: this plugin's search, which knows no N
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lave_plugin.bench.cells import CellBenchmark
from lave_plugin.bench.in_process.model import ShippedModel
from lave_plugin.bench.results import Results
from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.demo.records import Sample
from lave_plugin.demo.tasks import held_out
from lave_plugin.demo.training.tokenizer import END_ID, MASK_ID
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.lattice import Verdict, find_witness
from lave_plugin.options import LaveOptions
from lave_plugin.strategies.sampled import draw_fillings, extends

MASKED_PARTS = (0.2, 0.5, 0.8)
"""Of a block's tokens; the paper's is the first."""
MOST = 100
"""Fillings that are drawn at most."""
WAYS = ("independent", "distinct")


@dataclass(frozen=True)
class Block:
    """One block of a right answer.

    Attributes:
        before: all tokens before it.
        answered: those of them that are the answer's.
        right: the block as it should be.
        first: where in it the answer begins.
        part: of its tokens that are masked.
    """

    sample: Sample
    number: int
    part: float
    before: list[int]
    answered: list[int]
    right: list[int]
    first: int

    @property
    def key(self) -> str:
        return f"{self.part:g}/{self.sample.prompt}/{self.number}"


class FeasibilityBenchmark(CellBenchmark[Block]):
    """The blocks of so many answers."""

    label = "feasibility"

    def __init__(self, model: ShippedModel, count: int, seed: int) -> None:
        self.model = model
        self.samples = held_out(count, seed)
        self.seed = seed

    @cached_property
    def blocks(self) -> list[Block]:
        return [
            block
            for part in MASKED_PARTS
            for sample in self.samples
            for block in self._blocks_of(sample, part)
        ]

    def _blocks_of(self, sample: Sample, part: float) -> Iterator[Block]:
        size, prompted = self.model.block_size, self.model.prompted(sample.prompt)
        prompt = prompted.tokens
        whole = [*prompt, *self.model.tokens(sample.answer), END_ID]
        whole += [END_ID] * (-len(whole) % size)
        begin = len(prompt) - prompted.first
        for number, at in enumerate(range(begin, len(whole), size)):
            yield Block(
                sample,
                number,
                part,
                whole[:at],
                whole[len(prompt) : at],
                whole[at : at + size],
                max(0, len(prompt) - at),
            )

    def cells(self) -> dict[str, Block]:
        return {block.key: block for block in self.blocks}

    def measure(self, block: Block) -> dict[str, Any]:
        rng = random.Random(f"{self.seed} {block.key}")
        tokens = self._states(block.sample)
        state = tokens.start
        for token in block.answered:
            state = tokens.advance(state, token)
        canvas = Canvas(list(block.right), block.first, LaveOptions.top_k * len(block.right))
        places = range(block.first, len(block.right))
        masked = sorted(rng.sample(places, max(1, round(block.part * len(places)))))
        for place in masked:
            canvas.tokens[place] = MASKED
        seen = [MASK_ID if token == MASKED else token for token in canvas.tokens]
        (logits,) = self.model.logits([[*block.before, *seen]])
        probabilities = logits.softmax(-1)
        best = probabilities.topk(LaveOptions.top_k, -1)
        candidates = {place: best.indices[place].tolist() for place in masked}
        # What is masked behind the last committed token is not looked at by any of them.
        open_masks = [place for place in masked if place < canvas.last_committed()]
        whole = [(range(logits.shape[-1]), probabilities[p].tolist()) for p in open_masks]
        likely = [(candidates[p], best.values[p].tolist()) for p in open_masks]
        drawn = {"independent": _independent(whole, rng), "distinct": draw_fillings(likely, rng)}
        found = find_witness(tokens, state, canvas, candidates, LaveOptions.search_budget)
        return {
            "masked": block.part,
            "masks": len(masked),
            "guided": found.verdict == Verdict.ALIVE,
            **{
                way: _first_that_fits(tokens, state, canvas, open_masks, drawn[way]) for way in WAYS
            },
        }

    def _states(self, sample: Sample) -> TokenAutomaton:
        text = json.dumps(sample.schema)
        if text not in self._by_schema:
            self._by_schema[text] = self.model.states(text)
        return self._by_schema[text]

    @cached_property
    def _by_schema(self) -> dict[str, TokenAutomaton]:
        return {}


def _independent(
    marginals: Sequence[tuple[Sequence[int], Sequence[float]]], rng: random.Random
) -> Iterator[tuple[int, ...]]:
    while True:
        yield tuple(rng.choices(tokens, weights)[0] for tokens, weights in marginals)


def _first_that_fits(
    tokens: TokenAutomaton,
    state: int,
    canvas: Canvas,
    masks: list[int],
    fillings: Iterator[tuple[int, ...]],
) -> int | None:
    """Which filling is the first that the grammar takes, from 1 on; None of ``MOST``."""
    for number, filling in zip(range(1, MOST + 1), fillings, strict=False):
        if extends(tokens, state, canvas, dict(zip(masks, filling, strict=True))):
            return number
    return None


def acceptance(results: Results, masked: float, way: str) -> list[float]:
    """The share of blocks in which one of N fillings fits, for N from 1 to ``MOST``."""
    firsts = [entry[way] for entry in results.all(masked=masked)]
    return [
        sum(first is not None and first <= samples for first in firsts) / len(firsts)
        for samples in range(1, MOST + 1)
    ]


def guided(results: Results, masked: float) -> float:
    """The same for the search."""
    entries = results.all(masked=masked)
    return sum(entry["guided"] for entry in entries) / len(entries)


def parts(results: Results) -> list[float]:
    """Those that were measured so far."""
    return [part for part in MASKED_PARTS if results.all(masked=part)]
