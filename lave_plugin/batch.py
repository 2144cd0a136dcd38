"""One denoising step for all constrained rows of a batch.

It knows tensors and sessions, not the engine: the engine's adapter says which rows are
constrained and what its own algorithm would have done to them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lave_plugin.candidates import CandidateCutter, Candidates
from lave_plugin.canvas import MASKED
from lave_plugin.grammar import room
from lave_plugin.session import Session
from lave_plugin.strategies.lave import Proposals

logger = logging.getLogger(__name__)


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
    """What a step did to a row.

    Attributes:
        tokens: the block's ids after the step, ``mask_id`` where still masked.
        finished: no mask was left before the step and nothing was changed by it, so
            the forward pass behind the step has already seen the final tokens.
        error: why the constraint failed on this row, if it did. Its masks are then
            filled with end tokens, so that the engine can let go of it.
    """

    tokens: list[int]
    finished: bool
    error: Exception | None = None


def denoise(
    rows: list[Row],
    before: torch.Tensor,
    after: torch.Tensor,
    logits: torch.Tensor,
    *,
    cutter: CandidateCutter,
    mask_id: int,
    threshold: float,
) -> list[Outcome]:
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

    Returns:
        One outcome for each row, in order. An error in one row leaves the others alone.
    """
    room.of_process.make(row.session.tokens for row in rows)
    indices = torch.tensor([row.index for row in rows], device=before.device)
    # One copy to the host for both.
    old, new = torch.stack((before[indices], after[indices])).tolist()
    blocks = [
        [
            MASKED if token == mask_id and position >= row.first else token
            for position, token in enumerate(tokens)
        ]
        for row, tokens in zip(rows, old, strict=True)
    ]
    masked = [[p for p, token in enumerate(block) if token == MASKED] for block in blocks]
    try:
        cut = cutter.cut(logits[indices], masked)
    except Exception as error:
        logger.exception("cutting candidates failed; the constrained requests end with an error")
        return [_failed(*row, error) for row in zip(rows, blocks, strict=True)]

    outcomes = []
    for row, block, candidates, proposed in zip(rows, blocks, cut, new, strict=True):
        try:
            outcomes.append(_step(row, block, candidates, proposed, mask_id, threshold))
        except Exception as error:
            logger.exception("the constraint failed on one row; its request ends with an error")
            outcomes.append(_failed(row, block, error))
    return outcomes


def _step(
    row: Row,
    block: list[int],
    candidates: Candidates,
    proposed: list[int],
    mask_id: int,
    threshold: float,
) -> Outcome:
    row.session.follow(row.answer)
    canvas = row.session.canvas(list(block), row.first)
    commits, edits = {}, {}
    for position in range(row.first, len(block)):
        token = proposed[position]
        if block[position] == MASKED:
            if token != mask_id:
                commits[position] = candidates.put_first(position, token)
        elif token != block[position]:
            edits[position] = token
    row.session.step(canvas, candidates, Proposals(commits, edits, threshold))
    return Outcome(
        [mask_id if token == MASKED else token for token in canvas.tokens],
        finished=MASKED not in block and canvas.tokens == block,
    )


def _failed(row: Row, block: list[int], error: Exception) -> Outcome:
    end = row.session.tokens.vocabulary.end_token
    filled = [end if token == MASKED else token for token in block]
    return Outcome(filled, finished=MASKED not in block, error=error)
