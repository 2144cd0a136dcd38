"""`Regex("...", json_string=true)`: expressions that xgrammar compiles to automata itself.

JSON schema's `pattern` is printed as such a macro and not as rules. There is no second reading of
a regular expression here, which would differ in some corner: xgrammar compiles the macro alone,
in a grammar of one rule, and its automaton is taken from the serialised form. (For a whole grammar
that form is quadratic in the number of rules; for a single macro it is a few hundred bytes.)
"""

import json
from functools import lru_cache, partial

from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.nfa import Nfa, Node, determinise, only_utf8
from lave_plugin.grammar.text_compiler import text_compiler

# How xgrammar marks edges that read no byte: the first number of an edge is negative.
_EMPTY, _RULE, _END_OF_TEXT, _REPEAT = -1, -2, -3, -4


@lru_cache(maxsize=1024)
def build_regex(source: str) -> dict[str, list[Node]]:
    """The automata of one macro, by rule name: `root` is the expression, others are its parts."""
    compiled = text_compiler().compile_grammar(f"root ::= {source}")
    dump = json.loads(compiled.grammar.serialize_json())
    edges = dump["complete_fsm"]["edges"]
    rows = [
        edges["data_"][first:last]
        for first, last in zip(edges["indptr_"], edges["indptr_"][1:], strict=False)
    ]
    repeats = dump["complete_fsm"]["edge_aux_data"]
    names = [rule[0] for rule in dump["rules"]]
    automata = {}
    for name, (per_rule, *_) in zip(names, dump["per_rule_fsms"], strict=True):
        _, start, ends, *_ = per_rule
        nfa = _copy(rows, repeats, names, start, ends)
        automata[name] = only_utf8(determinise(nfa))
    return automata


def _copy(rows: list, repeats: list[int], names: list[str], start: int, ends: list[int]) -> Nfa:
    nfa = Nfa()
    copies = {start: nfa.new_node()}
    nfa.empty_edges[nfa.start].append(copies[start])
    pending = [start]

    def copy_of(node: int) -> int:
        if node not in copies:
            copies[node] = nfa.new_node()
            pending.append(node)
        return copies[node]

    while pending:
        node = pending.pop()
        copy = copies[node]
        for first, second, target in rows[node]:
            if first >= 0:
                nfa.byte_edges[copy].append((first, second, copy_of(target)))
            elif first == _EMPTY:
                nfa.empty_edges[copy].append(copy_of(target))
            elif first == _RULE:
                nfa.rule_edges[copy].append((names[second], copy_of(target)))
            elif first == _REPEAT:
                rule, low, high = repeats[second : second + 3]
                add_one = partial(nfa.add_rule, names[rule])
                nfa.add_repeat(copy, add_one, low, None if high < 0 else high, copy_of(target))
            else:
                raise UnsupportedGrammar(
                    "A regular expression of the grammar compiles to something that is not text;"
                    " write it as an EBNF rule."
                )
    for node in ends:
        if node in copies:
            nfa.empty_edges[copies[node]].append(nfa.end)
    return nfa
