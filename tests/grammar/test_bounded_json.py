"""JSON with a limit on whitespace is otherwise xgrammar's builtin JSON."""

import pytest

from lave_plugin.grammar.compiler import OBJECT_OR_ARRAY, automaton_of

TEXTS = {
    '{"a": [1, 2.5e3, null]}': True,
    '{"a":{"b":[[],{}]},"c":"\\u00e9\\n"}': True,
    "[]": True,
    "[ ]": True,
    "{ }": True,
    "[\t1,\n 2]": True,
    '{"a" : -0}': True,
    '{"a"  :   {}}': True,
    " {}": False,
    "{} ": False,
    "1": False,
    '"x"': False,
    "null": False,
    "[01]": False,
    "[1,]": False,
    '{"a"}': False,
    '["\t"]': False,
}
WIDE = ["[    1]", '{"a":     1}', '{"a":1    }', "[1,\n\n\n\n2]"]


@pytest.fixture(scope="module")
def builtin(compiler):
    return automaton_of(compiler.compile_builtin_json_grammar())


@pytest.fixture(scope="module")
def bounded(compiler):
    return automaton_of(compiler.compile_json_schema(OBJECT_OR_ARRAY, max_whitespace_cnt=3))


def accepts(states, text):
    return states.accepting(states.run(states.start, text.encode()))


@pytest.mark.parametrize("text", TEXTS)
def test_what_has_little_whitespace_is_judged_the_same(builtin, bounded, text):
    assert accepts(builtin, text) is accepts(bounded, text) is TEXTS[text]


@pytest.mark.parametrize("text", WIDE)
def test_more_whitespace_is_refused(builtin, bounded, text):
    assert accepts(builtin, text)
    assert not accepts(bounded, text)
