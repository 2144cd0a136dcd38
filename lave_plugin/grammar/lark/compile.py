"""From Lark text to xgrammar's EBNF.

Every terminal is a set of texts, and rules put them one after the other: any way of cutting the
text into terminals counts, as with Lark's Earley parser and `lexer="dynamic_complete"`. Priorities
say which way is preferred and so nothing about which texts there are.

Where the text behind a terminal matters (a look-ahead at its end, a comment up to the end of the
line, a keyword under `strict_keywords`), it is said in the rules: see `product`.
"""

from lave_plugin.grammar.caret import move_carets_in_ebnf
from lave_plugin.grammar.lark import definitions as of_lark
from lave_plugin.grammar.lark.definitions import Rules, resolve
from lave_plugin.grammar.lark.ebnf import (
    NOTHING,
    ROOT,
    Alt,
    Ref,
    Rep,
    Seq,
    Tree,
    of_matcher,
    of_pattern,
    write,
)
from lave_plugin.grammar.lark.keywords import keywords_apart
from lave_plugin.grammar.lark.matching import FREELY
from lave_plugin.grammar.lark.product import Product
from lave_plugin.grammar.lark.syntax import Grammar
from lave_plugin.grammar.lark.terminals import Prepared, prepare, take_longest

_IGNORED = "ignored text"


def compile_grammar(grammar: Grammar) -> str:
    """The EBNF of a parsed Lark grammar.

    Raises:
        LarkError: With line and column, for what can't be kept.
    """
    rules = resolve(grammar)
    terminals: dict[str, Prepared] = {}
    for name, terminal in rules.terminals.items():
        with grammar.source.placed(terminal.at):
            terminals[name] = prepare(terminal)
    for name in rules.ignored:
        with grammar.source.placed(rules.terminals[name].at):
            take_longest(name, terminals)
    if grammar.strict_keywords:
        used = [each for name, each in rules.terminals.items() if name not in rules.ignored]
        for name, (matcher, follow) in keywords_apart(used, grammar.source).items():
            terminals[name] = Prepared(rules.terminals[name].pattern, matcher, follow)
    if all(prepared.is_free for prepared in terminals.values()):
        trees = _plain(rules, terminals, grammar.allow_initial_skip)
    else:
        with grammar.source.placed(0):
            trees = Product(rules, terminals).trees(grammar.allow_initial_skip)
    ebnf = write(trees)
    if not ebnf:
        at = next((each.at for each in grammar.definitions if each.name == rules.start), 0)
        raise grammar.source.error(
            at, f"the grammar has no sentence: {rules.start} never comes to an end."
        )
    return move_carets_in_ebnf(ebnf)


def _plain(rules: Rules, terminals: dict[str, Prepared], skips_first: bool) -> dict[str, Tree]:
    """The grammar as it is: nothing asks what stands behind it."""
    trees: dict[str, Tree] = {}
    for name, prepared in terminals.items():
        if prepared.matcher is None:
            trees[name] = of_pattern(prepared.pattern)
        else:
            start, more = of_matcher(name, prepared.matcher, None, FREELY)
            trees |= more
            trees[name] = Ref(start)
    behind: tuple[Tree, ...] = ()
    if rules.ignored:
        trees[_IGNORED] = Rep(Alt(tuple(Ref(name) for name in rules.ignored)), 0, None)
        behind = (Ref(_IGNORED),)
    anonymous = {
        name: tree for name, tree in trees.items() if name[:1] in '"/' and name in terminals
    }

    def tree_of(node: of_lark.Node) -> Tree:
        match node:
            case of_lark.Token(name):
                return Seq((anonymous.get(name) or Ref(name), *behind))
            case of_lark.Ref(rule):
                return Ref(rule)
            case of_lark.Seq(items):
                return Seq(tuple(map(tree_of, items)))
            case of_lark.Alt(items):
                return Alt(tuple(map(tree_of, items)))
            case of_lark.Rep(item, low, high):
                return NOTHING if high == 0 else Rep(tree_of(item), low, high)

    for rule, node in rules.rules.items():
        trees[rule] = tree_of(node)
    before = behind if skips_first else ()
    trees[ROOT] = Seq((*before, Ref(rules.start)))
    return trees
