"""The grammar's states, stepped by tokens instead of bytes, with the end of text."""

from __future__ import annotations

from bisect import bisect_left

from lave_plugin.grammar.automaton import DEAD, Automaton, TokenClasses
from lave_plugin.grammar.vocabulary import UNSPELLABLE, Vocabulary

ENDED = -2
"""The state behind an end token: only more end tokens may follow."""

MAX_BYTES = 256 << 20
"""What the states of one grammar may take, about."""

# Measured with tracemalloc on a C-like grammar.
BYTES_OF_A_STATE = 3000
BYTES_OF_A_TRANSITION = 70


class TokenAutomaton:
    """States of one grammar over one vocabulary; equal id means equal future."""

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        self.automaton = automaton
        self.vocabulary = vocabulary
        self.special_tokens = special_tokens(automaton.token_classes, vocabulary)
        """Tokens without text that the grammar names, so that an answer may hold them."""
        self._representatives = _representatives(automaton.token_classes, vocabulary)
        self._forget()

    def _forget(self) -> None:
        self._of_generation = self.automaton.generation
        self._next: dict[tuple[int, int], int] = {}
        self._spelling: dict[int, list[int] | None] = {}
        self._fillers: dict[int, tuple[int, ...]] = {}

    @property
    def start(self) -> int:
        """The state before any text."""
        return self.automaton.end_token(self.automaton.start)

    @property
    def generation(self) -> int:
        """How often the states have been dropped and numbered anew."""
        return self.automaton.generation

    @property
    def memory(self) -> int:
        """Bytes that the states take, about."""
        return BYTES_OF_A_STATE * self.automaton.state_count + BYTES_OF_A_TRANSITION * len(
            self._next
        )

    def make_room(self) -> None:
        """Drop all states if there are more than the grammar may keep (see ``grammar.room``)."""
        if self.memory > MAX_BYTES:
            self.automaton.drop_states()
        if self._of_generation != self.automaton.generation:
            self._forget()

    def drop_states(self) -> None:
        """Drop all states: ``generation`` rises, and who holds a state walks its text again."""
        self.automaton.drop_states()
        self._forget()

    def advance(self, state: int, token: int) -> int:
        """The state after ``token``, or ``DEAD``."""
        key = (state, token)
        following = self._next.get(key)
        if following is None:
            following = self._next[key] = self._advance(state, token)
        return following

    def _advance(self, state: int, token: int) -> int:
        if not 0 <= token < len(self.vocabulary):
            return DEAD
        if token in self.vocabulary.end_tokens:
            return ENDED if self.is_complete(state) else DEAD
        data = self.vocabulary.token_bytes[token]
        if state < 0:
            return DEAD
        automaton = self.automaton
        following = automaton.run(state, data) if data else DEAD
        if automaton.reads_tokens:
            whole = automaton.step_token(state, token, bool(data))
            following = automaton.end_token(automaton.union((following, whole)))
        return following

    def is_complete(self, state: int) -> bool:
        """Whether the text may end here."""
        return state == ENDED or (state >= 0 and self.automaton.accepting(state))

    def only_end(self, state: int) -> bool:
        """Whether nothing but the end of text may follow."""
        return state == ENDED or (
            self.is_complete(state) and not self.automaton.can_continue(state)
        )

    def forced_bytes(self, state: int) -> bytes:
        """The bytes that are the only way on (see ``Automaton.forced_bytes``)."""
        return b"" if state < 0 else self.automaton.forced_bytes(state)

    def shortest_ending(self, state: int) -> list[int] | None:
        """Tokens that finish the text from ``state``, without the end token.

        They spell a shortest completion in bytes, so their number is a count that can
        be reached, not a lower bound: a longer string may be fewer tokens. The
        completion that remains after its first token is the completion of the state
        there (see ``Automaton.shortest_completion``): following it always arrives.
        For a union it is that of the member with the fewest tokens, so that a union
        never takes longer than one of its members.
        ``None`` where the vocabulary cannot spell it.
        """
        if state == ENDED:
            return []
        if state not in self._spelling:
            members = self.automaton.members(state)
            endings = (
                [self._ending(state)] if len(members) == 1 else map(self.shortest_ending, members)
            )
            self._spelling[state] = min(
                (ending for ending in endings if ending is not None),
                key=lambda ending: (len(ending), ending),
                default=None,
            )
        return self._spelling[state]

    def _ending(self, state: int) -> list[int] | None:
        """Bytes are spelled; where a token has to be read as a whole, another spelling begins."""
        automaton = self.automaton
        tokens: list[int] = []
        data = bytearray()
        while state != DEAD:
            by_byte = automaton.spells_by_byte(state)
            if by_byte:
                state = automaton.end_token(state)
            symbol = -1 if automaton.accepting(state) else automaton.first_symbol(state)
            if symbol >= 0 and not by_byte:
                data.append(symbol)
                state = automaton.step(state, symbol)
                continue
            spelling = self.vocabulary.spelling(bytes(data))
            if spelling is None:
                return None
            tokens += spelling
            data.clear()
            if automaton.accepting(state):
                return tokens
            token = self._token_of_set(-1 - symbol) if symbol < 0 else self._token_of_byte(symbol)
            if token is None:
                return None
            tokens.append(token)
            if symbol >= 0:
                state = automaton.step(state, symbol)
            else:
                state = automaton.step_token(state, token, bool(self.vocabulary.token_bytes[token]))
            if by_byte:
                state = automaton.end_token(state)
        return None

    def _token_of_byte(self, byte: int) -> int | None:
        spelling = self.vocabulary.spelling(bytes([byte]))
        return spelling and spelling[0]

    def _token_of_set(self, index: int) -> int | None:
        """Of the tokens that a set holds the lowest, where characters count of the shortest."""
        classes = self.automaton.token_classes

        def rank(token_class: int, token: int) -> tuple[bool, int, int]:
            length = classes.characters[token_class] or 0
            return length == 0, length, token

        fitting = (
            each for each in self._representatives.items() if index in classes.read_by[each[0]]
        )
        return min(fitting, key=lambda each: rank(*each), default=(0, None))[1]

    def tokens_to_finish(self, state: int) -> int:
        """Tokens that suffice from ``state``, end token included; 0 once ended."""
        if state == ENDED:
            return 0
        ending = self.shortest_ending(state)
        return UNSPELLABLE if ending is None else len(ending) + 1

    def finishes_within(self, state: int, left: int) -> bool:
        """Whether ``tokens_to_finish`` is at most ``left``."""
        return self.tokens_to_finish(state) <= left

    def fillers(self, state: int) -> tuple[int, ...]:
        """Tokens that go on from ``state`` whatever the model proposes.

        The end token where the text may end, and one single-byte token for each state
        that a byte can lead to: enough to reach every state that is a byte away, and
        never empty while the vocabulary has the bytes. Of the tokens that the grammar
        reads as a whole, one of each kind that it tells apart.
        """
        fillers = self._fillers.get(state)
        if fillers is None:
            by_state: dict[int, int] = {}
            if state != ENDED:
                for token in (*self.vocabulary.byte_tokens, *self._representatives.values()):
                    following = self.advance(state, token)
                    if following != DEAD:
                        by_state.setdefault(following, token)
            end = (self.vocabulary.end_token,) if self.is_complete(state) else ()
            fillers = self._fillers[state] = (*end, *by_state.values())
        return fillers

    def allowed_tokens(self, state: int) -> bytes:
        """The next-token mask: bit ``t & 7`` of byte ``t >> 3`` says whether ``t`` may follow.

        In whole words of 32 bits, so it can be read as xgrammar's bitmask.
        """
        mask = bytearray((len(self.vocabulary) + 31) // 32 * 4)
        may_follow = self._that_run(state) if state >= 0 else []
        if self.automaton.reads_tokens and state >= 0:
            readable = [*may_follow, *self._read_as_a_whole(state)]
            may_follow = [token for token in readable if self.advance(state, token) != DEAD]
        ends = self.vocabulary.end_tokens if self.is_complete(state) else ()
        for token in (*may_follow, *ends):
            if token < len(self.vocabulary):
                mask[token >> 3] |= 1 << (token & 7)
        return bytes(mask)

    def _that_run(self, state: int) -> list[int]:
        """The tokens whose bytes lead somewhere from here; what begins as a dead one is skipped."""
        texts, tokens = self.vocabulary.in_order
        step = self.automaton.step
        running: list[int] = []
        before, behind = b"", [state]  # the states behind the first bytes of the text before
        at = 0
        while at < len(texts):
            data = texts[at]
            common = 0
            for one, other in zip(data, before, strict=False):
                if one != other or common == len(behind) - 1:
                    break
                common += 1
            del behind[common + 1 :]
            for length in range(common, len(data)):
                following = step(behind[-1], data[length])
                if following == DEAD:
                    at = bisect_left(texts, _behind_all(data[: length + 1]), at + 1)
                    break
                behind.append(following)
            else:
                running.append(tokens[at])
                at += 1
            before = data
        return running

    def _read_as_a_whole(self, state: int) -> list[int]:
        """The tokens that some edge may read from here."""
        automaton, token_bytes = self.automaton, self.vocabulary.token_bytes
        class_of = automaton.token_classes.class_of
        readable = {
            token_class
            for token_class, token in self._representatives.items()
            if automaton.step_token(state, token, bool(token_bytes[token])) != DEAD
        }
        return [
            token
            for token, data in enumerate(token_bytes if readable else ())
            if class_of(token, bool(data)) in readable
        ]


def _behind_all(prefix: bytes) -> bytes:
    """The first text in order behind all that begin so."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else b"\xff" * 1000


def special_tokens(classes: TokenClasses, vocabulary: Vocabulary) -> frozenset[int]:
    """Tokens without text that the grammar names, so that an answer may hold them."""
    return frozenset(
        token
        for token in classes.named
        if token < len(vocabulary)
        and not vocabulary.token_bytes[token]
        and token not in vocabulary.end_tokens
    )


def _representatives(classes: TokenClasses, vocabulary: Vocabulary) -> dict[int, int]:
    """For each class of tokens that an edge reads its lowest token."""
    representatives: dict[int, int] = {}
    for token in classes.signature:
        if token < len(vocabulary) and token not in vocabulary.end_tokens:
            token_class = classes.class_of(token, bool(vocabulary.token_bytes[token]))
            representatives.setdefault(token_class, token)
    of_text = classes.class_of(-1, is_text=True)
    for token, data in enumerate(vocabulary.token_bytes):
        if data and token not in classes.signature:
            representatives[of_text] = token
            break
    return {
        token_class: token
        for token_class, token in sorted(representatives.items())
        if classes.read_by[token_class]
    }
