"""What a draw from the posterior costs, by the chain and by the tree.

    python benchmarks/tree_sampler.py [--quick] [--device cpu] [--json OUT]

Random automata of so many states, each with edges of eight classes of tokens to one of the 16
states behind it (`band`) or to any (`any`), and blocks of masks under random weights. `lattice`
is what both need: the segmented sum over 4,096 tokens, and the layers. `chain` is one backward
pass and a draw, `tree` the products and a draw; both are medians in milliseconds, on a CPU of one
thread's own time, so that other load counts little. The depth is the number of steps one after
the other. A tree that would multiply more than 4e10 numbers or
take more than 2 GiB is left out ("-"), and so is one of more states than the sampler takes.
"""

import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Annotated

import numpy
import torch
import typer
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar.token_classes import ClassAutomaton
from lave_plugin.regular import ClassLayers
from lave_plugin.tree import MAX_STATES, Tree

TOKENS, CLASSES, DEGREE = 4096, 64, 8
MOST_PRODUCTS, MOST_BYTES = 4e10, 2 << 30


def random_automaton(states: int, band: bool, seed: int = 0) -> ClassAutomaton:
    """Every state can finish at once, so that nothing is cut for the budget."""
    random = numpy.random.default_rng(seed)
    label = numpy.stack([random.permutation(CLASSES)[:DEGREE] for _ in range(states)])
    if band:
        behind = random.integers(1, 17, (states, DEGREE))
        target = (numpy.arange(states)[:, None] + behind) % states
    else:
        target = random.integers(0, states, (states, DEGREE))
    class_of = numpy.sort(random.integers(0, CLASSES, TOKENS))
    return ClassAutomaton(
        index={state: state for state in range(states)},
        class_of=class_of,
        order=numpy.arange(TOKENS),
        begins=numpy.searchsorted(class_of, numpy.arange(CLASSES + 1)),
        source=numpy.repeat(numpy.arange(states), DEGREE),
        target=target.reshape(-1),
        label=label.reshape(-1),
        edge_begins=numpy.arange(states + 1) * DEGREE,
        to_finish=numpy.zeros(states, numpy.int64),
    )


@dataclass
class Row:
    """Milliseconds."""

    edges: str
    states: int
    block: int
    largest: int
    lattice: float
    chain: float
    tree: float | None
    chain_depth: int
    tree_depth: int


def median_of(
    run: Callable[[], object], times: int, clock: Callable[[], float]
) -> tuple[float, object]:
    """Milliseconds, and the last result."""
    taken = []
    for _ in range(times):
        begin = clock()
        result = run()
        taken.append(1e3 * (clock() - begin))
    return statistics.median(taken), result


def measure(states: int, block: int, band: bool, device: str, times: int) -> Row:
    automaton = random_automaton(states, band)
    logits = torch.randn(block, TOKENS, generator=torch.Generator().manual_seed(block))
    weights = logits.log_softmax(-1).to(device)
    canvas = Canvas([MASKED] * block, 0, block + 1)
    random = Random(1)

    def unfold() -> ClassLayers:
        return ClassLayers(automaton, 0, canvas, weights)

    def chain() -> None:
        # Anew each time: what it has summed it keeps.
        lattice.__dict__.pop("_to_the_end", None)
        lattice.sample(random)

    clock = time.process_time if device == "cpu" else time.perf_counter
    lattice_ms, lattice = median_of(unfold, times, clock)
    chain_ms, _ = median_of(chain, times, clock)
    positions, largest = 1 << math.ceil(math.log2(block)), lattice.largest
    tree_ms = None
    if (
        largest <= MAX_STATES
        and positions * largest**3 <= MOST_PRODUCTS
        and 4 * positions * largest**2 * 8 <= MOST_BYTES
    ):
        tree_ms, _ = median_of(lambda: Tree(lattice, device).sample(random), times, clock)
    return Row(
        "band" if band else "any",
        states,
        block,
        largest,
        lattice_ms,
        chain_ms,
        tree_ms,
        2 * block,
        2 * math.ceil(math.log2(block)),
    )


def table_of(rows: list[Row]) -> Table:
    table = Table(title="a draw from the posterior, ms")
    for name in ("edges to", "states", "block", "in a layer", "lattice", "chain", "tree"):
        table.add_column(name, justify="right")
    table.add_column("depth of chain / tree", justify="right")
    for row in rows:
        table.add_row(
            row.edges,
            str(row.states),
            str(row.block),
            str(row.largest),
            f"{row.lattice:.1f}",
            f"{row.chain:.1f}",
            "-" if row.tree is None else f"{row.tree:.1f}",
            f"{row.chain_depth} / {row.tree_depth}",
        )
    return table


def main(
    quick: Annotated[bool, typer.Option(help="Small ones only.")] = False,
    device: Annotated[str, typer.Option(help="Where logits and matrices are.")] = "cpu",
    out: Annotated[Path | None, typer.Option("--json", help="Where to write the figures.")] = None,
) -> None:
    """Measure."""
    torch.set_num_threads(1)
    blocks = (32, 128) if quick else (32, 64, 128, 256, 512)
    sizes = (16, 64, 256) if quick else (16, 64, 256, 1000, 5000)
    cases = [(s, b, band) for band in (True, False) for s in sizes for b in blocks]
    rows = [
        measure(states, block, band, device, 3) for states, block, band in tqdm(cases, unit="case")
    ]
    Console(width=110).print(table_of(rows))
    if out is not None:
        out.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    typer.run(main)
