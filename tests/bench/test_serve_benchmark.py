"""``lave bench serve`` on a scripted server: its cells, its metrics, its ratios."""

import json
import re

import pytest
from typer.testing import CliRunner

from lave_plugin.bench import mixes, servers
from lave_plugin.bench.client import Client, Reply
from lave_plugin.bench.mixes import MIXES
from lave_plugin.bench.results import Results
from lave_plugin.bench.serve import ServeBenchmark, Size, Spread, metrics, summary
from lave_plugin.cli import app
from lave_plugin.demo.shipped import CHECKPOINT

SMALL = Size(concurrencies=(1, 3), rounds=2, requests=2)


def constrained_is_right(body):
    """Valid where the request has a constraint of JSON, nonsense elsewhere."""
    return '{"a": 1}' if "response_format" in body else "nonsense"


def run(results, scripted, answer=constrained_is_right, **options):
    server = scripted(answer, steps=2)
    client = Client(server.url)
    benchmark = ServeBenchmark(SMALL, **options)
    benchmark.run(results, dict.fromkeys(benchmark.ways, client), "scripted")
    return server


# --- the mixes ----------------------------------------------------------------------------


@pytest.mark.parametrize("mix", MIXES)
def test_a_mix_is_the_same_every_time_and_a_larger_one_begins_with_a_smaller(mix):
    few, many = mixes.asks(mix, 3, seed=4), mixes.asks(mix, 6, seed=4)
    assert [ask.prompt for ask in few] == [ask.prompt for ask in many][:3]
    assert [ask.prompt for ask in many] != [ask.prompt for ask in mixes.asks(mix, 6, seed=5)]
    assert all(bool(ask.constraint) is (mix != "none") for ask in many)


JUDGED = [
    ("json_object", '{"x": []}', True),
    ("json_object", "[]", False),
    ("json_schema", "{}", False),
    ("regex", "", False),
    ("cpp", "int f(int a) {\n  return a + 1;\n}\n", True),
    (
        "cpp",
        "bool g(const vector<int>& b, int n) {\n  for (int i = 0; i < n; i++) {\n"
        "    if (b[i] == 3 && !h(n)) {\n      return false;\n    }\n  }\n  return true;\n}\n",
        True,
    ),
    ("cpp", "int f(int a) {\n  return a +;\n}\n", False),
    ("cpp", "int f(int a) {\n", False),
    ("none", "anything", True),
]


@pytest.mark.parametrize(("mix", "text", "valid"), JUDGED)
def test_each_mix_has_a_judge(mix, text, valid):
    (ask,) = mixes.asks(mix, 1, seed=0)
    assert (ask.check(text) is None) is valid


# --- cells --------------------------------------------------------------------------------


def test_the_ways_of_a_mix_follow_each_other_and_take_turns_to_be_first():
    cells = ServeBenchmark(SMALL, mixes=["regex"]).cells()
    ways = [[c.way for c in cells if (c.round, c.concurrency) == (r, 3)] for r in (0, 1)]
    assert ways == [["off", "free", "constrained"], ["free", "constrained", "off"]]


def test_nothing_is_constrained_in_the_mix_without_constraints():
    cells = ServeBenchmark(SMALL, mixes=["none"]).cells()
    assert {cell.way for cell in cells} == {"off", "free"}


def test_every_cell_is_measured_with_its_own_requests(scripted, results):
    found = results("serve")
    server = run(found, scripted, mixes=["none", "json_object"])
    cells = ServeBenchmark(SMALL, mixes=["none", "json_object"]).cells()
    assert {cell.key for cell in cells} == {entry for entry in found._measured}
    constrained = [body for body in server.bodies if "response_format" in body]
    # Two rounds of 2 and 6 requests, and a warm-up of 6.
    assert len(constrained) == 2 * (2 + 6) + 6
    rows = {(r["mix"], r["max_concurrency"], r["way"]): r for r in summary(found)}
    assert rows["json_object", 3, "constrained"]["valid"] == 1.0
    assert rows["json_object", 3, "free"]["valid"] == 0.0
    row = rows["json_object", 3, "constrained"]
    assert row["rounds"] == 2
    assert row["steps_per_request"] == Spread(2.0, 2.0, 2.0)
    assert row["tokens_per_step"] == Spread(4.0, 4.0, 4.0)  # eight letters in two steps
    assert row["verification_share"].median == pytest.approx(0.2)


def test_a_server_that_says_nothing_of_its_steps_has_none(scripted, results):
    found = results("serve")
    client = Client(scripted(constrained_is_right, None).url)
    ServeBenchmark(SMALL, mixes=["regex"], ways=["free"]).run(found, {"free": client}, "scripted")
    assert {row["steps_per_request"] for row in summary(found)} == {None}


def test_refused_requests_are_counted_and_nothing_else(scripted, results):
    found = results("serve")
    run(found, scripted, lambda body: 400, mixes=["regex"], ways=["free"])
    row = summary(found)[0]
    assert (row["failed"], row["valid"]) == (4, 0.0)
    assert row["median_e2e_latency_ms"] is None
    assert found.all()[0]["complaint"] == "400: refused on purpose"


def test_a_ratio_is_of_one_round(results):
    found = results("serve")
    # The machine is ten times as slow in the second round, for all alike.
    for turn, free, constrained in ((0, 100.0, 90.0), (1, 10.0, 8.0), (2, 50.0, 50.0)):
        for way, throughput in (("free", free), ("constrained", constrained)):
            measured = metrics([Reply("x", 0.1, 0.2, 1, 1, "stop")], 1.0)
            found.add(
                f"{turn}{way}",
                {
                    **dict(mix="regex", way=way, round=turn, max_concurrency=1, valid=1),
                    **dict(steps_per_request=None, tokens_per_step=None, verification_share=None),
                    **{**measured, "output_throughput": throughput},
                },
            )
    rows = {row["way"]: row for row in summary(found)}
    ratios = rows["constrained"]["ratios"]
    assert ratios["constrained/free"] == Spread(0.9, 0.8, 1.0)
    assert ratios["constrained/off"] is None


def test_metrics_have_the_names_and_the_meaning_of_bench_serving():
    replies = [
        Reply("a", 0.1, 0.5, 10, 20, "stop"),
        Reply("b", 0.3, 1.5, 10, 40, "stop"),
        Reply("", 9.0, 9.0, error="400: no"),
    ]
    found = metrics(replies, 2.0)
    assert (found["completed"], found["failed"]) == (2, 1)
    assert (found["total_input_tokens"], found["total_output_tokens"]) == (20, 60)
    assert (found["request_throughput"], found["output_throughput"]) == (1.0, 30.0)
    assert found["concurrency"] == 1.0
    assert found["median_ttft_ms"] == pytest.approx(200.0)
    assert found["mean_e2e_latency_ms"] == pytest.approx(1000.0)
    assert found["p95_e2e_latency_ms"] == pytest.approx(1450.0)


# --- the command --------------------------------------------------------------------------


def command(*args):
    return CliRunner().invoke(app, ["bench", "serve", *args])


def arguments(server, path, rounds=1):
    return [
        *("--base-url", server.url, "--mix", "json_object", "--concurrency", "2"),
        *("--requests", "2", "--rounds", str(rounds), "--json", str(path)),
    ]


def test_a_running_server_is_measured_and_the_results_are_whole(scripted, tmp_path):
    server, path = scripted(constrained_is_right, steps=2), tmp_path / "serve.json"
    result = command(*arguments(server, path))
    assert result.exit_code == 0, result.output
    assert re.search(r"json_object\W+2\W+constrained", result.output)
    assert "100.0 %" in result.output
    found = Results.read(path)
    assert (len(found), len(found.missing)) == (2, 0)
    asked = len(server.bodies)
    assert "Everything is measured" in command(*arguments(server, path)).output
    assert len(server.bodies) == asked


def test_the_command_goes_on_where_the_server_was_lost(scripted, tmp_path):
    left = 4 + 4 + 4  # two ways warmed up, and one measured

    def dying(body):
        nonlocal left
        left -= 1
        if left < 0:
            raise ConnectionAbortedError
        return "{}"

    path = tmp_path / "serve.json"
    result = command(*arguments(scripted(dying), path))
    assert result.exit_code == 1
    assert "No server answers; what was measured is kept." in result.output
    found = Results.read(path)
    assert (len(found), len(found.missing)) == (1, 1)

    assert command(*arguments(scripted(lambda body: "{}"), path)).exit_code == 0
    found = Results.read(path)
    assert (len(found), len(found.missing), len(found.sessions)) == (2, 0, 2)


def test_two_servers_are_measured_as_with_and_without_the_plugin(scripted, tmp_path):
    on, off = scripted(constrained_is_right), scripted(lambda body: "off")
    path = tmp_path / "serve.json"
    assert command(*arguments(on, path), "--off-url", off.url).exit_code == 0
    cells = Results.read(path).all()
    assert {cell["way"]: cell["total_output_tokens"] for cell in cells} == {
        **{"off": 4 * len("off"), "free": 4 * len("nonsense")},
        "constrained": 4 * len('{"a": 1}'),
    }
    assert not any("response_format" in body for body in off.bodies)


def test_no_server_at_the_address_is_a_sentence(tmp_path):
    result = command("--base-url", "http://127.0.0.1:9", "--json", str(tmp_path / "x.json"))
    assert result.exit_code == 1
    assert "No server answers" in result.output


def test_other_options_are_not_mixed_into_a_file(scripted, tmp_path):
    server, path = scripted(constrained_is_right), tmp_path / "serve.json"
    assert command(*arguments(server, path)).exit_code == 0
    result = command(*arguments(server, path, rounds=2))
    assert result.exit_code == 2
    assert "other options (rounds)" in result.output


def test_the_engine_runs_without_the_plugin_where_it_knows_the_mask(tmp_path):
    assert not servers.runs_without_the_plugin(CHECKPOINT)
    config = {"architectures": ["LLaDA2MoeModelLM"], "mask_token_id": 156895}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert servers.runs_without_the_plugin(tmp_path)
    bare = servers.server(tmp_path, plugin=False)
    assert (bare.plugins, bare.constrained_decoding) == (False, None)
    shipped = servers.server(CHECKPOINT, plugin=False)
    assert (shipped.plugins, shipped.constrained_decoding) == (True, "none")
    swept = servers.server(CHECKPOINT, threshold=0.9, lave={"attempts": 2})
    assert swept.algorithm_config == {
        "block_size": 8,
        "threshold": 0.9,
        "lave": {"attempts": 2},
    }
