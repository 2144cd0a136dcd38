"""Is this installation fit to enforce a constraint? What ``lave doctor`` finds out.

Each function looks at one thing and returns what it found. The hooks are looked at in a process of
their own, as SGLang loads them, since they stay once they are in place.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import requests

from lave_plugin.demo import checks
from lave_plugin.engines.sglang import cpu

Status = Literal["ok", "warning", "fault"]

PLUGIN_GROUP = "sglang.srt.plugins"
PACKAGES = ("sglang", "xgrammar", "torch", "transformers")
HOOKS_SECONDS = 120
REQUEST_SECONDS = 60
REST_SECONDS = 2
"""How long a server is watched to see whether it steps when nothing is asked of it."""


class Finding(NamedTuple):
    """What was looked at, what was found, and what to do about it where something is wrong."""

    status: Status
    what: str
    found: str
    advice: str = ""


# --- the installation -----------------------------------------------------------------------


def packages() -> Iterator[Finding]:
    """Python and the packages that the plugin works inside of."""
    yield Finding("ok", "Python", sys.version.split()[0])
    for name in PACKAGES:
        try:
            yield Finding("ok", name, version(name))
        except PackageNotFoundError:
            yield Finding(
                "fault",
                name,
                "not installed",
                f"Install it in {sys.prefix}.",
            )


def plugin() -> Finding:
    """Whether SGLang finds the plugin: by its entry point, and not left out by SGLANG_PLUGINS."""
    (found,) = [*entry_points(group=PLUGIN_GROUP, name="lave"), None][:1]
    if found is None:
        return Finding(
            "fault",
            "plugin",
            f"no entry point 'lave' in the group {PLUGIN_GROUP}",
            "Install lave-plugin with pip; a folder on PYTHONPATH alone is not seen by SGLang.",
        )
    chosen = os.environ.get("SGLANG_PLUGINS", "")
    if chosen and "lave" not in [name.strip() for name in chosen.split(",")]:
        return Finding(
            "fault",
            "plugin",
            f"left out by SGLANG_PLUGINS={chosen}",
            "Add lave to SGLANG_PLUGINS, or unset it.",
        )
    return Finding("ok", "plugin", f"{found.value}, version {version('lave-plugin')}")


_CHECK_HOOKS = """
import json
from sglang.srt.plugins import load_plugins
load_plugins()
from lave_plugin.engines.sglang import contract
try:
    contract.check()
    print(json.dumps([len(contract.HOOKS), None, contract.TRIED_VERSIONS]))
except contract.EngineMismatch as error:
    print(json.dumps([len(contract.HOOKS), str(error), contract.TRIED_VERSIONS]))
"""


def hooks() -> Finding:
    """Whether every hook stands on a function of the form that the plugin knows."""
    result = subprocess.run(
        [sys.executable, "-c", _CHECK_HOOKS],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=HOOKS_SECONDS,
        check=False,
    )
    if result.returncode:
        last = (result.stderr.strip().splitlines() or ["no output"])[-1]
        return Finding("fault", "hooks", last, "Is SGLang itself able to start here?")
    count, error, tried = json.loads(result.stdout.strip().splitlines()[-1])
    if error is not None:
        return Finding("fault", "hooks", error, f"Install sglang=={tried[-1]}.")
    engine = version("sglang")
    if engine not in tried:
        return Finding(
            "warning",
            "hooks",
            f"all {count} fit SGLang {engine}, which was not tried as a whole",
            f"Tried: {', '.join(tried)}.",
        )
    return Finding("ok", "hooks", f"all {count} stand on SGLang {engine}")


def environment() -> dict[str, str]:
    """The environment in which SGLang can be imported here."""
    import torch

    return dict(os.environ) if torch.cuda.is_available() else cpu.environment()


def native_part() -> Finding:
    """Whether the states in C++ were built."""
    try:
        from lave_plugin import native
    except ImportError as error:
        return Finding(
            "warning",
            "native part",
            f"not there ({error}): the Python reference serves, to the same effect and slower",
            "Install the plugin again where a C++17 compiler is at hand.",
        )
    return Finding("ok", "native part", Path(native._native.__file__).name)


def reading_of_grammars() -> Finding:
    """Whether xgrammar's grammars are judged as xgrammar judges them, on a table of cases."""
    from lave_plugin.grammar import self_test

    difference = self_test.first_difference(self_test.CASES)
    if difference is not None:
        return Finding(
            "fault",
            "grammars",
            f"read otherwise than xgrammar does: {difference}",
            f"Install xgrammar=={self_test.TRIED_VERSIONS[-1]}.",
        )
    return Finding("ok", "grammars", f"{len(self_test.CASES)} of every kind read as xgrammar does")


def checkpoint(folder: Path) -> Iterator[Finding]:
    """Whether a checkpoint's tokenizer can be read, and which token is its mask."""
    import xgrammar
    from transformers import AutoTokenizer

    try:
        settings = json.loads((folder / "config.json").read_text())
        tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
        info = xgrammar.TokenizerInfo.from_huggingface(
            tokenizer, vocab_size=settings.get("vocab_size")
        )
    except Exception as error:  # whatever is wrong with the files, it is to be told
        yield Finding(
            "fault",
            "tokenizer",
            f"{type(error).__name__}: {error}",
            f"Look into {folder}.",
        )
        return
    single = {data for data in info.decoded_vocab if len(data) == 1}
    missing = [chr(byte) for byte in range(0x20, 0x7F) if bytes([byte]) not in single]
    count = f"{info.vocab_size} tokens, {sum(map(bool, info.decoded_vocab))} of them text"
    if missing:
        yield Finding(
            "warning",
            "tokenizer",
            f"{count}; no token of its own for {' '.join(missing)}",
            "Grammars that need those characters alone will be refused or need longer tokens.",
        )
    else:
        yield Finding("ok", "tokenizer", count)
    mask = settings.get("mask_token_id")
    known = "the engine's own for this architecture" if mask is None else f"id {mask}"
    yield Finding("ok", "mask", known)


# --- a running server -----------------------------------------------------------------------

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Lima"]}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
_TAG = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<call>",
        "content": {"type": "json_schema", "json_schema": _SCHEMA},
        "end": "</call>",
    },
}
SELF_TEST: tuple[tuple[str, dict[str, str], checks.Check], ...] = (
    ("json_schema", {"json_schema": json.dumps(_SCHEMA)}, checks.json_schema(_SCHEMA)),
    ("json_object", {"json_schema": '{"type": "object"}'}, checks.json_object),
    ("regex", {"regex": "[0-9]{4}-[0-9]{2}"}, checks.regex("[0-9]{4}-[0-9]{2}")),
    ("ebnf", {"ebnf": 'root ::= "yes" | "no" ", " root'}, checks.regex("(no, )*yes")),
    (
        "structural_tag",
        {"structural_tag": json.dumps(_TAG)},
        checks.between("<call>", checks.json_schema(_SCHEMA), "</call>"),
    ),
)
"""Name, constraint as SGLang's native API takes it, and the judge."""


def server(url: str, api_key: str | None = None) -> Iterator[Finding]:
    """Whether the server at ``url`` runs the plugin, five requests to it, whether it rests then."""
    session = requests.Session()
    if api_key:
        session.headers["Authorization"] = f"Bearer {api_key}"
    try:
        info = _server_info(session, url)
    except (requests.RequestException, ValueError) as error:
        yield Finding(
            "fault",
            "server",
            f"{url} does not answer: {error}",
            "Is this its root, without /v1?",
        )
        return
    states = info.get("internal_states") or [{}]
    if not all("lave" in state for state in states):
        yield Finding(
            "fault",
            "server",
            f"{url} runs without a constraint (SGLang {info.get('version', '?')})",
            "Start it with --constrained-decoding lave in an environment that has the plugin.",
        )
        return
    algorithm = info.get("dllm_algorithm")
    yield Finding("ok", "server", f"{url}: SGLang {info.get('version', '?')}, {algorithm}")
    for name, constraint, check in SELF_TEST:
        yield _request(session, url, name, constraint, check)
    yield _rest(session, url)


def _server_info(session: requests.Session, url: str) -> dict[str, Any]:
    response = session.get(f"{url}/server_info", timeout=REQUEST_SECONDS)
    response.raise_for_status()
    return response.json()


def _rest(session: requests.Session, url: str) -> Finding:
    """Whether the server makes steps while nothing is asked of it here.

    Where the model likes the mask best, SGLang fills the mask with the mask, and a request
    without a constraint, such as its own health check, never ends (``patches/0006``).
    """

    def steps() -> int:
        entries = (
            entry
            for state in _server_info(session, url)["internal_states"]
            for entry in state["lave"].get("step_times", [])
        )
        return sum(entry["total"]["steps"] for entry in entries)

    try:
        before = steps()
        time.sleep(REST_SECONDS)
        made = steps() - before
    except (requests.RequestException, ValueError, KeyError) as error:
        return Finding("fault", "rest", f"no answer: {error}", "See the server's log.")
    if made:
        return Finding(
            "warning",
            "rest",
            f"{made} steps in {REST_SECONDS} s in which nothing was asked of it here",
            "If nobody else uses it, a request there never ends, for the model fills the mask with "
            "the mask: patches/0006 helps, or a model that does not.",
        )
    return Finding("ok", "rest", f"no step in {REST_SECONDS} s in which nothing was asked")


def _request(
    session: requests.Session, url: str, name: str, constraint: dict[str, str], check: checks.Check
) -> Finding:
    parameters = {"temperature": 0, "max_new_tokens": 100, **constraint}
    body = {"text": "Three days in Oslo, please.", "sampling_params": parameters}
    try:
        response = session.post(f"{url}/generate", json=body, timeout=REQUEST_SECONDS)
    except requests.RequestException as error:
        return Finding("fault", name, f"no answer: {error}", "See the server's log.")
    if response.status_code != 200:
        return Finding(
            "fault", name, f"{response.status_code}: {response.text[:300]}", "See the server's log."
        )
    text = response.json()["text"]
    if complaint := check(text):
        return Finding(
            "fault",
            name,
            f"{text!r} is not valid: {complaint}",
            "Please report it.",
        )
    return Finding("ok", name, repr(text))
