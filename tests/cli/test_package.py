"""The source package and the wheel that is made of it, in environments of their own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import lave_plugin

ROOT = Path(__file__).parents[2]
NOT_SOURCE = (".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", "*.so", ".*_cache")


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | environment
    return subprocess.run(
        [str(part) for part in command],
        cwd="/",  # from here the checkout would be found first
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> tuple[Path, Path]:
    """The source package and the wheel."""
    for needed in ("build", "setuptools", "pybind11"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed (make env)")
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    shutil.copytree(
        ROOT, source, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*NOT_SOURCE), symlinks=True
    )
    # Unoptimized, since nothing here waits for a state.
    result = run(
        *(sys.executable, "-m", "build", "--no-isolation", "--outdir", built, source),
        LAVE_NATIVE_FLAGS="-O0",
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    (sdist,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def empty(packages, tmp_path_factory) -> Path:
    """An environment with nothing but the wheel."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    result = run(*pip, "install", "--no-index", packages[1])
    assert result.returncode == 0, result.stderr
    return folder


def test_what_is_in_them(packages):
    sdist, wheel = packages
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        text = archive.read(metadata).decode()
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "lave_plugin").rglob("*.py")}
    assert modules <= names
    for data in (
        "lave_plugin/py.typed",
        "lave_plugin/demo/checkpoint/config.json",
        "lave_plugin/grammars/cpp.ebnf",
        "lave_plugin/engines/sglang/cpu/constraints.txt",
    ):
        assert data in names
    assert not [name for name in names if name.startswith(("tests", "benchmarks"))]
    assert not [name for name in names if name.endswith((".cpp", ".hpp"))]
    assert f"\nVersion: {lave_plugin.__version__}\n" in text
    needed = [line for line in text.splitlines() if line.startswith("Requires-Dist")]
    assert needed and all("extra ==" in line for line in needed), "it would change an environment"
    with tarfile.open(sdist) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}
    native = {str(path.relative_to(ROOT)) for path in (ROOT / "lave_plugin/native").rglob("*.?pp")}
    assert native and native <= sources
    assert {"CHANGELOG.md", "LICENSE", "README.md", "docs/operations.md"} <= sources
    assert f"## {lave_plugin.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_alone_it_says_what_is_missing(empty):
    imported = run(empty / "bin/python", "-c", "import lave_plugin; print(lave_plugin.__file__)")
    assert imported.stdout.startswith(str(empty))
    result = run(empty / "bin/lave", "--help")
    assert result.returncode == 1
    assert "typer is not installed" in result.stderr and "environment of SGLang" in result.stderr
    assert "Traceback" not in result.stderr


def test_beside_what_an_engine_needs_it_works(empty, tmp_path):
    """The packages of this environment, seen from the other one, behind its own."""
    (purelib,) = empty.glob("lib/python*/site-packages")
    (purelib / "engine.pth").write_text(sysconfig.get_path("purelib"))
    try:
        (tmp_path / "text").write_text('{"a": 1}')
        result = run(empty / "bin/lave", "check", "--grammar", "json", tmp_path / "text")
        assert (result.returncode, "valid" in result.stdout) == (0, True), result.stderr
        assert "doctor" in run(empty / "bin/lave", "--help").stdout
        where = "import lave_plugin.native as native; print(native.__file__)"
        if shutil.which(os.environ.get("CXX", "c++")):
            found = run(empty / "bin/python", "-c", where)
            assert found.stdout.startswith(str(empty)), found.stderr
    finally:
        (purelib / "engine.pth").unlink()
