"""The most probable tokens of each masked position, cut on the device, copied once.

Everything here is a function of logits alone, so all tensor-parallel ranks agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from lave_plugin.grammar.vocabulary import Vocabulary


@dataclass
class Candidates:
    """Proposals of one row, by position.

    Attributes:
        tokens: for each masked position its candidate ids, most probable first.
        probabilities: their model probabilities, same shape.
        log_probabilities: ``[block, vocabulary]`` on the device, for the rare position
            where no candidate fits; text and end tokens only, the rest is ``-inf``.
    """

    tokens: dict[int, list[int]]
    probabilities: dict[int, list[float]]
    log_probabilities: torch.Tensor = field(repr=False)
    _plausible: dict[float, dict[int, list[int]]] = field(
        default_factory=dict, init=False, repr=False
    )

    def put_first(self, position: int, token: int) -> int:
        """Let ``token`` be the first candidate of ``position``, where a grammar may allow it.

        An algorithm that does not take the most probable token (it may sample, or
        penalise) keeps its choice this way. Returns the first candidate.
        """
        ranked, weights = self.tokens[position], self.probabilities[position]
        if ranked[0] != token:
            log_probability = float(self.log_probabilities[position, token])
            if log_probability > float("-inf"):
                if token in ranked:
                    at = ranked.index(token)
                    del ranked[at], weights[at]
                ranked.insert(0, token)
                weights.insert(0, math.exp(log_probability))
                self._plausible.clear()
        return ranked[0]

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

    def by_probability(self, position: int, start: int, limit: int) -> Iterator[int]:
        """Token ids of ``position`` from rank ``start``, at most ``limit`` of them."""
        row = self.log_probabilities[position]
        ranked = row.topk(min(start + limit, row.shape[-1]))
        for token, log_probability in zip(
            ranked.indices[start:].tolist(), ranked.values[start:].tolist(), strict=True
        ):
            if log_probability == float("-inf"):
                return
            yield token


class CandidateCutter:
    """Cuts candidates from logits for one vocabulary."""

    def __init__(self, vocabulary: Vocabulary, mask_id: int, top_k: int) -> None:
        self.top_k = top_k
        self._never = [
            token
            for token in range(len(vocabulary))
            if token == mask_id or not vocabulary.is_text_or_end(token)
        ]
        self._never_on: dict[tuple[torch.device, int], torch.Tensor] = {}

    def _never_mask(self, device: torch.device, width: int) -> torch.Tensor:
        """``[width]`` bool: ids that no grammar ever allows, padding beyond it included."""
        if (device, width) not in self._never_on:
            mask = torch.zeros(width, dtype=torch.bool)
            mask[[token for token in self._never if token < width]] = True
            self._never_on[device, width] = mask.to(device)
        return self._never_on[device, width]

    def cut(self, logits: torch.Tensor, masked: list[list[int]]) -> list[Candidates]:
        """Candidates of several rows.

        Args:
            logits: ``[rows, block, vocabulary]``, any float dtype.
            masked: for each row its masked positions.
        """
        never = self._never_mask(logits.device, logits.shape[-1])
        log_probabilities = torch.log_softmax(
            logits.float().masked_fill(never, float("-inf")), dim=-1
        )
        rows = [row for row, positions in enumerate(masked) for _ in positions]
        columns = [position for positions in masked for position in positions]
        top = log_probabilities[rows, columns].topk(min(self.top_k, logits.shape[-1]), dim=-1)
        tokens, probabilities = top.indices.tolist(), top.values.exp().tolist()
        cut, at = [], 0
        for row, positions in enumerate(masked):
            here = slice(at, at + len(positions))
            at += len(positions)
            cut.append(
                Candidates(
                    dict(zip(positions, tokens[here], strict=True)),
                    dict(zip(positions, probabilities[here], strict=True)),
                    log_probabilities[row],
                )
            )
        return cut
