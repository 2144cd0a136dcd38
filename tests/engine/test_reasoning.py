"""A reasoning parser and a constraint: the answer begins where the thinking ends."""

from __future__ import annotations

import itertools
import json
import re

import openai
import pytest
from client import Answer, generate_all, post
from mixed_requests import mixed_requests
from random_checkpoint import write_random_checkpoint

pytestmark = pytest.mark.engine

END = "</think>"
BLOCK = 16
CASES = {
    "JointThreshold, every position edited": ("JointThreshold", {"edit_threshold": 0.0}, []),
    "JointThreshold, edits, synchronous": (
        "JointThreshold",
        {"edit_threshold": 0.0, "max_post_edit_steps": 4},
        ["--no-dllm-fdfo"],
    ),
    # The last, for its server serves the tests below as well.
    "LowConfidence": ("LowConfidence", {"threshold": 0.3}, []),
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Random weights that think, and that like to begin and to end it."""
    folder = tmp_path_factory.mktemp("thinking-sdar")
    return write_random_checkpoint(folder, small=True, liked=("<think>", END))


@pytest.fixture(params=CASES)
def url(request, serve, checkpoint):
    algorithm, config, args = CASES[request.param]
    return serve(
        checkpoint,
        algorithm=algorithm,
        algorithm_config={"block_size": BLOCK, **config},
        constrained_decoding="lave",
        args=["--reasoning-parser", "qwen3", *args],
    ).url


def thinking_body(request) -> dict:
    body = request.body() | {"require_reasoning": True}
    body["sampling_params"]["max_new_tokens"] += 40
    return body


def judge(request, answer: Answer, thinks: bool) -> list[str]:
    _, end, text = answer.text.partition(END) if thinks else ("", END, answer.text)
    return [
        *(["thinking never ended"] if not end else []),
        *([f"invalid: {text!r}"] if not request.constraint.is_valid(text) else []),
        *([f"ended by {answer.finish}"] if answer.finish != "stop" else []),
        *(["too long"] if answer.tokens > request.max_new_tokens + 40 * thinks else []),
    ]


def test_thinking_and_other_requests_side_by_side(url, report):
    wanted = list(mixed_requests(52, seed=11))
    thinks = [index % 3 > 0 for index in range(len(wanted))]
    bodies = [
        thinking_body(request) if think else request.body()
        for request, think in zip(wanted, thinks, strict=True)
    ]
    answers = generate_all(url, bodies, at_once=8)
    faults = [
        f"{request.constraint.name}: {fault}"
        for request, answer, think in zip(wanted, answers, thinks, strict=True)
        for fault in judge(request, answer, think)
    ]
    assert not faults
    thoughts = [a.text.partition(END)[0] for a, t in zip(answers, thinks, strict=True) if t]
    report(f"thinking: {len({len(text) for text in thoughts})} lengths of {len(thoughts)}")
    assert len({len(text) for text in thoughts}) > 5, "only ever ended for want of room"


@pytest.fixture
def low_confidence(serve, checkpoint):
    return serve(
        checkpoint,
        algorithm="LowConfidence",
        algorithm_config={"block_size": BLOCK, "threshold": 0.3},
        constrained_decoding="lave",
        args=["--reasoning-parser", "qwen3"],
    ).url


DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"


def chat(url: str, **arguments):
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=60, max_retries=0)
    return client.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": "When?"}],
        max_tokens=90,
        temperature=0,
        **arguments,
    )


def test_the_openai_api_tells_thinking_and_answer_apart(low_confidence):
    choice = chat(low_confidence, extra_body={"regex": DATE}).choices[0]
    assert choice.finish_reason == "stop"
    assert choice.message.reasoning_content
    assert re.fullmatch(DATE, choice.message.content), choice.message

    thought, content = [], []
    for chunk in chat(low_confidence, extra_body={"regex": DATE}, stream=True):
        for streamed in chunk.choices:
            thought.append(getattr(streamed.delta, "reasoning_content", None) or "")
            content.append(streamed.delta.content or "")
    assert "".join(content) == choice.message.content
    assert "".join(thought).strip() == choice.message.reasoning_content.strip()


def test_with_thinking_switched_off_the_answer_begins_at_once(low_confidence):
    off = {"regex": DATE, "chat_template_kwargs": {"enable_thinking": False}}
    message = chat(low_confidence, extra_body=off).choices[0].message
    assert re.fullmatch(DATE, message.content), message


def native(**parameters) -> dict:
    parameters = {"temperature": 0, **parameters}
    return {"text": "x", "require_reasoning": True, "sampling_params": parameters}


def test_a_budget_without_a_token_to_spare(low_confidence):
    refused = post(low_confidence, native(regex=DATE, max_new_tokens=11))
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert "takes 12 tokens, end of thinking and end token included" in message
    (answer,) = generate_all(low_confidence, [native(regex=DATE, max_new_tokens=12)], 1)
    assert re.fullmatch(END + DATE, answer.text), answer


def test_ignore_eos_ends_with_the_grammar(low_confidence):
    body = native(regex=DATE, max_new_tokens=400, ignore_eos=True)
    result = post(low_confidence, body).json()
    assert re.fullmatch(f"(?s).*?{END}{DATE}", result["text"]), result
    assert result["meta_info"]["completion_tokens"] < 400


def test_a_stop_at_the_end_of_thinking_is_refused(low_confidence, checkpoint):
    tokenizer = json.loads((checkpoint / "tokenizer.json").read_text())
    (end_id,) = [t["id"] for t in tokenizer["added_tokens"] if t["content"] == END]
    response = post(low_confidence, native(regex=DATE, max_new_tokens=50, stop_token_ids=[end_id]))
    assert response.status_code == 400, response.text
    assert "stops at the end of thinking" in response.json()["error"]["message"]


def test_a_stream_never_takes_a_token_back(low_confidence):
    body = native(json_schema=json.dumps({"type": "array", "maxItems": 4}), max_new_tokens=200)
    response = post(low_confidence, body | {"stream": True})
    events = [line[6:] for line in response.text.splitlines() if line]
    assert events.pop() == "[DONE]"
    texts = [json.loads(event)["text"] for event in events]
    for shorter, longer in itertools.pairwise(texts):
        assert longer.startswith(shorter)
