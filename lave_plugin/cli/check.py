"""``lave check``: is a text a sentence of a grammar, and where does it stop being one?"""

import typer
from rich.console import Console
from rich.text import Text

from lave_plugin.cli.expected import expected, place, walk
from lave_plugin.cli.subject import (
    INVALID,
    Ebnf,
    Lark,
    Named,
    Paths,
    Regex,
    Schema,
    fail,
    read_bytes,
    subject_of,
)

_WIDTH = 100
_LONGEST_FINISH = 2000


def check(
    paths: Paths = None,
    regex: Regex = None,
    ebnf: Ebnf = None,
    lark: Lark = None,
    json_schema: Schema = None,
    grammar: Named = None,
) -> None:
    """Say whether FILE is a sentence of GRAMMAR, or where it stops being one.

    Status 0: it is; 1: it is not; 2: there is no such grammar or file.
    A newline at the very end of the file may be missing from the sentence.
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
    if not subject.paths:
        fail("no text to check: name a file behind the grammar, or - for standard input.")
    (path,) = subject.paths
    data = read_bytes(path)
    automaton = subject.automaton
    offset, state = walk(automaton, data)
    console = Console(highlight=False, soft_wrap=True)
    whole = offset == len(data) or (offset == len(data) - 1 and data.endswith(b"\n"))
    if whole and automaton.accepting(state):
        console.print(f"{path}: valid", style="green", markup=False)
        return
    line, column, text = place(data, offset)
    what = "ends too early" if offset == len(data) else "stops being valid here"
    console.print(f"{path}, line {line}, column {column}: {what}", style="red", markup=False)
    console.print(*_with_caret(text, column), sep="\n")
    console.print(Text.assemble(("expected  ", "bold"), expected(automaton, state)))
    finish = _shortest(automaton, state)
    console.print(Text.assemble(("shortest way to finish  ", "bold"), finish))
    raise typer.Exit(INVALID)


def _with_caret(line: str, column: int) -> tuple[Text, Text]:
    """The line, cut to what fits, and a caret below the column."""
    cut = max(0, column - _WIDTH * 3 // 4)
    shown = line[cut : cut + _WIDTH].replace("\t", " ")
    return Text(f"  {shown}"), Text("  " + " " * (column - 1 - cut) + "^", style="bold")


def _shortest(automaton, state: int) -> str:
    if automaton.accepting(state):
        return "stop there"
    length = automaton.shortest_length(state)
    if length > _LONGEST_FINISH:
        return f"{length} bytes more"
    return repr(automaton.shortest_completion(state).decode())
