"""Does the grammar room judge as xgrammar does, and what does construction cost?

    python benchmarks/agreement.py --data DIR [--vocabulary qwen.tiktoken] [--json OUT]
    python benchmarks/agreement.py --only schemas --data DIR [--schemas N]
    python benchmarks/agreement.py --only bytes tokens [--steps N] [--masks N] [--vocabulary FILE]

- schemas: DIR holds jsonschemabench.jsonl: one {"id", "schema", "tests": [{"valid", "data"}]} on
  each line. Of every schema that xgrammar compiles, each instance, valid or not, is written as
  compact and as indented JSON and judged by both at every prefix: whether each byte may follow and
  whether the text may end. The shortest completion of every state on the way is given to xgrammar.
- bytes: random walks through grammars of every kind (`comparison/grammars.py`), byte by byte, also
  over bytes that are not allowed; the shortest completion of every sixteenth state is given to
  xgrammar.
- tokens: the same by tokens of a vocabulary of real size (see `lave bench verify`), also through
  grammars that read tokens as a whole, and the allowed-token masks of states on the way.

The states are those that serve: C++ where it was built, the Python reference with LAVE_NATIVE=0.
The exit status is 1 if there was a disagreement.
"""

import argparse
import json
import random
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from comparison.fuzz import fuzz_bytes, fuzz_tokens
from comparison.grammars import GRAMMARS, Grammar, over_tokens
from comparison.pair import BYTES, Pair, compiler_for
from comparison.schemas import TRIVIAL, construction_of, judge_schemas
from tqdm import tqdm

from lave_plugin.bench.synthetic.vocabularies import read_vocabulary, synthetic_vocabulary
from lave_plugin.grammar.implementation import states_of_text
from lave_plugin.grammar.vocabulary import Vocabulary


def main() -> int:
    arguments = parse_arguments()
    print(f"states of {type(states_of_text(TRIVIAL)).__module__}")
    sections = {"schemas": schemas, "bytes": walks_by_bytes, "tokens": walks_by_tokens}
    report = {name: sections[name](arguments) for name in sections if name in arguments.only}
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    return int(any(section["problems"] for section in report.values()))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ["schemas", "bytes", "tokens"]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="sections")
    parser.add_argument("--data", type=Path, help="folder of jsonschemabench.jsonl")
    parser.add_argument("--schemas", type=int, default=10**6, help="an even sample of so many")
    parser.add_argument(
        "--compile-seconds", type=int, default=20, help="give a schema up after so long in xgrammar"
    )
    parser.add_argument(
        "--steps", type=int, default=1_000_000, help="byte steps, over all grammars"
    )
    parser.add_argument("--token-steps", type=int, default=200_000, help="the same by tokens")
    parser.add_argument("--masks", type=int, default=2_000, help="masks, over all grammars")
    parser.add_argument("--vocabulary", type=Path, help="a .tiktoken file")
    parser.add_argument("--seed", type=int, default=0, help="of the walks")
    parser.add_argument("--json", type=Path, help="write the report here as well")
    arguments = parser.parse_args()
    if "schemas" in arguments.only and arguments.data is None:
        parser.error("the section schemas needs --data")
    return arguments


def schemas(arguments: argparse.Namespace) -> dict:
    lines = (arguments.data / "jsonschemabench.jsonl").read_text().splitlines()
    cases = [json.loads(line) for line in lines[:: max(1, len(lines) // arguments.schemas)]]
    found = judge_schemas(cases, arguments.compile_seconds)
    show("schemas", found.counts, found.problems)
    rows = {
        "construction, ms": (found.construction, 1e3),
        "first walk, us a byte": (found.first_walk, 1e6),
        "warm walk, us a byte": (found.warm_walk, 1e6),
    }
    times = {}
    print(f"{'CPU time':40} {'p50':>9} {'p99':>9} {'max':>9}")
    for name, (samples, scale) in rows.items():
        times[name] = [quantile(samples, share) * scale for share in (0.5, 0.99, 1.0)]
        print(f"{name:40} " + " ".join(f"{figure:9.2f}" for figure in times[name]))
    largest = construction_of(found.largest)
    print(
        f"the largest, {largest.rules} rules, in a fresh process: {largest.milliseconds:.0f} ms,"
        f" {largest.megabytes:.0f} MB more at the peak"
    )
    return {
        "counts": found.counts,
        "times": times,
        "largest": vars(largest),
        "problems": found.problems,
    }


def walks_by_bytes(arguments: argparse.Namespace) -> dict:
    compiler = compiler_for(BYTES)
    problems: list[str] = []
    counts: dict[str, Counter] = {}
    with tqdm(total=arguments.steps, desc="byte steps", unit="step", unit_scale=True) as bar:
        for grammar, steps in shares(GRAMMARS, arguments.steps):
            bar.set_postfix_str(grammar.name)
            pair = Pair(grammar.compile(compiler), BYTES)
            rng = random.Random(f"{arguments.seed} {grammar.name}")
            fuzz_bytes(pair, steps, rng, tick=bar.update)
            counts[grammar.name] = pair.counts
            problems += [f"{grammar.name}: {problem}" for problem in pair.problems]
    return summary("byte steps", counts, problems)


def walks_by_tokens(arguments: argparse.Namespace) -> dict:
    file = arguments.vocabulary
    data = read_vocabulary(file) if file else synthetic_vocabulary()
    *special, end = range(len(data), len(data) + 4)
    vocabulary = Vocabulary([*data, b"", b"", b"", b""], [end])
    grammars = [*over_tokens(tuple(special)), *GRAMMARS]
    compilers = {each: compiler_for(vocabulary, each) for each in ((), tuple(special))}
    problems: list[str] = []
    counts: dict[str, Counter] = {}
    masks_left = arguments.masks
    with tqdm(total=arguments.token_steps, desc="token steps", unit="step", unit_scale=True) as bar:
        for index, (grammar, steps) in enumerate(shares(grammars, arguments.token_steps)):
            bar.set_postfix_str(grammar.name)
            pair = Pair(grammar.compile(compilers[grammar.special]), vocabulary)
            rng = random.Random(f"{arguments.seed} {grammar.name}")
            # Grammars of few states come first; the others make up for them.
            masks = -(-masks_left // (len(grammars) - index))
            fuzz_tokens(pair, vocabulary, steps, masks, rng, tick=bar.update)
            masks_left -= pair.counts["equal masks"]
            counts[grammar.name] = pair.counts
            problems += [f"{grammar.name}: {problem}" for problem in pair.problems]
    return summary(f"token steps, {len(data)} tokens", counts, problems)


def shares(grammars: list[Grammar], total: int) -> Iterator[tuple[Grammar, int]]:
    """Each grammar with its part of `total`."""
    count = len(grammars)
    for index, grammar in enumerate(grammars):
        yield grammar, total * (index + 1) // count - total * index // count


def summary(title: str, counts: dict[str, Counter], problems: list[str]) -> dict:
    total = sum(counts.values(), Counter())
    show(f"{title}, {len(counts)} grammars", total, problems)
    return {"counts": total, "by grammar": counts, "problems": problems}


def show(title: str, counts: Counter, problems: list[str]) -> None:
    for problem in problems:
        print(problem)
    print(f"\n{title}")
    for name, value in {**counts, "disagreements": len(problems)}.items():
        print(f"{name:40} {value:>9}")


def quantile(samples: list[float], share: float) -> float:
    if len(samples) < 2 or share == 1.0:
        return max(samples, default=0.0)
    return statistics.quantiles(samples, n=100, method="inclusive")[round(share * 100) - 1]


if __name__ == "__main__":
    sys.exit(main())
