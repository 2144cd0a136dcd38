"""The grammar intersected with what is fixed, with gaps of any length (IG-CD, arXiv 2508.10111).

A proposal is accepted if some sentence of the grammar has the fixed pieces in their order,
with any text, or none, in place of each run of masks and behind the block. A run of masks is so
many tokens and no other number, so this accepts canvases that no filling can save, and **an
answer may end invalid**: that is the method's own nature. ``gaps: exact`` asks instead for a
filling of exactly those lengths, everything else alike, and shows the difference.

That is the paper's Con.-. With ``completion: true`` it is Con.: an answer that would end
unfinished is completed. The paper completes the whole output; here the blocks before the last
one are gone, so of the last block is kept as much as can still be completed within the budget,
and the shortest completion takes the place of the rest (``counts["completed"]``). An answer that
was past saving before stays invalid.

What differs from the paper: it builds the intersection as a context-free grammar and tests
that for emptiness. Here the states of the parser are searched, from the one before the
block, through a gap by any byte; the fewest bytes first. Behind a gap there may be infinitely
many states (nesting), so the search gives up after ``search_budget`` of them, and what is not
refuted by then counts as accepted (``counts["undecided"]``): only refutations are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from lave_plugin.candidates import Candidates
from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.token_automaton import ENDED, TokenAutomaton
from lave_plugin.lattice import Verdict, find_witness
from lave_plugin.options import LaveOptions
from lave_plugin.strategies.lave import RANKS_IN_RECOVERY, Proposals
from lave_plugin.strategies.none import unverified
from lave_plugin.strategies.tally import Tally


def intersects(tokens: TokenAutomaton, state: int, canvas: Canvas, budget: int) -> Verdict:
    """Whether the fixed pieces of ``canvas``, with gaps of any length, go on to a sentence.

    Args:
        state: the grammar's state before ``canvas.first``.
        budget: states to leave by the bytes of a gap before giving up as ``UNDECIDED``.
    """
    if state == DEAD:
        return Verdict.REFUTED
    pieces: list[int] = []  # a run of masks is one
    for token in canvas.tokens[canvas.first :]:
        if token != MASKED or pieces[-1:] != [MASKED]:
            pieces.append(token)
    # (bytes in gaps, -pieces read, state): of equally short ways the one that has read most.
    ways = [(0, 0, state)]
    seen = {(0, state)}
    while ways:
        length, read, state = heappop(ways)
        following: list[tuple[int, int, int]] = []
        if -read == len(pieces):
            return Verdict.ALIVE  # every state that there is goes on to a sentence
        piece = pieces[-read]
        if piece != MASKED:
            following.append((length, read - 1, tokens.advance(state, piece)))
        else:
            following.append((length, read - 1, state))
            if -read < len(pieces) - 1:
                if budget == 0:
                    return Verdict.UNDECIDED
                budget -= 1
                following += [(length + 1, read, behind) for behind in _a_byte_on(tokens, state)]
        for way in following:
            if way[2] != DEAD and way[1:] not in seen:
                seen.add(way[1:])
                heappush(ways, way)
    return Verdict.REFUTED


def _a_byte_on(tokens: TokenAutomaton, state: int) -> set[int]:
    """States that a byte leads to, a token that is read as a whole, or the end of text."""
    automaton = tokens.automaton
    behind = {tokens.advance(state, token) for token in tokens.fillers(state)}
    # A vocabulary need not have every byte as a token. Between the tokens of a grammar that
    # counts them, or names some, there is no such thing as a byte.
    if state >= 0 and not automaton.reads_tokens:
        behind |= {automaton.step(state, byte) for byte in automaton.allowed_bytes(state)}
    return behind


def complete(tokens: TokenAutomaton, state: int, canvas: Canvas) -> bool:
    """Finish a full canvas within ``canvas.tokens_left``, in place, if it is not finished.

    The longest beginning that can be finished is kept. Returns whether anything was changed:
    not where the text has ended by itself, and not where nothing can be finished.
    """
    kept = None
    for position in range(canvas.first, len(canvas.tokens) + 1):
        left = canvas.left_after(position - 1)
        if state != DEAD and tokens.finishes_within(state, left):
            kept = position, state
        if state in (DEAD, ENDED) or left == 0 or position == len(canvas.tokens):
            break
        state = tokens.advance(state, canvas.tokens[position])
    if kept is None or state == ENDED:
        return False
    position, state = kept
    ending = tokens.shortest_ending(state)
    room = len(canvas.tokens) - position
    canvas.tokens[position:] = (ending + [tokens.vocabulary.end_token] * room)[:room]
    return True


class Intersection:
    """The strategy of one request; it has no memory.

    Attributes:
        counts: ``accepted`` and ``refused`` tokens, how many checks ended ``undecided``, and
            the ``unverified`` tokens, committed because nothing was accepted any more; and
            whether the answer was ``completed``.
    """

    def __init__(self, tokens: TokenAutomaton, options: LaveOptions, seed: int = 0) -> None:
        self.tokens = tokens
        self.options = options
        self.counts = Tally()

    def start_block(self) -> None:
        """Nothing is kept from block to block."""

    def step(
        self, state: int, canvas: Canvas, candidates: Candidates, proposals: Proposals
    ) -> None:
        """One denoising step, in place; commits at least one token where one is masked.

        The engine's proposals, most probable first; if all of them are refused, the most
        probable other candidate that is accepted. Where the canvas is past saving, which
        this method does not notice in time, the engine's proposals are committed unverified.
        Edits of committed tokens are not taken.
        """
        if not canvas.masked():
            return
        self._commit(state, canvas, candidates, proposals)
        last_block = canvas.tokens_left <= len(canvas.tokens) - canvas.first
        if self.options.completion and last_block and not canvas.masked():
            self.counts["completed"] += complete(self.tokens, state, canvas)

    def _commit(
        self, state: int, canvas: Canvas, candidates: Candidates, proposals: Proposals
    ) -> None:
        proposed = sorted(
            proposals.commits, key=lambda position: -candidates.probabilities[position][0]
        )
        # A fixed piece is one of the texts of a gap: what has no sentence gets none by it.
        if self._check(state, canvas, candidates) is not Verdict.REFUTED and (
            sum(
                self._accepts(state, canvas, candidates, position, proposals.commits[position])
                for position in proposed
            )
            or any(
                self._accepts(state, canvas, candidates, position, token)
                for position, token in self._others(state, canvas, candidates, proposals)
            )
        ):
            return
        for position, token in unverified(candidates, proposals).items():
            canvas.tokens[position] = token
            self.counts.token("unverified", position, token)

    def _accepts(
        self, state: int, canvas: Canvas, candidates: Candidates, position: int, token: int
    ) -> bool:
        """Commit a token unless the check refutes it."""
        canvas.tokens[position] = token
        verdict = self._check(state, canvas, candidates)
        accepted = verdict is Verdict.ALIVE or (
            verdict is Verdict.UNDECIDED and self.options.gaps == "any"
        )
        self.counts["undecided"] += verdict is Verdict.UNDECIDED
        self.counts.token("accepted" if accepted else "refused", position, token)
        if not accepted:
            canvas.tokens[position] = MASKED
        return accepted

    def _check(self, state: int, canvas: Canvas, candidates: Candidates) -> Verdict:
        budget = self.options.search_budget
        if state == DEAD or self.options.gaps == "any":
            return intersects(self.tokens, state, canvas, budget)
        return find_witness(self.tokens, state, canvas, candidates.tokens, budget).verdict

    def _others(
        self, state: int, canvas: Canvas, candidates: Candidates, proposals: Proposals
    ) -> Iterator[tuple[int, int]]:
        """Candidates that were not proposed, then what fits at the leftmost mask."""
        ranked = sorted(
            (-probability, position, token)
            for position, tokens in candidates.tokens.items()
            for token, probability in zip(tokens, candidates.probabilities[position], strict=True)
            if proposals.commits.get(position) != token
        )
        yield from ((position, token) for _, position, token in ranked)
        leftmost = canvas.masked()[0]
        for token in canvas.tokens[canvas.first : leftmost]:
            state = self.tokens.advance(state, token)
        if state == DEAD:
            return
        known = set(candidates.tokens[leftmost])
        for token in candidates.by_rank(leftmost, RANKS_IN_RECOVERY):
            if token not in known and self.tokens.advance(state, token) != DEAD:
                yield leftmost, token
