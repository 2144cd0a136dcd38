"""Limits that xgrammar loses: it builds what a lazy rule refers to in place (`LazyBodyFlattener`
of 0.2.7), and the limits of a rule within are gone from what it prints.
"""

import xgrammar

from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.notation import Limited, read_rules
from lave_plugin.grammar.powers import references


def check_limits(source: str) -> None:
    """See whether an EBNF grammar keeps its limits.

    What is no grammar is left to xgrammar to say.

    Raises
    ------
    UnsupportedGrammar
        If a lazy rule holds another one with limits.
    """
    if "lazy" not in source:
        return
    try:
        rules = read_rules(str(xgrammar.Grammar.from_ebnf(source)))
    except RuntimeError:
        return
    for name, body in rules.items():
        if not (isinstance(body, Limited) and body.limits.lazy):
            continue
        reached = dict.fromkeys(references(body.body))
        pending = list(reached)
        for inner in pending:
            inside = rules.get(inner, ())
            if isinstance(inside, Limited):
                raise UnsupportedGrammar(
                    f"Rule {name!r} is lazy and holds {inner!r}, whose lazy, max_tokens or"
                    " max_chars xgrammar would lose there. Take the attribute off one of them."
                )
            new = [each for each in references(inside) if each not in reached]
            reached.update(dict.fromkeys(new))
            pending += new
