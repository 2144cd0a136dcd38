"""From the measured cost of a row and step to its share of a step on large models.

The step of a model is bounded from below by what it must read and compute at the rates of the
GPU's datasheet (a roofline). Real steps are longer, so the share that comes out is an upper
bound; see docs/scale.md for what is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lave_plugin.bench.cost import Cost
from lave_plugin.bench.tables import Table

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
BLOCK = 32


@dataclass(frozen=True)
class Gpu:
    """Rates of one GPU, dense, by its datasheet.

    Attributes:
        bytes_per_s, flop_per_s: Memory bandwidth, and arithmetic by bytes of a weight (2: bfloat16,
            1: FP8).
        collective_s: One all-reduce between eight of them, at the least.
    """

    name: str
    bytes_per_s: float
    flop_per_s: Mapping[int, float]
    collective_s: float


H200 = Gpu("H200", 4.8e12, {2: 989e12, 1: 1979e12}, 10e-6)


@dataclass(frozen=True)
class Model:
    """A mixture-of-experts transformer, as its configuration says.

    Figures of LLaDA2.0: ``configs/model_configs/llada2_{mini,flash}/config.json`` in
    inclusionAI/dFactory.
    """

    name: str
    layers: int
    hidden: int
    dense_layers: int
    dense_intermediate: int
    experts: int
    experts_per_token: int
    shared_experts: int
    expert_intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int

    @property
    def expert(self) -> int:
        """Weights of one expert: gate, up and down."""
        return 3 * self.hidden * self.expert_intermediate

    @property
    def always_read(self) -> int:
        """Weights that every step reads: attention, dense and shared parts, routers, head."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        sparse = self.layers - self.dense_layers
        return (
            self.layers * attention
            + self.dense_layers * 3 * self.hidden * self.dense_intermediate
            + sparse * (self.shared_experts * self.expert + self.hidden * self.experts)
            + self.hidden * self.vocabulary
        )

    def experts_touched(self, tokens: int) -> float:
        """Experts of a layer that some token goes to, if each token chooses by itself."""
        return self.experts * (1 - (1 - self.experts_per_token / self.experts) ** tokens)

    def step_s(self, gpu: Gpu, gpus: int, rows: int, weight_bytes: int) -> float:
        """Seconds of a step of ``rows`` blocks, at the least.

        Weights are split over the GPUs (tensor parallel). Attention over the context, the KV
        cache, the logits and the engine's own work on the host are left out.
        """
        tokens = rows * BLOCK
        sparse = self.layers - self.dense_layers
        read = self.always_read + sparse * self.experts_touched(tokens) * self.expert
        used = self.always_read + sparse * self.experts_per_token * self.expert
        reading = read * weight_bytes / gpus / gpu.bytes_per_s
        computing = 2 * used * tokens / gpus / gpu.flop_per_s[weight_bytes]
        talking = 2 * self.layers * gpu.collective_s if gpus > 1 else 0.0
        return max(reading, computing) + talking


MINI = Model("LLaDA2.0-mini", 20, 2048, 1, 5120, 256, 8, 1, 512, 16, 4, 128, 157_184)
FLASH = Model("LLaDA2.0-flash", 32, 4096, 1, 9216, 256, 8, 1, 1024, 32, 4, 128, 157_184)

SETTINGS = (
    # flash has 103 billion weights: on one H200 (141 GB) they fit in FP8 only.
    (MINI, 1, 2),
    (MINI, 8, 2),
    (FLASH, 1, 1),
    (FLASH, 8, 2),
)
"""Model, GPUs, bytes of a weight."""


def forward_ms(
    model: Model, gpus: int, weight_bytes: int, engine_ms: float = 0.0
) -> dict[int, float]:
    """Milliseconds of a step without verification by batch, at the least.

    ``engine_ms`` of them are the engine's own work on the host.
    """
    return {
        rows: engine_ms + 1e3 * model.step_s(H200, gpus, rows, weight_bytes) for rows in BATCHES
    }


ENOUGH = 0.1
"""A tenth of the step: above it, one core is no longer enough."""


def tables(
    cost: Cost, engine_ms: float = 0.0, threads: Sequence[int] = (1, 8), ranks: int = 8
) -> list[Table]:
    """The projection: the share by batch, and where one core stops being enough."""
    share = Table(
        f"Verification in a step of a batch that is constrained throughout, % at most "
        f"({cost.fixed_ms:.2f} ms + {cost.row_ms:.3f} ms a row)",
        ("model", "GPUs", "weights", "host", *map(str, BATCHES)),
        words=4,
    )
    enough = Table(
        "The smallest batch above a tenth of the step, and the one above half of it, on one core",
        ("model", "GPUs", "above 10 %", "above 50 %"),
    )
    for model, gpus, weight_bytes in SETTINGS:
        forward = forward_ms(model, gpus, weight_bytes, engine_ms)
        weights = {2: "bfloat16", 1: "FP8"}[weight_bytes]
        head = [model.name, str(gpus), weights]
        share.rows.append([*head, "no constraint, ms", *(f"{ms:.1f}" for ms in forward.values())])
        for count in threads:
            shares = [cost.share(rows, ms, count) for rows, ms in forward.items()]
            label = "1 core, %" if count == 1 else f"{count} threads, %"
            share.rows.append([*head, label, *(f"{100 * part:.0f}" for part in shares)])
        if gpus == 1:
            # Each rank has its own GPU, its own scheduler process, and its part of the rows.
            parts = [-(-rows // ranks) for rows in BATCHES]
            shares = [
                cost.share(part, engine_ms + 1e3 * model.step_s(H200, 1, part, weight_bytes))
                for part in parts
            ]
            label = f"{ranks} ranks on {ranks} GPUs, %"
            share.rows.append([*head, label, *(f"{100 * part:.0f}" for part in shares)])
        above = [cost.first_above(part, forward) for part in (ENOUGH, 0.5)]
        enough.rows.append(
            [model.name, str(gpus), *(str(rows) if rows else f"> {BATCHES[-1]}" for rows in above)]
        )
    return [share, enough]
