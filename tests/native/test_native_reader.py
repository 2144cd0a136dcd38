"""The C++ reader makes of a normal form what the reference makes of it, node for node."""

from itertools import accumulate, chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sentences import EBNF, JSON_SCHEMA, REGEX

# The reader follows the reference from the commit on that has this module.
pytest.importorskip("lave_plugin.grammar.repetition")

from lave_plugin import native
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.normal_form import RuleAutomata, read_normal_form
from lave_plugin.native import _native, reader


def flat(rules):
    """The arrays of either form."""
    if not isinstance(rules, RuleAutomata):
        names = "names start root byte_begins byte_edges rule_begins rule_edges final"
        values = [getattr(rules, name) for name in names.split()]
        return [*values[:-1], [bool(final) for final in values[-1]]]

    def begins(edges):
        return list(accumulate(map(len, edges), initial=0))

    def numbers(edges):
        return list(chain.from_iterable(chain.from_iterable(edges)))

    return [
        rules.names,
        rules.start,
        rules.root,
        begins(rules.byte_edges),
        numbers(rules.byte_edges),
        begins(rules.rule_edges),
        numbers(rules.rule_edges),
        rules.final,
    ]


def native_rules(text):
    return _native.read_normal_form(text, reader._read_macro)


def assert_same(text):
    rules = native_rules(text)
    assert rules is not None, "left to the reference"
    assert flat(rules) == flat(read_normal_form(text))
    assert native.Automaton(rules).start == 0


TAGS = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<f"],
        "tags": [
            {
                "begin": f"<f={name}>",
                "content": {"type": "json_schema", "json_schema": {"type": kind}},
                "end": "</f>",
            }
            for name, kind in (("a", "integer"), ("b", "string"), ("c", "string"))
        ],
    },
}


@pytest.mark.parametrize("grammar", dict.fromkeys(grammar for grammar, _, _ in EBNF))
def test_ebnf(compiler, grammar):
    assert_same(str(compiler.compile_grammar(grammar).grammar))


@pytest.mark.parametrize("schema", [schema for schema, _, _ in JSON_SCHEMA], ids=repr)
def test_json_schema(compiler, schema):
    assert_same(str(compiler.compile_json_schema(schema).grammar))


@pytest.mark.parametrize("regex", dict.fromkeys(regex for regex, _, _ in REGEX))
def test_regex(compiler, regex):
    assert_same(str(compiler.compile_regex(regex).grammar))


def test_structural_tags(compiler):
    assert_same(str(compiler.compile_structural_tag(TAGS).grammar))


def test_built_in_json(compiler):
    assert_same(str(compiler.compile_builtin_json_grammar().grammar))


PLAIN = [
    # powers, aliases, and rules that say the same
    'root ::= ((a b c))\na ::= (("x"))\nb ::= (("x"))\nc ::= (("y" a) | ("y" b))',
    'root ::= ((a{3, 500} "."))\na ::= ((b))\nb ::= (("x") | ("yz"))',
    'root ::= ((a))\na ::= ("" | ("x" a))',
    "root ::= ((a a{0, 3} a))\na ::= (([a-z]))",
    "root ::= ((a))\na ::= ((b) | (b{2, 7}))\nb ::= (([é-ü]))",
    # long repetition: in blocks, of classes beyond ASCII, without bound
    "root ::= (([a-c]{0, 1000000}))",
    "root ::= (([é-ü]{70, 300}))",
    'root ::= (("ab"{200, -1}))',
    'root ::= (("\'\\"\\n\\xe9"{1, 129}))',
    "root ::= ((a{64, 64}) | (a{0, 65}))\na ::= ((b b) | (b))\nb ::= (([x]))",
    # classes: negated, escaped, with bars and dashes
    "root ::= (([^\\n\\]\\\\a-z\\xe9\\u4e00-\\u9fff-]))",
    "root ::= (([-a]) | ([a-]) | ([+--]))",
    "root ::= (([\\U0001f600-\\U0001f64f]))",
    # the empty string, repeated
    'root ::= (("a" ""* "b"))',
    'root ::= ((""*) | ("a" ""{2, 5}))',
    'root ::= ((""{3, -1} a{0, 3}))\na ::= ((""*) | ("x"))',
    # loops at either end, hints
    'root ::= ((root "a") | ("b" root) | ("c")) (=("x" (="y")))',
    'root ::= (("(" root ")") | (""))',
]


@pytest.mark.parametrize("text", PLAIN)
def test_plain(text):
    assert_same(text)


LEFT_TO_THE_REFERENCE = [
    "",
    "nothing",
    'root[capture="x"] ::= (("a"))',
    'roots ::= (("a"))',
    "root ::= ((a))",
    'root ::= (("a"))\nroot ::= (("b"))',
    'root ::= (("a" root))',
    'root ::= (("\\q"))',
    'root ::= (("\\ud800"))',
    'root ::= (("a"{2, 1}))',
    'root ::= (("a"{2, 99999999999999999999}))',
    "root ::= (([z-a]))",
    'root ::= ((Token("a")))',
    'root ::= (("a)',
    'root ::= (("a" *))',
    "root ::= ((*))",
    "root ::= (([a]*{2, 3}))",
    'root ::= ((""**))',
    'root ::= (("a" "b")*)',
    "root ::= ((((a))))",
]


@pytest.mark.parametrize("text", LEFT_TO_THE_REFERENCE)
def test_what_is_not_plain_is_left_to_the_reference(text):
    assert native_rules(text) is None


def test_an_error_is_the_reference_s_error():
    with pytest.raises(UnsupportedGrammar, match="no sentence"):
        reader.read_normal_form('root ::= (("a" root))')
    with pytest.raises(UnsupportedGrammar, match="TagDispatch"):
        reader.read_normal_form("root ::= TagDispatch(what=1)\n")


atoms = st.sampled_from(
    ['"a"', '"bc"', '"é"', "[ab]", "[^a]", "[à-ü]", "r0", "r1", "r2", "root", '"\\n"']
)
elements = st.one_of(
    atoms,
    st.sampled_from(['""', '""*', '""{2, 3}']),
    atoms.map(lambda atom: f"{atom}*"),
    st.tuples(atoms, st.integers(0, 70), st.integers(0, 140)).map(
        lambda given: f"{given[0]}{{{given[1]}, {given[1] + given[2]}}}"
    ),
    st.tuples(atoms, st.integers(0, 70)).map(lambda given: f"{given[0]}{{{given[1]}, -1}}"),
)
bodies = st.lists(st.lists(elements, max_size=3).map(" ".join), min_size=1, max_size=3).map(
    lambda choices: (
        "(" + " | ".join(f"({choice or ''.join(chr(34) * 2)})" for choice in choices) + ")"
    )
)
grammars = st.lists(bodies, min_size=4, max_size=4).map(
    lambda given: "".join(
        f"{name} ::= {body}\n" for name, body in zip(["root", "r0", "r1", "r2"], given, strict=True)
    )
)


@settings(max_examples=400, deadline=None)
@given(text=grammars)
def test_any_grammar(text):
    try:
        expected = read_normal_form(text)
    except UnsupportedGrammar:
        assert native_rules(text) is None
        return
    rules = native_rules(text)
    if rules is not None:
        assert flat(rules) == flat(expected)


@settings(max_examples=600, deadline=None)
@given(data=st.data())
def test_any_text(data):
    """Damaged grammars: read alike, left to the reference, or refused; never a crash."""
    text = data.draw(st.one_of(st.sampled_from(PLAIN), grammars))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        piece = data.draw(
            st.sampled_from(
                [
                    '"',
                    "\\",
                    "(",
                    ")",
                    "[",
                    "]",
                    "{",
                    "|",
                    "*",
                    "\n",
                    "é",
                    " ::= ",
                    "TagDispatch(",
                    "\\x",
                    "-",
                    "9",
                    "\0",
                    "^",
                    "",
                ]
            )
        )
        text = text[:at] + piece + text[at + data.draw(st.integers(0, 2)) :]
    try:
        rules = native_rules(text)
    except UnsupportedGrammar:
        rules = None
    if rules is None:
        return
    assert flat(rules) == flat(read_normal_form(text))
