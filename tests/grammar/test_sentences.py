"""Which texts a grammar takes: tables of (grammar, text, verdict), confirmed by xgrammar."""

import json

import pytest
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
