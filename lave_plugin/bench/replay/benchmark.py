"""Does every constrained answer come out valid and complete, however wrong the model is?

Reference answers are replayed with a simulated dLLM that is wrong as often as asked for
(``synthetic.simulated``), in three modes: without a constraint, LAVE with its guided lookahead, and
LAVE with the paper's sampled one (N = 10 fillings, tau = 5 attempts; arXiv 2602.00612).

A budget is max_new_tokens: ``shortest``, all that the grammar's shortest answer takes;
``reference``, all that the reference takes; ``ample``, twice that and a block. An answer is cut
where it ends or at its budget. It is *complete* if it ended, *valid* if a judge outside the plugin
accepts its text (jsonschema on strict JSON, lark on SMILES, xgrammar's matcher on programs),
*exact* if it is the reference. ``wider`` counts complete answers that xgrammar's matcher accepts
and the judge does not: the grammar is wider than what the judge knows.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from lave_plugin.bench.cells import CellBenchmark
from lave_plugin.bench.replay.decoding import BLOCK, Answer, Decoding, Engine
from lave_plugin.bench.replay.references import Request, Task
from lave_plugin.bench.results import Results
from lave_plugin.bench.synthetic.simulated import SimulatedModel, TextKind
from lave_plugin.bench.synthetic.vocabularies import tokenize
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.implementation import states_over
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.options import LaveOptions
from lave_plugin.session import Session

MODES: Mapping[str, LaveOptions | None] = {
    "none": None,
    "guided": LaveOptions(),
    "sampled": LaveOptions(lookahead="sampled", samples=10, attempts=5),
}
BUDGETS = ("shortest", "reference", "ample")


@dataclass
class Cell:
    """Figures of one task at one accuracy, threshold and budget, in one mode.

    Attributes:
        steps: denoising steps of all blocks.
        tokens: those of the answers, each with its end.
        step_ms, lookahead_ms: of a step of a row, median: all of it, and without cutting the
            candidates.
        failures: answers that are not valid and complete.
    """

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
    step_ms: float | None = None
    lookahead_ms: float | None = None
    failures: list[dict[str, Any]] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"{self.task}/{self.accuracy:g}/{self.threshold:g}/{self.budget}/{self.mode}"

    def count(self, request: Request, answer: Answer) -> None:
        """Take an answer into account."""
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
    """Runs cells over one vocabulary.

    Args:
        vocabulary: its last id is the mask.
        modes: options of each mode, None without a constraint.
        batch: rows of a step.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        tasks: Sequence[Task],
        *,
        batch: int = 8,
        seed: int = 0,
        modes: Mapping[str, LaveOptions | None] = MODES,
    ) -> None:
        self.vocabulary = vocabulary
        self.tasks = {task.name: task for task in tasks}
        self.modes = modes
        self.engine = Engine(vocabulary, batch)
        self.seed = seed
        self._kinds = {
            task.name: TextKind(
                vocabulary, [request.reference for request in task.requests], len(vocabulary)
            )
            for task in tasks
        }
        self._states: dict[str, TokenAutomaton] = {}

    def states(self, request: Request) -> TokenAutomaton:
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

    def run(self, cell: Cell, on_answer: Callable[[], None] = lambda: None) -> Cell:
        """Answer the requests of its task, and count."""
        options = self.modes[cell.mode]
        decodings = []
        for index, request in enumerate(self.tasks[cell.task].requests):
            # The same errors whatever the mode and the budget.
            seed = f"{self.seed} {cell.task} {index} {cell.accuracy}"
            model = SimulatedModel(self._kinds[cell.task], request.reference, cell.accuracy, seed)
            budget = self.budget(request, cell.budget)
            session = options and Session(self.states(request), options, budget, seed=index)
            decodings.append(Decoding(request, model, session, budget))
        self.engine.step_seconds, self.engine.lookahead_seconds = [], []
        for decoding, answer in self.engine.run(decodings, cell.threshold):
            cell.count(decoding.request, answer)
            on_answer()
        if options:
            cell.step_ms = 1e3 * statistics.median(self.engine.step_seconds)
            cell.lookahead_ms = 1e3 * statistics.median(self.engine.lookahead_seconds)
        return cell


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        requests: Of a task.
        slice: Tokens of the model's vocabulary, 0 for all.
    """

    requests: int
    accuracies: tuple[float, ...]
    thresholds: tuple[float, ...]
    slice: int


FULL = Size(requests=8, accuracies=(0.5, 0.7, 0.85, 0.95), thresholds=(0.7, 0.95), slice=4096)
QUICK = Size(requests=2, accuracies=(0.5, 0.9), thresholds=(0.7,), slice=4096)


class ReplayBenchmark(CellBenchmark[Cell]):
    """The cells of one run; the modes of one place right behind each other."""

    label = "replay"

    def __init__(self, size: Size, replay: Replay) -> None:
        self.size = size
        self.replay = replay

    def cells(self) -> dict[str, Cell]:
        cells = (
            Cell(task.name, accuracy, threshold, budget, mode)
            for task in self.replay.tasks.values()
            if task.requests
            for accuracy in self.size.accuracies
            for threshold in self.size.thresholds
            for budget in BUDGETS
            for mode in self.replay.modes
        )
        return {cell.key: cell for cell in cells}

    def measure(self, cell: Cell) -> dict[str, Any]:
        return asdict(self.replay.run(cell))


# --- summary ------------------------------------------------------------------------------


def guided_failures(results: Results) -> list[str]:
    """Guided answers that are cut, or not of their grammar, each with its cell."""
    return [
        f"{entry['task']} at accuracy {entry['accuracy']:g}, threshold {entry['threshold']:g}, "
        f"budget {entry['budget']}: {failure}"
        for entry in results.all(mode="guided")
        for failure in entry["failures"]
        if not failure["wider"]
    ]


def summary(results: Results) -> list[dict[str, Any]]:
    """One row for each mode, over all cells.

    ``ahead`` counts the places (task, accuracy, threshold, budget) with at least as many exact
    matches as ``none`` has there, of ``places``.
    """
    places: dict[tuple, dict[str, int]] = {}
    for entry in results.all():
        place = tuple(entry[name] for name in ("task", "accuracy", "threshold", "budget"))
        places.setdefault(place, {})[entry["mode"]] = entry["exact"]
    rows = []
    for mode in MODES:
        mine = results.all(mode=mode)
        both = [exact for exact in places.values() if {mode, "none"} <= exact.keys()]
        row: dict[str, Any] = {"mode": mode, "places": len(both)}
        for name in ("requests", "exact", "wider", "steps"):
            row[name] = sum(entry[name] for entry in mine)
        row["valid and complete"] = row["requests"] - sum(len(e["failures"]) for e in mine)
        row["ahead"] = sum(exact[mode] >= exact["none"] for exact in both)
        if mine:
            rows.append(row)
    return rows
