"""Keywords kept apart from identifiers, as Lark's basic lexer does it.

A keyword is a string of the grammar that a regular expression of the grammar, the identifier,
matches as well. The lexer then takes the longest match, and where both are as long the keyword:
so no identifier is a keyword, and neither is followed at once by a character that would make it a
longer identifier. A keyword of higher priority wins against every identifier that begins with it,
and one of lower priority never.
"""

from collections.abc import Iterator

from lave_plugin.grammar.lark.characters import negation
from lave_plugin.grammar.lark.definitions import Terminal
from lave_plugin.grammar.lark.matching import (
    FREELY,
    NEVER,
    Follow,
    Matcher,
    State,
    both,
    matcher_of,
)
from lave_plugin.grammar.lark.pattern import Either, ExactText, Joined, Look
from lave_plugin.grammar.lark.source import Source


def keywords_apart(
    terminals: list[Terminal], source: Source
) -> dict[str, tuple[Matcher | None, Follow]]:
    """For identifiers their automaton without the keywords; for keywords what may stand behind.

    Args:
        terminals: Those that rules use.

    Raises:
        LarkError: If an identifier's pattern is one that can't be kept apart.
    """
    found: dict[str, tuple[Matcher | None, Follow]] = {}
    for identifier, matcher, keywords in keywords_of(terminals, source):
        excluded = []
        for literal, state in keywords:
            if literal.priority < identifier.priority:
                found[literal.name] = (None, NEVER)
                continue
            if literal.priority > identifier.priority:
                excluded.append(literal.pattern)
                continue
            excluded.append(Joined((literal.pattern, ExactText())))
            _, before = found.get(literal.name, (None, FREELY))
            found[literal.name] = (None, both(before, _not_longer(matcher, state)))
        if not excluded:
            continue
        not_a_keyword = Look(Either(tuple(excluded)), ahead=True, negative=True)
        with source.placed(identifier.at):
            without = matcher_of(Joined((not_a_keyword, identifier.pattern)))
        found[identifier.name] = (longest(without), FREELY)
    return found


def keywords_of(
    terminals: list[Terminal], source: Source
) -> Iterator[tuple[Terminal, Matcher, list[tuple[Terminal, int]]]]:
    """Each identifier with its automaton, and its keywords with the states that they lead to."""
    literals = [terminal for terminal in terminals if terminal.literal]
    for identifier in terminals:
        if identifier.literal is not None:
            continue
        with source.placed(identifier.at):
            matcher = matcher_of(identifier.pattern)
        keywords = [
            (literal, state)
            for literal in literals
            if (state := matcher.run(literal.literal)) is not None
            and matcher.states[state].final is not None
        ]
        if keywords:
            yield identifier, matcher, keywords


def _not_longer(matcher: Matcher, state: int) -> Follow:
    return Follow(negation(matcher.next_characters(state)), True)


def longest(matcher: Matcher) -> Matcher:
    """Only the matches that no character behind them would make a longer one."""
    return Matcher(
        tuple(
            State(
                state.edges,
                None if state.final is None else both(state.final, _not_longer(matcher, index)),
            )
            for index, state in enumerate(matcher.states)
        )
    )
