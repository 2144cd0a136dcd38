"""What a request has to tell, also while it is under way, and how its tokens are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lave_plugin.trace import join, nothing_told

MASKED = -1
MASK, END = "▢", "⏎"
_CONTROLS = str.maketrans({"\n": "↵", "\r": "␍", "\t": "⇥"})


@dataclass
class Told:
    """What became of a token, or of a run of end tokens.

    Attributes:
        first, last: positions in the answer.
        times: how often the same was tried in the step.
    """

    fate: str
    first: int
    last: int
    token: int
    probability: float | None
    times: int = 1


def _nothing() -> dict[str, Any]:
    return {"trace": nothing_told()}


@dataclass
class Story:
    """One request.

    Attributes:
        prompt: what was asked.
        kind: of its constraint, such as ``regex``.
        constraint: the constraint's text, or the name of a grammar that ships.
        answer: its text, so far.
        facts: ``meta_info.lave``, with the ``trace`` (``lave_plugin.trace``) and, as long as the
            request is under way, nothing else.
    """

    prompt: str
    kind: str
    constraint: str
    answer: str = ""
    facts: dict[str, Any] = field(default_factory=_nothing)

    def grow(self, parts: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[int]:
        """Tell what comes, and the number of each step, from 0, as soon as it is there.

        Args:
            parts: some more of the answer's text, and of its facts; see ``lave_plugin.trace``.
        """
        for text, facts in parts:
            self.answer += text
            first = len(self.steps)
            if "trace" in facts:
                join(self.trace, facts["trace"])
            self.facts = {**self.facts, **facts, "trace": self.trace}
            yield from range(first, len(self.steps))

    @property
    def is_finished(self) -> bool:
        """Whether all is told."""
        return "strategy" in self.facts

    @property
    def trace(self) -> dict[str, Any]:
        """The steps, the tokens' texts and the end tokens."""
        return self.facts["trace"]

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps, first one first."""
        return self.trace["steps"]

    def written(self, token: int) -> str:
        """A token as it is shown: one line, and never nothing."""
        if token == MASKED:
            return MASK
        if token in self.trace["end_tokens"]:
            return END
        text = self.trace["texts"].get(str(token))
        return f"⟨{token}⟩" if text is None else text.translate(_CONTROLS)

    def told(self, step: Mapping[str, Any]) -> list[Told]:
        """The events of a step, each once, end tokens beside each other together."""
        lines: list[Told] = []
        first_time: dict[tuple[str, int, int], Told] = {}
        for fate, position, token, probability in step["events"]:
            key = fate, position, token
            if key in first_time:
                first_time[key].times += 1
                continue
            ends = token in self.trace["end_tokens"]
            before = lines[-1] if lines else None
            if ends and before and (before.fate, before.last + 1, before.token) == key:
                before.last = position
                continue
            first_time[key] = Told(fate, position, position, token, probability)
            lines.append(first_time[key])
        return lines

    def before_block(self, at: int) -> Iterable[int]:
        """The tokens of the blocks before that of step ``at``."""
        blocks = {step["begin"]: step["after"] for step in self.steps[:at]}
        begin = self.steps[at]["begin"]
        return [token for first, block in blocks.items() if first < begin for token in block]

    def block_number(self, at: int) -> int:
        """The block of step ``at``, counted from 1."""
        return len({step["begin"] for step in self.steps[: at + 1]})
