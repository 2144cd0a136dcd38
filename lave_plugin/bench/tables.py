"""The tables of each benchmark's results."""

from __future__ import annotations

from lave_plugin.bench import paper, serve, state_tables
from lave_plugin.bench.cost import Cost
from lave_plugin.bench.results import Results
from lave_plugin.bench.serve import Spread
from lave_plugin.bench.table import UNKNOWN, Table, number, spread
from lave_plugin.bench.variants import TABLES


def tables_of(results: Results) -> list[Table]:
    """What there is to be shown of these results."""
    if results.benchmark == "serve":
        return serve_tables(results)
    if results.benchmark == "paper":
        return [paper_table(results)]
    return state_tables.TABLES[results.benchmark](results)


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
