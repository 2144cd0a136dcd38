"""What is read from the printed normal form, what is refused, and how large the automata are."""

from itertools import product

import pytest
from xgrammar_oracle import Oracle

from lave_plugin.grammar.automaton import DEAD, Automaton
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.implementation import states_of_text
from lave_plugin.grammar.normal_form import read_normal_form
from lave_plugin.grammar.utf8 import DECODER, byte_sequences, complement, normalise_ranges


def automaton_of_text(text: str) -> Automaton:
    return Automaton(read_normal_form(text))


UNSUPPORTED = [
    ('root[hidden=5] ::= (("a"))\n', "hidden=5"),
    ('root[lazy, eager] ::= (("a"))\n', "eager"),
    ("root ::= TokenTagDispatch(\n  what=1\n)\n", "TokenTagDispatch"),
    ('root ::= Substring("a", words=true)\n', "Substring"),
    ('root ::= TagDispatch(\n  stop_eos=false,\n  stop_str=("a")\n)\n', "TagDispatch"),
    ('root ::= Regex("a", multiline=true)\n', "Regex"),
    ('root ::= (("a" Unheard("b")))\n', "Unheard"),
    ("root ::= ((a))\n", "'a'"),
    ('root ::= (("\\q"))\n', r"\\q"),
    ('root ::= (("\\ud800"))\n', "surrogate"),
    ('root ::= (("a" (("b"))))\n', "normal form"),
    ("root ::= ((*))\n", "normal form"),
    ('root ::= (("a" *))\n', "normal form"),
    ("root ::= (([a]*{2, 3}))\n", "normal form"),
    ('root ::= (("a" "b")*)\n', "normal form"),
    ('root ::= (("a" ("b") *))\n', "normal form"),
    ('other ::= (("a"))\n', "root"),
    ("not a grammar", "not a grammar"),
]


@pytest.mark.parametrize(("text", "named"), UNSUPPORTED)
def test_what_cannot_be_modelled_is_named(text, named):
    with pytest.raises(UnsupportedGrammar, match=named):
        read_normal_form(text)


def test_hints_and_captures_say_nothing_about_the_language():
    automaton = automaton_of_text(
        'root[capture="a]b"] ::= (("a" b)) (=("(" [)\\]] (")" x{2, 3})))\nb ::= (("b")) (=("a"))\n'
    )
    assert automaton.shortest_completion(automaton.start) == b"ab"


EMPTY_STRINGS = [
    ('root ::= (("a" ""*))', {"a"}),
    ('root ::= ((""* "a"))', {"a"}),
    ('root ::= (("a" ""{2, 5} "b"))', {"ab"}),
    ('root ::= (("a"* ""{0, -1}))', {"", "a", "aa", "aaa"}),
    ('root ::= ((""*))', {""}),
    ('root ::= ((""{3, 3}) | ("b"))', {"", "b"}),
    ('root ::= (("" "" "a"))', {"a"}),
]


@pytest.mark.parametrize(("text", "sentences"), EMPTY_STRINGS)
def test_the_empty_string_is_empty_however_often(text, sentences):
    words = ["".join(word) for length in range(4) for word in product("ab", repeat=length)]
    for automaton in (automaton_of_text(text), states_of_text(text)):
        accepted = {
            word
            for word in words
            if automaton.accepting(automaton.run(automaton.start, word.encode()))
        }
        assert accepted == sentences


def test_every_character_is_read_as_it_is_printed(compiler):
    """Each code point that has an escape, and some that have none, as text and in a class."""
    points = [*range(1, 0x180), 0xFFF, 0x1000, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF]
    for point in points:
        compiled = compiler.compile_grammar(f"root ::= [\\U{point:08x}]")
        automaton = automaton_of(compiled)
        assert automaton.accepting(automaton.run(automaton.start, chr(point).encode()))
    text = "".join(map(chr, points))
    escaped = "".join(f"\\U{point:08x}" for point in points)
    automaton = automaton_of(compiler.compile_grammar(f'root ::= "{escaped}"'))
    assert automaton.shortest_completion(automaton.start) == text.encode()


def test_a_negated_class_excludes_also_beyond_ascii(compiler):
    """xgrammar 0.2.7 warns and forgets the exclusion; what the grammar says is kept here."""
    automaton = automaton_of(compiler.compile_grammar("root ::= [^aé]"))
    for text, alive in (("a", False), ("é", False), ("è", True), ("日", True), ("b", True)):
        assert (automaton.run(automaton.start, text.encode()) != DEAD) == alive


FREE_TEXT = "root ::= TagDispatch(loop_after_dispatch=true)"


@pytest.mark.parametrize(
    "grammar", ["root ::= [^a]+", "root ::= [\\u0080-\\U0010ffff]+", FREE_TEXT]
)
@pytest.mark.parametrize(
    "malformed",
    [b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\x80"],
)
def test_only_well_formed_utf8(compiler, grammar, malformed):
    """xgrammar takes some of these; text that can't be decoded is no text."""
    automaton = automaton_of(compiler.compile_grammar(grammar))
    assert automaton.run(automaton.start, malformed) == DEAD


@pytest.mark.parametrize(
    "ranges",
    [[(0, 0x10FFFF)], [(0x61, 0x7A), (0xE0, 0xFC)], [(0x7F0, 0x4E01)], [(0xD000, 0x12345)]],
)
def test_byte_sequences_match_exactly_the_encodings(ranges):
    ranges = normalise_ranges(ranges)
    sequences = byte_sequences(ranges)
    for low, high in ranges + complement(ranges):
        for point in {low, high, (low + high) // 2}:
            if 0xD800 <= point <= 0xDFFF:
                continue
            data = chr(point).encode()
            matches = sum(
                len(sequence) == len(data)
                and all(
                    first <= byte <= last
                    for byte, (first, last) in zip(data, sequence, strict=True)
                )
                for sequence in sequences
                if len(sequence) == len(data)
            )
            assert matches == any(first <= point <= last for first, last in ranges)


def test_the_decoder_takes_what_python_takes():
    def decodes(data: bytes) -> bool:
        state = 0
        for byte in data:
            targets = [target for low, high, target in DECODER[state] if low <= byte <= high]
            if not targets:
                return False
            (state,) = targets
        return state == 0

    leads = [0x00, 0x7F, 0x80, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5]
    trails = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0]
    for lead in leads:
        for second in trails:
            for tail in (b"", b"\x80", b"\x80\x80"):
                data = bytes([lead, second]) + tail
                try:
                    data.decode()
                    expected = True
                except UnicodeDecodeError:
                    expected = False
                assert decodes(data) == expected


# Patterns of JSON schema are printed as Regex(...) and compiled by xgrammar.
PATTERNS = [
    ("^[a-z]{2}\\d$", ['"ab1"', '"ab"', '"ab12', '"Ab']),
    ("^(ab|c){0,300}x*$", ['"ababccx"', '"aab', '"xc', '"' + "c" * 300 + '"', '"' + "c" * 301]),
    ("[^a]{2}", ['"bb"', '"éb"', '"ab', '"b"', '"\\\\n']),
    ("^\\w+\\s?é$", ['"aé"', '"a é"', '"a  ', '"é']),
]


@pytest.mark.parametrize(("pattern", "texts"), PATTERNS)
def test_patterns_are_read_as_xgrammar_compiles_them(compiler, pattern, texts):
    compiled = compiler.compile_json_schema({"type": "string", "pattern": pattern})
    automaton = automaton_of(compiled)
    oracle = Oracle(compiled)
    for text in texts:
        for end in range(len(text.encode()) + 1):
            prefix = text.encode()[:end]
            state = automaton.run(automaton.start, prefix)
            verdict = "dead" if state == DEAD else "open"
            if automaton.accepting(state):
                verdict = "accepted"
            assert verdict == oracle.judge(prefix)


def nodes_of(compiled) -> int:
    return len(read_normal_form(str(compiled.grammar)).final)


@pytest.mark.parametrize("bound", [100, 1_000, 10_000, 1_000_000])
def test_automata_grow_with_the_logarithm_of_a_bound(compiler, bound):
    assert nodes_of(compiler.compile_json_schema({"type": "string", "maxLength": bound})) < 600
    schema = {"type": "array", "items": {"type": "integer"}, "maxItems": bound}
    assert nodes_of(compiler.compile_json_schema(schema)) < 600


@pytest.mark.parametrize(("low", "high"), [(0, 70), (3, 500), (64, 128), (130, 131), (5000, 9000)])
def test_long_bounds_are_exact(compiler, low, high):
    automaton = automaton_of(compiler.compile_grammar(f'root ::= "<" [^a]{{{low},{high}}} ">"'))
    assert automaton.shortest_length(automaton.start) == low + 2
    state = automaton.step(automaton.start, ord("<"))
    for count in range(high + 1):
        assert (automaton.step(state, ord(".")) != DEAD) == (count < high)
        closed = automaton.step(state, ord(">"))
        assert automaton.accepting(closed) == (low <= count)
        if count < high:
            state = automaton.step(state, ord("é".encode()[:1]))
            state = automaton.step(state, 0xA9)


def test_each_character_of_a_long_repetition_adds_a_state_or_two(compiler):
    automaton = automaton_of(compiler.compile_json_schema({"type": "string", "maxLength": 10_000}))
    automaton.run(automaton.start, b'"' + b"x" * 5_000)
    assert automaton.state_count < 5_010


def test_equal_rules_are_one(compiler):
    item = {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "number"}}}
    few = {"type": "object", "properties": {f"p{i}": item for i in range(2)}}
    many = {"type": "object", "properties": {f"p{i}": item for i in range(20)}}
    few = read_normal_form(str(compiler.compile_json_schema(few).grammar))
    many = read_normal_form(str(compiler.compile_json_schema(many).grammar))
    assert len(many.start) < len(few.start) + 25
