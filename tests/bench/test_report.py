"""The report page: made of what is there, says what isn't, and its plots."""

from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from lave_plugin.bench import plots, report, verify
from lave_plugin.bench.client import Client
from lave_plugin.bench.in_process import feasibility, steps
from lave_plugin.bench.in_process.model import ShippedModel
from lave_plugin.bench.paper import PaperBenchmark
from lave_plugin.bench.replay import benchmark as replay
from lave_plugin.bench.replay.references import tasks
from lave_plugin.bench.results import Results
from lave_plugin.bench.serve import ServeBenchmark, Size
from lave_plugin.bench.synthetic.subjects import SUBJECTS
from lave_plugin.bench.synthetic.vocabularies import synthetic_vocabulary
from lave_plugin.bench.table import Table
from lave_plugin.bench.tasks import shipped
from lave_plugin.bench.variants import TABLES
from lave_plugin.cli import app
from lave_plugin.demo.shipped import CHECKPOINT
from lave_plugin.grammar.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def folder(scripted, tmp_path_factory):
    """Results of everything, those of servers from a scripted one."""
    url = scripted(lambda body: "{}", steps=1).url

    @contextmanager
    def open_server(variant):
        yield Client(url)

    where = tmp_path_factory.mktemp("results")
    options = {"mixes": ["regex"]}
    results = Results.open(where / "serve.json", "serve", options)
    benchmark = ServeBenchmark(Size((1, 2), 2, 2), mixes=["regex"])
    benchmark.run(results, dict.fromkeys(benchmark.ways, Client(url)), "scripted")
    for table, variants in TABLES.items():
        results = Results.open(where / f"paper-{table}.json", "paper", {"table": table})
        PaperBenchmark(variants, shipped(1, 0), 1).run(results, open_server)
    for name, benchmark in in_this_process().items():
        benchmark.run(Results.open(where / f"{name}.json", name.removeprefix("paper-"), {}))
    return where


def in_this_process():
    """The other benchmarks at their smallest, by the name of their results."""
    data = synthetic_vocabulary(1200)
    over = Vocabulary([*data, b""], [len(data)])
    with_mask = Vocabulary([*data, b"", b""], [len(data)])
    model = ShippedModel(CHECKPOINT)
    (json_task, *_) = tasks(None, 1, 0)
    size = replay.Size(1, (0.9,), (0.7,), 0)
    return {
        "verify": verify.VerifyBenchmark(verify.Size((1,), 1, 1), over, SUBJECTS[2:4]),
        "replay": replay.ReplayBenchmark(size, replay.Replay(with_mask, [json_task])),
        "paper-steps": steps.StepsBenchmark(model, 1, 0),
        "paper-feasibility": feasibility.FeasibilityBenchmark(model, 1, 0),
    }


def test_the_page_has_every_table_beside_what_was_published(folder, tmp_path):
    page = tmp_path / "REPORT.md"
    result = CliRunner().invoke(
        app, ["bench", "report", "--results", str(folder), "--out", str(page)]
    )
    assert result.exit_code == 0, result.output
    text = page.read_text()
    for command in report.COMMANDS.values():
        assert f"## {command}\n" in text
    assert text.count("Published: ") == 5
    assert "| Dream-7B | LAVE | 99.0 | 96.0 | 99.4 |" in text
    assert "What differs" in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.count("|") >= 3
    if plots.can_plot():
        assert "Not here" not in text
        drawn = list((tmp_path / "plots").iterdir())
        assert {path.suffix for path in drawn} == {".svg", ".png"}
        assert text.count("![") == len(drawn) // 2 == 2 + len(TABLES) + 5
        for path in drawn:
            assert (f"plots/{path.name}" in text) == (path.suffix == ".svg")


def test_the_same_results_give_the_same_drawing(folder, tmp_path):
    pytest.importorskip("matplotlib")
    results = Results.read(folder / "paper-samples.json")
    (first,), (second,) = (plots.plot(results, tmp_path / name) for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_what_is_missing_is_said_with_the_command_that_makes_it(tmp_path):
    told = report.write(tmp_path, tmp_path / "REPORT.md")
    assert sum("makes it" in line for line in told) == len(report.COMMANDS)
    results = Results.open(tmp_path / "serve.json", "serve", {"mixes": []})
    results.want(["a", "b", "c"])
    told = report.write(tmp_path, tmp_path / "REPORT.md")
    assert "serve: 3 measurements are missing; lave bench serve goes on." in told
    text = (tmp_path / "REPORT.md").read_text()
    assert all(line in text for line in told)


def test_without_matplotlib_the_page_is_made_all_the_same(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "can_plot", lambda: False)
    told = report.write(folder, tmp_path / "REPORT.md")
    assert told == ["No plots: matplotlib is not installed (pip install 'lave-plugin[bench]')."]
    assert "## lave bench serve" in (tmp_path / "REPORT.md").read_text()


def test_a_table_in_markdown():
    table = Table("t", ("a", "b"), [["x", "1"]])
    assert table.to_markdown() == "| a | b |\n| --- | ---: |\n| x | 1 |"
