"""`lave bench replay` at a tiny size, its data, its judges, and the model that it simulates."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from lave_plugin.bench.replay import references
from lave_plugin.bench.replay.benchmark import BUDGETS
from lave_plugin.bench.replay.decoding import Answer
from lave_plugin.bench.results import Results
from lave_plugin.bench.synthetic import molecules, simulated
from lave_plugin.bench.synthetic.vocabularies import tokenize
from lave_plugin.bench.tasks import NoSuchTasks
from lave_plugin.cli import app
from lave_plugin.grammar.vocabulary import Vocabulary

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
CPP = {
    "task_id": "CPP/0",
    "declaration": "int one(int value){\n",
    "canonical_solution": "    return value + 1;\n}\n",
}
GO = {
    "task_id": "Go/0",
    "import": 'import (\n\t"math"\n)\n',
    "declaration": "func One(value int) int {\n",
    "canonical_solution": "\treturn value + 1\n}\n",
}


@pytest.fixture(autouse=True)
def threads():
    """The command takes one thread of torch; the tests behind it are to have theirs."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def write_lines(folder, **files):
    for name, lines in files.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")


@pytest.fixture
def bench_replay(tmp_path, vocabulary_file):
    """The command, with results in replay.json."""
    size = "--requests 2 --accuracy 0.6 --threshold 0.7 --slice 0 --batch 3"
    files = ["--vocabulary", str(vocabulary_file), "--json", str(tmp_path / "replay.json")]

    def run(*arguments):
        return CliRunner().invoke(app, ["bench", "replay", *size.split(), *files, *arguments])

    return run


def test_guided_answers_are_valid_and_complete(bench_replay, tmp_path):
    result = bench_replay()
    assert result.exit_code == 0, result.output
    cells = Results.read(tmp_path / "replay.json").all()
    assert {(cell["task"], cell["budget"]) for cell in cells} == {
        (task, budget) for task in ("JSON", "C++", "SMILES") for budget in BUDGETS
    }
    for cell in cells:
        assert cell["requests"] == 2
        if cell["mode"] == "guided":
            assert (cell["valid"], cell["complete"], cell["failures"]) == (2, 2, [])
    assert any(cell["failures"] for cell in cells if cell["mode"] == "none"), "nothing was hard"
    again = bench_replay()
    assert (again.exit_code, "Everything is measured" in again.output) == (0, True)


def test_a_guided_answer_that_is_wrong_is_told_and_fails_the_command(
    bench_replay, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        "lave_plugin.bench.replay.decoding.Decoding.result",
        lambda decoding, vocabulary: Answer(b"{", 1, False, 1),
    )
    write_lines(
        tmp_path,
        json_bench=[{"instance_id": "j", "schema": json.dumps(SCHEMA), "output": '{"a": 1}'}],
    )
    result = bench_replay("--data", str(tmp_path), "--requests", "1")
    assert result.exit_code == 1
    assert "guided, JSON at accuracy 0.6" in result.output


class TestData:
    def test_every_form_of_data_is_replayed(self, bench_replay, tmp_path):
        write_lines(
            tmp_path,
            json_bench=[{"instance_id": "j", "schema": json.dumps(SCHEMA), "output": '{"a": 1}'}],
            jsonschemabench=[
                {
                    "id": "s",
                    "schema": {"$schema": "http://json-schema.org/draft-04/schema#", **SCHEMA},
                    "tests": [{"valid": False, "data": {}}, {"valid": True, "data": {"a": 7}}],
                }
            ],
            humaneval_cpp=[CPP],
            humaneval_go=[GO],
        )
        result = bench_replay("--data", str(tmp_path), "--requests", "1")
        assert result.exit_code == 0, result.output
        cells = Results.read(tmp_path / "replay.json").all(mode="guided")
        names = ["JSON", "JSONSchemaBench", "C++", "Go", "SMILES"]
        assert list(dict.fromkeys(cell["task"] for cell in cells)) == names
        assert all(cell["valid"] == cell["requests"] == 1 for cell in cells)

    def test_references_that_cannot_be_given_are_looked_at_and_left_out(self, tmp_path):
        def line(name, schema, output):
            return {"instance_id": name, "schema": json.dumps(schema), "output": output}

        write_lines(
            tmp_path,
            json_bench=[
                line("good", SCHEMA, '{"a": 1}'),
                line("not of its schema", SCHEMA, '{"a": "1"}'),
                line("not JSON", SCHEMA, "a = 1"),
                line("refused", {"type": "array", "uniqueItems": True}, "[1]"),
                line("long", {"type": "string"}, json.dumps("x" * 5000)),
            ],
        )
        json_task, _ = references.tasks(tmp_path, 9, 0)
        assert [request.name for request in json_task.requests] == ["good"]
        assert json_task.offered == 5

    @pytest.mark.parametrize(
        ("lines", "message"),
        [
            (None, "holds none of json_bench.jsonl, jsonschemabench.jsonl, humaneval_cpp.jsonl"),
            ([{"task_id": "CPP/0"}], "humaneval_cpp.jsonl, line 1: no 'declaration'"),
        ],
    )
    def test_data_that_are_none_are_refused_by_name(self, bench_replay, tmp_path, lines, message):
        if lines is not None:
            write_lines(tmp_path, humaneval_cpp=lines)
        with pytest.raises(NoSuchTasks, match=message):
            references.tasks(tmp_path, 1, 0)
        result = bench_replay("--data", str(tmp_path))
        assert result.exit_code == 2
        assert message in result.output.replace("\n", " ")


def test_the_strategies_that_keep_to_the_grammar_do_so_in_replay():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import strategies
    finally:
        sys.path.remove(str(BENCHMARKS))
    rows = strategies.in_replay(("JSON", "SMILES"), 2, (0.5,), None, None, 0)
    assert {row.task for row in rows} == {"JSON", "SMILES"}
    for row in rows:
        assert row.requests == 2
        assert row.valid + sum(row.failures.values()) == 2
        if row.strategy.startswith(("sequential", "map", "posterior", "lave")):
            assert row.valid == 2, row
    assert any(row.failures for row in rows if row.strategy == "no constraint")


@pytest.mark.parametrize(
    ("smiles", "valid"),
    [("C1=CC=CC=C1", True), ("C(C", False), ("[13CH4+2:1]", True), ("[Xx]", False), ("", False)],
)
def test_the_judge_of_molecules(smiles, valid):
    assert (molecules.check(smiles) is None) == valid


class TestSimulatedModel:
    TEXT = b'{"left": [1, 2, 3], "right": [4, 5, 6], "size": 7}'

    @pytest.fixture
    def vocabulary(self):
        words = [b"left", b"right", b'": [', b", ", b'"size']
        data = [bytes([byte]) for byte in range(256)] + words
        return Vocabulary([*data, b"", b""], [len(data)])

    def model(self, vocabulary, accuracy):
        kind = simulated.TextKind(vocabulary, [self.TEXT], len(vocabulary))
        return simulated.SimulatedModel(kind, self.TEXT, accuracy, "seed")

    def fill(self, model, vocabulary, before, block):
        """The most probable token everywhere, as text."""
        marginals = model.predict(before, len(before), block)
        tokens = [
            marginals[place].tokens[0] if token < 0 else token for place, token in enumerate(block)
        ]
        return b"".join(vocabulary.token_bytes[token] for token in tokens)

    @pytest.mark.parametrize("wrong", [b"", b"oops ", b'{"left": [9'])
    def test_it_picks_the_reference_up_where_a_text_has_left_it(self, vocabulary, wrong):
        model = self.model(vocabulary, 1 - 1e-9)
        before = wrong + self.TEXT[:25]
        assert self.fill(model, vocabulary, before, [-1] * 60) == self.TEXT[25:]

    def test_it_spells_what_is_missing_in_the_masks_there_are(self, vocabulary):
        model = self.model(vocabulary, 1 - 1e-9)
        gap, behind = self.TEXT[20:41], self.TEXT[41:]
        fewest = len(tokenize(vocabulary, gap))
        for masks in range(fewest, fewest + 4):  # three of its tokens can be split
            block = [-1] * masks + tokenize(vocabulary, behind)
            assert self.fill(model, vocabulary, self.TEXT[:20], block) == gap + behind, masks

    def test_confidence_is_calibrated_and_accuracy_as_asked_for(self, vocabulary):
        kind = simulated.TextKind(vocabulary, [self.TEXT], len(vocabulary))
        confident = right = sure = surely = 0
        for seed in range(200):
            model = simulated.SimulatedModel(kind, self.TEXT, 0.7, str(seed))
            # Far from what stands before, so that no neighbour is known.
            marginals = model.predict(b"", 0, [-1] * 12)
            truth = model._reference.tokens(0, 12)
            for place in range(4, 12):
                correct = marginals[place].tokens[0] == truth[place][0]
                confident, right = confident + 1, right + correct
                if marginals[place].probabilities[0] > 0.9:
                    sure, surely = sure + 1, surely + correct
        assert right / confident == pytest.approx(0.7, abs=0.05)
        assert surely / sure == pytest.approx(0.95, abs=0.03)
