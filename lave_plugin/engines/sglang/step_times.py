"""How long the engine's steps take, with a constraint and without: part of ``/server_info``."""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import median
from typing import Any, Literal

KEPT = 512
"""Of each kind of batch the last so many steps."""

Share = Literal["none", "some", "all"]


class StepTimes:
    """Durations of the steps of one worker, by batch size and constrained share of the batch."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[int, Share], deque[tuple[float, float]]] = defaultdict(
            lambda: deque(maxlen=KEPT)
        )

    def add(self, rows: int, constrained: int, seconds: float, verifying: float) -> None:
        """Note one step, forward pass included, and what part of it was verification."""
        share: Share = "none" if not constrained else "all" if constrained == rows else "some"
        self._seconds[rows, share].append((seconds, verifying))

    def report(self) -> list[dict[str, Any]]:
        """Medians in milliseconds, one entry for each kind of batch."""
        return [
            {
                "rows": rows,
                "constrained": share,
                "steps": len(times),
                "step_ms": 1e3 * median(step for step, _ in times),
                "verification_ms": 1e3 * median(verifying for _, verifying in times),
            }
            for (rows, share), times in sorted(self._seconds.items())
        ]


def report_step_times(result, scheduler, recv_req):
    """Hook behind ``Scheduler.get_internal_state``."""
    step = scheduler.tp_worker.lave_step
    if step is not None:
        result.internal_state["lave"] = {"step_times": step.times.report()}
    return result
