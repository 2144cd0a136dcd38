"""The rows of the papers' tables: strategies, ablations and sweeps as this plugin has them.

A strategy is chosen by the request, so one server serves a whole table of them. Options of the
method and the threshold are the server's: variants that differ in those need a server each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Variant:
    """One row of a table.

    Attributes:
        name: Unique in its table.
        strategy: What the request asks for; ``none`` leaves the grammar off, on purpose.
        lave: Options that the server is started with; empty for the defaults.
        threshold: Of the algorithm; None for the default.
        paper: Which method of which paper it stands for.
        at: The value of what a sweep varies.
    """

    name: str
    strategy: str = "lave"
    lave: Mapping[str, Any] = field(default_factory=dict)
    threshold: float | None = None
    paper: str = ""
    at: float | None = None

    @property
    def server(self) -> str:
        """The same for variants that one server can serve."""
        return json.dumps([self.threshold, dict(self.lave)], sort_keys=True)


def with_bases(variants: Sequence[Variant]) -> list[Variant]:
    """These, and on each of their servers one without constraint, whose times theirs are
    compared with: what was measured beside it, not at another time."""
    found = list(variants)
    have = {variant.server for variant in variants if variant.strategy == "none"}
    for variant in variants:
        if variant.server not in have:
            have.add(variant.server)
            name = f"none, on the server of {variant.name}"
            found.append(replace(variant, name=name, strategy="none"))
    return found


# IG-CD: arXiv 2508.10111; LAVE: 2602.00612; DINGO: 2505.23061; finite automata: 2607.07026.
PAPER = (
    Variant("none", "none", paper="NO-CD"),
    Variant("sequential", "sequential", paper="FS-CD"),
    Variant("intersection", "intersection", paper="IG-CD"),
    Variant("lave sampled", lave={"lookahead": "sampled"}, paper="LAVE"),
    Variant("lave", paper="ours, guided"),
    Variant("map", "map", paper="DINGO"),
    Variant("posterior", "posterior", paper="finite automata"),
)

ABLATION = (
    Variant("none", "none", paper="no constraint"),
    Variant("lave", paper="everything"),
    Variant("sampled lookahead", lave={"lookahead": "sampled"}, paper="without guided search"),
    Variant("model confidence", lave={"confidence": "model"}, paper="without the posterior"),
    Variant("no forced tokens", lave={"forced_tokens": False}, paper="without forced tokens"),
    Variant("any witness", lave={"plausibility": 0.0}, paper="without plausible witnesses"),
    Variant("late recovery", lave={"attempts": 1000}, paper="recovery after 1,000 refusals only"),
)
"""Not here, since nothing can switch them off: verification as such, the carried witness, and the
length guarantee (a row that commits without a witness is what this plugin must never have)."""


def _swept(option: str, values: tuple[float, ...], **more: Any) -> tuple[Variant, ...]:
    return tuple(
        Variant(f"lave, {option} {value}", lave={option: value, **more}, at=value)
        for value in values
    )


THRESHOLDS = (0.5, 0.7, 0.85, 0.95, 1.0)

TABLES: dict[str, tuple[Variant, ...]] = {
    "main": PAPER,
    "tasks": (Variant("none", "none", paper="no constraint"), Variant("lave", paper="ours")),
    "ablation": ABLATION,
    "threshold": tuple(
        Variant(f"{strategy}, threshold {value}", strategy, threshold=value, at=value)
        for value in THRESHOLDS
        for strategy in ("none", "lave")
    ),
    "attempts": _swept("attempts", (1, 2, 5, 10, 20)),
    "samples": _swept("samples", (1, 3, 10, 30), lookahead="sampled"),
}
"""By name: the papers' main table, what a constraint does to each task of the demo, the ablation,
and sweeps over the threshold, tau and N."""

IN_PROCESS = ("steps", "feasibility")
"""Tables without variants of a server: they take the shipped model's probabilities, which no server
tells, or a number of steps T, which SGLang's LowConfidence does not have."""
