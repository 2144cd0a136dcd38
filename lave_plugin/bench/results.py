"""The measurements of one benchmark, in one JSON file that survives an interruption.

A benchmark is a list of keys to measure. What was measured is in the file at once; the same
command goes on with what is missing. A file of other options is never mixed with.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lave_plugin.bench.setting import setting

SECONDS_BETWEEN_SAVES = 2.0


class OtherResults(ValueError):
    """The file holds results that can't be gone on with; the message says why and what to do."""


class Interrupted(Exception):
    """Ctrl-C, or SIGTERM; the message says what is missing."""


class Results:
    """Measurements by key, and the setting that they were made in.

    Attributes:
        benchmark: Such as ``"serve"``.
        options: What a measurement depends on; JSON values.
        sessions: The settings of the runs that contributed, each with its command and date.
        notes: What a reader must know of them, in sentences.
    """

    def __init__(self, path: Path, benchmark: str, options: Mapping[str, Any]) -> None:
        self.path = path
        self.benchmark = benchmark
        self.options = dict(options)
        self.sessions: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self._wanted: list[str] = []
        self._measured: dict[str, dict[str, Any]] = {}
        self._saved = 0.0

    @classmethod
    def read(cls, path: Path) -> Results:
        """The results in a file.

        Raises:
            OtherResults: It holds none.
        """
        try:
            content = json.loads(path.read_text())
            results = cls(path, content["benchmark"], content["options"])
            results.sessions = content["sessions"]
            results.notes = content["notes"]
            results._measured = {entry.pop("key"): entry for entry in content["measurements"]}
            results._wanted = [*results._measured, *content["missing"]]
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise OtherResults(
                f"{path} holds no results of lave bench ({type(error).__name__}: {error}). "
                "Name another file with --json, or start over with --afresh."
            ) from None
        return results

    @classmethod
    def open(
        cls, path: Path, benchmark: str, options: Mapping[str, Any], afresh: bool = False
    ) -> Results:
        """Begin, or go on with what the file holds.

        Raises:
            OtherResults: The file is of another benchmark or of other options.
        """
        results = cls(path, benchmark, options)
        if path.exists() and not afresh:
            there = cls.read(path)
            if (there.benchmark, there.options) != (benchmark, results.options):
                differing = sorted(
                    name
                    for name in {*there.options, *results.options}
                    if there.options.get(name) != results.options.get(name)
                )
                what = ", ".join(differing) or "the benchmark"
                raise OtherResults(
                    f"{path} was measured with other options ({what}). Name another file with "
                    "--json, or start over with --afresh."
                )
            results = there
        results.sessions.append(setting())
        return results

    def __contains__(self, key: str) -> bool:
        return key in self._measured

    def __getitem__(self, key: str) -> dict[str, Any]:
        return self._measured[key]

    def __len__(self) -> int:
        return len(self._measured)

    @property
    def missing(self) -> list[str]:
        """The keys that are wanted and were not measured."""
        return [key for key in self._wanted if key not in self]

    def want(self, keys: Sequence[str]) -> None:
        """Say in the file what there is to measure, before anything is."""
        self._wanted = list(keys)
        self.save()

    def add(self, key: str, measurement: Mapping[str, Any]) -> None:
        """Note a measurement, and write the file if that was not done just now."""
        self._measured[key] = dict(measurement)
        if time.monotonic() - self._saved > SECONDS_BETWEEN_SAVES:
            self.save()

    def all(self, **wanted: Any) -> list[dict[str, Any]]:
        """The measurements with these values, in the order they were made."""
        return [
            entry
            for entry in self._measured.values()
            if all(entry.get(name) == value for name, value in wanted.items())
        ]

    def save(self) -> None:
        """Write the file as a whole, or not at all."""
        content = {
            "benchmark": self.benchmark,
            "options": self.options,
            "missing": self.missing,
            "notes": self.notes,
            "sessions": self.sessions,
            "measurements": [{"key": key, **entry} for key, entry in self._measured.items()],
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(self.path.name + ".part")
        beside.write_text(json.dumps(content, indent=1) + "\n")
        os.replace(beside, self.path)
        self._saved = time.monotonic()

    def measure(
        self, keys: Sequence[str], measure: Callable[[str], Mapping[str, Any]], label: str
    ) -> None:
        """Measure what is missing of ``keys``, in their order, under a progress bar.

        They are all that is wanted, or a part of it.

        Raises:
            Interrupted: On Ctrl-C or SIGTERM; what was measured is in the file.
        """
        missing = [key for key in keys if key not in self]
        bar = tqdm(total=len(keys), initial=len(keys) - len(missing), desc=label, unit="cell")
        try:
            with bar:
                for key in missing:
                    self.add(key, measure(key))
                    bar.update()
        except (KeyboardInterrupt, SystemExit):
            raise Interrupted(self.what_is_missing()) from None
        finally:
            self.save()

    def what_is_missing(self) -> str:
        """A sentence for who interrupted it."""
        return (
            f"Interrupted: {len(self.missing)} of {len(self._wanted)} measurements are missing. "
            f"What there is, is in {self.path}; the same command goes on there."
        )
