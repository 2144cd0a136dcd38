"""What xdist's main process needs to know, which loads no other conftest: which tests go to one
process, and how the figures that were measured (fixture ``report``) are printed at the end."""

from functools import cache
from pathlib import Path

import pytest

SHARED_SERVERS = ("lave_server", "shipped_server")
"""Fixtures of ``engine/conftest.py``."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadFileScheduling

    class ByServer(LoadFileScheduling):
        """Files go to a process as a whole, those of one shared server all to the same."""

        def _split_scope(self, nodeid: str) -> str:
            name = nodeid.partition("::")[0]
            return shared_server(config.rootpath / name) or name

    return ByServer(config, log) if config.getoption("dist") == "loadfile" else None


@cache
def shared_server(file: Path) -> str | None:
    """The first one that the file asks for."""
    source = file.read_text()
    return next((name for name in SHARED_SERVERS if name in source), None)


def pytest_terminal_summary(terminalreporter) -> None:
    reports = [r for r in terminalreporter.stats.get("passed", []) if r.when == "call"]
    figures = [line for r in reports for name, line in r.user_properties if name == "figure"]
    if figures:
        terminalreporter.section("figures")
        for line in figures:
            terminalreporter.line(line)
