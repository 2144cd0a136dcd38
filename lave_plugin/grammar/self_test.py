"""Whether an xgrammar that was not tried still prints and judges as the plugin reads it.

The states are built from what xgrammar prints, and nothing promises that a later version prints
the same. So when another version is met than those that the whole test suite ran with, grammars of
every kind are compiled, walked along short texts, and judged by xgrammar's matcher and by the
states: at every prefix, which of the 256 bytes may follow and whether the text may end.
"""

import logging
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import NamedTuple

import xgrammar

from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.utf8 import unfinished_character

logger = logging.getLogger(__name__)

TRIED_VERSIONS = ("0.2.7",)

_END_TOKEN = 256


class XgrammarMismatch(RuntimeError):
    """The installed xgrammar is not as the plugin knows it; the message says where."""


class Case(NamedTuple):
    """A grammar, and texts that begin as its sentences do, each up to where it matters."""

    name: str
    compile: Callable[[xgrammar.GrammarCompiler], xgrammar.CompiledGrammar]
    texts: tuple[str, ...]


def check_version() -> None:
    """Test the installed xgrammar, unless it was tried; under a second.

    Raises
    ------
    XgrammarMismatch
        If a grammar of the table can't be read any more, or is judged in two ways.
    """
    found = version("xgrammar")
    if found in TRIED_VERSIONS:
        return
    tried = ", ".join(TRIED_VERSIONS)
    difference = first_difference(CASES)
    if difference is not None:
        raise XgrammarMismatch(
            f"the lave plugin was not tried with xgrammar {found} (tried: {tried}), and its own"
            f" reading of a grammar is not that version's: {difference}. So it could not enforce a"
            f" constraint. Install xgrammar {TRIED_VERSIONS[-1]}, or start without"
            " --constrained-decoding."
        )
    logger.warning(
        "xgrammar %s was not tried with the lave plugin (tried: %s); it judges the %d grammars of"
        " the self-test as the plugin does, so it goes on.",
        found,
        tried,
        len(CASES),
    )


def first_difference(cases: Iterable[Case]) -> str | None:
    """Where the states and xgrammar's matcher part, in words."""
    vocabulary = [*(bytes([byte]) for byte in range(256)), b""]
    info = xgrammar.TokenizerInfo(vocabulary, vocab_size=257, stop_token_ids=[_END_TOKEN])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    for case in cases:
        try:
            difference = _difference(case, compiler)
        except Exception as error:  # whatever an unknown version brings, it is a difference
            difference = f"{type(error).__name__}: {error}"
        if difference is not None:
            return f"{case.name}: {difference}"
    return None


def _difference(case: Case, compiler: xgrammar.GrammarCompiler) -> str | None:
    compiled = case.compile(compiler)
    automaton = automaton_of(compiled)
    for text in case.texts:
        matcher = xgrammar.GrammarMatcher(compiled)
        state, data = automaton.start, text.encode()
        for position in range(len(data) + 1):
            before = data[:position]
            allowed = automaton.allowed_bytes(state)
            for byte in range(256):
                theirs = matcher.accept_token(byte)
                if theirs:
                    matcher.rollback(1)
                if theirs != (byte in allowed) and not (
                    # It also takes what is no UTF-8, which is left out here on purpose.
                    theirs and unfinished_character(before + bytes([byte])) is None
                ):
                    return _sentence(theirs, f"{bytes([byte])!r} behind {before!r}")
            theirs = matcher.is_completed()
            if theirs != automaton.accepting(state) and not unfinished_character(before):
                return _sentence(theirs, f"the end of the text behind {before!r}")
            if position < len(data):
                if data[position] not in allowed:
                    break  # a version may take less than another; they agree on that
                matcher.accept_token(data[position])
                state = automaton.step(state, data[position])
    return None


def _sentence(theirs: bool, what: str) -> str:
    return f"xgrammar {'takes' if theirs else 'refuses'} {what}"


# --- the table: everything that xgrammar prints today ---------------------------------------------


def _ebnf(name: str, source: str, *texts: str) -> Case:
    return Case(name, lambda compiler: compiler.compile_grammar(source), texts)


def _schema(name: str, schema: dict, *texts: str, **options) -> Case:
    return Case(name, lambda compiler: compiler.compile_json_schema(schema, **options), texts)


def _tag(begin: str, end: str, pattern: str) -> dict:
    content = {"type": "regex", "pattern": pattern}
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _structural_tag(name: str, tag_format: dict, *texts: str) -> Case:
    tag = {"type": "structural_tag", "format": tag_format}
    return Case(name, lambda compiler: compiler.compile_structural_tag(tag), texts)


def _legacy_tags(compiler: xgrammar.GrammarCompiler) -> xgrammar.CompiledGrammar:
    tags = [
        xgrammar.StructuralTagItem(begin="<f=a>", schema={"type": "integer"}, end="</f>"),
        xgrammar.StructuralTagItem(begin="<f=b>", schema={"type": "boolean"}, end="</f>"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return compiler.compile_structural_tag(tags, ["<f="])


_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 70},
        "code": {"type": "string", "pattern": "^[a-c]{2}\\d$"},
        "size": {"type": "number", "minimum": 0.5, "maximum": 20},
        "kind": {"enum": ["a", "ab", None]},
        "parts": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
    },
    "required": ["name"],
    "additionalProperties": False,
}
_CALLS = {
    "type": "triggered_tags",
    "triggers": ["<f", "<g>"],
    "tags": [_tag("<f=a>", "</f>", "[a-c]+"), _tag("<g>", "</g>", "\\d")],
}

CASES = (
    _ebnf(
        "strings and classes with every kind of escape",
        'root ::= "\\"\\\\\\n\\r\\t\\x01\\x7f\\x85é日" [\\-\\]\\\\a^] [^\\n\\"b] [+--]'
        " [à-üα-ω\\u4e00-\\u9fff] [\\U0001f600-\\U0001f64f]",
        '"\\\n\r\t\x01\x7f\x85é日]é,ü😀',
        '"\\\n\r\t\x01\x7f\x85é日^\\-一😏',
    ),
    _ebnf(
        "left and right recursion",
        'root ::= root "+" term | term\nterm ::= "x" term | "y" | "(" root ")" | n root "!"\n'
        'n ::= "" | "~"',
        "xy+(y+xxy)!+~y!",
    ),
    _ebnf(
        "a grammar whose sentences may be empty", 'root ::= "" | "a" root "b" | root root', "aab"
    ),
    _ebnf("an ambiguous grammar", 'root ::= root root | "a" | "aa" | [ab] "c"?', "aabacaa"),
    _ebnf(
        "bounded repetition",
        'root ::= "<" a{2,4} ">" [0-9]{3,} "ab"{0,2} b{1,200} [p-r]* ("s" | "tu")* "."\n'
        'a ::= "x" | "yz"\nb ::= "é" | "e" [^a]',
        "<xyzxx>1234ababéeépqstus.",
        "<xx>123éé",
    ),
    _ebnf(
        "long repetition",
        'root ::= "<" a{3,300} ">"\na ::= "x" | "yz"',
        "<" + 298 * "x" + "yzx>",
    ),
    _ebnf(
        "long repetition without bound",
        'root ::= "<" [a-cé]{200,} ">"',
        "<" + 199 * "b" + "éc>",
    ),
    Case(
        "a regular expression",
        lambda compiler: compiler.compile_regex(
            r"^(\d{3}-)?[a-z]+@\w+\.(com|org)|[^a-z\d]{2,70}(à|é)*$"
        ),
        ("123-me@x_1.org", "ÀÀ.é"),
    ),
    _schema(
        "a JSON schema",
        _SCHEMA,
        '{"name": "Bo é", "code":"ab1" , "size": 19.5,"kind": "ab"}',
        '{"name":"x","parts":[{"name":"y","kind":null},{"name": "z"}]}',
    ),
    _schema(
        "a JSON schema with strict white space",
        {"type": "array", "items": {"type": ["integer", "boolean"]}, "minItems": 1},
        "[-12, true, 0]",
        any_whitespace=False,
    ),
    Case(
        "JSON without a schema",
        lambda compiler: compiler.compile_builtin_json_grammar(),
        ('{"a": [1.5e-7, "\\u00e9é", {}], "b": null}',),
    ),
    Case(
        "a Lark grammar",
        lambda compiler: compiler.compile_grammar(
            xgrammar.Grammar.from_lark(
                'start: item ("," item)*\nitem: WORD "="i INT~1..2 | "[" start? "]"\n'
                'WORD: /[a-z_]+/\n%import common.INT\n%ignore " "'
            )
        ),
        ("ab = 12 3, [ c_=4]",),
    ),
    _structural_tag("tags with triggers", _CALLS, "é < <f=a>abc</f><g>1</g> x", "<g>2</g"),
    _structural_tag(
        "tags of which one must come, and words that must not",
        {**_CALLS, "at_least_one": True, "excludes": ["no", "né"]},
        "<f=a>a</f>n o <g>1</g>nn",
    ),
    _structural_tag(
        "a tag behind which nothing may come",
        {**_CALLS, "stop_after_first": True},
        "so <g>7</g>",
    ),
    _structural_tag(
        "free text within tags",
        {
            "type": "sequence",
            "elements": [
                {"type": "tag", "begin": "<t>", "content": {"type": "any_text"}, "end": "</t>"},
                {"type": "tags_with_separator", "separator": ",", "tags": _CALLS["tags"]},
            ],
        },
        "<t>h é<</t</t><f=a>b</f>,<g>1</g>",
    ),
    Case("structural tags of the older form", _legacy_tags, ("x <f=a>-12</f> <f=b>true</f>",)),
)
