"""What a constraint costs in a denoising step of the real engine.

    python benchmarks/step_time.py [--model DIR] [--quick]

Starts a server and sends the same prompts, for answers of the same lengths, without and with a
constraint in turns, until the engine has made as many steps of both kinds as it keeps the times of
(``/server_info``); printed are their medians.
A threshold above 1 lets every step commit one token, so that the batches stay together.

`extraction` is what the dLLM that ships was made for: its proposals are mostly allowed. The others
ask it for what it has never seen, so that nearly all are refused: the most that a step can cost.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import requests
import typer
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from lave_plugin.demo.requests import CHAT
from lave_plugin.demo.shipped import CHECKPOINT, algorithm_config
from lave_plugin.demo.tasks import held_out
from lave_plugin.engines.sglang.server import Server
from lave_plugin.engines.sglang.step_times import KEPT

TOKENS = 256
SIZES = (1, 8, 16)
EXTRACTION = "extraction"
MOST_ROUNDS = 40
TEXT = {"type": "string", "minLength": 90, "maxLength": 90}
CONSTRAINTS = {
    "regex": {"regex": "[a-z ,.]{120}"},
    "JSON schema": {
        "json_schema": json.dumps(
            {
                "type": "object",
                "properties": {"text": TEXT, "count": {"type": "integer"}},
                "required": ["text", "count"],
                "additionalProperties": False,
            }
        )
    },
    "EBNF": {
        "ebnf": 'root ::= line{4}\nline ::= [a-z]{3,8} " = " sum ";\\n"\n'
        "sum ::= product | sum [+-] product\nproduct ::= atom | product [*/] atom\n"
        'atom ::= [0-9]+ | [a-z]{1,9} | "(" sum ")" | "-" atom\n'
    },
}


NAMES = (EXTRACTION, *CONSTRAINTS)
NOTHING: dict = {}


def batch_of(name: str, size: int) -> tuple[list[str], list[dict]]:
    """Prompts, and the constraint of each."""
    if name in CONSTRAINTS:
        prompts = [f"Question {number}: what is it? Answer: " for number in range(size)]
        return prompts, [CONSTRAINTS[name]] * size
    samples = held_out(size, seed=3)
    prompts = [CHAT.format(prompt=sample.prompt) for sample in samples]
    return prompts, [{"json_schema": json.dumps(sample.schema)} for sample in samples]


def send(url: str, prompts: list[str], lengths: list[int], constraints: list[dict]) -> list[int]:
    """One batch of prompts, with or without constraints; the tokens of its answers.

    Args:
        lengths: ``max_new_tokens`` of each.
    """

    def post(prompt: str, length: int, constraint: dict) -> int:
        parameters = {"temperature": 0, "max_new_tokens": length, "ignore_eos": True}
        body = {"text": prompt, "sampling_params": {**parameters, **constraint}}
        response = requests.post(f"{url}/generate", json=body, timeout=300)
        response.raise_for_status()
        return response.json()["meta_info"]["completion_tokens"]

    with ThreadPoolExecutor(len(prompts)) as pool:
        return list(pool.map(post, prompts, lengths, constraints))


def step_times(url: str, rows: int) -> dict[str, dict]:
    """The engine's own figures of whole batches of this size, by constrained share."""
    info = requests.get(f"{url}/server_info", timeout=60).json()
    times = info["internal_states"][0]["lave"]["step_times"]
    return {entry["constrained"]: entry for entry in times if entry["rows"] == rows}


def measure(url: str, name: str, size: int) -> dict:
    """The figures of one kind of constraint at one batch size."""
    prompts, constraints = batch_of(name, size)
    room, nothing = [TOKENS] * size, [NOTHING] * size
    # Compiles, unfolds, and shows how long the answers are.
    tokens = send(url, prompts, room, constraints)
    begin = step_times(url, size)
    for _ in range(MOST_ROUNDS):
        send(url, prompts, tokens, nothing)
        send(url, prompts, room, constraints)
        times = step_times(url, size)
        made = [
            times[kind]["total"]["steps"] - (begin[kind]["total"]["steps"] if kind in begin else 0)
            for kind in ("none", "all")
        ]
        if min(made) >= KEPT:
            break
    free, bound = times["none"]["step_ms"], times["all"]["step_ms"]
    return {
        "batch": size,
        "constraint": name,
        "steps": min(made),
        "free_ms": free,
        "constrained_ms": bound,
        "verification_ms": times["all"]["verification_ms"],
        "ratio": bound / free,
    }


def main(
    model: Annotated[Path | None, typer.Option(help="folder of a checkpoint")] = None,
    quick: Annotated[bool, typer.Option(help="two sizes, two kinds")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="write figures here")] = None,
) -> None:
    """Step time with a constraint over step time without, at several batch sizes."""
    folder = model or CHECKPOINT
    figures = []
    config = algorithm_config(folder, threshold=1.1, lave={"forced_tokens": False})
    with Server(
        folder,
        algorithm_config=config,
        constrained_decoding="lave",
        args=["--max-running-requests", "16", "--disable-radix-cache"],
    ) as server:
        sizes, names = ((1, 8), (EXTRACTION, "JSON schema")) if quick else (SIZES, NAMES)
        for size, name in tqdm([(size, name) for size in sizes for name in names], unit="cell"):
            row = measure(server.url, name, size)
            figures.append(row)
            tqdm.write(
                f"batch {size}, {name}: {row['free_ms']:.2f} -> {row['constrained_ms']:.2f} ms, "
                f"{row['ratio']:.3f}"
            )
    table = Table(title="a denoising step of the engine")
    for heading in (
        "batch",
        "constraint",
        "free, ms",
        "constrained, ms",
        "verification, ms",
        "ratio",
    ):
        table.add_column(heading, justify="right")
    for row in figures:
        table.add_row(
            str(row["batch"]),
            row["constraint"],
            f"{row['free_ms']:.2f}",
            f"{row['constrained_ms']:.2f}",
            f"{row['verification_ms']:.2f}",
            f"{row['ratio']:.3f}",
        )
    Console().print(table)
    if json_file:
        json_file.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    typer.run(main)
