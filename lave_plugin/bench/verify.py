"""What verifying a proposal costs, and how often a lookahead finds the witness that is there.

On canvases made of texts of six grammars (``lookahead.rows``), over a vocabulary of real size. Two
kinds of cells:

- ``cost``: our lookahead for 1, 8 and 64 rows in one call. *cold*: states of which only the way to
  the blocks has been walked; *next*: states that have searched other batches of the same kind
  before; *warm*: the same batch once more. ``python_ratio`` is the time of the Python reference
  over that of C++ on the same warm batch; both must give the same verdicts.
- ``peers``: row by row, right behind each other on the same canvas: our lookahead (on states that
  have searched other rows), the paper's N fillings on xgrammar's matchers, and the authors' beams
  on llguidance's. Ratios are of times on one row.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import xgrammar

from lave_plugin.bench.cells import CellBenchmark
from lave_plugin.bench.lookahead import beams, guided
from lave_plugin.bench.lookahead.rows import Row, RowMaker
from lave_plugin.bench.lookahead.sampled import SampledLookahead
from lave_plugin.bench.synthetic.subjects import SUBJECTS, Subject
from lave_plugin.bench.synthetic.vocabularies import tokenize
from lave_plugin.grammar import automaton as reference
from lave_plugin.grammar.implementation import states_of, states_over
from lave_plugin.grammar.normal_form import RuleAutomata, read_normal_form
from lave_plugin.grammar.text_compiler import text_compiler
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.lattice import Verdict
from lave_plugin.options import LaveOptions

MASKED = (0.2, 0.5)
TEXTS = 300
"""Of each grammar; the rows are blocks of them."""
SAMPLES = (10, 40)
"""Values of N that are timed; the paper's is 10."""
FILLINGS = max(SAMPLES)
PYTHON_BATCHES = 2
PYTHON_ROWS = 8
"""Of no more than so many batches of so many rows is the reference's time taken."""

WAYS = ("guided", *(f"sampled, N = {n}" for n in SAMPLES), "beams")


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        batch_rows: Rows of a batch.
        batches: Of a cell of cost.
        rows: Of a cell of peers.
        budget: Nodes of the lattice that our lookahead may visit on a row.
    """

    batch_rows: tuple[int, ...]
    batches: int
    rows: int
    budget: int = LaveOptions.search_budget


FULL = Size(batch_rows=(1, 8, 64), batches=100, rows=1000)
QUICK = Size(batch_rows=(1, 8, 64), batches=10, rows=60)


@dataclass(frozen=True)
class Cell:
    """Which cell it is; of peers where it has no rows of a batch."""

    subject: Subject
    masked: float
    batch_rows: int | None

    @property
    def key(self) -> str:
        kind = "peers" if self.batch_rows is None else f"cost/{self.batch_rows}"
        return f"{self.subject.name}/{self.masked:g}/{kind}"


class VerifyBenchmark(CellBenchmark[Cell]):
    """The cells of one run.

    Args:
        vocabulary: With one end token, the last id.
        subjects: Grammars, of those in ``SUBJECTS``.
    """

    label = "verify"

    def __init__(
        self, size: Size, vocabulary: Vocabulary, subjects: Sequence[Subject] = SUBJECTS
    ) -> None:
        self.size = size
        self.vocabulary = vocabulary
        self.subjects = subjects
        self._tokenized: dict[str, list[list[int]]] = {}

    def cells(self) -> dict[str, Cell]:
        cells = (
            Cell(subject, masked, batch_rows)
            for subject in self.subjects
            for masked in MASKED
            for batch_rows in (*self.size.batch_rows, None)
        )
        return {cell.key: cell for cell in cells}

    def measure(self, cell: Cell) -> dict[str, Any]:
        found = {"grammar": cell.subject.name, "masked": cell.masked}
        if cell.batch_rows is None:
            return {"kind": "peers", **found, **self._peers(cell)}
        return {"kind": "cost", **found, "rows": cell.batch_rows, **self._cost(cell)}

    # --- our lookahead in batches ---------------------------------------------------------

    def _cost(self, cell: Cell) -> dict[str, Any]:
        rules, rng = _rules(cell.subject), random.Random(cell.key)
        maker = RowMaker(self._texts(cell.subject), self.vocabulary, rng)
        used = self._states(rules)
        python = TokenAutomaton(reference.Automaton(rules), self.vocabulary)
        both = not isinstance(used, TokenAutomaton) and cell.batch_rows <= PYTHON_ROWS
        cold, following, warm, ratios, verdicts = [], [], [], [], []
        for batch in range(self.size.batches):
            rows = [maker.row(cell.masked) for _ in range(cell.batch_rows)]
            cold.append(self._search(self._states(rules), rows)[0])
            elapsed, found = self._search(used, rows)
            following.append(elapsed)
            verdicts += found
            again = [self._search(used, rows)[0] for _ in range(3)]
            warm.append(statistics.median(again))
            if both and batch < PYTHON_BATCHES:
                if self._search(python, rows)[1] != found:
                    raise AssertionError(f"{cell.key}: Python and C++ disagree")
                ratios.append(self._search(python, rows)[0] / min(again))
        return {
            "batches": self.size.batches,
            "cold_ms": quantiles(cold),
            "next_ms": quantiles(following),
            "warm_ms": quantiles(warm),
            "python_ratio": statistics.median(ratios) if ratios else None,
            "found": verdicts.count(Verdict.ALIVE) / len(verdicts),
            "states": used.automaton.state_count,
        }

    def _search(self, tokens: TokenAutomaton, rows: list[Row]) -> tuple[float, list[Verdict]]:
        return guided.search(tokens, rows, self.size.budget)

    def _states(self, rules: RuleAutomata) -> TokenAutomaton:
        return states_over(states_of(rules), self.vocabulary)

    # --- beside others --------------------------------------------------------------------

    def _peers(self, cell: Cell) -> dict[str, Any]:
        rng = random.Random(cell.key)
        maker = RowMaker(self._texts(cell.subject), self.vocabulary, rng)
        tokens = self._states(_rules(cell.subject))
        sampled = SampledLookahead(cell.subject.compile(self._compiler), SAMPLES)
        by_beams, why_not = None, None
        if self._tokenizer is None:
            why_not = beams.NOT_INSTALLED
        else:
            by_beams = beams.BeamLookahead(cell.subject, self._tokenizer, self.vocabulary)
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        found: dict[str, list[bool]] = {way: [] for way in WAYS}
        firsts: list[int | None] = []

        def note(way: str, ms: float, alive: bool) -> None:
            times[way].append(ms)
            found[way].append(alive)

        for _ in range(self.size.rows):
            row = maker.row(cell.masked)
            elapsed, (verdict,) = self._search(tokens, [row])
            note("guided", elapsed, verdict == Verdict.ALIVE)
            drawn = sampled.search(row, rng)
            firsts.append(drawn.first)
            for samples in SAMPLES:
                note(f"sampled, N = {samples}", drawn.ms[samples], drawn.found(samples))
            if by_beams is not None:
                note("beams", *by_beams.search(row, rng))
        return {
            "rows": self.size.rows,
            "ways": {
                way: {
                    "ms": quantiles(times[way]),
                    "ratio": statistics.median(
                        theirs / ours
                        for theirs, ours in zip(times[way], times["guided"], strict=True)
                    ),
                    "found": statistics.mean(found[way]),
                }
                for way in WAYS
                if times[way]
            },
            "not_measured": {"beams": why_not} if why_not else {},
            "found_by_samples": found_by_samples(firsts, FILLINGS),
        }

    def _texts(self, subject: Subject) -> list[list[int]]:
        if subject.name not in self._tokenized:
            rng = random.Random(subject.name)
            self._tokenized[subject.name] = [
                tokenize(self.vocabulary, subject.text(rng).encode()) for _ in range(TEXTS)
            ]
        return self._tokenized[subject.name]

    @cached_property
    def _compiler(self) -> xgrammar.GrammarCompiler:
        """Over the whole vocabulary, as a matcher that reads tokens needs it."""
        info = xgrammar.TokenizerInfo(
            self.vocabulary.token_bytes, stop_token_ids=[self.vocabulary.end_token]
        )
        return xgrammar.GrammarCompiler(info, max_threads=2)

    @cached_property
    def _tokenizer(self):
        return beams.tokenizer_of(self.vocabulary) if beams.has_llguidance() else None


@cache
def _rules(subject: Subject) -> RuleAutomata:
    return read_normal_form(str(subject.compile(text_compiler()).grammar))


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """``p50``, ``p90`` and ``p99``."""
    ordered = sorted(values)
    found = {"p50": statistics.median(ordered)}
    for percent in (90, 99):
        found[f"p{percent}"] = ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
    return found


def found_by_samples(firsts: Sequence[int | None], most: int) -> list[float]:
    """The share of rows of which one of N fillings fits, for N from 1 to ``most``."""
    return [
        sum(first is not None and first <= samples for first in firsts) / len(firsts)
        for samples in range(1, most + 1)
    ]
