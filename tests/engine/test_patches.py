"""The patches apply to the sources of the engine that is installed, and do what the hooks did."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from client import post
from launches import LAVE, install_plugin

from lave_plugin.engines.sglang.server import Server

FOLDER = Path(__file__).parents[2] / "patches"
PATCHES = sorted(FOLDER.glob("*.patch"))


def engine() -> Path:
    """The folder that holds ``sglang``, as it is installed."""
    return Path(importlib.util.find_spec("sglang").submodule_search_locations[0]).parent


def touched_by(patch: Path) -> list[Path]:
    names = re.findall(r"^\+\+\+ b/(.+)$", patch.read_text(), re.MULTILINE)
    assert names
    return [Path(name) for name in names]


def apply(patch: Path, folder: Path) -> None:
    subprocess.run(["git", "apply", "-p1", str(patch)], cwd=folder, check=True)


def handler_of(patch: Path) -> str:
    """The hook that a patch makes needless, as patches/README.md says."""
    (handler,) = re.findall(rf"^\| `{re.escape(patch.name)}` \| `(.+)` \|$", README, re.MULTILINE)
    return handler


README = (FOLDER / "README.md").read_text()


def test_there_are_patches():
    assert PATCHES


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_it_applies_and_what_it_makes_is_python(patch, tmp_path):
    touched = touched_by(patch)
    for name in touched:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(engine() / name, tmp_path / name)
    apply(patch, tmp_path)
    for name in touched:
        changed = (tmp_path / name).read_text()
        assert changed != (engine() / name).read_text()
        ast.parse(changed)


def patched_engine(folder: Path) -> None:
    """``sglang`` in ``folder`` with every patch applied; what none touches is linked to."""
    touched = {name for patch in PATCHES for name in touched_by(patch)}

    def mirror(name: Path) -> None:
        if name in touched:
            shutil.copy(engine() / name, folder / name)
        elif any(name in each.parents for each in touched):
            (folder / name).mkdir()
            for entry in (engine() / name).iterdir():
                if entry.name != "__pycache__":
                    mirror(name / entry.name)
        else:
            (folder / name).symlink_to(engine() / name)

    mirror(Path("sglang"))
    for patch in PATCHES:
        apply(patch, folder)


WITHOUT_HOOKS = """
from pathlib import Path

def register():  # found before the plugin's own
    from sglang.srt.plugins.hook_registry import HookRegistry
    from lave_plugin.engines.sglang import contract
    assert not HookRegistry._hooks
    kept = [hook for hook in contract.HOOKS
            if f"{{hook.handler.__module__}}.{{hook.handler.__name__}}".rpartition("sglang.")[2]
            not in {handlers!r}]
    assert len(kept) == len(contract.HOOKS) - len({handlers!r})
    contract.HOOKS = tuple(kept)
    Path(__file__).with_name("hooks_are_off").touch()
"""


@pytest.mark.engine
def test_with_the_patches_constraints_are_kept_without_those_hooks(
    small_random_checkpoint, tmp_path
):
    patched, plugin = tmp_path / "patched", tmp_path / "plugin"
    patched.mkdir()
    plugin.mkdir()
    patched_engine(patched)
    source = WITHOUT_HOOKS.format(handlers=[handler_of(patch) for patch in PATCHES])
    path = install_plugin(plugin, "without_hooks", source)["PYTHONPATH"]
    # Without the folder that the tests run in, where the plugin's own entry point may be first.
    env = {"PYTHONPATH": f"{patched}{os.pathsep}{path}", "PYTHONSAFEPATH": "1"}
    with (
        Server(small_random_checkpoint, env=env, **LAVE) as server,
        ThreadPoolExecutor(4) as pool,
    ):
        assert (plugin / "hooks_are_off").exists()

        def ask(**parameters) -> tuple[int, str]:
            body = {"text": "x", "sampling_params": {"max_new_tokens": 40, **parameters}}
            response = post(server.url, body, timeout=30)  # without either it never answers
            return response.status_code, response.json().get("text", "")

        digits = list(pool.map(lambda count: ask(regex=f"[0-9]{{{count}}}"), [3, 3, 9, 20]))
        assert [(status, len(text)) for status, text in digits] == [
            (200, count) for count in (3, 3, 9, 20)
        ]
        assert ask(regex="[0-9") == (400, "")
        assert ask(json_schema='{"enum": ["yes"]}') == (200, '"yes"')
