"""The lattice of a block with the model's probabilities on it, layer by layer.

A layer holds the states that the candidates can lead to before one position of the block;
an edge is a token, with its log-probability. Every filling of the masks that the grammar
accepts is one path. States are deterministic, so it is *only* one, however ambiguous the
grammar is: sums over paths are sums over fillings, with nothing counted twice.

The weight of a filling is the product of its tokens' probabilities, each position on its
own, as a masked diffusion model gives them. On that the lattice answers exactly: the most
probable filling (max-product, as DINGO, arXiv 2505.23061), the mass of all of them and the
posterior marginals (sum-product, as arXiv 2607.07026), and draws from the posterior.

``lattice.find_witness`` asks only whether there is a filling, and needs none of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
class _Edges:
    """From one layer to the next: ``[edges]``, in the order of their sources."""

    position: int
    source: np.ndarray
    target: np.ndarray
    token: np.ndarray
    weight: np.ndarray


class Layers:
    """The layers of one canvas, from ``canvas.first`` to its end.

    Every token has to leave a state that can finish in the tokens left, as
    ``find_witness`` asks.

    Attributes:
        cut: the mass of the prefixes that were cut away. Where the weights of a position
            sum up to at most 1, the fillings that are missing weigh no more than that.
            0: exact over the candidates.
        best_cut: natural logarithm of the weight of the best prefix that was cut away; a
            ``best`` filling with a higher score is the best of all.
    """

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
        self._tokens = tokens
        self._canvas = canvas
        self._weights = weights
        self._fillers = fillers
        self.cut = 0.0
        self.best_cut = -np.inf
        self._edges: list[_Edges] = []
        self._sizes = [1]
        states, mass, best = [state], np.zeros(1), np.zeros(1)
        for position in range(canvas.first, len(canvas.tokens)):
            states, edges = self._unfold(position, states)
            along = mass[edges.source] + edges.weight
            mass = _log_sums(along, edges.target, len(states))
            best = _maxima(best[edges.source] + edges.weight, edges.target, len(states))
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
            along = value[edges.target] + edges.weight
            if edges.position in given:
                along = np.where(edges.token == given[edges.position], along, -np.inf)
            value = _maxima(along, edges.source, size)
            # The first of equals: later assignments overwrite earlier ones.
            way = np.full(size, -1)
            best = np.flatnonzero((along == value[edges.source]) & (along > -np.inf))[::-1]
            way[edges.source[best]] = best
            ways.append(way)
        if value[0] == -np.inf:
            return None
        return Filling(self._along(way for way in ways[::-1]), float(value[0]))

    def _along(self, ways: Iterable[np.ndarray]) -> dict[int, int]:
        """The filling that takes ``way[state]`` from each layer on."""
        chosen, here = {}, 0
        for edges, way in zip(self._edges, ways, strict=True):
            edge = int(way[here])
            if self._canvas.tokens[edges.position] == MASKED:
                chosen[edges.position] = int(edges.token[edge])
            here = int(edges.target[edge])
        return chosen

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
        if self.log_partition == -np.inf:
            return {}
        found = {}
        here = np.zeros(1)  # forward messages
        for edges, size, behind in zip(
            self._edges, self._sizes[1:], self._to_the_end[1:], strict=True
        ):
            along = here[edges.source] + edges.weight
            if self._canvas.tokens[edges.position] == MASKED:
                share = np.exp(along + behind[edges.target] - self.log_partition)
                tokens, place = np.unique(edges.token, return_inverse=True)
                sums = np.bincount(place, share, len(tokens))
                alive = sums > 0
                found[edges.position] = Marginal(tokens[alive], sums[alive])
            here = _log_sums(along, edges.target, size)
        return found

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
            total = np.exp(along).cumsum()
            edge = low + int(np.searchsorted(total, random.random() * total[-1], side="right"))
            score += float(edges.weight[edge])
            if self._canvas.tokens[edges.position] == MASKED:
                chosen[edges.position] = int(edges.token[edge])
            here = int(edges.target[edge])
        return Filling(chosen, score)

    def _unfold(self, position: int, states: list[int]) -> tuple[list[int], _Edges]:
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
        return list(index), _Edges(
            position,
            np.array(sources, np.int64),
            np.array(targets, np.int64),
            np.array(ids, np.int64),
            np.array(weights, np.float64),
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


def _with_targets(edges: _Edges, kept: np.ndarray) -> _Edges:
    """The edges to the states at ``kept`` (ascending), which are numbered anew."""
    inside = np.isin(edges.target, kept)
    return _Edges(
        edges.position,
        edges.source[inside],
        np.searchsorted(kept, edges.target[inside]),
        edges.token[inside],
        edges.weight[inside],
    )


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
