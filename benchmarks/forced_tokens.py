"""What forced tokens save: denoising steps an answer with them and without, in the real engine.

    python benchmarks/forced_tokens.py [--samples 20] [--json OUT]

The dLLM that ships is asked for records under a schema of long keys, a constant and an enum that
it never saw. By itself it would commit nearly one token a step there; tokens that the grammar
leaves no choice of cost no step of their own. Two servers, one after another: a minute and a half.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean
from typing import Annotated

import requests
import typer
from rich.console import Console
from rich.table import Table

from lave_plugin.demo import checks
from lave_plugin.demo.requests import CHAT, record
from lave_plugin.demo.shipped import CHECKPOINT, algorithm_config
from lave_plugin.demo.tasks import held_out
from lave_plugin.engines.sglang.server import Server

AT_ONCE = 4
SCHEMA = record(
    documentClassificationVersion={"const": "2026-11 preliminary release"},
    primaryAdministrativeSubject={"type": "string", "maxLength": 40},
    retentionScheduleIdentifier={"enum": ["permanent archive", "destroy after review"]},
    quantityOfAttachedAppendices={"type": "integer", "minimum": 0, "maximum": 9999},
)
MAX_TOKENS = 256


def answers(samples: int, forced: bool) -> list[dict]:
    """The same prompts on a server of their own; the engine's answers."""
    config = algorithm_config(lave={"forced_tokens": forced})
    with (
        Server(CHECKPOINT, algorithm_config=config, constrained_decoding="lave") as server,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        url = f"{server.url}/generate"
        return list(pool.map(lambda sample: _answer(url, sample.prompt), held_out(samples, seed=0)))


def _answer(url: str, prompt: str) -> dict:
    parameters = {
        "json_schema": json.dumps(SCHEMA),
        "temperature": 0,
        "max_new_tokens": MAX_TOKENS,
    }
    body = {"text": CHAT.format(prompt=prompt), "sampling_params": parameters}
    response = requests.post(url, json=body, timeout=120)
    response.raise_for_status()
    return response.json()


def main(
    samples: Annotated[int, typer.Option(min=1, help="Prompts.")] = 20,
    out: Annotated[Path | None, typer.Option("--json", help="Where to write the figures.")] = None,
) -> None:
    """Compare the steps of an answer."""
    is_valid = checks.json_schema(SCHEMA)
    rows = []
    for forced in (True, False):
        found = answers(samples, forced)
        facts = [answer["meta_info"]["lave"] for answer in found]
        rows.append(
            {
                "forced_tokens": forced,
                "answers": len(found),
                "valid": sum(is_valid(answer["text"]) is None for answer in found),
                "tokens": mean(answer["meta_info"]["completion_tokens"] for answer in found),
                "forced": mean(fact["forced_tokens"] for fact in facts),
                "steps": mean(fact["steps"] for fact in facts),
            }
        )
    table = Table(*rows[0], title="an answer, means")
    for row in rows:
        table.add_row(*(f"{v:.1f}" if isinstance(v, float) else str(v) for v in row.values()))
    Console(width=100).print(table)
    if out is not None:
        out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    typer.run(main)
