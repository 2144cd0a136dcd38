"""The tasks of ``lave bench paper``: a prompt, a constraint, and two judges of the answer.

*Syntactic* is what the constraint asks for, *functional* is whether the answer is right. Neither
judge shares code with the plugin's states.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lave_plugin.bench import programs, scoring
from lave_plugin.bench.mixes import schema_constraint
from lave_plugin.bench.scoring import Unscorable
from lave_plugin.demo import checks
from lave_plugin.demo.records import Sample
from lave_plugin.demo.tasks import MAKERS, held_out
from lave_plugin.demo.tasks.judging import is_right, is_valid
from lave_plugin.grammars import load

MAX_TOKENS = {"json": 256, "cpp": 256, "smiles": 256}
"""As in the papers; the demo's own tasks take fewer."""

MAX_DEMO_TOKENS = 128

OF_THE_PAPER = ("record", "cpp", "smiles")
"""The demo's tasks of the three types that the paper has."""

OF_THE_DEMO = ("record", "composed", "unseen", "json call", "python call", "cpp", "smiles", "sql")
"""All of them that have a grammar worth the name."""


class NoSuchTasks(ValueError):
    """The data are not there, or not in a form that is known; the message says which is."""


@dataclass(frozen=True)
class Task:
    """One prompt.

    Attributes:
        kind: ``"json"``, ``"cpp"`` or ``"smiles"``; of the demo's tasks, other than records, their
            name.
        name: Unique among the tasks of a run.
        constraint: Fields of the chat completion.
        is_syntactic, is_functional: Judges of an answer's text. The second may raise
            ``Unscorable``.
    """

    kind: str
    name: str
    prompt: str
    constraint: Mapping[str, Any]
    max_tokens: int
    is_syntactic: Callable[[str], bool]
    is_functional: Callable[[str], bool]

    def body(self, model: str, strategy: str, temperature: float, seed: int) -> dict[str, Any]:
        """The chat completion that asks for one sample."""
        return {
            "model": model,
            "messages": [{"role": "user", "content": self.prompt}],
            "temperature": temperature,
            "seed": seed,
            "max_tokens": self.max_tokens,
            "custom_params": {"lave": {"strategy": strategy}},
            **self.constraint,
        }

    def score(self, text: str) -> tuple[bool, bool | None]:
        """Syntactic and functional; the latter None where it can't be scored here."""
        try:
            return self.is_syntactic(text), self.is_functional(text)
        except Unscorable:
            return self.is_syntactic(text), None


def shipped(count: int, seed: int, names: Sequence[str] = OF_THE_PAPER) -> list[Task]:
    """``count`` held-out prompts of each of these tasks of the demo.

    Raises:
        NoSuchTasks: The demo has no task of such a name.
    """
    unknown = [name for name in names if name not in MAKERS]
    if unknown:
        raise NoSuchTasks(f"The demo has no task {', '.join(unknown)}; it has {', '.join(MAKERS)}.")
    return [
        _demo_task(name, place, sample)
        for name in names
        for place, sample in enumerate(held_out(count, seed, name))
    ]


def _demo_task(name: str, place: int, sample: Sample) -> Task:
    if sample.schema is not None:
        constraint = schema_constraint(sample.schema)
    elif sample.regex is not None:
        constraint = {"regex": sample.regex}
    else:
        constraint = {"ebnf": sample.grammar} if sample.grammar is not None else {}
    return Task(
        "json" if name == "record" else name,
        f"{sample.kind} {place}",
        sample.prompt,
        constraint,
        MAX_DEMO_TOKENS,
        lambda text: is_valid(sample, scoring.unfenced(text)),
        lambda text: is_right(sample, scoring.unfenced(text)),
    )


def from_files(
    folder: Path, count: int, other_grammars: Mapping[str, str] | None = None
) -> list[Task]:
    """The first ``count`` tasks of each kind that the folder has a file for.

    ``json_bench.jsonl``: instance_id, schema (a string), input, output.
    ``humaneval_cpp.jsonl``: task_id, prompt, declaration, test (HumanEval-X).
    ``smiles_bench.jsonl``: instance_id, input, output.

    Args:
        other_grammars: EBNF by kind, for ``cpp`` and ``smiles``, in place of those that ship.

    Raises:
        NoSuchTasks: There is no such file, or a line lacks a field.
    """
    readers = {
        "json_bench.jsonl": ("json", _json_line),
        "humaneval_cpp.jsonl": ("cpp", _cpp_line),
        "smiles_bench.jsonl": ("smiles", _smiles_line),
    }
    found: list[Task] = []
    for name, (kind, read) in readers.items():
        path = folder / name
        if not path.is_file():
            continue
        grammar = "" if kind == "json" else (other_grammars or {}).get(kind) or load(kind)[1]
        for number, line in enumerate(_lines(path, count), 1):
            try:
                found.append(read(line, grammar))
            except (KeyError, TypeError) as error:
                raise NoSuchTasks(f"{path}, line {number}: no {error}.") from None
    if not found:
        raise NoSuchTasks(f"{folder} holds none of {', '.join(readers)}.")
    return found


def _lines(path: Path, count: int) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines()[:count]:
        yield json.loads(line)


def _json_line(line: Mapping[str, Any], _: str) -> Task:
    schema = json.loads(line["schema"])
    prompt = (
        f"{line['input']}\n\nAnswer with JSON that follows this schema, and nothing else:\n"
        f"{line['schema']}"
    )
    return _json_task(line["instance_id"], prompt, schema, line["output"], MAX_TOKENS["json"])


def _json_task(
    name: str, prompt: str, schema: Mapping[str, Any], answer: str, max_tokens: int
) -> Task:
    check = checks.json_schema(schema)
    return Task(
        "json",
        name,
        prompt,
        schema_constraint(schema),
        max_tokens,
        lambda text: check(scoring.unfenced(text)) is None,
        lambda text: scoring.same_json(scoring.unfenced(text), answer),
    )


def _cpp_line(line: Mapping[str, Any], grammar: str) -> Task:
    test = line["test"]
    prompt = (
        "Complete this C++ function. Answer with the whole program without a main function, "
        f"and nothing else.\n\n{line['prompt']}"
    )
    check = checks.ebnf(grammar)
    return Task(
        "cpp",
        line["task_id"],
        prompt,
        {"ebnf": grammar},
        MAX_TOKENS["cpp"],
        lambda text: check(scoring.unfenced(text)) is None,
        lambda text: programs.passes(program(scoring.unfenced(text), line, test)) == "passed",
    )


def program(answer: str, line: Mapping[str, Any], test: str) -> str:
    """The answer between the headers of HumanEval-X's declaration and its tests."""
    headers = [
        text
        for text in line["declaration"].splitlines()
        if text.startswith(("#include", "using namespace"))
    ]
    return "\n".join([*headers, answer, test])


def _smiles_line(line: Mapping[str, Any], grammar: str) -> Task:
    reference = line["output"]
    prompt = f"{line['input']}\n\nAnswer with SMILES, and nothing else."
    check = checks.ebnf(grammar)
    return Task(
        "smiles",
        line["instance_id"],
        prompt,
        {"ebnf": grammar},
        MAX_TOKENS["smiles"],
        lambda text: check(text.strip()) is None,
        lambda text: scoring.same_molecule(text, reference),
    )
