"""``lave bench paper`` on a scripted server: variants, scores, and what needs a server."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from lave_plugin.bench import tasks
from lave_plugin.bench.client import Client
from lave_plugin.bench.paper import PaperBenchmark, summary
from lave_plugin.bench.results import Interrupted, Results
from lave_plugin.bench.tables import paper_table
from lave_plugin.bench.tasks import NoSuchTasks
from lave_plugin.bench.variants import PAPER, TABLES, Variant
from lave_plugin.cli import app
from lave_plugin.demo.tasks import MAKERS, held_out
from lave_plugin.options import LaveOptions

VARIANTS = (
    Variant("none", "none"),
    Variant("sampled", lave={"lookahead": "sampled"}),
    Variant("lave"),
    Variant("late", lave={"attempts": 9}),
)
TASKS = tasks.shipped(2, 3, ["record"])
ANSWERS = {sample.prompt: sample.answer for sample in held_out(2, seed=3)}


def strategy_of(body):
    return body["custom_params"]["lave"]["strategy"]


def answer(body):
    """``none`` is right by every other seed, the others always."""
    right = ANSWERS[body["messages"][0]["content"]]
    if strategy_of(body) == "none" and body["seed"] % 2:
        return right + "}"
    return right


@pytest.fixture
def opened(scripted):
    """Opens scripted servers; what was opened, and how many were up at a time."""

    class Opened:
        def __init__(self):
            self.variants, self.up, self.most = [], 0, 0

        @contextmanager
        def __call__(self, variant):
            self.variants.append(variant.name)
            self.up += 1
            self.most = max(self.most, self.up)
            yield Client(scripted(answer).url)
            self.up -= 1

    return Opened()


def test_variants_of_one_server_share_it_and_at_most_two_are_up(results, opened):
    found = results("paper", table="main")
    PaperBenchmark(VARIANTS, TASKS, 1).run(found, opened)
    assert opened.variants == ["none", "sampled", "late"]
    assert opened.most == 2
    # "sampled" and "late" each have one without constraint beside them.
    assert len(found) == (len(VARIANTS) + 2) * len(TASKS)


def test_a_time_is_compared_with_that_of_none_on_the_same_server(results):
    found = results("paper", table="main")
    sampled = VARIANTS[1]
    for name, seconds in (
        *(("none", 1.0), ("lave", 2.0)),
        *((sampled.name, 30.0), ("none, on the server of sampled", 10.0)),
    ):
        for number in range(3):
            entry = dict(variant=name, kind="json", task="t", sample=number, seconds=seconds)
            scores = dict(syntactic=True, functional=True, error=None, tokens=1, facts=None)
            found.add(f"{name}{number}", entry | scores)
    rows = {row["variant"]: row["ratio"] for row in summary(found, VARIANTS)}
    assert rows == {"none": (1.0,) * 3, "sampled": (3.0,) * 3, "lave": (2.0,) * 3}


def test_one_server_serves_all_strategies_of_the_main_table_but_the_sampled_lookahead():
    assert len({v.server for v in PAPER if v.name != "lave sampled"}) == 1
    assert len({v.server for v in PAPER}) == 2


@pytest.mark.parametrize("name", TABLES)
def test_a_table_names_each_variant_once_and_options_that_there_are(name):
    variants = TABLES[name]
    assert len({variant.name for variant in variants}) == len(variants)
    for variant in variants:
        LaveOptions.from_mapping({**variant.lave, "strategy": variant.strategy})


def test_scores_by_k_are_of_all_samples(results, opened):
    found = results("paper", table="main")
    PaperBenchmark(VARIANTS[:3], TASKS, 4).run(found, opened)
    rows = {row["variant"]: row for row in summary(found, VARIANTS)}
    # Two of four samples are right: 1/2, and of three chosen one is right in any case.
    assert rows["none"]["syntactic"] == {1: 50.0, 3: 100.0}
    assert rows["none"]["functional"] == {1: 50.0, 3: 100.0}
    assert rows["lave"]["functional"] == {1: 100.0, 3: 100.0}
    assert len(rows["lave"]["ratio"]) == 3
    assert rows["none"]["ratio"] == (1.0, 1.0, 1.0)


def test_each_answer_to_a_task_is_judged_once(results, opened):
    judged = []

    def watched(task):
        def judge(text):
            judged.append((task.name, text))
            return task.is_functional(text)

        return replace(task, is_functional=judge)

    found = results("paper", table="main")
    PaperBenchmark(VARIANTS[:3], [watched(task) for task in TASKS], 4).run(found, opened)
    assert len(found) > len(judged) == len(set(judged)) == 2 * len(TASKS)  # right, and with a "}"


def test_the_shipped_models_tasks_are_scored_by_value():
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    task = tasks._json_task("x", "?", schema, '{"x": 1, "y": [2]}', 9)
    assert task.score('{"y": [2], "x": 1}') == (True, True)
    assert task.score('{"y": [2], "x": 3}') == (True, False)
    assert task.score('{"y": [2], "x": "1"}') == (False, False)
    for task in TASKS:
        assert task.score(ANSWERS[task.prompt]) == (True, True)
        assert task.score("{}") == (False, False)


@pytest.mark.parametrize("name", MAKERS)
def test_every_task_of_the_demo_has_a_constraint_and_judges(name):
    (task,) = tasks.shipped(1, 4, [name])
    (sample,) = held_out(1, 4, name)
    assert task.prompt == sample.prompt
    assert task.score(sample.answer) == (True, True)
    assert task.score(f"```\n{sample.answer}```") == (True, True)
    assert task.is_functional("nothing of the kind (") is False
    assert bool(task.constraint) == (name != "copy" or sample.schema is not None)


def test_a_task_that_the_demo_lacks_is_refused_by_name():
    with pytest.raises(tasks.NoSuchTasks, match="no task opera; it has record"):
        tasks.shipped(1, 4, ["opera"])


def test_a_refused_request_is_neither_syntactic_nor_functional(results, scripted):
    @contextmanager
    def refusing(variant):
        yield Client(scripted(lambda body: 400).url)

    found = results("paper", table="main")
    PaperBenchmark(PAPER[:1], TASKS, 1).run(found, refusing)
    (row,) = summary(found, PAPER)
    assert (row["errors"], row["syntactic"], row["functional"]) == (2, {1: 0.0}, {1: 0.0})


def test_an_interrupted_table_says_what_is_missing_of_all_of_it(results, scripted):
    asked = 0

    def interrupting(key):
        nonlocal asked
        asked += 1
        if asked > 3:
            raise KeyboardInterrupt
        return {}

    @contextmanager
    def open_server(variant):
        yield Client(scripted(answer).url)

    found = results("paper", table="main")
    benchmark = PaperBenchmark(VARIANTS, TASKS, 1)
    benchmark._measure = lambda client, model, sample: interrupting(sample.key)
    with pytest.raises(Interrupted):
        benchmark.run(found, open_server)
    assert len(Results.read(found.path).missing) == 9


# --- the command --------------------------------------------------------------------------


def command(*args):
    return CliRunner().invoke(app, ["bench", "paper", *args])


def test_a_running_server_gives_the_table_without_what_needs_another(scripted, tmp_path):
    path = tmp_path / "paper-main.json"
    server = scripted(lambda body: "{}")
    asked = ("--tasks", "2", "--samples", "1", "--demo-task", "record")
    result = command("--base-url", server.url, *asked, "--json", str(path))
    assert result.exit_code == 0, result.output
    assert "Left out, as they need servers of their own: lave sampled." in result.output
    found = Results.read(path)
    assert {entry["variant"] for entry in found.all()} == {
        variant.name for variant in PAPER if variant.name != "lave sampled"
    }
    assert {strategy_of(body) for body in server.bodies} == {v.strategy for v in PAPER}
    assert [row[1] for row in paper_table(found).rows] == [
        variant.name for variant in PAPER if variant.name != "lave sampled"
    ]


def test_a_sweep_of_a_running_server_is_refused(scripted, tmp_path):
    url = scripted(lambda body: "{}").url
    result = command("--table", "threshold", "--base-url", url, "--json", str(tmp_path / "x"))
    assert result.exit_code == 2
    assert "leave --base-url out" in result.output


def test_on_a_gpu_one_server_is_up_at_a_time(results, opened):
    PaperBenchmark(VARIANTS, TASKS, 1, servers_at_once=1).run(results("paper"), opened)
    assert opened.most == 1


DATA = {
    "json_bench.jsonl": '{"instance_id": "j1", "schema": "{\\"type\\": \\"object\\"}", '
    '"input": "x is 1", "output": "{\\"x\\": 1}"}',
    "smiles_bench.jsonl": '{"instance_id": "s1", "input": "ethanol", "output": "CCO"}',
    "humaneval_cpp.jsonl": '{"task_id": "CPP/0", "prompt": "int f(){", "declaration": "int f(){", '
    '"test": "int main(){}"}',
}


def test_tasks_are_read_from_files(tmp_path):
    for name, line in DATA.items():
        (tmp_path / name).write_text(f"{line}\n{line.replace('1', '2')}\n")
    read = tasks.from_files(tmp_path, 1)
    assert [(task.kind, task.name) for task in read] == [
        ("json", "j1"),
        ("cpp", "CPP/0"),
        ("smiles", "s1"),
    ]
    assert read[0].score('{"x": 1.0}') == (True, True)
    assert read[0].score('{"x": 2}') == (True, False)
    assert read[0].score("[]") == (False, False)
    assert read[1].is_syntactic("int f() { return 1; }")
    assert not read[1].is_syntactic("int f() { return 1 }")
    assert read[2].is_syntactic("CCO") and not read[2].is_syntactic("CC(")
    again = tasks.from_files(tmp_path, 1, {"smiles": 'root ::= "x"'})
    assert again[2].is_syntactic("x")


UNREADABLE = [
    ({}, "holds none of json_bench.jsonl"),
    ({"json_bench.jsonl": '{"instance_id": "j"}'}, "json_bench.jsonl, line 1: no 'schema'"),
]


@pytest.mark.parametrize(("files", "sentence"), UNREADABLE)
def test_data_that_cannot_be_used_are_named(tmp_path, files, sentence):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(NoSuchTasks, match=sentence):
        tasks.from_files(tmp_path, 1)
