"""Throughput and latency of a server: without the plugin, with it, and under a constraint.

The names of the metrics are those of SGLang's ``bench_serving`` (``sglang/benchmark/serving.py``,
0.5.23). What stands beside them in a cell is ours: ``valid``, ``steps_per_request``,
``tokens_per_step``, ``verification_share``.

A *cell* is one mix of requests at one concurrency, sent one way:

- ``off``: unconstrained, to the server without the plugin
- ``free``: unconstrained, to the server with it
- ``constrained``: with their constraints, to the server with it

Cells come in rounds, the ways of one mix right behind each other, so that what else the machine
does hits them alike; a ratio is taken within a round.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy
from tqdm import tqdm

from lave_plugin.bench.client import Client, Reply
from lave_plugin.bench.engine_steps import EngineSteps, engine_steps
from lave_plugin.bench.mixes import MAX_TOKENS, MIXES, Ask, asks
from lave_plugin.bench.results import Results

WAYS = ("off", "free", "constrained")
PERCENTILES = (50, 95)


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        concurrencies: Requests in flight at a time.
        rounds: How often each cell is measured.
        requests: Of a cell: so many, or twice its concurrency if that is more.
    """

    concurrencies: tuple[int, ...]
    rounds: int
    requests: int

    def requests_at(self, concurrency: int) -> int:
        return max(self.requests, 2 * concurrency)

    @property
    def most_requests(self) -> int:
        return self.requests_at(max(self.concurrencies))


FULL = Size(concurrencies=(1, 4, 8, 16), rounds=5, requests=8)
QUICK = Size(concurrencies=(1, 4), rounds=2, requests=4)


@dataclass(frozen=True)
class Cell:
    """Which cell it is; the key in the results is its parts."""

    round: int
    concurrency: int
    mix: str
    way: str

    @property
    def key(self) -> str:
        return f"{self.round}/{self.concurrency}/{self.mix}/{self.way}"


class ServeBenchmark:
    """The cells of one run.

    Args:
        ways: Those for which there will be a server.
        max_tokens: Of an answer.
        seed: Of the prompts.
    """

    def __init__(
        self,
        size: Size,
        *,
        mixes: Sequence[str] = MIXES,
        ways: Sequence[str] = WAYS,
        max_tokens: int = MAX_TOKENS,
        seed: int = 0,
    ) -> None:
        self.size = size
        self.mixes = mixes
        self.ways = ways
        self.max_tokens = max_tokens
        self.seed = seed

    @cached_property
    def requests(self) -> dict[str, list[Ask]]:
        return {mix: asks(mix, self.size.most_requests, self.seed) for mix in self.mixes}

    def cells(self) -> list[Cell]:
        """In the order of measuring; from round to round another way comes first."""
        found = []
        for turn, concurrency, mix in itertools.product(
            range(self.size.rounds), self.size.concurrencies, self.mixes
        ):
            ways = [way for way in self.ways if mix != "none" or way != "constrained"]
            first = turn % len(ways)
            rotated = (*ways[first:], *ways[:first])
            found += [Cell(turn, concurrency, mix, way) for way in rotated]
        return found

    def is_complete(self, results: Results) -> bool:
        return all(cell.key in results for cell in self.cells())

    def run(self, results: Results, clients: Mapping[str, Client], model: str) -> None:
        """Measure what is missing.

        Args:
            clients: By way.
            model: The name by which requests ask for it.

        Raises:
            Interrupted, ServerLost: What was measured is in the file.
        """
        cells = {cell.key: cell for cell in self.cells()}
        results.want(list(cells))
        kinds = dict.fromkeys((cell.mix, cell.way) for cell in cells.values())
        for mix, way in tqdm(list(kinds), desc="warm-up", unit="mix"):
            # Once each, so that grammars are compiled and their states unfolded.
            most = max(self.size.concurrencies)
            clients[way].send_all(self._bodies(mix, way, most, model), most)
        results.measure(list(cells), lambda key: self._measure(cells[key], clients, model), "serve")

    def _bodies(self, mix: str, way: str, concurrency: int, model: str) -> list[dict[str, Any]]:
        constrained = way == "constrained"
        return [
            ask.body(model, constrained=constrained, max_tokens=self.max_tokens)
            for ask in self.requests[mix][: self.size.requests_at(concurrency)]
        ]

    def _measure(self, cell: Cell, clients: Mapping[str, Client], model: str) -> dict[str, Any]:
        client = clients[cell.way]
        bodies = self._bodies(cell.mix, cell.way, cell.concurrency, model)
        before = engine_steps(client)
        replies, duration = client.send_all(bodies, cell.concurrency)
        after = engine_steps(client)
        steps = None if before is None or after is None else after.since(before)
        complaints = [
            reply.error or ask.check(reply.text)
            for ask, reply in zip(self.requests[cell.mix], replies, strict=False)
        ]
        return {
            "round": cell.round,
            "mix": cell.mix,
            "way": cell.way,
            "max_concurrency": cell.concurrency,
            **metrics(replies, duration),
            "valid": sum(complaint is None for complaint in complaints),
            "complaint": next(filter(None, complaints), None),
            **of_steps(steps, replies),
        }


def metrics(replies: Sequence[Reply], duration: float) -> dict[str, Any]:
    """What SGLang's ``bench_serving`` reports of the same, by its names; seconds where no unit
    stands in the name. Failed requests count in nothing but ``failed``.
    """
    done = [reply for reply in replies if reply.error is None]
    output = sum(reply.output_tokens for reply in done)
    found: dict[str, Any] = {
        "completed": len(done),
        "failed": len(replies) - len(done),
        "duration": duration,
        "total_input_tokens": sum(reply.prompt_tokens for reply in done),
        "total_output_tokens": output,
        "request_throughput": len(done) / duration,
        "output_throughput": output / duration,
        "concurrency": sum(reply.latency for reply in done) / duration,
    }
    for name, seconds in (
        ("ttft", [reply.ttft for reply in done]),
        ("e2e_latency", [reply.latency for reply in done]),
    ):
        milliseconds = 1e3 * numpy.array(seconds)
        found[f"mean_{name}_ms"] = float(milliseconds.mean()) if done else None
        for percent in PERCENTILES:
            label = "median" if percent == 50 else f"p{percent}"
            value = float(numpy.percentile(milliseconds, percent)) if done else None
            found[f"{label}_{name}_ms"] = value
    return found


def of_steps(steps: EngineSteps | None, replies: Sequence[Reply]) -> dict[str, Any]:
    """What the engine's steps come to for these requests; None where the server doesn't say.

    A step of a request counts once, whatever else is in the batch; those that read the prompt
    count as well.
    """
    if steps is None or not steps.rows:
        return dict.fromkeys(
            ("steps_per_request", "tokens_per_step", "step_ms", "verification_share")
        ) | {"verification_by_rows": []}
    return {
        "steps_per_request": steps.rows / len(replies),
        "tokens_per_step": sum(reply.output_tokens for reply in replies) / steps.rows,
        "step_ms": 1e3 * steps.step_s / steps.steps,
        "verification_share": steps.verification_s / steps.step_s,
        "verification_by_rows": [list(entry) for entry in steps.by_rows],
    }


# --- summary ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spread:
    """The median of some rounds, with the least and the most of them."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Spread | None:
        """None where there is no value at all."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        return cls(statistics.median(known), min(known), max(known))


RATIOS = {
    "free/off": ("free", "off"),
    "constrained/free": ("constrained", "free"),
    "constrained/off": ("constrained", "off"),
}


def summary(results: Results) -> list[dict[str, Any]]:
    """One row for each mix, concurrency and way, medians over the rounds as ``Spread``.

    ``ratios`` are of the output throughput, each within one round: of the way to ``off`` and of
    ``constrained`` to ``free``.
    """
    cells = results.all()
    by_place = {(c["mix"], c["max_concurrency"], c["way"], c["round"]): c for c in cells}
    kinds = sorted(
        {key[:3] for key in by_place},
        key=lambda kind: (MIXES.index(kind[0]), kind[1], WAYS.index(kind[2])),
    )
    rounds = sorted({key[3] for key in by_place})
    rows = []
    for mix, concurrency, way in kinds:
        places = [(mix, concurrency, way, turn) for turn in rounds]
        mine = [by_place[place] for place in places if place in by_place]
        row: dict[str, Any] = {
            "mix": mix,
            "max_concurrency": concurrency,
            "way": way,
            "rounds": len(mine),
            "failed": sum(cell["failed"] for cell in mine),
            "valid": sum(cell["valid"] for cell in mine)
            / sum(cell["completed"] + cell["failed"] for cell in mine),
        }
        for name in (
            "output_throughput",
            "request_throughput",
            "median_ttft_ms",
            "median_e2e_latency_ms",
            "p95_e2e_latency_ms",
            "steps_per_request",
            "tokens_per_step",
            "verification_share",
        ):
            row[name] = Spread.of([cell[name] for cell in mine])
        row["ratios"] = {
            label: _ratio(by_place, mix, concurrency, above, below, rounds)
            for label, (above, below) in RATIOS.items()
            if above == way
        }
        rows.append(row)
    return rows


def _ratio(by_place, mix, concurrency, above, below, rounds) -> Spread | None:
    def throughput(way: str, turn: int) -> float | None:
        cell = by_place.get((mix, concurrency, way, turn))
        return cell and cell["output_throughput"]

    pairs = [(throughput(above, turn), throughput(below, turn)) for turn in rounds]
    return Spread.of([up / down for up, down in pairs if up is not None and down])


def verification_by_rows(results: Results, **of: Any) -> dict[int, float]:
    """Milliseconds of verification in a step, by its rows, all of them constrained.

    The median over the cells, each with the mean of its steps. ``of`` names the cells that
    count, such as ``mix="regex"``.
    """
    found: dict[int, list[float]] = {}
    for cell in results.all(**of):
        for rows, steps, seconds in cell["verification_by_rows"]:
            found.setdefault(rows, []).append(1e3 * seconds / steps)
    return {rows: statistics.median(values) for rows, values in sorted(found.items())}
