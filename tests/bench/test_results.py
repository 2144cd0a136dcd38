"""The file of results: what is in it after an interruption, and what is gone on with."""

import json

import pytest

from lave_plugin.bench.results import Interrupted, OtherResults, Results

KEYS = ["a", "b", "c", "d"]


def open_file(tmp_path, afresh=False, **options):
    return Results.open(tmp_path / "results.json", "serve", options, afresh)


def interrupted_at(last):
    def measure(key):
        if key == last:
            raise KeyboardInterrupt
        return {"value": key.upper()}

    return measure


def test_what_was_measured_before_an_interruption_is_kept_and_not_measured_again(tmp_path):
    first = open_file(tmp_path, size=3)
    first.want(KEYS)
    with pytest.raises(Interrupted, match="2 of 4 measurements are missing"):
        first.measure(KEYS, interrupted_at("c"), "letters")
    content = json.loads((tmp_path / "results.json").read_text())
    assert content["missing"] == ["c", "d"]
    assert [entry["key"] for entry in content["measurements"]] == ["a", "b"]

    second, asked = open_file(tmp_path, size=3), []
    second.measure(KEYS, lambda key: asked.append(key) or {"value": "again"}, "letters")
    assert asked == ["c", "d"]
    assert [second[key]["value"] for key in KEYS] == ["A", "B", "again", "again"]
    again = Results.read(second.path)
    assert (again.missing, len(again), len(again.sessions)) == ([], 4, 2)


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
def test_both_ways_to_be_stopped_say_what_is_missing(tmp_path, ending):
    def stopped(key):
        raise ending

    results = open_file(tmp_path)
    results.want(KEYS)
    with pytest.raises(Interrupted, match="4 of 4"):
        results.measure(KEYS, stopped, "letters")


def test_an_error_of_a_measurement_keeps_what_was_measured(tmp_path):
    def failing(key):
        if key == "c":
            raise RuntimeError("no")
        return {"value": key}

    with pytest.raises(RuntimeError, match="no"):
        open_file(tmp_path).measure(KEYS, failing, "letters")
    assert len(Results.read(tmp_path / "results.json")) == 2


def test_results_of_other_options_are_not_mixed_with(tmp_path):
    open_file(tmp_path, size=3, seed=0).save()
    with pytest.raises(OtherResults, match=r"other options \(size\).*--afresh"):
        open_file(tmp_path, size=4, seed=0)
    assert len(open_file(tmp_path, afresh=True, size=4, seed=0)) == 0


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"benchmark": "serve"}'])
def test_a_file_that_holds_no_results_is_named(tmp_path, content):
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(OtherResults, match=r"results\.json holds no results of lave bench"):
        open_file(tmp_path)
    assert (tmp_path / "results.json").read_text() == content


def test_the_setting_names_versions_machine_command_and_date(tmp_path):
    (session,) = open_file(tmp_path).sessions
    assert set(session) == {"date", "command", "versions", "machine"}
    assert session["versions"]["lave-plugin"]
    assert session["machine"]["cores"] >= 1
    assert "/" not in session["command"].split()[0]
