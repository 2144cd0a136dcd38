"""The projection: the roofline by hand, the cost of a row, and where a core is full."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lave_plugin.bench.cost import Cost
from lave_plugin.bench.scale import BATCHES, FLASH, MINI, Model, forward_ms, tables
from lave_plugin.cli import app

TINY = Model("tiny", 2, 10, 1, 20, 4, 1, 0, 5, 2, 1, 3, 100)


def test_the_weights_of_a_model_by_hand():
    assert TINY.expert == 3 * 10 * 5
    attention = 10 * 3 * (2 * 2 + 2 * 1)
    assert TINY.always_read == 2 * attention + 3 * 10 * 20 + 10 * 4 + 10 * 100


@pytest.mark.parametrize(("model", "billions", "active"), [(MINI, 16.3, 1.4), (FLASH, 103.0, 6.1)])
def test_the_models_have_as_many_weights_as_they_are_said_to(model, billions, active):
    sparse = model.layers - model.dense_layers
    embedding = model.hidden * model.vocabulary
    total = model.always_read + sparse * model.experts * model.expert + embedding
    used = model.always_read + sparse * model.experts_per_token * model.expert
    assert total / 1e9 == pytest.approx(billions, rel=0.03)
    assert (used + embedding) / 1e9 == pytest.approx(active, rel=0.03)


def test_experts_are_touched_by_chance():
    assert TINY.experts_touched(1) == pytest.approx(1)
    assert TINY.experts_touched(2) == pytest.approx(4 * (1 - 9 / 16))
    assert MINI.experts_touched(10_000) == pytest.approx(256)


@pytest.mark.parametrize("model", [MINI, FLASH])
def test_a_step_is_longer_for_more_rows_and_shorter_on_more_gpus(model):
    one, eight = forward_ms(model, 1, 2), forward_ms(model, 8, 2)
    assert sorted(one.values()) == list(one.values())
    assert all(eight[rows] < one[rows] for rows in BATCHES)


def test_the_line_through_measured_costs():
    cost = Cost.fit({1: 1.5, 4: 3.0, 8: 5.0})
    assert (cost.fixed_ms, cost.row_ms) == (pytest.approx(1.0), pytest.approx(0.5))
    assert cost.ms(16) == pytest.approx(9.0)
    assert cost.ms(16, threads=8) == pytest.approx(2.0)
    assert cost.ms(17, threads=8) == pytest.approx(2.5)
    assert cost.share(16, forward_ms=9.0) == pytest.approx(0.5)


def test_noise_gives_no_negative_cost():
    assert Cost.fit({1: 0.1, 8: 9.0}).fixed_ms == 0.0


def test_one_size_of_batch_gives_no_line():
    with pytest.raises(ValueError, match="two sizes"):
        Cost.fit({4: 1.0})


def test_where_a_core_stops_being_enough():
    cost = Cost(0.0, 1.0)
    assert cost.first_above(0.1, {1: 10.0, 2: 10.0, 4: 10.0}) == 2
    assert cost.first_above(0.5, {1: 10.0, 2: 10.0}) is None


def test_the_command_needs_a_measurement_or_a_cost(tmp_path):
    run = CliRunner().invoke
    result = run(app, ["bench", "scale", "--results", str(tmp_path)])
    assert result.exit_code == 2
    assert "lave bench serve makes it" in result.output
    result = run(app, ["bench", "scale", "--cost", "0.3", "0.05"])
    assert result.exit_code == 0
    assert "LLaDA2.0-flash" in result.output


def test_eight_ranks_have_an_eighth_of_the_rows_each():
    share, _ = tables(Cost(0.0, 1.0))
    of = {(row[0], row[1], row[3]): row[4:] for row in share.rows}
    alone = of["LLaDA2.0-mini", "1", "1 core, %"]
    ranks = of["LLaDA2.0-mini", "1", "8 ranks on 8 GPUs, %"]
    assert ranks[BATCHES.index(256)] == alone[BATCHES.index(32)]


def test_the_tables_of_the_page_are_those_of_its_commands():
    page = (Path(__file__).parents[2] / "docs" / "scale.md").read_text()
    commands = re.findall(r"scale --cost ([\d.]+) ([\d.]+)(?: --engine-ms ([\d.]+))?", page)
    assert len(commands) == 3
    for step, row, engine_ms in commands:
        for table in tables(Cost(float(step), float(row)), float(engine_ms or 0)):
            assert table.to_markdown() in page
