"""Every command of README.md and docs/ is run, or stands in a table of those that can't be.

Of these at least the script or subcommand is there and knows the flags. A command without a home
fails ``test_every_command_has_a_home``.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jsonschema
import pytest
import requests
import typer.main
from typer.testing import CliRunner

from lave_plugin.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SERVER = "http://127.0.0.1:30000"

OFFLINE = (
    "lave check",
    "lave complete",
    "lave explain",
    "lave bench scale --cost",
)
ON_A_SERVER = ("lave watch", "lave doctor --url", "curl")
NOT_RUN = {
    "make demo": "starts a server of its own; tests/cli/test_demo.py runs it",
    "make serve": "stays until it is stopped; the shared servers of the tests are started alike",
    "make test": "this is it",
    "pip install": "installs from an index",
    "sglang serve": "needs a GPU and a model",
    "python -m sglang.launch_server": "the same",
    "lave doctor": "starts a server of its own; tests/engine/test_doctor_of_servers.py runs it",
    "lave doctor --no-server": "imports the engine; tests/engine/test_doctor_of_servers.py does",
    "lave bench serve": "minutes; tests/bench/test_serve_benchmark.py",
    "lave bench paper": "minutes; tests/bench/test_paper.py",
    "lave bench report": "of results that were measured; tests/bench/test_report.py",
    "lave bench scale": "the same",
    "lave bench verify": "minutes; tests/bench/test_verify.py",
    "lave bench replay": "minutes, and data; tests/bench/test_replay.py",
    "make package": "builds packages; tests/cli/test_package.py",
    "python benchmarks/reported_cases.py": "needs a file of cases",
    "python benchmarks/agreement.py": "minutes, and data",
    "python benchmarks/schema_honesty.py": "minutes, and data",
    "python benchmarks/grammars.py": "minutes, and data",
    "python benchmarks/step_time.py": "minutes",
    "python benchmarks/neighbours.py": "minutes, and a model; tests/engine/test_neighbours.py",
    "python benchmarks/strategies.py": "minutes",
    "python benchmarks/tree_sampler.py": "minutes",
    "python benchmarks/memory.py": "half a minute",
    "python benchmarks/soak.py": "an hour, and a model",
    "python benchmarks/forced_tokens.py": "minutes",
    "python benchmarks/tiny_dllm.py": "minutes",
    "python -m lave_plugin.demo.training.train": "hours; tests/demo/test_training.py",
    "python -m lave_plugin.demo.training.evaluate": "minutes; tests/demo/test_training.py",
    "lave demo": "starts a server of its own; tests/cli/test_demo.py",
}
"""By how they begin; the longest that fits counts."""
# A command that the text names, to be run where a sentence or a block shows it with arguments.
NAMED = re.compile(r"lave( bench)? [a-z]+")
PICTURE = re.compile("[▢]")


class Command(NamedTuple):
    """A command of a page: its words, and what is piped into it."""

    page: str
    words: list[str]
    stdin: str = ""

    @property
    def text(self) -> str:
        return shlex.join(self.words)

    def home(self) -> str | None:
        """The entry of the tables that it falls under."""
        begins = (*OFFLINE, *ON_A_SERVER, *NOT_RUN)
        text = " ".join(self.words)
        fitting = [begin for begin in begins if f"{text} ".startswith(f"{begin} ")]
        return max(fitting, key=len, default=None)

    def is_mention(self) -> bool:
        """Whether the text only names a subcommand."""
        return NAMED.fullmatch(" ".join(self.words)) is not None

    def is_run(self) -> bool:
        return self.home() in (*OFFLINE, *ON_A_SERVER) and not (
            self.is_mention() and self.home() != "lave watch"
        )


def commands() -> Iterator[Command]:
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        text = page.read_text()
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S):
            if language in ("", "sh", "bash") and not PICTURE.search(block):
                yield from (command(name, words) for words in lines_of(block))
        prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
        for code in re.findall(r"`([^`\n]+)`", prose):
            if re.match(r"(\.venv/bin/)?(lave|python|make|pip|curl|sglang) [\w-]", code):
                yield command(name, shlex.split(code))


def lines_of(block: str) -> Iterator[list[str]]:
    """The words of each command of a block, which may go on over lines; comments are left out."""
    pending = ""
    for line in block.splitlines(keepends=True):
        pending += line
        try:
            words = shlex.split(pending.replace("\\\n", " "), comments=True)
        except ValueError:  # a quotation that goes on
            continue
        if pending.rstrip().endswith("\\"):
            continue
        pending = ""
        if words:
            yield words
    assert not pending, pending


def command(page: str, words: list[str]) -> Command:
    stdin = ""
    if "|" in words:
        pipe = words.index("|")
        echo, words = words[:pipe], words[pipe + 1 :]
        assert echo[0] == "echo", f"{page}: {echo}"
        stdin = echo[2] if echo[1] == "-n" else echo[1] + "\n"
    return Command(page, [words[0].removeprefix(".venv/bin/"), *words[1:]], stdin)


COMMANDS = list(commands())


def test_every_command_has_a_home():
    assert len(COMMANDS) > 30, "the pages are not read as they were"
    without = [f"{c.page}: {c.text}" for c in COMMANDS if c.home() is None]
    assert not without, "run it here, or say in NOT_RUN why not"


def test_no_home_stands_empty():
    homes = {command.home() for command in COMMANDS}
    assert set(NOT_RUN) | set(OFFLINE) | set(ON_A_SERVER) == homes


def lave(words: list[str], stdin: str = ""):
    return CliRunner().invoke(app, words[1:], input=stdin)


OFFLINE_STATUS = {"lave check --grammar json -": 1}  # the page shows a text that is invalid


@pytest.mark.parametrize(
    "command",
    [pytest.param(c, id=c.text) for c in COMMANDS if c.is_run() and c.home() in OFFLINE],
)
def test_offline(command):
    result = lave(command.words, command.stdin)
    assert result.exit_code == OFFLINE_STATUS.get(command.text, 0), result.output


NOT_RUN_HERE = [pytest.param(c, id=f"{c.page}: {c.text}") for c in COMMANDS if not c.is_run()]


@pytest.mark.parametrize("command", NOT_RUN_HERE)
def test_what_is_not_run_is_there_and_knows_the_flags(command):
    program, *rest = command.words
    flags = flags_in(rest)
    if program == "make":
        assert re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), re.M)
    elif program == "lave":
        assert flags <= flags_of_lave(rest)
    elif program == "python" and rest[0] != "-m":
        source = (ROOT / rest[0]).read_text()
        assert not [flag for flag in flags if not reads(source, flag)]


def flags_in(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if word.startswith("--")}


def flags_of_lave(words: list[str]) -> set[str]:
    """The options of the subcommand that ``words`` begin with."""
    found = typer.main.get_command(app)
    for word in words:
        if hasattr(found, "commands"):
            found = found.commands[word]
    return {option for parameter in found.params for option in parameter.opts}


def reads(source: str, flag: str) -> bool:
    """Whether a script has an argument of that name, argparse's or a parameter for typer.

    To ask the scripts themselves for ``--help`` takes a minute, for what they import.
    """
    parameter = flag.removeprefix("--").replace("-", "_")
    return f'"{flag}"' in source or re.search(rf"^ +{parameter}: ", source, re.M) is not None


@pytest.mark.engine
def test_the_engine_knows_its_flags():
    """Its arguments are fields of classes; these are read, as they take long to import."""
    engine = Path(importlib.util.find_spec("sglang").origin).parent
    fields = [path.read_text() for path in (engine / "srt" / "arg_groups" / "fields").glob("*.py")]
    own = (ROOT / "lave_plugin" / "engines" / "sglang" / "arguments.py").read_text()
    known = "\n".join([*fields, own])
    by_module = ["-m", "sglang.launch_server"]
    launches = [c for c in COMMANDS if c.words[0] == "sglang" or c.words[1:3] == by_module]
    flags = {flag for command in launches for flag in flags_in(command.words)}
    assert len(flags) >= 5
    assert not [flag for flag in flags if not reads(known, flag)]
    assert not reads(known, "--no-such-flag")


@pytest.mark.engine
def test_on_a_server(shipped_server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where a page lets a file be written
    wanted = [c for c in COMMANDS if c.is_run() and c.home() in ON_A_SERVER]
    assert {c.words[0] for c in wanted} == {"lave", "curl"}
    for command in wanted:
        words = [word.replace(SERVER, shipped_server.url) for word in command.words]
        if words[0] == "curl":
            send(words)
            continue
        if words[1] == "watch" and shipped_server.url not in words:
            words += ["--url", shipped_server.url]
        result = lave(words)
        assert result.exit_code == 0, f"{command.page}: {command.text}\n{result.output}"


def send(words: list[str]) -> None:
    """What ``curl URL -H HEADER -d BODY`` sends, and an answer that obeys."""
    _, url, *options = words
    given = dict(zip(options[::2], options[1::2], strict=True))
    header, _, value = given["-H"].partition(": ")
    answer = requests.post(url, data=given["-d"], headers={header: value}, timeout=60)
    assert answer.status_code == 200, answer.text
    pattern = json.loads(given["-d"])["sampling_params"].get("regex")
    assert answer.json()["meta_info"]["lave"]["complete"]
    assert pattern is None or re.fullmatch(pattern, answer.json()["text"])


@pytest.mark.engine
def test_the_python_of_the_readme(shipped_server):
    (source,) = re.findall(r"^```python\n(.*?)^```", PAGES[0].read_text(), re.M | re.S)
    assert SERVER in source
    names: dict = {}
    exec(source.replace(SERVER, shipped_server.url), names)
    person = json.loads(names["answer"].choices[0].message.content)
    schema = re.search(r'"schema": (\{.*?\n {12}\})', source, re.S)[1]
    jsonschema.validate(person, eval(schema))
