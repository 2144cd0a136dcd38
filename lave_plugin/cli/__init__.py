"""The ``lave`` command."""

import typer

from lave_plugin.cli import bench, check, complete, demo, doctor, explain, watch

app = typer.Typer(
    help="Grammar-constrained decoding for diffusion language models in SGLang.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


app.command()(demo.demo)
app.command()(doctor.doctor)
app.command()(watch.watch)
app.command()(check.check)
app.command()(complete.complete)
app.command()(explain.explain)
app.add_typer(bench.app, name="bench")


def main() -> None:
    app()
