"""What GRAMMAR is on the command line: a file, a text, or the name of one that ships."""

import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

from lave_plugin.grammar.automaton import Automaton
from lave_plugin.grammar.by_bytes import compile_text
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.implementation import states_of_text
from lave_plugin.options import LaveOptions

BAD_USE = 2
INVALID = 1

_KIND_OF_SUFFIX = {
    ".json": "json_schema",
    ".lark": "lark",
    ".ebnf": "ebnf",
    ".gbnf": "ebnf",
    ".regex": "regex",
}

Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[GRAMMAR] [FILE]",
        help="GRAMMAR is a file: .json (a schema), .lark, .ebnf, .gbnf or .regex; left out where "
        "an option gives it. FILE is the text, - for standard input.",
        show_default=False,
    ),
]
Regex = Annotated[str | None, typer.Option("--regex", metavar="TEXT", help="A regular expression.")]
Ebnf = Annotated[str | None, typer.Option("--ebnf", metavar="TEXT", help="EBNF, or Lark.")]
Lark = Annotated[str | None, typer.Option("--lark", metavar="TEXT", help="A Lark grammar.")]
Schema = Annotated[str | None, typer.Option("--json-schema", metavar="TEXT", help="A JSON schema.")]
Named = Annotated[str | None, typer.Option("--grammar", metavar="NAME", help="One that ships.")]


class Subject(NamedTuple):
    """A grammar that was read and compiled, and the path arguments that are left."""

    name: str
    kind: str
    text: str
    normal_form: str
    automaton: Automaton
    paths: list[str]


def subject_of(
    paths: list[str] | None,
    most_files: int,
    *,
    regex: str | None,
    ebnf: str | None,
    lark: str | None,
    json_schema: str | None,
    grammar: str | None,
) -> Subject:
    """Read and compile the grammar; ends the command with status 2 where that can't be."""
    name, kind, text, rest = given_grammar(
        paths,
        most_files,
        regex=regex,
        ebnf=ebnf,
        lark=lark,
        json_schema=json_schema,
        grammar=grammar,
    )
    if kind == "grammar":
        kind, text = shipped(name)
    try:
        # As a server has it by default.
        compiled = compile_text(kind, text, LaveOptions.json_max_whitespace)
        normal_form = str(compiled.grammar)
        automaton = states_of_text(normal_form)
    except UnsupportedGrammar as error:
        fail(f"{name}: {error}")
    if automaton.reads_tokens:
        fail(f"{name}: it names or counts tokens, of which only a server with a model knows.")
    return Subject(name, kind, text, normal_form, automaton, rest)


def given_grammar(
    paths: list[str] | None, most_files: int, **given: str | None
) -> tuple[str, str, str, list[str]]:
    """Its name, kind and text, and the path arguments that are left.

    Of one that ships the kind is ``grammar`` and the text its name. Ends the command with status
    2 where there is none, or more than one.
    """
    chosen = {kind: text for kind, text in given.items() if text is not None}
    rest = list(paths or ())
    if len(chosen) > 1:
        fail(f"--{' and --'.join(chosen)} are two grammars; give one.".replace("_", "-"))
    if not chosen and not rest:
        fail("no grammar: name a file, or use --regex, --ebnf, --lark, --json-schema or --grammar.")
    if chosen:
        ((kind, text),) = chosen.items()
        name = text if kind == "grammar" else f"--{kind.replace('_', '-')}"
    else:
        name = rest.pop(0)
        kind, text = read_grammar(Path(name))
    if len(rest) > most_files:
        fail(f"one argument too many: {rest[most_files]}.")
    return name, kind, text, rest


def read_grammar(path: Path) -> tuple[str, str]:
    """The kind of a grammar's file and its text."""
    kind = _KIND_OF_SUFFIX.get(path.suffix.lower())
    if kind is None:
        fail(
            f"{path}: the ending says what a grammar is, and {path.suffix or 'none'} is not one of "
            f"{', '.join(_KIND_OF_SUFFIX)}."
        )
    text = read_text(str(path))
    # A regular expression is one line; the newline that an editor leaves is none of it.
    return kind, text.removesuffix("\n") if kind == "regex" else text


def read_text(path: str) -> str:
    return read_bytes(path).decode(errors="surrogateescape")


def read_bytes(path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        fail(f"{path}: {error.strerror or error}.")


def shipped(name: str) -> tuple[str, str]:
    """The kind and the text of a grammar that ships."""
    from lave_plugin import grammars

    try:
        return grammars.load(name)
    except grammars.UnknownGrammar as error:
        fail(str(error))


def fail(sentence: str):
    """Bad use: a sentence on standard error, and status 2."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(sentence, style="red", markup=False)
    raise typer.Exit(BAD_USE)
