"""The patches apply to the sources of the engine that is installed, and do what the hooks did."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from client import post
from launches import LAVE, install_plugin
from random_checkpoint import MASK_ID, SPECIAL

from lave_plugin.engines.sglang import cpu
from lave_plugin.engines.sglang.server import Server

FACTS = Path(__file__).with_name("engine_facts.py")
FOLDER = Path(__file__).parents[2] / "patches"
PATCHES = sorted(FOLDER.glob("*.patch"))
README = (FOLDER / "README.md").read_text()


def engine() -> Path:
    """The folder that holds ``sglang``, as it is installed."""
    return Path(importlib.util.find_spec("sglang").submodule_search_locations[0]).parent


def touched_by(patch: Path) -> list[Path]:
    names = re.findall(r"^\+\+\+ b/(.+)$", patch.read_text(), re.MULTILINE)
    assert names
    return [Path(name) for name in names]


def apply(patch: Path, folder: Path) -> None:
    subprocess.run(["git", "apply", "-p1", str(patch)], cwd=folder, check=True)


def handlers_in(cell: str) -> list[str]:
    return re.findall(r"`([a-z_.]+)`", cell)


def needless_with(patch: Path) -> list[str]:
    """The hooks that a patch makes needless, as patches/README.md says."""
    (cell,) = re.findall(rf"^\| `{re.escape(patch.name)}` \| (.+) \| .+ \|$", README, re.MULTILINE)
    return handlers_in(cell)


def handlers() -> set[str]:
    """Of all hooks, read without importing the engine."""
    contract = files("lave_plugin.engines.sglang") / "contract.py"
    calls = [
        node
        for node in ast.walk(ast.parse(contract.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Hook"
    ]
    names = {ast.unparse(call.args[2]) for call in calls}
    return {name if "." in name else f"contract.{name}" for name in names}


def test_every_hook_has_a_patch_or_a_reason_why_not():
    own = handlers_in("".join(re.findall(r"^\| (`[a-z].+`) \|", README, re.MULTILINE)))
    patched = [handler for patch in PATCHES for handler in needless_with(patch)]
    assert len(patched) > 4
    assert sorted([*own, *patched]) == sorted(handlers())


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


@pytest.fixture(scope="module")
def patched(tmp_path_factory) -> Path:
    """A folder with ``sglang``, every patch applied; what none touches is linked to."""
    folder = tmp_path_factory.mktemp("patched")
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
    return folder


MISSING = "not_installed"
FAULTY_PLUGINS = {
    "sound": "def register(): pass",
    "not_importable": "import nothing_of_that_name",
    "not_runnable": "def register(): raise ArithmeticError('injected')",
    "on_what_is_gone": """
def register():
    from sglang.srt.plugins.hook_registry import HookRegistry
    HookRegistry.register("sglang.srt.plugins.gone", print)
""",
}


@pytest.fixture(scope="module")
def facts(patched, small_random_checkpoint, tmp_path_factory) -> dict[str, Any]:
    """What the patched engine does without the plugin."""
    plugins, names_no_mask = map(tmp_path_factory.mktemp, ("plugins", "names-no-mask"))
    shutil.copytree(small_random_checkpoint, names_no_mask, dirs_exist_ok=True)
    config = json.loads((names_no_mask / "config.json").read_text())
    del config["mask_token_id"]
    (names_no_mask / "config.json").write_text(json.dumps(config))
    for name, source in FAULTY_PLUGINS.items():
        install_plugin(plugins, name, source)
    path = os.pathsep.join([str(patched), str(plugins), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, FACTS, small_random_checkpoint, names_no_mask, *FAULTY_PLUGINS, MISSING],
        env=cpu.environment({**os.environ, "PYTHONPATH": path, "SGLANG_PLUGINS": "none"}),
        stdout=subprocess.PIPE,
        timeout=300,
        check=True,
    )
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.engine
def test_the_checkpoint_names_its_mask(facts):
    assert facts["mask ids"] == [SPECIAL.index("<|MASK|>"), MASK_ID]


@pytest.mark.engine
def test_a_constraint_that_is_not_enforced_is_refused(facts):
    kinds = ("json_schema", "regex", "ebnf", "structural_tag")
    assert facts["refused"] == {"free": None} | {
        kind: f"The diffusion algorithm LowConfidence does not enforce {kind}; send the request "
        "without it."
        for kind in kinds
    }
    assert facts["refused where enforced"] == dict.fromkeys((*kinds, "free"))


@pytest.mark.engine
def test_a_block_ends_though_the_model_likes_its_masks_best(facts):
    """One token a step, and one step that sees that all is done; the second may edit on."""
    assert facts["steps"]["LowConfidence"] == 8
    assert 8 <= facts["steps"]["JointThreshold"] < 32


@pytest.mark.engine
def test_a_plugin_s_options_reach_other_processes(facts):
    assert facts["options"] == {"_own": "chosen", "_left": "as it was", "public": None}


@pytest.mark.engine
def test_a_required_plugin_stands_or_nothing_starts(facts):
    assert set(facts["not required"].values()) == {None}
    not_loaded = "RuntimeError: Required plugins are not loaded: {}. They are not installed, "
    for plugin, sentence in {
        "not_importable": not_loaded.format("not_importable"),
        MISSING: not_loaded.format(MISSING),
        "not_runnable": "ArithmeticError: injected",
        "on_what_is_gone": "AttributeError: ",
    }.items():
        assert facts["required"].pop(plugin).startswith(sentence)
    assert facts["required"] == {"sound": None}


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
    patched, small_random_checkpoint, tmp_path
):
    handlers = [handler for patch in PATCHES for handler in needless_with(patch)]
    source = WITHOUT_HOOKS.format(handlers=handlers)
    path = install_plugin(tmp_path, "without_hooks", source)["PYTHONPATH"]
    env = {
        "PYTHONPATH": f"{patched}{os.pathsep}{path}",
        # Without the folder that the tests run in, where the plugin's own entry point may be first.
        "PYTHONSAFEPATH": "1",
        "SGLANG_REQUIRED_PLUGINS": "lave, without_hooks",
    }
    with (
        Server(small_random_checkpoint, env=env, **LAVE) as server,
        ThreadPoolExecutor(4) as pool,
    ):
        assert (tmp_path / "hooks_are_off").exists()

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
