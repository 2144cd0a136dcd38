"""Checkpoints and the real servers for tests marked ``engine``.

To start a server takes longer than most of what is asked of it, so tests share them, and files are
put in an order in which each process of pytest-xdist (``make test``) has to start few.
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    by_file: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_file.setdefault(item.nodeid.partition("::")[0], []).append(item)
    for of_file in by_file.values():
        of_file.sort(key=_server_rank)
    # The long ones first, those of one server one behind the other, to another's at the end.
    order = sorted(
        by_file.values(),
        key=lambda file: (not _is_engine(file[0]), _server_rank(file[0]), _server_rank(file[-1])),
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
    """A server of noise, for whatever needs no other; it counts (``/metrics``)."""
    return serve(small_random_checkpoint, args=["--enable-metrics"], **LAVE)


@pytest.fixture
def shipped_server(serve, shipped_checkpoint) -> Server:
    """A server of the model that ships."""
    return serve(shipped_checkpoint, **LAVE)
