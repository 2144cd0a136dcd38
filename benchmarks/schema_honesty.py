"""Which JSON schemas are served, and whether what is served is kept.

    python benchmarks/schema_honesty.py --data DIR [--quick]

DIR has jsonschemabench.jsonl: {"id", "schema", "tests": [{"valid", "data"}]}. Three ways to serve a
schema are compared: xgrammar as it is, SGLang (its own check, then xgrammar), and this plugin
(`grammar/json_schema`, then xgrammar). For each: which schemas are refused, by reason; which served
ones accept an instance that the schema forbids; and, of sentences drawn at random from the states,
how many are no instance. `jsonschema` is the judge, with the draft that the schema names. Formats
are judged where the judge knows them. Of a name that stands twice in an object either value counts.

Also printed: what deciding and rewriting cost, in CPU time (p50 and p99 over the schemas).
"""

import argparse
import importlib.metadata
import importlib.util
import json
import random
import re
import time
from collections import Counter
from functools import cache
from pathlib import Path

import jsonschema
from comparison.pair import BYTES, compiler_for
from comparison.schemas import _compile_within
from tqdm import tqdm

from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.json_schema import Layout, exact_grammar

WHITESPACE = 2
"""Characters in a row; with more, random sentences would be little else."""

LONGEST_WALK = 400
"""Bytes of a random sentence before it takes the shortest way to its end."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="every eighth schema, fewer sentences")
    parser.add_argument("--sentences", type=int, default=60, help="drawn from each schema")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--only", default="", help="schemas whose id contains this")
    arguments = parser.parse_args()
    lines = (arguments.data / "jsonschemabench.jsonl").read_text().splitlines()
    cases = [json.loads(line) for line in lines]
    cases = [case for case in cases if arguments.only in case["id"]]
    count = arguments.sentences
    if arguments.quick:
        cases, count = cases[::8], 10
    for name in arguments.ways:
        report(name, cases, WAYS[name], count if name == "plugin" else count // 6)


def report(name: str, cases: list[dict], compile_schema, sentences: int) -> None:
    """Serve all schemas one way and print what came of it."""
    refused: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    leaks, times = [], []
    for case in tqdm(cases, desc=name, unit="schema"):
        try:
            compiled, seconds = compile_schema(case["schema"])
        except (UnsupportedGrammar, RuntimeError, ValueError) as error:
            refused[_reason(error)] += 1
            continue
        except TimeoutError:
            refused["too slow to compile"] += 1
            continue
        finally:
            counts["schemas"] += 1
        times.append(seconds)
        try:
            automaton = automaton_of(compiled)
        except UnsupportedGrammar as error:
            refused[_reason(error)] += 1
            continue
        counts["served"] += 1
        judge = Judge(case["schema"])
        instances = list(accepted_instances(automaton, case, counts))
        drawn = list(random_sentences(automaton, case, judge, sentences, counts))
        leaks += [f"{case['id']}: {each}" for each in instances + drawn]
        counts["schemas that accept an invalid instance"] += bool(instances)
        counts["schemas with a sentence that is no instance"] += bool(drawn)
        counts["schemas that let something through"] += bool(instances or drawn)
    print(f"\n{name}:")
    for what, number in counts.items():
        print(f"  {number:6} {what}")
    print(f"  refused {sum(refused.values())}:")
    for reason, number in refused.most_common():
        print(f"    {number:4} {reason}")
    times.sort()
    if times and times[-1]:
        p50, p99 = (1e3 * times[int(len(times) * share)] for share in (0.5, 0.99))
        print(f"  deciding and rewriting: p50 {p50:.2f} ms, p99 {p99:.1f} ms")
    for leak in leaks:
        print(f"  leak: {leak[:300]}")


class Judge:
    """`jsonschema` on texts."""

    def __init__(self, schema) -> None:
        cls = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        self._validator = cls(schema, format_checker=jsonschema.FormatChecker())

    def objects_to(self, text: bytes) -> str | None:
        """Why a text is no instance, or None."""
        try:
            last = json.loads(text)
            first = json.loads(text, object_pairs_hook=lambda pairs: dict(pairs[::-1]))
        except ValueError as error:
            return f"no JSON ({error})"
        for value in (last, first):
            try:
                error = jsonschema.exceptions.best_match(self._validator.iter_errors(value))
            except (RecursionError, OverflowError):
                continue  # more than the judge can read
            except Exception as fault:  # a schema that the judge can't read judges nothing
                if type(fault).__module__.startswith(("referencing", "jsonschema")):
                    continue
                raise
            if error is not None:
                return f"{error.validator} at {error.json_path}: {error.message[:120]}"
        return None


def accepted_instances(automaton, case: dict, counts: Counter[str]):
    """Instances that the file calls invalid, written compactly and indented."""
    for test in case["tests"]:
        verdicts = set()
        for layout in ({"separators": (",", ":")}, {"separators": (", ", ": ")}):
            text = json.dumps(test["data"], ensure_ascii=False, **layout).encode()
            state = automaton.run(automaton.start, text)
            verdicts.add(state != DEAD and automaton.accepting(state))
        kind = "valid" if test["valid"] else "invalid"
        verdict = "accepted" if True in verdicts else "refused"
        counts[f"{kind} instances {verdict}"] += 1
        if kind == "invalid" and verdict == "accepted":
            yield f"accepts the invalid {text.decode()[:200]}"


def random_sentences(automaton, case: dict, judge: Judge, count: int, counts: Counter[str]):
    """Random walks; some ways are preferred to others by the draw, so that they differ."""
    draw = random.Random(case["id"])
    for number in range(count):
        state, text = automaton.start, bytearray()
        finish = draw.choice([0.02, 0.1, 0.4])
        for _ in range(LONGEST_WALK):
            if not automaton.can_continue(state) or (
                automaton.accepting(state) and draw.random() < 0.3
            ):
                break
            if not automaton.accepting(state) and draw.random() < finish:
                byte = automaton.shortest_completion(state)[0]
            else:
                byte = _pick(automaton.allowed_bytes(state), draw)
            text.append(byte)
            state = automaton.step(state, byte)
        text += automaton.shortest_completion(state)
        counts["sentences"] += 1
        if why := judge.objects_to(bytes(text)):
            counts["sentences that are no instance"] += 1
            yield f"{why}: {bytes(text).decode()!r}"
            if number > 20:
                return


def _pick(allowed: bytes, draw: random.Random) -> int:
    """Kinds of bytes before bytes: punctuation would drown in letters."""
    kinds = [
        [byte for byte in allowed if kind(byte)]
        for kind in (
            lambda byte: chr(byte) in '{}[]",:',
            lambda byte: chr(byte) in "\\ \n\t\r",
            lambda byte: chr(byte) in "0123456789+-.eE",
            lambda byte: 0x20 < byte < 0x7F,
            lambda byte: byte >= 0x80,
            lambda byte: byte < 0x20 or byte == 0x7F,
        )
    ]
    weights = [6, 1, 3, 6, 1, 1]
    kinds, weights = zip(*[(k, w) for k, w in zip(kinds, weights, strict=True) if k], strict=True)
    return draw.choice(draw.choices(kinds, weights)[0])


def _as_it_is(schema):
    return _compile_within(compiler_for(BYTES), schema, 10), 0.0


def _checked(schema):
    _engine_check().validate_xgrammar_json_schema(schema)
    return _as_it_is(schema)


def _exact(schema):
    source = json.dumps(schema)
    started = time.process_time()
    grammar = exact_grammar(source, Layout(most=WHITESPACE))
    seconds = time.process_time() - started
    compiler = compiler_for(BYTES)
    if grammar is not None:
        return compiler.compile_grammar(grammar), seconds
    return compiler.compile_json_schema(schema, max_whitespace_cnt=WHITESPACE), seconds


@cache
def _engine_check():
    """The engine's own check, which needs nothing else of the engine."""
    files = importlib.metadata.distribution("sglang").files
    path = next(f for f in files if f.name == "json_schema_validation.py").locate()
    spec = importlib.util.spec_from_file_location("json_schema_validation", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _reason(error: Exception) -> str:
    message = re.sub(
        r"^.*?(?:at #\S*?(?: is not supported by xgrammar)?: |Error: |cc:\d+: )", "", str(error)
    )
    return re.sub(r"'[^']*'|\"[^\"]*\"", "...", message)[:110]


WAYS = {"xgrammar": _as_it_is, "sglang": _checked, "plugin": _exact}


if __name__ == "__main__":
    main()
