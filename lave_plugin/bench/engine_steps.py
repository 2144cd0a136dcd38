"""What the plugin says of the engine's steps, between two moments.

From ``/server_info``, where a server with the plugin keeps count (``StepTimes``). A server
without it, or one that takes the steps of a block in one call (``--no-dllm-fdfo``), says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lave_plugin.bench.client import Client


@dataclass(frozen=True)
class EngineSteps:
    """Sums over the engine's steps.

    Attributes:
        steps, rows: Denoising steps, and the rows in them: one request that takes five steps beside
            another makes five steps and ten rows.
        step_s, verification_s: Seconds of the steps, forward pass included, and of the verification
            in them.
        by_rows: For each number of rows: steps of batches that were constrained throughout, and
            their seconds in verification.
    """

    steps: int = 0
    rows: int = 0
    step_s: float = 0.0
    verification_s: float = 0.0
    by_rows: tuple[tuple[int, int, float], ...] = ()

    def since(self, before: EngineSteps) -> EngineSteps:
        earlier = {rows: (steps, seconds) for rows, steps, seconds in before.by_rows}
        by_rows = []
        for rows, steps, seconds in self.by_rows:
            steps_before, seconds_before = earlier.get(rows, (0, 0.0))
            if steps > steps_before:
                by_rows.append((rows, steps - steps_before, seconds - seconds_before))
        return EngineSteps(
            self.steps - before.steps,
            self.rows - before.rows,
            self.step_s - before.step_s,
            self.verification_s - before.verification_s,
            tuple(by_rows),
        )


def engine_steps(client: Client) -> EngineSteps | None:
    """The sums since the server's start; None where it doesn't say."""
    info = client.server_info() or {}
    try:
        entries: list[dict[str, Any]] = info["internal_states"][0]["lave"]["step_times"]
        totals = [
            (entry["rows"], entry["constrained"], entry["total"]["steps"], entry["total"])
            for entry in entries
        ]
    except (KeyError, IndexError, TypeError):
        return None
    return EngineSteps(
        sum(steps for _, _, steps, _ in totals),
        sum(rows * steps for rows, _, steps, _ in totals),
        sum(total["step_s"] for *_, total in totals),
        sum(total["verification_s"] for *_, total in totals),
        tuple(
            (rows, steps, total["verification_s"])
            for rows, constrained, steps, total in totals
            if constrained == "all"
        ),
    )
