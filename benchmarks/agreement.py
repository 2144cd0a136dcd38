"""Does the grammar room judge as xgrammar does, on real-world schemas, and what does it cost?

    python benchmarks/agreement.py --data DIR [--schemas N] [--json OUT]

DIR holds jsonschemabench.jsonl: one {"id", "schema", "tests": [{"valid", "data"}]} on each line.
Every schema that xgrammar compiles is read into an automaton; every instance, valid or not, is
written as compact and as indented JSON and judged by both at every prefix: the first byte that is
refused and whether the text may end, at every byte. Every shortest completion from a few prefixes
is given to xgrammar.
"""

import argparse
import json
import os
import signal
import statistics
import time
from pathlib import Path

import xgrammar
from tqdm import tqdm

from lave_plugin.grammar.automaton import DEAD, Automaton
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.normal_form import UNREACHABLE, read_normal_form

END_TOKEN = 256


def main() -> None:
    arguments = parse_arguments()
    lines = (arguments.data / "jsonschemabench.jsonl").read_text().splitlines()
    cases = [json.loads(line) for line in lines[:: max(1, len(lines) // arguments.schemas)]]
    vocabulary = [bytes([byte]) for byte in range(256)] + [b""]
    info = xgrammar.TokenizerInfo(vocabulary, vocab_size=257, stop_token_ids=[END_TOKEN])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    report = {
        "schemas": len(cases),
        "refused by xgrammar": 0,
        "too slow in xgrammar": 0,
        "unsupported here": 0,
        "texts": 0,
        "bytes judged": 0,
        "completions confirmed": 0,
        "states": 0,
    }
    reading, building, walking, warm = [], [], [], []
    disagreements: list[str] = []
    for case in tqdm(cases, desc="schemas"):
        try:
            compiled = compile_within(compiler, case["schema"], arguments.compile_seconds)
        except TimeoutError:
            report["too slow in xgrammar"] += 1
            continue
        except RuntimeError:
            report["refused by xgrammar"] += 1
            continue
        printed = str(compiled.grammar)
        try:
            started = time.process_time()
            rules = read_normal_form(printed)
            reading.append(time.process_time() - started)
            automaton = Automaton(rules)
            building.append(time.process_time() - started)
        except UnsupportedGrammar as error:
            report["unsupported here"] += 1
            disagreements.append(f"{case['id']}: unsupported: {error}")
            continue
        for text in texts_of(case):
            started = time.process_time()
            automaton.run(automaton.start, text)
            walking.append((time.process_time() - started) / max(1, len(text)))
            started = time.process_time()
            automaton.run(automaton.start, text)
            warm.append((time.process_time() - started) / max(1, len(text)))
            judged, problem = first_disagreement(compiled, automaton, text)
            report["texts"] += 1
            report["bytes judged"] += judged
            if problem:
                hopeless = max(rules.distance) >= UNREACHABLE
                note = " (the grammar has rules that never end)" if hopeless else ""
                disagreements.append(f"{case['id']}: {problem}{note}")
            confirmed, problem = check_completions(compiled, automaton, text)
            report["completions confirmed"] += confirmed
            if problem:
                disagreements.append(f"{case['id']}: {problem}")
        report["states"] += automaton.state_count

    report["disagreements"] = len(disagreements)
    for problem in disagreements:
        print(problem)
    print()
    for name, value in report.items():
        print(f"{name:28} {value}")
    print()
    print(f"{'CPU time':28} {'p50':>10} {'p99':>10} {'max':>10}")
    rows = {
        "normal form, ms": (reading, 1e3),
        "normal form and start, ms": (building, 1e3),
        "first walk, us a byte": (walking, 1e6),
        "warm walk, us a byte": (warm, 1e6),
    }
    for name, (samples, scale) in rows.items():
        figures = [quantile(samples, share) * scale for share in (0.5, 0.99, 1.0)]
        report[name] = figures
        print(f"{name:28} " + " ".join(f"{figure:10.2f}" for figure in figures))
    if arguments.json:
        arguments.json.write_text(json.dumps({**report, "problems": disagreements}, indent=1))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of jsonschemabench.jsonl")
    parser.add_argument("--schemas", type=int, default=10**6, help="an even sample of so many")
    parser.add_argument(
        "--compile-seconds", type=int, default=20, help="give a schema up after so long in xgrammar"
    )
    parser.add_argument("--json", type=Path, help="write the report here as well")
    return parser.parse_args()


def compile_within(compiler, schema, seconds: int) -> xgrammar.CompiledGrammar:
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


def texts_of(case: dict):
    for test in case["tests"]:
        yield json.dumps(test["data"], ensure_ascii=False, separators=(",", ":")).encode()
        yield json.dumps(test["data"], ensure_ascii=False, indent=2).encode()


def first_disagreement(compiled, automaton: Automaton, text: bytes) -> tuple[int, str | None]:
    """How many bytes were judged, and where the verdicts part."""
    matcher = xgrammar.GrammarMatcher(compiled)
    state = automaton.start
    for position, byte in enumerate(text):
        if automaton.accepting(state) != matcher.is_completed():
            return position, f"end of text at {position} of {text[: position + 20]!r}"
        theirs = matcher.accept_token(byte)
        state = automaton.step(state, byte)
        if theirs != (state != DEAD):
            verdicts = "xgrammar takes it" if theirs else "xgrammar refuses it"
            return position, f"byte {position} of {text[: position + 20]!r}: {verdicts}"
        if state == DEAD:
            return position + 1, None
    if automaton.accepting(state) != matcher.is_completed():
        return len(text), f"end of text after {text!r}"
    return len(text) + 1, None


def check_completions(compiled, automaton: Automaton, text: bytes) -> tuple[int, str | None]:
    """Complete some prefixes as briefly as possible and ask xgrammar."""
    confirmed = 0
    for end in {0, len(text) // 3, 2 * len(text) // 3}:
        state = automaton.run(automaton.start, text[:end])
        if state == DEAD:
            continue
        whole = text[:end] + automaton.shortest_completion(state)
        try:
            whole.decode()
        except UnicodeDecodeError:
            return confirmed, f"completion {whole!r} is not text"
        matcher = xgrammar.GrammarMatcher(compiled)
        if not (matcher.accept_string(whole) and matcher.is_completed()):
            return confirmed, f"xgrammar refuses the completion {whole!r}"
        confirmed += 1
    return confirmed, None


def quantile(samples: list[float], share: float) -> float:
    if len(samples) < 2 or share == 1.0:
        return max(samples, default=0.0)
    return statistics.quantiles(samples, n=100, method="inclusive")[round(share * 100) - 1]


if __name__ == "__main__":
    main()
