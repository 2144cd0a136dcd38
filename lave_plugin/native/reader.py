"""The reader of xgrammar's normal form in C++, with the two macros read in Python."""

from collections.abc import Container

from lave_plugin.grammar.dispatch import build_dispatch
from lave_plugin.grammar.normal_form import RuleAutomata
from lave_plugin.grammar.normal_form import read_normal_form as _reference
from lave_plugin.grammar.notation import Dispatch, read_rules
from lave_plugin.grammar.regex_macro import build_regex
from lave_plugin.native._native import RuleArrays
from lave_plugin.native._native import read_normal_form as _read


def read_normal_form(text: str, never: Container[int] = ()) -> RuleArrays | RuleAutomata:
    """Rules that `native.Automaton` takes, the same as `normal_form.read_normal_form` reads.

    Raises:
        UnsupportedGrammar: As the reference does: what the C++ reader doesn't know it leaves to
            that.
    """
    rules = _read(text, _read_macro)
    return _reference(text, never) if rules is None else rules


def _read_macro(rule: str, source: str) -> tuple[str, list[str], list[tuple[str, list[tuple]]]]:
    """A key for macros that say the same, the rules it refers to, its automata by rule."""
    body = read_rules(f"{rule} ::= {source}")[rule]
    if isinstance(body, Dispatch):
        nodes = [node[:3] for node in build_dispatch(body)]
        return repr(body), [target for _, target in body.triggers], [(rule, nodes)]
    parts = build_regex(body.source)
    names = {part: rule if part == "root" else f"{rule}.{part}" for part in parts}
    return (
        repr(body),
        [],
        [
            (
                names[part],
                [
                    (
                        node.final,
                        node.byte_edges,
                        [(names[name], at) for name, at in node.rule_edges],
                    )
                    for node in nodes
                ],
            )
            for part, nodes in parts.items()
        ],
    )
