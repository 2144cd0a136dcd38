"""What the grammars that ship accept and refuse, construct by construct."""

import re

import pytest
from cases import cpp, go, java, json, smiles, sql
from keywords import keywords_of, rule_of

from lave_plugin import grammars

ACCEPTED = {
    "cpp": cpp.accepted(),
    "go": go.accepted(),
    "java": java.accepted(),
    "json": json.ACCEPTED,
    "smiles": smiles.ACCEPTED,
    "sql": sql.ACCEPTED,
}
REFUSED = {
    "cpp": cpp.refused(),
    "go": go.refused(),
    "java": java.refused(),
    "json": json.REFUSED,
    "smiles": smiles.REFUSED,
    "sql": sql.REFUSED,
}
RESERVED = ("cpp", "go", "java", "sql")


def rows(tables: dict[str, dict[str, list[str]]]) -> list:
    return [
        pytest.param(name, texts, id=f"{name}: {what}")
        for name, table in tables.items()
        for what, texts in table.items()
    ]


def test_the_tables_are_of_all_that_ship():
    assert grammars.names() == tuple(sorted(ACCEPTED)) == tuple(sorted(REFUSED))


@pytest.mark.parametrize(("name", "texts"), rows(ACCEPTED))
def test_accepted(accepts, name, texts):
    assert [text for text in texts if not accepts(name, text.encode())] == []


@pytest.mark.parametrize(("name", "texts"), rows(REFUSED))
def test_refused(accepts, name, texts):
    assert [text for text in texts if accepts(name, text.encode())] == []


@pytest.mark.parametrize("data", json.NO_TEXT)
def test_what_is_no_text_is_no_json(accepts, data):
    assert not accepts("json", data)


@pytest.mark.parametrize("name", RESERVED)
def test_the_rule_of_names_is_the_one_of_the_words_in_the_head(name):
    text = grammars.load(name)[1]
    rule = rule_of(keywords_of(text), any_case=name == "sql")
    assert re.sub("^name", "plain_name" if name == "sql" else "name", rule) in text


def test_each_says_what_it_follows_and_what_it_cannot_say():
    for name in grammars.names():
        head = grammars.load(name)[1].split("\nroot ::=")[0]
        assert "What a context-free grammar can't say" in head
        assert "Known gaps" in head or "Departures" in head


def test_an_unknown_name_is_answered_with_those_that_ship():
    with pytest.raises(grammars.UnknownGrammar, match="'cobol' ships; there are cpp, go, java"):
        grammars.load("cobol")
