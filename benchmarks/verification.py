"""What a lookahead costs: canvases that have a witness, searched in C++ and in Python.

    python benchmarks/verification.py --quick --vocabulary qwen.tiktoken

A vocabulary file has a base64 token and its rank in each line; the PyPI package dashscope carries
a real one of 151,643 tokens. Without one, a synthetic vocabulary of that size is made.

A row is a block of 32 tokens of a text of the grammar, with 20 or 50 % of its positions masked and
16 candidates at each of them: the true token at a rank that is 0 in most cases, and tokens that are
frequent in such texts or random. So each row has a witness, and a verdict other than ALIVE is a
lookahead that failed within its budget.

- cold: states of which only the way to the blocks has been walked
- next: states that have searched other batches of the same kind before
- warm: the same batch once more

`ratio` is Python's time over C++'s on the same warm batch. Figures are of one run; a machine that
does other things at the time moves the times more than the ratios.

The second table has the lookahead of the paper (arXiv 2602.00612) on the same kind of rows: N = 10
and 40 fillings, each position drawn on its own from the candidates' probabilities, tested by
xgrammar's matcher over the same vocabulary, at most until one fits. The probabilities are those
that the true tokens' ranks come from.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy
import xgrammar
from subjects import SUBJECTS, Subject, program
from vocabularies import read_vocabulary, synthetic_vocabulary, tokenize

from lave_plugin import native
from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar import automaton as reference
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.normal_form import RuleAutomata, read_normal_form
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.lattice import Verdict, find_witness

BLOCK, TOP_K, BUDGET, TOKENS_LEFT = 32, 16, 512, 400
RANK_DECAY = 0.7
"""The true token has rank r with a probability in proportion to exp(-RANK_DECAY * r)."""

# --- canvases -------------------------------------------------------------------------------------


@dataclass
class Row:
    """The tokens before a block, the block, and its candidates."""

    prefix: list[int]
    canvas: list[int]
    candidates: dict[int, list[int]]


class RowMaker:
    """Makes rows that have a witness."""

    def __init__(self, subject: Subject, vocabulary: Vocabulary, rng: random.Random) -> None:
        self._vocabulary, self._rng = vocabulary, rng
        self.texts = [tokenize(vocabulary, subject.text(rng).encode()) for _ in range(300)]
        counts = Counter(token for text in self.texts for token in text)
        self._frequent, self._weights = list(counts), list(counts.values())

    def row(self, masked: float) -> Row:
        rng = self._rng
        text = rng.choice(self.texts)
        begin = rng.randrange(max(1, len(text) - BLOCK // 2))
        block = text[begin : begin + BLOCK]
        block += [self._vocabulary.end_token] * (BLOCK - len(block))
        canvas, candidates = list(block), {}
        for position in rng.sample(range(BLOCK), round(masked * BLOCK)):
            canvas[position] = MASKED
            candidates[position] = self._ranked(block[position])
        return Row(text[:begin], canvas, candidates)

    def _ranked(self, true: int) -> list[int]:
        rng = self._rng
        others = rng.choices(self._frequent, self._weights, k=TOP_K - 5)
        others += [rng.randrange(len(self._vocabulary) - 1) for _ in range(4)]
        rank = min(int(rng.expovariate(RANK_DECAY)), TOP_K - 1)
        return [*others[:rank], true, *others[rank:]]


@dataclass
class Arrays:
    """A batch as the native call takes it."""

    canvases: numpy.ndarray
    first: numpy.ndarray
    left: numpy.ndarray
    candidates: numpy.ndarray

    @classmethod
    def of(cls, rows: list[Row]) -> Arrays:
        candidates = numpy.full((len(rows), BLOCK, TOP_K), -1, dtype=numpy.int32)
        for index, row in enumerate(rows):
            for position, ids in row.candidates.items():
                candidates[index, position] = ids
        return cls(
            numpy.array([row.canvas for row in rows], dtype=numpy.int32),
            numpy.zeros(len(rows), dtype=numpy.int64),
            numpy.full(len(rows), TOKENS_LEFT, dtype=numpy.int64),
            candidates,
        )


# --- measuring ------------------------------------------------------------------------------------


def state_behind(tokens, prefix: list[int]) -> int:
    state = tokens.start
    for token in prefix:
        state = tokens.advance(state, token)
    if state == DEAD:
        raise ValueError("the text is not of the grammar")
    return state


def search_native(tokens, rows: list[Row]) -> tuple[float, list[int]]:
    """Milliseconds, and the verdicts."""
    arrays = Arrays.of(rows)
    states = numpy.array([state_behind(tokens, row.prefix) for row in rows], dtype=numpy.int64)
    begin = time.perf_counter()
    verdicts, _ = native.find_witness_batch(
        [tokens] * len(rows),
        states,
        arrays.canvases,
        arrays.first,
        arrays.left,
        arrays.candidates,
        BUDGET,
    )
    return 1e3 * (time.perf_counter() - begin), verdicts.tolist()


def search_python(tokens, rows: list[Row]) -> tuple[float, list[int]]:
    canvases = [Canvas(row.canvas, 0, TOKENS_LEFT) for row in rows]
    states = [state_behind(tokens, row.prefix) for row in rows]
    begin = time.perf_counter()
    found = [
        find_witness(tokens, state, canvas, row.candidates, BUDGET)
        for state, canvas, row in zip(states, canvases, rows, strict=True)
    ]
    elapsed = 1e3 * (time.perf_counter() - begin)
    return elapsed, [list(Verdict).index(each.verdict) for each in found]


def search_sampled(
    matcher: xgrammar.GrammarMatcher, row: Row, samples: int, rng: random.Random
) -> tuple[float, bool]:
    """Milliseconds of a sampled lookahead, and whether it found a witness."""
    for token in row.prefix:
        if not matcher.accept_token(token):
            raise ValueError("the text is not of the grammar")
    last = max(position for position, token in enumerate(row.canvas) if token != MASKED)
    weights = [math.exp(-RANK_DECAY * rank) for rank in range(TOP_K)]
    begin = time.perf_counter()
    found = False
    for _ in range(samples):
        accepted = 0
        for position in range(last + 1):
            token = row.canvas[position]
            if token == MASKED:
                (token,) = rng.choices(row.candidates[position], weights)
            if matcher.is_terminated():
                fits = token == matcher.stop_token_ids[0]  # behind an end only ends stand
            elif fits := matcher.accept_token(token):
                accepted += 1
            if not fits:
                break
        else:
            found = True
        matcher.rollback(accepted)
        if found:
            break
    return 1e3 * (time.perf_counter() - begin), found


def spread(times: list[float]) -> str:
    """Median / p90 / p99."""
    ordered = sorted(times)
    picks = [statistics.median(ordered)]
    picks += [ordered[min(len(ordered) - 1, int(len(ordered) * q))] for q in (0.9, 0.99)]
    return " / ".join(f"{pick:.3g}" for pick in picks)


def native_states(rules: RuleAutomata, vocabulary: Vocabulary):
    return native.TokenAutomaton(native.Automaton(rules), vocabulary)


def measure(subject: Subject, rules: RuleAutomata, vocabulary: Vocabulary, repeats: int) -> None:
    rng = random.Random(subject.name)
    maker = RowMaker(subject, vocabulary, rng)
    used = native_states(rules, vocabulary)
    python = TokenAutomaton(reference.Automaton(rules), vocabulary)
    for masked in (0.2, 0.5):
        for size in (1, 8, 64):
            cold, following, warm, ratios, verdicts = [], [], [], [], []
            for repeat in range(repeats):
                rows = [maker.row(masked) for _ in range(size)]
                cold.append(search_native(native_states(rules, vocabulary), rows)[0])
                elapsed, found = search_native(used, rows)
                following.append(elapsed)
                verdicts += found
                again = [search_native(used, rows)[0] for _ in range(3)]
                warm.append(statistics.median(again))
                if repeat < 2 and size <= 8:
                    _, same = search_python(python, rows)
                    if same != found:
                        raise AssertionError(f"{subject.name}: Python and C++ disagree")
                    ratios.append(search_python(python, rows)[0] / min(again))
            alive = 100 * verdicts.count(native.ALIVE) / len(verdicts)
            ratio = f"{statistics.median(ratios):.0f}" if ratios else "-"
            print(
                f"| {subject.name} | {100 * masked:.0f} % | {size} | {spread(cold)} |"
                f" {spread(following)} | {spread(warm)} | {ratio} | {alive:.1f} % |",
                flush=True,
            )
    print(
        f"| {subject.name} | | | {used.automaton.state_count} states,"
        f" {used.automaton.memory / 1e6:.1f} MB | | | | |",
        flush=True,
    )


def measure_sampled(
    subject: Subject, compiled: xgrammar.CompiledGrammar, vocabulary: Vocabulary, rows: int
) -> None:
    rng = random.Random(subject.name)
    maker = RowMaker(subject, vocabulary, rng)
    for masked in (0.2, 0.5):
        drawn = [maker.row(masked) for _ in range(rows)]
        for samples in (10, 40):
            matcher = xgrammar.GrammarMatcher(compiled)
            times, found = [], []
            for row in drawn:
                matcher.reset()
                elapsed, alive = search_sampled(matcher, row, samples, rng)
                times.append(elapsed)
                found.append(alive)
            print(
                f"| {subject.name} | {100 * masked:.0f} % | {samples} | {spread(times)} |"
                f" {100 * statistics.mean(found):.1f} % |",
                flush=True,
            )


def measure_memory(rules: RuleAutomata, vocabulary: Vocabulary, max_states: int = 50_000) -> None:
    """A million tokens of C-like text, and searches along it, under a cap on states."""
    rng = random.Random(0)
    maker = RowMaker(SUBJECTS[-1], vocabulary, rng)
    tokens = native.TokenAutomaton(native.Automaton(rules, max_states), vocabulary)
    count, begin = 0, time.perf_counter()
    for report in range(100_000, 1_100_000, 100_000):
        while count < report:
            tokens.make_room()
            text = tokenize(vocabulary, program(rng).encode())
            state_behind(tokens, text)
            rows = [maker.row(0.5) for _ in range(16)]
            search_native(tokens, rows)
            count += len(text) + sum(len(row.prefix) + BLOCK for row in rows)
        print(
            f"{count:>9} tokens: {tokens.automaton.state_count:>6} states,"
            f" {tokens.automaton.memory / 1e6:5.1f} MB, flushed {tokens.generation} times; process"
            f" {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB at most,"
            f" {time.perf_counter() - begin:.1f} s",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions (under 50 s)")
    parser.add_argument("--memory", action="store_true", help="states over a million tokens")
    parser.add_argument("--vocabulary", type=Path, help="a .tiktoken file")
    options = parser.parse_args()

    data = read_vocabulary(options.vocabulary) if options.vocabulary else synthetic_vocabulary()
    vocabulary = Vocabulary([*data, b""], [len(data)])
    bytes_only = xgrammar.TokenizerInfo(
        [bytes([byte]) for byte in range(256)] + [b""], stop_token_ids=[256]
    )
    compiler = xgrammar.GrammarCompiler(bytes_only, max_threads=1, cache_enabled=False)
    if options.memory:
        compiled = SUBJECTS[-1].compile(compiler)
        return measure_memory(read_normal_form(str(compiled.grammar)), vocabulary)
    print(f"{len(data)} tokens; block {BLOCK}, K = {TOP_K}, budget {BUDGET}; milliseconds a batch,")
    print("median / p90 / p99\n")
    print("| grammar | masked | rows | cold | next | warm | ratio | found |")
    print("|---|---|---|---|---|---|---|---|")
    for subject in SUBJECTS:
        rules = read_normal_form(str(subject.compile(compiler).grammar))
        measure(subject, rules, vocabulary, repeats=40 if options.quick else 100)

    whole = xgrammar.TokenizerInfo([*data, b""], stop_token_ids=[len(data)])
    compiler = xgrammar.GrammarCompiler(whole, max_threads=2, cache_enabled=False)
    print("\nsampled lookahead on xgrammar's matchers; milliseconds a row, median / p90 / p99\n")
    print("| grammar | masked | N | time | found |")
    print("|---|---|---|---|---|")
    for subject in SUBJECTS:
        measure_sampled(
            subject, subject.compile(compiler), vocabulary, rows=200 if options.quick else 1000
        )


if __name__ == "__main__":
    sys.exit(main())
