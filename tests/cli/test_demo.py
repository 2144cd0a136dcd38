"""The demo's table of requests, its judges, and what the command tells and returns."""

import json
import re

import pytest
from typer.testing import CliRunner

from lave_plugin.cli import app, demo
from lave_plugin.cli.demo import Answer
from lave_plugin.demo import checks
from lave_plugin.demo.requests import EXPRESSION_LARK, REQUESTS, record
from lave_plugin.demo.tasks import held_out

POINT = record(x={"type": "integer"}, y={"type": "integer"})

JUDGED = [
    # check, text, complaint (None: valid)
    (checks.json_object, '{"a": 1}', None),
    (checks.json_object, "[1]", "JSON, but list, not an object"),
    (checks.json_object, '{"a": 1', "not JSON"),
    (checks.json_object, "", "not JSON"),
    (checks.json_schema(POINT), '{"x": 1, "y": 2}', None),
    (checks.json_schema(POINT), '{"x": 1}', "'y' is a required property"),
    (checks.json_schema(POINT), '{"x": 1, "y": 2}}', "not JSON"),
    (checks.json_schema(POINT), '{"x": 1, "y": 2, "z": 3}', "against the schema"),
    (checks.regex("[0-9]{5}"), "51756", None),
    (checks.regex("[0-9]{5}"), "517566", "no match"),
    (checks.regex("[0-9]{5}"), "51756\n", "no match"),
    (checks.lark_grammar(EXPRESSION_LARK), "11 / n * (m - 4)", None),
    (checks.lark_grammar(EXPRESSION_LARK), "59", None),
    (checks.lark_grammar(EXPRESSION_LARK), "059", "not in the grammar"),
    (checks.lark_grammar(EXPRESSION_LARK), "(m - 4", "not in the grammar"),
    (checks.lark_grammar(EXPRESSION_LARK), "m-4", "not in the grammar"),
    (checks.between("<p>", checks.json_schema(POINT), "</p>"), '<p>{"x": 1, "y": 2}</p>', None),
    (checks.between("<p>", checks.json_schema(POINT), "</p>"), '{"x": 1, "y": 2}', "not between"),
    (checks.between("<p>", checks.json_schema(POINT), "</p>"), "<p>{}</p>", "required"),
]


@pytest.mark.parametrize(("check", "text", "complaint"), JUDGED)
def test_a_check_says_what_is_wrong_or_nothing(check, text, complaint):
    if complaint is None:
        assert check(text) is None
    else:
        assert complaint in check(text)


def test_the_table_shows_every_way_to_say_a_constraint():
    ways = {(request.api, way) for request in REQUESTS for way in ways_of(request.constraint)}
    assert ways == {
        ("chat", "json_schema"),
        ("chat", "json_object"),
        ("chat", "regex"),
        ("chat", "ebnf"),
        ("generate", "json_schema"),
        ("generate", "regex"),
        ("generate", "ebnf"),
        ("generate", "structural_tag"),
        ("chat", "custom_params"),
        ("generate", "custom_params"),
    }


def ways_of(constraint):
    if "response_format" in constraint:
        return [constraint["response_format"]["type"]]
    return list(constraint.get("extra_body", constraint))


# What a perfect model answers, in the order of the table.
RIGHT = [
    '{"title": "Wandering Tide", "date": "2001-03-24", "seats": 8082}',
    '{"dish": "Shadra Casserole", "serves": 12, "ingredients": ["yeast", "saffron", "mint"]}',
    '{"sky": "rain", "wind": 69, "humidity": 0.62}',
    '{"name": "open_table", "arguments": {"again": false, "town": "Salem", "friend": "Solal"}}',
    "2033-12-17",
    "11 / n * (m - 4)",
    '{"parcel": "P13546", "receiver": "Stefan Dradenwil", "size": {"width": 70, "height": 131}, '
    '"weight": 24.1}',
    "133.03",
    "(97 + b) / a",
    '<tool_call>{"name": "share_guest", "arguments": {"amount": 32, "quick": true}}</tool_call>',
    "SELECT maker FROM drivers WHERE owner = 'Fengo' AND owner <> 'plate'",
    "CCC(OC)CC(N)C",
    "string count(string s) {\n  string r;\n  for (char c : s) {\n    r += c == 'k' ? 'g' : c;\n"
    "  }\n  return r;\n}",
]


@pytest.mark.parametrize(("request_", "right"), list(zip(REQUESTS, RIGHT, strict=True)))
def test_the_right_answer_passes_and_with_a_stray_brace_it_does_not(request_, right):
    assert request_.check(right) is None
    assert request_.check(right + "}") is not None


@pytest.mark.parametrize("request_", REQUESTS)
def test_the_model_has_not_been_trained_on_the_prompt(request_):
    records = pytest.importorskip("lave_plugin.demo.records")
    assert records.split_of(request_.prompt) == "held-out"


# --- the command, without an engine -------------------------------------------------------


class NoEngine:
    """Stands for ``Server``: starts at once."""

    url = "http://127.0.0.1:1"
    log_path = "server.log"

    def __init__(self, model_path, **options):
        type(self).options = {"model_path": model_path, **options}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        type(self).stopped = True


class Parrot:
    """Stands for ``Client``: right when bound, nonsense with square brackets when free."""

    wrong_when_bound = False

    def __init__(self, url):
        self.right = {q.prompt: right for q, right in zip(REQUESTS, RIGHT, strict=True)}

    def send(self, request, *, constrained):
        obeys = constrained and not self.wrong_when_bound
        text = self.right[request.prompt] if obeys else "[/dim] ["
        return Answer(text, 0.5, request.check(text))


@pytest.fixture
def run(monkeypatch, tmp_path):
    (tmp_path / "config.json").write_text('{"block_size": 8}')
    monkeypatch.setattr(demo, "Server", NoEngine)
    monkeypatch.setattr(demo, "Client", Parrot)
    return lambda *args: CliRunner().invoke(app, ["demo", "--model", str(tmp_path), *args])


def test_it_shows_both_answers_and_ends_with_the_counts(run):
    result = run()
    assert result.exit_code == 0, result.output
    assert result.output.count("✔ valid") == result.output.count("✘ invalid") == len(REQUESTS)
    last = result.output.strip().splitlines()[-1]
    assert last.startswith("without constraint 0 of 13 valid in 6.5 s; with LAVE 13 of 13 valid in")
    assert NoEngine.options["constrained_decoding"] == "lave"
    assert NoEngine.options["algorithm_config"] == {"block_size": 8, "threshold": 0.7}
    assert NoEngine.stopped


def test_an_invalid_constrained_answer_is_a_failure(run, monkeypatch):
    monkeypatch.setattr(Parrot, "wrong_when_bound", True)
    assert run().exit_code == 1


@pytest.mark.parametrize("task", ["record", "unseen", "python call", "sql", "field", "smiles"])
def test_a_task_of_its_own_in_place_of_the_usual_requests(run, monkeypatch, task):
    right = {sample.prompt: sample.answer for sample in held_out(4, 0, task)}

    def send(self, request, *, constrained):
        assert request.constraint
        text = right[request.prompt] if constrained else "no (such thing"
        return Answer(text, 0.5, request.check(text))

    monkeypatch.setattr(Parrot, "send", send)
    result = run("--task", task)
    assert result.exit_code == 0, result.output
    assert "without constraint 0 of 4 valid" in result.output
    assert "with LAVE 4 of 4 valid" in result.output


def test_a_task_that_there_is_not_is_refused_by_name(run):
    result = run("--task", "cpp", "--task", "opera")
    assert result.exit_code == 2
    assert "There is no task opera; there are record, " in result.output


def test_a_missing_checkpoint_is_named(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--model", str(tmp_path / "nothing")])
    assert result.exit_code == 2
    assert "No checkpoint in" in result.output and "--model" in result.output


def test_the_examples_of_serve_are_valid_where_a_machine_reads_them():
    curl, python = demo.EXAMPLES.split("\n\n", 1)
    body = json.loads(re.search(r"-d '(.*)'$", curl, re.DOTALL)[1])
    assert re.compile(body["regex"])
    compile(python, "example", "exec")


# --- the command, with the real engine ----------------------------------------------------


@pytest.mark.engine
def test_the_demo_with_the_real_engine_is_valid_throughout():
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0, result.output
    assert f"with LAVE {len(REQUESTS)} of {len(REQUESTS)} valid" in result.output
