"""What the replay asks for: reference answers, their grammars, and judges of any answer.

From a folder of data, or made up where there is none. A reference that its own grammar does not
accept can't be replayed; it is counted, not used. The grammars are those that a server would have:
schemas as ``grammar/json_schema`` reads them, programs and molecules by the grammars that ship.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import xgrammar

from lave_plugin import grammars
from lave_plugin.bench.synthetic import molecules, programs
from lave_plugin.bench.tasks import NoSuchTasks
from lave_plugin.demo.checks import Check, json_schema
from lave_plugin.demo.tasks import held_out
from lave_plugin.grammar.by_bytes import compile_text
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.options import LaveOptions

LONGEST = 1500
"""Bytes of a reference; longer ones are left out, as a few of them would be most of the time."""
LANGUAGES = {"C++": "cpp", "Java": "java", "Go": "go"}


@dataclass(frozen=True)
class Request:
    """One answer to give.

    Attributes:
        name: which one it is, in a report.
        reference: the answer that the simulated model has in mind.
        compiled: the constraint.
        check: says of a text why it is not acceptable, or None; it shares nothing with the
            plugin's states.
    """

    name: str
    reference: bytes
    compiled: xgrammar.CompiledGrammar
    check: Check

    def in_grammar(self, text: bytes) -> bool:
        """Whether xgrammar's own matcher accepts ``text``."""
        return _complaint(self.compiled, text) is None


@dataclass(frozen=True)
class Task:
    """A kind of text; ``offered`` counts the references that were looked at for its requests."""

    name: str
    requests: list[Request]
    offered: int

    @classmethod
    def of(cls, name: str, offered: Iterable[Request | None], count: int) -> Task:
        """The first ``count`` requests whose references can be given; None is one that can't be
        served."""
        usable: list[Request] = []
        looked_at = 0
        for request in offered:
            looked_at += 1
            if request is not None and _can_be_given(request):
                usable.append(request)
            if len(usable) == count:
                break
        return cls(name, usable, looked_at)


def _can_be_given(request: Request) -> bool:
    text = request.reference
    return (
        len(text) <= LONGEST and request.in_grammar(text) and request.check(text.decode()) is None
    )


def tasks(data: Path | None, count: int, seed: int) -> list[Task]:
    """The tasks: those that ``data`` has files for, or three that are made up.

    ``json_bench.jsonl``: instance_id, schema (a string), output. ``jsonschemabench.jsonl``: id,
    schema, tests of data and valid; the first valid one is the reference. ``humaneval_cpp.jsonl``,
    ``_java`` and ``_go``: task_id, declaration, canonical_solution, and import where it has one
    (HumanEval-X).

    Args:
        data: a folder.
        count: requests of a task.
        seed: of what is made up, and of the order in which the data are gone through.

    Raises:
        NoSuchTasks: The folder has none of the files, or a line lacks a field.
    """
    # Without lark there is no judge of SMILES.
    smiles = [Task.of("SMILES", _molecules(seed), count)] if molecules.can_judge() else []
    if data is None:
        return [
            Task.of("JSON", _made_records(count, seed), count),
            Task.of("C++", _made_programs(count, seed), count),
            *smiles,
        ]
    readers = {
        "json_bench.jsonl": ("JSON", _json_bench),
        "jsonschemabench.jsonl": ("JSONSchemaBench", _jsonschemabench),
        **{f"humaneval_{name}.jsonl": (language, _humaneval) for language, name in
           LANGUAGES.items()},
    }  # fmt: skip
    found = []
    for file, (name, read) in readers.items():
        path = data / file
        if path.is_file():
            found.append(Task.of(name, _read(path, name, read, seed), count))
    if not found:
        raise NoSuchTasks(f"{data} holds none of {', '.join(readers)}.")
    return [*found, *smiles]


def _read(path: Path, task: str, read, seed: int) -> Iterator[Request | None]:
    lines = list(enumerate(path.read_text().splitlines(), 1))
    random.Random(f"{seed} {task}").shuffle(lines)
    for number, line in lines:
        try:
            yield read(json.loads(line), task)
        except (KeyError, TypeError) as error:
            raise NoSuchTasks(f"{path}, line {number}: no {error}.") from None


# --- JSON ---------------------------------------------------------------------------------


def _json_bench(line: Mapping[str, Any], _: str) -> Request | None:
    return _by_schema(line["instance_id"], json.loads(line["schema"]), line["output"])


def _jsonschemabench(line: Mapping[str, Any], _: str) -> Request | None:
    valid = (test["data"] for test in line["tests"] if test["valid"])
    value = next(valid, valid)
    if value is valid:
        return None
    return _by_schema(line["id"], line["schema"], json.dumps(value, ensure_ascii=False))


def _made_records(count: int, seed: int) -> Iterator[Request | None]:
    for index, sample in enumerate(held_out(count, seed)):
        yield _by_schema(f"{sample.kind} {index}", sample.schema, sample.answer)


def _by_schema(name: str, schema: Any, answer: str) -> Request | None:
    try:
        compiled = compile_text("json_schema", json.dumps(schema), LaveOptions.json_max_whitespace)
    except UnsupportedGrammar:
        return None
    return Request(name, answer.encode(), compiled, json_schema(schema))


# --- programs -----------------------------------------------------------------------------


def _humaneval(line: Mapping[str, Any], language: str) -> Request:
    text = line.get("import", "") + line["declaration"] + line["canonical_solution"]
    return _program(line["task_id"], LANGUAGES[language], text)


def _made_programs(count: int, seed: int) -> Iterator[Request]:
    rng = random.Random(f"programs {seed}")
    for index in range(count):
        yield _program(f"program {index}", "cpp", programs.program(rng))


def _program(name: str, grammar: str, text: str) -> Request:
    """Judged by xgrammar on the same grammar: no other parser of a language is at hand."""
    compiled = _shipped(grammar)
    return Request(name, text.encode(), compiled, lambda text: _complaint(compiled, text))


def _complaint(compiled: xgrammar.CompiledGrammar, text: str | bytes) -> str | None:
    """Why xgrammar's matcher does not accept a text, or None where it does."""
    matcher = xgrammar.GrammarMatcher(compiled)
    if not matcher.accept_string(text):
        return "not in the grammar"
    return None if matcher.is_completed() else "not finished"


# --- molecules ----------------------------------------------------------------------------


def _molecules(seed: int) -> Iterator[Request]:
    known = list(molecules.MOLECULES.items())
    random.Random(f"{seed} SMILES").shuffle(known)
    for name, smiles in known:
        yield Request(name, smiles.encode(), _shipped("smiles"), molecules.check)


@cache
def _shipped(name: str) -> xgrammar.CompiledGrammar:
    return compile_text(*grammars.load(name))
