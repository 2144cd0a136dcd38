"""JSON with a limit on whitespace, by itself (then else xgrammar's builtin JSON) and in tags."""

import json

import pytest

from lave_plugin.grammar.compiler import OBJECT_OR_ARRAY, automaton_of
from lave_plugin.grammar.structural_tag import with_bounded_whitespace

TEXTS = {
    '{"a": [1, 2.5e3, null]}': True,
    '{"a":{"b":[[],{}]},"c":"\\u00e9\\n"}': True,
    "[]": True,
    "[ ]": True,
    "{ }": True,
    "[\t1,\n 2]": True,
    '{"a" : -0}': True,
    '{"a"  :   {}}': True,
    " {}": False,
    "{} ": False,
    "1": False,
    '"x"': False,
    "null": False,
    "[01]": False,
    "[1,]": False,
    '{"a"}': False,
    '["\t"]': False,
}
WIDE = ["[    1]", '{"a":     1}', '{"a":1    }', "[1,\n\n\n\n2]"]


@pytest.fixture(scope="module")
def builtin(compiler):
    return automaton_of(compiler.compile_builtin_json_grammar())


@pytest.fixture(scope="module")
def bounded(compiler):
    return automaton_of(compiler.compile_json_schema(OBJECT_OR_ARRAY, max_whitespace_cnt=3))


def accepts(states, text):
    return states.accepting(states.run(states.start, text.encode()))


@pytest.mark.parametrize("text", TEXTS)
def test_what_has_little_whitespace_is_judged_the_same(builtin, bounded, text):
    assert accepts(builtin, text) is accepts(bounded, text) is TEXTS[text]


@pytest.mark.parametrize("text", WIDE)
def test_more_whitespace_is_refused(builtin, bounded, text):
    assert accepts(builtin, text)
    assert not accepts(bounded, text)


A = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
JSON = {"type": "json_schema", "json_schema": A}
NAMED = {
    "type": "object",
    "properties": {"type": {"const": "json_schema"}},
    "required": ["type"],
    "additionalProperties": False,
}


def tag(content: dict) -> dict:
    return {"type": "tag", "begin": "<f>", "content": content, "end": "</f>"}


def legacy(schema: dict | None, **more) -> dict:
    structure = {"begin": "<f>", "schema": schema, "end": "</f>"}
    return {"structures": [structure], "triggers": ["<f"], **more}


# A structural tag or its format, and a text of it with ~ where whitespace may stand.
TAGS = {
    "schema": (JSON, '{~"a"~:~1~}'),
    "tag": (tag(JSON), '<f>{~"a":~1}</f>'),
    "sequence": (
        {"type": "sequence", "elements": [{"type": "const_string", "value": "x"}, JSON]},
        'x{~"a":~1}',
    ),
    "or": (
        {"type": "or", "elements": [{"type": "const_string", "value": "x"}, tag(JSON)]},
        '<f>{"a":~1}</f>',
    ),
    "repeat": ({"type": "repeat", "min": 1, "max": 2, "content": JSON}, '{"a":~1}{~"a":2}'),
    "optional": ({"type": "optional", "content": JSON}, '{"a":~1}'),
    "triggers": (
        {"type": "triggered_tags", "triggers": ["<f"], "tags": [tag(JSON)]},
        'so <f>{"a":~1}</f>',
    ),
    "separator": (
        {"type": "tags_with_separator", "tags": [tag(JSON)], "separator": ","},
        '<f>{"a":1}</f>,<f>{"a":~1}</f>',
    ),
    "dispatch": ({"type": "dispatch", "rules": [["<f>", JSON]]}, 'so <f>{"a":~1}'),
    "XML": ({**JSON, "style": "glm_xml"}, "~<arg_key>a</arg_key>~<arg_value>~1~</arg_value>~"),
    "deprecated": (
        {"type": "qwen_xml_parameter", "json_schema": A},
        "~<parameter=a>~1~</parameter>~",
    ),
    "no limit of its own": ({**JSON, "max_whitespace_cnt": None}, '{~"a":1}'),
    "a schema that looks like a format": (
        {"type": "json_schema", "json_schema": NAMED},
        '{~"type":~"json_schema"}',
    ),
    "legacy": (legacy(A), 'so <f>{~"a":~1}</f>'),
    "legacy, at least one": (legacy(A, at_least_one=True), '<f>{"a":~1}</f>'),
    "legacy, any value": (legacy(None), "<f>[~1]</f>"),
}


@pytest.mark.parametrize("name", TAGS)
def test_whitespace_inside_structural_tags_is_bounded(compiler, name):
    written, text = TAGS[name]
    if "type" in written:
        written = {"type": "structural_tag", "format": written}
    states = [
        automaton_of(compiler.compile_structural_tag(with_bounded_whitespace(source, limit)))
        for source in [json.dumps(written)]
        for limit in (3, 5)
    ]
    wide = [accepts(bounded, text.replace("~", " \n \t")) for bounded in states]
    narrow = [accepts(bounded, text.replace("~", " \n ")) for bounded in states]
    assert (wide, narrow) == ([False, True], [True, True])


def test_at_least_one_tag_of_the_legacy_form_is_still_asked_for(compiler):
    for at_least_one in (False, True):
        source = json.dumps(legacy(A, at_least_one=at_least_one))
        states = automaton_of(compiler.compile_structural_tag(with_bounded_whitespace(source, 3)))
        assert accepts(states, "no tag at all") is not at_least_one


@pytest.mark.parametrize(
    "source",
    [
        "no JSON",
        "[]",
        '{"structures": [{"begin": "<f>"}], "triggers": ["<"]}',
        '{"structures": 3, "triggers": []}',
        json.dumps({"type": "structural_tag", "format": {**JSON, "max_whitespace_cnt": 7}}),
    ],
)
def test_what_is_no_tag_or_has_its_own_limit_stays_as_it_is(source):
    assert with_bounded_whitespace(source, 3) == source
