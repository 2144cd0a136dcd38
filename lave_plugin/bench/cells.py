"""A benchmark that is a table of cells, each measured by itself in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from lave_plugin.bench.results import Results

Cell = TypeVar("Cell")


class CellBenchmark(ABC, Generic[Cell]):
    """What the in-process benchmarks have in common; ``label`` names one on its progress bar."""

    label: ClassVar[str]

    @abstractmethod
    def cells(self) -> Mapping[str, Cell]:
        """All that there is to measure, by key, in the order to do it."""

    @abstractmethod
    def measure(self, cell: Cell) -> Mapping[str, Any]:
        """One of them; JSON values."""

    def is_complete(self, results: Results) -> bool:
        return all(key in results for key in self.cells())

    def run(self, results: Results) -> None:
        """Measure what is missing.

        Raises:
            Interrupted: See :meth:`Results.measure`.
        """
        cells = self.cells()
        results.want(list(cells))
        results.measure(list(cells), lambda key: self.measure(cells[key]), self.label)
