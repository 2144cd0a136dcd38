"""Constraints that a request puts together, and schemas of which every keyword is kept."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import pytest
from client import generate, post

pytestmark = pytest.mark.engine


@pytest.fixture
def url(lave_server):
    return lave_server.url


def body(lave: dict | None = None, **parameters) -> dict:
    parameters = {"temperature": 0, "max_new_tokens": 300, **parameters}
    if lave is not None:
        parameters["custom_params"] = {"lave": lave}
    return {"text": "x", "sampling_params": parameters}


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"$ref": "#"}}, "b": {"type": "boolean"}},
    "required": ["b"],
    "additionalProperties": False,
}


def is_instance(text: str, schema=SCHEMA) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))


COMPOSED = {
    "a recursive schema and an expression": (
        body({"all_of": [{"json_schema": SCHEMA}, {"regex": "[^ \\n\\t\\r]{10,60}"}]}),
        lambda text: is_instance(text) and re.fullmatch(r"\S{10,60}", text),
    ),
    "beside the request's own": (
        body(
            {"all_of": [{"regex": "[a-f]+"}, {"ebnf": 'root ::= "a" root "b" | "a"'}]},
            regex=".{5,}",
        ),
        lambda text: re.fullmatch("(a+)b+", text) and len(text) >= 5,
    ),
    "a template": (
        body(
            {
                "template": [
                    "name: ",
                    {"regex": "[A-Z][a-z]{2,5}"},
                    "; data: ",
                    {"json_schema": SCHEMA},
                    "; so: ",
                    {"max_chars": 12},
                    ".",
                ]
            }
        ),
        lambda text: (
            (
                parts := re.fullmatch(
                    r"name: [A-Z][a-z]{2,5}; data: (.*?\}); so: .{0,12}\.", text, re.S
                )
            )
            and is_instance(parts[1])
        ),
    ),
    "a grammar that ships, and a template": (
        body(
            {
                "all_of": [
                    {"grammar": "cpp"},
                    {
                        "template": [
                            "int f(int x) {\n    return ",
                            {"regex": "[a-z0-9()+* ]+"},
                            ";\n}\n",
                        ]
                    },
                ]
            }
        ),
        lambda text: (
            re.fullmatch(r"int f\(int x\) \{\n    return [a-z0-9()+* ]+;\n\}\n", text)
            and text.count("(") == text.count(")")
        ),
    ),
    "a choice and a grammar that ships in holes": (
        body({"template": ["<", {"choice": ["on", "off"]}, "> ", {"grammar": "smiles"}, "\n"]}),
        lambda text: re.fullmatch(r"<(on|off)> [A-Za-z0-9@+\-\[\]()=#$:%/\\.*~]+\n", text),
    ),
    "a template and an expression": (
        body({"template": ["<", {"max_chars": 20}, ">"]}, regex="[<>a-c]{4,}"),
        lambda text: re.fullmatch("<[<>a-c]{2,20}>", text),
    ),
}


def test_composed_constraints_are_kept(url):
    """All at once, at both temperatures, and from the cache."""
    bodies = [
        {**asked, "sampling_params": {**asked["sampling_params"], "temperature": temperature}}
        for asked, _ in COMPOSED.values()
        for temperature in (0, 1, 1)
    ]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda each: generate(url, each), bodies))
    judges = [judge for _, judge in COMPOSED.values() for _ in range(3)]
    for answer, judge in zip(answers, judges, strict=True):
        assert answer.finish == "stop"
        assert judge(answer.text), answer.text


REFUSED = [
    ({"all_of": [{"regex": "a"}, {"regex": "b"}]}, "No text obeys all of the constraints"),
    ({"all_of": [{"regex": "a"}, {"json_schema": {"type": "strin"}}]}, "json_schema: "),
    ({"all_of": [{"ebnf": 'root ::= "a" root "b" | ""'}] * 2}, "Keep at most one"),
    ({"all_of": {"regex": "a"}}, "lave.all_of must be a list"),
    ({"all_of": [{"regexp": "a"}]}, "lave.all_of[0].regexp is no constraint"),
    ({"all_of": [{"grammar": "c"}]}, "lave.all_of[0].grammar: No grammar named 'c' ships"),
    ({"all_of": [{"grammar": "cpp"}, {"grammar": "json"}]}, "Keep at most one"),
    ({"template": ["a", {"regex": "b", "chars": 3}]}, "lave.template[1].chars is nothing"),
    ({"template": ["a", {"max_chars": -1}]}, "max_chars must be an integer"),
]


def test_what_cannot_be_put_together_is_refused(url):
    for lave, sentence in REFUSED:
        response = post(url, body(lave), timeout=20)
        assert response.status_code == 400, (lave, response.text)
        assert sentence in response.json()["error"]["message"], response.text


KEPT = [
    {"type": "string", "minLength": 4, "maxLength": 9, "pattern": "^[a-z]+$"},
    {"allOf": [{"$ref": "#/$defs/p"}, {"required": ["z"]}], "$defs": {"p": {"type": "object"}}},
    {"type": "integer", "multipleOf": 7, "minimum": 20, "not": {"enum": [21, 28]}},
    {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b"]}, "n": {"type": "integer"}},
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"required": ["n"]},
        "else": {"properties": {"n": False}},
    },
]


def test_keywords_that_xgrammar_ignores_are_kept_or_refused(url):
    for schema in KEPT:
        for temperature in (0, 1):
            asked = body(json_schema=json.dumps(schema), temperature=temperature)
            answer = generate(url, asked)
            assert answer.finish == "stop"
            assert is_instance(answer.text, schema), (schema, answer.text)
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    response = post(url, body(json_schema=json.dumps(schema)))
    assert response.status_code == 400
    message = response.json()["error"]["message"]
    assert "uniqueItems" in message and "#/properties/a" in message


def test_schemas_inside_structural_tags_are_kept_too(url):
    schema = {"type": "string", "pattern": "^[a-c]+$", "minLength": 3}
    content = {"type": "json_schema", "json_schema": schema}
    tag = {"type": "tag", "begin": "<f>", "content": content, "end": "</f>"}
    asked = {"type": "structural_tag", "format": tag}
    text = generate(url, body(structural_tag=json.dumps(asked))).text
    assert re.fullmatch('<f>"[a-c]{3,}"</f>', text), text


def test_schemas_between_tags_are_kept_or_refused(url):
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 3, "maxLength": 9, "pattern": "^[a-z]+$"},
            "days": {"type": "array", "items": {"type": "integer", "multipleOf": 3}, "maxItems": 2},
        },
        "required": ["city", "days"],
    }
    content = {"type": "json_schema", "json_schema": schema, "style": "qwen_xml"}
    tag = {"type": "tag", "begin": "<function=f>", "content": content, "end": "</function>"}
    asked = {"type": "structural_tag", "format": tag}
    for temperature in (0, 1):
        text = generate(url, body(structural_tag=json.dumps(asked), temperature=temperature)).text
        members = dict(re.findall(r"<parameter=(.*?)>\n?(.*?)\n?</parameter>", text, re.S))
        assert is_instance(json.dumps(members | {"days": json.loads(members["days"])}), schema)
    schema["properties"]["days"]["uniqueItems"] = True
    response = post(url, body(structural_tag=json.dumps(asked)))
    assert response.status_code == 400
    message = response.json()["error"]["message"]
    assert "uniqueItems" in message and "#/properties/days" in message
