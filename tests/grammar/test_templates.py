"""Constraints put together as a request says it (`grammar/composition.py`)."""

import json
import re

import pytest
from xgrammar_oracle import byte_compiler

from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.composition import InvalidComposition, is_key, key_of, rules_of_key
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.implementation import states_of
from lave_plugin.grammar.normal_form import read_normal_form

COMPILER = byte_compiler()


def compile_single(kind, source):
    compile_source = {
        "json_schema": COMPILER.compile_json_schema,
        "regex": COMPILER.compile_regex,
        "ebnf": COMPILER.compile_grammar,
        "structural_tag": COMPILER.compile_structural_tag,
    }[kind]
    return read_normal_form(str(compile_source(source).grammar))


def takes(constraint, text):
    automaton = states_of(rules_of_key(key_of(constraint), compile_single))
    state = automaton.run(automaton.start, text.encode())
    return state != DEAD and automaton.accepting(state)


BRACKETS = 'root ::= "[" root "]" | "x"'
TABLE = [
    ([{"max_chars": 3}, "é", {}], ["é", "abcé", "éé", "日本é\n…"], ["", "abcdé", "abc"]),
    (["", {"regex": "a*"}, ""], ["", "aa"], ["b"]),
    ([{"regex": "a*", "max_chars": 2}, "."], [".", "aa."], ["aaa.", "aa"]),
    ([{"ebnf": BRACKETS, "max_chars": 5}, "!"], ["x!", "[[x]]!"], ["[[[x]]]!", "[x!"]),
    ([{"ebnf": BRACKETS}, "-", {"ebnf": BRACKETS}], ["x-x", "[x]-[[x]]"], ["[x-x]", "x-"]),
    (["v = ", {"json_schema": {"type": "integer"}}, ";"], ["v = 12;"], ["v = a;", "v = ;"]),
    ([{"max_chars": 0}, "a"], ["a"], ["ba"]),
    (["v = ", {"grammar": "json"}, ";"], ["v = [1, {}];"], ["v = [1,];", "v = [1]"]),
    ([{"grammar": "smiles", "max_chars": 4}, "."], ["C=CO.", "CCC."], ["CC(C)C.", "C=."]),
    (["is ", {"choice": ["yes", "no"]}, "."], ["is yes.", "is no."], ["is .", "is maybe."]),
]


@pytest.mark.parametrize(("template", "good", "bad"), TABLE)
def test_template(template, good, bad):
    for text in good:
        assert takes({"template": template}, text), text
    for text in bad:
        assert not takes({"template": template}, text), text


def test_a_template_among_others():
    template = {"template": ["<", {"max_chars": 9}, ">"]}
    nested = {"ebnf": 'root ::= "<" a ">"\na ::= "a" a "b" | ""'}
    all_three = {"all_of": [template, {"regex": "[<>ab]{3,}"}, nested]}
    for text in ("<ab>", "<aabb>", "<aaaabbbb>"):
        assert takes(all_three, text)
    for text in ("<>", "<aaaaabbbbb>", "<a>"):
        assert not takes(all_three, text)


# (constraints, texts that obey all of them, texts that do not obey some)
PROGRAM = "int f(int x) {\n    return "
WITH_SHIPPED = {
    "C++ and a template": (
        [{"grammar": "cpp"}, {"template": [PROGRAM, {}, ";\n}\n"]}],
        [f"{PROGRAM}x * (x + 1);\n}}\n", f"{PROGRAM}g(x, [&](int y) {{ return y; }});\n}}\n"],
        [f"{PROGRAM}x * (x + 1;\n}}\n", f"{PROGRAM}x +;\n}}\n", "int f(int x) { return x; }\n"],
    ),
    "Go and a bounded hole": (
        [{"grammar": "go"}, {"template": ["func f() int { return ", {"max_chars": 5}, " }"]}],
        ["func f() int { return a(b) }", "func f() int { return 1+2 }"],
        ["func f() int { return a(b }", "func f() int { return 1 + 2*3 }"],
    ),
    "SQL and an expression": (
        [{"grammar": "sql"}, {"regex": "SELECT [a-z, ]+ FROM t"}],
        ["SELECT a, b FROM t"],
        ["SELECT a, FROM t", "SELECT a FROM u", "SELECT 1 FROM t"],
    ),
    "a choice and JSON": (
        [{"choice": ["[1]", "[1", "{}"]}, {"grammar": "json"}],
        ["[1]", "{}"],
        ["[1", "[2]"],
    ),
}


@pytest.mark.parametrize("name", WITH_SHIPPED)
def test_grammars_that_ship_among_others(name):
    constraints, good, bad = WITH_SHIPPED[name]
    automaton = states_of(rules_of_key(key_of({"all_of": constraints}), compile_single))
    for text in good:
        assert automaton.accepting(automaton.run(automaton.start, text.encode())), text
    for text in bad:
        state = automaton.run(automaton.start, text.encode())
        assert state == DEAD or not automaton.accepting(state), text


def test_a_structural_tag_among_others():
    tag = {"type": "tag", "begin": "<a>", "content": {"type": "any_text"}, "end": "</a>"}
    tagged = {"structural_tag": {"type": "structural_tag", "format": tag}}
    both = {"all_of": [tagged, {"regex": "[^x]{9}"}]}
    assert takes(both, "<a>hi</a>")
    assert not takes(both, "<a>hx</a>")
    assert not takes(both, "<a>h</a>")


def test_equal_compositions_have_one_key():
    first = key_of({"all_of": [{"json_schema": {"type": "null"}}, {"regex": "null"}]})
    assert first == key_of({"all_of": [{"json_schema": '{"type": "null"}'}, {"regex": "null"}]})
    assert is_key(first)
    for other in (None, "", "{}", json.dumps({"type": "structural_tag"}), '{"type": "lave"}'):
        assert not is_key(other)


@pytest.mark.parametrize(
    ("constraint", "sentence"),
    [
        ({"template": "a"}, "lave.template must be a list"),
        ({"template": [3]}, "lave.template[0] must be a text"),
        ({"template": [{"regex": "a", "ebnf": "b"}]}, "a hole has one constraint"),
        ({"template": [{"max_chars": True}]}, "max_chars must be an integer"),
        ({"template": [{"regex": 3}]}, "lave.template[0].regex must be a text"),
        ({"all_of": [{"regex": "a", "ebnf": "b"}]}, "an object with one key"),
        ({"all_of": [{"lark": "a"}]}, "lave.all_of[0].lark is no constraint"),
        ({"all_of": []}, "lave.all_of must be a list"),
        ({"all_of": [{"grammar": "c"}]}, "lave.all_of[0].grammar: No grammar named 'c' ships"),
        ({"template": [{"grammar": 1}]}, "lave.template[0].grammar: No grammar named 1 ships"),
        ({"template": [{"choice": []}]}, "lave.template[0].choice: "),
    ],
)
def test_what_is_no_composition(constraint, sentence):
    with pytest.raises(InvalidComposition, match=re.escape(sentence)):
        key_of(constraint)


@pytest.mark.parametrize(
    ("constraint", "sentence"),
    [
        ({"template": ["\ud800"]}, "surrogate"),
        ({"template": [{"ebnf": BRACKETS, "max_chars": 60000}]}, "Lower max_chars"),
        ({"template": [{"regex": "a{5}", "max_chars": 4}]}, "No text obeys"),
        (
            {"all_of": [{"grammar": "go"}, {"template": ["func f() {", {"max_chars": 200}, "}"]}]},
            "leave such a bound out",
        ),
    ],
)
def test_refusals(constraint, sentence):
    with pytest.raises(UnsupportedGrammar, match=sentence):
        rules_of_key(key_of(constraint), compile_single)
