"""``lave demo``: the same requests with and without a constraint, side by side."""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lave_plugin.demo.requests import CHAT, MAX_TOKENS, REQUESTS, DemoRequest, of_sample
from lave_plugin.demo.shipped import CHECKPOINT, algorithm_config
from lave_plugin.engines.sglang.server import Server, ServerError

MAX_RUNNING_REQUESTS = 8
REQUEST_TIMEOUT = 60.0
REQUESTS_OF_A_TASK = 4

Model = Annotated[
    Path | None, typer.Option(help="Folder of a checkpoint. Default: the one that ships.")
]
Device = Annotated[
    str, typer.Option(help="'cpu' brings SGLang up without a GPU; else it runs as installed.")
]
Tasks = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        help="In place of the usual requests, a few of this task (cpp, sql, 'json call' and "
        "others), for a model that was trained on it.",
    ),
]
Port = Annotated[int, typer.Option(help="On 127.0.0.1; 0 takes a free one.")]
Serve = Annotated[bool, typer.Option("--serve", help="Keep the server running, send nothing.")]
Log = Annotated[Path | None, typer.Option(help="Keep the server's log in this file.")]


@dataclass(frozen=True)
class Answer:
    """What came back, and what its check says (None: valid)."""

    text: str
    seconds: float
    complaint: str | None


def demo(
    model: Model = None,
    device: Device = "cpu",
    task: Tasks = None,
    port: Port = 0,
    serve: Serve = False,
    log: Log = None,
) -> None:
    """Start SGLang with a tiny diffusion model and show what the constraint changes.

    Ends with status 1 if a constrained answer is not valid.
    """
    # At a terminal, as wide as it is; in a pipe, wide enough for two columns of JSON.
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    model = model or CHECKPOINT
    if not (model / "config.json").is_file():
        say(f"No checkpoint in {model}. Name one: lave demo --model FOLDER")
        raise typer.Exit(2)
    requests = requests_of(task) if task else REQUESTS

    server = server_of(model, device=device, port=port, log=log)
    started = time.monotonic()
    try:
        with sigterm_as_exit(), server:
            ready = time.monotonic() - started
            say(f"server: ready on {server.url} after {ready:.1f} s\n")
            if serve:
                keep_serving(server, console)
                return
            client = Client(server.url)
            free = [client.send(request, constrained=False) for request in requests]
            bound = [client.send(request, constrained=True) for request in requests]
            console.print(side_by_side(requests, free, bound))
            console.print(summary(free, bound, ready))
    except ServerError as error:
        say("")
        console.print(escape(str(error)), style="red")
        raise typer.Exit(1) from None
    if any(answer.complaint for answer in bound):
        raise typer.Exit(1)


def server_of(
    model: Path, *, device: str = "cpu", port: int = 0, log: Path | None = None
) -> Server:
    """A server of the model that ships, or of one like it."""
    return Server(
        model,
        algorithm="LowConfidence",
        algorithm_config=algorithm_config(model),
        constrained_decoding="lave",
        max_running_requests=MAX_RUNNING_REQUESTS,
        device=device,
        port=port,
        log_path=log,
        on_progress=progress_line(),
    )


@contextmanager
def sigterm_as_exit() -> Iterator[None]:
    """Let a SIGTERM unwind the stack: the server is a session of its own and would outlive us."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def requests_of(tasks: list[str]) -> list[DemoRequest]:
    """Held-out prompts of these tasks; ends with status 2 where there is no such task."""
    from lave_plugin.demo.tasks import MAKERS, held_out
    from lave_plugin.demo.tasks.judging import check_of

    if unknown := [task for task in tasks if task not in MAKERS]:
        say(f"There is no task {', '.join(unknown)}; there are {', '.join(MAKERS)}.")
        raise typer.Exit(2)
    return [
        of_sample(task, sample, check_of(sample))
        for task in tasks
        for sample in held_out(REQUESTS_OF_A_TASK, 0, task)
    ]


# --- requests ----------------------------------------------------------------------------


class Client:
    """Sends the demo's requests to one server, each through the API that it names."""

    def __init__(self, url: str):
        import openai
        import requests

        self.url = url
        self.session = requests.Session()
        self.openai = openai.OpenAI(
            base_url=f"{url}/v1", api_key="none", timeout=REQUEST_TIMEOUT, max_retries=0
        )

    def send(self, request: DemoRequest, *, constrained: bool) -> Answer:
        """Send a request with or without its constraint, and judge the answer."""
        constraint = dict(request.constraint) if constrained else {}
        ask = {"chat": self.chat, "generate": self.generate}[request.api]
        started = time.monotonic()
        text = ask(request.prompt, constraint)
        return Answer(text, time.monotonic() - started, request.check(text))

    def chat(self, prompt: str, constraint: dict[str, Any]) -> str:
        """By the official client of OpenAI's API."""
        completion = self.openai.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": prompt}],
            temperature=0,
            max_tokens=MAX_TOKENS,
            **constraint,
        )
        return completion.choices[0].message.content or ""

    def generate(self, prompt: str, constraint: dict[str, Any]) -> str:
        """By SGLang's own endpoint, which applies no chat template."""
        sampling = {"temperature": 0, "max_new_tokens": MAX_TOKENS, **constraint}
        answer = self.session.post(
            f"{self.url}/generate",
            json={"text": CHAT.format(prompt=prompt), "sampling_params": sampling},
            timeout=REQUEST_TIMEOUT,
        )
        answer.raise_for_status()
        return answer.json()["text"]


# --- what is shown -----------------------------------------------------------------------


def side_by_side(requests: Sequence[DemoRequest], free: list[Answer], bound: list[Answer]) -> Table:
    table = Table(show_lines=True, expand=True)
    table.add_column("request", ratio=4)
    table.add_column("without constraint", ratio=3)
    table.add_column("with LAVE", ratio=3)
    for request, *answers in zip(requests, free, bound, strict=True):
        api = {"chat": "/v1/chat/completions", "generate": "/generate"}[request.api]
        head = f"[bold]{request.name}[/bold]  [dim]{api}[/dim]\n{escape(request.prompt)}"
        table.add_row(head, *(cell(answer) for answer in answers))
    return table


def cell(answer: Answer) -> str:
    text = escape(answer.text.replace("\n", "↵")) or "[dim](nothing)[/dim]"
    if answer.complaint is None:
        return f"{text}\n[green]✔ valid[/green]"
    return f"{text}\n[red]✘ invalid[/red] [dim]{escape(answer.complaint)}[/dim]"


def summary(free: list[Answer], bound: list[Answer], ready: float) -> str:
    def figures(answers: list[Answer]) -> str:
        valid = sum(answer.complaint is None for answer in answers)
        return f"{valid} of {len(answers)} valid in {sum(a.seconds for a in answers):.1f} s"

    return (
        f"without constraint {figures(free)}; [bold]with LAVE {figures(bound)}[/bold]; "
        f"server ready after {ready:.1f} s"
    )


EXAMPLES = """\
curl URL/v1/chat/completions -H 'Content-Type: application/json' -d '{
  "model": "default", "temperature": 0, "max_tokens": 32,
  "messages": [{"role": "user",
                "content": "Date only, as YYYY-MM-DD: Pia Tulu arrives on 2033-12-17."}],
  "regex": "[0-9]{4}-[0-9]{2}-[0-9]{2}"}'

from openai import OpenAI

schema = {
    "type": "object",
    "properties": {"train": {"type": "string"}, "hours": {"type": "number"}},
    "required": ["train", "hours"],
    "additionalProperties": False,
}
client = OpenAI(base_url="URL/v1", api_key="none")
completion = client.chat.completions.create(
    model="default",
    messages=[{
        "role": "user",
        "content": "JSON of this route, keys train, hours. Train G21 needs 7.2 hours.",
    }],
    temperature=0,
    max_tokens=96,
    response_format={"type": "json_schema", "json_schema": {"name": "route", "schema": schema}},
)
print(completion.choices[0].message.content)
"""


def keep_serving(server: Server, console: Console) -> None:
    """Show how to use the server and stay until Ctrl-C, or until it ends by itself."""
    say(EXAMPLES.replace("URL", server.url))
    say(f"Its log: {server.log_path}. Ctrl-C stops it.")
    try:
        while server.process.poll() is None:
            time.sleep(0.5)
    except KeyboardInterrupt:
        say("\nserver: stopping")
        return
    console.print(escape(f"The server ended by itself.\n{server.log_tail()}"), style="red")
    raise typer.Exit(1)


def say(line: str) -> None:
    """Print now, also into a pipe; at a terminal in the place of the line that counts."""
    print(f"\r\033[K{line}" if sys.stdout.isatty() else line, flush=True)


def progress_line() -> Callable[[float, str], None]:
    """A callback for ``Server``: a line that counts, or in a pipe a line every five seconds."""
    live = sys.stdout.isatty()
    told = -5.0

    def progress(elapsed: float, log_line: str) -> None:
        nonlocal told
        if live:
            print(f"\rserver: starting SGLang, {elapsed:3.0f} s ", end="", flush=True)
            return
        if elapsed - told >= 5.0:
            told = elapsed
            say(f"server: starting SGLang, {elapsed:3.0f} s")

    return progress
