"""One denoising step for all constrained rows of a batch.

It knows tensors and sessions, not the engine: the engine's adapter says which rows are
constrained and what its own algorithm would have done to them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from lave_plugin.candidates import (
    CandidateArrays,
    CandidateCutter,
    Candidates,
    in_host_memory,
    most_probable,
)
from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar import room
from lave_plugin.grammar.implementation import native_module
from lave_plugin.sampling import Draw
from lave_plugin.session import Session
from lave_plugin.strategies.lave import RANKS_IN_RECOVERY, Lave, Proposals

logger = logging.getLogger(__name__)

NOTHING_DRAWN: Mapping[int, Draw] = {}


@dataclass(frozen=True)
class Row:
    """A constrained row of the batch.

    Attributes:
        index: its place in the batch.
        session: its request's session.
        answer: the answer's tokens in all committed blocks, those before this one.
        first: the position in the block where the answer goes on.
    """

    index: int
    session: Session
    answer: Sequence[int]
    first: int


@dataclass(frozen=True)
class Outcome:
    """What a step did to the rows.

    Attributes:
        tokens: int64 ``[rows, block]``, the ids after the step, the mask id where still
            masked.
        finished: for each row whether no mask was left before the step and nothing was
            changed by it, so that the forward pass behind the step has already seen the
            final tokens.
        errors: why the constraint failed on a row, by place in ``rows``. Its masks are
            then filled with end tokens, so that the engine can let go of it.
    """

    tokens: np.ndarray
    finished: list[bool]
    errors: dict[int, Exception]


def denoise(
    rows: list[Row],
    before: torch.Tensor,
    after: torch.Tensor,
    logits: torch.Tensor,
    *,
    cutter: CandidateCutter,
    mask_id: int,
    threshold: float,
    drawn: Mapping[int, Draw] = NOTHING_DRAWN,
) -> Outcome:
    """Decide for each constrained row what this step commits.

    Args:
        rows: the constrained rows, at least one.
        before: ``[batch, block]`` ids as they went into the forward pass.
        after: ``[batch, block]`` ids as the engine's own algorithm left them; the
            difference is what it proposes.
        logits: ``[batch, block, vocabulary]`` of that forward pass.
        cutter: for the model's vocabulary.
        mask_id: the id that stands for a mask behind ``Row.first``.
        threshold: confidence above which the algorithm commits more than one token.
        drawn: what was drawn for rows with a temperature, by index in the batch.

    Returns:
        What became of the rows, in their order. An error in one leaves the others alone.
    """
    step = _Step(rows, before, after, logits, cutter, mask_id, threshold, drawn)
    try:
        step.make()
    except Exception as error:
        logger.exception("a denoising step failed; its constrained requests end with an error")
        step.errors.update({row: error for row in range(len(rows)) if row not in step.errors})
    return step.outcome()


def _to_host(*tensors: torch.Tensor) -> Sequence[np.ndarray]:
    """The same numbers as NumPy arrays, by one copy where they are on another device."""
    if tensors[0].device.type == "cpu":
        return [tensor.numpy() for tensor in tensors]
    return torch.stack(tensors).cpu().numpy()


class _Step:
    """The rows as arrays: ``[rows, block]``, int32, ``MASKED`` where no token stands.

    They are small, so that NumPy's part of a step goes by the number of calls: all rows of a batch
    are taken as they lie, some are copied out.

    ``first`` is where the grammar's part of each row begins, which is behind ``Row.first``
    where a request thinks before; ``owed`` are all masks of the answer, ``masked`` those of the
    grammar's part.
    """

    def __init__(
        self,
        rows: list[Row],
        before: torch.Tensor,
        after: torch.Tensor,
        logits: torch.Tensor,
        cutter: CandidateCutter,
        mask_id: int,
        threshold: float,
        drawn: Mapping[int, Draw],
    ) -> None:
        self.rows = rows
        self.cutter = cutter
        self.mask_id = mask_id
        self.threshold = threshold
        self.errors: dict[int, Exception] = {}
        self.special = [row.session.tokens.special_tokens for row in rows]
        # The logits stay where they are: copying a row's would take as long as reading them.
        self.logits = logits
        self.index = np.array([row.index for row in rows], dtype=np.int64)
        self.first = np.array([row.first for row in rows], dtype=np.int64)
        self.rankings: dict[int, torch.Tensor] = {}
        thinks = any(row.session.is_thinking for row in rows)
        self.is_refined = (
            not (drawn or thinks or any(self.special))
            and in_host_memory(logits)
            and native_module() is not None
        )
        if self.is_refined:
            self._lay_out_natively(before, after)
        else:
            self._lay_out(before, after, drawn)

    def _lay_out_natively(self, before: torch.Tensor, after: torch.Tensor) -> None:
        """``_lay_out`` and ``_refine_proposals`` in one pass, for what most steps are."""
        self.before, self.canvases, self.proposed, self.best, self.owed = native_module().lay_out(
            before.long().numpy(),
            after.long().numpy(),
            self.logits.numpy(),
            self.index,
            self.first,
            self.cutter.barred(self.logits.shape[-1]),
            self.mask_id,
        )

    def _lay_out(
        self, before: torch.Tensor, after: torch.Tensor, drawn: Mapping[int, Draw]
    ) -> None:
        """The rows as they are, and what the engine's algorithm and the draws would have there."""
        index = self.index.tolist()
        best = most_probable(self.logits, index)
        for place, row in enumerate(self.rows):
            if row.index in drawn:
                best[row.index] = drawn[row.index].tokens
                self.rankings[place] = drawn[row.index].ranking
        ids = np.array(_to_host(before, after, best), dtype=np.int32)
        whole_batch = index == list(range(ids.shape[1]))
        self.before, after, self.best = ids if whole_batch else ids[:, self.index]
        in_answer = self._behind(self.first)
        self.owed = in_answer & (self.before == self.mask_id)
        self.canvases = np.where(self.owed, np.int32(MASKED), self.before)
        self.proposed = np.where(in_answer & (after != self.before), after, np.int32(MASKED))

    def _behind(self, first: np.ndarray) -> np.ndarray:
        """``[rows, block]`` bool: from ``first`` on."""
        return np.arange(self.before.shape[1]) >= first[:, None]

    def make(self) -> None:
        room.of_process.make(row.session.tokens for row in self.rows)
        for place, row in enumerate(self.rows):
            try:
                row.session.follow(row.answer)
                row.session.steps += 1
                if row.session.is_thinking:
                    self._think(place)
            except Exception as error:
                self._fail(place, error)
        # From here on it is the grammar's part of each row.
        self.tokens_left = np.array([row.session.tokens_left for row in self.rows], dtype=np.int64)
        self.masked = self.owed
        if not self.is_refined:
            self.tokens_left -= self.first - [row.first for row in self.rows]
            self.masked = self._behind(self.first) & (self.canvases == MASKED)
            self._refine_proposals()
        going_on = [place for place in range(len(self.rows)) if place not in self.errors]
        alone = [p for p in going_on if not self.rows[p].session.batched]
        if alone:
            self._step_alone(np.array(alone))
        together = [p for p in going_on if p not in alone]
        if together:
            self._step_together(np.array(together))

    def _think(self, place: int) -> None:
        """The part of the row before the grammar begins; ``first`` is moved behind it."""
        row, session = self.rows[place], self.rows[place].session
        needed = session.tokens.tokens_to_finish(session.tokens.start)

        def best(position: int, barred: Collection[int]) -> int:
            logits = self._ranking(place)[position].clone()
            # A stop token of the request may be any number.
            logits[[token for token in barred if token < len(logits)]] = float("-inf")
            return int(logits.argmax())

        self.first[place] = session.thinking.step(
            self.canvases[place],
            self.proposed[place],
            row.first,
            row.answer,
            session.thinking.room(session.length, session.tokens_left, needed),
            best,
        )

    def _refine_proposals(self) -> None:
        """Make a candidate of each masked position's best token and each proposed commit.

        An algorithm that does not take the most probable token at a mask (it may
        penalise) keeps its choice as the first candidate. A choice that no grammar can
        allow, its own mask for one, gives way to the most probable that some can.
        """
        commits = self.masked & (self.proposed != MASKED)
        self.best = np.where(commits, self.proposed, self.best)
        never = self.masked & self.cutter.barred(self.logits.shape[-1])[self.best]
        for place, special in enumerate(self.special):
            if special:
                never[place] &= ~np.isin(self.best[place], sorted(special))
        if never.any():
            at = np.stack(never.nonzero())
            self.best[never] = self.cutter.best(self.logits, at, self.special, index=self.index)
            self.proposed = np.where(commits, self.best, self.proposed)

    def _at(self, places: np.ndarray) -> np.ndarray | slice:
        """An index of these rows, of which none is copied where they are all."""
        return slice(None) if len(places) == len(self.rows) else places

    def _cut(self, places: np.ndarray) -> CandidateArrays:
        rankings = {
            row: self.rankings[place]
            for row, place in enumerate(places.tolist())
            if place in self.rankings
        }
        special = [self.special[place] for place in places]
        at = self._at(places)
        masked, best, index = self.masked[at], self.best[at], self.index[at]
        return self.cutter.cut(self.logits, masked, best, rankings, special, index=index)

    def _ranking(self, place: int) -> torch.Tensor:
        """``[block, vocabulary]``, what the candidates of a row are ranked by."""
        ranking = self.rankings.get(place)
        return self.logits[self.index[place]] if ranking is None else ranking

    def _step_together(self, places: np.ndarray) -> None:
        from lave_plugin.strategies import batched

        def cut(rows: np.ndarray) -> CandidateArrays:
            return self._cut(places[rows])

        def by_rank(row: int, position: int) -> Iterator[int]:
            place = int(places[row])
            ranking = self._ranking(place)[position]
            return self.cutter.by_rank(ranking, RANKS_IN_RECOVERY, self.special[place])

        sessions, at = [self.rows[place].session for place in places], self._at(places)
        self.canvases[at], errors = batched.step(
            [session.strategy for session in sessions],
            np.array([session.state for session in sessions], dtype=np.int64),
            self.canvases[at],
            self.first[at],
            self.tokens_left[at],
            self.proposed[at],
            self.best[at],
            self.threshold,
            cut,
            by_rank,
        )
        for row, error in errors.items():
            self._fail(int(places[row]), error)

    def _step_alone(self, places: np.ndarray) -> None:
        arrays = self._cut(places)
        for row, place in enumerate(places.tolist()):
            try:
                candidates = arrays.of_row(
                    row,
                    self._ranking(place),
                    self.cutter,
                    self.special[place],
                    self.logits[self.index[place]],
                )
                self._step_one(place, candidates)
            except Exception as error:
                self._fail(place, error)

    def _step_one(self, place: int, candidates: Candidates) -> None:
        canvas = Canvas(
            self.canvases[place].tolist(), int(self.first[place]), int(self.tokens_left[place])
        )
        commits, edits = {}, {}
        for position in np.flatnonzero(self.proposed[place] != MASKED).tolist():
            writes = commits if self.masked[place, position] else edits
            writes[position] = int(self.proposed[place, position])
        self.rows[place].session.step(canvas, candidates, Proposals(commits, edits, self.threshold))
        self.canvases[place] = canvas.tokens

    def _fail(self, place: int, error: Exception) -> None:
        logger.error(
            "the constraint failed on one row; its request ends with an error", exc_info=error
        )
        self.errors[place] = error

    def _write_down(self, place: int) -> None:
        row, strategy = self.rows[place], self.rows[place].session.strategy
        row.session.trace.end_step(
            len(row.answer),
            row.first,
            int(self.first[place]),
            np.where(self.owed[place], MASKED, self.before[place]).tolist(),
            self.canvases[place].tolist(),
            strategy.witness if isinstance(strategy, Lave) else {},
        )

    def outcome(self) -> Outcome:
        for place, row in enumerate(self.rows):
            if row.session.trace is not None:
                self._write_down(place)
        for place in self.errors:
            end = self.rows[place].session.tokens.vocabulary.end_token
            self.canvases[place] = np.where(self.owed[place], end, self.before[place])
        tokens = np.where(self.canvases == MASKED, self.mask_id, self.canvases).astype(np.int64)
        unchanged = (self.canvases == self.before).all(1)
        finished = (unchanged & ~self.owed.any(1)).tolist()
        return Outcome(tokens, finished, self.errors)
