"""What the replay asks for: reference answers, their grammars, and judges of any answer.

From a folder of data, or made up where there is none. A reference that its own grammar does not
accept cannot be replayed; it is counted, not used.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import cpp_subset
import molecules
import xgrammar

from lave_plugin.demo.checks import Check, json_schema
from lave_plugin.demo.records import held_out


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
        matcher = xgrammar.GrammarMatcher(self.compiled)
        return matcher.accept_string(text) and matcher.is_completed()


@dataclass(frozen=True)
class Task:
    """A kind of text; ``offered`` counts the references that its grammar refuses as well."""

    name: str
    requests: list[Request]
    offered: int

    @classmethod
    def of(cls, name: str, offered: Iterable[Request]) -> Task:
        """The offered requests whose references can be given."""
        offered = list(offered)
        usable = [
            request
            for request in offered
            if request.in_grammar(request.reference)
            and not request.check(request.reference.decode())
        ]
        return cls(name, usable, len(offered))


def byte_compiler() -> xgrammar.GrammarCompiler:
    """A compiler whose matchers read bytes: a grammar's printed form knows no tokenizer."""
    vocabulary = [bytes([byte]) for byte in range(256)] + [b""]
    return xgrammar.GrammarCompiler(
        xgrammar.TokenizerInfo(vocabulary, stop_token_ids=[256]), max_threads=1
    )


def tasks(data: Path | None, made: int, seed: int) -> list[Task]:
    """The three tasks.

    Args:
        data: folder of ``json_bench.jsonl`` and ``humaneval_cpp.jsonl``, if there is one.
        made: how many requests to make up for a task without data.
        seed: of what is made up.
    """
    compiler = byte_compiler()
    return [
        Task.of("JSON", _records(compiler, data, made, seed)),
        Task.of("C++", _programs(compiler, data, made, seed)),
        Task.of("SMILES", _molecules(compiler)),
    ]


def _lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _records(compiler, data: Path | None, made: int, seed: int) -> Iterable[Request]:
    if data is None:
        found = [
            (f"{sample.kind} {index}", json.dumps(sample.schema), sample.answer)
            for index, sample in enumerate(held_out(made, seed))
        ]
    else:
        found = [
            (line["instance_id"], line["schema"], line["output"])
            for line in _lines(data / "json_bench.jsonl")
        ]
    for name, schema, answer in found:
        try:
            compiled = compiler.compile_json_schema(schema)
        except RuntimeError:  # offered, but xgrammar has no grammar for it
            compiled = compiler.compile_grammar('root ::= "\\0"')
        yield Request(name, answer.encode(), compiled, json_schema(json.loads(schema)))


def _programs(compiler, data: Path | None, made: int, seed: int) -> Iterable[Request]:
    compiled = compiler.compile_grammar(cpp_subset.GRAMMAR)
    if data is None:
        rng = random.Random(f"programs {seed}")
        found = [(f"program {index}", cpp_subset.program(rng)) for index in range(made)]
    else:
        found = [
            (line["task_id"], line["declaration"] + line["canonical_solution"])
            for line in _lines(data / "humaneval_cpp.jsonl")
        ]

    def check(text: str) -> str | None:
        """xgrammar's verdict on the same grammar: no other parser of this subset is at hand."""
        matcher = xgrammar.GrammarMatcher(compiled)
        if not matcher.accept_string(text):
            return "not in the subset of C++"
        return None if matcher.is_completed() else "the program is not finished"

    for name, program in found:
        yield Request(name, program.encode(), compiled, check)


def _molecules(compiler) -> Iterable[Request]:
    compiled = compiler.compile_grammar(molecules.GRAMMAR)
    for name, smiles in molecules.MOLECULES.items():
        yield Request(name, smiles.encode(), compiled, molecules.check)
