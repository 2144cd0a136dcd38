"""The servers that a benchmark measures: started here, or running somewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lave_plugin.demo.shipped import CHECKPOINT, algorithm_config
from lave_plugin.engines.sglang.server import Server

MASK_IDS = {
    "LLaDA2MoeModelLM": 156895,
    "SDARForCausalLM": 151669,
    "SDARMoeForCausalLM": 151669,
}
"""SGLang's own table (``sglang/srt/dllm/config.py``, 0.5.23)."""


def runs_without_the_plugin(checkpoint: Path) -> bool:
    """Whether SGLang by itself knows the mask id of this checkpoint.

    It has a table by architecture, and the shipped model's vocabulary does not reach it.
    """
    config = json.loads((checkpoint / "config.json").read_text())
    known = MASK_IDS.get((config.get("architectures") or [None])[0])
    return known is not None and config.get("mask_token_id", known) == known


def server(
    model: Path,
    *,
    plugin: bool = True,
    threshold: float | None = None,
    lave: Mapping[str, Any] | None = None,
    device: str = "cpu",
    max_running_requests: int = 16,
    log_path: Path | None = None,
    on_progress: Callable[[float, str], None] | None = None,
) -> Server:
    """A server of ``model``, not yet started.

    Args:
        plugin: False for the engine's own step: without plugins where the checkpoint allows that,
            else with ``--constrained-decoding none``, which leaves the engine's algorithm in place.
        threshold: Of the algorithm; None for the shipped model's, or the algorithm's own for
            another.
        lave: Options of the method.
    """
    config = algorithm_config(model) if is_shipped(model) else {}
    if threshold is not None:
        config["threshold"] = threshold
    if plugin and lave:
        config["lave"] = dict(lave)
    bare = not plugin and runs_without_the_plugin(model)
    return Server(
        model,
        algorithm_config=config or None,
        constrained_decoding=None if bare else "lave" if plugin else "none",
        plugins=not bare,
        max_running_requests=max_running_requests,
        device=device,
        log_path=log_path,
        on_progress=on_progress,
    )


def is_shipped(model: Path) -> bool:
    return model.resolve() == CHECKPOINT.resolve()
