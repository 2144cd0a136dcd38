"""The page on contracts names every hook, with the reason that the code gives."""

from __future__ import annotations

import ast
import re
from importlib.resources import files
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "contracts.md"


def hooks() -> dict[str, str]:
    """Target and reason of each, read without importing the engine."""
    tree = ast.parse((files("lave_plugin.engines.sglang") / "contract.py").read_text())
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Hook"
    ]
    return {call.args[0].value: call.args[4].value for call in calls}


def test_every_hook_stands_on_the_page():
    rows = re.findall(
        r"^\| `([a-zA-Z0-9_.]+)` \| (.+?) \| (.+?) \|$", PAGE.read_text(), re.MULTILINE
    )
    assert {f"sglang.srt.{target}" for target, _, _ in rows} == set(hooks())
    assert len(rows) == len(hooks()) > 10
