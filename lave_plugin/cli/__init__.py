"""The ``lave`` command."""

import typer

from lave_plugin.cli import demo, doctor

app = typer.Typer(
    help="Grammar-constrained decoding for diffusion language models in SGLang.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


app.command()(demo.demo)
app.command()(doctor.doctor)


def main() -> None:
    app()
