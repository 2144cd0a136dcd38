"""The most probable tokens of each masked position, cut on the device, copied once.

Everything here is a function of logits alone, so all tensor-parallel ranks agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from lave_plugin.grammar.implementation import native_module
from lave_plugin.grammar.vocabulary import Vocabulary

_RANKS_AT_FIRST = 64

NONE: Mapping[int, torch.Tensor] = {}


@dataclass(frozen=True)
class CandidateArrays:
    """Candidates of many rows.

    Attributes:
        tokens: int32 ``[rows, block, K + 1]``, in the order to try them: the first candidate,
            then by rank; -1 behind the last, and everywhere at positions without a mask.
        probabilities: float32, the model's, same shape.
    """

    tokens: np.ndarray
    probabilities: np.ndarray

    def of_row(
        self,
        row: int,
        ranking: torch.Tensor,
        cutter: CandidateCutter,
        special: frozenset[int] = frozenset(),
        logits: torch.Tensor | None = None,
    ) -> Candidates:
        """The same of one row, with the row's ``ranking`` and ``logits`` (see ``Candidates``)."""
        tokens, probabilities = {}, {}
        for position, listed in enumerate(self.tokens[row].tolist()):
            count = listed.index(-1) if -1 in listed else len(listed)
            if count:
                tokens[position] = listed[:count]
                probabilities[position] = self.probabilities[row, position, :count].tolist()
        logits = ranking if logits is None else logits
        return Candidates(tokens, probabilities, ranking, cutter, special, logits)


@dataclass
class Candidates:
    """Candidates of one row, by masked position.

    Attributes:
        tokens: ids, the one to try first in front, the others by rank.
        probabilities: the model's, same shape.
        ranking: ``[block, vocabulary]`` on the device, what the ranks go by, for the rare
            position where no candidate fits.
        special: the tokens without text that the row's grammar names.
        logits: ``[block, vocabulary]`` on the device, the model's.
    """

    tokens: dict[int, list[int]]
    probabilities: dict[int, list[float]]
    ranking: torch.Tensor = field(repr=False)
    cutter: CandidateCutter = field(repr=False)
    special: frozenset[int] = frozenset()
    logits: torch.Tensor | None = field(default=None, repr=False)
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

    def log_probabilities(self, positions: Sequence[int]) -> torch.Tensor:
        """Of all tokens at some positions, float32 ``[positions, vocabulary]`` on the device.

        The model's, as those of the candidates; minus infinity for what is no candidate.
        """
        at = torch.tensor(positions, device=self.logits.device)
        return self.cutter.log_probabilities(self.logits[at], self.special)

    def by_rank(self, position: int, limit: int) -> Iterator[int]:
        """All candidates of ``position``, then the others down to rank ``limit``."""
        yield from self.tokens[position]
        yield from self.cutter.by_rank(self.ranking[position], limit, self.special)


def most_probable(logits: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
    """The most probable token at each position of some rows, the first one of equals.

    Args:
        logits: ``[batch, block, vocabulary]``.

    Returns:
        int64 ``[batch, block]`` on the same device; whatever it likes in other rows.
    """
    if not in_host_memory(logits):
        return logits.argmax(-1)
    best, logits = np.zeros(logits.shape[:2], dtype=np.int64), logits.numpy()
    for row in rows:
        logits[row].argmax(-1, out=best[row])
    return torch.from_numpy(best)


def _argmax(logits: torch.Tensor) -> torch.Tensor:
    """``logits.argmax(-1)``, for which NumPy takes a tenth of the time or less on a CPU."""
    if in_host_memory(logits):
        return torch.from_numpy(logits.numpy().argmax(-1))
    return logits.argmax(-1)


def in_host_memory(logits: torch.Tensor) -> bool:
    """Whether NumPy and the native part can read them as they are."""
    return logits.device.type == "cpu" and logits.dtype == torch.float32


class CandidateCutter:
    """Cuts candidates from logits for one vocabulary.

    Where rows are given, ``special`` may be as well: for each row the tokens without text
    that its grammar names; and ``index``, where in the logits each row stands, if they hold
    others besides.

    Args:
        vocabulary: of the model; ids without text that end nothing are no candidates, but
            where a row's grammar names them.
        mask_id: never a candidate either.
        top_k: how many candidates a position has, besides the one to try first.
    """

    def __init__(self, vocabulary: Vocabulary, mask_id: int, top_k: int) -> None:
        self.top_k = top_k
        self._allowed = [
            token != mask_id and vocabulary.is_text_or_end(token)
            for token in range(len(vocabulary))
        ]
        self._barred: dict[int, np.ndarray] = {}
        self._barred_ids_of: dict[int, np.ndarray] = {}
        self._never_on: dict[tuple[torch.device, int], torch.Tensor] = {}

    def barred(self, width: int) -> np.ndarray:
        """``[width]`` bool: ids that no grammar may allow, the padding beyond them included."""
        if width not in self._barred:
            barred = np.ones(width, dtype=bool)
            known = self._allowed[:width]
            barred[: len(known)] = np.logical_not(known)
            self._barred[width] = barred
        return self._barred[width]

    def _barred_ids(self, width: int) -> np.ndarray:
        """The same ids, int32."""
        if width not in self._barred_ids_of:
            self._barred_ids_of[width] = np.flatnonzero(self.barred(width)).astype(np.int32)
        return self._barred_ids_of[width]

    def never(self, logits: torch.Tensor, special: frozenset[int] = frozenset()) -> torch.Tensor:
        """``[vocabulary]`` bool on the device of ``logits``: what is no candidate of a row."""
        device, width = logits.device, logits.shape[-1]
        if (device, width) not in self._never_on:
            self._never_on[device, width] = torch.from_numpy(self.barred(width)).to(device)
        never = self._never_on[device, width]
        if special:
            never = never.clone()
            never[sorted(special)] = False
        return never

    def _fill_never(
        self, picked: torch.Tensor, rows: Sequence[int], special: Sequence[frozenset[int]]
    ) -> torch.Tensor:
        """Minus infinity in place for what is no candidate, in ``[positions, vocabulary]``."""
        named = []
        if any(special):
            named = [(at, token) for at, row in enumerate(rows) for token in special[row]]
        if not named:
            return picked.masked_fill_(self.never(picked), float("-inf"))
        at, tokens = torch.tensor(named, device=picked.device).T
        kept = picked[at, tokens]
        picked.masked_fill_(self.never(picked), float("-inf"))
        picked[at, tokens] = kept
        return picked

    def log_probabilities(self, picked: torch.Tensor, special: frozenset[int]) -> torch.Tensor:
        """Of all tokens, ``[positions, vocabulary]`` of one row, which is overwritten."""
        picked = picked.float()
        return self._fill_never(picked, [0] * len(picked), [special]).log_softmax(-1)

    def best(
        self,
        logits: torch.Tensor,
        at: np.ndarray,
        special: Sequence[frozenset[int]] = (),
        *,
        index: np.ndarray | None = None,
    ) -> np.ndarray:
        """The most probable candidate of some positions.

        Args:
            logits: ``[rows, block, vocabulary]``.
            at: int64 ``[2, positions]``, rows and columns.
        """
        rows, columns = at
        in_logits = np.stack((rows if index is None else index[rows], columns))
        picked = logits[tuple(torch.from_numpy(in_logits).to(logits.device))]
        self._fill_never(picked, rows.tolist(), special)
        return _argmax(picked).cpu().numpy()

    def by_rank(
        self, ranking: torch.Tensor, limit: int, special: frozenset[int] = frozenset()
    ) -> Iterator[int]:
        """Ids of one position (``[vocabulary]``), highest first, at most ``limit``."""
        (allowed,) = self._fill_never(ranking[None].clone(), [0], [special])
        limit, seen = min(limit, ranking.shape[-1]), 0
        # Nearly always one of the first will do.
        for count in (min(_RANKS_AT_FIRST, limit), limit):
            ranked = allowed.topk(count)
            ids, values = ranked.indices[seen:].tolist(), ranked.values[seen:].tolist()
            for token, value in zip(ids, values, strict=True):
                if value == float("-inf"):
                    return
                yield token
            seen = count

    def cut(
        self,
        logits: torch.Tensor,
        masked: np.ndarray,
        first: np.ndarray,
        rankings: Mapping[int, torch.Tensor] = NONE,
        special: Sequence[frozenset[int]] = (),
        *,
        index: np.ndarray | None = None,
    ) -> CandidateArrays:
        """Candidates of several rows.

        Args:
            logits: ``[rows, block, vocabulary]``, any float dtype.
            masked: bool ``[rows, block]``.
            first: int ``[rows, block]``, the candidate to try first at each masked position:
                the most probable, or what the engine's algorithm proposes there.
            rankings: ``[block, vocabulary]`` for some rows, what their candidates are ranked
                by instead of their probability; ``-inf`` is no candidate.
        """
        if not rankings and in_host_memory(logits) and (native := native_module()) is not None:
            index = np.arange(len(masked)) if index is None else index
            named = [list(of_row) for of_row in special] or [[]] * len(masked)
            first = first.astype(np.int32, copy=False)
            never = self._barred_ids(logits.shape[-1])
            return CandidateArrays(
                *native.cut_candidates(
                    logits.numpy(), index, masked, first, never, named, self.top_k
                )
            )
        top_k = min(self.top_k, logits.shape[-1])
        tokens = np.full((*masked.shape, top_k + 1), -1, dtype=np.int32)
        probabilities = np.zeros(tokens.shape, dtype=np.float32)
        rows, columns = masked.nonzero()
        in_logits = rows if index is None else index[rows]
        at = np.stack((rows, columns, first[rows, columns], in_logits))
        at = torch.from_numpy(at).to(logits.device)
        # Indexing has made a copy, the only one.
        picked = self._fill_never(logits[at[3], at[1]].float(), rows.tolist(), special)
        log_probabilities = torch.log_softmax(picked, dim=-1)
        ranking = log_probabilities.clone() if rankings else log_probabilities
        for row, of_row in rankings.items():
            ranking[at[0] == row] = of_row[at[1, at[0] == row]]
        top = ranking.topk(top_k, dim=-1)
        # What comes first may be ranked anywhere.
        chosen = torch.cat((at[2, :, None], top.indices), 1)
        values = log_probabilities.gather(1, chosen).exp().cpu().numpy()
        ids = chosen.cpu().numpy()
        dropped = ids == ids[:, :1]
        dropped[:, 1:] |= (top.values == float("-inf")).cpu().numpy()
        dropped[:, 0] = False
        order = dropped.argsort(1, kind="stable")
        ids[dropped] = -1
        tokens[rows, columns] = np.take_along_axis(ids, order, 1)
        probabilities[rows, columns] = np.take_along_axis(values, order, 1)
        return CandidateArrays(tokens, probabilities)
