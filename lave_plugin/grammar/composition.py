"""Constraints put together by a request: all of several, and templates with holes.

    {"all_of": [CONSTRAINT, ...]}
    {"template": ["fixed text", HOLE, "fixed text", ...]}

A constraint is an object with one key: `json_schema`, `regex`, `ebnf`, `grammar` (the name of one
that ships), `choice`, `structural_tag`, `template` or `all_of`. A hole is an object with a
constraint of the first five kinds or none (any text), and `max_chars`, a bound of its own.

Here they are read, checked and put together; how a single constraint is compiled is the caller's.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from lave_plugin import grammars
from lave_plugin.grammar.choice import ebnf_of_choice
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.intersection import all_of, as_dfa, in_order, intersect
from lave_plugin.grammar.normal_form import RuleAutomata, read_normal_form

SINGLE = ("json_schema", "regex", "ebnf", "structural_tag")
"""Kinds of constraint that are compiled alone."""

AS_EBNF: dict[str, Callable[[Any], str]] = {
    "grammar": lambda name: grammars.load(name)[1],
    "choice": ebnf_of_choice,
}
"""Kinds that are written as EBNF before that: a grammar that ships, by name, and a choice."""

_KINDS = (*SINGLE[:3], *AS_EBNF, SINGLE[3])

_IN_A_HOLE = _KINDS[:-1]

MOST_CHARS = 1 << 16

Compile = Callable[[str, str], RuleAutomata]
"""From the kind of a single constraint and its text to its rules."""

_MARK = "lave_composition"


class InvalidComposition(ValueError):
    """The composition is not of the form above; the message is a sentence."""


def key_of(constraint: Mapping[str, Any]) -> str:
    """A text that stands for the constraint: equal for equal ones, and read by `rules_of_key`.

    Raises:
        InvalidComposition: If it is none.
    """
    return json.dumps({"type": _MARK, "constraint": _checked(constraint, "lave")}, sort_keys=True)


def is_key(text: str | None) -> bool:
    """Whether a text is one of `key_of`."""
    return text is not None and f'"type": "{_MARK}"' in text and text.startswith('{"constraint"')


def rules_of_key(key: str, compile_single: Compile) -> RuleAutomata:
    """The rules of a constraint.

    Raises:
        UnsupportedGrammar: If it can't be enforced; `compile_single` raises it as well.
    """
    return _rules(json.loads(key)["constraint"], compile_single)


def _checked(constraint: Any, where: str) -> dict[str, Any]:
    """The constraint with schemas and tags as text."""
    if not isinstance(constraint, Mapping) or len(constraint) != 1:
        raise InvalidComposition(
            f"{where}: a constraint is an object with one key, {', '.join(_KINDS)}, template or"
            f" all_of; got {constraint!r}."
        )
    ((kind, value),) = constraint.items()
    match kind:
        case "all_of":
            if not isinstance(value, list) or not value:
                raise InvalidComposition(f"{where}.all_of must be a list of constraints.")
            return {
                kind: [_checked(each, f"{where}.all_of[{at}]") for at, each in enumerate(value)]
            }
        case "template":
            if not isinstance(value, list) or not value:
                raise InvalidComposition(f"{where}.template must be a list of texts and holes.")
            return {
                kind: [_piece(each, f"{where}.template[{at}]") for at, each in enumerate(value)]
            }
        case _ if kind in _KINDS:
            return _single(kind, value, f"{where}.{kind}")
    raise InvalidComposition(
        f"{where}.{kind} is no constraint; there are {', '.join(_KINDS)}, template and all_of."
    )


def _piece(piece: Any, where: str) -> Any:
    if isinstance(piece, str):
        return piece
    if not isinstance(piece, Mapping):
        raise InvalidComposition(
            f"{where} must be a text, or a hole such as {{}} or"
            f' {{"regex": "[0-9]+", "max_chars": 4}}; got {piece!r}.'
        )
    kinds = [kind for kind in _IN_A_HOLE if kind in piece]
    if unknown := [str(name) for name in piece if name not in (*_IN_A_HOLE, "max_chars")]:
        raise InvalidComposition(
            f"{where}.{unknown[0]} is nothing that a hole has; it has max_chars and one of"
            f" {', '.join(_IN_A_HOLE)}."
        )
    if len(kinds) > 1:
        raise InvalidComposition(
            f"{where} has {kinds[0]} and {kinds[1]}; a hole has one constraint."
        )
    most = piece.get("max_chars")
    if most is not None and (type(most) is not int or not 0 <= most <= MOST_CHARS):
        raise InvalidComposition(
            f"{where}.max_chars must be an integer from 0 to {MOST_CHARS}, got {most!r}."
        )
    hole: dict[str, Any] = {} if most is None else {"max_chars": most}
    for kind in kinds:
        hole |= _single(kind, piece[kind], f"{where}.{kind}")
    return hole


def _single(kind: str, value: Any, where: str) -> dict[str, str]:
    """A constraint of the kinds that are compiled alone."""
    if kind in AS_EBNF:
        try:
            return {"ebnf": AS_EBNF[kind](value)}
        except (grammars.UnknownGrammar, UnsupportedGrammar) as error:
            raise InvalidComposition(f"{where}: {error}") from None
    if isinstance(value, str):
        return {kind: value}
    if kind in ("json_schema", "structural_tag") and isinstance(value, Mapping | bool):
        return {kind: json.dumps(value)}
    raise InvalidComposition(f"{where} must be a text, got {value!r}.")


def _rules(constraint: dict[str, Any], compile_single: Compile) -> RuleAutomata:
    ((kind, value),) = constraint.items()
    if kind == "all_of":
        return all_of([_rules(each, compile_single) for each in value])
    if kind == "template":
        return in_order([_piece_rules(each, compile_single) for each in value])
    return compile_single(kind, value)


def _piece_rules(piece: str | dict[str, Any], compile_single: Compile) -> RuleAutomata:
    if isinstance(piece, str):
        return _fixed(piece)
    most = piece.get("max_chars")
    kinds = [kind for kind in piece if kind != "max_chars"]
    if not kinds:
        return _any_text(most)
    rules = compile_single(kinds[0], piece[kinds[0]])
    if most is None:
        return rules
    counter = as_dfa(_any_text(most))
    if counter is None:
        raise UnsupportedGrammar(
            f"A hole of the template has {kinds[0]} and max_chars={most}, which is too much to be"
            " counted beside a grammar. Lower max_chars, or leave it out: max_new_tokens bounds"
            " the whole answer."
        )
    return intersect(rules, counter)


def _fixed(text: str) -> RuleAutomata:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise UnsupportedGrammar(
            "A fixed text of the template holds half of a surrogate pair, which no text can hold;"
            " write the character itself."
        ) from None
    size = len(data)
    return RuleAutomata(
        names=["root"],
        start=[0],
        byte_edges=[*(((byte, byte, at + 1),) for at, byte in enumerate(data)), ()],
        rule_edges=[()] * (size + 1),
        final=[False] * size + [True],
        distance=list(range(size, -1, -1)),
    )


def _any_text(most: int | None) -> RuleAutomata:
    bound = "*" if most is None else f"{{0,{most}}}"
    return read_normal_form(f"root ::= (([\\x00-\\U0010ffff]{bound}))\n")
