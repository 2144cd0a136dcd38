"""The lattice over the whole vocabulary, for grammars with few states.

Where a grammar's states are few, its tokens fall into a few hundred classes (see
``grammar.token_classes``), and a block's lattice needs no candidates: the weight of a class at a
position is the sum over its tokens' probabilities, for the most probable filling their maximum.
That is one segmented sum over the vocabulary on the logits' device; what follows is a lattice
whose labels are classes, small enough for the host.

So the most probable filling is that of DINGO (arXiv 2505.23061) and the posterior that of
arXiv 2607.07026, both exact. Nothing is cut.
"""

from __future__ import annotations

import math
from functools import cached_property
from random import Random
from weakref import WeakKeyDictionary

import numpy as np
import torch

from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar.token_classes import ClassAutomaton
from lave_plugin.layers import Edges, Lattice, Marginal, drawn


class ClassWeights:
    """What the classes of an automaton weigh at some positions.

    Attributes:
        sums: float64 ``[positions, classes]``, natural logarithms of the mass of each class.
        maxima: the same of the most probable token of each.
    """

    def __init__(self, automaton: ClassAutomaton, log_probabilities: torch.Tensor) -> None:
        """Sum over the vocabulary.

        Args:
            log_probabilities: ``[positions, vocabulary]`` on any device; ids beyond its width
                have none, and minus infinity is a token that must not be.
        """
        self._automaton = automaton
        order, label, lengths = _on_device(automaton, log_probabilities.device)
        missing = len(automaton.class_of) - log_probabilities.shape[1]
        if missing > 0:
            log_probabilities = torch.nn.functional.pad(
                log_probabilities, (0, missing), value=-math.inf
            )
        self._of_token = log_probabilities.index_select(1, order)
        if not len(self._of_token):  # nothing is masked
            self.sums = self.maxima = np.empty((0, automaton.classes))
            return
        lengths = lengths.expand(len(self._of_token), -1).contiguous()
        # Segments are summed one by one, in order, so that all ranks get the same numbers:
        # a scattered sum on a GPU would not.
        maxima = torch.segment_reduce(self._of_token, "max", lengths=lengths, axis=1).double()
        shift = maxima.masked_fill(maxima == -math.inf, 0.0)
        shares = (self._of_token.double() - shift.index_select(1, label)).exp()
        sums = torch.segment_reduce(shares, "sum", lengths=lengths, axis=1).log() + shift
        self.sums, self.maxima = torch.stack((sums, maxima)).cpu().numpy()

    def tokens(self, label: int) -> np.ndarray:
        """The tokens of a class, ascending."""
        return self._automaton.order[self._span(label)]

    def of_tokens(self, row: int, label: int) -> np.ndarray:
        """Log-probabilities of the tokens of a class, float64."""
        return self._of_token[row, self._span(label)].double().cpu().numpy()

    def of_token(self, row: int, token: int) -> float:
        """Log-probability of a token; minus infinity where it has no class."""
        label = self.class_of(token)
        if label < 0:
            return -math.inf
        place = int(np.searchsorted(self.tokens(label), token))
        return float(self._of_token[row, self._automaton.begins[label] + place])

    def class_of(self, token: int) -> int:
        """The class of a token, negative where it has none."""
        known = 0 <= token < len(self._automaton.class_of)
        return int(self._automaton.class_of[token]) if known else -1

    def best_token(self, row: int, label: int) -> int:
        """The most probable token of a class."""
        of_class = self._of_token[row, self._span(label)]
        return int(self.tokens(label)[int(of_class.argmax())])

    def _span(self, label: int) -> slice:
        return slice(*self._automaton.begins[label : label + 2].tolist())


_Places = dict[torch.device, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
_placed: WeakKeyDictionary[ClassAutomaton, _Places] = WeakKeyDictionary()


def _on_device(
    automaton: ClassAutomaton, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens by class, the class of each of them, and how many each class has."""
    places = _placed.setdefault(automaton, {})
    if device not in places:
        lengths = np.diff(automaton.begins)
        label = np.repeat(np.arange(len(lengths)), lengths)
        places[device] = tuple(
            torch.from_numpy(array).to(device) for array in (automaton.order, label, lengths)
        )
    return places[device]


class ClassMarginal:
    """The posterior of one masked position over the whole vocabulary.

    As ``layers.Marginal``, whose arrays are made only where somebody asks for them.
    """

    def __init__(
        self, weights: ClassWeights, row: int, labels: np.ndarray, shares: np.ndarray
    ) -> None:
        self._weights = weights
        self._row = row
        self._labels = labels
        self._shares = shares

    def best(self) -> tuple[int, float]:
        """The most probable token, and its probability."""
        weights, row = self._weights, self._row
        within = weights.maxima[row, self._labels] - weights.sums[row, self._labels]
        probabilities = self._shares * np.exp(within)
        at = int(probabilities.argmax())
        return weights.best_token(row, int(self._labels[at])), float(probabilities[at])

    def of(self, token: int) -> float:
        """The probability of a token."""
        label = self._weights.class_of(token)
        share = float(self._shares[self._labels == label].sum())
        if share == 0.0:
            return 0.0
        within = self._weights.of_token(self._row, token) - self._weights.sums[self._row, label]
        return share * math.exp(within)

    @cached_property
    def all(self) -> Marginal:
        """Every token that some filling has here."""
        tokens, probabilities = [np.empty(0, np.int64)], [np.empty(0)]
        for label, share in zip(self._labels.tolist(), self._shares, strict=True):
            within = (
                self._weights.of_tokens(self._row, label) - self._weights.sums[self._row, label]
            )
            tokens.append(self._weights.tokens(label))
            probabilities.append(share * np.exp(within))
        ids, values = np.concatenate(tokens), np.concatenate(probabilities)
        order = np.argsort(ids)[values[np.argsort(ids)] > 0]
        return Marginal(ids[order], values[order])


class ClassLayers(Lattice):
    """The lattice of one canvas over the whole vocabulary."""

    def __init__(
        self,
        automaton: ClassAutomaton,
        state: int,
        canvas: Canvas,
        log_probabilities: torch.Tensor,
    ) -> None:
        """Unfold the layers.

        Args:
            automaton: the grammar's states, with classes of tokens.
            state: the state of the token automaton before ``canvas.first``.
            canvas: the block.
            log_probabilities: ``[masks, vocabulary]``, a row for each masked position, in
                order (see ``ClassWeights``).
        """
        super().__init__(canvas)
        self.device = log_probabilities.device
        self._weights = ClassWeights(automaton, log_probabilities)
        self._row = {position: row for row, position in enumerate(canvas.masked())}
        states = np.array([automaton.index[state]])
        for position in range(canvas.first, len(canvas.tokens)):
            states, edges = self._unfold(automaton, position, states)
            self._edges.append(edges)
            self._sizes.append(len(states))

    def probability(self, position: int, token: int) -> float:
        return math.exp(self._weights.of_token(self._row[position], token))

    def _weights_of(self, edges: Edges, token: int) -> np.ndarray:
        weight = self._weights.of_token(self._row[edges.position], token)
        return np.where(edges.label == self._weights.class_of(token), weight, -np.inf)

    def _best_token(self, position: int, label: int) -> int:
        return self._weights.best_token(self._row[position], label)

    def _draw_token(self, position: int, label: int, random: Random) -> tuple[int, float]:
        row = self._row[position]
        within = self._weights.of_tokens(row, label) - self._weights.sums[row, label]
        at = drawn(within, random)
        return int(self._weights.tokens(label)[at]), float(within[at])

    def _marginal(self, position: int, labels: np.ndarray, shares: np.ndarray) -> ClassMarginal:
        return ClassMarginal(self._weights, self._row[position], labels, shares)

    def _unfold(
        self, automaton: ClassAutomaton, position: int, states: np.ndarray
    ) -> tuple[np.ndarray, Edges]:
        """The layer behind ``position``, and the edges to it."""
        begins, counts = automaton.edge_begins[states], np.diff(automaton.edge_begins)[states]
        source = np.repeat(np.arange(len(states)), counts)
        edge = np.repeat(begins - (counts.cumsum() - counts), counts) + np.arange(len(source))
        label, target = automaton.label[edge], automaton.target[edge]
        kept = automaton.to_finish[target] <= self._canvas.left_after(position)
        token = self._canvas.tokens[position]
        if token == MASKED:
            row = self._row[position]
            weight, best = self._weights.sums[row, label], self._weights.maxima[row, label]
            kept &= weight > -np.inf
        else:
            weight = best = np.zeros(len(label))
            kept &= label == self._weights.class_of(token)
        following, place = np.unique(target[kept], return_inverse=True)
        return following, Edges(
            position, source[kept], place.reshape(-1), label[kept], weight[kept], best[kept]
        )
