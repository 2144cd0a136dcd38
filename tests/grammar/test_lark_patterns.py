"""Python's `re` as the oracle of a terminal's automaton: what it matches, and before what."""

import itertools
import re

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lave_plugin.grammar.lark.characters import any_case, category, characters
from lave_plugin.grammar.lark.matching import matcher_of
from lave_plugin.grammar.lark.pattern import of_regexp
from lave_plugin.grammar.lark.source import UnsupportedPattern
from lave_plugin.grammar.lark.terminals import first_characters

LETTERS = "ab-"
TEXTS = ["".join(text) for n in range(5) for text in itertools.product(LETTERS, repeat=n)]
RESTS = ["", *(text for text in TEXTS if 1 <= len(text) <= 2)]


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = inner.map("(?:{})".format)
    return st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(group, st.sampled_from(["?", "*", "+", "{2}", "{1,2}"])).map("".join),
    )


PLAIN = st.recursive(st.sampled_from(["a", "b", "-", "[ab]", "[^a]", ".", r"\w", r"\W"]), _combined,
                     max_leaves=4)  # fmt: skip
LOOKING = st.one_of(
    PLAIN.map("(?={})".format),
    PLAIN.map("(?!{})".format),
    st.sampled_from(["(?<=a)", "(?<!-)", "(?<=ab)", r"\b", r"\B", r"(?!ab\b)", "(?!(?=a)ab)"]),
)
PATTERNS = st.recursive(st.one_of(PLAIN, PLAIN, LOOKING), _combined, max_leaves=5)


def built(pattern: str):
    try:
        return matcher_of(of_regexp(pattern, ""))
    except UnsupportedPattern as error:
        # Looks behind its beginning: that has no answer without the text before.
        assume("looks behind" not in str(error))
        raise


def follow_of(matcher, text: str):
    state = matcher.run(text)
    return None if state is None else matcher.states[state].final


@settings(max_examples=120, deadline=None)
@given(PATTERNS)
def test_what_it_matches_at_the_end_of_the_text(pattern):
    matcher = built(pattern)
    for text in TEXTS:
        follow = follow_of(matcher, text)
        ends = follow is not None and follow.end
        assert ends == bool(re.fullmatch(pattern, text)), text


@settings(max_examples=80, deadline=None)
@given(PATTERNS)
def test_what_it_matches_before_a_character_python_does_as_well(pattern):
    matcher = built(pattern)
    for text in (text for text in TEXTS if len(text) <= 3):
        follow = follow_of(matcher, text)
        for rest in RESTS[1:]:
            if follow is not None and any(
                low <= ord(rest[0]) <= high for low, high in follow.characters
            ):
                exactly = rf"(?:{pattern})(?=.{{{len(rest)}}}\Z)"
                assert re.match(exactly, text + rest), (text, rest)


@settings(max_examples=100, deadline=None)
@given(PLAIN)
def test_without_looking_around_anything_may_follow(pattern):
    matcher = built(pattern)
    first, empty = first_characters(of_regexp(pattern, ""))
    for text in TEXTS:
        follow = follow_of(matcher, text)
        assert (follow is not None) == bool(re.fullmatch(pattern, text))
        if follow is not None:
            assert follow.end and any(low <= ord("a") <= high for low, high in follow.characters)
            assert empty if not text else any(low <= ord(text[0]) <= high for low, high in first)


LAZY = st.sampled_from(["a", "b", "-", "[ab]", ".*?", "a*?", "(?:ab)+?", "b{1,2}?", "b??"])


@settings(max_examples=150, deadline=None)
@given(st.lists(LAZY, min_size=1, max_size=4).map("".join))
def test_a_lazy_pattern_matches_what_python_matches_first(pattern):
    """Of lazy parts only: the preferred match is the shortest."""
    matcher = built(pattern)
    for text in TEXTS:
        found = re.match(pattern, text)
        ours = next((end for end in range(len(text) + 1) if follow_of(matcher, text[:end])), None)
        assert ours == (found and found.end()), text


def test_classes_of_characters_are_those_of_re():
    everything = [chr(code) for code in (*range(1, 0x3000), *range(0xFE00, 0xFFFF), 0x1D7CE)]
    for escape in (r"\d", r"\s", r"\w"):
        ranges = category(escape)
        for character in everything:
            inside = any(low <= ord(character) <= high for low, high in ranges)
            assert inside == bool(re.match(escape, character)), hex(ord(character))
    for code in (*range(0x41, 0x5B), 0xE9, 0x3B1, 0x3C2, 0x17F, 0x212A, 0xDF, 0x130, 0x31):
        ranges = any_case(characters([(code, code)]))
        for character in map(chr, (*range(1, 0x500), 0x1E9E, 0x212A)):
            inside = any(low <= ord(character) <= high for low, high in ranges)
            same = re.match(re.escape(chr(code)), character, re.IGNORECASE)
            assert inside == bool(same), (hex(code), hex(ord(character)))
