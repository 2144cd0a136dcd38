"""One text before both judges: xgrammar's matcher and the states of this project."""

from collections import Counter
from collections.abc import Sequence

import numpy
import xgrammar

from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.implementation import states_over
from lave_plugin.grammar.token_automaton import ENDED
from lave_plugin.grammar.utf8 import unfinished_character
from lave_plugin.grammar.vocabulary import Vocabulary

BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), b""], [256])
"""A vocabulary of single bytes and an end token."""


def compiler_for(vocabulary: Vocabulary, special: Sequence[int] = ()) -> xgrammar.GrammarCompiler:
    """xgrammar's compiler over the same token ids.

    It refuses a token without text even where a grammar names it. So those of `special` get bytes,
    such as no text has.
    """
    data = list(vocabulary.token_bytes)
    for token in special:
        data[token] = b"\xff%d" % token
    info = xgrammar.TokenizerInfo(
        data, vocab_size=len(vocabulary), stop_token_ids=sorted(vocabulary.end_tokens)
    )
    return xgrammar.GrammarCompiler(info, max_threads=2, cache_enabled=False)


class Pair:
    """A grammar in both, at the same place of the same text.

    Attributes:
        problems: Every disagreement, as a sentence.
        counts: What was compared; "malformed UTF-8" are the verdicts in which xgrammar takes what
            is no text, which is the one difference that is meant.
    """

    def __init__(self, compiled: xgrammar.CompiledGrammar, vocabulary: Vocabulary) -> None:
        self.tokens = states_over(automaton_of(compiled), vocabulary)
        self.automaton = self.tokens.automaton
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        self._vocabulary = vocabulary
        self._matcher = xgrammar.GrammarMatcher(compiled)
        words = (len(vocabulary) + 31) // 32
        self._mask = numpy.empty((1, words), dtype=numpy.int32)
        self.restart()

    def restart(self) -> None:
        """Back to the start of the text."""
        self._matcher.reset()
        self.tokens.make_room()
        self.state = self.tokens.start
        self.text = b""

    def step(self, token: int) -> bool:
        """Compare the verdicts on a token, and go on behind it where both take it.

        False after a disagreement: the two are no longer at the same place.
        """
        self.counts["steps"] += 1
        theirs = self._matcher.accept_token(token)
        target = self.tokens.advance(self.state, token)
        data = self._vocabulary.token_bytes[token]
        return self._compare_step(theirs, target, data, repr(data) if data else f"token {token}")

    def step_byte(self, byte: int) -> bool:
        """The same by the states' own step; the vocabulary must be BYTES."""
        self.counts["steps"] += 1
        theirs = self._matcher.accept_token(byte)
        data = bytes([byte])
        return self._compare_step(theirs, self.automaton.step(self.state, byte), data, repr(data))

    def _compare_step(self, theirs: bool, target: int, data: bytes, name: str) -> bool:
        ours = target != DEAD
        if theirs and ours:
            self.state = target
            self.text += data
            # No character goes on behind a token without text, nor, in both judges, one that was
            # broken off: such a token has been read as a whole.
            if not data or unfinished_character(self.text) is None:
                self.text = b""
            return self.compare_end()
        if theirs == ours:
            self.counts["refused by both"] += 1
            return True
        if theirs and unfinished_character(self.text + data) is None:
            self.counts["malformed UTF-8"] += 1
            self._matcher.rollback(1)
            return True
        return self._report(f"{name} behind {self.text!r}", theirs)

    def compare_end(self) -> bool:
        """Compare whether the text may end."""
        theirs = self._matcher.is_completed()
        if theirs == self.tokens.is_complete(self.state):
            return True
        if theirs and unfinished_character(self.text):
            self.counts["malformed UTF-8"] += 1
            return True
        return self._report(f"the end of the text behind {self.text!r}", theirs)

    def compare_end_token(self, token: int) -> bool:
        """Compare the verdicts on an end token, and stay."""
        self.counts["steps"] += 1
        theirs = self._matcher_says(token)
        if theirs == (self.tokens.advance(self.state, token) == ENDED):
            return True
        if theirs and unfinished_character(self.text):
            self.counts["malformed UTF-8"] += 1
            return True
        return self._report(f"end token {token} behind {self.text!r}", theirs)

    def confirm_completion(self) -> bool:
        """Let xgrammar read the shortest completion, and stay; the vocabulary must be BYTES."""
        self.counts["completions"] += 1
        completion = self.automaton.shortest_completion(self.state)
        read = 0
        while read < len(completion) and self._matcher.accept_token(completion[read]):
            read += 1
        confirmed = read == len(completion) and self._matcher.is_completed()
        if read:
            self._matcher.rollback(read)
        if len(completion) != self.automaton.shortest_length(self.state):
            confirmed = False
        if confirmed and unfinished_character(self.text + completion) == b"":
            return True
        return self._report(f"the completion {completion!r} behind {self.text!r}", False)

    def confirm_ending(self) -> bool:
        """Let xgrammar read the tokens of the shortest ending, and stay."""
        self.counts["completions"] += 1
        ending = self.tokens.shortest_ending(self.state)
        read = 0
        while read < len(ending) and self._matcher.accept_token(ending[read]):
            read += 1
        confirmed = read == len(ending) and self._matcher.is_completed()
        if read:
            self._matcher.rollback(read)
        return confirmed or self._report(f"the ending {ending} behind {self.text!r}", False)

    def compare_mask(self) -> bool:
        """Compare the allowed-token masks.

        Where xgrammar's mask contradicts its own matcher, as it does for some nullable rules, the
        matcher is right.
        """
        own_mistakes = 0
        self._mask.fill(-1)
        self._matcher.fill_next_token_bitmask(self._mask)
        ours = numpy.frombuffer(self.tokens.allowed_tokens(self.state), dtype=numpy.uint8)
        differing = numpy.unpackbits(
            self._mask.view(numpy.uint8)[0] ^ ours, count=len(self._vocabulary), bitorder="little"
        )
        tail = unfinished_character(self.text)
        for token in numpy.flatnonzero(differing).tolist():
            theirs = bool(self._mask[0, token >> 5] >> (token & 31) & 1)
            data = self._vocabulary.token_bytes[token]
            is_text = unfinished_character(tail + data) is not None if data else not tail
            if theirs and not is_text:
                self.counts["malformed UTF-8"] += 1
            elif self._matcher_says(token) != theirs:
                own_mistakes += 1
            else:
                return self._report(f"mask: token {token} {data!r} behind {self.text!r}", theirs)
        self.counts["masks against xgrammar's own matcher" if own_mistakes else "equal masks"] += 1
        return True

    def _matcher_says(self, token: int) -> bool:
        taken = self._matcher.accept_token(token)
        if taken:
            self._matcher.rollback(1)
        return taken

    def _report(self, what: str, theirs: bool) -> bool:
        self.problems.append(f"{what}: xgrammar {'takes' if theirs else 'refuses'} it")
        return False
