"""How long the engine's steps take, with a constraint and without: part of ``/server_info``."""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import median
from typing import Any, Literal

KEPT = 256
"""Of each kind of batch the last so many steps."""

Share = Literal["none", "some", "all"]


class StepTimes:
    """Durations of the steps of one worker, by batch size and constrained share of the batch."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[int, Share], deque[tuple[float, float]]] = defaultdict(
            lambda: deque(maxlen=KEPT)
        )
        self._totals: dict[tuple[int, Share], list[float]] = defaultdict(lambda: [0, 0.0, 0.0])

    def add(self, rows: int, constrained: int, seconds: float, verifying: float) -> None:
        """Note one step, forward pass included, and what part of it was verification."""
        share: Share = "none" if not constrained else "all" if constrained == rows else "some"
        self._seconds[rows, share].append((seconds, verifying))
        total = self._totals[rows, share]
        for index, more in enumerate((1, seconds, verifying)):
            total[index] += more

    def report(self) -> list[dict[str, Any]]:
        """One entry for each kind of batch: medians in milliseconds of the ``steps`` that are
        kept, and under ``total`` the steps since the start and their seconds, which a client
        can subtract."""
        return [
            {
                "rows": rows,
                "constrained": share,
                "steps": len(times),
                "step_ms": 1e3 * median(step for step, _ in times),
                "verification_ms": 1e3 * median(verifying for _, verifying in times),
                "total": dict(
                    zip(
                        ("steps", "step_s", "verification_s"),
                        self._totals[rows, share],
                        strict=True,
                    )
                ),
            }
            for (rows, share), times in sorted(self._seconds.items())
        ]


def report_step_times(result, scheduler, recv_req):
    """Hook behind ``Scheduler.get_internal_state``."""
    step = scheduler.tp_worker.lave_step
    if step is not None:
        result.internal_state["lave"] = {"step_times": step.times.report()}
    return result
