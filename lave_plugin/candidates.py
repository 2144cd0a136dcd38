"""The most probable tokens of each masked position, cut on the device, copied once.

Everything here is a function of logits alone, so all tensor-parallel ranks agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

from lave_plugin.grammar.vocabulary import Vocabulary


@dataclass(frozen=True)
class CandidateArrays:
    """Candidates of many rows.

    Attributes:
        tokens: int32 ``[rows, block, K + 1]``, ids from the first candidate on, then most
            probable first; -1 behind the last, and everywhere at positions without a mask.
        probabilities: float32, the model's, same shape.
    """

    tokens: np.ndarray
    probabilities: np.ndarray

    def of_row(self, row: int, logits: torch.Tensor, cutter: CandidateCutter) -> Candidates:
        """The same of one row; ``logits`` are the row's, ``[block, vocabulary]``."""
        tokens, probabilities = {}, {}
        for position, listed in enumerate(self.tokens[row].tolist()):
            count = listed.index(-1) if -1 in listed else len(listed)
            if count:
                tokens[position] = listed[:count]
                probabilities[position] = self.probabilities[row, position, :count].tolist()
        return Candidates(tokens, probabilities, logits, cutter)


@dataclass
class Candidates:
    """Candidates of one row, by masked position.

    Attributes:
        tokens: ids, the one to try first in front, the others most probable first.
        probabilities: the model's, same shape.
        logits: ``[block, vocabulary]`` on the device, for the rare position where no
            candidate fits.
    """

    tokens: dict[int, list[int]]
    probabilities: dict[int, list[float]]
    logits: torch.Tensor = field(repr=False)
    cutter: CandidateCutter = field(repr=False)
    _plausible: dict[float, dict[int, list[int]]] = field(
        default_factory=dict, init=False, repr=False
    )

    def first(self) -> dict[int, list[int]]:
        """The first candidate of each position alone."""
        return self.plausible(float("inf"))

    def plausible(self, least: float) -> dict[int, list[int]]:
        """The candidates of at least this probability, and the first of each position."""
        if least not in self._plausible:  # one step asks for it at every lookahead
            self._plausible[least] = {
                position: [
                    token
                    for rank, token in enumerate(ranked)
                    if rank == 0 or self.probabilities[position][rank] >= least
                ]
                for position, ranked in self.tokens.items()
            }
        return self._plausible[least]

    def by_probability(self, position: int, limit: int) -> Iterator[int]:
        """All candidates of ``position``, then the others down to rank ``limit``."""
        yield from self.tokens[position]
        yield from self.cutter.by_probability(self.logits[position], limit)


class CandidateCutter:
    """Cuts candidates from logits for one vocabulary.

    Args:
        vocabulary: of the model; ids without text that end nothing are never candidates.
        mask_id: never a candidate either.
        top_k: how many candidates a position has, besides the one to try first.
    """

    def __init__(self, vocabulary: Vocabulary, mask_id: int, top_k: int) -> None:
        self.top_k = top_k
        self._allowed = [
            token != mask_id and vocabulary.is_text_or_end(token)
            for token in range(len(vocabulary))
        ]
        self._by_width: dict[int, np.ndarray] = {}
        self._never_on: dict[tuple[torch.device, int], torch.Tensor] = {}

    def allowed(self, width: int) -> np.ndarray:
        """``[width]`` bool: ids that some grammar may allow, with the padding beyond them."""
        if width not in self._by_width:
            allowed = np.zeros(width, dtype=bool)
            known = self._allowed[:width]
            allowed[: len(known)] = known
            self._by_width[width] = allowed
        return self._by_width[width]

    def _never(self, logits: torch.Tensor) -> torch.Tensor:
        """``[vocabulary]`` bool on the device of ``logits``: what is no candidate."""
        device, width = logits.device, logits.shape[-1]
        if (device, width) not in self._never_on:
            self._never_on[device, width] = torch.from_numpy(~self.allowed(width)).to(device)
        return self._never_on[device, width]

    def best(self, logits: torch.Tensor, at: np.ndarray) -> np.ndarray:
        """The most probable candidate of some positions.

        Args:
            logits: ``[rows, block, vocabulary]``.
            at: int64 ``[2, positions]``, rows and columns.
        """
        rows, columns = torch.from_numpy(at).to(logits.device)
        picked = logits[rows, columns].masked_fill_(self._never(logits), float("-inf"))
        return picked.argmax(-1).cpu().numpy()

    def by_probability(self, logits: torch.Tensor, limit: int) -> Iterator[int]:
        """Ids of one position (``[vocabulary]``), most probable first, at most ``limit``."""
        allowed = logits.masked_fill(self._never(logits), float("-inf"))
        ranked = allowed.topk(min(limit, logits.shape[-1]))
        for token, logit in zip(ranked.indices.tolist(), ranked.values.tolist(), strict=True):
            if logit == float("-inf"):
                return
            yield token

    def cut(self, logits: torch.Tensor, masked: np.ndarray, first: np.ndarray) -> CandidateArrays:
        """Candidates of several rows.

        Args:
            logits: ``[rows, block, vocabulary]``, any float dtype.
            masked: bool ``[rows, block]``.
            first: int ``[rows, block]``, the candidate to try first at each masked position:
                the most probable, or what the engine's algorithm proposes there.
        """
        top_k = min(self.top_k, logits.shape[-1])
        tokens = np.full((*masked.shape, top_k + 1), -1, dtype=np.int32)
        probabilities = np.zeros(tokens.shape, dtype=np.float32)
        rows, columns = masked.nonzero()
        at = torch.from_numpy(np.stack((rows, columns, first[rows, columns]))).to(logits.device)
        picked = logits[at[0], at[1]].float().masked_fill_(self._never(logits), float("-inf"))
        log_probabilities = torch.log_softmax(picked, dim=-1)
        top = log_probabilities.topk(top_k, dim=-1)
        # What comes first may be ranked anywhere.
        values = torch.cat((log_probabilities.gather(1, at[2, :, None]), top.values), 1).exp()
        ids = np.concatenate((first[rows, columns, None], top.indices.cpu().numpy()), 1)
        values = values.cpu().numpy()
        dropped = (ids == ids[:, :1]) | (values == 0)
        dropped[:, 0] = False
        order = dropped.argsort(1, kind="stable")
        ids[dropped] = -1
        tokens[rows, columns] = np.take_along_axis(ids, order, 1)
        probabilities[rows, columns] = np.take_along_axis(values, order, 1)
        return CandidateArrays(tokens, probabilities)
