"""What the denoising steps of one request did, written down for whoever asks (``lave watch``).

A request asks with ``custom_params: {"lave": {"trace": true}}`` and finds it in its
``meta_info``: in one piece with an answer that comes in one piece, and in a stream in parts, each
with what is new since the part before, so that a step is told while later ones are still to be
made. Nothing is written down for any other request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lave_plugin.candidates import Candidates
from lave_plugin.canvas import MASKED
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.strategies.lave import Proposals

MOST_ENTRIES = 1 << 15
"""Positions and events that one trace may tell of, about a megabyte of JSON. 512 steps in blocks
of 32 have fewer; what comes behind is counted only."""

_WRITES = ("accepted", "edited", "replaced", "recovered", "forced", "unverified")
"""Fates of a token that is in the block afterwards, if nothing else takes its place."""


class Trace:
    """The steps of one request, as they are made.

    Positions are those of the answer: 0 is its first token. A step has

    - ``begin``: the position of the first one that it tells of, the block's first in the answer;
    - ``before``, ``after``: the ids from there to the block's end, -1 for a mask;
    - ``favourites``: ``[position, id, probability]`` of each mask in the grammar's part: what the
      model, or what was drawn from it, would have there. Where thinking ends in the step, what
      stood behind it counts as masked;
    - ``proposed``: ``[position, id]`` of all that the engine's algorithm would write;
    - ``events``: ``[fate, position, id, probability]`` in their order, with a probability of
      ``None`` where none is known; see ``FATES``;
    - ``witness``: ``[position, id]``, the filling that was kept, for positions still masked.
    """

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.left_out = 0
        self._entries = 0
        self._told: set[int] = set()
        self._forget()

    def _forget(self) -> None:
        self._candidates: Candidates | None = None
        self._proposals = Proposals()
        self._events: list[tuple[str, int, int]] = []

    def expect(self, candidates: Candidates, proposals: Proposals) -> None:
        """What the strategy is about to decide on."""
        self._candidates, self._proposals = candidates, proposals

    def hear(self, fate: str, position: int, token: int) -> None:
        """What became of a token; ``position`` is one of the block."""
        self._events.append((fate, position, token))

    def end_step(
        self,
        answer: int,
        first: int,
        grammar: int,
        before: Sequence[int],
        after: Sequence[int],
        witness: Mapping[int, int],
    ) -> None:
        """Write down the step that was made.

        Args:
            answer: tokens of the answer before this block.
            first: the position in the block where the answer goes on.
            grammar: the one where the grammar begins, behind ``first`` while a request thinks.
            before: ids of the block, ``MASKED`` where no token stood.
            after: the same after the step.
            witness: by position in the block.
        """
        candidates, proposals = self._candidates, self._proposals
        heard = [
            (_as_edit(fate) if position in proposals.edits else fate, position, token)
            for fate, position, token in self._events
        ]
        self._forget()
        self._entries += len(after) - first + len(heard)
        if self._entries > MOST_ENTRIES:
            self.left_out += 1
            return
        shift = answer - first
        favourites = {} if candidates is None else candidates.tokens
        proposed = {**proposals.commits, **proposals.edits}
        events = [*heard, *_unheard(heard, proposed, first, grammar, before, after)]
        self.steps.append(
            {
                "begin": answer,
                "before": list(before[first:]),
                "after": list(after[first:]),
                "favourites": [
                    [shift + position, tokens[0], _rounded(candidates.probabilities[position][0])]
                    for position, tokens in favourites.items()
                ],
                "proposed": [[shift + position, token] for position, token in proposed.items()],
                "events": [
                    [fate, shift + position, token, _probability(candidates, position, token)]
                    for fate, position, token in events
                ],
                "witness": [
                    [shift + position, token]
                    for position, token in sorted(witness.items())
                    if after[position] == MASKED
                ],
            }
        )

    def take(self, vocabulary: Vocabulary) -> dict[str, Any]:
        """What was written down since it was last taken, as it goes into an answer.

        ``steps``; how many more were ``left_out``; ``texts``, of each id that has one what it
        spells, bytes that are no UTF-8 by themselves as ``\\xe2``; and the ``end_tokens``. An id
        that an earlier part told of is not told of again. It is kept no longer.
        """
        steps, self.steps = self.steps, []
        left_out, self.left_out = self.left_out, 0
        ids = {token for step in steps for token in _ids(step)} - self._told
        self._told |= ids
        known = [token for token in sorted(ids) if 0 <= token < len(vocabulary)]
        return {
            "steps": steps,
            "left_out": left_out,
            "texts": {
                str(token): data.decode(errors="backslashreplace")
                for token in known
                if (data := vocabulary.token_bytes[token])
            },
            "end_tokens": sorted(ids & vocabulary.end_tokens),
        }


def nothing_told() -> dict[str, Any]:
    """What ``join`` begins with."""
    return {"steps": [], "left_out": 0, "texts": {}, "end_tokens": []}


def join(told: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Put the next part of a trace behind what was ``told``, in place."""
    told["steps"] += part["steps"]
    told["left_out"] += part["left_out"]
    told["texts"].update(part["texts"])
    told["end_tokens"] = sorted({*told["end_tokens"], *part["end_tokens"]})


FATES = {
    "accepted": "proposed or the next best, and there is a witness",
    "edited": "the same over a token that stood there",
    "replaced": "the most probable that the grammar allows, in place of the model's favourite",
    "recovered": "committed from the witness after refusals, or where nothing else was left",
    "forced": "the grammar leaves no other way",
    "filled": "an end token behind the end of the answer, or what completes it (Con.)",
    "unverified": "committed although nothing vouched for it",
    "thought": "free text, before the grammar begins",
    "refused": "tried, and there is no witness",
    "set aside": "proposed, and neither written nor tried by itself: there is no witness for all "
    "that was proposed together",
    "taken back": "masked again",
}
"""What can become of a token."""


def _unheard(
    heard: Sequence[tuple[str, int, int]],
    proposed: Mapping[int, int],
    first: int,
    grammar: int,
    before: Sequence[int],
    after: Sequence[int],
) -> Iterable[tuple[str, int, int]]:
    """What the strategy does not tell of: it can be seen in the block."""
    written = {position: token for fate, position, token in heard if fate in _WRITES}
    tried = {(position, token) for _, position, token in heard}
    for position, token in proposed.items():
        if after[position] != token and (position, token) not in tried:
            yield "set aside", position, token
    for position in range(first, len(after)):
        if before[position] == after[position]:
            continue
        if after[position] == MASKED:
            yield "taken back", position, before[position]
        elif position < grammar:
            yield "thought", position, after[position]
        elif written.get(position) != after[position]:
            yield "filled", position, after[position]


def _as_edit(fate: str) -> str:
    return "edited" if fate == "accepted" else fate


def _probability(candidates: Candidates | None, position: int, token: int) -> float | None:
    ranked = [] if candidates is None else candidates.tokens.get(position, [])
    if token not in ranked:
        return None
    return _rounded(candidates.probabilities[position][ranked.index(token)])


def _rounded(probability: float) -> float:
    return round(float(probability), 4)


def _ids(step: Mapping[str, Any]) -> Iterable[int]:
    yield from step["before"]
    yield from step["after"]
    for name, at in (("favourites", 1), ("proposed", 1), ("events", 2), ("witness", 1)):
        yield from (entry[at] for entry in step[name])
