"""Checkpoints and the real server for tests marked ``engine``."""

import importlib.util
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from random_checkpoint import write_random_checkpoint

from lave_plugin.engines.sglang.server import Server

FIGURES = pytest.StashKey[list[str]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
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


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """``report(line)``: a measured figure, printed at the end of the run."""
    return request.config.stash.setdefault(FIGURES, []).append


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    if figures := config.stash.get(FIGURES, []):
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
        if running and running[0][0] == wanted and running[0][1].process.poll() is None:
            return running[0][1]
        stop()
        running.append((wanted, Server(model_path, **options).start()))
        return running[0][1]

    yield serve
    stop()
