"""JSON schemas of public bug reports: is each served and kept, or refused by keyword?

    python benchmarks/reported_cases.py FILE

FILE has a case a line: {"id", "kind", "input", "expected"}, of which the kinds json-schema and
json-schema-unsupported are taken. `expected` has `accept` and `reject` (instances as JSON text),
`reject_text` (what no JSON parser takes) and `reject_if_enforced`. A refusal is as expected where
the case allows one, or the schema has no instance. Exit status 1 where something else comes out.
"""

import argparse
import json
import sys
from pathlib import Path

import jsonschema

from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.by_bytes import compile_text
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.options import LaveOptions

MAY_BE_REFUSED = ("http", "preferred", "or")
"""What `expected` has where a refusal is one of the right answers."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    wrong = 0
    for line in parser.parse_args().file.read_text().splitlines():
        case = json.loads(line)
        if case["kind"] not in ("json-schema", "json-schema-unsupported"):
            continue
        given = case["input"]
        for schema in given.get("schemas", [given.get("json_schema")]):
            verdict, faults = judge(schema, case["expected"])
            wrong += bool(faults)
            print(f"{case['id']:34} {'WRONG ' + '; '.join(faults) if faults else verdict}")
    return min(wrong, 1)


def judge(schema, expected: dict) -> tuple[str, list[str]]:
    """What came of a schema, in words, and what is not as expected."""
    try:
        compiled = compile_text("json_schema", json.dumps(schema), LaveOptions.json_max_whitespace)
        automaton = automaton_of(compiled)
    except UnsupportedGrammar as refusal:
        allowed = any(key in expected for key in MAY_BE_REFUSED)
        return f"refused: {refusal}", [] if allowed else [f"refused: {refusal}"]
    faults = []
    for key in ("accept", "reject", "reject_text", "reject_if_enforced"):
        for text in expected.get(key, ()):
            state = automaton.run(automaton.start, text.encode())
            taken = state != DEAD and automaton.accepting(state)
            if taken != (key == "accept"):
                faults.append(f"{key}: {text!r}")
    shortest = automaton.shortest_completion(automaton.start)
    if not jsonschema.Draft202012Validator(schema).is_valid(json.loads(shortest)):
        faults.append(f"the shortest answer is no instance: {shortest!r}")
    return f"kept, shortest answer {shortest.decode()[:60]}", faults


if __name__ == "__main__":
    sys.exit(main())
