"""Many requests in a row on one real server: does it hang, leak, or let a wrong answer through?

    python benchmarks/soak.py [--requests 10000] [--grammars N] [--json OUT]
    python benchmarks/soak.py --quick

Constraints of every kind are drawn at random, most of them new to the server, so that grammars
accumulate; lengths, temperatures and prompts vary. Among them are requests without a constraint,
grammars that must be refused, and clients that leave: at once, while it answers, or while a
grammar compiles. Every finished constrained answer is judged by `jsonschema` and `re`.

--grammars N draws all constraints from N fixed ones. What memory grows by beyond that run is what
grammars cost: SGLang keeps each one that it has compiled (`BaseGrammarBackend.cache`).

The exit status is 1 if a request hung, an answer was wrong, or the server raised an error.
"""

import argparse
import json
import random
import re
import statistics
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import requests
from tqdm import tqdm

from lave_plugin.demo.shipped import CHECKPOINT
from lave_plugin.engines.sglang.server import Server

HANG_SECONDS = 180
SAMPLES = 50
"""Samples of memory in a run."""

WORDS = [
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "haven",
    "iris",
    "jade",
    "kelp",
    "lotus",
    "maple",
    "nova",
]


@dataclass(frozen=True)
class Constraint:
    """A constraint, how many tokens are ample for it, and its judge."""

    field: str
    value: str
    room: int
    is_valid: Callable[[str], bool]


@dataclass(frozen=True)
class Sample:
    """Memory after some requests, in MiB of resident set."""

    requests: int
    grammars: int
    scheduler: float
    server: float


def main() -> int:
    arguments = parse_arguments()
    model = arguments.model or CHECKPOINT
    server = Server(
        model,
        algorithm=arguments.algorithm,
        algorithm_config={"block_size": arguments.block_size, "threshold": arguments.threshold},
        constrained_decoding="lave",
        max_running_requests=arguments.clients,
        log_path=arguments.log,
        args=["--log-level", "warning"],
    )
    with server:
        report = soak(server, arguments)
        report["errors in the log"] = len(re.findall("Traceback", server.log_path.read_text()))
    show(report)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    return int(bool(report["faults"] or report["errors in the log"]))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true", help="200 requests")
    parser.add_argument("--clients", type=int, default=8, help="requests under way at a time")
    parser.add_argument("--grammars", type=int, help="draw from so many; default: new ones")
    parser.add_argument("--leave", type=float, default=0.1, help="share of clients that leave")
    parser.add_argument("--model", type=Path, help="folder; default: the dLLM that ships")
    parser.add_argument("--algorithm", default="LowConfidence")
    parser.add_argument("--block-size", type=int, default=16)
    parser.add_argument(
        "--threshold", type=float, default=0.7, help="a low one means fewer steps an answer"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, help="keep the server's log here")
    parser.add_argument("--json", type=Path, help="write the report here as well")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.requests = 200
    return arguments


def soak(server: Server, arguments: argparse.Namespace) -> dict:
    draw = random.Random(arguments.seed)
    pool = [constraint(draw) for _ in range(arguments.grammars or 0)]
    seen: set[str] = set()
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    samples: list[Sample] = []

    def plan() -> Callable[[], str]:
        """The next request; drawn in one thread, so that a seed means one list of requests."""
        chance = draw.random()
        if chance < 0.02:
            return lambda: refused(server.url)
        chosen = draw.choice(pool) if pool else constraint(draw)
        body = body_of(chosen, draw)
        if chance < 0.07:
            del body["sampling_params"][chosen.field]
            return lambda: free(server.url, body)
        seen.add(chosen.value)
        if chance < 0.07 + arguments.leave:
            patience = draw.choice([0.0, 0.002, 0.02, 0.1])
            return lambda: leave(server.url, body, patience)
        return lambda: answered(server.url, body, chosen)

    def sample(done: int) -> None:
        sizes = {p.pid: (p.name(), p.memory_info().rss / 2**20) for p in server.processes()}
        schedulers = [size for name, size in sizes.values() if "scheduler" in name]
        # Where processes cannot name themselves it is the largest.
        scheduler = max(schedulers or [size for _, size in sizes.values()])
        total = sum(size for _, size in sizes.values())
        samples.append(Sample(done, len(seen), scheduler, total))

    every = max(1, arguments.requests // SAMPLES)
    planned = 0
    started = time.monotonic()
    sample(0)
    with (
        ThreadPoolExecutor(arguments.clients) as clients,
        tqdm(total=arguments.requests, unit=" requests", disable=None) as bar,
    ):
        under_way: deque[Future[str]] = deque()
        for done in range(1, arguments.requests + 1):
            while len(under_way) < 2 * arguments.clients and planned < arguments.requests:
                under_way.append(clients.submit(plan()))
                planned += 1
            try:
                outcome = under_way.popleft().result()
            except requests.exceptions.ConnectionError as error:
                outcome = f"connection lost: {error}"
            kind, _, detail = outcome.partition(": ")
            outcomes[kind] += 1
            if detail:
                faults.append(outcome)
            bar.update()
            if done % every == 0:
                sample(done)
                show_progress(done, samples[-1], faults, time.monotonic() - started)
            given_up = max(outcomes["hung"], outcomes["connection lost"]) > arguments.clients
            if given_up or server.process.poll() is not None:
                break
    seconds = time.monotonic() - started
    faults += still_there(server)
    return {
        "requests": sum(outcomes.values()),
        "seconds": round(seconds, 1),
        "requests a second": round(sum(outcomes.values()) / seconds, 2),
        "outcomes": dict(outcomes),
        "grammars": len(seen),
        "faults": faults,
        "memory": [vars(one) for one in samples],
    }


def show_progress(done: int, sample: Sample, faults: list[str], seconds: float) -> None:
    tqdm.write(
        f"{seconds:5.0f} s: {done} requests, {sample.grammars} grammars, "
        f"scheduler {sample.scheduler:.0f} MiB, {len(faults)} faults"
    )


def constraint(draw: random.Random) -> Constraint:
    """A constraint that has hardly ever been seen before."""
    kind = draw.choice(["schema", "schema", "regex", "ebnf", "tag"])
    if kind == "schema":
        value, room = object_schema(draw)
        return Constraint("json_schema", json.dumps(value), room, judge_of(value))
    if kind == "tag":
        value, room = object_schema(draw)
        name = name_of(draw)
        begin, end = f"<{name}>", f"</{name}>"
        tag = {"begin": begin, "content": {"type": "json_schema", "json_schema": value}, "end": end}
        judge = judge_of(value)
        return Constraint(
            "structural_tag",
            json.dumps({"type": "structural_tag", "format": {"type": "tag", **tag}}),
            room + 20,
            lambda text: (
                text.startswith(begin)
                and text.endswith(end)
                and judge(text.removeprefix(begin).removesuffix(end))
            ),
        )
    words = "|".join(name_of(draw) for _ in range(draw.randint(2, 5)))
    low, high = draw.randint(1, 3), draw.randint(3, 6)
    pattern = rf"({words})(-({words}))?(:[0-9a-f]{{{low},{high}}}){{1,3}}"
    if kind == "regex":
        value = pattern
    else:
        literals = " | ".join(f'"{word}"' for word in words.split("|"))
        value = (
            f'root ::= word ("-" word)? (":" hex){{1,3}}\nword ::= {literals}\n'
            f"hex ::= [0-9a-f]{{{low},{high}}}"
        )
    compiled = re.compile(pattern)
    return Constraint(kind, value, 60, lambda text: compiled.fullmatch(text) is not None)


def name_of(draw: random.Random) -> str:
    return f"{draw.choice(WORDS)}{draw.choice(WORDS)}{draw.randint(0, 99)}"


def object_schema(draw: random.Random) -> tuple[dict[str, Any], int]:
    """A closed object with its properties required, and tokens that are ample for it."""
    properties = {name_of(draw): value_schema(draw) for _ in range(draw.randint(1, 4))}
    closed = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return closed, 40 + 50 * len(properties)


def value_schema(draw: random.Random) -> dict[str, Any]:
    low = draw.randint(0, 50)
    return draw.choice(
        [
            {"type": "boolean"},
            {"type": "integer", "minimum": low, "maximum": low + draw.randint(5, 500)},
            {"enum": [name_of(draw) for _ in range(draw.randint(2, 4))]},
            {"type": "string", "pattern": f"^[a-z]{{1,{draw.randint(3, 12)}}}$"},
            {"type": "array", "items": {"type": "boolean"}, "maxItems": draw.randint(1, 4)},
            {"type": ["integer", "null"]},
        ]
    )


def judge_of(value: dict[str, Any]) -> Callable[[str], bool]:
    validator = jsonschema.Draft202012Validator(value)

    def is_valid(text: str) -> bool:
        try:
            return validator.is_valid(json.loads(text))
        except json.JSONDecodeError:
            return False

    return is_valid


def body_of(chosen: Constraint, draw: random.Random) -> dict[str, Any]:
    prompt = " ".join(draw.choices(WORDS, k=draw.randint(1, 40)))
    return {
        "text": f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n",
        "sampling_params": {
            chosen.field: chosen.value,
            "max_new_tokens": chosen.room + draw.randint(0, 60),
            "temperature": draw.choice([0.0, 1.0]),
        },
    }


def post(url: str, body: dict[str, Any], **options) -> requests.Response:
    return requests.post(f"{url}/generate", json=body, timeout=HANG_SECONDS, **options)


def answered(url: str, body: dict[str, Any], chosen: Constraint) -> str:
    try:
        response = post(url, body)
    except requests.exceptions.Timeout:
        return f"hung: {body}"
    if response.status_code != 200:
        return f"refused or failed: {response.status_code} {response.text} {body}"
    result = response.json()
    meta = result["meta_info"]
    if not chosen.is_valid(result["text"]):
        return f"invalid: {result['text']!r} {body}"
    if meta["finish_reason"]["type"] != "stop":
        return f"not ended: {meta['finish_reason']} {body}"
    if meta["completion_tokens"] > body["sampling_params"]["max_new_tokens"]:
        return f"too long: {body}"
    return "valid"


def free(url: str, body: dict[str, Any]) -> str:
    try:
        response = post(url, body)
    except requests.exceptions.Timeout:
        return f"hung: {body}"
    return "free" if response.status_code == 200 else f"free one failed: {response.text}"


def refused(url: str) -> str:
    body = {"text": "x", "sampling_params": {"regex": "[a-"}}
    try:
        response = post(url, body)
    except requests.exceptions.Timeout:
        return f"hung: {body}"
    return "refused" if response.status_code == 400 else f"not refused: {response.text}"


def leave(url: str, body: dict[str, Any], patience: float) -> str:
    """A client that goes away: after the first piece of the answer, or before there is any."""
    try:
        if patience == 0.0:
            with post(url, body | {"stream": True}, stream=True) as response:
                next(response.iter_lines(), None)
        else:
            requests.post(f"{url}/generate", json=body, timeout=(HANG_SECONDS, patience))
    except requests.exceptions.Timeout:
        pass  # left, as it meant to
    except requests.exceptions.ConnectionError as error:
        if "timed out" not in str(error):
            return f"connection lost: {error}"
    return "left"


def still_there(server: Server) -> list[str]:
    """What is wrong with the server once nobody asks for anything."""
    if server.process.poll() is not None:
        return [f"the server ended with status {server.process.returncode}"]
    body = {"text": "x", "sampling_params": {"regex": "[0-9]{9}", "max_new_tokens": 20}}
    outcome = answered(
        server.url, body, Constraint("regex", "", 20, re.compile("[0-9]{9}").fullmatch)
    )
    if outcome != "valid":
        return [f"afterwards: {outcome}"]
    for _ in range(20):  # abandoned requests may have a block to go
        if busy_share(server) < 0.3:
            return []
    return ["still at work for nobody"]


def busy_share(server: Server) -> float:
    """Cores that the server's processes keep busy at present."""

    def used() -> float:
        times = []
        for process in server.processes():
            try:
                times.append(process.cpu_times())
            except psutil.NoSuchProcess:
                continue
        return sum(t.user + t.system for t in times)

    before = used()
    time.sleep(1.0)
    return used() - before


def show(report: dict) -> None:
    print(
        f"{report['requests']} requests, {report['grammars']} grammars, {report['seconds']} s, "
        f"{report['requests a second']} requests a second"
    )
    print("  " + ", ".join(f"{count} {kind}" for kind, count in report["outcomes"].items()))
    memory = report["memory"]
    for name, at in (("start", 0), ("middle", len(memory) // 2), ("end", -1)):
        row = memory[at]
        print(
            f"  {name}: {row['requests']} requests, {row['grammars']} grammars: scheduler "
            f"{row['scheduler']:.1f} MiB, all processes {row['server']:.1f} MiB"
        )
    print(f"  second half: {slope(memory[len(memory) // 2 :]):.2f} KiB of scheduler a grammar")
    print(f"  errors in the server's log: {report['errors in the log']}")
    for fault in report["faults"][:20]:
        print(f"  FAULT {fault[:1000]}")
    print(f"  {len(report['faults'])} faults")


def slope(memory: list[dict]) -> float:
    """KiB by which the scheduler grows with each grammar, by least squares; 0 without new ones."""
    grammars = [row["grammars"] for row in memory]
    if len(set(grammars)) < 2:
        return 0.0
    sizes = [row["scheduler"] * 1024 for row in memory]
    return statistics.linear_regression(grammars, sizes).slope


if __name__ == "__main__":
    sys.exit(main())
