"""Judges of an answer that share no code with the engine that wrote it.

A check takes the answer's text and says why it is not acceptable, or None where it is.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

Check = Callable[[str], str | None]


def json_object(text: str) -> str | None:
    """Is it one JSON object?"""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return f"not JSON: {error}"
    return None if isinstance(value, dict) else f"JSON, but {type(value).__name__}, not an object"


def json_schema(schema: dict[str, Any]) -> Check:
    """Is it JSON that ``jsonschema`` accepts, by the draft that the schema names?"""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    validator = validator_for(schema, Draft202012Validator)(schema)

    def check(text: str) -> str | None:
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            return f"not JSON: {error}"
        error = next(validator.iter_errors(value), None)
        return error and f"against the schema: {error.message}"

    return check


def regex(pattern: str) -> Check:
    """Does ``re`` match the whole of it?"""
    compiled = re.compile(pattern)

    def check(text: str) -> str | None:
        return None if compiled.fullmatch(text) else f"no match of {pattern}"

    return check


def lark_grammar(grammar: str) -> Check:
    """Does lark's Earley parser accept it?"""
    from lark import Lark
    from lark.exceptions import UnexpectedInput

    parser = Lark(grammar)

    def check(text: str) -> str | None:
        try:
            parser.parse(text)
        except UnexpectedInput as error:
            return f"not in the grammar: {str(error).splitlines()[0]}"
        return None

    return check


def between(begin: str, check_inner: Check, end: str) -> Check:
    """Does it start and end with these tags, and is what stands between acceptable?"""

    def check(text: str) -> str | None:
        if not (text.startswith(begin) and text.endswith(end)):
            return f"not between {begin} and {end}"
        return check_inner(text[len(begin) : len(text) - len(end)])

    return check


@cache
def ebnf(grammar: str) -> Check:
    """Does xgrammar's own matcher take its bytes?"""
    import xgrammar

    compiled = _byte_compiler().compile_grammar(grammar)

    def check(text: str) -> str | None:
        matcher = xgrammar.GrammarMatcher(compiled)
        if not matcher.accept_string(text):
            return "not in the grammar"
        return None if matcher.is_completed() else "not finished"

    return check


@cache
def _byte_compiler():
    import xgrammar

    vocabulary = [bytes([byte]) for byte in range(256)] + [b""]
    return xgrammar.GrammarCompiler(
        xgrammar.TokenizerInfo(vocabulary, stop_token_ids=[256]), max_threads=1
    )
