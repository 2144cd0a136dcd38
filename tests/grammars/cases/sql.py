"""The SELECT statement."""

ACCEPTED = {
    "the least": ["SELECT 1", "select 1;", "SELECT *\nFROM t\n", "VALUES (1, 2), (3, 4)"],
    "columns": [
        'SELECT a, t.b, s.t.c, t.*, "a b", `c`, [d e] FROM t',
        "SELECT DISTINCT a AS x, b y, c AS 'z', d \"w\" FROM t",
        "SELECT ALL selected, fromage FROM orders_by",
    ],
    "literals": [
        "SELECT 1, -1, 1.5, .5, 1e3, 0x1F, 'it''s', '', x'0aFF', NULL, true, CURRENT_DATE",
        "SELECT ?, ?1, :name, @name, $name",
    ],
    "conditions": [
        "SELECT a FROM t WHERE a = 1 AND b <> 2 OR NOT c >= 3",
        "SELECT a FROM t WHERE a BETWEEN 1 AND 2 + 3 AND b NOT BETWEEN -1 AND 1",
        "SELECT a FROM t WHERE a IN (1, 2) AND b NOT IN (SELECT c FROM s) AND d IN()",
        "SELECT a FROM t WHERE a LIKE '%x\\_' ESCAPE '\\' OR b NOT LIKE c OR d GLOB '*'",
        "SELECT a FROM t WHERE a IS NULL OR b IS NOT NULL OR c ISNULL OR d NOT NULL",
        "SELECT a FROM t WHERE EXISTS (SELECT 1) AND NOT EXISTS(SELECT 2)",
        "SELECT (a, b) FROM t WHERE (a + b) * 2 - -1 > -c || 'x' COLLATE nocase",
    ],
    "joins": [
        "SELECT * FROM a, b, (SELECT 1) AS c",
        "SELECT * FROM a JOIN b ON a.x = b.x LEFT JOIN c USING (x, y)",
        "select * from a natural left outer join b cross join c",
        "select * from a inner join (b full join c on 1) on 2",
    ],
    "groups and order": [
        "SELECT a, COUNT(*), sum(DISTINCT b) FROM t GROUP BY a, b HAVING COUNT(*) > 1",
        "SELECT a FROM t ORDER BY a DESC, b ASC NULLS LAST, 3 LIMIT 10 OFFSET 5",
        "SELECT a FROM t LIMIT 10, 5",
    ],
    "compounds": [
        "SELECT 1 UNION SELECT 2 UNION ALL SELECT 3 EXCEPT SELECT 4 INTERSECT SELECT 5 ORDER BY 1",
        "WITH a AS (SELECT 1), b(x, y) AS MATERIALIZED (SELECT 2, 3) SELECT * FROM a, b",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n LIMIT 9",
    ],
    "cases, casts, calls": [
        "SELECT CASE WHEN a THEN 1 WHEN b THEN 2 ELSE 3 END, CASE a WHEN 1 THEN 2 END FROM t",
        "SELECT CAST(a AS INTEGER), CAST(b AS decimal(10, 2)), cast(c as double precision) FROM t",
        "SELECT f(), g(a, b), count(a) FILTER (WHERE a > 1), group_concat(a ORDER BY b) FROM t",
    ],
    "windows": [
        "SELECT row_number() OVER (PARTITION BY a ORDER BY b), sum(c) OVER w FROM t "
        "WINDOW w AS (ORDER BY d)",
        "SELECT sum(a) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), max(b) OVER () "
        "FROM t",
    ],
    "comments": ["SELECT a -- the first\nFROM /* one */ t", "/* x */ SELECT 1"],
}

REFUSED = {
    "nothing": ["", ";", "SELECT", "FROM t"],
    "clauses out of order": [
        "SELECT a WHERE b FROM t",
        "SELECT a FROM t ORDER BY a WHERE b",
        "SELECT a FROM t HAVING b GROUP BY a",
        "SELECT a FROM t LIMIT 1 ORDER BY a",
    ],
    "clauses without their part": [
        *["SELECT FROM t", "SELECT a FROM", "SELECT a FROM t WHERE", "SELECT a FROM t GROUP a"],
        *["SELECT a FROM t ORDER BY", "SELECT a FROM t LIMIT", "SELECT a FROM t JOIN", "VALUES ()"],
        *["WITH a AS SELECT 1 SELECT 2", "WITH a (SELECT 1) SELECT 2", "SELECT 1 UNION"],
    ],
    "commas": [
        "SELECT a, FROM t",
        "SELECT , a",
        "SELECT a b c",
        "SELECT f(a,) FROM t",
        "SELECT a FROM t,",
    ],
    "operators": [
        "SELECT a +",
        "SELECT * 2",
        "SELECT a = = b",
        "SELECT a AND",
        "SELECT a NOT b",
        "SELECT !a",
    ],
    "half conditions": [
        *[
            "SELECT a BETWEEN 1",
            "SELECT a BETWEEN 1, 2",
            "SELECT a IN",
            "SELECT a IN 1",
            "SELECT a IS",
        ],
        *[
            "SELECT CASE a END",
            "SELECT CASE WHEN a THEN b",
            "SELECT CASE WHEN a END",
            "SELECT CAST(a)",
        ],
    ],
    "brackets": [
        "SELECT (1",
        "SELECT 1)",
        "SELECT ()",
        "SELECT f(",
        "SELECT * FROM (SELECT 1",
        "SELECT [a",
    ],
    "keywords as names": [
        "SELECT from FROM t",
        "SELECT a AS where",
        "SELECT a FROM Select",
        "SELECT group",
    ],
    "words run together": [
        "SELECTa",
        "SELECT a b FROMt",
        "SELECT aFROM t u",
        "SELECT a FROM t WHEREb = 1",
    ],
    "literals": [
        "SELECT 'a",
        "SELECT x'0'",
        "SELECT 'it's'",
        'SELECT "a',
        "SELECT 1a",
        "SELECT 1.2.3",
    ],
    "other statements": [
        "DELETE FROM t",
        "INSERT INTO t VALUES (1)",
        "DROP TABLE t",
        "SELECT 1; SELECT 2",
    ],
    "comments left open": ["SELECT 1 /* a", "SELECT 1 -- a"],
}
