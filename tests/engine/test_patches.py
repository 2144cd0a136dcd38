"""The patches apply to the sources of the engine that is installed."""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PATCHES = sorted((Path(__file__).parents[2] / "patches").glob("*.patch"))


def test_there_are_patches():
    assert PATCHES


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_it_applies_and_what_it_makes_is_python(patch, tmp_path):
    sources = Path(importlib.util.find_spec("sglang").submodule_search_locations[0]).parent
    touched = re.findall(r"^\+\+\+ b/(.+)$", patch.read_text(), re.MULTILINE)
    assert touched
    for name in touched:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(sources / name, tmp_path / name)
    subprocess.run(["git", "apply", "-p1", str(patch)], cwd=tmp_path, check=True)
    for name in touched:
        changed = (tmp_path / name).read_text()
        assert changed != (sources / name).read_text()
        ast.parse(changed)
