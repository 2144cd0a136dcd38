"""Judges of an answer: does it meet the constraint, and is it right?

Neither judge shares code with the plugin's states. *Right* is what an answer does where it can be
run (C++ against its tests, SQL on its database), what it says where it is JSON or a molecule and
RDKit is there, and else the reference to the letter.
"""

from __future__ import annotations

import contextlib
import sqlite3

from lave_plugin.bench import programs, scoring
from lave_plugin.demo import checks
from lave_plugin.demo.records import Sample
from lave_plugin.demo.tasks.cpp import program

SQL_STEPS = 200_000
"""Instructions of SQLite's machine that a query may take."""


def check_of(sample: Sample) -> checks.Check:
    """The judge of the sample's constraint; it accepts everything where there is none."""
    if sample.schema is not None:
        return checks.json_schema(sample.schema)
    if sample.regex is not None:
        return checks.regex(sample.regex)
    return checks.ebnf(sample.grammar) if sample.grammar is not None else lambda text: None


def is_valid(sample: Sample, text: str) -> bool:
    """Whether a text meets the sample's constraint."""
    return check_of(sample)(text) is None


def is_right(sample: Sample, text: str) -> bool:
    """Whether a text does what the prompt asks for.

    Raises:
        Unscorable: It is C++, and there is no compiler.
    """
    if text == sample.answer:
        return True
    if sample.kind == "cpp":
        return programs.passes(program(text, sample.tests)) == "passed"
    if sample.kind == "sql":
        return _rows(sample.tests, text) == _rows(sample.tests, sample.answer)
    if sample.kind == "smiles" and scoring.has_rdkit():
        return scoring.same_molecule(text, sample.answer)
    return sample.schema is not None and scoring.same_json(text, sample.answer)


def _rows(database: str, query: str) -> list[tuple] | str:
    """What a query returns, in no order unless it asks for one; or why it returns nothing."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(database)
        connection.execute("PRAGMA query_only = 1")
        steps = iter(range(SQL_STEPS // 1000))
        connection.set_progress_handler(lambda: next(steps, None) is None, 1000)
        try:
            rows = connection.execute(query).fetchall()
        except (sqlite3.Error, sqlite3.Warning) as error:
            return f"{query}: {error}"
    return rows if "ORDER BY" in query else sorted(rows, key=repr)
