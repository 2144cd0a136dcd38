"""Terminals made ready: as patterns, or as automata where the text around them matters."""

from dataclasses import dataclass

from lave_plugin.grammar.lark.characters import NONE, Characters, intersection, union
from lave_plugin.grammar.lark.definitions import Terminal
from lave_plugin.grammar.lark.keywords import longest
from lave_plugin.grammar.lark.matching import FREELY, Follow, Matcher, matcher_of
from lave_plugin.grammar.lark.pattern import (
    Chars,
    Either,
    Joined,
    Look,
    Pattern,
    Times,
    any_of,
)


@dataclass
class Prepared:
    """A terminal's texts: its pattern, or where that needs one its automaton."""

    pattern: Pattern
    matcher: Matcher | None
    follow: Follow = FREELY
    """What may stand behind any of its texts; with an automaton, its states say it."""

    @property
    def is_free(self) -> bool:
        if self.matcher is None:
            return self.follow == FREELY
        return all(state.final in (None, FREELY) for state in self.matcher.states)

    @property
    def follows(self) -> list[Follow]:
        """What may stand behind some of its texts."""
        if self.matcher is None:
            return [self.follow]
        finals = (state.final for state in self.matcher.states)
        return list(dict.fromkeys(final for final in finals if final is not None))


def prepare(terminal: Terminal) -> Prepared:
    needs_automaton = any_of(terminal.pattern, Look) or any_of(terminal.pattern, Times, lazy=True)
    matcher = matcher_of(terminal.pattern) if needs_automaton else None
    return Prepared(terminal.pattern, matcher)


def take_longest(name: str, terminals: dict[str, Prepared]) -> None:
    """Let text that is ignored end where it can't go on, as in Lark: a comment up to the end of the
    line is not followed by code on that line.

    Where nothing that may come next could be taken for more of it, there is nothing to do.
    """
    prepared = terminals[name]
    matcher = prepared.matcher or matcher_of(prepared.pattern)
    goes_on = union(
        *(
            matcher.next_characters(index)
            for index, state in enumerate(matcher.states)
            if state.final is not None
        )
    )
    next_ones = (
        first_characters(each.pattern)[0] for key, each in terminals.items() if key != name
    )
    if any(intersection(goes_on, first) for first in next_ones):
        terminals[name] = Prepared(prepared.pattern, longest(matcher))


def first_characters(pattern: Pattern) -> tuple[Characters, bool]:
    """What a text of the pattern may begin with, and whether it may be empty."""
    match pattern:
        case Chars(these):
            return these, False
        case Joined(items):
            found = NONE
            for item in items:
                these, empty = first_characters(item)
                found = union(found, these)
                if not empty:
                    return found, False
            return found, True
        case Either(items):
            parts = [first_characters(item) for item in items]
            return union(*(these for these, _ in parts)), any(empty for _, empty in parts)
        case Times(item, low, high):
            these, empty = first_characters(item)
            return (NONE if high == 0 else these), low == 0 or empty
    return NONE, True  # it looks around and reads nothing
