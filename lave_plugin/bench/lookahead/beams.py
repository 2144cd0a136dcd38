"""The lookahead as LAVE's authors have written it, on llguidance's matchers.

Their code (zhangyitonggg/CD4dLLM, ``models/llada/generate_our.py``) does not draw N fillings, as
the paper says, but follows a few beams through the block: at a mask every beam goes on with its 5
most probable tokens, and of what comes of it the 3 with the highest sum of probabilities and 3
others stay; at a committed token those stay whose whole filling ``validate_tokens`` accepts. Where
an end token is committed, what is left up to it is filled greedily under the next-token mask.
Written anew from that description, on the candidates that the other lookaheads have.
"""

from __future__ import annotations

import heapq
import importlib.util
import random
import re
import time

from lave_plugin.bench.lookahead.rows import WEIGHTS, Row
from lave_plugin.bench.synthetic.subjects import Subject
from lave_plugin.bench.synthetic.vocabularies import tokenize
from lave_plugin.canvas import MASKED
from lave_plugin.grammar.vocabulary import Vocabulary

TOKENS_A_MASK, BEST, OTHERS = 5, 3, 3
LIMITS = {"max_items_in_row": 20_000, "step_max_items": 600_000}
"""Theirs, too."""

NOT_INSTALLED = "llguidance is not installed (pip install llguidance)"


def has_llguidance() -> bool:
    return importlib.util.find_spec("llguidance") is not None


class BeamLookahead:
    """For rows of one grammar.

    Raises:
        ValueError: llguidance does not take the grammar.
    """

    def __init__(self, subject: Subject, tokenizer, vocabulary: Vocabulary) -> None:
        from llguidance import LLMatcher, LLParserLimits

        grammar = _grammar_of(subject)
        self._matcher = LLMatcher(tokenizer, grammar, limits=LLParserLimits(**LIMITS))
        if self._matcher.is_error():
            raise ValueError(f"llguidance: {self._matcher.get_error()}")
        self._ends = vocabulary.end_tokens

    def search(self, row: Row, rng: random.Random) -> tuple[float, bool]:
        """Milliseconds, and whether a filling was found.

        Raises:
            ValueError: What stands before the block is not of the grammar.
        """
        self._matcher.reset()
        if self._matcher.try_consume_tokens(row.prefix) != len(row.prefix):
            raise ValueError("the text is not of the grammar")
        begin = time.perf_counter()
        found = self._search(row, rng)
        return 1e3 * (time.perf_counter() - begin), found

    def _search(self, row: Row, rng: random.Random) -> bool:
        ends = [place for place, token in enumerate(row.canvas) if token in self._ends]
        texts = [
            place
            for place, token in enumerate(row.canvas)
            if token != MASKED and token not in self._ends
        ]
        behind_text = texts[-1] + 1 if texts else 0
        beams: list[tuple[list[int], float]] = [([], 0.0)]
        for position, token in enumerate(row.canvas[:behind_text]):
            if token == MASKED:
                ranked = list(zip(row.candidates[position], WEIGHTS, strict=True))
                grown = [
                    ([*filling, candidate], score + weight)
                    for filling, score in beams
                    for candidate, weight in ranked[:TOKENS_A_MASK]
                ]
                beams = heapq.nlargest(BEST, grown, key=lambda beam: beam[1])
                rest = [beam for beam in grown if beam not in beams]
                beams += rng.sample(rest, min(OTHERS, len(rest)))
            else:
                grown = [([*filling, token], score) for filling, score in beams]
                beams = [beam for beam in grown if self._accepts(beam[0])]
                if not beams:
                    return False
        if not ends:
            return True
        filling = max(beams, key=lambda beam: beam[1])[0]
        return self._ends_by(row, filling, ends[0])

    def _accepts(self, filling: list[int]) -> bool:
        return self._matcher.validate_tokens(filling) == len(filling)

    def _ends_by(self, row: Row, filling: list[int], end: int) -> bool:
        """Whether the text behind a filling can end at the committed end token, or before."""
        consumed = self._matcher.try_consume_tokens(filling)
        try:
            for position in range(consumed, end):
                mask = self._matcher.compute_logit_bias()
                if any(mask[token] for token in self._ends):
                    return True
                likely = (token for token in row.candidates[position] if mask[token])
                any_other = (token for token, allowed in enumerate(mask) if allowed)
                token = next(likely, None)
                token = next(any_other, None) if token is None else token
                if token is None or not self._matcher.try_consume_tokens([token]):
                    return False
                consumed += 1
            return self._matcher.is_accepting()
        finally:
            self._matcher.rollback(consumed)


def tokenizer_of(vocabulary: Vocabulary):
    """llguidance's tokenizer of a vocabulary with one end token."""
    from llguidance import LLTokenizer, TokenizerWrapper

    class Greedy:
        eos_token_id = vocabulary.end_token
        bos_token_id = None
        special_token_ids = (vocabulary.end_token,)
        tokens = tuple(vocabulary.token_bytes)

        def __call__(self, data: bytes) -> list[int]:
            return tokenize(vocabulary, data)

    return LLTokenizer(TokenizerWrapper(Greedy()))


def _grammar_of(subject: Subject) -> str:
    from llguidance import LLMatcher, grammar_from

    if subject.kind != "ebnf":
        return grammar_from(subject.kind, subject.source)
    from llguidance.gbnf_to_lark import any_to_lark

    if not subject.blanks:
        return LLMatcher.grammar_from_lark(any_to_lark(subject.source))
    # llguidance has a lexer, to which a name with the blanks behind it is longer than a keyword:
    # so the blanks are ignored, as is usual in Lark.
    blanks = "|".join(subject.blanks)
    rules = [rule for rule in subject.source.splitlines() if not re.match(rf"({blanks}) ::=", rule)]
    dense = re.sub(rf"(?<=\()({blanks}) | ({blanks})\b", "", "\n".join(rules))
    dense = re.sub(r'"(\w+) "', r'"\1"', dense)
    ignored = "BLANKS: /[ \\n\\t]+/\n%ignore BLANKS\n"
    return LLMatcher.grammar_from_lark(f"{any_to_lark(dense)}\n{ignored}")
