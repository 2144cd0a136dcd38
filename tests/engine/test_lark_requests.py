"""Lark in a request, and a choice: enforced, or refused with the sentence that says why."""

from __future__ import annotations

import pytest
import requests
from client import generate, generate_all, post

from lave_plugin.grammar.by_bytes import compile_text
from lave_plugin.grammar.compiler import automaton_of

pytestmark = pytest.mark.engine

STATEMENTS = """
%lave strict_keywords
start: (statement ";")~2
statement: "let" ID "=" _list{ID, "+"} | "drop" ID
_list{item, separator}: item (separator item)*
ID: /[a-z]{1,4}/
%ignore /[ \\n]{1,2}/
"""
KEYWORD_OF_A_PATTERN = 'program: IF "(" /a+(?!b)/ ")"\nIF.2: /if\\b/\n%ignore " "'
CHOICE = ["yes", 'no "way"', "[a-z]+", "日本|é"]


@pytest.fixture
def url(lave_server):
    return lave_server.url


def asking(temperature: float = 1, seed: int = 0, **parameters) -> dict:
    drawn = {"temperature": temperature, "sampling_seed": seed, "max_new_tokens": 80}
    return {"text": "x", "sampling_params": {**drawn, **parameters}}


@pytest.mark.parametrize("grammar", [STATEMENTS, KEYWORD_OF_A_PATTERN])
def test_an_answer_is_of_the_lark_grammar(url, grammar):
    automaton = automaton_of(compile_text("lark", grammar))
    bodies = [asking(seed % 2, seed, ebnf=grammar) for seed in range(6)]
    for answer in generate_all(url, bodies, at_once=3):
        assert answer.finish == "stop"
        assert automaton.accepting(automaton.run(automaton.start, answer.text.encode())), answer


def test_lark_through_the_openai_api(url):
    body = {
        "model": "default",
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": 40,
        "ebnf": 'start: "<" /[a-c]{2}/ ">"',
    }
    response = requests.post(f"{url}/v1/chat/completions", json=body, timeout=60)
    content = response.json()["choices"][0]["message"]["content"]
    assert content[0] + content[-1] == "<>" and set(content[1:-1]) <= set("abc")


def test_an_answer_is_one_of_the_choice(url):
    bodies = [
        asking(seed % 2, seed, custom_params={"lave": {"choice": CHOICE}}) for seed in range(12)
    ]
    answers = {answer.text for answer in generate_all(url, bodies, at_once=4)}
    assert answers <= set(CHOICE) and len(answers) > 1


def test_a_choice_goes_with_a_strategy_and_through_the_openai_api(url):
    body = {
        "model": "default",
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": 40,
        "custom_params": {"lave": {"choice": CHOICE, "strategy": "map"}},
    }
    response = requests.post(f"{url}/v1/chat/completions", json=body, timeout=60)
    assert response.json()["choices"][0]["message"]["content"] in CHOICE


def choosing(*alternatives, **beside) -> dict:
    return {"custom_params": {"lave": {"choice": list(alternatives), **beside}}}


REFUSED = {
    "Lark with a mistake": (
        {"ebnf": 'start: a\na: "b'},
        "Lark grammar, line 2, column 4: this string has no end",
    ),
    "Lark that can't be kept": (
        {"ebnf": 'start: "a"\n%declare _INDENT'},
        "Lark grammar, line 2, column 1: %declare",
    ),
    "Lark without a sentence": ({"ebnf": 'start: "a" start'}, "the grammar has no sentence"),
    "no choice": (choosing(), "lave.choice: choice is an empty list"),
    "a choice of numbers": (choosing(1, 2), "lave.choice: choice holds 1 at place 1"),
    "a choice that is none": (
        {"custom_params": {"lave": {"choice": "yes"}}},
        "choice must be a list of texts",
    ),
    "a choice and a regex": ({**choosing("a"), "regex": "a"}, "lave.choice and regex are two"),
    "a choice and a grammar": (choosing("a", grammar="json"), "lave.grammar and lave.choice"),
    "a choice longer than the answer": (
        {**choosing("abcdefgh"), "max_new_tokens": 2},
        "a shortest answer that lave.choice allows",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_sentence(url, name):
    parameters, sentence = REFUSED[name]
    for _ in range(2):  # the second time from the engine's cache
        response = post(url, asking(**parameters), timeout=20)
        assert response.status_code == 400, response.text
        assert sentence in response.json()["error"]["message"]
    assert generate(url, asking(regex="ab")).text == "ab"
