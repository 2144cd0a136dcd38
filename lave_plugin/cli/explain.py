"""``lave explain``: what a grammar is to the plugin, and what it will cost."""

from rich.console import Console
from rich.table import Table

from lave_plugin.cli.subject import (
    Ebnf,
    Lark,
    Named,
    Paths,
    Regex,
    Schema,
    Subject,
    subject_of,
)
from lave_plugin.grammar.lark import is_lark
from lave_plugin.grammar.lark.overlap import keywords_as_identifiers
from lave_plugin.grammar.normal_form import read_normal_form
from lave_plugin.grammar.survey import left_recursive, surely_ambiguous, walk_at_random

WALK_SECONDS = 1.0
_LONGEST_SHOWN = 300
_MOST_NAMES = 6
# A step verifies a block: so many tokens of so many bytes, in the walk through one witness.
_BLOCK, _BYTES_OF_TOKEN = 32, 4


def explain(
    paths: Paths = None,
    regex: Regex = None,
    ebnf: Ebnf = None,
    lark: Lark = None,
    json_schema: Schema = None,
    grammar: Named = None,
) -> None:
    """Show the size of GRAMMAR, its shortest sentence, what to know about it, and its cost."""
    subject = subject_of(
        paths,
        0,
        regex=regex,
        ebnf=ebnf,
        lark=lark,
        json_schema=json_schema,
        grammar=grammar,
    )
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows_of(subject):
        table.add_row(name, value)
    Console(highlight=False, markup=False).print(table)


def rows_of(subject: Subject) -> list[tuple[str, str]]:
    """What there is to tell, line by line."""
    automaton = subject.automaton
    rules = read_normal_form(subject.normal_form)
    byte_edges = sum(map(len, rules.byte_edges))
    rule_edges = sum(map(len, rules.rule_edges))
    kind = "lark" if subject.kind == "ebnf" and is_lark(subject.text) else subject.kind
    rows = [
        ("grammar", f"{subject.name} ({kind}, {len(subject.text.encode())} bytes)"),
        (
            "automata",
            f"{len(rules.start)} rules, {len(rules.final)} nodes, {byte_edges} edges that read "
            f"bytes, {rule_edges} that read a rule",
        ),
        ("shortest sentence", _sentence(automaton)),
        ("left recursion", _names(left_recursive(subject.normal_form))),
        ("ambiguity", _ambiguous(surely_ambiguous(subject.normal_form))),
    ]
    if kind == "lark":
        rows.append(("keywords", _keywords(subject.text)))
    walks = walk_at_random(automaton, WALK_SECONDS)
    growth = (
        f"still {walks.new_states_in_second_half} new ones in the second half, as where a grammar "
        "nests or is ambiguous"
        if walks.new_states_in_second_half > walks.states // 20
        else "hardly a new one in the second half"
    )
    rows += [
        (
            "states",
            f"{walks.states} met by {walks.sentences} random sentences of {walks.bytes} bytes; "
            f"{growth}",
        ),
        (
            "cost of a step",
            f"about {walks.of_a_byte * _BLOCK * _BYTES_OF_TOKEN * 1e6:.1f} us for a walk through a "
            f"block of {_BLOCK} tokens, {walks.of_a_state * 1e6:.0f} us more for each new state",
        ),
    ]
    return rows


def _sentence(automaton) -> str:
    length = automaton.shortest_length(automaton.start)
    if length == 0:
        return "nothing: the empty text is one"
    if length > _LONGEST_SHOWN:
        return f"{length} bytes"
    return f"{automaton.shortest_completion(automaton.start).decode()!r} ({_bytes(length)})"


def _bytes(count: int) -> str:
    return f"{count} byte{'s' * (count != 1)}"


def _names(rules: list[str]) -> str:
    return f"{_some(rules)} (no problem for the parser)" if rules else "none"


def _ambiguous(rules: list[str]) -> str:
    if not rules:
        return "no rule begins and ends with itself"
    return f"{_some(rules)} (begins and ends with itself; more states, the same sentences)"


def _some(names: list[str]) -> str:
    return f"{', '.join(names[:_MOST_NAMES])}{', ...' if len(names) > _MOST_NAMES else ''}"


def _keywords(text: str) -> str:
    pairs, strict = keywords_as_identifiers(text)
    if not pairs:
        return "none is an identifier as well"
    shown = ", ".join(f'"{keyword}" as {identifier}' for keyword, identifier in pairs[:_MOST_NAMES])
    more = ", ..." if len(pairs) > _MOST_NAMES else ""
    if strict:
        return f"kept apart: {shown}{more}"
    return f"ambiguous: {shown}{more}; %lave strict_keywords keeps them apart"
