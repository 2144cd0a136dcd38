"""What cannot be enforced is a 400 with a sentence, and the next request is answered."""

from __future__ import annotations

import json

import pytest
import requests
from client import generate, post

pytestmark = pytest.mark.engine

STRING_SCHEMA = json.dumps({"type": "object", "properties": {"a": {"type": "string"}}})

REFUSED = {
    "schema that is no JSON": ({"json_schema": "{"}, "Failed to compile json grammar"),
    "schema of an unknown type": (
        {"json_schema": '{"type": "strong"}'},
        "Failed to compile json grammar",
    ),
    "malformed regex": ({"regex": "[a-"}, "Failed to compile regex grammar"),
    "malformed EBNF": ({"ebnf": "root ::= ("}, "Failed to compile ebnf grammar"),
    "EBNF without its rule": ({"ebnf": "root ::= missing"}, "Failed to compile ebnf grammar"),
    "malformed structural tag": (
        {"structural_tag": '{"type": "structural_tag", "format": {"type": "none"}}'},
        "Failed to compile structural_tag grammar",
    ),
    "two constraints": ({"regex": "a", "json_schema": STRING_SCHEMA}, "Only one of"),
    "keyword xgrammar cannot express": (
        {"json_schema": '{"type": "array", "uniqueItems": true}'},
        "uniqueItems",
    ),
    "NUL byte": ({"regex": "a\x00b"}, "NUL"),
    "NUL byte inside a schema": ({"json_schema": '{"const": "a\\u0000b"}'}, "NUL"),
    "grammar without a sentence": ({"ebnf": 'root ::= "a" root'}, "no sentence"),
    "longer than anybody would wait for": (
        {"ebnf": 'root ::= "abcdefgh"{9000}'},
        "its shortest answer has 72000 bytes",
    ),
    "too few tokens": ({"regex": "abcdefgh", "max_new_tokens": 2}, "max_new_tokens=2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_sentence(lave_server, name):
    url = lave_server.url
    parameters, sentence = REFUSED[name]
    for _ in range(2):  # the second time from the engine's cache
        response = post(url, {"text": "x", "sampling_params": parameters}, timeout=20)
        assert response.status_code == 400, response.text
        assert sentence in response.json()["error"]["message"]
    good = generate(url, {"text": "x", "sampling_params": {"regex": "ab", "max_new_tokens": 9}})
    assert good.text == "ab"


def test_the_refusal_says_both_numbers(lave_server):
    url = lave_server.url
    parameters = {"regex": "[0-9]{12}", "max_new_tokens": 5}
    message = post(url, {"text": "x", "sampling_params": parameters}).json()["error"]["message"]
    assert "max_new_tokens=5" in message
    assert "13 tokens" in message


def test_the_context_limits_the_answer_too(lave_server):
    """2,048 tokens of context, 2,040 of them taken by the prompt: no block is left for 20."""
    url = lave_server.url
    body = {
        "input_ids": [7] * 2030,
        "sampling_params": {"regex": "[0-9]{20}", "max_new_tokens": 100},
    }
    response = post(url, body, timeout=20)
    assert response.status_code == 400, response.text


def test_a_streamed_request_is_refused_as_well(lave_server):
    url = lave_server.url
    body = {"text": "x", "stream": True, "sampling_params": {"regex": "("}}
    response = requests.post(f"{url}/generate", json=body, timeout=20)
    assert "Failed to compile regex grammar" in response.text


def test_without_the_flag_constraints_are_refused_and_do_not_hang(serve, small_random_checkpoint):
    options = {"algorithm": "LowConfidence", "algorithm_config": {"block_size": 16}}
    url = serve(small_random_checkpoint, constrained_decoding="none", **options).url
    response = post(url, {"text": "x", "sampling_params": {"regex": "ab"}}, timeout=20)
    assert response.status_code == 400
    assert "--constrained-decoding lave" in response.json()["error"]["message"]
    body = {"text": "x", "sampling_params": {"max_new_tokens": 8}}
    assert generate(url, body).tokens <= 8


def test_no_tokens_is_an_empty_answer_as_without_a_constraint(lave_server):
    """The engine sends such a request of its own before one with ``n`` > 1."""
    url = lave_server.url
    body = {"text": "x", "sampling_params": {"regex": "abc", "max_new_tokens": 0}}
    answer = generate(url, body)
    assert (answer.text, answer.tokens) == ("", 0)
