"""Tensor-parallel ranks each decide alone, on the same logits: they must decide the same.

So nothing may depend on what differs between two processes: the seed of Python's hashes, the
addresses of objects, time, threads, or how the states happen to be numbered.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

RANK = Path(__file__).with_name("rank.py")
NATIVE = importlib.util.find_spec("lave_plugin.native._native") is not None


def start(lookahead: str, native: str, *, hash_seed: str, already_served: str):
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "LAVE_NATIVE": native,
        "PYTHONPATH": path,
    }
    command = [sys.executable, str(RANK), lookahead, already_served]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("lookahead", ["guided", "sampled"])
@pytest.mark.parametrize(
    "native",
    ["0", pytest.param("1", marks=pytest.mark.skipif(not NATIVE, reason="not built"))],
    ids=["python", "native"],
)
def test_two_ranks_write_the_same_tokens(lookahead, native):
    ranks = [
        start(lookahead, native, hash_seed="1", already_served="0"),
        start(lookahead, native, hash_seed="2", already_served="1"),
    ]
    outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert len(outputs[0]) > 2000, "hardly a token was written"
    assert outputs[0] == outputs[1]
