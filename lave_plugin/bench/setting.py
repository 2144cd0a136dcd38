"""Where and with what a figure was measured."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

import lave_plugin

PACKAGES = ("sglang", "xgrammar", "torch", "transformers")


def setting() -> dict[str, Any]:
    """Versions, machine, command and date of this process."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command(),
        "versions": versions(),
        "machine": machine(),
    }


def command() -> str:
    """The command line, with the program's name and not its path."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def versions() -> dict[str, str | None]:
    """Of the plugin and of what it runs in; None for what is not installed here."""
    found: dict[str, str | None] = {
        "lave-plugin": lave_plugin.__version__,
        "python": platform.python_version(),
    }
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def machine() -> dict[str, Any]:
    """The client's machine, which is the server's as well unless ``--base-url`` names another.

    ``load`` is the load average of the last minute: well below the number of cores, or the
    times are those of a busy machine.
    """
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "system": platform.system(),
        "load": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
