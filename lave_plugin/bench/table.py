"""A table of results, for a terminal and for Markdown alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import rich.table
from rich.markup import escape

from lave_plugin.bench.serve import Spread

UNKNOWN = "–"


@dataclass(frozen=True)
class Table:
    """Cells of text under headings; the first ``words`` columns are flush left."""

    title: str
    headings: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    words: int = 1

    def to_rich(self) -> rich.table.Table:
        table = rich.table.Table(title=escape(self.title), title_justify="left")
        for place, heading in enumerate(self.headings):
            table.add_column(escape(heading), justify="left" if place < self.words else "right")
        for row in self.rows:
            table.add_row(*map(escape, row))
        return table

    def to_markdown(self) -> str:
        rules = ["---" if place < self.words else "---:" for place in range(len(self.headings))]
        lines = [self.headings, rules, *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number(value: float | None, digits: int = 1) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def spread(value: Spread | None, digits: int = 1, percent: bool = False) -> str:
    """The median, and in brackets the least and the most, where there is more than one value."""
    if value is None:
        return UNKNOWN
    scale = 100 if percent else 1
    median, least, most = (
        f"{scale * part:.{digits}f}" for part in (value.median, value.least, value.most)
    )
    return median if value.least == value.most else f"{median} ({least}–{most})"
