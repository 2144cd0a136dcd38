"""Deterministic automata over characters, with look-around and with what may follow a match.

A thread is a node of the pattern's automaton with the look-aheads that it has passed and that are
not decided yet. Threads are determinised as usual (subset construction); look-behind is an
automaton over what has been read, run beside them.

What the text behind a match must be like is found out up to one character: `Follow`. Where more
than that would have to be seen, the match is left out, so no text is taken that Python's `re` would
not take; and look-behind before the beginning of a terminal is refused.
"""

import itertools
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, NamedTuple

from lave_plugin.grammar.lark import characters
from lave_plugin.grammar.lark.characters import Characters
from lave_plugin.grammar.lark.pattern import (
    Chars,
    Either,
    ExactText,
    Joined,
    Look,
    Pattern,
    Times,
    any_of,
)
from lave_plugin.grammar.lark.source import UnsupportedPattern

_MOST_STATES = 4096
_MOST_NODES = 1 << 13
_MOST_WORK = 1 << 20
_TOO_LARGE = "this pattern is too large; write it simpler, or as a rule."


class Follow(NamedTuple):
    """What may stand behind a match: one of these characters, or the end of the text."""

    characters: Characters
    end: bool


FREELY = Follow(characters.ALL, True)
ONLY_END = Follow(characters.NONE, True)
NEVER = Follow(characters.NONE, False)


def both(one: Follow, other: Follow) -> Follow:
    return Follow(characters.intersection(one.characters, other.characters), one.end and other.end)


def either(one: Follow, other: Follow) -> Follow:
    return Follow(characters.union(one.characters, other.characters), one.end or other.end)


class State(NamedTuple):
    edges: tuple[tuple[Characters, int], ...]
    final: Follow | None
    """Whether a match may end here, and before what."""


class Matcher(NamedTuple):
    """A deterministic automaton; it starts in its state 0."""

    states: tuple[State, ...]

    def step(self, state: int, character: int) -> int | None:
        for these, target in self.states[state].edges:
            index = bisect_right(these, (character, 0x110000)) - 1
            if index >= 0 and character <= these[index][1]:
                return target
        return None

    def run(self, text: str) -> int | None:
        state: int | None = 0
        for character in text:
            state = self.step(state, ord(character))
            if state is None:
                return None
        return state

    def next_characters(self, state: int) -> Characters:
        return characters.union(*(these for these, _ in self.states[state].edges))


class _Automaton:
    """Thompson's construction; node 0 is the start, node 1 the end."""

    def __init__(self, pattern: Pattern, matchers: Iterable[Matcher] = ()) -> None:
        self.empty: list[list[int]] = [[], []]
        self.reads: list[list[tuple[Characters, int]]] = [[], []]
        self.looks: list[list[tuple[Look, int, int]]] = [[], []]
        self.exact: list[list[int]] = [[], []]
        self.behind: list[Matcher] = []
        self.widths: list[int] = []
        self.ahead: list[Matcher] = []
        self._add(pattern, 0, 1)
        for matcher in matchers:
            self._add_matcher(matcher, 0, 1)

    def _node(self) -> int:
        for edges in (self.empty, self.reads, self.looks, self.exact):
            edges.append([])
        if len(self.empty) > _MOST_NODES:
            raise UnsupportedPattern(_TOO_LARGE)
        return len(self.empty) - 1

    def _add(self, pattern: Pattern, source: int, target: int) -> None:
        match pattern:
            case Chars(these):
                if these:
                    self.reads[source].append((these, target))
            case Joined(items):
                for item in items[:-1]:
                    following = self._node()
                    self._add(item, source, following)
                    source = following
                if items:
                    self._add(items[-1], source, target)
                else:
                    self.empty[source].append(target)
            case Either(items):
                for item in items:
                    self._add(item, source, target)
            case Times(item, low, high):
                for _ in range(low):
                    following = self._node()
                    self._add(item, source, following)
                    source = following
                if high is None:
                    loop = self._node()
                    self.empty[source].append(loop)
                    self._add(item, loop, loop)
                    self.empty[loop].append(target)
                    return
                for _ in range(high - low):
                    self.empty[source].append(target)
                    following = self._node()
                    self._add(item, source, following)
                    source = following
                self.empty[source].append(target)
            case Look():
                self.looks[source].append((pattern, self._look(pattern), target))
            case ExactText():
                self.exact[source].append(target)

    def _add_matcher(self, matcher: Matcher, source: int, target: int) -> None:
        nodes = [self._node() for _ in matcher.states]
        self.empty[source].append(nodes[0])
        for node, (edges, final) in zip(nodes, matcher.states, strict=True):
            self.reads[node] += [(these, nodes[to]) for these, to in edges]
            if final == FREELY:
                self.empty[node].append(target)
            elif final is not None:
                raise UnsupportedPattern(
                    "it mixes lazy repetition with looking ahead of its end; make two terminals."
                )

    def _look(self, look: Look) -> int:
        if look.ahead:
            self.ahead.append(matcher_of(look.item))
            return len(self.ahead) - 1
        if any_of(look.item, Look):
            raise UnsupportedPattern("it looks around inside of a look-behind; write it without.")
        anything = Times(Chars(characters.ALL), 0, None)
        self.behind.append(matcher_of(Joined((anything, look.item))))
        self.widths.append(_width(look.item))
        return len(self.behind) - 1


def _width(pattern: Pattern) -> int:
    match pattern:
        case Chars():
            return 1
        case Joined(items):
            return sum(map(_width, items))
        case Either(items):
            return max(map(_width, items), default=0)
        case Times(item, _, high):
            return _width(item) * (high or 0)
    return 0


_Obligation = tuple[bool, int, int]
"""(negative, index of the look-ahead, its state)"""
_Thread = tuple[int, frozenset[_Obligation]]
_Subset = tuple[frozenset[_Thread], tuple[int, ...], int]
"""Threads, the states of the look-behinds, characters read as far as a look-behind cares"""


def matcher_of(pattern: Pattern) -> Matcher:
    """The automaton of a pattern.

    Raises:
        UnsupportedPattern: If the pattern looks behind its beginning, is lazy in a way that has no
            automaton, or is too large.
    """
    lazy, greedy = (any_of(pattern, Times, lazy=each) for each in (True, False))
    if lazy and greedy and isinstance(pattern, Either):
        # One of the alternatives matches, and each goes by its own rule.
        return _Determiniser(_Automaton(Either(()), map(matcher_of, pattern.items)), False).run()
    if lazy and greedy:
        raise UnsupportedPattern(
            "it mixes lazy repetition with greedy repetition without bound; say what the lazy one "
            'stops at, such as [^"]* for .*? before a quote.'
        )
    return _Determiniser(_Automaton(pattern), shortest=lazy).run()


class _Determiniser:
    def __init__(self, automaton: _Automaton, shortest: bool) -> None:
        self._of = automaton
        self._shortest = shortest
        self._work = 0
        self._widest = max(automaton.widths, default=0)
        self._classes = _classes(
            [
                *(these for edges in automaton.reads for these, _ in edges),
                *(
                    these
                    for matcher in (*automaton.ahead, *automaton.behind)
                    for state in matcher.states
                    for these, _ in state.edges
                ),
                *(
                    state.final.characters
                    for matcher in automaton.ahead
                    for state in matcher.states
                    if state.final is not None
                ),
                *(
                    matcher.next_characters(state)
                    for matcher in automaton.ahead
                    for state in range(len(matcher.states))
                ),
            ]
        )

    def run(self) -> Matcher:
        of = self._of
        start = self._close([(0, frozenset())], (0,) * len(of.behind), 0)
        numbers = {start: 0}
        subsets = [start]
        rows: list[list[tuple[Characters, int]]] = []
        finals: list[Follow | None] = []
        while len(rows) < len(subsets):
            if self._work > _MOST_WORK:
                raise UnsupportedPattern(
                    "this pattern is too large; write it simpler, or as a rule."
                )
            if len(subsets) > _MOST_STATES:
                raise UnsupportedPattern(
                    f"this pattern takes more than {_MOST_STATES} states; write it simpler, or as "
                    "a rule."
                )
            subset = subsets[len(rows)]
            final = self._final(subset)
            by_target: dict[int, list[Characters]] = {}
            for sample, these in self._classes:
                if self._shortest and final is not None and _contains(final.characters, sample):
                    continue
                following = self._step(subset, sample)
                if not following[0]:
                    continue
                if following not in numbers:
                    numbers[following] = len(subsets)
                    subsets.append(following)
                by_target.setdefault(numbers[following], []).append(these)
            rows.append([(characters.union(*sets), target) for target, sets in by_target.items()])
            finals.append(final)
        return _minimal(rows, finals)

    def _close(self, threads: Iterable[_Thread], behind: tuple[int, ...], read: int) -> _Subset:
        of = self._of
        seen: set[_Thread] = set()
        pending = list(threads)
        while pending:
            thread = pending.pop()
            if thread in seen:
                continue
            seen.add(thread)
            self._work += 1
            node, obligations = thread
            pending += [(target, obligations) for target in of.empty[node]]
            for target in of.exact[node]:
                # Reached only in a look-ahead for the text of a terminal; nothing is read behind.
                pending.append((target, obligations | {(True, -1, 0)}))
            for look, index, target in of.looks[node]:
                if look.ahead:
                    after = self._begin(look.negative, index)
                    if after is not None:
                        pending.append((target, obligations | after))
                    continue
                if read < of.widths[index]:
                    raise UnsupportedPattern(
                        "it looks behind the beginning of the terminal (a leading \\b or "
                        "look-behind), at text that a terminal does not know; leave it out."
                    )
                found = of.behind[index].states[behind[index]].final is not None
                if found != look.negative:
                    pending.append((target, obligations))
        alive = frozenset(thread for thread in seen if thread[0] == 1 or of.reads[thread[0]])
        return alive, behind, read

    def _begin(self, negative: bool, index: int) -> frozenset[_Obligation] | None:
        """What is still to be seen of a look-ahead that begins here; None if it fails at once."""
        if self._of.ahead[index].states[0].final == FREELY:
            return None if negative else frozenset()
        return frozenset([(negative, index, 0)])

    def _step(self, subset: _Subset, sample: int) -> _Subset:
        of = self._of
        threads, behind, read = subset
        self._work += len(threads)
        after: list[_Thread] = []
        for node, obligations in threads:
            targets = [target for these, target in of.reads[node] if _contains(these, sample)]
            if targets:
                left = self._step_obligations(obligations, sample)
                if left is not None:
                    after += [(target, left) for target in targets]
        if not after:
            return frozenset(), (), 0
        return self._close(
            after,
            tuple(
                matcher.step(state, sample) or 0
                for matcher, state in zip(of.behind, behind, strict=True)
            ),
            min(read + 1, self._widest),
        )

    def _step_obligations(
        self, obligations: frozenset[_Obligation], sample: int
    ) -> frozenset[_Obligation] | None:
        left = set()
        for negative, index, state in obligations:
            if index < 0:
                return None
            matcher = self._of.ahead[index]
            final = matcher.states[state].final
            following = matcher.step(state, sample)
            met = final is not None and _contains(final.characters, sample)
            if following is not None and not met:
                met = matcher.states[following].final == FREELY
            if met and negative:
                return None
            if not met:
                if following is None and not negative:
                    return None
                if following is not None:
                    left.add((negative, index, following))
        return frozenset(left)

    def _final(self, subset: _Subset) -> Follow | None:
        found = NEVER
        for node, obligations in subset[0]:
            if node != 1:
                continue
            follow = FREELY
            for negative, index, state in obligations:
                follow = both(follow, self._follow(negative, index, state))
            found = either(found, follow)
        return None if found == NEVER else found

    def _follow(self, negative: bool, index: int, state: int) -> Follow:
        """What may stand behind a match before which a look-ahead has come so far."""
        if index < 0:
            return ONLY_END
        matcher = self._of.ahead[index]
        final = matcher.states[state].final or NEVER
        if negative:
            if final.end:
                return NEVER
            live = characters.union(matcher.next_characters(state), final.characters)
            return Follow(characters.negation(live), True)
        at_once = [
            these
            for these, target in matcher.states[state].edges
            if matcher.states[target].final == FREELY
        ]
        return Follow(characters.union(final.characters, *at_once), final.end)


def _contains(these: Characters, character: int) -> bool:
    index = bisect_right(these, (character, 0x110000)) - 1
    return index >= 0 and character <= these[index][1]


def _classes(sets: Iterable[Characters]) -> list[tuple[int, Characters]]:
    """The characters that no set tells apart, each class with one of its members."""
    sets = list(dict.fromkeys(sets))
    cuts = sorted(
        {1, 0xD800, 0xE000, 0x110000}
        | {cut for these in sets for low, high in these for cut in (low, high + 1)}
    )
    members: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for low, above in itertools.pairwise(cuts):
        if not 0xD800 <= low < 0xE000:
            signature = tuple(index for index, these in enumerate(sets) if _contains(these, low))
            members.setdefault(signature, []).append((low, above - 1))
    return [(ranges[0][0], characters.characters(ranges)) for ranges in members.values()]


def _minimal(rows: list[list[tuple[Characters, int]]], finals: list[Follow | None]) -> Matcher:
    """Without states from which nothing ends, and with equal ones joined (Moore 1956)."""
    sources: list[list[int]] = [[] for _ in rows]
    for index, edges in enumerate(rows):
        for _, target in edges:
            sources[target].append(index)
    useful = [index for index, final in enumerate(finals) if final is not None]
    seen = set(useful)
    for index in useful:
        for source in sources[index]:
            if source not in seen:
                seen.add(source)
                useful.append(source)
    if 0 not in seen:
        return Matcher((State((), None),))
    groups = _numbered({index: finals[index] for index in seen})
    while True:
        by_group = {index: _by_group(rows[index], groups) for index in seen}
        finer = _numbered({index: (groups[index], by_group[index]) for index in seen})
        if len(set(finer.values())) == len(set(groups.values())):
            break
        groups = finer
    numbers = {groups[0]: 0}
    order = [0]
    for index in order:
        for _, target in by_group[index]:
            if target not in numbers:
                numbers[target] = len(numbers)
                order.append(next(each for each in seen if groups[each] == target))
    return Matcher(
        tuple(
            State(
                tuple((these, numbers[target]) for these, target in by_group[index]),
                finals[index],
            )
            for index in order
        )
    )


def _numbered(keys: dict[int, Any]) -> dict[int, int]:
    numbers: dict[Any, int] = {}
    return {index: numbers.setdefault(key, len(numbers)) for index, key in keys.items()}


def _by_group(
    edges: list[tuple[Characters, int]], groups: dict[int, int]
) -> tuple[tuple[Characters, int], ...]:
    joined: dict[int, list[Characters]] = {}
    for these, target in edges:
        if target in groups:
            joined.setdefault(groups[target], []).append(these)
    return tuple(sorted((characters.union(*sets), group) for group, sets in joined.items()))
