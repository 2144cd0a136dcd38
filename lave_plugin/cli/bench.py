"""``lave bench``: measurements that anyone can repeat, one command each."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from lave_plugin.bench import plots, programs, report, scale, scoring, servers, tables, tasks
from lave_plugin.bench.client import Client, ServerLost
from lave_plugin.bench.cost import Cost
from lave_plugin.bench.mixes import MAX_TOKENS, MIXES
from lave_plugin.bench.paper import TEMPERATURE, PaperBenchmark
from lave_plugin.bench.results import Interrupted, OtherResults, Results
from lave_plugin.bench.serve import FULL, QUICK, WAYS, ServeBenchmark, Size, verification_by_rows
from lave_plugin.bench.synthetic.subjects import SUBJECTS
from lave_plugin.bench.synthetic.vocabularies import read_vocabulary, synthetic_vocabulary
from lave_plugin.bench.variants import IN_PROCESS, TABLES, Variant
from lave_plugin.cli.demo import progress_line, say, sigterm_as_exit
from lave_plugin.demo.shipped import CHECKPOINT
from lave_plugin.engines.sglang.server import Server, ServerError
from lave_plugin.grammar.implementation import native_module
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.options import LaveOptions

app = typer.Typer(
    help="Measure a server, or the one that is started for it; results go to a JSON file, and "
    "the same command goes on with one that was interrupted.",
    no_args_is_help=True,
)

COMPLETE = "Everything is measured; --afresh measures again."
RESULTS = Path("benchmarks/results")
PAGE = Path("benchmarks/REPORT.md")

TableName = StrEnum("TableName", {name: name for name in (*TABLES, *IN_PROCESS)})
MixName = StrEnum("MixName", {name: name for name in MIXES})
GrammarName = StrEnum("GrammarName", {each.name: each.name for each in SUBJECTS})

Model = Annotated[
    Path | None, typer.Option(help="Folder of a checkpoint. Default: the one that ships.")
]
Device = Annotated[
    str, typer.Option(help="'cpu' brings SGLang up without a GPU; else it runs as installed.")
]
BaseUrl = Annotated[
    str | None,
    typer.Option(help="A running server with the plugin, such as http://127.0.0.1:30000."),
]
ApiKey = Annotated[
    str | None, typer.Option(envvar="LAVE_API_KEY", help="Of that server, if it asks for one.")
]
Json = Annotated[Path | None, typer.Option("--json", help="Results. Default: benchmarks/results.")]
Afresh = Annotated[bool, typer.Option("--afresh", help="Measure again what the file holds.")]
Quick = Annotated[bool, typer.Option("--quick", help="A minute, to see that it works.")]


@contextmanager
def told() -> Iterator[Console]:
    """What can go wrong, as a sentence and an exit status."""
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    try:
        with sigterm_as_exit():
            yield console
    except (OtherResults, tasks.NoSuchTasks) as error:
        say(str(error))
        raise typer.Exit(2) from None
    except Interrupted as error:
        say(str(error))
        raise typer.Exit(130) from None
    except KeyboardInterrupt:
        say("Interrupted before a measurement; the same command starts again.")
        raise typer.Exit(130) from None
    except ServerLost as error:
        say(f"No server answers; what was measured is kept. {error}")
        raise typer.Exit(1) from None
    except ServerError as error:
        say("")
        console.print(escape(str(error)), style="red")
        raise typer.Exit(1) from None


@contextmanager
def started(server: Server) -> Iterator[Client]:
    """A client of a server that is up as long as this is."""
    with server:
        say(f"server: ready on {server.url}")
        yield Client(server.url)


def show(console: Console, results: Results) -> None:
    """The tables, the plots beside the file, and where all of it is."""
    for table in tables.tables_of(results):
        console.print(table.to_rich())
    say(f"results: {results.path}")
    if plots.can_plot() and len(results):
        for path in plots.plot(results, results.path.parent):
            say(f"plot: {path} and .png")
    else:
        say("No plots: matplotlib is not installed (pip install 'lave-plugin[bench]').")


# --- lave bench serve ---------------------------------------------------------------------


@app.command()
def serve(
    model: Model = None,
    device: Device = "cpu",
    base_url: BaseUrl = None,
    off_url: Annotated[
        str | None, typer.Option(help="A running server of the same model without the plugin.")
    ] = None,
    api_key: ApiKey = None,
    mix: Annotated[list[MixName] | None, typer.Option(help="Only these. May be repeated.")] = None,
    concurrency: Annotated[
        list[int] | None, typer.Option(min=1, help="Only these. May be repeated.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1)] = None,
    requests: Annotated[int | None, typer.Option(min=1, help="Of a cell, at the least.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Of an answer.")] = MAX_TOKENS,
    threshold: Annotated[float | None, typer.Option(help="Of the algorithm.")] = None,
    seed: int = 0,
    quick: Quick = False,
    json_file: Json = None,
    afresh: Afresh = False,
) -> None:
    """Throughput and latency without the plugin, with it, and under constraints.

    Starts two servers of the shipped model on the CPU, which take turns; or measures running ones.
    A GPU has room for one of them, so there the way without the plugin takes --off-url. Default
    size: under ten minutes on two cores.
    """
    size = QUICK if quick else FULL
    has_off = bool(off_url) if base_url else device == "cpu"
    benchmark = ServeBenchmark(
        Size(
            tuple(sorted(set(concurrency))) if concurrency else size.concurrencies,
            rounds or size.rounds,
            requests or size.requests,
        ),
        mixes=[name for name in MIXES if not mix or name in mix],
        ways=[way for way in WAYS if has_off or way != "off"],
        max_tokens=max_tokens,
        seed=seed,
    )
    with told() as console, ExitStack() as stack:
        options = {
            "model": _model_name(model, base_url, api_key),
            "mixes": list(benchmark.mixes),
            "ways": list(benchmark.ways),
            "concurrency": list(benchmark.size.concurrencies),
            "rounds": benchmark.size.rounds,
            "requests": benchmark.size.requests,
            "max_tokens": max_tokens,
            "threshold": threshold,
            "seed": seed,
        }
        results = Results.open(json_file or RESULTS / "serve.json", "serve", options, afresh)

        def start(*, plugin: bool) -> Client:
            server = servers.server(
                model or CHECKPOINT,
                plugin=plugin,
                threshold=threshold,
                device=device,
                max_running_requests=max(benchmark.size.concurrencies),
                on_progress=progress_line(),
            )
            return stack.enter_context(started(server))

        if benchmark.is_complete(results):
            say(COMPLETE)
        else:
            on = Client(base_url, api_key) if base_url else start(plugin=True)
            clients = {"free": on, "constrained": on}
            if off_url:
                clients["off"] = Client(off_url, api_key)
            elif has_off:
                results.notes = [_off_note(model or CHECKPOINT)]
                clients["off"] = start(plugin=False)
            benchmark.run(results, clients, on.model())
        show(console, results)


def _model_name(model: Path | None, base_url: str | None, api_key: str | None) -> str:
    """What the results are of, so that those of two models are not mixed."""
    if base_url:
        return Path(Client(base_url, api_key).model()).name
    return "shipped" if model is None else model.name


def _off_note(folder: Path) -> str:
    if servers.runs_without_the_plugin(folder):
        return "off: SGLang with all plugins switched off (SGLANG_PLUGINS=none)"
    return (
        "off: --constrained-decoding none, which leaves the engine's algorithm in place; without "
        "any plugin SGLang takes the mask id from its table, which this vocabulary does not reach"
    )


# --- lave bench paper ---------------------------------------------------------------------


@app.command()
def paper(
    table: Annotated[
        TableName, typer.Option(help="The main one, one of all tasks, the ablation, a sweep.")
    ] = TableName.main,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with json_bench.jsonl, humaneval_cpp.jsonl or smiles_bench.jsonl. "
            "Default: the demo's own tasks."
        ),
    ] = None,
    demo_task: Annotated[
        list[str] | None,
        typer.Option(
            help="Which of the demo's tasks: unseen, sql, 'json call' and others. Default: record, "
            "cpp, smiles; of the table tasks all.",
            show_default=False,
        ),
    ] = None,
    grammar: Annotated[
        list[str] | None,
        typer.Option(help="KIND=FILE: EBNF for cpp or smiles in place of the one that ships."),
    ] = None,
    model: Model = None,
    device: Device = "cpu",
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    count: Annotated[
        int | None,
        typer.Option(
            "--tasks",
            min=1,
            help="Of each kind. Default: 4; of tasks 60; of a sweep 15; of steps and feasibility "
            "40.",
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Of each task. Default: 10 in main, else 1.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, help="As in the papers.")] = TEMPERATURE,
    seed: int = 0,
    quick: Quick = False,
    json_file: Json = None,
    afresh: Afresh = False,
) -> None:
    """The papers' tables: syntactic@k, functional@k and mean time of each strategy.

    A running server has one threshold and one set of options, so with --base-url the variants
    that need others are left out. The tables steps and feasibility take the model that ships into
    this process, without a server.
    """
    if table in IN_PROCESS:
        count = count or (3 if quick else 40)
        return _in_process(table, model, count, seed, json_file, afresh)
    usual = {"main": (4, 10), "tasks": (60, 1)}.get(table, (15, 1)) if not quick else (3, 1)
    count, samples = count or usual[0], samples or usual[1]
    demo_task = demo_task or (tasks.OF_THE_DEMO if table == "tasks" else tasks.OF_THE_PAPER)
    variants = TABLES[table]
    left_out = [v.name for v in variants if base_url and v.server != Variant("").server]
    variants = [variant for variant in variants if variant.name not in left_out]
    with told() as console:
        if not variants:
            raise tasks.NoSuchTasks(
                f"Each row of the table {table} needs a server of its own: leave --base-url out."
            )
        grammars = dict(map(_grammar, grammar or ()))
        wanted = (
            tasks.from_files(data, count, grammars)
            if data
            else tasks.shipped(count, seed, demo_task)
        )
        options = {
            "table": str(table),
            "model": _model_name(model, base_url, api_key),
            "data": data.name if data else ", ".join(demo_task),
            "tasks": len(wanted),
            "samples": samples,
            "temperature": temperature,
            "seed": seed,
        }
        path = json_file or RESULTS / f"paper-{table}.json"
        results = Results.open(path, "paper", options, afresh)
        results.notes = _notes_on(wanted, left_out)
        for note in results.notes:
            say(note)

        @contextmanager
        def open_server(variant: Variant) -> Iterator[Client]:
            if base_url:
                yield Client(base_url, api_key)
                return
            server = servers.server(
                model or CHECKPOINT,
                threshold=variant.threshold,
                lave=variant.lave,
                device=device,
                on_progress=progress_line(),
            )
            with started(server) as client:
                yield client

        benchmark = PaperBenchmark(
            variants,
            wanted,
            samples,
            temperature=temperature,
            servers_at_once=2 if device == "cpu" else 1,
        )
        if benchmark.is_complete(results):
            say(COMPLETE)
        else:
            benchmark.run(results, open_server)
        show(console, results)


def _in_process(
    table: str, model: Path | None, count: int, seed: int, json_file: Path | None, afresh: bool
) -> None:
    """The tables that are not a server's."""
    from lave_plugin.bench.in_process import feasibility, steps
    from lave_plugin.bench.in_process.model import OtherModel, ShippedModel

    with told() as console:
        options = {
            "table": str(table),
            "model": _model_name(model, None, None),
            "tasks": count,
            "seed": seed,
        }
        path = json_file or RESULTS / f"paper-{table}.json"
        results = Results.open(path, str(table), options, afresh)
        try:
            shipped = ShippedModel(model or CHECKPOINT)
        except OtherModel as error:
            raise tasks.NoSuchTasks(str(error)) from None
        kind = {"steps": steps.StepsBenchmark, "feasibility": feasibility.FeasibilityBenchmark}
        _go_on(kind[table](shipped, count, seed), results)
        show(console, results)


def _go_on(benchmark, results: Results) -> None:
    if benchmark.is_complete(results):
        say(COMPLETE)
    else:
        benchmark.run(results)


def _grammar(argument: str) -> tuple[str, str]:
    kind, _, file = argument.partition("=")
    if kind not in ("cpp", "smiles") or not Path(file).is_file():
        raise tasks.NoSuchTasks(f"--grammar {argument}: give cpp=FILE or smiles=FILE.")
    return kind, Path(file).read_text()


def _notes_on(wanted: Iterable[tasks.Task], left_out: list[str]) -> list[str]:
    """What a reader must know of scores that are missing, and of rows that are."""
    kinds = {task.kind for task in wanted}
    notes = []
    if "smiles" in kinds and not scoring.has_rdkit():
        notes.append(
            "RDKit is not installed (pip install rdkit): SMILES of --data are not scored, those of "
            "the demo are compared to the letter."
        )
    if "cpp" in kinds:
        try:
            programs.compiler()
            notes.append(programs.leash())
        except scoring.Unscorable as error:
            notes.append(str(error))
    if left_out:
        notes.append(f"Left out, as they need servers of their own: {', '.join(left_out)}.")
    return notes


# --- lave bench verify, lave bench replay -------------------------------------------------

VocabularyFile = Annotated[
    Path | None,
    typer.Option(
        "--vocabulary",
        help="A .tiktoken file: a base64 token and its rank in each line. Default: a synthetic "
        "vocabulary of 151,643 tokens.",
    ),
]


@app.command("verify")
def verify_(
    vocabulary: VocabularyFile = None,
    grammar: Annotated[
        list[GrammarName] | None, typer.Option(help="Only these. May be repeated.")
    ] = None,
    batches: Annotated[int | None, typer.Option(min=1, help="Of our lookahead, a cell.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Of all lookaheads, a cell.")] = None,
    budget: Annotated[
        int, typer.Option(min=1, help="Nodes of the lattice that our lookahead may visit.")
    ] = LaveOptions.search_budget,
    quick: Quick = False,
    json_file: Json = None,
    afresh: Afresh = False,
) -> None:
    """What a lookahead costs and how often it finds the witness that is there, beside others'.

    Ours in C++ and in Python, the paper's sampled one on xgrammar's matchers, the authors' beams
    on llguidance's, on the same canvases. Default size: about three minutes on two cores.
    """
    from lave_plugin.bench import verify
    from lave_plugin.bench.lookahead import beams

    size = verify.QUICK if quick else verify.FULL
    size = verify.Size(size.batch_rows, batches or size.batches, rows or size.rows, budget)
    subjects = [each for each in SUBJECTS if not grammar or each.name in grammar]
    with told() as console:
        options = {
            "vocabulary": vocabulary.name if vocabulary else "synthetic",
            "grammars": [subject.name for subject in subjects],
            "batches": size.batches,
            "rows": size.rows,
            "budget": budget,
        }
        results = Results.open(json_file or RESULTS / "verify.json", "verify", options, afresh)
        results.notes = []
        if not beams.has_llguidance():
            results.notes.append(f"{beams.NOT_INSTALLED}: LAVE's own lookahead is not measured.")
        if native_module() is None:
            results.notes.append(
                "The native part is not built: our times are those of the Python reference."
            )
        for note in results.notes:
            say(note)
        _go_on(verify.VerifyBenchmark(size, _vocabulary(vocabulary), subjects), results)
        show(console, results)


def _vocabulary(file: Path | None) -> Vocabulary:
    """With an end token behind it.

    Raises:
        NoSuchTasks: The file is none.
    """
    if file is None:
        return Vocabulary([*(data := synthetic_vocabulary()), b""], [len(data)])
    try:
        data = read_vocabulary(file)
    except (OSError, ValueError) as error:
        raise tasks.NoSuchTasks(f"--vocabulary {file}: {error}.") from None
    return Vocabulary([*data, b""], [len(data)])


@app.command("replay")
def replay_(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with json_bench.jsonl, jsonschemabench.jsonl or humaneval_cpp.jsonl, "
            "_java, _go. Default: records and programs that are made up."
        ),
    ] = None,
    vocabulary: VocabularyFile = None,
    requests: Annotated[int | None, typer.Option(min=1, help="Of a task.")] = None,
    accuracy: Annotated[
        list[float] | None, typer.Option(min=0.01, max=0.99, help="Only these. May be repeated.")
    ] = None,
    threshold: Annotated[
        list[float] | None, typer.Option(min=0, max=1, help="Only these. May be repeated.")
    ] = None,
    slice_: Annotated[
        int | None, typer.Option("--slice", min=0, help="Tokens of the vocabulary; 0 for all.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Rows of a step.")] = 8,
    seed: int = 0,
    quick: Quick = False,
    json_file: Json = None,
    afresh: Afresh = False,
) -> None:
    """Is every constrained answer valid and complete, however wrong the model is?

    Replays reference answers with a simulated dLLM. The exit status is 1 where a guided answer is
    cut or not of its grammar. Default size: some minutes on two cores.
    """
    import torch

    from lave_plugin.bench.replay import benchmark as replay
    from lave_plugin.bench.replay import references
    from lave_plugin.bench.replay.decoding import slice_of
    from lave_plugin.bench.synthetic import molecules

    torch.set_num_threads(1)  # of slices this small more threads only wait for each other
    size = replay.QUICK if quick else replay.FULL
    size = replay.Size(
        requests or size.requests,
        tuple(accuracy) if accuracy else size.accuracies,
        tuple(threshold) if threshold else size.thresholds,
        size.slice if slice_ is None else slice_,
    )
    with told() as console:
        options = {
            "data": data.name if data else "made up",
            "vocabulary": vocabulary.name if vocabulary else "synthetic",
            "slice": size.slice,
            "requests": size.requests,
            "accuracies": list(size.accuracies),
            "thresholds": list(size.thresholds),
            "batch": batch,
            "seed": seed,
        }
        results = Results.open(json_file or RESULTS / "replay.json", "replay", options, afresh)
        wanted = references.tasks(data, size.requests, seed)
        results.notes = [
            f"{task.name}: {len(task.requests)} references, of {task.offered} looked at"
            for task in wanted
        ]
        if not molecules.can_judge():
            results.notes.append("SMILES are left out: lark, their judge, is not installed.")
        for note in results.notes:
            say(note)
        asked = [request.reference for task in wanted for request in task.requests]
        sliced = slice_of(_vocabulary(vocabulary), size.slice, asked, seed)
        _go_on(
            replay.ReplayBenchmark(size, replay.Replay(sliced, wanted, batch=batch, seed=seed)),
            results,
        )
        show(console, results)
        wrong = replay.guided_failures(results)
        for failure in wrong[:20]:
            say(f"guided, {failure}")
    if wrong:
        raise typer.Exit(1)


# --- lave bench report, lave bench scale --------------------------------------------------

Folder = Annotated[Path, typer.Option("--results", help="Folder of the JSON files.")]


@app.command("report")
def report_(
    results: Folder = RESULTS,
    out: Annotated[Path, typer.Option(help="The page; its plots lie beside it.")] = PAGE,
) -> None:
    """Write the report page and its plots from the JSON files."""
    for line in report.write(results, out):
        say(line)
    say(f"report: {out}")


@app.command("scale")
def scale_(
    results: Folder = RESULTS,
    mix: Annotated[MixName, typer.Option(help="The cost is taken from its cells.")] = (
        MixName.json_schema
    ),
    cost: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Milliseconds of a step, and of each row, instead of measured ones."),
    ] = None,
    engine_ms: Annotated[
        float, typer.Option(min=0, help="The engine's own work on the host in a step.")
    ] = 0.0,
) -> None:
    """Project the measured cost of a row and step to LLaDA2.0 on H200 (docs/scale.md)."""
    with told() as console:
        if cost is None:
            path = results / "serve.json"
            if not path.is_file():
                say(f"No {path}: lave bench serve makes it, or give --cost STEP ROW.")
                raise typer.Exit(2)
            try:
                measured = Cost.fit(verification_by_rows(Results.read(path), mix=mix))
            except ValueError as error:
                say(f"{path}: {error}.")
                raise typer.Exit(2) from None
        else:
            measured = Cost(*cost)
        for table in scale.tables(measured, engine_ms):
            console.print(table.to_rich())
