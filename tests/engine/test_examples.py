"""The programs of ``examples/`` do what they say, against a server of the model that ships."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import requests
import xgrammar

from lave_plugin import grammars
from lave_plugin.grammar.by_bytes import compile_text

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT = 120


def command(name: str, *arguments: str) -> list[str]:
    return [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]


def output(name: str, *arguments: str) -> str:
    done = subprocess.run(
        command(name, *arguments), capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.engine
def test_the_extraction_service(shipped_server):
    service = subprocess.Popen(
        command("extraction_service", "--url", shipped_server.url, "--port", "0"),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        url = service.stdout.readline().split()[-1]
        text = "Wandering Tide plays in Cork on March 24, 2001; 8082 seats were sold."
        answer = requests.post(url, data=text, timeout=TIMEOUT)
        assert answer.json() == {"title": "Wandering Tide", "date": "2001-03-24", "seats": 8082}
        assert requests.post(url, data="", timeout=20).status_code == 400
        longer = "a" * 1999  # more than the model's context
        assert requests.post(url, data=longer, timeout=TIMEOUT).status_code == 502
    finally:
        service.kill()
        service.wait()
        service.stdout.close()


@pytest.mark.engine
def test_the_agent_ends_with_an_answer(shipped_server):
    lines = output("agent", "--url", shipped_server.url).splitlines()
    assert {line.split()[0] for line in lines} <= {"thought", "call", "answer"}
    assert lines[-1].startswith("answer") and 2 <= len(lines) <= 8


@pytest.mark.engine
def test_the_snippets_are_in_the_grammar(shipped_server):
    """By xgrammar's own matcher."""
    text = output("cpp_snippets", "--url", shipped_server.url, "--max-tokens", "60", "a sum")
    source = text.removeprefix("// a sum\n").partition("\n// g++: ")[0]
    compiled = compile_text(*grammars.load("cpp"))
    matcher = xgrammar.GrammarMatcher(compiled, terminate_without_stop_token=True)
    assert matcher.accept_string(source) and matcher.is_terminated(), source


@pytest.mark.engine
def test_the_batch_job_goes_on_where_it_was(shipped_server, tmp_path):
    lines, records = tmp_path / "lines.txt", tmp_path / "records.jsonl"
    lines.write_text("2015 saw Fading Railway by Goilmar Urban (460 pages).\n\nA book by Ada.\n")
    output("batch_job", str(lines), str(records), "--url", shipped_server.url)
    first = records.read_text()
    with lines.open("a") as more:
        more.write("Another one.\n")
    output("batch_job", str(lines), str(records), "--url", shipped_server.url)
    assert records.read_text().startswith(first)
    found = {entry["line"]: entry["record"] for entry in map(json.loads, records.open())}
    assert len(found) == 3 == records.read_text().count("\n")
    sys.path.insert(0, str(EXAMPLES))
    try:
        from batch_job import SCHEMA
    finally:
        sys.path.remove(str(EXAMPLES))
    for record in found.values():
        jsonschema.validate(record, SCHEMA)
    assert found["2015 saw Fading Railway by Goilmar Urban (460 pages)."]["pages"] == 460
