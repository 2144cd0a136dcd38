"""``benchmarks/REPORT.md``: all results in a folder, with plots, beside what others published."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lave_plugin.bench import peers, plots, programs
from lave_plugin.bench.results import OtherResults, Results
from lave_plugin.bench.table import Table
from lave_plugin.bench.tables import tables_of
from lave_plugin.bench.variants import IN_PROCESS, TABLES

HEAD = """\
# Benchmark report

Made from the JSON files of `lave bench` by `lave bench report`; don't edit it. Each section
names the command that measures it again. Figures of ours are of one machine and, unless another
is named, of the tiny model that ships on a CPU: ratios within one run carry over, times don't.
The command draws each plot as PNG too, beside the SVG of this page.
"""

COMMANDS = {
    "serve": "lave bench serve",
    **{f"paper-{table}": f"lave bench paper --table {table}" for table in (*TABLES, *IN_PROCESS)},
    "verify": "lave bench verify",
    "replay": "lave bench replay",
}
"""What makes each file, by its name; in the order of the page."""

NOTES = {
    "serve": """\
`off` is the engine's own step, `free` is the plugin without constraints, `constrained` is with
them; the ways of one mix take turns, and a ratio is of two that ran right behind each other.
Grammars were compiled by a warm-up. Unconstrained and constrained answers are not of the same
length, so the ratio to read for the cost of a step is `free/off`, and the share in verification.
""",
    "verify": """\
Blocks of 32 tokens, 16 candidates a position, one thread. Every canvas has a witness, made of a
text of the grammar, so what is not found is a lookahead that failed. The model is made up: the
true token is the first candidate in half of the cases, so that lookaheads have something to do; a
real model on its own answers is surer (`lave bench paper --table feasibility`). *cold*: new states;
*next*: states that have searched other batches; *warm*: the same batch again. *beams* is the
lookahead that LAVE's authors published, written anew; it runs on llguidance as theirs does.
""",
    "replay": """\
A simulated model that is wrong as often as asked for, in ways that dLLMs are. `sampled` is the
paper's lookahead (N = 10, τ = 5) with this plugin's states and length guarantee. Budgets are
`max_new_tokens`: the grammar's shortest answer, the reference's length, twice that and a block.
""",
    "feasibility": """\
Blocks of right answers to held-out prompts, a part of their tokens masked, the shipped model's own
probabilities: how often one of N fillings fits. *independent* is the paper's sampling, *distinct*
is without replacement.
""",
    "steps": """\
The papers' loop, without an engine: with T steps for 256 tokens a step commits the 256/T positions
that the model is surest of, sure or not. Greedy. A refused proposal costs steps beyond that.
""",
}
"""What a reader must know of each benchmark's figures."""


def results_in(folder: Path) -> dict[str, Results]:
    """The results that are there, by name; files that hold none are left out."""
    found = {}
    for name in COMMANDS:
        path = folder / f"{name}.json"
        if path.is_file():
            try:
                found[name] = Results.read(path)
            except OtherResults:
                continue
    return found


def write(results_folder: Path, page: Path) -> list[str]:
    """Write the page, and beside it its plots; what is missing, as sentences."""
    found = results_in(results_folder)
    told = []
    if not plots.can_plot():
        told.append("No plots: matplotlib is not installed (pip install 'lave-plugin[bench]').")
    for name in COMMANDS:
        if name not in found:
            told.append(f"No {name}.json in {results_folder}: {COMMANDS[name]} makes it.")
        elif missing := len(found[name].missing):
            told.append(f"{name}: {missing} measurements are missing; {COMMANDS[name]} goes on.")
    sections = [HEAD]
    if told:
        sections.append("Not here:\n\n" + "\n".join(f"- {line}" for line in told) + "\n")
    for results in found.values():
        sections.append("\n".join(_section(results, page)))
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(sections))
    return told


def _section(results: Results, page: Path) -> Iterator[str]:
    yield f"## {COMMANDS[results.path.stem]}\n"
    yield _setting(results)
    if notes := NOTES.get(results.benchmark):
        yield notes
    if plots.can_plot() and len(results):
        for path in plots.plot(results, page.parent / "plots"):
            relative = Path(os.path.relpath(path, page.parent)).as_posix()
            yield f"![{path.stem}]({relative})\n"
    for shown in tables_of(results):
        yield _titled(shown)
    table = results.options.get("table")
    if table == "main":
        yield f"{programs.leash()} k is estimated without bias (arXiv 2107.03374).\n"
        yield "### Beside what others published\n"
        yield peers.DIFFERENCES
        yield _titled(peers.syntactic())
        yield _titled(peers.others())
    elif table == "ablation":
        yield _titled(peers.ablation())
    elif results.benchmark == "steps":
        yield _titled(peers.steps())
    elif results.benchmark == "feasibility":
        yield _titled(peers.feasibility())


def _titled(table: Table) -> str:
    return f"{table.title}:\n\n{table.to_markdown()}\n"


def _setting(results: Results) -> str:
    """Machine, versions, commands and dates, as a list."""
    last = results.sessions[-1]
    machine, versions = last["machine"], last["versions"]
    loads = ", ".join(str(session["machine"]["load"]) for session in results.sessions)
    lines = [
        f"- {machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB; load at "
        f"the start {loads}",
        "- " + ", ".join(f"{name} {number}" for name, number in versions.items() if number),
        *(f"- `{session['command']}`, {session['date']}" for session in results.sessions),
        "- " + ", ".join(f"{name} {_shown(value)}" for name, value in results.options.items()),
        *(f"- {note}" for note in results.notes),
    ]
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
