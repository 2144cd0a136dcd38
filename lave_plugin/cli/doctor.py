"""``lave doctor``: what is wrong with this installation or that server, and what to do."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from lave_plugin.cli.demo import progress_line, say, sigterm_as_exit
from lave_plugin.demo.shipped import CHECKPOINT
from lave_plugin.engines.sglang import diagnosis
from lave_plugin.engines.sglang.diagnosis import Finding
from lave_plugin.engines.sglang.server import Server, ServerError

SIGNS = {"ok": "[green]✔[/green]", "warning": "[yellow]![/yellow]", "fault": "[red]✘[/red]"}

Model = Annotated[
    Path | None, typer.Option(help="Folder of a checkpoint. Default: the one that ships.")
]
Url = Annotated[
    str | None, typer.Option(help="A running server's root, such as http://127.0.0.1:30000.")
]
ApiKey = Annotated[
    str | None, typer.Option(envvar="LAVE_API_KEY", help="Of that server, if it asks for one.")
]
NoServer = Annotated[
    bool, typer.Option("--no-server", help="Look at the installation only, start nothing.")
]


def doctor(
    model: Model = None, url: Url = None, api_key: ApiKey = None, no_server: NoServer = False
) -> None:
    """Check the installation, or a running server, with five requests.

    It also looks whether the server rests while nothing is asked of it. Ends with status 1 if
    something is at fault, 0 if not.
    """
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    if url is not None:
        found = show(console, diagnosis.server(url.rstrip("/"), api_key))
    else:
        folder = model or CHECKPOINT
        found = show(console, installation(folder))
        if not no_server and is_well(found):
            found += show(console, requests_to(folder))
    faults = sum(finding.status == "fault" for finding in found)
    warnings = sum(finding.status == "warning" for finding in found)
    console.print(f"{len(found)} checks: {faults} at fault, {warnings} to look at")
    if faults:
        raise typer.Exit(1)


def is_well(findings: Iterable[Finding]) -> bool:
    return all(finding.status != "fault" for finding in findings)


def installation(model: Path) -> Iterator[Finding]:
    """All that can be seen without a server; what needs the packages waits for them."""
    packages = list(diagnosis.packages())
    yield from packages
    yield diagnosis.plugin()
    yield diagnosis.native_part()
    if not is_well(packages):
        return
    yield diagnosis.reading_of_grammars()
    yield diagnosis.hooks()
    yield from diagnosis.checkpoint(model)


def requests_to(model: Path) -> Iterator[Finding]:
    """Start SGLang with this checkpoint and send it the five requests."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    server = Server(model, constrained_decoding="lave", device=device, on_progress=progress_line())
    try:
        with sigterm_as_exit(), server:
            say(f"server: ready on {server.url}")
            yield from diagnosis.server(server.url)
    except ServerError as error:
        yield Finding("fault", "server", str(error), "The last lines of its log say why.")


def show(console: Console, findings: Iterable[Finding]) -> list[Finding]:
    """Print the findings as they come."""
    shown = []
    for finding in findings:
        console.print(f"{SIGNS[finding.status]} {finding.what:14} {escape(finding.found)}")
        if finding.advice:
            console.print(f"  {'':14} [bold]{escape(finding.advice)}[/bold]")
        shown.append(finding)
    return shown
