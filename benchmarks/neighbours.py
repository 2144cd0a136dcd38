"""Do rows without a constraint get what they get without the plugin, to the token?

    python benchmarks/neighbours.py --model DIR [--requests 200] [--algorithm JointThreshold]

Sends the same requests to the engine without the plugin, then to one with it, each unconstrained
request beside a constrained one, at temperature 0 and in batches of eight. DIR is a checkpoint
whose mask id the engine knows by itself, since nothing else runs without the plugin.

The exit status is 1 if an answer differs.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import requests
import typer
from tqdm import tqdm

from lave_plugin.engines.sglang.server import Server

CONSTRAINTS = (
    {"regex": "[0-9]{4}-[0-9]{2}"},
    {"json_schema": '{"type": "array", "items": {"type": "boolean"}, "maxItems": 3}'},
    {"ebnf": 'root ::= "yes" | "no" ", " root'},
    {"regex": "[a-f]{17}"},
)
AT_ONCE = 8


def free_requests(count: int, seed: int) -> list[dict]:
    """Prompts of 1 to 40 ids and answers of 4 to 40 tokens, neither by whole blocks."""
    rng = random.Random(seed)
    return [
        {
            "input_ids": [rng.randrange(10, 390) for _ in range(rng.randint(1, 40))],
            "sampling_params": {"temperature": 0, "max_new_tokens": rng.randint(4, 40)},
        }
        for _ in range(count)
    ]


def answers(url: str, bodies: list[dict], label: str) -> list[list[int]]:
    def answer(body: dict) -> list[int]:
        response = requests.post(f"{url}/generate", json=body, timeout=300)
        response.raise_for_status()
        return response.json()["output_ids"]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(tqdm(pool.map(answer, bodies), total=len(bodies), desc=label))


def main(
    model: Annotated[Path, typer.Option(help="Folder of the checkpoint.")],
    count: Annotated[int, typer.Option("--requests", help="Unconstrained ones.")] = 200,
    algorithm: str = "LowConfidence",
    seed: int = 0,
    device: str = "cpu",
) -> None:
    free = free_requests(count, seed)
    constrained = [
        {
            "input_ids": body["input_ids"][:5],
            "sampling_params": {"max_new_tokens": 30, **CONSTRAINTS[place % len(CONSTRAINTS)]},
        }
        for place, body in enumerate(free)
    ]
    mixed = [body for pair in zip(free, constrained, strict=True) for body in pair]
    options = {
        "algorithm": algorithm,
        "algorithm_config": {"block_size": 16, "threshold": 0.5},
        "device": device,
    }
    with Server(model, plugins=False, **options) as server:
        expected = answers(server.url, free, "without the plugin")
    with Server(model, constrained_decoding="lave", **options) as server:
        among = answers(server.url, mixed, "with it")[::2]
    differing = [place for place, ids in enumerate(among) if ids != expected[place]]
    print(f"{count - len(differing)} of {count} unconstrained answers are the same to the token")
    raise typer.Exit(bool(differing))


if __name__ == "__main__":
    typer.run(main)
