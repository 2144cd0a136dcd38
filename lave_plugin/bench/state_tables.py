"""Tables of what is measured without a server: lookaheads, replay, and the shipped model alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lave_plugin.bench import verify
from lave_plugin.bench.in_process import feasibility, steps
from lave_plugin.bench.replay import benchmark as replay
from lave_plugin.bench.results import Results
from lave_plugin.bench.table import UNKNOWN, Table, number

SAMPLES = (1, 2, 5, 10, 20, 50, 100)
"""Values of N that a table shows."""


def verify_tables(results: Results) -> list[Table]:
    """What our lookahead costs in batches; and beside others, row by row."""
    cost = Table(
        "Our lookahead, milliseconds a batch: median / p90 / p99",
        ("grammar", "masked", "rows", "cold", "next", "warm", "Python over C++", "found", "states"),
        words=1,
    )
    for entry in results.all(kind="cost"):
        cost.rows.append(
            [
                entry["grammar"],
                _percent(entry["masked"]),
                str(entry["rows"]),
                *(_quantiles(entry[f"{which}_ms"]) for which in ("cold", "next", "warm")),
                number(entry["python_ratio"], 0),
                _percent(entry["found"], 1),
                str(entry["states"]),
            ]
        )
    peers = Table(
        "Lookaheads on the same canvases, milliseconds a row: median / p90 / p99",
        ("grammar", "masked", "lookahead", "time", "over guided", "found"),
        words=3,
    )
    for entry in results.all(kind="peers"):
        for way in verify.WAYS:
            place = [entry["grammar"], _percent(entry["masked"]), LOOKAHEADS[way]]
            if way in entry["ways"]:
                found = entry["ways"][way]
                figures = [
                    _quantiles(found["ms"]),
                    number(found["ratio"], 1),
                    _percent(found["found"], 1),
                ]
            else:
                figures = [entry["not_measured"].get(way, UNKNOWN), UNKNOWN, UNKNOWN]
            peers.rows.append([*place, *figures])
    return [table for table in (cost, peers) if table.rows]


LOOKAHEADS = {
    "guided": "guided (ours)",
    **{
        f"sampled, N = {samples}": f"sampled, N = {samples} (xgrammar)"
        for samples in verify.SAMPLES
    },
    "beams": "beams (llguidance)",
}


def replay_tables(results: Results) -> list[Table]:
    """All cells; and the modes over all of them."""
    cells = Table(
        "Replay: % of the answers; milliseconds of a row's step, medians",
        ("task", "accuracy", "threshold", "budget", "mode", "valid", "complete", "exact", "wider",
         "steps a token", "step, ms", "without the cut, ms"),
        words=5,
    )  # fmt: skip
    for entry in results.all():
        shares = (entry[name] / entry["requests"] for name in ("valid", "complete", "exact"))
        cells.rows.append(
            [
                entry["task"],
                f"{entry['accuracy']:g}",
                f"{entry['threshold']:g}",
                entry["budget"],
                entry["mode"],
                *(f"{100 * share:.1f}" for share in shares),
                str(entry["wider"]),
                f"{entry['steps'] / max(1, entry['tokens']):.2f}",
                number(entry["step_ms"], 2),
                number(entry["lookahead_ms"], 2),
            ]
        )
    modes = Table(
        "Replay, all cells together",
        ("mode", "answers", "valid and complete", "exact", "wider than the judge", "steps",
         "exact as often as none, places"),
    )  # fmt: skip
    for row in replay.summary(results):
        modes.rows.append(
            [
                row["mode"],
                str(row["requests"]),
                str(row["valid and complete"]),
                str(row["exact"]),
                str(row["wider"]),
                str(row["steps"]),
                UNKNOWN if row["mode"] == "none" else f"{row['ahead']} of {row['places']}",
            ]
        )
    return [table for table in (cells, modes) if table.rows]


def feasibility_tables(results: Results) -> list[Table]:
    """The share of blocks with a witness found, by N."""
    table = Table(
        "A witness found, % of the blocks, by the fillings N that are drawn",
        ("masked", "blocks", "lookahead", *(f"N = {samples}" for samples in SAMPLES)),
        words=0,
    )
    for part in feasibility.parts(results):
        place = [_percent(part), str(len(results.all(masked=part)))]
        for way in feasibility.WAYS:
            accepted = feasibility.acceptance(results, part, way)
            shown = (number(100 * accepted[samples - 1]) for samples in SAMPLES)
            table.rows.append([*place, f"sampled, {way}", *shown])
        found = number(100 * feasibility.guided(results, part))
        table.rows.append([*place, "guided (ours)", *[found] * len(SAMPLES)])
    return [table] if table.rows else []


def steps_tables(results: Results) -> list[Table]:
    """Scores by T."""
    table = Table(
        f"Scores in % by T, the steps for {steps.LENGTH} tokens",
        ("mode", "T", "answers", "syn@1", "fun@1", "steps an answer", "tokens an answer"),
    )
    for row in steps.summary(results):
        table.rows.append(
            [
                row["mode"],
                str(row["T"]),
                str(row["answers"]),
                *(number(row[name]) for name in ("syntactic", "functional", "steps", "tokens")),
            ]
        )
    return [table] if table.rows else []


TABLES: Mapping[str, Callable[[Results], list[Table]]] = {
    "verify": verify_tables,
    "replay": replay_tables,
    "feasibility": feasibility_tables,
    "steps": steps_tables,
}
"""By benchmark."""


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def _quantiles(found: Mapping[str, Any]) -> str:
    return " / ".join(f"{found[name]:.3g}" for name in ("p50", "p90", "p99"))
