"""What the engine counts of its steps, and what a client makes of it."""

from types import SimpleNamespace

import pytest

from lave_plugin.bench.engine_steps import EngineSteps, engine_steps
from lave_plugin.engines.sglang.step_times import KEPT, StepTimes


def client_of(times: StepTimes):
    lave = {"step_times": times.report()}
    return SimpleNamespace(server_info=lambda: {"internal_states": [{"lave": lave}]})


def test_sums_are_of_all_steps_though_few_are_kept():
    times = StepTimes()
    for _ in range(KEPT + 100):
        times.add(rows=4, constrained=4, seconds=0.5, verifying=0.125)
    times.add(rows=2, constrained=0, seconds=1.0, verifying=0.0)
    times.add(rows=3, constrained=1, seconds=1.0, verifying=0.25)
    steps = engine_steps(client_of(times))
    assert (steps.steps, steps.rows) == (KEPT + 102, 4 * (KEPT + 100) + 2 + 3)
    assert steps.step_s == pytest.approx(0.5 * (KEPT + 100) + 2.0)
    assert steps.verification_s == pytest.approx(0.125 * (KEPT + 100) + 0.25)
    assert [(rows, count) for rows, count, _ in steps.by_rows] == [(4, KEPT + 100)]


def test_what_happened_between_two_moments():
    times = StepTimes()
    times.add(rows=1, constrained=1, seconds=1.0, verifying=0.5)
    before = engine_steps(client_of(times))
    times.add(rows=1, constrained=1, seconds=2.0, verifying=0.25)
    times.add(rows=2, constrained=2, seconds=4.0, verifying=1.0)
    between = engine_steps(client_of(times)).since(before)
    assert between == EngineSteps(2, 3, 6.0, 1.25, ((1, 1, 0.25), (2, 1, 1.0)))


@pytest.mark.parametrize(
    "info", [None, {}, {"internal_states": []}, {"internal_states": [{"lave": None}]}]
)
def test_a_server_without_the_plugin_says_nothing(info):
    assert engine_steps(SimpleNamespace(server_info=lambda: info)) is None
