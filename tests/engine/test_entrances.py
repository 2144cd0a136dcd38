"""Every way to start the engine takes the constraint along."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from client import generate
from launches import LAVE, living
from mixed_requests import CALL

from lave_plugin.engines.sglang import cpu
from lave_plugin.engines.sglang.server import Server

pytestmark = pytest.mark.engine


class ServeCommand(Server):
    """The same server by its newer name, ``sglang serve``."""

    def command(self, folder: Path) -> list[str]:
        python, _, _, *arguments = super().command(folder)
        return [python, str(Path(python).with_name("sglang")), "serve", *arguments]


@pytest.fixture(scope="module")
def served(small_random_checkpoint) -> Iterator[Server]:
    args = ["--tool-call-parser", "qwen3_coder"]
    with ServeCommand(small_random_checkpoint, args=args, **LAVE) as server:
        yield server


IN_PROCESS = """
import json, sys
import sglang

def engine_of(mode):
    return sglang.Engine(
        model_path=sys.argv[1],
        dllm_algorithm="LowConfidence",
        constrained_decoding=mode,
        device="cpu",
        attention_backend="torch_native",
        dtype="float32",
        max_total_tokens=4096,
        max_running_requests=4,
    )

if __name__ == "__main__":
    try:
        engine_of("lavae")
    except ValueError as error:
        print("REFUSED", error)
    with engine_of("lave") as engine:
        answer = engine.generate(["x"], {"regex": "[0-9]{20}", "max_new_tokens": 30})
        print("ANSWER", json.dumps(answer[0]["text"]))
"""


def test_engine_in_process(small_random_checkpoint, tmp_path):
    """It refuses an unknown mode before it starts anything."""
    script = tmp_path / "in_process.py"
    script.write_text(IN_PROCESS)
    result = subprocess.run(
        [sys.executable, str(script), str(small_random_checkpoint)],
        env=cpu.environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    (refusal,) = re.findall("REFUSED (.*)", result.stdout)
    assert "constrained_decoding must be one of none, lave, " in refusal
    assert "got 'lavae'" in refusal
    (answer,) = re.findall("ANSWER (.*)", result.stdout)
    assert re.fullmatch("[0-9]{20}", json.loads(answer))


TOOLS = [
    {
        "type": "function",
        "function": {"name": "weather", "parameters": CALL, "strict": True},
    },
    {
        "type": "function",
        "function": {"name": "now", "parameters": {"type": "object", "properties": {}}},
    },
]


def called_tools(url: str, choice: str | dict) -> list[str]:
    """The names of the tools that are called, with right arguments; the engine makes a structural
    tag of the tools (``function_call/``)."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=60, max_retries=0)
    message = (
        client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": "Weather in Oslo?"}],
            tools=TOOLS,
            tool_choice=choice,
            max_tokens=151,
        )
        .choices[0]
        .message
    )
    assert message.tool_calls, message
    for call in message.tool_calls:
        arguments = json.loads(call.function.arguments)
        if call.function.name == "weather":
            assert set(arguments) == {"city", "days"}
            # xgrammar lets blanks stand around a value in XML, and the engine passes them on.
            assert arguments["city"].strip() in ("Oslo", "Lima")
        else:
            assert call.function.name == "now"
    return [call.function.name for call in message.tool_calls]


def test_tool_choice(lave_server):
    """With the parser ``qwen25``, where the tag holds every tool whatever is asked."""
    called_tools(lave_server.url, "required")


def test_tool_choice_in_xml(served):
    """xgrammar knows the format of ``qwen3_coder``, so a named tool has a tag of its own."""
    called_tools(served.url, "required")
    named = {"type": "function", "function": {"name": "weather"}}
    assert called_tools(served.url, named)[0] == "weather"


def test_sglang_serve_answers_and_leaves_no_process(served):
    """The last one on this server, which it stops."""
    body = {"text": "x", "sampling_params": {"regex": "[0-9]{20}", "max_new_tokens": 30}}
    assert re.fullmatch("[0-9]{20}", generate(served.url, body).text)
    processes = served.processes()
    started = time.monotonic()
    served.stop()
    assert time.monotonic() - started < 20
    assert len(processes) >= 3 and not living(processes)
