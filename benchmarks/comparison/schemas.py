"""Real-world JSON schemas: every instance before both judges, and what construction costs."""

import json
import multiprocessing
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, field

import xgrammar
from tqdm import tqdm

from comparison.pair import BYTES, Pair, compiler_for
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.implementation import states_of_text
from lave_plugin.grammar.normal_form import UNREACHABLE, read_normal_form

TRIVIAL = 'root ::= (("a"))\n'
"""A printed normal form to load with what the first grammar loads."""


@dataclass
class SchemaReport:
    """What came of the schemas.

    Attributes:
        counts: Schemas by their fate, and what was compared.
        construction, first_walk, warm_walk: CPU seconds: of each schema from its printed normal
            form to the start state, and of each text for every byte of it.
        largest: The printed normal form with the most rules.
        problems: Every disagreement, as a sentence.
    """

    counts: Counter[str] = field(default_factory=Counter)
    construction: list[float] = field(default_factory=list)
    first_walk: list[float] = field(default_factory=list)
    warm_walk: list[float] = field(default_factory=list)
    largest: str = ""
    problems: list[str] = field(default_factory=list)


def judge_schemas(cases: list[dict], compile_seconds: int) -> SchemaReport:
    """Compare the verdicts on the instances of all `cases`: {"id", "schema", "tests"}."""
    report = SchemaReport(Counter({"schemas": len(cases)}))
    compiler = compiler_for(BYTES)
    for case in tqdm(cases, desc="schemas", unit="schema"):
        try:
            compiled = _compile_within(compiler, case["schema"], compile_seconds)
        except TimeoutError:
            report.counts["too slow in xgrammar"] += 1
        except RuntimeError:
            report.counts["refused by xgrammar"] += 1
        else:
            _judge(case, compiled, report)
    return report


def _judge(case: dict, compiled: xgrammar.CompiledGrammar, report: SchemaReport) -> None:
    printed = str(compiled.grammar)
    report.largest = max(report.largest, printed, key=_rules)
    try:
        started = time.process_time()
        states_of_text(printed)
        report.construction.append(time.process_time() - started)
    except UnsupportedGrammar as error:
        report.counts["unsupported here"] += 1
        report.problems.append(f"{case['id']}: unsupported: {error}")
        return
    pair = Pair(compiled, BYTES)
    completed: set[int] = set()
    for text in _texts_of(case):
        for times in (report.first_walk, report.warm_walk):
            started = time.process_time()
            pair.automaton.run(pair.tokens.start, text)
            times.append((time.process_time() - started) / max(1, len(text)))
        _walk(pair, text, completed)
    report.counts["states"] += pair.automaton.state_count
    report.counts.update(pair.counts)
    if pair.problems:
        hopeless = max(read_normal_form(printed).distance) >= UNREACHABLE
        note = " (the grammar has rules that never end)" if hopeless else ""
        report.problems += [f"{case['id']}: {problem}{note}" for problem in pair.problems]


def _walk(pair: Pair, text: bytes, completed: set[int]) -> None:
    """Judge `text` at every prefix, and confirm the completion of every state on its way."""
    pair.counts["texts"] += 1
    pair.restart()
    agreed = pair.compare_end()
    for position, byte in enumerate(text):
        if agreed and pair.state not in completed:
            completed.add(pair.state)
            agreed = pair.confirm_completion()
        if not (agreed and pair.step_byte(byte)) or len(pair.text) == position:
            break


def _texts_of(case: dict):
    """Every instance, valid or not, as compact and as indented JSON."""
    for test in case["tests"]:
        yield json.dumps(test["data"], ensure_ascii=False, separators=(",", ":")).encode()
        yield json.dumps(test["data"], ensure_ascii=False, indent=2).encode()


def _rules(printed: str) -> int:
    return printed.count(" ::= ")


def _compile_within(compiler, schema, seconds: int) -> xgrammar.CompiledGrammar:
    """Compile in this process after a trial in a child that can be stopped.

    xgrammar's compiler can't be interrupted from Python.
    """
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        try:
            compiler.compile_json_schema(schema)
        except RuntimeError:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        raise TimeoutError
    return compiler.compile_json_schema(schema)


@dataclass(frozen=True)
class Construction:
    """What one construction costs in a process of its own, medians over such processes.

    Attributes:
        rules: Rules of the printed normal form.
        milliseconds: CPU time to the start state.
        megabytes: How far the process's memory rose above what it held before, at its peak.
    """

    rules: int
    milliseconds: float
    megabytes: float


def construction_of(printed: str, repeats: int = 5) -> Construction:
    """Construct in fresh processes; the first in each is measured."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1, maxtasksperchild=1) as pool:
        runs = sorted(pool.map(_construct, [printed] * repeats, chunksize=1))
    times, peaks = zip(*runs, strict=True)
    return Construction(_rules(printed), times[repeats // 2], sorted(peaks)[repeats // 2])


def _construct(printed: str) -> tuple[float, float]:
    states_of_text(TRIVIAL)  # what is loaded with the first grammar
    before = _memory("VmRSS")
    started = time.process_time()
    automaton = states_of_text(printed)
    elapsed = time.process_time() - started
    peak = _memory("VmHWM")
    del automaton
    return 1e3 * elapsed, peak - before


def _memory(which: str) -> float:
    """Megabytes of this process, by Linux (getrusage also counts what its parent had)."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(which)) * 1024 / 1e6
