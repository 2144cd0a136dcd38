"""Which texts a grammar takes: tables of (grammar, text, verdict), confirmed by xgrammar."""

import json
import warnings

import pytest
from xgrammar import StructuralTagItem
from xgrammar_oracle import Oracle

from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.compiler import automaton_of


def judge(automaton, text: bytes) -> str:
    state = automaton.run(automaton.start, text)
    if state == DEAD:
        return "dead"
    return "accepted" if automaton.accepting(state) else "open"


EBNF = [
    # left recursion, right recursion, both, and through each other
    ('root ::= root "+" "1" | "1"', "1+1+1", "accepted"),
    ('root ::= root "+" "1" | "1"', "1+1+", "open"),
    ('root ::= root "+" "1" | "1"', "+", "dead"),
    ('root ::= "1" | "1" "+" root', "1+1+1", "accepted"),
    ('root ::= root "+" root | "1"', "1+1+1+1", "accepted"),
    ('root ::= "a" root | root "b" | "c"', "aacbb", "accepted"),
    ('root ::= "a" root | root "b" | "c"', "acba", "dead"),
    ('root ::= x "a" | "a"\nx ::= root "b" | x "c"', "abcaba", "accepted"),
    ('root ::= x "a" | "a"\nx ::= root "b" | x "c"', "abc", "open"),
    # hidden left recursion: what stands before it can be empty
    ('root ::= n root "b" | "a"\nn ::= "" | "x"', "xxabb", "accepted"),
    ('root ::= n root "b" | "a"\nn ::= "" | "x"', "abbb", "accepted"),
    ('root ::= n root "b" | "a"\nn ::= "" | "x"', "xxab", "open"),
    # nullable rules
    ('root ::= n n n "."\nn ::= "" | "a"', "aaa.", "accepted"),
    ('root ::= n n n "."\nn ::= "" | "a"', "aaaa", "dead"),
    ('root ::= n{2,5} ("x" | "y" root)\nn ::= "" | "k"', "kkykx", "accepted"),
    ('root ::= "" | "a" root "b"', "", "accepted"),
    ('root ::= "" | "a" root "b"', "aabb", "accepted"),
    ('root ::= "" | "a" root "b"', "aabbb", "dead"),
    # ambiguity
    ('root ::= root root | "a"', "aaaaaa", "accepted"),
    ('root ::= "if" root | "if" root "else" root | "s"', "ififselses", "accepted"),
    # palindromes: not deterministic
    ('root ::= "a" root "a" | "b" root "b" | ""', "abba", "accepted"),
    ('root ::= "a" root "a" | "b" root "b" | ""', "abab", "open"),
    # bounded repetition, also long
    ('root ::= a{2,4}\na ::= "x" | "yz"', "xyzx", "accepted"),
    ('root ::= a{2,4}\na ::= "x" | "yz"', "xxxxx", "dead"),
    ('root ::= "<" a{3,500} ">"\na ::= "x" | "yz"', "<" + "x" * 500 + ">", "accepted"),
    ('root ::= "<" a{3,500} ">"\na ::= "x" | "yz"', "<" + "x" * 501, "dead"),
    ('root ::= "<" a{3,500} ">"\na ::= "x" | "yz"', "<xx>", "dead"),
    ('root ::= "<" a{200,} ">"\na ::= "x" | "yz"', "<" + "yz" * 200 + ">", "accepted"),
    ('root ::= "<" a{200,} ">"\na ::= "x" | "yz"', "<" + "yz" * 199 + ">", "dead"),
    # characters beyond ASCII, whole and split
    ("root ::= [à-ü]+", "éàü", "accepted"),
    ("root ::= [à-ü]+", "ý", "dead"),
    ("root ::= [\\u4e00-\\u4e03]", "\u4e03", "accepted"),
    ("root ::= [\\u4e00-\\u4e03]", "\u4e04", "dead"),
    ('root ::= "é" [^a]', "é\U0001f600", "accepted"),
    ('root ::= "é" [^a]', b"\xc3", "open"),
    ('root ::= "é" [^a]', b"\xc3\xa9\xf0\x9f", "open"),
    ('root ::= "é" [^a]', "éa", "dead"),
    # every escape that xgrammar prints
    ('root ::= "\\"\\\\\\n\\r\\t" [\\-\\]a] [\\x01\\x1f\\x7f]', '"\\\n\r\t]\x7f', "accepted"),
]


@pytest.mark.parametrize(("grammar", "text", "verdict"), EBNF)
def test_ebnf(compiler, grammar, text, verdict):
    text = text.encode() if isinstance(text, str) else text
    compiled = compiler.compile_grammar(grammar)
    assert judge(automaton_of(compiled), text) == verdict
    assert Oracle(compiled).judge(text) == verdict


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 5},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["a", "é", None]}, "maxItems": 2},
        "parent": {"$ref": "#"},
    },
    "required": ["name"],
}
JSON_SCHEMA = [
    (PERSON, '{"name": "Ada"}', "accepted"),
    (PERSON, '{"name": "A"', "dead"),
    (PERSON, '{"name": "Adalov', "dead"),
    (PERSON, '{"name": "Ada", "age": 130}', "accepted"),
    (PERSON, '{"name": "Ada", "age": 131', "dead"),
    (PERSON, '{"name": "Ada", "tags": ["a", "\\u00e9"', "dead"),
    (PERSON, '{"name": "Ada", "tags": ["a", null], "parent": {"name": "Bob"}}', "accepted"),
    (PERSON, '{"name": "Ada", "tags": ["a", null, ', "dead"),
    (PERSON, '{"name": "Ada", "parent": {"name": "Bob", "parent": {"na', "open"),
    ({"type": "string", "pattern": "^[a-z]{2}\\d$"}, '"ab1"', "accepted"),
    ({"type": "string", "pattern": "^[a-z]{2}\\d$"}, '"ab"', "dead"),
    ({"type": "string", "maxLength": 3}, json.dumps("日本語", ensure_ascii=False), "accepted"),
    ({"type": "string", "maxLength": 3}, json.dumps("日本語é", ensure_ascii=False), "dead"),
    ({"type": "string", "maxLength": 10000}, '"' + "x" * 300, "open"),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 300}, "[1, 2]", "dead"),
    ({"type": "number", "minimum": -2, "exclusiveMaximum": 7.5}, "-1.5", "accepted"),
    ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, "nul", "open"),
    ({"const": {"a": [1, 2]}}, '{"a":[1,2]}', "accepted"),
]


@pytest.mark.parametrize(("schema", "text", "verdict"), JSON_SCHEMA)
def test_json_schema(compiler, schema, text, verdict):
    compiled = compiler.compile_json_schema(schema)
    assert judge(automaton_of(compiled), text.encode()) == verdict
    assert Oracle(compiled).judge(text.encode()) == verdict


REGEX = [
    (r"\d{3}-[a-z]+", "123-abc", "accepted"),
    (r"\d{3}-[a-z]+", "12-", "dead"),
    (r"^(a|bc)*$", "abcbca", "accepted"),
    (r"^(a|bc)*$", "abb", "dead"),
    (r"[^a-z\d]{3,500}", "ÀÀÀ", "accepted"),
    (r"[^a-z\d]{3,500}", "ÀÀa", "dead"),
    (r"(ab|cd){2,300}x?", "abcdab", "accepted"),
    (r"\w+@\w+\.(com|org)", "me@here.or", "open"),
    (r".{0,1000}", "anything\n", "accepted"),  # xgrammar's dot takes a newline
    (r"(?:a?){5}b", "aab", "accepted"),
]


@pytest.mark.parametrize(("regex", "text", "verdict"), REGEX)
def test_regex(compiler, regex, text, verdict):
    compiled = compiler.compile_regex(regex)
    assert judge(automaton_of(compiled), text.encode()) == verdict
    assert Oracle(compiled).judge(text.encode()) == verdict


def _tag(begin, end, pattern="[a-c]+"):
    return {
        "type": "tag",
        "begin": begin,
        "content": {"type": "regex", "pattern": pattern},
        "end": end,
    }


AB = {"type": "const_string", "value": "ab"}
CALLS = {
    "type": "triggered_tags",
    "triggers": ["<f="],
    "tags": [_tag("<f=a>", "</f>"), _tag("<f=b>", ["</f>", "</g>"])],
}
THINK_THEN_CALL = {
    "type": "sequence",
    "elements": [
        {"type": "tag", "begin": "<think>", "content": {"type": "any_text"}, "end": "</think>"},
        CALLS,
    ],
}
STRUCTURAL_TAGS = [
    (CALLS, "", "accepted"),
    (CALLS, "free text < with é, <f <f", "accepted"),
    (CALLS, "text <f=", "open"),
    (CALLS, "text <f=c", "dead"),
    (CALLS, "text <f=a>abc</f> more <f=b>a</g>", "accepted"),
    (CALLS, "text <f=a>abc</g", "dead"),
    ({**CALLS, "at_least_one": True}, "text", "dead"),
    ({**CALLS, "at_least_one": True}, "<f=a>a</f> text", "accepted"),
    ({**CALLS, "stop_after_first": True}, "x <f=a>a</f>", "accepted"),
    ({**CALLS, "stop_after_first": True}, "x <f=a>a</f>x", "dead"),
    ({**CALLS, "excludes": ["no"]}, "n", "accepted"),
    ({**CALLS, "excludes": ["no"]}, "no", "dead"),
    (THINK_THEN_CALL, "<think>hm </thin</think> so <f=a>a</f>", "accepted"),
    (THINK_THEN_CALL, "<think>hm", "open"),
    (THINK_THEN_CALL, "hm", "dead"),
    ({"type": "any_text"}, "anything\n", "accepted"),
    ({"type": "any_text", "excludes": ["é"]}, "caf\xe8", "accepted"),
    ({"type": "any_text", "excludes": ["é"]}, "café", "dead"),
    (
        {"type": "tags_with_separator", "separator": ",", "tags": [_tag("<a>", "</a>")]},
        "<a>b</a>,<a>c</a>",
        "accepted",
    ),
    (
        {"type": "dispatch", "rules": [["<x>", {"type": "const_string", "value": "yes"}]]},
        "a <x>yes <x>y",
        "open",
    ),
    (
        {"type": "repeat", "min": 2, "max": 3, "content": {"type": "const_string", "value": "ab"}},
        "ababab",
        "accepted",
    ),
    (
        {
            "type": "or",
            "elements": [
                {"type": "const_string", "value": "a"},
                {"type": "const_string", "value": "b"},
            ],
        },
        "b",
        "accepted",
    ),
]


@pytest.mark.parametrize(("tag_format", "text", "verdict"), STRUCTURAL_TAGS)
def test_structural_tag(compiler, tag_format, text, verdict):
    compiled = compiler.compile_structural_tag({"type": "structural_tag", "format": tag_format})
    assert judge(automaton_of(compiled), text.encode()) == verdict
    assert Oracle(compiled).judge(text.encode()) == verdict


LEGACY_TAGS = [
    ("I call <f=a>12</f> now", "accepted"),
    ("I call <f=a>x", "dead"),
    ("<g>true</g><g>fal", "open"),
    ("<f=b", "dead"),
]


@pytest.mark.parametrize(("text", "verdict"), LEGACY_TAGS)
def test_legacy_structural_tag(compiler, text, verdict):
    tags = [
        StructuralTagItem(begin="<f=a>", schema={"type": "integer"}, end="</f>"),
        StructuralTagItem(begin="<g>", schema={"type": "boolean"}, end="</g>"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        compiled = compiler.compile_structural_tag(tags, ["<f=", "<g>"])
    assert judge(automaton_of(compiled), text.encode()) == verdict
    assert Oracle(compiled).judge(text.encode()) == verdict


LARK = [
    ('start: "a" b* | "c"~3..5\nb: /[a-z]+/ | "Z"i\n%ignore " "', "a x z Z", "accepted"),
    ('start: "a" b* | "c"~3..5\nb: /[a-z]+/ | "Z"i\n%ignore " "', "c c", "open"),
    ("start: NUMBER\n%import common.NUMBER", "3.5e7", "accepted"),
]


@pytest.mark.parametrize(("grammar", "text", "verdict"), LARK)
def test_lark(compiler, grammar, text, verdict):
    compiled = compiler.compile_lark(grammar)
    assert judge(automaton_of(compiled), text.encode()) == verdict
    assert Oracle(compiled).judge(text.encode()) == verdict
