"""LAVE, lookahead-then-verify (arXiv 2602.00612), with a witness that is carried along.

A proposal of the model is committed only if a *witness* can be shown: a filling of the
remaining masks, of exactly those lengths, that the grammar accepts and that can still be
finished in the tokens the request has left. The last witness found is kept. It makes the
next check free where the model agrees with it, and it is the way out when the model's
proposals keep failing, so every step commits something and every answer ends valid.

Not every witness speaks for a proposal. Parallel decoding goes wrong by committing tokens
that do not belong together (a doubled word, a value in the slot of a comma), and a grammar
can nearly always be satisfied around such a pair by something that the model would never
write there. So a lookahead first looks for a *plausible* witness, of tokens that the model
gives a fair probability; a proposal without one waits for a later step that knows more.
Only where nothing can be committed so does any witness do. (The paper's sampled fillings
have this by nature, being drawn from the marginals. On the tiny dLLM that ships it raises
exact match from 67 to 82 % at threshold 0.7, in no more steps.)

This is ``lookahead: guided``; the algorithm as it was published is in ``strategies.sampled``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lave_plugin.candidates import Candidates
from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.lattice import Verdict, find_witness
from lave_plugin.options import LaveOptions
from lave_plugin.strategies.confidence import posterior_marginals
from lave_plugin.strategies.ends import fill_behind_end
from lave_plugin.strategies.tally import Tally

RANKS_IN_RECOVERY = 4096
"""How far down the model's ranking recovery looks before it takes the shortest way to finish."""


@dataclass(frozen=True)
class Proposals:
    """What the engine's own algorithm would do to the row in this step.

    Attributes:
        commits: masked position -> the token it would commit there.
        edits: committed position -> the token it would write over it (T2T).
        threshold: confidence above which it commits more than one token a step.
    """

    commits: Mapping[int, int] = field(default_factory=dict)
    edits: Mapping[int, int] = field(default_factory=dict)
    threshold: float = 1.0

    def without_edits_of(self, positions: Collection[int]) -> Proposals:
        """The same without edits of these positions."""
        edits = {p: token for p, token in self.edits.items() if p not in positions}
        return replace(self, edits=edits)


class Lave:
    """The strategy's memory of one request.

    Attributes:
        witness: a token for every masked position before the last committed one.
        forced: positions of the block whose token the grammar left no choice about; edits
            of them are ignored.
        counts: ``accepted``, ``refused``, ``recovered`` and ``forced`` tokens,
            ``lookaheads`` made and how many of them ended ``undecided``.
    """

    def __init__(self, tokens: TokenAutomaton, options: LaveOptions, seed: int = 0) -> None:
        self.tokens = tokens
        self.options = options
        self.witness: dict[int, int] = {}
        self.forced: set[int] = set()
        self.counts = Tally()

    def start_block(self) -> None:
        """Forget what was about the block before."""
        self.witness = {}
        self.forced = set()

    def step(
        self, state: int, canvas: Canvas, candidates: Candidates, proposals: Proposals
    ) -> None:
        """One denoising step, in place; commits at least one token where one is masked.

        Args:
            state: the grammar's state before ``canvas.first``.
            canvas: the block; it is alive before and after.
        """
        if self.forced:
            proposals = proposals.without_edits_of(self.forced)
        owed = bool(canvas.masked())
        all_accepted = self._write_all(state, canvas, candidates, proposals)
        # The engine's algorithm may propose edits alone, if its choice at a mask is MASK.
        committed = not owed or (all_accepted and bool(proposals.commits))
        if not committed:
            committed = self._commit_one_by_one(state, canvas, candidates, proposals)
        if not all_accepted:
            self._edit_one_by_one(state, canvas, candidates, proposals)
        if not committed:
            committed = self._commit_one_by_one(
                state, canvas, candidates, proposals, plausible=False
            )
        if not committed:
            self._recover(state, canvas, candidates)
        if self.options.forced_tokens:
            self._commit_forced(state, canvas, candidates)
        fill_behind_end(self.tokens.vocabulary, canvas)

    def _lookahead(
        self,
        state: int,
        canvas: Canvas,
        choices: Mapping[int, Sequence[int]],
        *,
        fillers: bool = False,
    ) -> bool:
        """Whether ``canvas`` has a witness among the choices; if so it is kept."""
        found = find_witness(
            self.tokens, state, canvas, choices, self.options.search_budget, fillers=fillers
        )
        self.counts["lookaheads"] += 1
        if found.verdict is Verdict.UNDECIDED:
            self.counts["undecided"] += 1
        if found.witness is None:
            return False
        self.witness = found.witness
        return True

    def _agrees(self, commits: Mapping[int, int]) -> bool:
        return all(self.witness.get(position) == token for position, token in commits.items())

    def _write_all(
        self, state: int, canvas: Canvas, candidates: Candidates, proposals: Proposals
    ) -> bool:
        """All that the engine's algorithm would write, in one lookahead.

        The usual case, and the only one in which two edits can pass that are valid
        together but not alone. The masks that are left are assumed to become the model's
        first choices (and whatever else is plausible, where that may be more).
        """
        writes = {**proposals.commits, **proposals.edits}
        if not writes:
            return True
        before = list(canvas.tokens)
        for position, token in writes.items():
            canvas.tokens[position] = token
        if (
            (not proposals.edits and self._agrees(proposals.commits))
            or self._lookahead(state, canvas, candidates.first())
            or (
                self.options.plausibility < 0.5
                and self._lookahead(state, canvas, candidates.plausible(self.options.plausibility))
            )
        ):
            for position, token in writes.items():
                self.counts.token("accepted", position, token)
            return True
        canvas.tokens[:] = before
        return False

    def _commit_one_by_one(
        self,
        state: int,
        canvas: Canvas,
        candidates: Candidates,
        proposals: Proposals,
        *,
        plausible: bool = True,
    ) -> bool:
        """Candidates in order of confidence, refused ones replaced by the next.

        What the engine's algorithm did not propose is only committed beside a first token
        if it is surer than the engine's threshold. The confidence of a candidate is the
        smaller one of its probability and its posterior (``strategies.confidence``), or,
        with ``confidence: model``, its probability among those not refused at its position
        in this step, proposals first.
        """
        choices = (
            candidates.plausible(self.options.plausibility) if plausible else candidates.tokens
        )
        constrained = self.options.confidence == "constrained"
        refused: dict[int, int] = dict.fromkeys(candidates.tokens, 0)
        spent: dict[int, float] = dict.fromkeys(candidates.tokens, 0.0)
        refusals_in_a_row, committed = 0, False
        posterior = self._posterior(state, canvas, candidates) if constrained else None
        while refusals_in_a_row < self.options.attempts:
            best = None
            for position, ranked in candidates.tokens.items():
                rank = refused[position]
                if canvas.tokens[position] != MASKED or rank >= len(ranked):
                    continue
                proposed = rank == 0 and position in proposals.commits
                confidence = candidates.probabilities[position][rank]
                if not constrained:
                    confidence /= max(1.0 - spent[position], 1e-6)
                elif posterior is not None:
                    confidence = min(confidence, posterior[position][rank])
                key = (proposed and not constrained, confidence)
                if best is None or key > best[0]:
                    best = (key, proposed, position, ranked[rank])
            if best is None:
                break
            (_, confidence), proposed, position, token = best
            if committed and not proposed and confidence <= proposals.threshold:
                break
            canvas.tokens[position] = token
            if self._agrees({position: token}) or self._lookahead(
                state, canvas, choices, fillers=not plausible
            ):
                self.counts.token("accepted", position, token)
                committed, refusals_in_a_row = True, 0
                posterior = self._posterior(state, canvas, candidates) if constrained else None
            else:
                canvas.tokens[position] = MASKED
                self.counts.token("refused", position, token)
                spent[position] += candidates.probabilities[position][refused[position]]
                refused[position] += 1
                refusals_in_a_row += 1
        return committed

    def _posterior(
        self, state: int, canvas: Canvas, candidates: Candidates
    ) -> dict[int, list[float]] | None:
        return posterior_marginals(
            self.tokens, state, canvas, candidates.tokens, candidates.probabilities
        )

    def _edit_one_by_one(
        self, state: int, canvas: Canvas, candidates: Candidates, proposals: Proposals
    ) -> None:
        choices = candidates.plausible(self.options.plausibility)
        for position, token in proposals.edits.items():
            before = canvas.tokens[position]
            canvas.tokens[position] = token
            if self._lookahead(state, canvas, choices):
                self.counts.token("accepted", position, token)
            else:
                canvas.tokens[position] = before
                self.counts.token("refused", position, token)

    def _recover(self, state: int, canvas: Canvas, candidates: Candidates) -> None:
        """Commit the leftmost mask: from the witness, or behind it the best token that fits."""
        position = canvas.masked()[0]
        if position in self.witness:
            canvas.tokens[position] = self.witness[position]
        else:
            for token in canvas.tokens[canvas.first : position]:
                state = self.tokens.advance(state, token)
            canvas.tokens[position] = best_fitting(
                self.tokens,
                state,
                canvas.left_after(position),
                candidates.by_rank(position, RANKS_IN_RECOVERY),
            )
        self.counts.token("recovered", position, canvas.tokens[position])

    def _commit_forced(self, state: int, canvas: Canvas, candidates: Candidates) -> None:
        """Commit what the grammar leaves no choice about, from the first mask on.

        Such tokens need no forward pass. The grammar forces bytes, not tokens: of the
        tokens that spell them, the one that the model thinks most probable is taken.
        """
        here = state
        for position in range(canvas.first, len(canvas.tokens)):
            if canvas.tokens[position] == MASKED:
                token = self._forced_token(here, position, candidates)
                if token is None:
                    return
                canvas.tokens[position] = token
                if not (
                    self._agrees({position: token})
                    or self._lookahead(state, canvas, candidates.first())
                    or self._lookahead(state, canvas, candidates.tokens, fillers=True)
                ):
                    canvas.tokens[position] = MASKED
                    return
                self.forced.add(position)
                self.counts.token("forced", position, token)
            here = self.tokens.advance(here, canvas.tokens[position])

    def _forced_token(self, state: int, position: int, candidates: Candidates) -> int | None:
        """The model's choice of a token where only one way leads on; ``None`` where more do."""
        if self.tokens.only_end(state):
            return self.tokens.vocabulary.end_token
        forced = self.tokens.forced_bytes(state)
        if not forced:
            return None
        for token in candidates.tokens[position]:
            if self.tokens.advance(state, token) != DEAD:
                # A token that goes on behind the forced bytes is a choice after all.
                data = self.tokens.vocabulary.token_bytes[token]
                return token if len(data) <= len(forced) else None
        spelling = self.tokens.vocabulary.spelling(forced)
        return spelling[0] if spelling else None


def best_fitting(tokens: TokenAutomaton, state: int, left: int, by_rank: Iterable[int]) -> int:
    """The first token under the next-token mask of ``state``.

    Args:
        left: tokens that may follow it.
        by_rank: tokens, the model's favourite first; if none of them fits, the shortest way
            to finish is begun.
    """
    for token in by_rank:
        following = tokens.advance(state, token)
        if following != DEAD and tokens.finishes_within(following, left):
            return token
    ending = tokens.shortest_ending(state)
    if ending is None:
        raise LookupError(f"the vocabulary cannot spell a way on from state {state}")
    return ending[0] if ending else tokens.vocabulary.end_token
