"""Thinking is free, ends, and the grammar begins behind its end, wherever in a block that is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted import END, MASK_ID, VOCABULARY, ScriptedEngine, text_of, token_automaton
from test_any_logits import GRAMMARS, is_sentence

from lave_plugin import batch
from lave_plugin.canvas import MASKED
from lave_plugin.grammar.room import Room
from lave_plugin.options import LaveOptions
from lave_plugin.session import Session
from lave_plugin.thinking import Thinking


def ids(text: str) -> list[int]:
    return [VOCABULARY.id_of[bytes([byte])] for byte in text.encode()]


BARRED = {END, MASK_ID, 10**6}  # a request may stop at tokens that there are not
ENDS = {"one token": ids("%"), "three tokens": ids("</>"), "twice the same": ids("%%")}


def split(answer: list[int], thinking: Thinking) -> tuple[list[int], list[int]]:
    """Thinking without its end, and what stands behind."""
    begin = thinking.behind_end(answer)
    assert begin is not None, "the thinking never ended"
    return answer[: begin - len(thinking.end)], answer[begin:]


def check(ebnf: str, answer: list[int], thinking: Thinking) -> None:
    thought, rest = split(answer, thinking)
    assert thinking.barred.isdisjoint(thought)
    assert END in rest, "cut by length"
    assert is_sentence(ebnf, text_of(rest)), text_of(rest)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("edits", [False, True], ids=["masks only", "with edits"])
@pytest.mark.parametrize("name", GRAMMARS)
def test_every_answer_ends_its_thinking_and_is_a_sentence(name, edits, end):
    tokens = token_automaton(GRAMMARS[name])
    thinking = Thinking(ENDS[end], BARRED)
    needed = tokens.tokens_to_finish(tokens.start) + len(thinking.end)
    for seed, slack in enumerate([0, 1, 5, 40]):
        engine = ScriptedEngine(block=8, edits=edits, seed=seed, phrase=ENDS[end])
        answer, session, _ = engine.answer(tokens, needed + slack, seed, thinking)
        assert session.ended
        check(GRAMMARS[name], answer, thinking)


KEEPING = [
    LaveOptions(),
    LaveOptions(lookahead="sampled"),
    *(LaveOptions(strategy=strategy) for strategy in ("sequential", "map", "posterior")),
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(sorted(GRAMMARS)),
    end=st.lists(st.sampled_from(ids("%<a")), min_size=1, max_size=4),
    block=st.integers(1, 9),
    slack=st.integers(0, 30),
    longest=st.none() | st.integers(0, 20),
    edits=st.booleans(),
    sharpness=st.sampled_from([0.5, 4.0, 30.0]),
    options=st.sampled_from(KEEPING),
    seed=st.integers(0, 10_000),
)
def test_any_end_of_thinking(name, end, block, slack, longest, edits, sharpness, options, seed):
    tokens = token_automaton(GRAMMARS[name])
    thinking = Thinking(end, BARRED, longest)
    needed = tokens.tokens_to_finish(tokens.start) + len(end)
    engine = ScriptedEngine(
        block,
        edits=edits,
        sharpness=sharpness,
        seed=seed,
        options=options,
        phrase=end,
    )
    answer, _, _ = engine.answer(tokens, needed + slack, thinking=thinking)
    check(GRAMMARS[name], answer, thinking)
    if longest is not None:
        assert len(split(answer, thinking)[0]) <= longest


def test_the_model_ends_its_thinking_where_it_likes():
    """Else the properties above would only show what happens when it must end."""
    tokens = token_automaton(GRAMMARS["bounded"])
    thinking = Thinking(ids("%"), BARRED)
    lengths = set()
    for seed in range(12):
        engine = ScriptedEngine(block=8, seed=seed, phrase=thinking.end)
        answer, _, _ = engine.answer(tokens, 200, thinking=thinking)
        lengths.add(len(split(answer, thinking)[0]))
    assert len(lengths) > 6 and max(lengths) < 150
    assert {length % 8 for length in lengths} - {7}, "never inside a block"


def test_answers_do_not_depend_on_the_cap_on_states(monkeypatch):
    answers = []
    for cap in (1 << 30, 1):
        monkeypatch.setattr(batch.room, "of_process", Room(cap))
        tokens = token_automaton(GRAMMARS["nested"])
        engine = ScriptedEngine(block=4, seed=3, phrase=ids("%"))
        answers.append(engine.answer(tokens, 60, thinking=Thinking(ids("%"), BARRED))[0])
    assert answers[0] == answers[1]


M = MASKED


def step(canvas: str, proposed: str, *, room=99, answer="", end="%", best="z"):
    """A step on a block of one-byte tokens, ``_`` where nothing stands.

    ``%`` ends the thinking, ``!`` is barred, and the best token anywhere is ``z``.
    """

    def block(text: str) -> np.ndarray:
        return np.array([M if c == "_" else ids(c)[0] for c in text], dtype=np.int32)

    def text(block: np.ndarray) -> str:
        tokens = block.tolist()
        return "".join("_" if t == M else VOCABULARY.token_bytes[t].decode() for t in tokens)

    thinking = Thinking(ids(end), ids("!"))
    tokens, writes = block(canvas), block(proposed)
    begin = thinking.step(tokens, writes, 0, ids(answer), room, lambda *_: ids(best)[0])
    return text(tokens), text(writes), begin


STEPS = {
    "the model's own choice": (("____", "_a__"), ("_a__", "____", 4)),
    "a barred token gives way to the best other": (("____", "_!__"), ("_z__", "____", 4)),
    "an edit to a barred token is dropped": (("ab__", "_!c_"), ("abc_", "____", 4)),
    "something is committed where nothing is proposed": (("a___", "____"), ("az__", "____", 4)),
    "what is written with the end is proposed": (("____", "a%b_"), ("a%__", "__b_", 2)),
    "what stood behind the end is proposed": (("__bc", "_%_d"), ("_%__", "__bd", 2)),
    "masks before the end stay free": (("_%__", "a_b_"), ("a%__", "__b_", 2)),
    "no second end before the end": (("__%_", "_%__"), ("_z%_", "____", 3)),
    "the end is not edited away": (("a%b_", "_cd_"), ("a%b_", "__d_", 2)),
    "an edit may end the thinking": (("abc_", "_%__"), ("a%__", "__c_", 2)),
    "masks behind the end are enough for a step": (("_%__", "__b_"), ("_%__", "__b_", 2)),
    "else one before it is filled": (("_%ab", "____"), ("z%ab", "____", 2)),
}


@pytest.mark.parametrize("name", STEPS)
def test_one_step(name):
    arguments, expected = STEPS[name]
    assert step(*arguments) == expected


def test_it_ends_when_the_room_for_it_is_full():
    assert step("ab__", "__cd", room=3) == ("abc%", "____", 4)
    assert step("a___", "__cd", room=3) == ("a_c_", "____", 4), "not before"
    assert step("____", "a%bc", room=0) == ("%___", "_%bc", 1), "behind it the grammar judges"


def test_what_is_committed_for_want_of_a_proposal_may_be_the_end():
    assert step("a_c_", "____", best="%") == ("a%__", "__c_", 2)
    assert step("a_c_", "____", best="/", end="a/") == ("a/__", "__c_", 2)


def test_an_end_across_two_blocks():
    assert step("abc_", "___d", room=3, end="</>") == ("abc<", "____", 4)
    assert step("____", "a__d", room=-1, answer="abc<", end="</>") == ("/>__", "___d", 2)
    assert step("____", "__d_", answer="ab</", end="</>", room=9) == ("__d_", "____", 4)
    assert step("____", ">_d_", answer="ab</", end="</>", room=9) == (">___", "__d_", 1)


def test_a_session_reads_its_answer_block_by_block():
    tokens = token_automaton('root ::= "abc"')
    session = Session(tokens, LaveOptions(), 20, thinking=Thinking(ids("</>"), BARRED))
    answer = ids("xx<")
    session.follow(answer)
    assert session.is_thinking and session.length == 3 and session.state == tokens.start
    answer += ids("/>ab")
    session.follow(answer)
    assert not session.is_thinking and session.begin == 5
    session.follow([*answer, *ids("c"), END])
    assert session.ended
    session.follow(answer[:4])  # it can also lose some of it
    assert session.is_thinking and session.length == 4
