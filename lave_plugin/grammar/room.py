"""Caps on the states that are kept: for each grammar, and for all grammars of the process.

A server runs for weeks and meets new schemas and new code all the time, so what has been
unfolded must be dropped at some time. It is dropped between steps, whole grammars at once:
states are unfolded again as they are walked, and who holds one of the dropped (a session)
sees that `generation` has risen and walks its text again. No answer depends on it.
"""

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from lave_plugin.grammar.token_automaton import TokenAutomaton

MAX_BYTES = 1 << 30
"""What the states of all grammars may take, about, before those used longest ago are dropped."""


class Room:
    """The states of all grammars that were used so far, in the order of their last use."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held: WeakKeyDictionary[TokenAutomaton, int] = WeakKeyDictionary()
        self._total = 0

    def held(self) -> tuple[int, int]:
        """How many states there are, and the bytes that they take, about."""
        of_automata = {tokens.automaton: tokens for tokens in self._held}
        states = sum(automaton.state_count for automaton in of_automata)
        return states, sum(tokens.memory for tokens in of_automata.values())

    def make(self, in_use: Iterable[TokenAutomaton]) -> None:
        """Drop what is above the caps; to be called before anyone takes up a state.

        Args:
            in_use: the states that the coming step is going to walk. They go last.
        """
        for tokens in in_use:
            tokens.make_room()
            held = tokens.memory
            self._total += held - self._held.pop(tokens, 0)
            self._held[tokens] = held
        if self._total <= self._max_bytes:
            return
        self._total = sum(self._held.values())  # grammars that are gone may still be counted
        for tokens in list(self._held):
            # Down to half, so that it is not the next step's business again.
            if self._total <= self._max_bytes // 2:
                return
            self._total -= self._held.pop(tokens)
            tokens.drop_states()


of_process = Room()
"""The one that the batches of this process share."""
