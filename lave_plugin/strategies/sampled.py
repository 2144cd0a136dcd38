"""LAVE as it was published: Algorithm 1 of arXiv 2602.00612, ``lookahead: sampled``.

So that its tables can be reproduced. A step commits proposals one at a time:

1. *Propose*: the masked position that the model is surest about, with its most probable
   token that was not refused there in this step (``_propose``).
2. *Cache*: a proposal that the last verified filling contains is accepted as it is.
3. *Lookahead*: N distinct fillings of the masks before the last committed token are drawn
   from the marginals of this forward pass (``draw_fillings``).
4. *Verify*: the proposal is accepted if one of these complete prefixes can be extended to a
   sentence (``extends``), and that filling becomes the cache; else the token is refused, and
   the probabilities at its position are shared out among the others.
5. *Cache-enhanced recovery* (section 3.3): after tau refusals in a row the incomplete prefix
   becomes the cached complete one, and where that fills no mask, one token is drawn at the
   first mask from the model's distribution under the next-token mask (``_recover``).

Options: N is ``samples`` (10), tau is ``attempts`` (5).

Where the engine or this plugin sets it another task:

- The paper commits a fixed number of tokens a step. An engine that decodes by a threshold
  commits what is surer than that and at least one token, so this is what a step here owes,
  whatever recovery fills in beside it. The paper makes up the rest of its number after a
  recovery from one more forward pass; here the next step does.
- *The net behind it*: a filling passes only if the text can still end within the tokens
  left, end token included, and recovery looks down the ranking for a token of which that
  holds, then takes the shortest way to finish. So every answer ends valid and complete,
  where in the paper some run into the length limit.
- Marginals are those of the ``top_k`` candidates. The authors' program (CD4dLLM) takes 5,
  and instead of N draws carries N partial fillings from mask to mask, the N/2 most probable
  and N/2 random ones, dropping dead ones at every committed token. The paper's words are
  kept to here: with 20 % of the tokens masked its lookahead finds a filling in 97 to 98 % of
  the cases, and on the dLLM that ships either reading finds one in all of them.
- An end token is a token like any other. The authors' program fills what is masked before a
  proposed one from left to right under the next-token mask.
- Edits of committed tokens (T2T) are not in the paper. Each is verified by itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from lave_plugin.candidates import Candidates
from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.options import LaveOptions
from lave_plugin.strategies.ends import fill_behind_end
from lave_plugin.strategies.lave import Proposals
from lave_plugin.strategies.sequential import commit_leftmost
from lave_plugin.strategies.tally import Tally


class Sampled:
    """The strategy's memory of one request.

    Attributes:
        cache: the last verified filling: a token for every masked position before the last
            committed one, and more.
        counts: tokens ``accepted`` and ``refused``, how many of the accepted were in the
            cache (``cached``), tokens ``recovered``, ``lookaheads`` made and ``fillings``
            drawn for them.
    """

    def __init__(self, tokens: TokenAutomaton, options: LaveOptions, seed: int = 0) -> None:
        self.tokens = tokens
        self.options = options
        self.cache: dict[int, int] = {}
        self.counts = Tally()
        self._random = random.Random(seed)  # the request's seed, so that all ranks draw the same

    def start_block(self) -> None:
        """Forget what was about the block before."""
        self.cache = {}

    def step(
        self, state: int, canvas: Canvas, candidates: Candidates, proposals: Proposals
    ) -> None:
        """One denoising step, in place; commits at least one token where one is masked."""
        if canvas.masked():
            self._commit(state, canvas, _Marginals(candidates), proposals)
        marginals = _Marginals(candidates)
        for position, token in proposals.edits.items():
            self._verify(state, canvas, marginals, position, token)
        fill_behind_end(self.tokens.vocabulary, canvas)

    def _commit(
        self, state: int, canvas: Canvas, marginals: _Marginals, proposals: Proposals
    ) -> None:
        committed, refused_in_a_row = False, 0
        while refused_in_a_row < self.options.attempts:
            proposal = _propose(canvas, marginals, proposals)
            if proposal is None:
                break
            position, token, wanted = proposal
            if committed and not wanted:
                return
            if self.cache.get(position) == token:
                canvas.tokens[position] = token
                self.counts.token("accepted", position, token)
                self.counts["cached"] += 1
                committed, refused_in_a_row = True, 0
            elif self._verify(state, canvas, marginals, position, token):
                committed, refused_in_a_row = True, 0
            else:
                marginals.refuse(position)
                refused_in_a_row += 1
        if refused_in_a_row or not committed:
            self._recover(state, canvas, marginals.candidates)

    def _verify(
        self, state: int, canvas: Canvas, marginals: _Marginals, position: int, token: int
    ) -> bool:
        """Write ``token`` if one of N fillings around it can be extended; cache that filling."""
        before = canvas.tokens[position]
        canvas.tokens[position] = token
        masks = [p for p in canvas.masked() if p < canvas.last_committed()]
        fillings = draw_fillings([marginals.at(mask) for mask in masks], self._random)
        self.counts["lookaheads"] += 1
        for _, chosen in zip(range(self.options.samples), fillings, strict=False):
            self.counts["fillings"] += 1
            filling = dict(zip(masks, chosen, strict=True))
            if extends(self.tokens, state, canvas, filling):
                self.cache = filling
                self.counts.token("accepted", position, token)
                return True
        canvas.tokens[position] = before
        self.counts.token("refused", position, token)
        return False

    def _recover(self, state: int, canvas: Canvas, candidates: Candidates) -> None:
        masks = canvas.masked()
        cached = [position for position in masks if position < canvas.last_committed()]
        for position in cached:
            canvas.tokens[position] = self.cache[position]
        if masks and not cached:
            commit_leftmost(self.tokens, state, canvas, masks[0], candidates)
        for position in cached or masks[:1]:
            self.counts.token("recovered", position, canvas.tokens[position])


class _Marginals:
    """Each position's candidates in a step, without those refused there.

    They are refused in order, so what is left of a position is its ranking from some rank on.
    """

    def __init__(self, candidates: Candidates) -> None:
        self.candidates = candidates
        self._refused = dict.fromkeys(candidates.tokens, 0)

    def refuse(self, position: int) -> None:
        self._refused[position] += 1

    def at(self, position: int) -> tuple[Sequence[int], Sequence[float]]:
        """Tokens, the one to propose in front, with the model's probabilities."""
        rank = self._refused[position]
        return (
            self.candidates.tokens[position][rank:],
            self.candidates.probabilities[position][rank:],
        )

    def confidence(self, position: int) -> float:
        """The probability of the token in front, among all that were not refused there."""
        refused = self.candidates.probabilities[position][: self._refused[position]]
        return self.at(position)[1][0] / max(1.0 - sum(refused), 1e-6)

    def untouched(self, position: int) -> bool:
        """Whether nothing was refused there."""
        return not self._refused[position]


def _propose(
    canvas: Canvas, marginals: _Marginals, proposals: Proposals
) -> tuple[int, int, bool] | None:
    """The surest position with its token, what the engine's algorithm proposes going first.

    The third is whether the algorithm would commit it in this step, refusals considered.
    """
    best = None
    for position in canvas.masked():
        tokens, _ = marginals.at(position)
        if not tokens:
            continue
        proposed = position in proposals.commits and marginals.untouched(position)
        key = proposed, marginals.confidence(position)
        if best is None or key > best[0]:
            best = key, position, tokens[0]
    if best is None:
        return None
    (proposed, confidence), position, token = best
    return position, token, proposed or confidence > proposals.threshold


def extends(tokens: TokenAutomaton, state: int, canvas: Canvas, filling: Mapping[int, int]) -> bool:
    """Whether the filled canvas begins a sentence that can end in the tokens left.

    Args:
        state: the grammar's state before ``canvas.first``.
        filling: a token for every mask before the last committed token.
    """
    for position in range(canvas.first, canvas.last_committed() + 1):
        token = canvas.tokens[position]
        state = tokens.advance(state, filling[position] if token == MASKED else token)
        if state == DEAD or not tokens.finishes_within(state, canvas.left_after(position)):
            return False
    return True


class _Beginning:
    """What fillings begin with, and the share of their probability that was not drawn yet."""

    def __init__(self) -> None:
        self.left = 1.0
        self.following: dict[int, _Beginning] = {}

    def weights(self, tokens: Sequence[int], probabilities: Sequence[float]) -> list[float]:
        """Of each next token: its probability without what was drawn behind it."""
        return [
            probability * (self.following[token].left if token in self.following else 1.0)
            for token, probability in zip(tokens, probabilities, strict=True)
        ]


def draw_fillings(
    marginals: Sequence[tuple[Sequence[int], Sequence[float]]], rng: random.Random
) -> Iterator[tuple[int, ...]]:
    """Distinct fillings, one after another, until there are no more.

    Each is drawn from the product of the marginals, given that it is none of those before
    (sampling without replacement; the bookkeeping is that of Shi, Bieber and Sutton, arXiv
    2002.09067). Drawing again after a repetition would come to the same, but the marginals of
    a model that is sure of itself repeat themselves nearly always.

    Args:
        marginals: for each mask its tokens, none twice, and their probabilities, which need
            not add up to 1. A token of probability 0 is never drawn.
    """
    if any(sum(probabilities) <= 0 for _, probabilities in marginals):
        return
    root = _Beginning()
    while root.left > 0:
        way = [root]
        chosen = []
        for tokens, probabilities in marginals:
            (token,) = rng.choices(tokens, way[-1].weights(tokens, probabilities))
            chosen.append(token)
            way.append(way[-1].following.setdefault(token, _Beginning()))
        way.pop().left = 0.0
        for beginning, (tokens, probabilities) in zip(
            reversed(way), reversed(marginals), strict=True
        ):
            left = sum(beginning.weights(tokens, probabilities))
            beginning.left = left / sum(probabilities)
        yield tuple(chosen)
