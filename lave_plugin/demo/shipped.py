"""The tiny model that ships, and how an engine is to run it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CHECKPOINT = Path(__file__).parent / "checkpoint"

THRESHOLD = 0.7
"""Several tokens a step, so that a small model makes mistakes."""


def algorithm_config(checkpoint: Path = CHECKPOINT, **options: Any) -> dict[str, Any]:
    """SGLang's ``--dllm-algorithm-config`` for this model, or for one that was trained like it.

    The block size is the one of its ``config.json``, where it says one: SGLang itself goes by the
    architecture. ``options`` come on top.
    """
    config = json.loads((checkpoint / "config.json").read_text())
    block_size = {"block_size": config["block_size"]} if "block_size" in config else {}
    return {**block_size, "threshold": THRESHOLD, **options}
