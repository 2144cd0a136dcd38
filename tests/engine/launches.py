"""How most tests start a server, plugins that get in the way, and what is left of a server."""

import os
from pathlib import Path

import psutil

BLOCK = 16
LAVE = {
    "algorithm": "LowConfidence",
    "algorithm_config": {"block_size": BLOCK, "threshold": 0.7},
    "constrained_decoding": "lave",
}


def install_plugin(folder: Path, name: str, source: str) -> dict[str, str]:
    """A plugin of the engine in ``folder``; returns the environment that finds it."""
    (folder / f"{name}.py").write_text(source)
    metadata = folder / f"{name}-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text(f"[sglang.srt.plugins]\n{name} = {name}:register\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


MOVED_FUNCTION = """
def register():
    from sglang.srt.dllm.mixin.scheduler import SchedulerDllmMixin
    original = SchedulerDllmMixin.get_new_batch_dllm

    def get_new_batch_dllm(self, plan):
        return original(self, plan)

    SchedulerDllmMixin.get_new_batch_dllm = get_new_batch_dllm
"""
"""As in a later version of the engine: a function that is hooked takes something else."""


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
