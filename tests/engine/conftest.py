"""Checkpoints and the real servers for tests marked ``engine``.

To start a server takes longer than most of what is asked of it, so tests share them. Under
pytest-xdist (``make test``) the tests of one server, or else of one file, stay in one process.
"""

import importlib.util
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from launches import LAVE
from random_checkpoint import write_random_checkpoint

from lave_plugin.engines.sglang.server import Server

SHARED_SERVERS = ("lave_server", "shipped_server")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        server = next((name for name in SHARED_SERVERS if name in item.fixturenames), None)
        groups.setdefault(server or item.nodeid.partition("::")[0], []).append(item)
    items[:] = [item for group in groups.values() for item in group]
    if config.pluginmanager.has_plugin("xdist"):
        for name, group in groups.items():
            for item in group:
                item.add_marker(pytest.mark.xdist_group(name))
    if importlib.util.find_spec("sglang") is None:
        for item in items:
            if item.get_closest_marker("engine"):
                item.add_marker(pytest.mark.skip(reason="SGLang is not installed (make env)"))


@pytest.fixture(scope="session")
def random_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny SDAR with random weights, the hardest model there is for a constraint."""
    return write_random_checkpoint(tmp_path_factory.mktemp("random-sdar"))


@pytest.fixture(scope="session")
def small_random_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a vocabulary of 400, which makes a step twenty times as fast."""
    return write_random_checkpoint(tmp_path_factory.mktemp("small-random-sdar"), small=True)


@pytest.fixture
def report(record_property) -> Callable[[str], None]:
    """``report(line)``: a measured figure, printed at the end of the run."""
    return lambda line: record_property("figure", line)


def pytest_terminal_summary(terminalreporter) -> None:
    reports = [r for r in terminalreporter.stats.get("passed", []) if r.when == "call"]
    figures = [line for r in reports for name, line in r.user_properties if name == "figure"]
    if figures:
        terminalreporter.section("figures")
        for line in figures:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def shipped_checkpoint() -> Path:
    """The tiny model that comes with the plugin."""
    folder = Path(str(files("lave_plugin.demo") / "checkpoint"))
    if not (folder / "config.json").is_file():
        pytest.fail("no checkpoint in lave_plugin/demo/checkpoint, where one ships")
    return folder


def is_alive(server: Server) -> bool:
    return server.process is not None and server.process.poll() is None


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[..., Server]]:
    """``serve(model_path, **options)``: a running server with these options of ``Server``.

    A start takes 20 to 30 s, so a server is kept for the next test that asks for the same.
    Another request stops it first: on a small machine one engine at a time is enough. A
    test that needs two, or that stops or harms one, makes its own ``Server``.
    """
    running: list[tuple[str, Server]] = []

    def stop() -> None:
        while running:
            running.pop()[1].stop()

    def serve(model_path: Path, **options) -> Server:
        wanted = repr((str(model_path), sorted(options.items())))
        if running and running[0][0] == wanted and is_alive(running[0][1]):
            return running[0][1]
        stop()
        running.append((wanted, Server(model_path, **options).start()))
        return running[0][1]

    yield serve
    stop()


@pytest.fixture
def lave_server(serve, small_random_checkpoint) -> Server:
    """A server of noise, for whatever needs no other."""
    return serve(small_random_checkpoint, **LAVE)


@pytest.fixture
def shipped_server(serve, shipped_checkpoint) -> Server:
    """A server of the model that ships."""
    return serve(shipped_checkpoint, **LAVE)
