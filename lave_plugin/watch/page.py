"""The steps as one page that needs nothing else: no network, no build."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.resources import files

from lave_plugin.trace import FATES
from lave_plugin.watch.story import Story
from lave_plugin.watch.terminal import SIGNS

_PLACE = "__STORY__"


def page(story: Story) -> str:
    """The HTML text."""
    data = {
        "prompt": story.prompt,
        "kind": story.kind,
        "constraint": story.constraint,
        "answer": story.answer,
        "facts": {name: value for name, value in story.facts.items() if name != "trace"},
        "trace": story.trace,
        "told": [[asdict(line) for line in story.told(step)] for step in story.steps],
        "fates": {
            fate: {"sign": SIGNS[fate][0], "meaning": meaning} for fate, meaning in FATES.items()
        },
    }
    template = (files("lave_plugin.watch") / "page.html").read_text(encoding="utf-8")
    # Inside a script element, where only its end tag has a meaning.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    before, after = template.split(_PLACE)
    return before + text + after
