"""Running the real, unmodified SGLang wheel on a machine without a GPU.

The wheel asks for 6 GB of CUDA packages and imports GPU kernels on its way up. Here is
what it needs instead: requirement lists (``requirements*.txt``, ``constraints.txt``),
import-only packages for the kernels (``stubs/``), environment variables and server
arguments. The decoding algorithms, the scheduler and the HTTP server are SGLang's own;
only attention and matrix products run on PyTorch's CPU kernels.

Nothing of this touches a GPU installation: the stubs come onto the path only in
processes started with :func:`environment`.
"""

import os
from collections.abc import Mapping
from pathlib import Path

STUBS = Path(__file__).parent / "stubs"

ENVIRONMENT = {
    # Without it SGLang looks for a GPU even under --device cpu.
    "SGLANG_USE_CPU_ENGINE": "1",
    # Small models: threads cost more than they bring.
    "OMP_NUM_THREADS": "1",
    # LLaDA2's router is under torch.compile: 12 s at the first request.
    "TORCHDYNAMO_DISABLE": "1",
    # Checkpoints are local folders.
    "HF_HUB_OFFLINE": "1",
}

SERVER_ARGS = (
    *("--device", "cpu"),
    *("--attention-backend", "torch_native"),
    *("--dtype", "float32"),
    # An idle scheduler polls its sockets in a busy loop otherwise.
    "--sleep-on-idle",
    # Else the KV cache takes most of the machine's memory and a minute to fill with zeros.
    *("--max-total-tokens", "65536"),
)


def environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """``base`` (default: this process's environment) made fit for SGLang on a CPU.

    A variable that ``base`` already has keeps its value, so that a user can say
    ``OMP_NUM_THREADS=8``; the stubs go in front of ``PYTHONPATH``.
    """
    base = os.environ if base is None else base
    path = [str(STUBS)] + [p for p in base.get("PYTHONPATH", "").split(os.pathsep) if p]
    return {**ENVIRONMENT, **base, "PYTHONPATH": os.pathsep.join(path)}
