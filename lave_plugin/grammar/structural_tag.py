"""Structural tags that xgrammar misreads, found before xgrammar reads them.

xgrammar 0.2.7 resolves the tokens of a structural tag in a pass that does not look inside `repeat`:
there `exclude_tokens` are lost without a word, and `token_dispatch` ends the process.
"""

import json
from typing import Any

_WITH_EXCLUSIONS = {"exclude_token", "any_tokens"}
_WITH_TRIGGERS = {"token_dispatch", "token_triggered_tags"}


def misread_in_repeat(source: str) -> str | None:
    """The type of a format inside a `repeat` that xgrammar would misread, if there is one.

    `source` is the structural tag as the user wrote it; what is no JSON is left to xgrammar.
    """
    try:
        tag = json.loads(source)
    except ValueError:
        return None
    pending: list[tuple[Any, bool]] = [(tag, False)]
    while pending:
        value, in_repeat = pending.pop()
        if isinstance(value, list):
            pending += [(each, in_repeat) for each in value]
        if not isinstance(value, dict):
            continue
        kind = value.get("type")
        if kind in ("json_schema", "qwen_xml_parameter"):
            continue  # a schema may have properties of any name
        if in_repeat and (
            kind in _WITH_TRIGGERS or (kind in _WITH_EXCLUSIONS and value.get("exclude_tokens"))
        ):
            return kind
        pending += [(each, in_repeat or kind == "repeat") for each in value.values()]
    return None
