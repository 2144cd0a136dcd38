"""Limits that xgrammar loses: it builds what a lazy rule refers to in place (`LazyBodyFlattener`
of 0.2.7), and the limits of a rule within are gone from what it prints.
"""

import re

import xgrammar

from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.notation import Limits, read_limits, read_rules
from lave_plugin.grammar.powers import references

_LAZY = re.compile(r"^[^\s\[]+\s*\[[^\]]*\blazy\b", re.MULTILINE)


def check_limits(source: str) -> None:
    """See whether an EBNF grammar keeps its limits.

    What is no grammar is left to xgrammar to say.

    Raises:
        UnsupportedGrammar: If a lazy rule holds another one with limits.
    """
    if not _LAZY.search(source):
        return
    try:
        printed = str(xgrammar.Grammar.from_ebnf(source))
    except RuntimeError:
        return
    rules, limits = read_rules(printed), read_limits(printed)
    for name in rules:
        if not limits[name].lazy:
            continue
        reached = dict.fromkeys(references(rules[name]))
        pending = list(reached)
        for inner in pending:
            if limits[inner] != Limits():
                raise UnsupportedGrammar(
                    f"Rule {name!r} is lazy and holds {inner!r}, whose lazy, max_tokens or"
                    " max_chars xgrammar would lose there. Take the attribute off one of them."
                )
            new = [each for each in references(rules[inner]) if each not in reached]
            reached.update(dict.fromkeys(new))
            pending += new
