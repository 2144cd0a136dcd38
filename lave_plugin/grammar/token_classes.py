"""A grammar with few states as an automaton over classes of tokens.

Tokens that lead from every state to the same one are a class: of 150,000 tokens a few hundred
remain, and most tokens have no class, since no state lets them pass. Whatever is summed over the
edges of the states then has one term for a class, not one for a token.

This is for regular grammars with few states. A grammar counts as that if its states, unfolded byte
by byte, come to an end below a limit; what does not is not asked whether it is regular.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.token_automaton import ENDED, TokenAutomaton

NO_CLASS = -1

RECURSIVE_STATES = 256
"""States that a grammar with recursive rules may have: there are mostly infinitely many, and each
may be larger than the one before."""

MAX_EDGES = 2_000_000
"""Edges beyond which the classes are no help either."""


@dataclass(frozen=True, eq=False)
class ClassAutomaton:
    """States of one grammar over one vocabulary, with edges for classes of tokens.

    States are numbered anew, from 0 on; the last is that behind an end token.

    Attributes:
        index: the number of each state of the token automaton.
        class_of: int64 ``[vocabulary]``, ``NO_CLASS`` for what fits nowhere.
        order: int64 ``[tokens with a class]``, sorted by class, then by id.
        begins: int64 ``[classes + 1]``, where the tokens of each class begin in ``order``.
        source, target, label: int64 ``[edges]``, by source; the label is a class.
        edge_begins: int64 ``[states + 1]``, where the edges of each state begin.
        to_finish: int64 ``[states]``, tokens that suffice to finish, end token included.
    """

    index: dict[int, int]
    class_of: np.ndarray
    order: np.ndarray
    begins: np.ndarray
    source: np.ndarray
    target: np.ndarray
    label: np.ndarray
    edge_begins: np.ndarray
    to_finish: np.ndarray

    @property
    def states(self) -> int:
        return len(self.to_finish)

    @property
    def classes(self) -> int:
        return len(self.begins) - 1


class _Known:
    """What was found out about a token automaton, for one generation of its states."""

    def __init__(self, generation: int, limit: int, found: ClassAutomaton | None) -> None:
        self.generation = generation
        self.limit = limit
        self.found = found


_known: WeakKeyDictionary[TokenAutomaton, _Known] = WeakKeyDictionary()


def class_automaton(tokens: TokenAutomaton, max_states: int) -> ClassAutomaton | None:
    """The class automaton of a grammar; ``None`` where it has more than ``max_states`` states.

    Also where the grammar reads tokens as a whole, or counts them. It is kept until the states
    are dropped (``TokenAutomaton.generation``).
    """
    known = _known.get(tokens)
    if known is None or (known.generation, known.limit) != (tokens.generation, max_states):
        known = _known[tokens] = _Known(tokens.generation, max_states, _build(tokens, max_states))
    return known.found


def _build(tokens: TokenAutomaton, max_states: int) -> ClassAutomaton | None:
    if tokens.automaton.reads_tokens:
        return None
    if tokens.automaton.is_recursive:
        max_states = min(max_states, RECURSIVE_STATES)
    states, table = _unfold(tokens, max_states)
    if states is None:
        return None
    class_of, functions = _classes(tokens, table)
    ended = len(states)
    accepting = np.flatnonzero([tokens.is_complete(state) for state in states])
    ends = sorted(tokens.vocabulary.end_tokens)
    class_of[ends] = len(functions)
    functions.append(
        (np.append(accepting, ended), np.full(len(accepting) + 1, ended, dtype=np.int64))
    )
    if sum(len(sources) for sources, _ in functions) > MAX_EDGES:
        return None
    source = np.concatenate([sources for sources, _ in functions])
    target = np.concatenate([targets for _, targets in functions])
    label = np.repeat(np.arange(len(functions)), [len(sources) for sources, _ in functions])
    by_source = np.argsort(source, kind="stable")
    with_class = np.flatnonzero(class_of != NO_CLASS)
    order = with_class[np.argsort(class_of[with_class], kind="stable")]
    sizes = np.bincount(class_of[order], minlength=len(functions))
    return ClassAutomaton(
        index={**{state: at for at, state in enumerate(states)}, ENDED: ended},
        class_of=class_of,
        order=order,
        begins=np.concatenate(([0], sizes.cumsum())),
        source=source[by_source],
        target=target[by_source],
        label=label[by_source],
        edge_begins=np.searchsorted(source[by_source], np.arange(ended + 2)),
        to_finish=np.array([*(tokens.tokens_to_finish(state) for state in states), 0]),
    )


def _unfold(tokens: TokenAutomaton, max_states: int) -> tuple[list[int] | None, np.ndarray]:
    """All states that bytes lead to, and int64 ``[states, 256]``, ``DEAD`` where none."""
    automaton = tokens.automaton
    index = {tokens.start: 0}
    states, rows = [tokens.start], []
    for state in states:  # grows while it is walked
        row = np.full(256, DEAD, dtype=np.int64)
        for byte in automaton.allowed_bytes(state):
            following = automaton.step(state, byte)
            place = index.setdefault(following, len(states))
            if place == len(states):
                if place == max_states:
                    return None, np.empty(0)
                states.append(following)
            row[byte] = place
        rows.append(row)
    return states, np.stack(rows)


Function = tuple[np.ndarray, np.ndarray]
"""A partial function on the states: where it is defined, ascending, and its values."""


def _classes(tokens: TokenAutomaton, table: np.ndarray) -> tuple[np.ndarray, list[Function]]:
    """The class of each token with text, and what each class does to the states.

    What a string does to the states is a function, and that of a longer one is composed from
    those of its parts. All tokens are read at once, byte after byte; two that have done the
    same to the states so far are one from there on.
    """
    columns, byte_class = np.unique(table, axis=1, return_inverse=True)
    byte_class = byte_class.reshape(-1)
    kinds = columns.shape[1]
    everywhere = np.arange(len(table))
    functions: list[Function] = [(everywhere, everywhere)]
    known = {_key(functions[0]): 0}
    composed: dict[int, int] = {}

    def behind(pair: int) -> int:
        """The number of a function followed by a byte; ``NO_CLASS`` if that is nowhere defined."""
        if pair not in composed:
            sources, values = functions[pair // kinds]
            values = columns[values, pair % kinds]
            alive = values != DEAD
            function = sources[alive], values[alive]
            composed[pair] = NO_CLASS
            if len(function[0]):
                composed[pair] = known.setdefault(_key(function), len(functions))
                if composed[pair] == len(functions):
                    functions.append(function)
        return composed[pair]

    lengths = np.fromiter(map(len, tokens.vocabulary.token_bytes), np.int64)
    data = np.frombuffer(b"".join(tokens.vocabulary.token_bytes), np.uint8)
    at = lengths.cumsum() - lengths
    function_of = np.where(lengths > 0, 0, NO_CLASS)
    reading = np.flatnonzero(lengths)
    depth = 0
    while len(reading):
        pairs = function_of[reading] * kinds + byte_class[data[at[reading] + depth]]
        found, place = np.unique(pairs, return_inverse=True)
        function_of[reading] = np.array([behind(pair) for pair in found.tolist()])[place]
        depth += 1
        reading = reading[(function_of[reading] != NO_CLASS) & (lengths[reading] > depth)]
    # Functions of mere beginnings of tokens are no classes.
    used, class_of = np.unique(function_of, return_inverse=True)
    nowhere = int(used[0] == NO_CLASS)
    return class_of.reshape(-1) - nowhere, [functions[number] for number in used[nowhere:]]


def _key(function: Function) -> tuple[bytes, bytes]:
    sources, values = function
    return sources.tobytes(), values.tobytes()
