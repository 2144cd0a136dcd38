"""How sure a candidate is, once the grammar has had its say.

The model's probability of a token knows nothing of the grammar, so after a refusal the next
best token may be sure of itself and wrong all the same. The posterior marginal of a token is
its share of all valid fillings of the block, each weighed by its probability under the model's
marginals (arXiv 2607.07026): by sum-product over the lattice, forward and backward. It is too
sure of itself on its own, as it leaves out whatever the model would have liked better and the
grammar forbids. The smaller one of the two is the better judge of both.

``layers.Layers`` sums over the same lattice in logarithms, for its other questions. Here the sums
are of floats in one order: C++ (``native/src/posterior.cpp``) does the same bit for bit, and what
is committed hangs on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.token_automaton import TokenAutomaton

MAX_STATES = 64
"""States of a layer that are followed, those of the greatest mass."""
LEAST_SHARE = 1e-3
"""Of the heaviest edge so far in a layer: a lighter one is not followed. It would change next to
nothing, and where it leads no parser may have been: to find that out is most of the work."""


def posterior_marginals(
    tokens: TokenAutomaton,
    state: int,
    canvas: Canvas,
    candidates: Mapping[int, Sequence[int]],
    probabilities: Mapping[int, Sequence[float]],
) -> dict[int, list[float]] | None:
    """Of each masked position the posterior marginals of its candidates, in their order.

    Over the candidates, but for what ``MAX_STATES`` and ``LEAST_SHARE`` leave out. ``None`` where
    no filling was found.
    """
    states, mass = [state], [1.0]
    layers: list[tuple[list[float], list[tuple[int, int, int, float]]]] = []
    for position in range(canvas.first, len(canvas.tokens)):
        fixed = canvas.tokens[position]
        choices = (
            list(zip(candidates[position], probabilities[position], strict=True))
            if fixed == MASKED
            else [(fixed, 1.0)]
        )
        left = canvas.left_after(position)
        index: dict[int, int] = {}
        following: list[float] = []
        edges = []
        heaviest = 0.0
        for source, here in enumerate(states):
            for rank, (token, probability) in enumerate(choices):
                if mass[source] * probability < LEAST_SHARE * heaviest:
                    continue
                reached = tokens.advance(here, token)
                if reached == DEAD or not tokens.finishes_within(reached, left):
                    continue
                target = index.setdefault(reached, len(following))
                if target == len(following):
                    following.append(0.0)
                heaviest = max(heaviest, mass[source] * probability)
                following[target] += mass[source] * probability
                edges.append((source, target, rank, probability))
        most = max(following, default=0.0)
        if most == 0.0:
            return None
        layers.append((mass, edges))
        order = sorted(range(len(following)), key=lambda at: -following[at])[:MAX_STATES]
        place = {at: new for new, at in enumerate(order)}
        # Left out here, an edge to a state that isn't followed.
        edges[:] = [(s, place[t], rank, p) for s, t, rank, p in edges if t in place]
        reached_states = list(index)
        states = [reached_states[at] for at in order]
        mass = [following[at] / most for at in order]  # scaled, against underflow
    return _backward(canvas, layers, len(states), candidates)


def _backward(
    canvas: Canvas,
    layers: list[tuple[list[float], list[tuple[int, int, int, float]]]],
    last_states: int,
    candidates: Mapping[int, Sequence[int]],
) -> dict[int, list[float]] | None:
    """``None`` where all has come to nothing, as the numbers are too small."""
    behind = [1.0] * last_states
    marginals = {}
    for at in range(len(layers) - 1, -1, -1):
        position = canvas.first + at
        mass, edges = layers[at]
        before = [0.0] * len(mass)
        masked = canvas.tokens[position] == MASKED
        weight = [0.0] * (len(candidates[position]) if masked else 1)
        for source, target, rank, probability in edges:
            onward = probability * behind[target]
            before[source] += onward
            weight[rank] += mass[source] * onward
        if masked:
            total = 0.0
            for value in weight:
                total += value
            if total == 0.0:
                return None
            marginals[position] = [value / total for value in weight]
        most = max(before)
        if most == 0.0:
            return None
        behind = [value / most for value in before]
    return marginals
