"""What the server counts is what its answers say, and both are what was sent."""

from __future__ import annotations

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from client import counts, post

pytestmark = pytest.mark.engine

PERSON = json.dumps(
    {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
)


def body(**parameters) -> dict:
    parameters = {"temperature": 0, "max_new_tokens": 60, **parameters}
    return {"text": "x", "sampling_params": parameters}


ANSWERED = [
    *(body(json_schema=PERSON, temperature=1, sampling_seed=seed) for seed in range(3)),
    body(json_schema='{"enum": ["yes", "no"]}'),
    body(regex="[a-z]{4} is forced"),
    body(ebnf='root ::= "(" root ")" | "a"'),
    body(regex="[0-9]{20}", custom_params={"lave": {"strategy": "map"}}),
    # Noise that goes on until it is cut.
    body(
        regex="[0-9]{8}",
        custom_params={"lave": {"strategy": "none"}},
        max_new_tokens=9,
        ignore_eos=True,
    ),
    body(custom_params={"lave": {"choice": ["left", "right"]}}),
]
REFUSED = [
    (body(regex="(a"), "grammar"),
    (body(regex="(a"), "grammar"),  # from the engine's cache
    (body(json_schema='{"type": "array", "uniqueItems": true}'), "grammar"),
    (body(regex="abcdefgh", max_new_tokens=2), "length"),
    (body(regex="a", custom_params={"lave": {"strategy": "dingo"}}), "parameters"),
    (body(custom_params={"lave": {"grammar": "cobol"}}), "parameters"),
    ({**body(regex="a"), "return_logprob": True}, "not_covered"),
    ({**body(regex="a"), "input_ids": [7] * 3000, "text": None}, None),  # before it gets here
]


def of_series(counted: Counter, name: str) -> Counter[str]:
    return Counter({labels: n for (series, labels), n in counted.items() if series == name and n})


def test_metrics_and_meta_info_add_up_to_what_was_sent(lave_server):
    url = lave_server.url
    before = counts(url)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda one: post(url, one).json()["meta_info"], ANSWERED))
        refusals = list(pool.map(lambda one: post(url, one[0]).status_code, REFUSED))
    post(url, {"text": "x", "sampling_params": {"max_new_tokens": 8}})  # is not counted
    assert refusals == [400] * len(REFUSED)
    facts = [answer["lave"] for answer in answers]
    checked = {"valid": 4}  # the answers to a JSON schema, behind their answers
    for _ in range(150):
        now = counts(url)
        counted = Counter({key: now[key] - before[key] for key in now})
        if of_series(counted, "json_checks_total").total() >= 4:
            break
        time.sleep(0.4)
    assert of_series(counted, "json_checks_total") == checked

    assert of_series(counted, "requests_total") == {
        "json_schema lave": 4,
        "regex lave": 1,
        "ebnf lave": 1,
        "regex map": 1,
        "regex none": 1,
        "lave.choice lave": 1,
    }
    # Of 20 digits nine tokens of noise are not the end: that one was cut by its length.
    complete = [answer["finish_reason"]["type"] == "stop" for answer in answers]
    assert (
        complete == [of["complete"] for of in facts] == [of["strategy"] != "none" for of in facts]
    )
    assert of_series(counted, "finished_requests_total") == {
        "complete lave": 7,
        "complete map": 1,
        "incomplete none": 1,
    }
    assert of_series(counted, "refused_requests_total") == Counter(
        reason for _, reason in REFUSED if reason
    )
    for name, fact in {
        "denoising_steps": "steps",
        "accepted_tokens": "accepted",
        "refused_tokens": "refusals",
        "recovered_tokens": "recoveries",
        "forced_tokens": "forced_tokens",
        "unverified_tokens": "unverified",
        "undecided_searches": "undecided",
    }.items():
        said: Counter[str] = Counter()
        for of in facts:
            said[of["strategy"]] += of[fact]
        assert of_series(counted, f"{name}_total") == +said, name
    assert of_series(counted, "forced_tokens_total")["lave"] > 0
    assert of_series(counted, "refused_tokens_total")["lave"] > 0

    # One observation for each step of a batch, in which several requests may have had theirs.
    steps = [of["steps"] for of in facts]
    observed = counted["verification_seconds_count", ""]
    assert max(steps) <= observed <= sum(steps)
    assert counted["verification_seconds_bucket", "+Inf"] == observed
    assert 0 < counted["verification_seconds_sum", ""] < 60
    assert now["states", ""] > 10 and now["state_bytes", ""] > 100


CHAT = {
    "model": "default",
    "messages": [{"role": "user", "content": "x"}],
    "temperature": 0,
    "max_tokens": 40,
    "regex": "[a-z]{4} is forced",
}
COMPLETION = {key: value for key, value in CHAT.items() if key != "messages"} | {"prompt": "x"}
REPORT = {"custom_params": {"lave": {"report": True}}}


def ask(url: str, path: str, request: dict) -> requests.Response:
    response = requests.post(f"{url}/v1/{path}", json=request, timeout=60)
    assert response.status_code == 200, response.text
    return response


@pytest.mark.parametrize(
    ("path", "request_"), [("chat/completions", CHAT), ("completions", COMPLETION)]
)
def test_the_openai_response_says_it_on_request(lave_server, path, request_):
    url = lave_server.url
    whole = ask(url, path, {**request_, **REPORT, "n": 2}).json()
    assert len(whole["choices"]) == 2
    first, second = whole["metadata"]["lave"]
    assert first == second  # at temperature 0
    assert first["strategy"] == "lave" and first["complete"] and first["forced_tokens"] > 0
    assert first["steps"] > 0
    assert "lave" not in ask(url, path, request_).json()["metadata"]
    free = {**{k: v for k, v in request_.items() if k != "regex"}, **REPORT}
    assert ask(url, path, free).json()["metadata"]["lave"] == [None]


def test_a_streamed_chat_says_it_before_it_ends(lave_server):
    url = lave_server.url
    text = ask(url, "chat/completions", {**CHAT, **REPORT, "stream": True}).text
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line]
    assert lines.pop() == "[DONE]"
    chunks = [json.loads(line) for line in lines]
    (facts,) = [chunk["metadata"]["lave"] for chunk in chunks if "metadata" in chunk]
    assert facts == ask(url, "chat/completions", {**CHAT, **REPORT}).json()["metadata"]["lave"]
    spelled = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    assert spelled.endswith(" is forced")
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_report_is_yes_or_no(lave_server):
    wrong = body(regex="a", custom_params={"lave": {"report": "yes"}})
    response = post(lave_server.url, wrong)
    assert response.status_code == 400
    assert "lave.report must be true or false, got 'yes'" in response.json()["error"]["message"]
