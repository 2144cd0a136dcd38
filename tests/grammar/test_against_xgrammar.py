"""Random grammars, random walks: every next byte is judged as xgrammar judges it.

Two differences are meant. xgrammar takes malformed UTF-8, which is dead here; and it takes steps
from which no sentence can be reached any more, so only grammars without such rules are compared.
Bounded repetition of a rule that refers to itself is left out: there xgrammar 0.2.7 miscounts
(`root ::= "b" (root{2,4}){0,2}` takes "bb").
"""

import random

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from xgrammar_oracle import Oracle, byte_compiler, is_utf8_prefix

from lave_plugin.grammar.automaton import Automaton
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.normal_form import UNREACHABLE, read_normal_form

COMPILER = byte_compiler()
RULES = ("root", "left", "right")

literals = st.sampled_from(["a", "b", "ab", "ba", "é", "日", ""]).map(lambda text: f'"{text}"')
classes = st.sampled_from(["[ab]", "[^a]", "[a-cé]", "[b-\\u00ff]", "[\\u0800-\\uffff]", "[^ab]"])
repetition = st.sampled_from(["", "?", "*", "+", "{2,3}", "{0,2}", "{3}", "{2,}", "{0,150}"])


def _choice(elements, words: int, alternatives: int):
    sequence = st.lists(elements, min_size=1, max_size=words).map(" ".join)
    return st.lists(sequence, min_size=1, max_size=alternatives).map(" | ".join)


plain = literals | classes
repeated = st.tuples(_choice(plain, 2, 2), repetition).map(lambda parts: "({}){}".format(*parts))
references = st.sampled_from(RULES)
looped = st.tuples(references, st.sampled_from(["?", "*", "+"])).map("".join)
bodies = _choice(plain | repeated | references | references | looped, 3, 3)
grammars = st.fixed_dictionaries({rule: bodies for rule in RULES}).map(
    lambda rules: "\n".join(f"{rule} ::= {body}" for rule, body in rules.items())
)

words = st.text("ab<é", min_size=1, max_size=3)
dispatches = st.builds(
    lambda triggers, excludes, loops, before, after: (
        f"root ::= {before} text {after}\n"
        "text ::= TagDispatch("
        + "".join(f'("{trigger}", {rule}), ' for trigger, rule in triggers.items())
        + f"loop_after_dispatch={loops}, excludes=("
        + ", ".join(f'"{word}"' for word in excludes)
        + '))\none ::= "x" | "ab" | "y" one\ntwo ::= "" | "a" | text "z"'
    ),
    st.dictionaries(words, st.sampled_from(["one", "two"]), max_size=3),
    st.lists(words, min_size=1, max_size=2, unique=True),
    st.sampled_from(["true", "false"]),
    st.sampled_from(["", '"["']),
    st.sampled_from(["", '"]"', '"a"', "[^b]"]),
)


def check(grammar: str, alphabet: bytes | None, seed: int, walks: int, length: int) -> None:
    """Walk at random and compare the verdicts on every byte at every step."""
    try:
        compiled = COMPILER.compile_grammar(grammar)
        rules = read_normal_form(str(compiled.grammar))
        automaton = Automaton(rules)
    except (RuntimeError, UnsupportedGrammar):
        # Not a grammar for xgrammar (a trigger within another), or one without a sentence.
        assume(False)
    assume(max(rules.distance) < UNREACHABLE)
    chance = random.Random(seed)
    oracle = Oracle(compiled)
    for _ in range(walks):
        oracle.restart()
        state, text = automaton.start, b""
        for _ in range(length):
            ours = set(automaton.allowed_bytes(state))
            theirs = {byte for byte in oracle.allowed() if is_utf8_prefix(text + bytes([byte]))}
            assert ours == theirs, (text, ours ^ theirs)
            if _is_text(text):
                assert automaton.accepting(state) == oracle.accepting(), text
            likely = sorted(ours & set(alphabet)) if alphabet else sorted(ours)
            if not ours:
                break
            byte = chance.choice(likely or sorted(ours))
            assert oracle.feed(byte)
            state, text = automaton.step(state, byte), text + bytes([byte])
        completion = automaton.shortest_completion(state)
        assert len(completion) == automaton.shortest_length(state)
        assert oracle.judge(text + completion) == "accepted"


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


random_walks = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


@random_walks
@given(grammar=grammars, seed=st.integers(0, 1000))
def test_random_ebnf(grammar, seed):
    check(grammar, b"ab\xc3\xa9\xe6\x97\xa5", seed, walks=2, length=10)


@random_walks
@given(grammar=dispatches, seed=st.integers(0, 1000))
def test_random_dispatch(grammar, seed):
    check(grammar, b"ab<xyz[]\xc3\xa9", seed, walks=2, length=14)


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 4},
        "size": {"type": "number", "minimum": 0.5, "maximum": 20},
        "kind": {"enum": ["a", "ab", 12]},
        "parts": {"type": "array", "items": {"$ref": "#"}, "minItems": 1, "maxItems": 3},
        "when": {"type": "string", "format": "date"},
        "code": {"type": "string", "pattern": "^[A-Z]{2}-\\d+$"},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def test_walks_through_a_json_schema():
    compiled = COMPILER.compile_json_schema(SCHEMA)
    automaton = Automaton(read_normal_form(str(compiled.grammar)))
    oracle = Oracle(compiled)
    chance = random.Random(5)
    for _ in range(40):
        oracle.restart()
        state, text = automaton.start, b""
        for _ in range(60):
            ours = set(automaton.allowed_bytes(state))
            theirs = {byte for byte in oracle.allowed() if is_utf8_prefix(text + bytes([byte]))}
            assert ours == theirs, text
            assert automaton.accepting(state) == oracle.accepting(), text
            if not ours:
                break
            # Keep to what leads on: white space and long strings would fill the whole walk.
            likely = sorted(ours - set(b" \n\r\t"))
            byte = chance.choice(likely[:12] or sorted(ours))
            assert oracle.feed(byte)
            state, text = automaton.step(state, byte), text + bytes([byte])
