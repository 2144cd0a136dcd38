"""Every strategy on the dLLM that ships, in the real engine, and in replay.

    python benchmarks/strategies.py [--quick] [--json OUT]
    python benchmarks/strategies.py --skip-engine --data DIR --vocabulary qwen.tiktoken

Engine: 100 held-out extraction prompts under their JSON schemas on one server, LowConfidence at
threshold 0.7, greedy, eight at a time; each request chooses its strategy. `ms` is the time of a
strategy's run over its steps: what a step costs one of eight rows, forward pass included. Without
a constraint the engine tells no steps.

Replay: the simulated dLLM of `lave bench replay` (lave_plugin/bench/replay/benchmark.py says what
the columns are), six answers of each task at accuracies of 0.5 and 0.9 and ample budgets; here the
strategies' other forms stand as well. `ms` is a row's part of a step without the model.

On two cores that have nothing else to do the engine's half takes two minutes and the replay more
than six, most of it for C++; `--quick` (eight prompts; two answers at 0.5, no C++) less than 50 s.

An answer fails for one reason: `cut` at its budget, or what its judge says of it.
"""

import json
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import requests
import torch
import typer
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from lave_plugin.bench.replay.benchmark import Cell, Replay
from lave_plugin.bench.replay.decoding import slice_of
from lave_plugin.bench.replay.references import tasks
from lave_plugin.bench.synthetic.vocabularies import read_vocabulary, synthetic_vocabulary
from lave_plugin.demo.checks import json_schema
from lave_plugin.demo.records import Sample
from lave_plugin.demo.requests import CHAT
from lave_plugin.demo.shipped import CHECKPOINT, algorithm_config
from lave_plugin.demo.tasks import held_out
from lave_plugin.engines.sglang.server import Server
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.options import LaveOptions

AT_ONCE = 8
SLICE = 4096
"""Tokens of the replay's vocabulary."""
IN_ENGINE = (None, "none", "sequential", "intersection", "map", "posterior", "lave")
IN_REPLAY = {
    "no constraint": None,
    "sequential": LaveOptions(strategy="sequential"),
    "intersection, Con.-": LaveOptions(strategy="intersection"),
    "intersection, Con.": LaveOptions(strategy="intersection", completion=True),
    "intersection, exact gaps": LaveOptions(strategy="intersection", gaps="exact"),
    "map": LaveOptions(strategy="map"),
    "map, candidates": LaveOptions(strategy="map", regular_states=0),
    "posterior, mar": LaveOptions(strategy="posterior"),
    "posterior, mf": LaveOptions(strategy="posterior", posterior="mf"),
    "posterior, draws": LaveOptions(strategy="posterior", posterior="draws"),
    "lave": LaveOptions(),
}


@dataclass
class Row:
    """One strategy at one task. Times in milliseconds."""

    where: str
    task: str
    strategy: str
    requests: int = 0
    valid: int = 0
    exact: int = 0
    steps: int | None = None
    step_ms: float | None = None
    failures: Counter = field(default_factory=Counter)


def answer_of(url: str, sample: Sample, strategy: str | None) -> dict:
    parameters = {"temperature": 0, "max_new_tokens": 99}
    if strategy is not None:
        parameters["json_schema"] = json.dumps(sample.schema)
        parameters["custom_params"] = {"lave": {"strategy": strategy}}
    body = {"text": CHAT.format(prompt=sample.prompt), "sampling_params": parameters}
    response = requests.post(f"{url}/generate", json=body, timeout=120)
    response.raise_for_status()
    return response.json()


def in_engine(count: int, seed: int) -> list[Row]:
    """All strategies on one server."""
    samples = held_out(count, seed=seed)
    rows = []
    with (
        Server(
            CHECKPOINT, algorithm_config=algorithm_config(), constrained_decoding="lave"
        ) as server,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        # Compiles the grammars, so that no strategy pays for the others.
        list(pool.map(lambda sample: answer_of(server.url, sample, "lave"), samples))
        for strategy in tqdm(IN_ENGINE, desc="engine", unit="strategy"):
            begin = time.perf_counter()
            answers = list(
                pool.map(lambda s, name=strategy: answer_of(server.url, s, name), samples)
            )
            elapsed = time.perf_counter() - begin
            row = Row("engine", "extraction", strategy or "no constraint")
            for sample, answer in zip(samples, answers, strict=True):
                count_answer(row, sample, answer)
            if row.steps is not None:
                row.step_ms = 1e3 * elapsed / row.steps
            rows.append(row)
    return rows


def count_answer(row: Row, sample: Sample, answer: dict) -> None:
    text, meta = answer["text"], answer["meta_info"]
    problem = json_schema(sample.schema)(text)
    row.requests += 1
    row.valid += problem is None
    row.exact += text == sample.answer
    if "lave" in meta:
        row.steps = (row.steps or 0) + meta["lave"]["steps"]
    if problem is not None:
        cut = meta["finish_reason"]["type"] == "length"
        row.failures["cut" if cut else problem.split(":")[0]] += 1


def in_replay(
    names: Sequence[str],
    count: int,
    accuracies: Sequence[float],
    data: Path | None,
    vocabulary: Path | None,
    seed: int,
) -> list[Row]:
    """All forms of the strategies with the simulated model, on the tasks of these names."""
    spelled = read_vocabulary(vocabulary) if vocabulary else synthetic_vocabulary()
    chosen = [task for task in tasks(data, count, seed) if task.name in names]
    references = [request.reference for task in chosen for request in task.requests]
    whole = Vocabulary([*spelled, b""], [len(spelled)])
    sliced = slice_of(whole, SLICE, references, seed)
    replay = Replay(sliced, chosen, batch=AT_ONCE, seed=seed, modes=IN_REPLAY)
    rows = []
    total = len(IN_REPLAY) * len(accuracies) * sum(len(task.requests) for task in chosen)
    with tqdm(total=total, desc="replay", unit="answer") as bar:
        for task in chosen:
            for mode, options in IN_REPLAY.items():
                row = Row("replay", task.name, mode, steps=0)
                times = []
                for accuracy in accuracies:
                    cell = replay.run(Cell(task.name, accuracy, 0.7, "ample", mode), bar.update)
                    row.requests += cell.requests
                    row.exact += cell.exact
                    row.steps += cell.steps
                    row.valid += cell.requests - len(cell.failures)
                    row.failures.update(map(reason, cell.failures))
                    times.append(cell.step_ms)
                row.step_ms = sum(times) / len(times) if options else None
                rows.append(row)
    return rows


def reason(failure: dict) -> str:
    """Why an answer of the replay failed, in a few words."""
    if failure["wider"]:
        return "xgrammar's grammar is wider"
    return "cut" if failure["cut"] else failure["problem"].split(":")[0]


def table_of(rows: list[Row]) -> Table:
    table = Table(title="strategies")
    for name in ("where", "task", "strategy"):
        table.add_column(name)
    for name in ("valid %", "exact %", "steps an answer", "ms a step"):
        table.add_column(name, justify="right")
    table.add_column("failures")
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        table.add_row(
            row.where,
            row.task,
            row.strategy,
            f"{100 * row.valid / row.requests:.1f}",
            f"{100 * row.exact / row.requests:.1f}",
            "" if row.steps is None else f"{row.steps / row.requests:.1f}",
            "" if row.step_ms is None else f"{row.step_ms:.2f}",
            ", ".join(f"{count} {why}" for why, count in row.failures.most_common()),
            end_section=following is None
            or (row.where, row.task) != (following.where, following.task),
        )
    return table


def main(
    quick: Annotated[bool, typer.Option(help="Fewer requests.")] = False,
    skip_engine: Annotated[bool, typer.Option(help="Replay only.")] = False,
    skip_replay: Annotated[bool, typer.Option(help="Engine only.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder of the replay's references.")] = None,
    vocabulary: Annotated[Path | None, typer.Option(help="A .tiktoken file, for replay.")] = None,
    seed: int = 0,
    out: Annotated[Path | None, typer.Option("--json", help="Where to write the figures.")] = None,
) -> None:
    """Compare the strategies."""
    torch.set_num_threads(1)
    rows = []
    if not skip_engine:
        rows += in_engine(8 if quick else 100, seed)
    if not skip_replay:
        names = ("JSON", "SMILES") if quick else ("JSON", "C++", "SMILES")
        accuracies = (0.5,) if quick else (0.5, 0.9)
        count = 2 if quick else 6
        rows += in_replay(names, count, accuracies, data, vocabulary, seed)
    Console(width=150).print(table_of(rows))
    if out is not None:
        out.write_text(json.dumps([vars(row) for row in rows], indent=1))


if __name__ == "__main__":
    typer.run(main)
