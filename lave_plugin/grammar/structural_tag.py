"""What is done to structural tags before xgrammar reads them.

Some it misreads: xgrammar 0.2.7 resolves the tokens of a structural tag in a pass that does not
look inside `repeat`, so there `exclude_tokens` are lost without a word, and `token_dispatch` ends
the process. Whitespace in JSON inside a tag has a limit only where the tag says so. And the JSON
schemas in it are put in a form that is kept to the last keyword.
"""

import json
from collections.abc import Iterator
from typing import Any

from lave_plugin.grammar.json_schema import Layout, exact_grammar

_WITH_EXCLUSIONS = {"exclude_token", "any_tokens"}
_WITH_TRIGGERS = {"token_dispatch", "token_triggered_tags"}
_WITH_SCHEMA = {"json_schema", "qwen_xml_parameter"}


def misread_in_repeat(source: str) -> str | None:
    """The type of a format inside a `repeat` that xgrammar would misread, if there is one.

    `source` is the structural tag as the user wrote it; what is no JSON is left to xgrammar.
    """
    for value, in_repeat in _objects(_parsed(source)):
        kind = value.get("type")
        if in_repeat and (
            kind in _WITH_TRIGGERS or (kind in _WITH_EXCLUSIONS and value.get("exclude_tokens"))
        ):
            return kind
    return None


def grammars_in(source: str) -> list[str]:
    """The EBNF grammars of a structural tag."""
    objects = (value for value, _ in _objects(_parsed(source)) if value.get("type") == "grammar")
    return [value["grammar"] for value in objects if isinstance(value.get("grammar"), str)]


def with_bounded_whitespace(source: str, limit: int) -> str:
    """The same structural tag with at most `limit` characters of whitespace in a row in JSON.

    A format that sets its own `max_whitespace_cnt` keeps it. The legacy form (`structures` and
    `triggers`), which has no place for it, becomes the `triggered_tags` that it stands for. What
    is no structural tag is left for xgrammar to refuse.
    """
    tag = _parsed(source)
    if not isinstance(tag, dict):
        return source
    if tag.get("structures") is not None:
        tag = _without_legacy(tag)
        if tag is None:
            return source
    for value, _ in _objects(tag):
        if value.get("type") in _WITH_SCHEMA and value.get("max_whitespace_cnt") is None:
            value["max_whitespace_cnt"] = limit
    return json.dumps(tag)


def exact_schemas_in(source: str, layout: Layout) -> str:
    """The same structural tag with a grammar for every JSON schema that xgrammar would not keep.

    A format that sets its own `max_whitespace_cnt` keeps it, and the style (JSON, or between tags)
    that it names. What is no structural tag is left to xgrammar.

    Raises:
        UnsupportedSchema: If a keyword can't be enforced.
    """
    tag = _parsed(source)
    if isinstance(tag, dict) and tag.get("structures") is not None:
        tag = _without_legacy(tag)
    replaced = False
    for value, _ in _objects(tag):
        schema = value.get("json_schema")
        if value.get("type") in _WITH_SCHEMA and isinstance(schema, dict):
            # xgrammar's older name for it.
            older = value["type"] == "qwen_xml_parameter"
            style = "qwen_xml" if older else value.get("style", "json")
            most = value.get("max_whitespace_cnt")
            own = layout if most is None else layout._replace(most=most)
            grammar = exact_grammar(json.dumps(schema), own, style)
            if grammar is not None:
                value.clear()
                value.update({"type": "grammar", "grammar": grammar})
                replaced = True
    return json.dumps(tag) if replaced else source


def _without_legacy(tag: dict) -> dict | None:
    """As SGLang's `dispatch_structural_tag` reads the legacy form; `None` if it is none."""
    try:
        tags = [
            {
                "type": "tag",
                "begin": structure["begin"],
                "content": {
                    "type": "json_schema",
                    "json_schema": {} if structure.get("schema") is None else structure["schema"],
                },
                "end": structure["end"],
            }
            for structure in tag["structures"]
        ]
        triggered = {"type": "triggered_tags", "triggers": tag["triggers"], "tags": tags}
    except (KeyError, TypeError, AttributeError):
        return None
    triggered["at_least_one"] = tag.get("at_least_one", False)
    return {"type": "structural_tag", "format": triggered}


def _parsed(source: str) -> Any:
    try:
        return json.loads(source)
    except ValueError:
        return None


def _objects(tag: Any) -> Iterator[tuple[dict, bool]]:
    """All objects of a tag but those of its schemas, each with whether a `repeat` holds it."""
    pending = [(tag, False)]
    while pending:
        value, in_repeat = pending.pop()
        if isinstance(value, list):
            pending += [(each, in_repeat) for each in value]
        if not isinstance(value, dict):
            continue
        yield value, in_repeat
        kind = value.get("type")
        if kind not in _WITH_SCHEMA:  # a schema may have properties of any name
            pending += [(each, in_repeat or kind == "repeat") for each in value.values()]
