"""In what order the tests are run and by which process, and the figures that were measured (fixture
``report``) at the end. Here, since xdist's main process loads no other conftest."""

import importlib.util
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    by_file: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_file.setdefault(item.nodeid.partition("::")[0], []).append(item)
    for of_file in by_file.values():
        of_file.sort(key=_server_rank)
    # The long ones first, those of one server one behind the other.
    order = sorted(
        by_file.values(), key=lambda file: (not _is_engine(file[0]), _server_rank(file[0]))
    )
    items[:] = [item for of_file in order for item in of_file]
    if importlib.util.find_spec("sglang") is None:
        for item in items:
            if _is_engine(item):
                item.add_marker(pytest.mark.skip(reason="SGLang is not installed (make env)"))


def _server_rank(item: pytest.Item) -> int:
    for rank, name in enumerate(SHARED_SERVERS):
        if name in item.fixturenames:
            return rank
    return len(SHARED_SERVERS)


def _is_engine(item: pytest.Item) -> bool:
    return item.get_closest_marker("engine") is not None


def pytest_terminal_summary(terminalreporter) -> None:
    reports = [r for r in terminalreporter.stats.get("passed", []) if r.when == "call"]
    figures = [line for r in reports for name, line in r.user_properties if name == "figure"]
    if figures:
        terminalreporter.section("figures")
        for line in figures:
            terminalreporter.line(line)
