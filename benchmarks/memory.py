"""What the states of a million tokens of C-like text take, with searches along it, under a cap.

    python benchmarks/memory.py [--vocabulary qwen.tiktoken]

A line for every 100,000 tokens: states and megabytes now, how often they were flushed, and the most
that the process has taken.
"""

import random
import resource
import time
from pathlib import Path
from typing import Annotated

import typer

from lave_plugin import native
from lave_plugin.bench.lookahead.guided import search, state_behind
from lave_plugin.bench.lookahead.rows import BLOCK, RowMaker
from lave_plugin.bench.synthetic.subjects import SUBJECTS
from lave_plugin.bench.synthetic.vocabularies import (
    read_vocabulary,
    synthetic_vocabulary,
    tokenize,
)
from lave_plugin.grammar.normal_form import read_normal_form
from lave_plugin.grammar.text_compiler import text_compiler
from lave_plugin.grammar.vocabulary import Vocabulary

(C_LIKE,) = (subject for subject in SUBJECTS if subject.name == "C-like")
STEP, TOKENS = 100_000, 1_000_000


def main(
    vocabulary: Annotated[Path | None, typer.Option(help="A .tiktoken file.")] = None,
    max_states: Annotated[int, typer.Option(help="The cap.")] = 50_000,
) -> None:
    """Walk and search until a million tokens have passed."""
    data = read_vocabulary(vocabulary) if vocabulary else synthetic_vocabulary()
    spelled = Vocabulary([*data, b""], [len(data)])
    rules = read_normal_form(str(C_LIKE.compile(text_compiler()).grammar))
    tokens = native.TokenAutomaton(native.Automaton(rules, max_states), spelled)
    rng = random.Random(0)

    def text() -> list[int]:
        return tokenize(spelled, C_LIKE.text(rng).encode())

    maker = RowMaker([text() for _ in range(300)], spelled, rng)
    count, begin = 0, time.perf_counter()
    for report in range(STEP, TOKENS + STEP, STEP):
        while count < report:
            tokens.make_room()
            walked = text()
            state_behind(tokens, walked)
            rows = [maker.row(0.5) for _ in range(16)]
            search(tokens, rows)
            count += len(walked) + sum(len(row.prefix) + BLOCK for row in rows)
        print(
            f"{count:>9} tokens: {tokens.automaton.state_count:>6} states,"
            f" {tokens.automaton.memory / 1e6:5.1f} MB, flushed {tokens.generation} times; process"
            f" {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB at most,"
            f" {time.perf_counter() - begin:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    typer.run(main)
