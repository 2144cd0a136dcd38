"""Checkpoints and the real servers for tests marked ``engine``.

To start a server takes longer than most of what is asked of it, so tests share them, and one
process of pytest-xdist (``make test``) runs all files that ask the same one (``../conftest.py``).
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from launches import LAVE
from random_checkpoint import write_random_checkpoint

from lave_plugin.demo.shipped import CHECKPOINT, algorithm_config
from lave_plugin.engines.sglang.server import Server

# How many a process keeps: one that is shared, and one of the file that it is at.
SERVERS_KEPT = 2


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


def is_alive(server: Server) -> bool:
    return server.process is not None and server.process.poll() is None


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[..., Server]]:
    """``serve(model_path, **options)``: a running server with these options of ``Server``.

    A start takes 20 to 30 s, so a server is kept for the next test that asks for the same. The
    one that was asked longest ago makes room. A test that stops or harms one makes its own.
    """
    running: dict[str, Server] = {}  # the last one asked is the last one here

    def serve(model_path: Path, **options) -> Server:
        wanted = repr((str(model_path), sorted(options.items())))
        server = running.pop(wanted, None)
        if server is None or not is_alive(server):
            while len(running) >= SERVERS_KEPT:
                running.pop(next(iter(running))).stop()
            server = Server(model_path, **options).start()
        running[wanted] = server
        return server

    yield serve
    for server in running.values():
        server.stop()


@pytest.fixture
def lave_server(serve, small_random_checkpoint) -> Server:
    """A server of noise, for whatever needs no other; it counts, and it knows of tools."""
    args = ["--enable-metrics", "--tool-call-parser", "qwen25"]
    return serve(small_random_checkpoint, args=args, **LAVE)


@pytest.fixture
def shipped_server(serve) -> Server:
    """A server of the model that ships."""
    return serve(CHECKPOINT, **{**LAVE, "algorithm_config": algorithm_config()})
