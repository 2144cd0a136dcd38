"""The papers' tables in their form: syntactic@k, functional@k, mean time.

As in LAVE (arXiv 2602.00612) and IG-CD (arXiv 2508.10111): k = 1, 3, 5 and 10 of ten samples at
temperature 0.2, one request at a time. Samples of all variants take turns, task by task, so that
what else the machine does hits them alike.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

from lave_plugin.bench import scoring
from lave_plugin.bench.client import Client
from lave_plugin.bench.results import Results
from lave_plugin.bench.tasks import Task
from lave_plugin.bench.variants import Variant, with_bases

KS = (1, 3, 5, 10)
TEMPERATURE = 0.2

Open = Callable[[Variant], AbstractContextManager[Client]]
"""Opens a server that can serve this variant, and those with the same ``server``."""


@dataclass(frozen=True)
class Sample:
    """One answer to be had."""

    variant: Variant
    task: Task
    number: int

    @property
    def key(self) -> str:
        return f"{self.variant.name}/{self.task.name}/{self.number}"


class PaperBenchmark:
    """One table.

    Args:
        samples: Answers of each variant to each task, by seed.
        servers_at_once: How many may be up, for variants that need several to take turns. An idle
            one costs memory and no time.
    """

    def __init__(
        self,
        variants: Sequence[Variant],
        tasks: Sequence[Task],
        samples: int,
        *,
        temperature: float = TEMPERATURE,
        servers_at_once: int = 2,
    ) -> None:
        self.variants = with_bases(variants)
        self.tasks = tasks
        self.samples = samples
        self.temperature = temperature
        self.servers_at_once = servers_at_once
        self._scores: dict[tuple[str, str], tuple[bool, bool | None]] = {}

    def groups(self) -> Iterator[list[Variant]]:
        """Variants whose servers can be up at the same time, so that they take turns."""
        servers = list(dict.fromkeys(variant.server for variant in self.variants))
        for begin in range(0, len(servers), self.servers_at_once):
            together = servers[begin : begin + self.servers_at_once]
            yield [variant for variant in self.variants if variant.server in together]

    def wanted(self, variants: Sequence[Variant]) -> list[Sample]:
        """In the order of measuring; from task to task another variant comes first."""
        found = []
        for turn, (number, task) in enumerate(itertools.product(range(self.samples), self.tasks)):
            first = turn % len(variants)
            rotated = (*variants[first:], *variants[:first])
            found += [Sample(variant, task, number) for variant in rotated]
        return found

    def is_complete(self, results: Results) -> bool:
        return all(sample.key in results for sample in self.wanted(self.variants))

    def run(self, results: Results, open_server: Open) -> None:
        """Measure what is missing, with as few servers at a time as that takes.

        Raises:
            Interrupted: See :meth:`Results.measure`.
        """
        results.want([sample.key for sample in self.wanted(self.variants)])
        for group in self.groups():
            samples = {sample.key: sample for sample in self.wanted(group)}
            if all(key in results for key in samples):
                continue
            with ExitStack() as stack:
                clients: dict[str, Client] = {}
                for variant in group:
                    if variant.server not in clients:
                        clients[variant.server] = stack.enter_context(open_server(variant))
                models = {server: client.model() for server, client in clients.items()}
                for variant in group:
                    self._warm_up(clients[variant.server], models[variant.server], variant)

                def measure(key: str, samples=samples, clients=clients, models=models):
                    sample = samples[key]
                    server = sample.variant.server
                    return self._measure(clients[server], models[server], sample)

                results.measure(list(samples), measure, "paper")

    def _warm_up(self, client: Client, model: str, variant: Variant) -> None:
        """Compile every grammar: the papers don't count that either."""
        bodies = [task.body(model, variant.strategy, 0.0, 0) for task in self.tasks]
        client.send_all(bodies, concurrency=4)

    def _measure(self, client: Client, model: str, sample: Sample) -> dict[str, Any]:
        body = sample.task.body(model, sample.variant.strategy, self.temperature, sample.number)
        reply = client.ask(body)
        syntactic, functional = (
            (False, False) if reply.error is not None else self._score(sample.task, reply.text)
        )
        return {
            "variant": sample.variant.name,
            "kind": sample.task.kind,
            "task": sample.task.name,
            "sample": sample.number,
            "text": reply.text,
            "error": reply.error,
            "finish": reply.finish,
            "seconds": reply.latency,
            "tokens": reply.output_tokens,
            "facts": reply.facts,
            "syntactic": syntactic,
            "functional": functional,
        }

    def _score(self, task: Task, text: str) -> tuple[bool, bool | None]:
        # Variants give the same answers again and again, and a C++ program takes longer to
        # compile than to be written.
        if (task.name, text) not in self._scores:
            self._scores[task.name, text] = task.score(text)
        return self._scores[task.name, text]


# --- summary ------------------------------------------------------------------------------


def summary(results: Results, variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """One row for each kind of task and variant, of what was measured so far.

    ``syntactic`` and ``functional`` are percentages by k, means over the tasks; ``functional`` is
    None where it could not be scored. ``ratio`` is the time over that of ``none`` on the same
    server, task and sample: its median and its quartiles. ``steps`` are denoising steps an answer,
    None where the server doesn't tell them.
    """
    everything = with_bases(variants)
    rows = []
    for kind in dict.fromkeys(entry["kind"] for entry in results.all()):
        for variant in variants:
            mine = results.all(kind=kind, variant=variant.name)
            if not mine:
                continue
            (base,) = (
                other.name
                for other in everything
                if (other.strategy, other.server) == ("none", variant.server)
            )
            steps = [entry["facts"]["steps"] for entry in mine if entry["facts"]]
            rows.append(
                {
                    "kind": kind,
                    "variant": variant.name,
                    "paper": variant.paper,
                    "at": variant.at,
                    "strategy": variant.strategy,
                    "answers": len(mine),
                    "errors": sum(entry["error"] is not None for entry in mine),
                    "syntactic": at_each_k(mine, "syntactic"),
                    "functional": at_each_k(mine, "functional"),
                    "seconds": statistics.mean(entry["seconds"] for entry in mine),
                    "tokens": statistics.mean(entry["tokens"] for entry in mine),
                    "steps": statistics.mean(steps) if steps else None,
                    "ratio": _ratio(mine, results.all(kind=kind, variant=base)),
                }
            )
    return rows


def at_each_k(entries: Sequence[Mapping[str, Any]], score: str) -> dict[int, float] | None:
    """Percentages by k, over the tasks that have so many samples."""
    by_task: dict[str, list[bool]] = {}
    for entry in entries:
        if entry[score] is None:
            return None
        by_task.setdefault(entry["task"], []).append(entry[score])
    found = {}
    for k in KS:
        values = [
            scoring.at_k(len(right), sum(right), k) for right in by_task.values() if len(right) >= k
        ]
        if values:
            found[k] = 100 * statistics.mean(values)
    return found


def _ratio(mine, base) -> tuple[float, float, float] | None:
    """Quartiles: the first, the median, the third."""
    seconds = {(entry["task"], entry["sample"]): entry["seconds"] for entry in base}
    ratios = [
        entry["seconds"] / seconds[entry["task"], entry["sample"]]
        for entry in mine
        if (entry["task"], entry["sample"]) in seconds
    ]
    if len(ratios) < 2:
        return (ratios[0],) * 3 if ratios else None
    return tuple(statistics.quantiles(ratios, n=4, method="inclusive"))
