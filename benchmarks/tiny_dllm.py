"""What a tiny dLLM of the demo's kind does by itself and under constraints, in the real engine.

    python benchmarks/tiny_dllm.py [CHECKPOINT] [--samples 100] [--task cpp --task sql] [--json OUT]

Held-out prompts of the demo's tasks (lave_plugin/demo/tasks), decoded by LowConfidence on one
server for each threshold, eight requests at a time; each prompt goes once without and once with
its constraint. `valid` is by judges outside the plugin (jsonschema, re, xgrammar's matcher);
`exact` is the reference to the letter; `right` is what the answer does: C++ passes its tests, SQL
returns the reference's rows, JSON has its values. `steps` are denoising steps of constrained
answers. The figures of the model card come from here.
"""

import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import requests
import typer
from tqdm import tqdm

from lave_plugin.demo.records import Sample
from lave_plugin.demo.requests import CHAT, sampling_of
from lave_plugin.demo.shipped import CHECKPOINT, algorithm_config
from lave_plugin.demo.tasks import MAKERS, held_out
from lave_plugin.demo.tasks.judging import is_right, is_valid
from lave_plugin.demo.training.evaluate import EVALUATION_SEED, MAX_NEW_TOKENS
from lave_plugin.engines.sglang.server import Server

AT_ONCE = 8


@dataclass
class Row:
    """Figures of one task in one setting, in percent; steps are a mean."""

    task: str
    threshold: float
    temperature: float
    constrained: bool
    samples: int
    valid: float
    exact: float
    right: float
    steps: float | None = None


def ask(url: str, sample: Sample, temperature: float, constrained: bool) -> dict:
    parameters = {"temperature": temperature, "max_new_tokens": MAX_NEW_TOKENS}
    if constrained:
        parameters |= sampling_of(sample)
    body = {"text": CHAT.format(prompt=sample.prompt), "sampling_params": parameters}
    response = requests.post(f"{url}/generate", json=body, timeout=300)
    response.raise_for_status()
    return response.json()


def measured(
    url: str, threshold: float, tasks: list[str], temperatures: list[float], count: int
) -> Iterator[Row]:
    cells = list(itertools.product(tasks, temperatures, (False, True)))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for task, temperature, constrained in tqdm(cells, desc=f"threshold {threshold}"):
            samples = held_out(count, EVALUATION_SEED, task)
            answers = list(
                pool.map(lambda s, t=temperature, c=constrained: ask(url, s, t, c), samples)
            )
            pairs = [(s, answer["text"]) for s, answer in zip(samples, answers, strict=True)]
            steps = [a["meta_info"]["lave"]["steps"] for a in answers if "lave" in a["meta_info"]]
            yield Row(
                task,
                threshold,
                temperature,
                constrained,
                count,
                valid=100 * sum(is_valid(*pair) for pair in pairs) / count,
                exact=100 * sum(sample.answer == text for sample, text in pairs) / count,
                right=100 * sum(pool.map(lambda pair: is_right(*pair), pairs)) / count,
                steps=sum(steps) / len(steps) if steps else None,
            )


def table_of(rows: list[Row]) -> str:
    """Free and constrained beside each other, as the model card has them."""
    lines = [
        "| task | threshold | temperature | valid | exact | right | steps |",
        "|---|---|---|---|---|---|---|",
    ]
    for free, kept in zip(rows[::2], rows[1::2], strict=True):
        shares = [
            f"{getattr(free, name):.0f} → {getattr(kept, name):.0f} %"
            for name in ("valid", "exact", "right")
        ]
        steps = "" if kept.steps is None else f"{kept.steps:.1f}"
        cells = (free.task, free.threshold, free.temperature, *shares, steps)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main(
    checkpoint: Annotated[Path | None, typer.Argument(help="Default: the one that ships.")] = None,
    samples: Annotated[int, typer.Option(help="Held-out prompts of each task.")] = 100,
    task: Annotated[list[str] | None, typer.Option(help="Default: all.")] = None,
    threshold: Annotated[list[float] | None, typer.Option(help="Default: 0.95, 0.7, 0.5.")] = None,
    temperature: Annotated[list[float] | None, typer.Option(help="Default: 0.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows here.")] = None,
) -> None:
    tasks = task or list(MAKERS)
    unknown = [name for name in tasks if name not in MAKERS]
    if unknown:
        raise typer.BadParameter(f"no task {', '.join(unknown)}; there are {', '.join(MAKERS)}")
    checkpoint = checkpoint or CHECKPOINT
    rows: list[Row] = []
    for each in threshold or [0.95, 0.7, 0.5]:
        config = algorithm_config(checkpoint, threshold=each)
        with Server(checkpoint, algorithm_config=config, constrained_decoding="lave") as server:
            for row in measured(server.url, each, tasks, temperature or [0.0], samples):
                rows.append(row)
                if json_file is not None:
                    json_file.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    print(table_of(rows))


if __name__ == "__main__":
    typer.run(main)
