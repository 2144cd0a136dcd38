"""What a scheduler counts for the engine's own Prometheus endpoint (``--enable-metrics``).

Names, labels and ranks go by the engine's (``sglang/srt/observability/metrics_collector.py``).
Each process has counts of its own, and prometheus_client adds them up where they are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

from lave_plugin.engines.sglang import arguments
from lave_plugin.grammar import room
from lave_plugin.session import Session

Reason = Literal["grammar", "timeout", "length", "parameters", "not_covered", "engine", "failed"]
"""Why a constrained request was refused. ``grammar``: it does not compile, or can't be enforced;
``timeout``: it took too long to compile; ``length``: no answer fits into what is left;
``parameters``: ``custom_params.lave`` says something that it can't; ``not_covered``: this server
or this request has something that goes with no constraint; ``engine``: for what has nothing to do
with the constraint; ``failed``: a fault of the plugin, answered with a 500."""

Outcome = Literal["complete", "incomplete", "failed", "aborted"]
"""How a constrained request ended. ``incomplete``: it was cut, or its strategy does not vouch for
its answer; ``failed``: a fault of the plugin, a 500; ``aborted``: for another reason."""

_SECONDS = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)

_TALLIES = {
    "steps": ("denoising_steps", "Denoising steps of constrained requests."),
    "accepted": ("accepted_tokens", "Proposed tokens that were accepted."),
    "refusals": ("refused_tokens", "Proposed tokens that were refused."),
    "recoveries": ("recovered_tokens", "Tokens committed by recovery."),
    "forced_tokens": ("forced_tokens", "Tokens that the grammar left no choice about."),
    "unverified": ("unverified_tokens", "Tokens committed although nothing vouched for them."),
    "undecided": ("undecided_searches", "Searches that ended at their budget, undecided."),
}
"""Counters by what ``Session.tallies`` calls them."""
_NOTHING = dict.fromkeys(_TALLIES, 0)


class Metrics:
    """The counts of one scheduler process.

    Args:
        labels: those of the engine's own metrics, with their values.
    """

    def __init__(self, labels: Mapping[str, Any]) -> None:
        # Not before: on import it looks for the folder that the engine names in its environment.
        from prometheus_client import Counter, Gauge, Histogram

        self._labels = dict(labels)

        def make(kind, name: str, text: str, *more: str, **options):
            return kind(f"lave:{name}", text, [*labels, *more], **options)

        self._requests = make(
            Counter, "requests_total", "Constrained requests admitted.", "strategy", "constraint"
        )
        self._finished = make(
            Counter, "finished_requests_total", "How they ended.", "strategy", "outcome"
        )
        self._refused = make(
            Counter, "refused_requests_total", "Constrained requests refused.", "reason"
        )
        self._tallies = {
            key: make(Counter, f"{name}_total", text, "strategy")
            for key, (name, text) in _TALLIES.items()
        }
        self._verification = make(
            Histogram,
            "verification_seconds",
            "What verification takes of one denoising step of a batch.",
            buckets=_SECONDS,
        ).labels(**self._labels)
        self._states, self._state_bytes = (
            make(Gauge, name, text, multiprocess_mode="mostrecent").labels(**self._labels)
            for name, text in (
                ("states", "Grammar states held."),
                ("state_bytes", "Bytes that they take, about."),
            )
        )
        for reason in get_args(Reason):
            self._refused.labels(**self._labels, reason=reason)
        self._seen: WeakKeyDictionary[Session, dict[str, int]] = WeakKeyDictionary()

    def admitted(self, strategy: str, constraint: str) -> None:
        """A request has got its session."""
        self._requests.labels(**self._labels, strategy=strategy, constraint=constraint).inc()

    def refused(self, reason: Reason) -> None:
        """A request has been answered with a sentence."""
        self._refused.labels(**self._labels, reason=reason).inc()

    def stepped(self, sessions: Iterable[Session], seconds: float) -> None:
        """A denoising step has been made, of which verification took ``seconds``."""
        self._verification.observe(seconds)
        news: defaultdict[tuple[str, str], int] = defaultdict(int)
        for session in sessions:
            before, tallies = self._seen.get(session, _NOTHING), session.tallies()
            self._seen[session] = tallies
            for key, count in tallies.items():
                if count != before[key]:
                    news[session.name, key] += count - before[key]
        for (strategy, key), more in news.items():
            self._tallies[key].labels(**self._labels, strategy=strategy).inc(more)

    def finished(self, strategy: str, outcome: Outcome) -> None:
        """A request that was admitted has ended."""
        self._finished.labels(**self._labels, strategy=strategy, outcome=outcome).inc()
        states, held = room.of_process.held()
        self._states.set(states)
        self._state_bytes.set(held)


of_process: Metrics | None = None
"""``None`` where the engine has no metrics, or lets another rank have them."""


def start(result: dict, scheduler: Any) -> dict:
    """Hook behind ``Scheduler.get_init_info``, where the scheduler's own metrics are there."""
    global of_process
    reporter = scheduler.metrics_reporter
    constrained = arguments.constrained_decoding(scheduler.server_args) != "none"
    if constrained and reporter.current_scheduler_metrics_enabled:
        of_process = Metrics(reporter.metrics_collector.labels)
    return result
