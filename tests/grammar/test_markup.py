"""JSON schemas in structural tags that write an object's members between tags."""

import json
import random
import re

import jsonschema
import pytest

from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.json_schema import Layout, UnsupportedSchema
from lave_plugin.grammar.structural_tag import exact_schemas_in
from lave_plugin.grammar.text_compiler import text_compiler

# How each style writes a member: its opening with the name in it, and its closing tag.
STYLES = {
    "qwen_xml": ("<parameter={}>", "</parameter>"),
    "minimax_xml": ('<parameter name="{}">', "</parameter>"),
    "glm_xml": ("<arg_key>{}</arg_key><arg_value>", "</arg_value>"),
}


def states(schema, style="qwen_xml"):
    content = {"type": "json_schema", "json_schema": schema, "style": style}
    tag = {"type": "structural_tag", "format": {**content, "max_whitespace_cnt": 2}}
    tag = exact_schemas_in(json.dumps(tag), Layout(most=2))
    return automaton_of(text_compiler().compile_structural_tag(tag))


def takes(automaton, text: str) -> bool:
    state = automaton.run(automaton.start, text.encode())
    return state != DEAD and automaton.accepting(state)


def written(style: str, members: dict[str, str]) -> str:
    opening, closing = STYLES[style]
    return "".join(f"{opening.format(name)}{text}{closing}" for name, text in members.items())


def a(schema, **more):
    """An object with the property `a`, which must be there."""
    return {"type": "object", "properties": {"a": schema}, "required": ["a"], **more}


STRING = {"type": "string"}
NESTED = {"type": "object", "properties": {"z": {"$ref": "#/$defs/s"}}, "required": ["z"]}
DEFS = {"s": STRING, "n": a({"$ref": "#/$defs/s"}), "r": {"$ref": "#"}}

# (schema, members that are taken, members that are not): texts as they stand between the tags.
TABLE = [
    (a(STRING), [{"a": "x"}, {"a": ""}, {"a": "<b> \n\"q"}], [{}, {"a": "x", "b": "y"}]),
    (
        a({"type": "string", "minLength": 2, "maxLength": 5}),
        [{"a": "ab"}, {"a": "a<b>c"}, {"a": "nulls"}],
        [{"a": "a"}, {"a": "abcdef"}, {"a": "a     "}, {"a": "     "}, {"a": "null"}],
    ),
    (
        a({"type": "string", "minLength": 2, "maxLength": 300}),
        [{"a": "ab"}, {"a": "a" * 300}, {"a": "a b\n" * 9 + "."}],
        [{"a": "a"}, {"a": "a" * 301}, {"a": "nUlL"}, {"a": " " * 20}, {"a": "a" + " " * 20}],
    ),
    (
        a({"type": "string", "pattern": "^[a-c]+$"}),
        [{"a": "abc"}],
        [{"a": ""}, {"a": "abd"}, {"a": '"abc"'}, {"a": " abc"}],
    ),
    (a({"type": "string", "format": "date"}), [{"a": "2024-02-29"}], [{"a": "2024-13-01"}]),
    (a({"enum": ["x", "y z"]}), [{"a": "x"}, {"a": "y z"}], [{"a": "z"}, {"a": '"x"'}]),
    (a({"const": 5}), [{"a": "5"}], [{"a": "6"}, {"a": '"5"'}]),
    (a({"type": "integer", "multipleOf": 5}), [{"a": "15"}], [{"a": "16"}, {"a": "x"}]),
    (a({"type": ["integer", "boolean"], "not": {"const": 3}}), [{"a": "true"}], [{"a": "3"}]),
    (
        a({"type": "array", "items": STRING, "minItems": 1, "contains": {"const": "k"}}),
        [{"a": '["k"]'}, {"a": '["x", "k"]'}],
        [{"a": '["x"]'}, {"a": "[k]"}, {"a": "[]"}],
    ),
    (
        a({"type": ["string", "null"], "maxLength": 3}),
        [{"a": "abc"}, {"a": "null"}, {"a": ""}],
        [{"a": "abcd"}],
    ),
    # A definition is a text between tags and JSON inside a value, whichever comes first.
    (
        {**a({"$ref": "#/$defs/s"}), "properties": {"a": {"$ref": "#/$defs/s"}, "o": NESTED},
         "$defs": DEFS},
        [{"a": "ab", "o": '{"z": "q"}'}],
        [{"a": "ab", "o": '{"z": q}'}],
    ),
    (
        {"type": "object", "properties": {"o": NESTED, "a": {"$ref": "#/$defs/s"}},
         "required": ["o", "a"], "$defs": DEFS},
        [{"o": '{"z": "q"}', "a": "ab"}],
        [{"o": '{"z": "q"}', "a": "ab", "b": ""}, {"o": '{"z": q}', "a": "ab"}],
    ),
    (
        {**a(STRING), "properties": {"a": STRING, "b": {"$ref": "#"}}},
        [{"a": "x", "b": '{"a": "y", "b": {"a": ""}}'}],
        [{"a": "x", "b": "<parameter=a>y</parameter>"}, {"a": "x", "b": '{"a": y}'}],
    ),
    (a({"type": "array"}), [{"a": '["x", 1]'}, {"a": "[]"}], [{"a": "[x]"}]),
    (a({}), [{"a": "[x]"}, {"a": ""}], [{}]),
    # What speaks of the object itself.
    (
        {"properties": {"a": STRING, "b": STRING}, "dependentRequired": {"a": ["b"]}},
        [{"a": "x", "b": "y"}, {"b": "y"}, {}],
        [{"a": "x"}],
    ),
    (
        {"type": "object", "properties": {"a": STRING, "b": {"type": "null"}}, "minProperties": 1},
        [{"a": "x"}, {"b": "null"}, {"a": "", "b": "null"}],
        [{}, {"b": "0"}],
    ),
    (
        {**a({"type": "integer"}), "additionalProperties": {"enum": ["x", "y"]}},
        [{"a": "1"}, {"a": "1", "b_2": "x", "c": "y"}],
        [{"a": "1", "b": "z"}, {"a": "1", "a ": "x"}, {"a": "1", "<": "x"}, {"b": "x"}],
    ),
    (
        {"anyOf": [a({"const": "x"}), a({"enum": [1, 2]}, additionalProperties=False)]},
        [{"a": "x"}, {"a": "2"}],
        [{"a": "y"}, {"a": "3"}, {}],
    ),
]  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("schema", "good", "bad"), TABLE, ids=[str(row[0])[:60] for row in TABLE])
def test_members(style, schema, good, bad):
    automaton = states(schema, style)
    for members in good:
        assert takes(automaton, written(style, members)), members
        spaced = re.sub("(</parameter>|</arg_value>|</arg_key>)", r"\1 \n", written(style, members))
        assert takes(automaton, spaced), spaced
    for members in bad:
        assert not takes(automaton, written(style, members)), members


def test_a_reader_of_qwen_takes_one_new_line_away():
    automaton = states(a({"type": ["boolean", "null"]}))
    for text in ("true", "\ntrue\n", "\nnull"):
        assert takes(automaton, written("qwen_xml", {"a": text})), text
    for text in (" true", "\n\ntrue", "true \n"):
        assert not takes(automaton, written("qwen_xml", {"a": text})), text


def test_tags_that_say_what_a_member_is():
    """DeepSeek's: a text and another value can be told apart."""
    automaton = states(a({"type": ["string", "integer"], "maxLength": 2}), "deepseek_xml")
    close = "</\uff5cDSML\uff5cparameter>"
    for string, text, taken in [
        ("true", "ab", True),
        ("true", "12", True),
        ("true", "123", False),
        ("false", "123", True),
        ("false", "ab", False),
    ]:
        member = f'<\uff5cDSML\uff5cparameter name="a" string="{string}">{text}{close}'
        assert takes(automaton, member) == taken, (string, text)


@pytest.mark.parametrize(
    ("schema", "style", "keyword", "path"),
    [
        (a({"type": "array", "uniqueItems": True}), "qwen_xml", "uniqueItems", "#/properties/a"),
        (a({"type": ["string", "integer"], "maxLength": 3}), "glm_xml", "type", "#/properties/a"),
        (a({"enum": ["a", 1]}), "qwen_xml", "type", "#/properties/a"),
        (a({"enum": ["a</parameter>", "b"]}), "qwen_xml", "enum", "#/properties/a"),
        (a(STRING, additionalProperties={"type": "null"}), "qwen_xml", "additionalProp", "#"),
        (a({"const": " a"}), "minimax_xml", "const", "#/properties/a"),
        (a({"type": "string", "pattern": "^ +$"}), "qwen_xml", "a text", "#/properties/a"),
        ({"properties": {"a b": {"minLength": 1}}}, "qwen_xml", "properties", "#/properties/a b"),
        ({"type": "array", "minItems": 1}, "qwen_xml", "type", "#"),
        (a({"type": "string", "minLength": 1}), "kimi_k3_xml", "minLength", "#/properties/a"),
        (a({"$ref": "#"}), "cohere_xml", "$ref", "#/properties/a"),
        (a({"type": "string", "format": "x"}), "minimax_m3_xml", "format", "#/properties/a"),
    ],
)
def test_refused_with_keyword_and_path(schema, style, keyword, path):
    with pytest.raises(UnsupportedSchema) as refusal:
        states(schema, style)
    assert f"at {path}: " in str(refusal.value)
    assert keyword in str(refusal.value)


@pytest.mark.parametrize("style", ["kimi_k3_xml", "cohere_xml", "minimax_m3_xml"])
def test_what_xgrammar_keeps_is_left_to_it(style):
    schema = a({"type": "integer", "minimum": 3}, additionalProperties=False)
    for kept in ({}, schema):
        tag = {"type": "json_schema", "json_schema": kept, "style": style}
        source = json.dumps({"type": "structural_tag", "format": tag})
        assert exact_schemas_in(source, Layout(most=2)) == source


def test_the_older_name():
    content = {"type": "qwen_xml_parameter", "json_schema": a({"type": "string", "minLength": 3})}
    tag = exact_schemas_in(json.dumps({"type": "structural_tag", "format": content}), Layout())
    automaton = automaton_of(text_compiler().compile_structural_tag(tag))
    assert takes(automaton, "<parameter=a>abc</parameter>")
    assert not takes(automaton, "<parameter=a>ab</parameter>")


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("place", range(len(TABLE)))
def test_random_sentences_read_back_are_instances(style, place):
    """By a reader as a tool parser is: the first closing tag ends a member, which is trimmed."""
    schema, *_ = TABLE[place]
    automaton, draw = states(schema, style), random.Random(place)
    judge = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    for _ in range(30):
        state, text = automaton.start, bytearray()
        while len(text) < 250 and automaton.can_continue(state):
            if automaton.accepting(state) and draw.random() < 0.2:
                break
            likely = [each for each in automaton.allowed_bytes(state) if chr(each) in '</>" anul1']
            byte = draw.choice(likely or automaton.allowed_bytes(state))
            text.append(byte)
            state = automaton.step(state, byte)
        text += automaton.shortest_completion(state)
        value = read(text.decode(), style, schema)
        assert judge.is_valid(value), (text.decode(), value)


def read(text: str, style: str, schema) -> dict:
    opening, closing = STYLES[style]
    begin = r"\s*".join(map(re.escape, opening.replace("><", ">\n<").format("NAME").split("\n")))
    member = re.compile(begin.replace("NAME", "(.*?)") + "(.*?)" + re.escape(closing), re.S)
    value, end = {}, 0
    while found := member.match(text, end + len(text[end:]) - len(text[end:].lstrip())):
        name, inner = found[1], found[2].strip()
        value[name] = None if inner.lower() == "null" and not free(schema, name) else inner
        if not is_text(schema, name, inner):
            value[name] = json.loads(inner)
        end = found.end()
    assert not text[end:].strip(), text[end:]
    return value


def property_of(schema, name):
    for part in (schema, *schema.get("anyOf", ())):
        if name in part.get("properties", {}):
            yield part["properties"][name]


def free(schema, name) -> bool:
    return any(each in ({}, STRING) or "$ref" in each for each in property_of(schema, name))


def is_text(schema, name, inner) -> bool:
    if inner.lower() == "null" and not free(schema, name):
        return False
    if name not in schema.get("properties", {"a": 0}):
        return True
    for each in property_of(schema, name):
        if each == {} or "string" in each.get("type", ()) or each.get("$ref", "").endswith("/s"):
            return True
        if inner in each.get("enum", [each.get("const")]):
            return True
    return False
