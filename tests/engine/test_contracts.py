"""The page on contracts names every hook."""

from __future__ import annotations

import ast
import re
from importlib.resources import files
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "contracts.md"


def hooks() -> list[str]:
    """Their targets, read without importing the engine."""
    tree = ast.parse((files("lave_plugin.engines.sglang") / "contract.py").read_text())
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Hook"
    ]
    return [call.args[0].value for call in calls]


def test_every_hook_stands_on_the_page():
    targets = re.findall(r"^\| `([a-zA-Z0-9_.]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(f"sglang.srt.{target}" for target in targets) == sorted(hooks())
    assert len(targets) > 10
