"""Results as tables, for a terminal and for Markdown alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import rich.table
from rich.markup import escape

from lave_plugin.bench import paper, serve
from lave_plugin.bench.cost import Cost
from lave_plugin.bench.results import Results
from lave_plugin.bench.serve import Spread
from lave_plugin.bench.variants import TABLES

UNKNOWN = "–"


@dataclass(frozen=True)
class Table:
    """Cells of text under headings; the first ``words`` columns are flush left."""

    title: str
    headings: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    words: int = 1

    def to_rich(self) -> rich.table.Table:
        table = rich.table.Table(title=escape(self.title), title_justify="left")
        for place, heading in enumerate(self.headings):
            table.add_column(escape(heading), justify="left" if place < self.words else "right")
        for row in self.rows:
            table.add_row(*map(escape, row))
        return table

    def to_markdown(self) -> str:
        rules = ["---" if place < self.words else "---:" for place in range(len(self.headings))]
        lines = [self.headings, rules, *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number(value: float | None, digits: int = 1) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def spread(value: Spread | None, digits: int = 1, percent: bool = False) -> str:
    """The median, and in brackets the least and the most, where there is more than one value."""
    if value is None:
        return UNKNOWN
    scale = 100 if percent else 1
    median, least, most = (
        f"{scale * part:.{digits}f}" for part in (value.median, value.least, value.most)
    )
    return median if value.least == value.most else f"{median} ({least}–{most})"


# --- lave bench serve ---------------------------------------------------------------------


def serve_tables(results: Results) -> list[Table]:
    """Throughput and latency; ratios; what the engine says of its steps."""
    speed = Table(
        "Throughput and latency: medians of the rounds (least–most)",
        ("mix", "in flight", "way", "rounds", "output tokens/s", "requests/s", "TTFT p50, ms",
         "E2E p50, ms", "E2E p95, ms", "valid"),
        words=3,
    )  # fmt: skip
    ratios = Table(
        "Output throughput within one round: medians of the ratios (least–most)",
        ("mix", "in flight", *serve.RATIOS),
        words=2,
    )
    steps = Table(
        "The engine's steps, prompt included",
        ("mix", "in flight", "way", "steps a request", "tokens a step", "in verification, %"),
        words=3,
    )
    by_place: dict[tuple[str, str], dict[str, Spread | None]] = {}
    for row in serve.summary(results):
        place = (row["mix"], str(row["max_concurrency"]))
        valid = f"{100 * row['valid']:.1f} %"
        if row["failed"]:
            valid += f", {row['failed']} refused"
        speed.rows.append(
            [
                *place,
                row["way"],
                str(row["rounds"]),
                spread(row["output_throughput"]),
                spread(row["request_throughput"], 2),
                spread(row["median_ttft_ms"], 0),
                spread(row["median_e2e_latency_ms"], 0),
                spread(row["p95_e2e_latency_ms"], 0),
                UNKNOWN if row["mix"] == "none" else valid,
            ]
        )
        by_place.setdefault(place, {}).update(row["ratios"])
        if row["steps_per_request"] is not None:
            steps.rows.append(
                [
                    *place,
                    row["way"],
                    spread(row["steps_per_request"]),
                    spread(row["tokens_per_step"], 2),
                    spread(row["verification_share"], 1, percent=True),
                ]
            )
    ratios.rows.extend(
        [*place, *(spread(found.get(label), 2) for label in serve.RATIOS)]
        for place, found in by_place.items()
    )
    return [table for table in (speed, ratios, steps, _costs(results)) if table.rows]


def _costs(results: Results) -> Table:
    table = Table(
        "Verification of steps that are constrained throughout: the line through its times",
        ("mix", "ms a step", "ms a row"),
    )
    for mix in results.options["mixes"]:
        by_rows = serve.verification_by_rows(results, mix=mix)
        if len(by_rows) > 1:
            cost = Cost.fit(by_rows)
            table.rows.append([mix, number(cost.fixed_ms, 2), number(cost.row_ms, 3)])
    return table


# --- lave bench paper ---------------------------------------------------------------------


def paper_table(results: Results) -> Table:
    """One row for each variant, in the papers' form, for each k that there are samples for."""
    name = results.options["table"]
    rows = paper.summary(results, TABLES[name])
    ks = [k for k in paper.KS if any(k in (row["syntactic"] or {}) for row in rows)]
    table = Table(
        f"{name}: scores in %, mean seconds an answer, and time over that of none (quartiles)",
        (
            *("task", "variant", "stands for", "answers"),
            *(f"syn@{k}" for k in ks),
            *(f"fun@{k}" for k in ks),
            *("time, s", "× none", "tokens", "steps"),
        ),
        words=3,
    )
    for row in rows:
        ratio = row["ratio"]
        table.rows.append(
            [
                row["kind"],
                row["variant"],
                row["paper"] or UNKNOWN,
                f"{row['answers']}" + (f", {row['errors']} refused" if row["errors"] else ""),
                *(number((row["syntactic"] or {}).get(k)) for k in ks),
                *(number((row["functional"] or {}).get(k)) for k in ks),
                number(row["seconds"], 3),
                spread(Spread(ratio[1], ratio[0], ratio[2]), 2) if ratio else UNKNOWN,
                number(row["tokens"]),
                number(row["steps"]),
            ]
        )
    return table
