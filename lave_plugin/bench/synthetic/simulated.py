"""A dLLM without weights: marginals around a reference answer, right as often as asked for.

What it imitates:

- At each masked position it expects a token: the reference is aligned with what stands to the left
  of a run of masks, and with what stands to the right of it if both fit the run's length. Text that
  has left the reference is picked up again behind the longest end of it that the reference has.
- The expected token is first with probability c, and c is the probability that the model gives to
  its first token: a calibrated model. c is drawn for each position so that its mean is the
  accuracy, which is what is asked for where no neighbour is committed and rises by up to nine
  tenths of what is missing to 1 with the neighbours (four on either side) that are.
- A wrong first token is what a dLLM gets wrong: a neighbour's token (two in five), a token that is
  frequent in this kind of text, another tokenisation of the expected bytes, an early end, anything
  in the vocabulary. The expected token is then second or later, or (one in ten) nowhere.
- The rest of the vocabulary shares a tenth of what the first token leaves, by frequency.

It is a function of the text, the canvas and the seed: the same canvas twice gives the same
marginals, and an error stays until its surroundings change.

Its limits: errors are independent between positions but for the alignment, no two answers are
equally good, and it never thinks better of a committed token. It says how a method copes with a
model that is wrong so often in these ways; not how good a real model's answers are.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass

import numpy

from lave_plugin.bench.synthetic.vocabularies import LONGEST_TOKEN, tokenize
from lave_plugin.canvas import MASKED
from lave_plugin.grammar.vocabulary import Vocabulary

REACH = 4
"""Neighbours on either side that make a position surer."""
LEARNT = 0.9
"""The part of the missing accuracy that all of them committed take away."""
LEAST_FIRST = 0.35
"""The first token's probability is at least this, so that it is first."""
TAIL = 0.1
"""The share of what the first token leaves that goes to the rest of the vocabulary."""
ALTERNATIVES = 10
CONTEXT = 64
"""Bytes of text by which the place in the reference is found."""


class TextKind:
    """What is common in one kind of text: where wrong tokens and the tail come from.

    Attributes:
        log_tail: ``[width]`` float32, log-probabilities by frequency; a tenth of it is uniform.
    """

    def __init__(self, vocabulary: Vocabulary, references: list[bytes], width: int) -> None:
        counts = Counter(token for text in references for token in tokenize(vocabulary, text))
        counts[vocabulary.end_token] = len(references)
        self.vocabulary = vocabulary
        self.frequent, self.weights = list(counts), list(counts.values())
        tail = numpy.zeros(width)
        spelling = [token for token in range(len(vocabulary)) if vocabulary.is_text_or_end(token)]
        tail[spelling] = 0.1 / len(spelling)
        tail[self.frequent] += 0.9 * numpy.array(self.weights) / sum(self.weights)
        self.log_tail = numpy.log(tail + 1e-30).astype(numpy.float32)


class Reference:
    """A text to be aligned with: byte offsets, and the tokens from each on."""

    def __init__(self, text: bytes, vocabulary: Vocabulary) -> None:
        self.text = text
        self._vocabulary = vocabulary
        self._at: dict[int, int] = {}

    def align(self, context: bytes, estimate: int) -> int:
        """The offset behind the longest end of ``context`` that the text has, the nearest to
        ``estimate`` of equally long ones."""
        context = context[-CONTEXT:]
        length = bisect_right(
            range(1, len(context) + 1), 0, key=lambda n: context[-n:] not in self.text
        )
        if length == 0:
            return min(max(estimate, 0), len(self.text))
        return min(self._ends(context[-length:]), key=lambda end: abs(end - estimate))

    def align_right(self, context: bytes, estimate: int) -> int:
        """The same for what stands behind a gap: the offset where ``context`` begins."""
        context = context[:CONTEXT]
        length = bisect_right(
            range(1, len(context) + 1), 0, key=lambda n: context[:n] not in self.text
        )
        if length == 0:
            return min(max(estimate, 0), len(self.text))
        ends = self._ends(context[:length])
        return min((end - length for end in ends), key=lambda begin: abs(begin - estimate))

    def _ends(self, piece: bytes) -> list[int]:
        ends, at = [], self.text.find(piece)
        while at >= 0:
            ends.append(at + len(piece))
            at = self.text.find(piece, at + 1)
        return ends

    def tokens(self, begin: int, count: int) -> list[tuple[int, int]]:
        """``count`` tokens from offset ``begin``, each with its offset; end tokens behind."""
        placed = []
        while len(placed) < count and begin < len(self.text):
            if begin not in self._at:
                piece = self.text[begin : begin + LONGEST_TOKEN]
                self._at[begin] = tokenize(self._vocabulary, piece)[0]
            placed.append((self._at[begin], begin))
            begin += len(self._vocabulary.token_bytes[self._at[begin]])
        end = (self._vocabulary.end_token, len(self.text))
        return placed + [end] * (count - len(placed))

    def between(self, begin: int, end: int, count: int) -> list[tuple[int, int]] | None:
        """The text from ``begin`` to ``end`` in ``count`` tokens, some of them split."""
        if not begin <= end <= begin + LONGEST_TOKEN * count:
            return None
        tokens = self._with_offsets(self.text[begin:end], begin)
        while len(tokens) < count:
            longest_first = sorted(
                range(len(tokens)),
                key=lambda index: -len(self._vocabulary.token_bytes[tokens[index][0]]),
            )
            for index in longest_first:
                if parts := self._in_two(*tokens[index]):
                    tokens[index : index + 1] = parts
                    break
            else:
                return None
        return tokens if len(tokens) == count else None

    def _in_two(self, token: int, offset: int) -> list[tuple[int, int]]:
        data, id_of = self._vocabulary.token_bytes[token], self._vocabulary.id_of
        for cut in range(1, len(data)):
            if data[:cut] in id_of and data[cut:] in id_of:
                return [(id_of[data[:cut]], offset), (id_of[data[cut:]], offset + cut)]
        return []

    def before(self, end: int, count: int) -> list[tuple[int, int]]:
        """The last ``count`` tokens before offset ``end``, fewer where the text begins."""
        begin = max(0, end - 8 * count)
        return self._with_offsets(self.text[begin:end], begin)[-count:]

    def _with_offsets(self, data: bytes, offset: int) -> list[tuple[int, int]]:
        placed = []
        for token in tokenize(self._vocabulary, data):
            placed.append((token, offset))
            offset += len(self._vocabulary.token_bytes[token])
        return placed


@dataclass(frozen=True)
class Marginal:
    """The leading tokens of one position, most probable first."""

    tokens: list[int]
    probabilities: list[float]


class SimulatedModel:
    """The model as it answers one request.

    Args:
        kind: of the reference's text.
        reference: the answer it has in mind.
        accuracy: how often its first token is the expected one where nothing is known yet.
        seed: of its errors.
    """

    def __init__(self, kind: TextKind, reference: bytes, accuracy: float, seed: str) -> None:
        self._kind = kind
        self._vocabulary = kind.vocabulary
        self._reference = Reference(reference, kind.vocabulary)
        self._accuracy = accuracy
        self._seed = seed
        self._fates: dict[tuple, tuple[float, float, list[int], int]] = {}

    def predict(self, before: bytes, start: int, block: list[int]) -> dict[int, Marginal]:
        """Marginals of the masked positions.

        Args:
            before: the text of all blocks before this one.
            start: the number of tokens in it.
            block: token ids, ``MASKED`` where nothing is committed.
        """
        expected = self._expected(before, block)
        return {
            position: self._marginal(
                start + position,
                self._accuracy_at(position, block),
                token,
                offset,
                [expected[near][0] for near in (position - 1, position + 1) if near in expected],
            )
            for position, (token, offset) in expected.items()
        }

    def write_logits(self, marginals: dict[int, Marginal], out: numpy.ndarray) -> None:
        """Log-probabilities into ``out``, ``[block, width]`` float32; masked rows only."""
        for position, marginal in marginals.items():
            left = max(1.0 - sum(marginal.probabilities), 1e-9)
            numpy.add(self._kind.log_tail, numpy.float32(numpy.log(left)), out=out[position])
            out[position, marginal.tokens] = numpy.log(marginal.probabilities)

    def _expected(self, before: bytes, block: list[int]) -> dict[int, tuple[int, int]]:
        """For each masked position the token that belongs there, and its offset."""
        expected: dict[int, tuple[int, int]] = {}
        context, offset = before, len(before)
        position = 0
        while position < len(block):
            stop = position
            if block[position] != MASKED:
                while stop < len(block) and block[stop] != MASKED:
                    stop += 1
                run, ends = self._bytes(block[position:stop])
                context, offset = context + run, offset + len(run)
                if ends:
                    offset = len(self._reference.text)
                    context = self._reference.text
            else:
                while stop < len(block) and block[stop] == MASKED:
                    stop += 1
                here = self._reference.align(context, offset)
                filling = self._filling(here, block, position, stop)
                expected.update(zip(range(position, stop), filling, strict=True))
                token, offset = filling[-1]
                offset += len(self._vocabulary.token_bytes[token])
                context = b""
            position = stop
        return expected

    def _bytes(self, tokens: list[int]) -> tuple[bytes, bool]:
        """What tokens spell up to an end token, and whether one of them is."""
        spelled = []
        for token in tokens:
            if token in self._vocabulary.end_tokens:
                return b"".join(spelled), True
            spelled.append(self._vocabulary.token_bytes[token])
        return b"".join(spelled), False

    def _filling(self, here: int, block: list[int], begin: int, end: int) -> list[tuple[int, int]]:
        """What a model would write into a run of masks, from offset ``here`` of the reference."""
        gap = end - begin
        onward = self._reference.tokens(here, gap)
        behind = end
        while behind < len(block) and block[behind] != MASKED:
            behind += 1
        right, ends = self._bytes(block[end:behind])
        if not right and not ends:
            return onward
        token, estimate = onward[-1]
        estimate += len(self._vocabulary.token_bytes[token])
        there = len(self._reference.text)
        if right:
            there = self._reference.align_right(right, estimate)
        fitting = self._reference.between(here, there, gap)
        if fitting is not None:
            return fitting
        # The gap has a wrong length: each half goes by what is nearer.
        backward = self._reference.before(there, gap // 2)
        return onward[: gap - len(backward)] + backward

    def _accuracy_at(self, position: int, block: list[int]) -> float:
        known = total = 0.0
        for distance in range(1, REACH + 1):
            left, right = position - distance, position + distance
            total += 2 / distance
            known += (left < 0 or block[left] != MASKED) / distance
            known += (right < len(block) and block[right] != MASKED) / distance
        return 1 - (1 - self._accuracy) * (1 - LEARNT * known / total)

    def _marginal(
        self, place: int, accuracy: float, expected: int, offset: int, neighbours: list[int]
    ) -> Marginal:
        key = (place, offset, expected)
        if key not in self._fates:
            self._fates[key] = self._fate(key, neighbours)
        ease, luck, wrong, rank = self._fates[key]
        # Of density (a / (1 - a)) c^(a / (1 - a) - 1), whose mean is a.
        confidence = ease ** ((1 - accuracy) / accuracy)
        if luck < confidence:
            tokens = [expected, *wrong]
        else:
            tokens = [*wrong[:rank], expected, *wrong[rank:]] if rank else wrong
        first = max(confidence, LEAST_FIRST)
        shares = [0.5**index for index in range(len(tokens) - 1)]
        scale = (1 - TAIL) * (1 - first) / sum(shares)
        return Marginal(tokens, [first, *(scale * share for share in shares)])

    def _fate(self, key: tuple, neighbours: list[int]) -> tuple[float, float, list[int], int]:
        """What does not change at a position: two draws, wrong tokens, the right one's rank."""
        rng = random.Random(f"{self._seed} {key}")
        ease, luck = rng.random(), rng.random()
        expected = key[2]
        wrong: list[int] = []
        for _ in range(4 * ALTERNATIVES):
            token = self._wrong_token(rng, expected, neighbours)
            if token != expected and token not in wrong:
                wrong.append(token)
            if len(wrong) == ALTERNATIVES:
                break
        rank = 0 if rng.random() < 0.1 else 1 + min(int(rng.expovariate(0.9)), len(wrong) - 1)
        return ease, luck, wrong, rank

    def _wrong_token(self, rng: random.Random, expected: int, neighbours: list[int]) -> int:
        kind = rng.random()
        if kind < 0.4 and neighbours:
            return rng.choice(neighbours)
        if kind < 0.75:
            return rng.choices(self._kind.frequent, self._kind.weights)[0]
        spelled = self._vocabulary.token_bytes[expected]
        if kind < 0.9 and len(spelled) > 1:
            return tokenize(self._vocabulary, spelled[: rng.randrange(1, len(spelled))])[0]
        if kind < 0.93:
            return self._vocabulary.end_token
        return rng.randrange(len(self._vocabulary) - 2)
