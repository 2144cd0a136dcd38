"""The requests that people send: the official client, streamed and not, and the native API."""

from __future__ import annotations

import itertools
import json
import re

import openai
import pytest
import requests
from mixed_requests import ARITHMETIC_EBNF, CALL_TAG, PERSON, is_arithmetic, is_call, schema

pytestmark = pytest.mark.engine

PHONE = r"\+[0-9]{2}( [0-9]{3}){2}"

is_person = schema("person", PERSON).is_valid


def is_json_object_or_array(text: str) -> bool:
    return isinstance(json.loads(text), dict | list)


CHAT_REQUESTS = {
    "json_schema": (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "person", "schema": PERSON, "strict": True},
            }
        },
        is_person,
    ),
    "json_object": ({"response_format": {"type": "json_object"}}, is_json_object_or_array),
    "regex": ({"extra_body": {"regex": PHONE}}, lambda t: re.fullmatch(PHONE, t) is not None),
    "ebnf": ({"extra_body": {"ebnf": ARITHMETIC_EBNF}}, is_arithmetic),
    "structural_tag": ({"response_format": CALL_TAG}, is_call),
}
NATIVE_REQUESTS = {
    "json_schema": (json.dumps(PERSON), is_person),
    "regex": (PHONE, CHAT_REQUESTS["regex"][1]),
    "ebnf": (ARITHMETIC_EBNF, is_arithmetic),
    "structural_tag": (json.dumps(CALL_TAG), is_call),
}


@pytest.fixture
def url(lave_server):
    return lave_server.url


@pytest.fixture
def client(url):
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=60, max_retries=0)


def chat(client: openai.OpenAI, **arguments):
    return client.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": "Alice Brown is 41 and lives in Oak Street."}],
        max_tokens=121,
        temperature=0,
        **arguments,
    )


@pytest.mark.parametrize("name", CHAT_REQUESTS)
def test_chat_completion(client, name):
    arguments, is_valid = CHAT_REQUESTS[name]
    choice = chat(client, **arguments).choices[0]
    assert choice.finish_reason == "stop"
    assert is_valid(choice.message.content), choice.message.content


@pytest.mark.parametrize("name", CHAT_REQUESTS)
def test_a_stream_adds_up_to_the_whole_answer(client, name):
    arguments, is_valid = CHAT_REQUESTS[name]
    whole = chat(client, **arguments).choices[0].message.content
    pieces, finish = [], None
    for chunk in chat(client, stream=True, **arguments):
        for choice in chunk.choices:
            pieces.append(choice.delta.content or "")
            finish = choice.finish_reason or finish
    assert "".join(pieces) == whole
    assert finish == "stop"
    assert is_valid(whole)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("field", NATIVE_REQUESTS)
def test_native_request(url, field, stream):
    value, is_valid = NATIVE_REQUESTS[field]
    body = {
        "text": "Alice",
        "stream": stream,
        "sampling_params": {"temperature": 0, "max_new_tokens": 121, field: value},
    }
    response = requests.post(f"{url}/generate", json=body, timeout=60, stream=stream)
    assert response.status_code == 200
    if stream:
        events = [line[6:] for line in response.iter_lines(decode_unicode=True) if line]
        assert events.pop() == "[DONE]"
        texts = [json.loads(event)["text"] for event in events]
        for shorter, longer in itertools.pairwise(texts):
            assert longer.startswith(shorter), "a token was shown and taken back"
        text = texts[-1]
    else:
        text = response.json()["text"]
    assert is_valid(text), text


def test_several_answers_to_one_request(client):
    arguments, is_valid = CHAT_REQUESTS["json_schema"]
    choices = chat(client, n=3, **arguments).choices
    assert len(choices) == 3
    assert all(is_valid(choice.message.content) for choice in choices)


def test_a_stop_token_may_only_stand_where_the_answer_is_complete(url):
    """The engine cuts an answer at ``stop_token_ids``: here at a token that is also text."""
    tokenizer = requests.post(
        f"{url}/tokenize", json={"prompt": "5", "add_special_tokens": False}, timeout=20
    ).json()
    (five,) = tokenizer["tokens"]
    body = {
        "text": "x",
        "sampling_params": {"regex": "[0-9]{6}", "max_new_tokens": 20, "stop_token_ids": [five]},
    }
    result = requests.post(f"{url}/generate", json=body, timeout=60).json()
    assert re.fullmatch("[0-9]{6}", result["text"]), result


def test_ignore_eos_ends_with_the_grammar(url):
    body = {
        "text": "x",
        "sampling_params": {"regex": "[a-f]{6}", "max_new_tokens": 400, "ignore_eos": True},
    }
    result = requests.post(f"{url}/generate", json=body, timeout=60).json()
    assert re.fullmatch("[a-f]{6}", result["text"]), result
    assert result["meta_info"]["completion_tokens"] <= 16


@pytest.mark.parametrize(
    "constraint",
    [{"regex": r"[\^q]{8}"}, {"ebnf": r"root ::= [\^q]{8}"}],
    ids=["regex", "ebnf"],
)
def test_a_class_that_begins_with_an_escaped_caret(url, constraint):
    """xgrammar 0.2.7 reads it as anything but a q, or prints it so."""
    body = {"text": "x", "sampling_params": {"max_new_tokens": 20, **constraint}}
    result = requests.post(f"{url}/generate", json=body, timeout=60).json()
    assert re.fullmatch(r"[\^q]{8}", result["text"]), result
