"""Requests whose constraint is a grammar that ships, by its name."""

from __future__ import annotations

import json
import sqlite3

import pytest
from client import generate_all, post

from lave_plugin import grammars

pytestmark = pytest.mark.engine


@pytest.fixture
def url(lave_server):
    return lave_server.url


def asking(name, **parameters) -> dict:
    parameters = {"max_new_tokens": 60, "custom_params": {"lave": {"grammar": name}}, **parameters}
    return {"text": "x", "sampling_params": parameters}


def is_sql(text: str) -> bool:
    try:
        sqlite3.connect(":memory:").execute(f"EXPLAIN {text}")
    except sqlite3.Error as error:
        # What it says of tables and columns, it says when all is read.
        return "syntax error" not in str(error) and "incomplete" not in str(error)
    return True


def is_json(text: str) -> bool:
    json.loads(text)
    return True


def test_an_answer_is_of_the_named_grammar(url):
    judges = {"json": is_json, "sql": is_sql}
    wanted = [name for name in grammars.names() for _ in range(2)]
    bodies = [
        asking(name, temperature=place % 2, sampling_seed=place)
        for place, name in enumerate(wanted)
    ]
    for name, answer in zip(wanted, generate_all(url, bodies, at_once=6), strict=True):
        assert answer.finish == "stop"
        assert judges.get(name, bool)(answer.text), answer


@pytest.mark.parametrize(
    ("name", "beside", "sentence"),
    [
        ("cobol", {}, "No grammar named 'cobol' ships; there are cpp, go, java, json"),
        (["json"], {}, "No grammar named ['json'] ships"),
        ("json", {"regex": "a"}, "lave.grammar and regex are two constraints"),
        ("json", {"ebnf": 'root ::= "a"'}, "lave.grammar and ebnf are two constraints"),
        ("cpp", {"max_new_tokens": 1}, "a shortest answer that lave.grammar allows takes"),
    ],
)
def test_refused_with_a_sentence(url, name, beside, sentence):
    response = post(url, asking(name, **beside), timeout=20)
    assert response.status_code == 400, response.text
    assert sentence in response.json()["error"]["message"]


def test_it_goes_with_a_strategy(url):
    chosen = {"lave": {"grammar": "json", "strategy": "map"}}
    (answer,) = generate_all(url, [asking("json", custom_params=chosen)], at_once=1)
    assert is_json(answer.text)
