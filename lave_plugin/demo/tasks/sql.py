"""Questions over a small database, to be answered with one SELECT.

Tables and columns are drawn from word lists, of which training sees the first of each pair, and
from words that it coins; the database that judges an answer is written by the same hand, so that
a query is right where it returns what the reference returns.
"""

from __future__ import annotations

from dataclasses import dataclass

from lave_plugin.demo.records import COLOURS, GOODS, Draw, Sample, words
from lave_plugin.grammars import load

TABLES = words(
    "albums animals bikes boats books bottles cars cities clubs doctors drivers farms films flats "
    "games guests houses jobs lakes maps meals movies nurses offices orders painters parks phones "
    "plants players rivers roads rooms schools ships shops singers songs stores students teams "
    "toys trains trees trips users"
)
UNSEEN_TABLES = words("bakeries candles islands lawyers pianos rockets statues")
NUMBERS = words(
    "age area cost depth fee goals height hours length level members pages points price rank rate "
    "score seats size speed stars stock votes weight width year"
)
UNSEEN_NUMBERS = words("altitude budget capacity salary temperature")
TEXTS = words("artist brand city colour county maker model name owner place seller title town")
UNSEEN_TEXTS = words("architect curator conductor province investor")
UNSEEN_WORDS = frozenset(UNSEEN_TABLES + UNSEEN_NUMBERS + UNSEEN_TEXTS)
UNSEEN_SHARE = 0.5
"""How many held-out questions are about tables and columns that training never has."""


@dataclass(frozen=True)
class Table:
    name: str
    texts: list[str]
    numbers: list[str]
    parent: str | None = None

    @property
    def columns(self) -> list[str]:
        key = [] if self.parent is None else [f"{self.parent}_id"]
        return ["id", *key, *self.texts, *self.numbers]

    @property
    def signature(self) -> str:
        return f"{self.name}({','.join(self.columns)})"


def _table(draw: Draw, unseen: bool, name: str, parent: str | None = None) -> Table:
    texts, numbers = (UNSEEN_TEXTS, UNSEEN_NUMBERS) if unseen else (TEXTS, NUMBERS)
    return Table(name, draw.some_words(texts, 1, 2), draw.some_words(numbers, 1, 2), parent)


def _text_value(draw: Draw) -> str:
    return draw.pick(draw.town, draw.invented, lambda: draw.pick(*COLOURS, *GOODS))()


def _number_value(draw: Draw) -> int:
    return draw.whole(1, draw.pick(9, 99, 999))


@dataclass
class Condition:
    said: str
    sql: str
    used: dict[str, list[object]]
    """Column -> values that a database should have, so that the condition decides something."""


def _condition(draw: Draw, table: Table, prefix: str = "") -> Condition:
    if draw.chance(0.45):
        column, value = draw.pick(*table.texts), _text_value(draw)
        if draw.chance(0.25):
            return Condition(
                f"{column} not {value}", f"{prefix}{column} <> '{value}'", {column: [value]}
            )
        return Condition(f"{column} {value}", f"{prefix}{column} = '{value}'", {column: [value]})
    column, value = draw.pick(*table.numbers), _number_value(draw)
    near = [value - 1, value, value + 1]
    if draw.chance(0.15):
        high = value + draw.whole(1, 90)
        return Condition(
            f"{column} between {value} and {high}",
            f"{prefix}{column} BETWEEN {value} AND {high}",
            {column: [*near, high, high + 1]},
        )
    said, operator = draw.pick(
        ("above", ">"), ("below", "<"), ("at least", ">="), ("at most", "<="), ("of", "=")
    )
    return Condition(
        f"{column} {said} {value}", f"{prefix}{column} {operator} {value}", {column: near}
    )


def _conditions(draw: Draw, table: Table) -> Condition:
    first = _condition(draw, table)
    if draw.chance(0.65):
        return first
    second, word = _condition(draw, table), draw.pick("and", "or")
    used = {**second.used}
    for column, values in first.used.items():
        used[column] = used.get(column, []) + values
    return Condition(
        f"{first.said} {word} {second.said}", f"{first.sql} {word.upper()} {second.sql}", used
    )


NOTHING = Condition("", "", {})
AGGREGATES = {"highest": "MAX", "lowest": "MIN", "average": "AVG", "total": "SUM"}


def _question(draw: Draw, table: Table) -> tuple[str, str, dict[str, list[object]]]:
    """One question about one table as (text, SQL, values that decide it)."""
    where = _conditions(draw, table) if draw.chance(0.8) else NOTHING
    clause = f" WHERE {where.sql}" if where.sql else ""
    limited = f" with {where.said}" if where.said else ""
    name, number, text = table.name, draw.pick(*table.numbers), draw.pick(*table.texts)
    form = draw.pick(
        "show", "show", "count", "aggregate", "aggregate", "group", "order", "distinct"
    )
    if form == "show":
        columns = draw.some(table.texts + table.numbers, 1, 2)
        question = f"Show {' and '.join(columns)} of all {name}{limited}."
        return question, f"SELECT {', '.join(columns)} FROM {name}{clause}", where.used
    if form == "count":
        return (
            f"How many {name}{limited} are there?",
            f"SELECT COUNT(*) FROM {name}{clause}",
            where.used,
        )
    if form == "aggregate":
        word = draw.pick(*AGGREGATES)
        return (
            f"What is the {word} {number} of {name}{limited}?",
            f"SELECT {AGGREGATES[word]}({number}) FROM {name}{clause}",
            where.used,
        )
    if form == "group":
        word = draw.pick(*AGGREGATES, None)
        said, what = (
            (f"the {word} {number}", f"{AGGREGATES[word]}({number})")
            if word
            else (
                "the count",
                "COUNT(*)",
            )
        )
        return (
            f"For each {text}, {said} of {name}{limited}.",
            f"SELECT {text}, {what} FROM {name}{clause} GROUP BY {text}",
            where.used,
        )
    if form == "order":
        count, word = draw.whole(1, 9), draw.pick("highest", "lowest")
        descending = " DESC" if word == "highest" else ""
        return (
            f"The {text} of the {count} {name}{limited} of {word} {number}.",
            f"SELECT {text} FROM {name}{clause} ORDER BY {number}{descending} LIMIT {count}",
            where.used,
        )
    return (
        f"Which different {text} have {name}{limited}?",
        f"SELECT DISTINCT {text} FROM {name}{clause}",
        where.used,
    )


def _joined(draw: Draw, parent: Table, child: Table) -> tuple[str, str, Condition]:
    where = _condition(draw, parent, f"{parent.name}.")
    column = draw.pick(*child.texts, *child.numbers)
    return (
        f"Show {column} of all {child.name} whose {parent.name} have {where.said}.",
        f"SELECT {child.name}.{column} FROM {child.name} JOIN {parent.name} "
        f"ON {child.name}.{parent.name}_id = {parent.name}.id WHERE {where.sql}",
        where,
    )


def _rows(draw: Draw, table: Table, used: dict[str, list[object]]) -> str:
    """CREATE and INSERT for a table of some rows, of which many meet the conditions."""
    lines = [f"CREATE TABLE {table.name} ({', '.join(table.columns)});"]
    some_texts = [_text_value(draw) for _ in range(3)]
    for row in range(1, 25):
        values: list[object] = []
        for column in table.columns:
            if column == "id":
                values.append(row)
            elif column.endswith("_id"):
                values.append(draw.whole(1, 24))
            elif used.get(column) and draw.chance(0.6):
                values.append(draw.pick(*used[column]))
            elif column in table.texts:
                values.append(draw.pick(*some_texts))
            else:
                values.append(_number_value(draw))
        written = ", ".join(f"'{v}'" if isinstance(v, str) else str(v) for v in values)
        lines.append(f"INSERT INTO {table.name} VALUES ({written});")
    return "\n".join(lines)


def sql_sample(draw: Draw) -> Sample:
    """A question; the answer is the query, ``tests`` the database that judges it."""
    unseen = draw.split == "held-out" and draw.chance(UNSEEN_SHARE)
    first, second = draw.some_words(UNSEEN_TABLES if unseen else TABLES, 2, 2)
    one = _table(draw, unseen, first)
    if draw.chance(0.3):
        two = _table(draw, unseen, second, parent=first)
        question, query, where = _joined(draw, one, two)
        used = [where.used, {}]
    else:
        two = _table(draw, unseen, second)
        question, query, decided = _question(draw, one)
        used = [decided, {}]
    tables = [(one, used[0]), (two, used[1])]
    if draw.chance(0.5):
        tables.reverse()
    told = ",".join(table.signature for table, _ in tables)
    return Sample(
        kind="sql",
        prompt=f"Tables [{told}]. SQL: {question}",
        answer=query,
        grammar=load("sql")[1],
        tests="\n".join(_rows(draw, table, values) for table, values in tables),
    )
