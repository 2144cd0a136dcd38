"""Random SELECT statements, as SQLite takes them."""

import random

NAMES = ("id", "name", "price", "total", "city", "users", "orders", "u", "o", '"first name"')


def query(rng: random.Random, depth: int = 0) -> str:
    """A statement: SELECT with some of its clauses, now and then a compound or with tables."""
    text = _core(rng, depth)
    if rng.random() < 0.15:
        text += f" {rng.choice(['UNION', 'union all', 'EXCEPT', 'INTERSECT'])} {_core(rng, depth)}"
    if rng.random() < 0.3:
        text += f" ORDER BY {_expression(rng, depth)}{rng.choice(['', ' DESC', ' asc'])}, 2"
    if rng.random() < 0.3:
        text += f" LIMIT {rng.randrange(50)}{rng.choice(['', ' OFFSET 5', ', 10'])}"
    if depth == 0 and rng.random() < 0.15:
        return f"WITH recent(id, total) AS ({query(rng, 2)})\n{text};"
    return text


def _core(rng: random.Random, depth: int) -> str:
    name = rng.choice
    items = [
        _expression(rng, depth) + name(["", f" AS {name(NAMES)}", f" {name(NAMES)}"])
        for _ in range(rng.randrange(1, 4))
    ]
    text = f"{name(['SELECT', 'select'])} {name(['', '', 'DISTINCT '])}{', '.join(items)}"
    text += f"\nFROM {_table(rng, depth)}"
    while rng.random() < 0.3:
        kind = name(["", "LEFT ", "inner ", "LEFT OUTER "])
        on = name([f"ON {_expression(rng, depth)}", "USING (id)"])
        text += f" {kind}JOIN {_table(rng, depth)} {on}"
    if rng.random() < 0.6:
        text += f"\nWHERE {_expression(rng, depth)}"
    if rng.random() < 0.3:
        text += f" GROUP BY {_column(rng)}"
        if rng.random() < 0.5:
            text += f" HAVING count(*) > {rng.randrange(9)}"
    return text


def _table(rng: random.Random, depth: int) -> str:
    if depth < 2 and rng.random() < 0.2:
        return f"({query(rng, depth + 2)}) AS {rng.choice(NAMES)}"
    return rng.choice(NAMES) + rng.choice(["", " u", " AS o"])


def _column(rng: random.Random) -> str:
    return rng.choice(["", "u.", "orders."]) + rng.choice(NAMES)


def _expression(rng: random.Random, depth: int) -> str:
    kind = rng.randrange(14 if depth < 3 else 4)
    if kind < 2:
        return _column(rng)
    if kind == 2:
        return str(rng.choice([0, 1, 2.5, 100, "1e3", "'it''s'", "NULL", "?"]))
    if kind == 3:
        return f"{rng.choice(['sum', 'COUNT', 'lower', 'max'])}({_column(rng)})"
    left, right = _expression(rng, depth + 1), _expression(rng, depth + 1)
    if kind < 7:
        return f"{left} {rng.choice(['+', '-', '*', '/', '=', '<', '>=', '<>', '||'])} {right}"
    if kind == 7:
        return f"({left} {rng.choice(['AND', 'or'])} {right})"
    if kind == 8:
        return f"{_column(rng)} {rng.choice(['', 'NOT '])}IN ({left}, {right})"
    if kind == 9:
        return f"{_column(rng)} BETWEEN {rng.randrange(9)} AND {rng.randrange(9, 99)}"
    if kind == 10:
        return f"CASE WHEN {left} THEN {right} ELSE 0 END"
    if kind == 11:
        return f"{_column(rng)} IS {rng.choice(['', 'NOT '])}NULL"
    if kind == 12:
        return f"CAST({left} AS {rng.choice(['INTEGER', 'varchar(20)'])})"
    return rng.choice(
        [
            f"EXISTS ({query(rng, 2)})",
            f"{_column(rng)} LIKE 'a%'",
            f"row_number() OVER (PARTITION BY {_column(rng)} ORDER BY {_column(rng)})",
        ]
    )
