"""What a finished request has to tell, and how its tokens are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class Story:
    """One request.

    Attributes:
        prompt: what was asked.
        kind: of its constraint, such as ``regex``.
        constraint: the constraint's text, or the name of a grammar that ships.
        answer: its text.
        facts: ``meta_info.lave``, with the ``trace`` (``lave_plugin.trace``).
    """

    prompt: str
    kind: str
    constraint: str
    answer: str
    facts: Mapping[str, Any]

    @property
    def trace(self) -> Mapping[str, Any]:
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
