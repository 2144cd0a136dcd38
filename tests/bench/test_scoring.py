"""Scores: a right answer has 1, a wrong one 0, however they are written."""

import itertools
import time
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lave_plugin.bench import programs, scoring, tasks
from lave_plugin.bench.scoring import at_k, same_json, same_molecule, unfenced

JSON = [
    # answer, reference, is it right
    ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', True),
    ('{"a":{"x":[1,2],"y":null}}', '{ "a" : {"y": null, "x": [1, 2]} }', True),
    ("1.0", "1", True),
    ("1e2", "100", True),
    (r'"\u00e9"', '"é"', True),
    ("[1, 2]", "[2, 1]", False),
    ('{"a": 1}', '{"a": 2}', False),
    ('{"a": 1}', '{"a": "1"}', False),
    ('{"a": true}', '{"a": 1}', False),
    ('{"a": false}', '{"a": 0}', False),
    ("null", "false", False),
    ('{"a": 1, "c": 3}', '{"a": 1}', False),
    ('{"a": 1, "a": 1}', '{"a": 1}', False),
    ('{"a": 1}}', '{"a": 1}', False),
    ("NaN", "NaN", False),
    ("", '{"a": 1}', False),
]


@pytest.mark.parametrize(("answer", "reference", "right"), JSON)
def test_json_is_compared_by_value(answer, reference, right):
    assert same_json(answer, reference) is right


SMILES = [
    ("OCC", "CCO", True),
    ("c1ccccc1", "C1=CC=CC=C1", True),
    (" N[C@@H](C)C(=O)O\n", "C[C@H](N)C(O)=O", True),
    ("CCO", "CCC", False),
    ("N[C@H](C)C(=O)O", "C[C@H](N)C(O)=O", False),
    ("CC(", "CC", False),
    ("C(C)(C)(C)(C)C", "CC", False),
    ("", "", False),
]


@pytest.mark.parametrize(("answer", "reference", "right"), SMILES)
def test_smiles_are_compared_by_their_canonical_form(answer, reference, right):
    pytest.importorskip("rdkit")
    assert same_molecule(answer, reference) is right


def test_without_rdkit_smiles_have_no_score_and_a_sentence(monkeypatch):
    monkeypatch.setattr(scoring, "has_rdkit", lambda: False)
    with pytest.raises(scoring.Unscorable, match="pip install rdkit"):
        same_molecule("CCO", "CCO")
    line = {"instance_id": "m", "input": "ethanol", "output": "CCO"}
    task = tasks._smiles_line(line, "root ::= [A-Z]+")
    assert task.score("CCO") == (True, None)
    assert task.score("cco") == (False, None)


MAIN = "#include <cassert>\nint main() { assert(twice(2) == 4); }\n"
PROGRAMS = [
    ("int twice(int x) { return 2 * x; }", "passed"),
    ("int twice(int x) { return 2 + x; } // right for 2 by chance", "passed"),
    ("int twice(int x) { return 3 * x; }", "failed"),
    ("int twice(int x) { return 2 * x }", "not compiled"),
    ('int twice(int x) { for (;;) asm volatile(""); }', "timed out"),
    ("#include <unistd.h>\nint twice(int x) { sleep(60); return 2 * x; }", "timed out"),
    (
        "#include <vector>\nint twice(int x) { std::vector<char> all(300 << 20, 2); "
        "return all[x] * x; }",
        "failed",
    ),
]


@pytest.fixture(scope="module")
def has_compiler():
    try:
        programs.compiler()
    except scoring.Unscorable:
        pytest.skip("no C++ compiler")


@pytest.mark.parametrize(("function", "outcome"), PROGRAMS)
def test_a_program_is_run_against_its_tests(has_compiler, function, outcome):
    found = programs.passes(f"{function}\n{MAIN}", seconds=2, memory_bytes=200 << 20)
    assert found == outcome


def test_a_program_has_no_network(has_compiler):
    if not programs.can_cut_the_network():
        pytest.skip("no network namespaces here, which the report says")
    program = """
#include <arpa/inet.h>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>
int main() {  // 0 where some interface is up
  ifaddrs* all;
  if (getifaddrs(&all)) return 2;
  for (ifaddrs* one = all; one; one = one->ifa_next)
    if (one->ifa_flags & IFF_UP) return 0;
  return 1;
}
"""
    assert programs.passes(program) == "failed"


def test_what_a_program_starts_does_not_outlive_it(has_compiler, tmp_path):
    mark = tmp_path / "mark"
    program = f"""
#include <cstdio>
#include <unistd.h>
int main() {{
  if (fork() == 0) {{ sleep(1); fclose(fopen("{mark}", "w")); }}
  return 0;
}}
"""
    assert programs.passes(program) == "passed"
    time.sleep(1.5)
    assert not mark.exists()


def test_c_plus_plus_tasks_score_by_their_tests(has_compiler):
    line = {
        "task_id": "CPP/x",
        "prompt": "int twice(int x){\n",
        "declaration": "#include<vector>\nusing namespace std;\nint twice(int x){\n",
        "test": MAIN,
    }
    task = tasks._cpp_line(line, r'root ::= "int twice(int x) { return " [0-9] " * x; }"')
    assert task.score("int twice(int x) { return 2 * x; }") == (True, True)
    assert task.score("```cpp\nint twice(int x) { return 2 * x; }\n```") == (False, True)
    assert task.score("int twice(int x) { return 3 * x; }") == (True, False)
    assert task.score("int twice(int x) { return 2 + x; }") == (False, True)


@pytest.mark.parametrize(
    ("answer", "inside"),
    [
        ("x", "x"),
        ("```cpp\nx\n```", "x\n"),
        ("Here:\n```json\n{}\n```\nthat was it", "{}\n"),
        ("```\nnever closed", "never closed"),
    ],
)
def test_the_first_fence_is_looked_into(answer, inside):
    assert unfenced(answer) == inside


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.data())
def test_at_k_is_the_share_of_the_choices_of_k_that_hold_a_right_one(right, data):
    k = data.draw(st.integers(1, len(right)))
    choices = list(itertools.combinations(right, k))
    assert len(choices) == comb(len(right), k)
    assert at_k(len(right), sum(right), k) == pytest.approx(sum(map(any, choices)) / len(choices))


def test_at_more_than_there_are_is_refused():
    with pytest.raises(ValueError, match="@5 needs 5 samples, there are 3"):
        at_k(3, 1, 5)
