"""Paths of the engine that one server has: where the answer begins in a block, where it is cut."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from client import generate, post
from launches import BLOCK
from mixed_requests import PERSON, schema
from random_checkpoint import SPECIAL

pytestmark = pytest.mark.engine

MASK = SPECIAL.index("<|MASK|>")
WORD = 40  # any token that is text


@pytest.fixture
def url(lave_server):
    return lave_server.url


def ask(url: str, prompt: list[int], **parameters) -> dict:
    parameters = {"temperature": 0, "max_new_tokens": 60, **parameters}
    response = post(url, {"input_ids": prompt, "sampling_params": parameters})
    assert response.status_code == 200, response.text
    return response.json()


# Prompts of every length around one and two blocks, with a mask's id as text in them.
PROMPTS = {
    "first token of the first block": [WORD],
    "tail of one": [WORD] * (BLOCK + 1),
    "a whole block": [WORD] * BLOCK,
    "all but one": [WORD] * (2 * BLOCK - 1),
    "literal mask in the tail": [WORD] * BLOCK + [MASK, WORD, MASK],
    "a tail of literal masks": [WORD] * BLOCK + [MASK] * 5,
    "literal mask in a block before": [WORD, MASK] * BLOCK + [WORD],
    "a prompt of literal masks": [MASK] * (BLOCK - 1),
}


@pytest.mark.parametrize("name", PROMPTS)
def test_where_the_prompt_ends_in_its_block(url, name):
    result = ask(url, PROMPTS[name], regex="[a-f]{8}-[0-9]{8}")
    assert re.fullmatch("[a-f]{8}-[0-9]{8}", result["text"]), result
    assert MASK not in result["output_ids"]


def test_every_length_of_prompt_and_budget(url):
    """Lengths that share no factor with the block, several at a time."""
    is_person = schema("", PERSON).is_valid
    parameters = {"json_schema": json.dumps(PERSON), "temperature": 0}
    refused = post(url, {"text": "x", "sampling_params": {**parameters, "max_new_tokens": 1}})
    least = int(re.search(r"Allow at least (\d+)", refused.text)[1])

    def answer(step: int) -> dict:
        budget = least + 3 * step
        result = ask(url, [WORD] * (1 + 5 * step), max_new_tokens=budget, **parameters)
        assert result["meta_info"]["completion_tokens"] <= budget
        return result

    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(answer, range(20)):
            assert is_person(result["text"]), result
            assert result["meta_info"]["finish_reason"]["type"] == "stop"


@pytest.mark.parametrize("room", [23, 31, 32, 33, 47])
def test_the_end_of_the_context(url, room):
    """All that is left of the context, which the engine lets a request ask for at most."""
    result = ask(url, [WORD] * (2048 - room), regex="[a-f]{10,200}", max_new_tokens=room)
    assert re.fullmatch("[a-f]{10,200}", result["text"]), result
    assert result["meta_info"]["finish_reason"]["type"] == "stop"
    assert result["meta_info"]["completion_tokens"] <= room


def test_a_stop_string_cuts_where_it_stands(url):
    """As in SGLang: the client's own word wins, and what comes before obeys the grammar."""
    pattern = "[a-f]{9}-[0-9]{9}"
    whole = ask(url, [WORD], regex=pattern)["text"]
    result = ask(url, [WORD], regex=pattern, stop=["-"])
    assert result["meta_info"]["finish_reason"] == {"type": "stop", "matched": "-"}
    assert result["text"] == whole.partition("-")[0]
    other = ask(url, [WORD], regex=pattern, stop=["absent"])
    assert other["text"] == whole and other["meta_info"]["finish_reason"]["type"] == "stop"


def test_a_prefix_from_the_cache_gives_the_same_answer(url):
    prompt = [WORD + number for number in range(5 * BLOCK + 3)]
    parameters = {"json_schema": json.dumps(PERSON), "max_new_tokens": 200}
    first, second = (ask(url, prompt, **parameters) for _ in range(2))
    assert first["meta_info"]["cached_tokens"] == 0
    assert second["meta_info"]["cached_tokens"] >= 4 * BLOCK
    assert second["output_ids"] == first["output_ids"]
    # The answer's own blocks are in the cache as well.
    third = ask(url, prompt + first["output_ids"][: 2 * BLOCK], regex="[a-f]{20}")
    assert third["meta_info"]["cached_tokens"] > second["meta_info"]["cached_tokens"]
    assert re.fullmatch("[a-f]{20}", third["text"])


@pytest.mark.parametrize(
    "asked",
    [{"return_logprob": True}, {"return_logprob": True, "top_logprobs_num": 2, "stream": True}],
    ids=["whole", "streamed"],
)
def test_log_probabilities_are_refused(url, asked):
    """The engine makes none for a dLLM and answers with an empty list."""
    body = {"text": "x", "sampling_params": {"regex": "[a-f]{8}"}}
    response = post(url, body | asked)
    assert "log probabilities" in response.text
    if "stream" not in asked:
        assert response.status_code == 400
    assert generate(url, body).text


INDEL = {
    "algorithm": "JointThresholdInDel",
    "algorithm_config": {"block_size": BLOCK},
    "constrained_decoding": "lave",
    "args": ["--json-model-override-args", '{"delete_token_id": 5, "split_token_id": 6}'],
}


def test_insertions_and_deletions_are_refused(serve, small_random_checkpoint):
    url = serve(small_random_checkpoint, **INDEL).url
    body = {"text": "x", "sampling_params": {"regex": "[a-f]{8}", "max_new_tokens": 20}}
    response = post(url, body)
    assert response.status_code == 400
    message = response.json()["error"]["message"]
    assert "regex cannot be enforced under --dllm-algorithm JointThresholdInDel" in message
    del body["sampling_params"]["regex"]
    assert generate(url, body).tokens <= 20
