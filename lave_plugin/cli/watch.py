"""``lave watch``: a request being denoised, step by step, as the engine makes the steps.

It asks for a stream, in which a chunk comes with each step (``engines/sglang/response.py``). That
needs no option: where a server tells all at the end, the same is shown then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import requests
import typer
from rich.console import Console
from rich.markup import escape

from lave_plugin.bench.client import events, message
from lave_plugin.cli.demo import (
    Device,
    Model,
    say,
    server_of,
    sigterm_as_exit,
)
from lave_plugin.cli.doctor import ApiKey, Url
from lave_plugin.cli.subject import Ebnf, Lark, Named, Regex, Schema, fail, given_grammar
from lave_plugin.demo.requests import INTEGER, STRING, record
from lave_plugin.demo.shipped import CHECKPOINT
from lave_plugin.engines.sglang.server import ServerError
from lave_plugin.watch.page import page
from lave_plugin.watch.story import Story
from lave_plugin.watch.terminal import show

TIMEOUT = 600.0
EXAMPLE = (
    "JSON of this film, keys director, genres. The Sunken Lantern (1933) by Ursula Marmonfen got "
    "4.7 and counts as musical and war.",
    json.dumps(record(director=STRING, year=INTEGER)),
)
"""The shipped model would have genres; the schema has a year."""

Prompt = Annotated[
    str | None,
    typer.Argument(
        help="What to ask, as a user's message. Without it: an example.", show_default=False
    ),
]
GrammarFile = Annotated[
    str | None,
    typer.Argument(
        metavar="[GRAMMAR]",
        help="A file: .json (a schema), .lark, .ebnf, .gbnf or .regex; left out where an option "
        "gives it.",
        show_default=False,
    ),
]
Html = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a page with a slider instead.")
]
Step = Annotated[bool, typer.Option("--step", help="Wait for Enter after each step.")]
Pace = Annotated[
    float, typer.Option(min=0, help="Seconds that a step is shown at least, at a terminal.")
]
MaxTokens = Annotated[int, typer.Option(min=1, help="Tokens that the answer may have.")]
Temperature = Annotated[float, typer.Option(min=0, help="0 takes the most probable.")]
Seed = Annotated[int | None, typer.Option(help="Of the draws, with a temperature.")]
Strategy = Annotated[str | None, typer.Option(help="Another than the server's.")]


class NoAnswer(RuntimeError):
    """The server did not give one, or not its steps; the message says why."""


def watch(
    prompt: Prompt = None,
    file: GrammarFile = None,
    regex: Regex = None,
    ebnf: Ebnf = None,
    lark: Lark = None,
    json_schema: Schema = None,
    grammar: Named = None,
    url: Url = None,
    api_key: ApiKey = None,
    model: Model = None,
    device: Device = "cpu",
    step: Step = False,
    pace: Pace = 0.4,
    html: Html = None,
    max_tokens: MaxTokens = 96,
    temperature: Temperature = 0.0,
    seed: Seed = None,
    strategy: Strategy = None,
) -> None:
    """Send PROMPT under GRAMMAR and show the answer being denoised.

    To a running server (--url), or to one with the model that ships, started for it.
    A step is shown as soon as it is made and the one before it has been there for --pace seconds.
    """
    given = {
        "regex": regex,
        "ebnf": ebnf,
        "lark": lark,
        "json_schema": json_schema,
        "grammar": grammar,
    }
    if prompt is None and not any(given.values()):
        prompt, given["json_schema"] = EXAMPLE
    if prompt is None:
        fail("no prompt: say what to ask, before the grammar.")
    _, kind, text, _ = given_grammar([file] if file else None, 0, **given)
    body = {
        "model": "default",
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": temperature,
        "stream": True,
        **constraint(kind, text),
    }
    if seed is not None:
        body["seed"] = seed
    lave = body.setdefault("custom_params", {}).setdefault("lave", {})
    lave |= {"trace": True, "report": True}
    if strategy is not None:
        lave["strategy"] = strategy
    console = Console(highlight=False)
    story = Story(prompt, kind, text)
    try:
        with server(url, model, device) as root:
            steps = story.grow(ask(root, body, api_key))
            if html is None:
                show(console, story, steps, step=step, pace=pace)
                return
            list(steps)
    except (ServerError, NoAnswer) as error:
        console.print(escape(str(error)), style="red")
        raise typer.Exit(1) from None
    try:
        html.write_text(page(story), encoding="utf-8")
    except OSError as error:
        fail(f"{html}: {error.strerror or error}.")
    say(f"{html}: {len(story.steps)} steps; open it in a browser")


@contextmanager
def server(url: str | None, model: Path | None, device: str) -> Iterator[str]:
    """The root of the server to ask: the one at ``url``, or one that is started."""
    if url is not None:
        yield url.rstrip("/")
        return
    model = model or CHECKPOINT
    if not (model / "config.json").is_file():
        fail(f"no checkpoint in {model}: name one with --model, or a server with --url.")
    with sigterm_as_exit(), server_of(model, device=device) as started:
        say(f"server: ready on {started.url}")
        yield started.url


def constraint(kind: str, text: str) -> dict[str, Any]:
    """What a chat completion says for a grammar of this kind."""
    if kind == "grammar":
        return {"custom_params": {"lave": {"grammar": text}}}
    if kind != "json_schema":
        return {"regex" if kind == "regex" else "ebnf": text}  # Lark stands in ebnf as well
    try:
        schema = json.loads(text)
    except ValueError as error:
        fail(f"the schema is no JSON: {error}.")
    return {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema},
        }
    }


def ask(
    root: str, body: dict[str, Any], api_key: str | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What comes of the answer, as it comes: some of its text, some of what ``lave`` says of it."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    ended = told = traced = False
    try:
        with requests.post(
            f"{root}/v1/chat/completions", json=body, headers=headers, stream=True, timeout=TIMEOUT
        ) as response:
            if response.status_code != 200:
                raise NoAnswer(f"{root} says {response.status_code}: {message(response.text)}")
            for event in events(response):
                if "error" in event:
                    raise NoAnswer(f"{root} says: {message(json.dumps(event))}")
                facts = ((event.get("metadata") or {}).get("lave") or [None])[0] or {}
                traced = traced or "trace" in facts
                told = told or "strategy" in facts
                for choice in event.get("choices", ()):
                    ended = ended or choice.get("finish_reason") is not None
                    yield (choice.get("delta") or {}).get("content") or "", facts
    except (requests.RequestException, ValueError) as error:
        raise NoAnswer(f"{root} does not answer: {error}") from None
    if not ended or (traced and not told):  # the latter where somebody has aborted it
        raise NoAnswer(f"{root} ended the stream before the answer.")
    if not traced:
        raise NoAnswer(
            f"{root} tells nothing of its steps: it runs without --constrained-decoding lave, or "
            "with an older version of the plugin."
        )
