"""OpenAI's custom tools: a grammar in one is refused, where the engine would only describe it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import requests

from lave_plugin.engines.sglang.cpu import environment

pytestmark = pytest.mark.engine

GRAMMAR = {"type": "grammar", "syntax": "regex", "definition": "a+"}

# What the engine does with each custom tool of a request to /v1/responses, which needs packages
# that a CPU installation does without: `OpenAIServingResponses._response_tools_to_chat_tools`.
SCRIPT = """
from types import SimpleNamespace
from sglang.srt import runtime_context
from sglang.srt.plugins import load_plugins
load_plugins()
from sglang.srt.entrypoints.openai.responses_adapters import custom_tool_description
for flag in ("none", "lave"):
    server_args = SimpleNamespace(_constrained_decoding=flag)
    runtime_context._CONTEXT._server_args = server_args
    for form in (None, {"type": "text"}, GRAMMAR):
        try:
            print(flag, form and form["type"], custom_tool_description("draws", form)[:5])
        except ValueError as error:
            print(flag, form["type"], f"{error} {error.__cause__}")
"""


def test_a_grammar_is_refused_where_constraints_are_kept():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("GRAMMAR", repr(GRAMMAR))],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(os.environ),
    )
    lines = run.stdout.splitlines()[-6:]
    assert lines[:5] == [
        "none None draws",
        "none text draws",
        "none grammar draws",
        "lave None draws",
        "lave text draws",
    ], run.stderr
    assert lines[5].startswith("lave grammar The grammar in the format of a custom tool is not")


def test_the_chat_api_has_no_such_tools(lave_server):
    tool = {"type": "custom", "custom": {"name": "f", "format": GRAMMAR}}
    body = {"model": "default", "messages": [{"role": "user", "content": "x"}], "tools": [tool]}
    response = requests.post(f"{lave_server.url}/v1/chat/completions", json=body, timeout=20)
    assert response.status_code == 400
    assert "function" in response.text
