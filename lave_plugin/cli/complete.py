"""``lave complete``: the shortest text that a prefix can still become."""

import sys
from typing import Annotated

import typer

from lave_plugin.cli.expected import expected, place, walk
from lave_plugin.cli.subject import (
    INVALID,
    Ebnf,
    Lark,
    Named,
    Paths,
    Regex,
    Schema,
    read_bytes,
    subject_of,
)

Rest = Annotated[bool, typer.Option("--rest", help="Only what is missing, without the prefix.")]


def complete(
    paths: Paths = None,
    regex: Regex = None,
    ebnf: Ebnf = None,
    lark: Lark = None,
    json_schema: Schema = None,
    grammar: Named = None,
    rest: Rest = False,
) -> None:
    """Print a shortest sentence of GRAMMAR that begins with the text of FILE (default: nothing).

    Status 0: there it is; 1: no sentence begins so; 2: there is no such grammar or file.
    A newline at the very end of the file is dropped where no sentence has one there.
    """
    subject = subject_of(
        paths,
        1,
        regex=regex,
        ebnf=ebnf,
        lark=lark,
        json_schema=json_schema,
        grammar=grammar,
    )
    data = read_bytes(subject.paths[0]) if subject.paths else b""
    automaton = subject.automaton
    offset, state = walk(automaton, data)
    if offset == len(data) - 1 and data.endswith(b"\n"):
        data = data[:-1]
    if offset < len(data):
        line, column, _ = place(data, offset)
        print(
            f"{subject.paths[0]}, line {line}, column {column}: no sentence goes on like this; "
            f"expected {expected(automaton, state)}",
            file=sys.stderr,
        )
        raise typer.Exit(INVALID)
    completion = automaton.shortest_completion(state)
    sys.stdout.buffer.write((b"" if rest else data) + completion + b"\n")
    sys.stdout.buffer.flush()
