"""The ``lave`` command."""

import typer

from lave_plugin.cli import demo

app = typer.Typer(
    help="Grammar-constrained decoding for diffusion language models in SGLang.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def lave() -> None:
    """Keeps `demo` a sub-command while it is the only one."""


app.command()(demo.demo)


def main() -> None:
    app()
