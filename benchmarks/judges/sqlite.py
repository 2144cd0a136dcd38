"""SQLite as the judge of SQL: EXPLAIN reads a statement without running it."""

import re
import sqlite3

from judges.compilers import UNKNOWN

_SYNTAX = re.compile(r'near ".*": syntax error|incomplete input|unrecognized token|a JOIN clause')
# Said when all of the statement has been read.
_MEANING = re.compile(
    r"no such (table|column|function|collation|window)|ambiguous column|misuse of|wrong number"
    r"|SELECTs to the left|sub-select returns|row value misused|no tables specified|aggregate func"
    r"|\d+\w\w (ORDER|GROUP) BY|a GROUP BY clause is required|table .* has \d+ (columns|values)"
    r"|all VALUES must have|cannot join using|circular reference|multiple references"
    r"|cannot use window"
)


def sqlite(queries: list[str]) -> list[str | None]:
    """A verdict on each query, as a compiler's (`compilers.Judge`)."""
    with sqlite3.connect(":memory:") as connection:
        return [_verdict(connection, query) for query in queries]


def _verdict(connection: sqlite3.Connection, query: str) -> str | None:
    try:
        connection.execute(f"EXPLAIN {query}", [None] * query.count("?"))
    except sqlite3.Error as error:
        message = str(error)
        if _MEANING.match(message):
            return None
        return message if _SYNTAX.match(message) else UNKNOWN
    except (sqlite3.Warning, ValueError):
        return UNKNOWN
    return None
