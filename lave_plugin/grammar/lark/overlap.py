"""Which keywords of a Lark grammar are identifiers as well."""

from lave_plugin.grammar.lark.definitions import resolve
from lave_plugin.grammar.lark.keywords import keywords_of
from lave_plugin.grammar.lark.syntax import Extension, parse


def keywords_as_identifiers(text: str) -> tuple[list[tuple[str, str]], bool]:
    """(keyword, the terminal that matches it as well), and whether they are kept apart."""
    try:
        grammar = parse(text)
    except Extension:
        return [], False
    rules = resolve(grammar)
    used = [each for name, each in rules.terminals.items() if name not in rules.ignored]
    pairs = [
        (literal.literal, identifier.name)
        for identifier, _, keywords in keywords_of(used, grammar.source)
        for literal, _ in keywords
    ]
    return pairs, grammar.strict_keywords
