"""Judges answers with ``jsonschema``, in a process of its own: one JSON line in, one out.

A schema is a user's, and jsonschema searches its patterns with Python's ``re``, which can take for
ever and lets no other thread run meanwhile. A process can be ended.
"""

from __future__ import annotations

import json
import os
import sys
from functools import lru_cache
from typing import Any

import jsonschema
from jsonschema.validators import validator_for
from referencing import Registry


class _NotJudged(Exception):
    """What jsonschema cannot be asked."""


def fault(schema: str, text: str) -> str | None:
    """What is wrong with ``text`` under ``schema``: a keyword and its place, or "not JSON".

    Raises:
        Exception: any, where there is no telling.
    """
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except ValueError:
        return "not JSON"
    for error in _validator(schema).iter_errors(value):
        if error.validator == "multipleOf" and isinstance(error.instance, float):
            raise _NotJudged("multipleOf of a binary fraction")  # 0.3 is no multiple of 0.1 to it
        return f"{error.validator} at #{'/'.join(['', *map(str, error.schema_path)][:-1])}"
    return None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    value = json.loads(schema)
    # With a registry of its own it fetches nothing from anywhere.
    return validator_for(value, default=jsonschema.Draft202012Validator)(value, registry=Registry())


def main() -> None:
    """Answer each line ``[schema, text]`` by ``["valid" | "invalid" | "undecided", why]``."""
    os.nice(10)  # it must not take from the server what that could use
    for line in sys.stdin:
        try:
            why = fault(*json.loads(line))
            verdict = ("valid", "") if why is None else ("invalid", why)
        except Exception as error:
            verdict = ("undecided", type(error).__name__)
        print(json.dumps(verdict), flush=True)


if __name__ == "__main__":
    main()
