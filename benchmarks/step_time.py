"""What a constraint costs in a denoising step of the real engine.

    python benchmarks/step_time.py [--model DIR] [--quick]

Starts a server and sends the same prompts, for answers of the same lengths, without and with a
constraint in turns. The engine itself times its steps (``/server_info``); printed are the medians
of the last 512 of each kind.
A threshold above 1 lets every step commit one token, so that the batches stay together.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import requests
import typer
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from lave_plugin.engines.sglang.server import Server

TOKENS = 256
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


def send(url: str, prompts: list[str], lengths: list[int], constraint: dict) -> list[int]:
    """One batch of prompts, with or without a constraint; the tokens of its answers.

    Args:
        lengths: ``max_new_tokens`` of each.
    """

    def post(prompt: str, length: int) -> int:
        parameters = {"temperature": 0, "max_new_tokens": length, "ignore_eos": True}
        body = {"text": prompt, "sampling_params": {**parameters, **constraint}}
        response = requests.post(f"{url}/generate", json=body, timeout=300)
        response.raise_for_status()
        return response.json()["meta_info"]["completion_tokens"]

    with ThreadPoolExecutor(len(prompts)) as pool:
        return list(pool.map(post, prompts, lengths))


def step_times(url: str, rows: int) -> dict[str, dict]:
    """The engine's own figures of whole batches of this size, by constrained share."""
    info = requests.get(f"{url}/server_info", timeout=60).json()
    times = info["internal_states"][0]["lave"]["step_times"]
    return {entry["constrained"]: entry for entry in times if entry["rows"] == rows}


def main(
    model: Annotated[Path | None, typer.Option(help="folder of a checkpoint")] = None,
    quick: Annotated[bool, typer.Option(help="fewer rounds")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="write figures here")] = None,
) -> None:
    """Step time with a constraint over step time without, at several batch sizes."""
    folder = model or Path(str(files("lave_plugin.demo") / "checkpoint"))
    rounds = 2 if quick else 8
    figures = []
    config = {"block_size": 16, "threshold": 1.1, "lave": {"forced_tokens": False}}
    with Server(
        folder,
        algorithm_config=config,
        constrained_decoding="lave",
        args=["--max-running-requests", "16", "--disable-radix-cache"],
    ) as server:
        cells = [(size, name) for size in (1, 8, 16) for name in CONSTRAINTS]
        for size, name in tqdm(cells, unit="cell"):
            prompts = [f"Question {number}: what is it? Answer: " for number in range(size)]
            room = [TOKENS] * size
            # Compiles, unfolds, and shows how long the answers are.
            tokens = send(server.url, prompts, room, CONSTRAINTS[name])
            for _ in range(rounds):
                send(server.url, prompts, tokens, {})
                send(server.url, prompts, room, CONSTRAINTS[name])
            times = step_times(server.url, size)
            free, bound = times["none"]["step_ms"], times["all"]["step_ms"]
            figures.append(
                {
                    "batch": size,
                    "constraint": name,
                    "free_ms": free,
                    "constrained_ms": bound,
                    "verification_ms": times["all"]["verification_ms"],
                    "ratio": bound / free,
                }
            )
            tqdm.write(f"batch {size}, {name}: {free:.2f} -> {bound:.2f} ms, {bound / free:.3f}")
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
