"""The lattice of a block with the model's probabilities on it, layer by layer.

A layer holds the states that the candidates can lead to before one position of the block;
an edge is a token, with its log-probability. Every filling of the masks that the grammar
accepts is one path. States are deterministic, so it is *only* one, however ambiguous the
grammar is: sums over paths are sums over fillings, with nothing counted twice.

The weight of a filling is the product of its tokens' probabilities, each position on its
own, as a masked diffusion model gives them. On that the lattice answers exactly: the most
probable filling (max-product, as DINGO, arXiv 2505.23061), the mass of all of them and the
posterior marginals (sum-product, as arXiv 2607.07026), and draws from the posterior.

``Lattice`` is what can be asked; ``Layers`` unfolds one over the candidates of each position,
``regular.ClassLayers`` one over the whole vocabulary. ``lattice.find_witness`` asks only
whether there is a filling, and needs none of this.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

import numpy as np

from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.token_automaton import TokenAutomaton

NO_TOKENS: Mapping[int, int] = {}


@dataclass(frozen=True)
class Filling:
    """A token for every masked position.

    Attributes:
        tokens: by position.
        score: natural logarithm of its weight.
    """

    tokens: dict[int, int]
    score: float


@dataclass(frozen=True)
class Marginal:
    """The posterior of one masked position.

    Attributes:
        tokens: int64 ``[n]``, those that some filling has there, ascending.
        probabilities: float64 ``[n]``, their sum is 1.
    """

    tokens: np.ndarray
    probabilities: np.ndarray

    def best(self) -> tuple[int, float]:
        """The most probable token, and its probability."""
        at = int(self.probabilities.argmax())
        return int(self.tokens[at]), float(self.probabilities[at])

    def of(self, token: int) -> float:
        """The probability of a token."""
        return float(self.probabilities[self.tokens == token].sum())


@dataclass(frozen=True)
class Edges:
    """From one layer to the next: ``[edges]``, in the order of their sources.

    Attributes:
        label: a token, or what stands for many.
        weight: natural logarithm of the mass of the label's tokens.
        best: of the most probable of them.
    """

    position: int
    source: np.ndarray
    target: np.ndarray
    label: np.ndarray
    weight: np.ndarray
    best: np.ndarray


class Lattice(ABC):
    """The layers of one canvas, from ``canvas.first`` to its end, and what can be asked of them.

    Every token has to leave a state that can finish in the tokens left, as
    ``find_witness`` asks.

    Attributes:
        cut: the mass of the prefixes that were cut away. Where the weights of a position
            sum up to at most 1, the fillings that are missing weigh no more than that.
            0: exact over the candidates.
        best_cut: natural logarithm of the weight of the best prefix that was cut away; a
            ``best`` filling with a higher score is the best of all.
    """

    cut = 0.0
    best_cut = -np.inf

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._edges: list[Edges] = []
        self._sizes = [1]

    @abstractmethod
    def probability(self, position: int, token: int) -> float:
        """The model's, of a token at a masked position; 0 where it is none that is weighed."""

    # Labels are tokens here; a subclass whose labels are not says what they stand for.

    def _weights_of(self, edges: Edges, token: int) -> np.ndarray:
        """``[edges]``: the weights if only one token may stand there."""
        return np.where(edges.label == token, edges.best, -np.inf)

    def _best_token(self, position: int, label: int) -> int:
        return label

    def _draw_token(self, position: int, label: int, random: Random) -> tuple[int, float]:
        """One of the label's tokens, and what of its logarithmic weight the label's lacks."""
        return label, 0.0

    def _marginal(self, position: int, labels: np.ndarray, shares: np.ndarray) -> Marginal:
        return Marginal(labels, shares)

    @property
    def exact(self) -> bool:
        """Whether nothing was cut away."""
        return self.best_cut == -np.inf

    @property
    def largest(self) -> int:
        """States in the largest layer."""
        return max(self._sizes)

    def best(self, given: Mapping[int, int] = NO_TOKENS) -> Filling | None:
        """The most probable filling, by Viterbi's algorithm; ``None`` where there is none.

        Args:
            given: tokens that it has to have, by masked position.
        """
        # Backward, so that the way on from the one start is read off at once.
        value, ways = np.zeros(self._sizes[-1]), []
        for edges, size in zip(self._edges[::-1], self._sizes[-2::-1], strict=True):
            weights = edges.best
            if edges.position in given:
                weights = self._weights_of(edges, given[edges.position])
            along = value[edges.target] + weights
            value = _maxima(along, edges.source, size)
            # The first of equals: later assignments overwrite earlier ones.
            way = np.full(size, -1)
            best = np.flatnonzero((along == value[edges.source]) & (along > -np.inf))[::-1]
            way[edges.source[best]] = best
            ways.append(way)
        if value[0] == -np.inf:
            return None
        chosen, here = {}, 0
        for edges, way in zip(self._edges, ways[::-1], strict=True):
            edge, position = int(way[here]), edges.position
            if self._canvas.tokens[position] == MASKED:
                if position in given:
                    chosen[position] = given[position]
                else:
                    chosen[position] = self._best_token(position, int(edges.label[edge]))
            here = int(edges.target[edge])
        return Filling(chosen, float(value[0]))

    @cached_property
    def _to_the_end(self) -> list[np.ndarray]:
        """For each layer the mass of the ways on from its states (backward messages)."""
        messages = [np.zeros(self._sizes[-1])]
        for edges, size in zip(self._edges[::-1], self._sizes[-2::-1], strict=True):
            along = messages[-1][edges.target] + edges.weight
            messages.append(_log_sums(along, edges.source, size))
        return messages[::-1]

    @property
    def log_partition(self) -> float:
        """Natural logarithm of the mass of all fillings; minus infinity where there is none."""
        return float(self._to_the_end[0][0])

    def marginals(self) -> dict[int, Marginal]:
        """The posterior of every masked position; empty where there is no filling."""
        return {
            edges.position: self._marginal(edges.position, labels, shares)
            for edges, labels, _, shares in self._shares()
        }

    def filtered(self) -> dict[int, Marginal]:
        """What the model thinks of the tokens that some filling has, by masked position.

        Its own probabilities, shared out among them: the grammar only filters.
        """
        found = {}
        for edges, labels, first, _ in self._shares():
            mass = edges.weight[first]
            shares = np.exp(mass - mass.max())
            found[edges.position] = self._marginal(edges.position, labels, shares / shares.sum())
        return found

    def _shares(self) -> Iterator[tuple[Edges, np.ndarray, np.ndarray, np.ndarray]]:
        """For each masked position the labels that some filling has there, an edge of each,
        and the posterior of each."""
        if self.log_partition == -np.inf:
            return
        here = np.zeros(1)  # forward messages
        for edges, size, behind in zip(
            self._edges, self._sizes[1:], self._to_the_end[1:], strict=True
        ):
            along = here[edges.source] + edges.weight
            if self._canvas.tokens[edges.position] == MASKED:
                share = np.exp(along + behind[edges.target] - self.log_partition)
                labels, first, place = np.unique(
                    edges.label, return_index=True, return_inverse=True
                )
                sums = np.bincount(place, share, len(labels))
                alive = sums > 0
                yield edges, labels[alive], first[alive], sums[alive]
            here = _log_sums(along, edges.target, size)

    def sample(self, random: Random) -> Filling | None:
        """A filling drawn from the posterior, token by token; ``None`` where there is none."""
        if self.log_partition == -np.inf:
            return None
        chosen, score, here = {}, 0.0, 0
        for edges, before, behind in zip(
            self._edges, self._to_the_end, self._to_the_end[1:], strict=False
        ):
            low, high = np.searchsorted(edges.source, (here, here + 1))
            along = edges.weight[low:high] + behind[edges.target[low:high]] - before[here]
            edge = int(low) + drawn(along, random)
            score += self._take(edges, edge, chosen, random)
            here = int(edges.target[edge])
        return Filling(chosen, score)

    def transitions(self) -> np.ndarray:
        """The weights of each position as a matrix, float64 ``[positions, states, states]``.

        Each is scaled to have a maximum of 1. Padded with identities to a power of two
        positions, and with zeros to the states of the largest layer.
        """
        length, size = 1 << (len(self._edges) - 1).bit_length(), self.largest
        matrices = np.empty((length, size, size))
        for matrix, edges in zip(matrices, self._edges, strict=False):
            weights = np.exp(edges.weight - edges.weight.max())
            pairs = edges.source * size + edges.target
            matrix[:] = np.bincount(pairs, weights, size * size).reshape(size, size)
        matrices[len(self._edges) :] = np.eye(size)
        return matrices

    def filling_along(self, states: Sequence[int], random: Random) -> Filling:
        """Draw the tokens between states, which stand in their layers, one before each position."""
        chosen, score = {}, 0.0
        for edges, here, following in zip(self._edges, states, states[1:], strict=False):
            low, high = np.searchsorted(edges.source, (here, here + 1))
            fitting = low + np.flatnonzero(edges.target[low:high] == following)
            weights = edges.weight[fitting]
            edge = fitting[drawn(weights - weights.max(), random)]
            score += self._take(edges, int(edge), chosen, random)
        return Filling(chosen, score)

    def _take(self, edges: Edges, edge: int, chosen: dict[int, int], random: Random) -> float:
        """Draw one of an edge's tokens, and give its logarithmic weight."""
        if self._canvas.tokens[edges.position] != MASKED:
            return 0.0
        token, lacking = self._draw_token(edges.position, int(edges.label[edge]), random)
        chosen[edges.position] = token
        return float(edges.weight[edge]) + lacking


class Layers(Lattice):
    """The lattice over some candidates of each position."""

    def __init__(
        self,
        tokens: TokenAutomaton,
        state: int,
        canvas: Canvas,
        weights: Mapping[int, Mapping[int, float]],
        max_states: int,
        fillers: Mapping[int, float] | None = None,
    ) -> None:
        """Unfold the layers.

        Args:
            tokens: the grammar's states over the vocabulary.
            state: the state before ``canvas.first``.
            canvas: the block.
            weights: for each masked position its candidates with their log-probabilities;
                minus infinity is no candidate.
            max_states: states of a layer beyond which it is pruned to the so many with the
                highest mass of prefixes.
            fillers: for each masked position what a filler of the state weighs that is no
                candidate (see ``TokenAutomaton.fillers``); ``None`` for no fillers.
        """
        super().__init__(canvas)
        self._tokens = tokens
        self._weights = weights
        self._fillers = fillers
        states, mass, best = [state], np.zeros(1), np.zeros(1)
        for position in range(canvas.first, len(canvas.tokens)):
            states, edges = self._unfold(position, states)
            along = mass[edges.source] + edges.weight
            mass = _log_sums(along, edges.target, len(states))
            best = _maxima(best[edges.source] + edges.best, edges.target, len(states))
            if len(states) > max_states:
                kept = np.sort(np.argsort(-mass, kind="stable")[:max_states])
                gone = np.ones(len(states), bool)
                gone[kept] = False
                self.cut += float(np.exp(mass[gone]).sum())
                self.best_cut = max(self.best_cut, float(best[gone].max()))
                states, mass, best = [states[at] for at in kept], mass[kept], best[kept]
                edges = _with_targets(edges, kept)
            self._edges.append(edges)
            self._sizes.append(len(states))

    def probability(self, position: int, token: int) -> float:
        return math.exp(self._weights[position].get(token, -math.inf))

    def _unfold(self, position: int, states: list[int]) -> tuple[list[int], Edges]:
        """The layer behind ``position``, and the edges to it."""
        left = self._canvas.left_after(position)
        index: dict[int, int] = {}
        fits: dict[int, bool] = {}
        sources, targets, ids, weights = [], [], [], []
        for source, state in enumerate(states):
            for token, weight in self._choices(position, state):
                following = self._tokens.advance(state, token)
                if following == DEAD or weight == -np.inf:
                    continue
                if following not in fits:
                    fits[following] = self._tokens.finishes_within(following, left)
                if fits[following]:
                    sources.append(source)
                    targets.append(index.setdefault(following, len(index)))
                    ids.append(token)
                    weights.append(weight)
        mass = np.array(weights, np.float64)
        return list(index), Edges(
            position,
            np.array(sources, np.int64),
            np.array(targets, np.int64),
            np.array(ids, np.int64),
            mass,
            mass,
        )

    def _choices(self, position: int, state: int) -> Iterable[tuple[int, float]]:
        if (token := self._canvas.tokens[position]) != MASKED:
            return ((token, 0.0),)
        weights = self._weights[position]
        if self._fillers is None:
            return weights.items()
        weight = self._fillers[position]
        others = (token for token in self._tokens.fillers(state) if token not in weights)
        return (*weights.items(), *((token, weight) for token in others))


def _with_targets(edges: Edges, kept: np.ndarray) -> Edges:
    """The edges to the states at ``kept`` (ascending), which are numbered anew."""
    inside = np.isin(edges.target, kept)
    return Edges(
        edges.position,
        edges.source[inside],
        np.searchsorted(kept, edges.target[inside]),
        edges.label[inside],
        edges.weight[inside],
        edges.best[inside],
    )


def drawn(weights: np.ndarray, random: Random) -> int:
    """An index, drawn by weights, which are given as logarithms."""
    total = np.exp(weights).cumsum()
    return int(np.searchsorted(total, random.random() * total[-1], side="right"))


def _maxima(values: np.ndarray, groups: np.ndarray, size: int) -> np.ndarray:
    """For each group the highest value, ``[size]``; minus infinity for an empty one."""
    maxima = np.full(size, -np.inf)
    np.maximum.at(maxima, groups, values)
    return maxima


def _log_sums(values: np.ndarray, groups: np.ndarray, size: int) -> np.ndarray:
    """For each group the logarithm of the sum of the exponentials, ``[size]``."""
    maxima = _maxima(values, groups, size)
    shift = np.where(maxima == -np.inf, 0.0, maxima)
    with np.errstate(divide="ignore"):
        return shift + np.log(np.bincount(groups, np.exp(values - shift[groups]), size))
