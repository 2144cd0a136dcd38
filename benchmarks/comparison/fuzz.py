"""Random walks through a grammar, mostly over what is allowed and also over what is not."""

import random
from collections.abc import Callable
from functools import lru_cache

from comparison.pair import Pair
from lave_plugin.grammar.vocabulary import Vocabulary

LONGEST_WALK = 240
"""Steps, after which a walk begins anew."""

_CLASSES = (b" \t\n\r", b"\"'\\,;:.", b"()[]{}<>", b"0123456789", b"+-*/%=!&|^~#@?$_`")


def fuzz_bytes(
    pair: Pair,
    steps: int,
    rng: random.Random,
    *,
    completion_every: int = 16,
    tick: Callable[[int], object] = lambda count: None,
) -> None:
    """Walk byte by byte, and confirm shortest completions on the way."""
    chooser = _Chooser(pair, rng)
    done = 0
    while done < steps:
        chooser.restart()
        agreed = pair.compare_end()
        for _ in range(min(rng.randint(1, LONGEST_WALK), steps - done)):
            agreed = agreed and pair.step_byte(chooser.byte())
            done += 1
            tick(1)
            if agreed and rng.randrange(completion_every) == 0:
                agreed = pair.confirm_completion()
            if not agreed or chooser.at_the_end():
                break


def fuzz_tokens(
    pair: Pair,
    vocabulary: Vocabulary,
    steps: int,
    masks: int,
    rng: random.Random,
    *,
    completion_every: int = 16,
    tick: Callable[[int], object] = lambda count: None,
) -> None:
    """Walk token by token, and confirm shortest endings on the way.

    The masks of up to `masks` states are compared, each state once.
    """
    chooser = _Chooser(pair, rng)
    tokens = _TokenChooser(chooser, vocabulary)
    mask_every = max(1, steps // (8 * masks)) if masks else steps + 1
    masked: set[tuple[int, int]] = set()
    done = 0
    while done < steps:
        chooser.restart()
        agreed = True
        for _ in range(min(rng.randint(1, LONGEST_WALK), steps - done)):
            place = (pair.tokens.generation, pair.state)
            if done % mask_every == 0 and len(masked) < masks and place not in masked:
                masked.add(place)
                agreed = pair.compare_mask()
            if rng.randrange(8) == 0:
                agreed = agreed and pair.compare_end_token(vocabulary.end_token)
            else:
                agreed = agreed and pair.step(tokens.token())
            done += 1
            tick(1)
            if agreed and rng.randrange(completion_every) == 0:
                agreed = pair.confirm_ending()
            if not agreed or chooser.at_the_end():
                break


class _Chooser:
    """Which byte to try next."""

    def __init__(self, pair: Pair, rng: random.Random) -> None:
        self.pair, self.rng = pair, rng
        self._planned = b""
        self._classes = lru_cache(maxsize=4096)(_by_class)
        self._ways = lru_cache(maxsize=4096)(self._by_target)

    def restart(self) -> None:
        """A new walk."""
        self.pair.restart()
        self._planned = b""

    def at_the_end(self) -> bool:
        """Whether only the end of text is left; now and then it goes on all the same."""
        return not self.pair.automaton.can_continue(self.pair.state) and self.rng.randrange(4) > 0

    def byte(self) -> int:
        """Mostly one that is allowed; also one that stands elsewhere in such texts, or any."""
        rng, pair = self.rng, self.pair
        if self._planned:
            byte, self._planned = self._planned[0], self._planned[1:]
            return byte
        chance = rng.random()
        if chance > 0.94:
            return rng.randrange(256)
        if chance > 0.85 and pair.text:
            return rng.choice(pair.text)
        if chance < 0.03:
            # Some way towards the end: a walk hardly leaves free text without.
            self._planned = pair.automaton.shortest_completion(pair.state)[: rng.randint(1, 16)]
        byte = self.allowed_byte(pair.state)
        return rng.randrange(256) if byte is None else byte

    def allowed_byte(self, state: int) -> int | None:
        """One that leads on, to a next state that few bytes lead to or of any class of characters.

        Without the first a walk hardly comes upon the trigger of a tag.
        """
        rng, automaton = self.rng, self.pair.automaton
        allowed = automaton.allowed_bytes(state)
        if not allowed:
            return None
        if rng.random() < 0.6:
            ways = self._ways(self.pair.tokens.generation, state)
            return rng.choice(min(rng.choice(ways), rng.choice(ways), key=len))
        return rng.choice(rng.choice(self._classes(allowed)))

    def _by_target(self, _generation: int, state: int) -> list[list[int]]:
        """The allowed bytes by the state they lead to; what begins a long character is one way."""
        ways: dict[int | None, list[int]] = {}
        for byte in self.pair.automaton.allowed_bytes(state):
            target = self.pair.automaton.step(state, byte) if byte < 0x80 else None
            ways.setdefault(target, []).append(byte)
        return list(ways.values())


def _by_class(allowed: bytes) -> list[bytes]:
    rest = bytes(byte for byte in allowed if not any(byte in each for each in _CLASSES))
    classes = [bytes(byte for byte in allowed if byte in each) for each in _CLASSES]
    classes += [bytes(byte for byte in rest if byte < 0x80)]
    classes += [bytes(byte for byte in rest if byte >= 0x80)]
    return [each for each in classes if each]


class _TokenChooser:
    """Which token to try next."""

    def __init__(self, bytes_: _Chooser, vocabulary: Vocabulary) -> None:
        self._bytes, self._rng, self._pair = bytes_, bytes_.rng, bytes_.pair
        self._vocabulary = vocabulary
        self._text_tokens = list(vocabulary.id_of.values())
        # Also those that the states don't know to be named.
        self._special_tokens = [
            token
            for token, data in enumerate(vocabulary.token_bytes)
            if self._pair.tokens.special_tokens and not data and token not in vocabulary.end_tokens
        ]
        self._by_first: dict[int, list[int]] = {}
        for data, token in vocabulary.id_of.items():
            self._by_first.setdefault(data[0], []).append(token)

    def token(self) -> int:
        """One towards the end, along an allowed string, that begins as such a string, or any.

        Now and then one without text, if the grammar names such.
        """
        if self._special_tokens and self._rng.random() < 0.15:
            return self._rng.choice(self._special_tokens)
        chance = self._rng.random()
        token = None
        if chance < 0.12:
            ending = self._pair.tokens.shortest_ending(self._pair.state)
            token = ending[0] if ending else None
        elif chance < 0.6:
            word = self._allowed_word()
            if word and chance < 0.2:
                word = word[:-1] + bytes([self._rng.randrange(256)])
            token = self._longest_token(word)
        elif chance < 0.8:
            first = self._bytes.allowed_byte(self._pair.state)
            token = self._rng.choice(self._by_first[first]) if first in self._by_first else None
        return self._rng.choice(self._text_tokens) if token is None else token

    def _allowed_word(self) -> bytes:
        automaton, state = self._pair.automaton, self._pair.state
        word = bytearray()
        for _ in range(self._rng.randint(1, 8)):
            byte = self._bytes.allowed_byte(state)
            if byte is None:
                break
            word.append(byte)
            state = automaton.step(state, byte)
        return bytes(word)

    def _longest_token(self, word: bytes) -> int | None:
        for end in range(len(word), 0, -1):
            token = self._vocabulary.id_of.get(word[:end])
            if token is not None:
                return token
        return None
