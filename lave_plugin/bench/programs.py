"""Compiling and running a C++ program that a model wrote, in a child process on a leash.

Bounded are its time, its memory, the size of what it writes and, where the system lets an
ordinary user make a network namespace, the network is gone. That is meant for what a model
gets wrong (loops without an end, gigabytes), not as a jail for what an attacker writes.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from lave_plugin.bench.scoring import Unscorable

Outcome = Literal["passed", "failed", "not compiled", "timed out"]

COMPILE_SECONDS = 30.0
RUN_SECONDS = 10.0
MEMORY_BYTES = 1 << 30
COMPILER_BYTES = 4 << 30
FILE_BYTES = 64 << 20
OFF_THE_NETWORK = ("unshare", "--user", "--map-root-user", "--net")


def passes(
    program: str, *, seconds: float = RUN_SECONDS, memory_bytes: int = MEMORY_BYTES
) -> Outcome:
    """Compile ``program``, its tests included, run it, and say how that ended.

    Raises:
        Unscorable: There is no C++ compiler.
    """
    with tempfile.TemporaryDirectory(prefix="lave-program-") as folder:
        source, binary = Path(folder, "program.cpp"), Path(folder, "program")
        source.write_text(program)
        compiling = [compiler(), "-std=c++17", "-O1", "-o", str(binary), str(source)]
        status = _run(compiling, folder, COMPILE_SECONDS, COMPILER_BYTES)
        if status != 0:
            return "timed out" if status is None else "not compiled"
        running = [*(OFF_THE_NETWORK if can_cut_the_network() else ()), str(binary)]
        status = _run(running, folder, seconds, memory_bytes)
    if status is None:
        return "timed out"
    return "passed" if status == 0 else "failed"


@cache
def compiler() -> str:
    """The path of the C++ compiler.

    Raises:
        Unscorable: There is none.
    """
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and (path := shutil.which(name)):
            return path
    raise Unscorable("There is no C++ compiler (c++, g++ or clang++): C++ is not scored.")


@cache
def can_cut_the_network() -> bool:
    """Whether a child can be started in a network namespace of its own."""
    if shutil.which(OFF_THE_NETWORK[0]) is None:
        return False
    tried = subprocess.run([*OFF_THE_NETWORK, "true"], capture_output=True, timeout=30)
    return tried.returncode == 0


def leash() -> str:
    """What bounds a program here, as a sentence for the report."""
    network = (
        "no network"
        if can_cut_the_network()
        else "the network as it is, since no network namespace can be made here"
    )
    return (
        f"Programs run with {RUN_SECONDS:.0f} s, {MEMORY_BYTES >> 20} MB of memory, "
        f"{FILE_BYTES >> 20} MB a file, and {network}."
    )


def _run(command: Sequence[str], folder: str, seconds: float, memory_bytes: int) -> int | None:
    """The exit status of a command, or None if it took longer than ``seconds``."""

    def limit() -> None:  # in the child
        for what, most in (
            (resource.RLIMIT_AS, memory_bytes),
            (resource.RLIMIT_CPU, int(seconds) + 1),
            (resource.RLIMIT_FSIZE, FILE_BYTES),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(what, (most, most))

    process = subprocess.Popen(
        command,
        cwd=folder,
        env={"PATH": os.environ.get("PATH", ""), "TMPDIR": folder},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # its group is the program and all that it starts
        preexec_fn=limit,
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
