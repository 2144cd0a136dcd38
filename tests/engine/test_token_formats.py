"""Structural tags that speak of tokens, or count them, through the real engine."""

from __future__ import annotations

import json

import pytest
import xgrammar
from client import post
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from lave_plugin.demo.shipped import CHECKPOINT

pytestmark = pytest.mark.engine

CALL, DONE = "<|im_start|>", "<|endoftext|>"  # special tokens that end nothing


def token(name: str) -> dict:
    return {"type": "token", "token": name}


def tag(begin, content: dict, end) -> dict:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def ask(url: str, tag_format: dict, **parameters) -> dict:
    """The answer to a structural tag, with its special tokens and its ids."""
    structural_tag = json.dumps({"type": "structural_tag", "format": tag_format})
    body = {
        "text": "x",
        "sampling_params": {
            "structural_tag": structural_tag,
            "max_new_tokens": 40,
            "skip_special_tokens": False,
            **parameters,
        },
    }
    response = post(url, body)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))


class Matchers:
    """xgrammar's own matcher for a structural tag, over the model's vocabulary."""

    def __init__(self, checkpoint) -> None:
        info = xgrammar.TokenizerInfo.from_huggingface(AutoTokenizer.from_pretrained(checkpoint))
        self.vocab_size = info.vocab_size
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def __call__(self, structural_tag: dict) -> xgrammar.GrammarMatcher:
        return xgrammar.GrammarMatcher(self._compiler.compile_structural_tag(structural_tag))


@pytest.fixture(scope="module")
def matcher_of() -> Matchers:
    return Matchers(CHECKPOINT)


@pytest.fixture
def url(shipped_server) -> str:
    return shipped_server.url


def test_special_tokens_stand_where_the_tag_names_them(url, tokenizer):
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "enum": [1, 2, 3]}},
        "required": ["n"],
        "additionalProperties": False,
    }
    content = {"type": "json_schema", "json_schema": schema}
    answer = ask(url, tag(token(CALL), content, token(DONE)))
    ids = answer["output_ids"]
    call, done = tokenizer.token_to_id(CALL), tokenizer.token_to_id(DONE)
    assert answer["meta_info"]["finish_reason"]["type"] == "stop"
    assert (ids[0], ids.count(call), ids.count(done)) == (call, 1, 1)
    inside = tokenizer.decode(ids[1 : ids.index(done)])
    assert json.loads(inside)["n"] in (1, 2, 3)


def test_free_tokens_are_counted(url, tokenizer):
    thought = tag(token(CALL), {"type": "any_tokens", "max_tokens": 5}, token(DONE))
    after = {"type": "const_string", "value": "so be it"}
    answer = ask(url, {"type": "sequence", "elements": [thought, after]})
    ids = answer["output_ids"]
    done = ids.index(tokenizer.token_to_id(DONE))
    assert ids[0] == tokenizer.token_to_id(CALL)
    assert done - 1 <= 5
    assert tokenizer.decode(ids[done + 1 :]) == "so be it"
    mask = tokenizer.token_to_id("<|MASK|>")
    assert mask not in ids


def test_text_is_counted(url):
    answer = ask(url, tag("<a>", {"type": "any_text", "max_chars": 7}, "</a>"))
    text = answer["text"].removesuffix("<|im_end|>")
    assert text.startswith("<a>") and text.endswith("</a>")
    assert len(text.removeprefix("<a>").removesuffix("</a>")) <= 7


LIMITED = {
    "recursive": 'root[max_tokens=9] ::= "(" root ")" | [a-z]+',
    "one in another": (
        'root[max_tokens=12] ::= (word " "?)* list?\nword[max_chars=3] ::= [a-z]*\n'
        'list ::= "[" (word | list) "]"'
    ),
}


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("name", LIMITED)
def test_limits_hold_over_rules_within_rules(url, matcher_of, name, temperature):
    """Beside answers of other grammars, whose rows are stepped natively."""
    content = {"type": "grammar", "grammar": LIMITED[name]}
    limited = {"type": "structural_tag", "format": tag("<a>", content, "</a>")}
    others = [{"regex": "[ab]{5}"}, {"ebnf": 'root ::= "(" root ")" | "x"'}]
    requests = [{"structural_tag": json.dumps(limited)}, *others]
    sampling = {"max_new_tokens": 40, "temperature": temperature, "skip_special_tokens": False}
    body = {
        "text": ["Numbers: (a (b c)) [d]"] * len(requests),
        "sampling_params": [{**each, **sampling} for each in requests],
    }
    response = post(url, body)
    assert response.status_code == 200, response.text
    answer, *_ = answers = response.json()
    assert all(each["meta_info"]["lave"]["complete"] for each in answers)
    assert all(each["meta_info"]["finish_reason"]["type"] == "stop" for each in answers)
    matcher = matcher_of(limited)
    mask = xgrammar.allocate_token_bitmask(1, matcher_of.vocab_size)
    for token_id in answer["output_ids"]:
        matcher.fill_next_token_bitmask(mask)  # which makes a budget hold
        assert mask[0, token_id >> 5] >> (token_id & 31) & 1
        assert matcher.accept_token(token_id)
    assert matcher.is_terminated()


NAMES = {"end": "<|im_end|>", "mask": "<|MASK|>", "call": CALL}
REFUSED = {
    "a token that ends": ({"ebnf": 'root ::= Token({end}) "a"'}, "no sentence"),
    "the mask": ({"ebnf": 'root ::= Token({mask}) "a"'}, "no sentence"),
    "a stop token": (
        {"ebnf": 'root ::= Token({call}) "a"', "stop_token_ids": "{call}"},
        "stop_token_ids",
    ),
    "a budget that may not suffice": (
        {"ebnf": 'root ::= a\na[max_tokens=9] ::= "(" a ")" | "0123456789"'},
        "allow more",
    ),
    "a limit that would be lost": (
        {"ebnf": 'root ::= a "!"\na[lazy] ::= b "x"\nb[max_tokens=3] ::= [a-z]*'},
        "lose",
    ),
    "what would end the process": (
        {
            "structural_tag": json.dumps(
                {
                    "type": "structural_tag",
                    "format": {
                        "type": "repeat",
                        "min": 1,
                        "max": 2,
                        "content": {
                            "type": "token_dispatch",
                            "rules": [[9, {"type": "const_string", "value": "x"}]],
                        },
                    },
                }
            )
        },
        "token_dispatch",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_kept_is_refused(url, tokenizer, name):
    parameters, sentence = REFUSED[name]
    parameters = dict(parameters)
    for short, special in NAMES.items():
        number = str(tokenizer.token_to_id(special))
        for key, value in parameters.items():
            parameters[key] = value.replace(f"{{{short}}}", number)
    if "stop_token_ids" in parameters:
        parameters["stop_token_ids"] = [int(parameters["stop_token_ids"])]
    response = post(url, {"text": "x", "sampling_params": {"max_new_tokens": 9, **parameters}})
    assert response.status_code == 400, response.text
    assert sentence in response.json()["error"]["message"]
