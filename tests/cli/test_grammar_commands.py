"""`lave check`, `lave complete` and `lave explain`: tables of what they say and return."""

import json

import pytest
from typer.testing import CliRunner

from lave_plugin.cli import app
from lave_plugin.cli.expected import expected, place, walk
from lave_plugin.grammar.by_bytes import compile_text
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.survey import left_recursive

LET = 'start: (stmt ";")+\nstmt: "let" ID "=" ID | ID "=" ID\nID: /[a-z]+/\n%ignore /[ \\n]+/\n'
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"enum": ["up", "down"]}},
    "required": ["x", "y"],
    "additionalProperties": False,
}

# (option, grammar, text, status, what is said)
CHECKED = [
    ("--regex", "[0-9]{4}", "2031", 0, ["valid"]),
    ("--regex", "[0-9]{4}", "2031\n", 0, ["valid"]),
    ("--regex", "[0-9]{4}", "20x1", 1, ["line 1, column 3: stops", "\n    ^\n", "0 to 9", "'00'"]),
    ("--regex", "[0-9]{4}", "203", 1, ["line 1, column 4: ends too early", "'0'"]),
    ("--regex", "[0-9]{4}", "20312", 1, ["column 5: stops", "the end of the text", "stop there"]),
    ("--regex", "[0-9]{4}\n?", "2031\n", 0, ["valid"]),
    ("--regex", "é+|日", "éx", 1, ["column 2", "a character beyond ASCII, the end of the text"]),
    ("--regex", "日本", "日木", 1, ["column 2", "expected  '本'"]),
    ("--ebnf", 'root ::= "a" root | "b"', "aab", 0, ["valid"]),
    ("--ebnf", 'root ::= "a" root | "b"', "aa", 1, ["column 3: ends", "expected  a, b"]),
    ("--ebnf", LET, "let x = y;", 0, ["valid"]),
    ("--lark", LET, "x=y;\n\nlet z 5;", 1, ["line 3, column 7: stops", "  let z 5;\n        ^\n"]),
    ("--json-schema", json.dumps(POINT), '{"x": 1, "y": "up"}', 0, ["valid"]),
    ("--json-schema", json.dumps(POINT), '{"x": 1, "y": "left"}', 1, ["column 16", "d, u"]),
    ("--json-schema", json.dumps(POINT), '{"x": 1,', 1, ['"y":"up"}']),
    # Keywords that xgrammar drops are kept here, as by a server.
    ("--json-schema", '{"not": {"type": "string"}}', '"x"', 1, ["column 1: stops"]),
    ("--json-schema", '{"not": {"type": "string"}}', "3", 0, ["valid"]),
    # What xgrammar would let through is judged as a server judges it.
    ("--json-schema", '{"type": "string", "minLength": 2}', '"a"', 1, ["column 3: stops"]),
    ("--json-schema", '{"multipleOf": 7}', "22", 1, ["column 3: ends too early"]),
    ("--grammar", "json", '{"a": [1]}', 0, ["valid"]),
    ("--grammar", "json", '{"a": [1,]}', 1, ["column 10: stops", "0]}"]),
    ("--regex", "x" * 300, "x" * 200 + "yz", 1, ["column 201: stops"]),
]


@pytest.mark.parametrize(("option", "grammar", "text", "status", "said"), CHECKED)
def test_check(option, grammar, text, status, said):
    result = CliRunner().invoke(app, ["check", option, grammar, "-"], input=text.encode())
    assert result.exit_code == status, result.output
    for words in said:
        assert words in result.output


@pytest.mark.parametrize(
    ("name", "grammar"),
    [
        ("g.json", json.dumps({"const": "a"})),
        ("g.lark", 'start: "\\"a\\""'),
        ("g.ebnf", 'root ::= "\\"a\\""'),
        ("g.GBNF", 'root ::= "\\"a\\""'),
        ("g.regex", '"a"\n'),
    ],
)
def test_the_ending_of_a_file_says_what_it_is(tmp_path, name, grammar):
    (tmp_path / name).write_text(grammar)
    (tmp_path / "good").write_text('"a"')
    (tmp_path / "bad").write_text('"b"')
    for text, status in (("good", 0), ("bad", 1)):
        command = ["check", str(tmp_path / name), str(tmp_path / text)]
        assert CliRunner().invoke(app, command).exit_code == status


BAD_USE = [
    (["check"], "no grammar"),
    (["check", "--regex", "a"], "no text to check"),
    (["check", "--regex", "a", "no-such-file"], "no-such-file: No such file"),
    (["check", "no-such-file.lark", "-"], "No such file"),
    (["check", "g.txt", "-"], "g.txt: the ending says what a grammar is"),
    (["check", "--regex", "a", "--ebnf", "b", "-"], "two grammars"),
    (["check", "--regex", "a", "one", "two"], "one argument too many: two"),
    (["explain", "--regex", "a", "one"], "one argument too many: one"),
    (["explain", "--regex", "["], "--regex: "),
    (["explain", "--ebnf", "root ::= b"], "--ebnf: "),
    (["explain", "--ebnf", 'root ::= "a" root'], "no sentence"),
    (["explain", "--ebnf", "root ::= Token(5)"], "tokens, of which only a server"),
    (["complete", "--lark", "start: b"], "line 1, column 8: b is not defined"),
    (["complete", "--json-schema", "{"], "--json-schema: "),
    (["check", "--json-schema", '{"uniqueItems": true}', "-"], "at #: uniqueItems"),
    (["explain", "--grammar", "cobol"], "No grammar named 'cobol' ships"),
]


@pytest.mark.parametrize(("command", "sentence"), BAD_USE)
def test_bad_use_is_status_2_and_a_sentence(command, sentence):
    result = CliRunner().invoke(app, command, input="")
    assert result.exit_code == 2
    assert sentence in result.output


# (option, grammar, prefix, status, output)
COMPLETED = [
    ("--regex", "[0-9]{4}", "20", 0, "2000\n"),
    ("--regex", "[0-9]{4}", "20\n", 0, "2000\n"),
    ("--regex", "[0-9]{4}", "2031", 0, "2031\n"),
    ("--regex", "[0-9]{4}", "2x", 1, "line 1, column 2: no sentence goes on like this"),
    ("--lark", LET, "let x", 0, "let x=a;\n"),
    ("--json-schema", json.dumps(POINT), '{"x": 12', 0, '{"x": 12,"y":"up"}\n'),
    ("--ebnf", 'root ::= "(" root ")" | ""', "((", 0, "(())\n"),
]


@pytest.mark.parametrize(("option", "grammar", "prefix", "status", "output"), COMPLETED)
def test_complete(option, grammar, prefix, status, output):
    result = CliRunner().invoke(app, ["complete", option, grammar, "-"], input=prefix.encode())
    assert result.exit_code == status
    assert result.output == output if status == 0 else output in result.output


def test_complete_without_a_prefix_and_only_the_rest():
    assert CliRunner().invoke(app, ["complete", "--regex", "ab+"]).output == "ab\n"
    command = ["complete", "--rest", "--regex", "abc", "-"]
    assert CliRunner().invoke(app, command, input="a").output == "bc\n"


EXPLAINED = [
    ("--regex", "ab*", ["(regex, 3 bytes)", "'a' (1 byte)", "left recursion     none"]),
    ("--regex", "a?", ["the empty text is one"]),
    ("--regex", "a{500}", ["500 bytes"]),
    (
        "--ebnf",
        'root ::= root "+" root | "1"',
        ["left recursion     root", "ambiguity          root ("],
    ),
    ("--ebnf", 'root ::= root "+" x | x\nx ::= "1"', ["no rule begins and ends with itself"]),
    ("--grammar", "json", ["rules", "edges that read", "left recursion     none", "for each new"]),
    ("--ebnf", LET, ["(lark, ", 'ambiguous: "let" as ID', "strict_keywords"]),
    ("--lark", f"%lave strict_keywords\n{LET}", ['kept apart: "let" as ID']),
    ("--lark", 'start: "a"', ["none is an identifier"]),
    ("--json-schema", json.dumps(POINT), ["rules", "nodes", "states", "us for a walk"]),
]


@pytest.mark.parametrize(("option", "grammar", "said"), EXPLAINED)
def test_explain(monkeypatch, option, grammar, said):
    monkeypatch.setattr("lave_plugin.cli.explain.WALK_SECONDS", 0.02)
    result = CliRunner().invoke(app, ["explain", option, grammar])
    assert result.exit_code == 0, result.output
    for words in said:
        assert words in " ".join(result.output.split("\n")) or words in result.output


LEFT_RECURSION = [
    ('root ::= root "a" | "b"', {"root"}),
    ('root ::= x\nx ::= y "a" | "b"\ny ::= x "c" | x', {"x", "y"}),
    ('root ::= n root "b" | "a"\nn ::= "" | "x"', {"root"}),
    ('root ::= "a" root | "b"', set()),
    ('root ::= ("" | "x") [a-c]* y\ny ::= "k" y | "l"', set()),
]


@pytest.mark.parametrize(("grammar", "rules"), LEFT_RECURSION)
def test_left_recursion(grammar, rules):
    found = set(left_recursive(str(compile_text("ebnf", grammar).grammar)))
    assert found & {"root", "x", "y", "n"} == rules


def test_a_place_is_told_in_characters():
    automaton = automaton_of(compile_text("regex", "é\né日"))
    data = "é\né月".encode()
    offset, state = walk(automaton, data)
    assert place(data, offset) == (2, 2, "é月")
    assert expected(automaton, state) == "'日'"


WORDS = [
    ("[a-d]", "a to d"),
    ("[ab]", "a, b"),
    ("[ -~]", "a blank to ~"),
    (r"[\x01-\x7f]", "a blank to ~, a tab, a new line, a carriage return"),
    (r"[\n\t]", "a tab, a new line"),
    ("abc|d", "a, d"),
    ("[,;]", "a comma, ;"),
    ("abc", "'abc'"),
    ("a?", "a, the end of the text"),
    ("[acegikmoqsuwy0246]", "0, 2, 4, 6, a, c, e, g, i, k, m, o, and others"),
]


@pytest.mark.parametrize(("regex", "words"), WORDS)
def test_what_is_expected_in_words(regex, words):
    automaton = automaton_of(compile_text("regex", regex))
    assert expected(automaton, automaton.start) == words
