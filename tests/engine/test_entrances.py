"""Every way to start the engine takes the constraint along."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import openai
import pytest
from client import generate
from launches import LAVE
from mixed_requests import CALL

from lave_plugin.engines.sglang import cpu
from lave_plugin.engines.sglang.server import Server

pytestmark = pytest.mark.engine


class ServeCommand(Server):
    """The same server by its newer name, ``sglang serve``."""

    def command(self, folder: Path) -> list[str]:
        python, _, _, *arguments = super().command(folder)
        return [python, str(Path(python).with_name("sglang")), "serve", *arguments]


def test_sglang_serve(small_random_checkpoint):
    with ServeCommand(small_random_checkpoint, **LAVE) as server:
        body = {"text": "x", "sampling_params": {"regex": "[0-9]{20}", "max_new_tokens": 30}}
        assert re.fullmatch("[0-9]{20}", generate(server.url, body).text)


IN_PROCESS = """
import json, sys
import sglang

if __name__ == "__main__":
    engine = sglang.Engine(
        model_path=sys.argv[1],
        dllm_algorithm="LowConfidence",
        constrained_decoding=sys.argv[2],
        device="cpu",
        attention_backend="torch_native",
        dtype="float32",
        max_total_tokens=4096,
        max_running_requests=4,
    )
    try:
        answer = engine.generate(["x"], {"regex": "[0-9]{20}", "max_new_tokens": 30})
        print("ANSWER", json.dumps(answer[0]["text"]))
    except ValueError as error:
        print("REFUSED", error)
    finally:
        engine.shutdown()
"""


def run_in_process(checkpoint: Path, folder: Path, mode: str) -> str:
    script = folder / "in_process.py"
    script.write_text(IN_PROCESS)
    result = subprocess.run(
        [sys.executable, str(script), str(checkpoint), mode],
        env=cpu.environment(),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return result.stdout + result.stderr


def test_engine_in_process(small_random_checkpoint, tmp_path):
    output = run_in_process(small_random_checkpoint, tmp_path, "lave")
    (answer,) = re.findall("ANSWER (.*)", output)
    assert re.fullmatch("[0-9]{20}", json.loads(answer))


def test_engine_in_process_refuses_an_unknown_mode(small_random_checkpoint, tmp_path):
    output = run_in_process(small_random_checkpoint, tmp_path, "lavae")
    assert "constrained_decoding must be one of none, lave, " in output
    assert "got 'lavae'" in output


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


@pytest.mark.parametrize(
    ("parser", "choice"),
    [
        ("qwen25", "required"),
        ("qwen3_coder", "required"),
        ("qwen3_coder", {"type": "function", "function": {"name": "weather"}}),
    ],
    ids=["required", "required-xml", "named-xml"],
)
def test_tool_choice(serve, small_random_checkpoint, parser, choice):
    """The engine makes a structural tag of the tools (``function_call/``).

    Of a named tool it makes one of that tool alone only where xgrammar knows the model's format;
    for the others, ``qwen25`` among them, its tag holds every tool.
    """
    server = serve(small_random_checkpoint, args=["--tool-call-parser", parser], **LAVE)
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=60, max_retries=0)
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
    if choice != "required":
        assert message.tool_calls[0].function.name == "weather"
