"""What a trace tells is what was done, and to be watched changes nothing."""

from __future__ import annotations

import copy
import itertools
import random
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import CALL, END, MASK_ID, VOCABULARY, ScriptedEngine, token_automaton

from lave_plugin import trace as traces
from lave_plugin.batch import Row, denoise
from lave_plugin.canvas import MASKED
from lave_plugin.options import LaveOptions
from lave_plugin.session import Session
from lave_plugin.thinking import Thinking
from lave_plugin.trace import FATES, Trace, join, nothing_told

GRAMMARS = {
    "nested": 'root ::= "a" root "b" | "c"',
    "keys": 'root ::= "{\\"abc\\": " ("true" | "false") ", \\"cab\\": " [0-9]+ "}"',
    "ambiguous": 'root ::= ("a" | "ab" | "b" | "abc" | "c")+ "a"',
}
WRITES = {"accepted", "edited", "replaced", "recovered", "forced", "filled", "unverified"}
MOVES = {*WRITES, "thought"}

engines = st.fixed_dictionaries(
    {
        "block": st.sampled_from([4, 8, 13]),
        "seed": st.integers(0, 999),
        "edits": st.booleans(),
        "sharpness": st.sampled_from([0.5, 2.0, 5.0]),
        "threshold": st.sampled_from([0.2, 0.7, 0.95]),
    }
)


def decode(name: str, engine: dict, trace: Trace | None, thinking: Thinking | None = None, **more):
    tokens = token_automaton(GRAMMARS[name])
    budget = tokens.tokens_to_finish(tokens.start) + 12
    return ScriptedEngine(**engine, **more).answer(
        tokens, budget, prompt_tail=2, thinking=thinking, trace=trace
    )


def replayed(step: dict) -> list[int]:
    """``before``, with the step's own events done to it."""
    block = list(step["before"])
    for fate, position, token, _ in step["events"]:
        if fate in MOVES:
            block[position - step["begin"]] = token
        elif fate == "taken back":
            block[position - step["begin"]] = MASKED
    return block


def check(steps: list[dict], retracted: bool = False) -> None:
    for step in steps:
        assert {fate for fate, *_ in step["events"]} <= FATES.keys()
        assert replayed(step) == step["after"]
        masks = [p for p, t in enumerate(step["after"], step["begin"]) if t == MASKED]
        assert {position for position, _ in step["witness"]} <= set(masks)
        for position, _, probability in step["favourites"]:
            thinks = any(fate == "thought" for fate, *_ in step["events"])
            assert step["before"][position - step["begin"]] == MASKED or thinks
            assert 0 <= probability <= 1
    for step, following in itertools.pairwise(steps):
        if step["begin"] == following["begin"]:
            assert step["after"] == following["before"] or (
                retracted and set(following["before"]) == {MASKED}
            )


@given(
    name=st.sampled_from(list(GRAMMARS)),
    engine=engines,
    strategy=st.sampled_from(["lave", "sequential", "map", "posterior", "intersection", "none"]),
    lookahead=st.sampled_from(["guided", "sampled"]),
    retractions=st.sampled_from([0, 2]),
)
@settings(max_examples=30, deadline=None)
def test_the_events_lead_from_each_block_to_the_next(
    name, engine, strategy, lookahead, retractions
):
    trace = Trace()
    options = LaveOptions(strategy=strategy, lookahead=lookahead, completion=True)
    answer, session, steps = decode(name, engine, trace, options=options, retractions=retractions)
    assert len(trace.steps) == steps == session.steps and not trace.left_out
    check(trace.steps, bool(retractions))
    blocks = {step["begin"]: step["after"] for step in trace.steps}
    assert list(itertools.chain(*blocks.values()))[: len(answer)] == answer
    steps = trace.steps
    facts = session.facts(answer)
    fates = Counter(fate for step in steps for fate, *_ in step["events"])
    assert facts["refusals"] == fates["refused"] + fates["replaced"]
    assert facts["recoveries"] == fates["recovered"]
    assert facts["forced_tokens"] == fates["forced"]
    assert facts["trace"]["steps"] is steps and not trace.steps


@given(name=st.sampled_from(list(GRAMMARS)), engine=engines)
@settings(max_examples=25, deadline=None)
def test_to_be_watched_changes_nothing(name, engine):
    """Unwatched, the native part takes the steps where it was built; watched, the reference."""
    answers = [decode(name, engine, trace) for trace in (None, Trace())]
    (answer, session, steps), (watched, watched_session, watched_steps) = answers
    assert (answer, steps) == (watched, watched_steps)
    facts, watched_facts = session.facts(answer), watched_session.facts(watched)
    watched_facts.pop("trace")
    assert facts == watched_facts


@given(engine=engines, length=st.integers(1, 9))
@settings(max_examples=30, deadline=None)
def test_thinking_is_told_apart_and_what_it_takes_back_is_told(engine, length):
    trace = Trace()
    thinking = Thinking([CALL], [END, MASK_ID], length)
    answer, _, _ = decode("keys", {**engine, "edits": False}, trace, thinking)
    check(trace.steps)
    begin = thinking.behind_end(answer)
    too_far = set()  # thought, and then an end came to stand before it
    for step in trace.steps:
        for fate, position, *_ in step["events"]:
            if fate == "thought" and position >= begin:
                too_far.add(position)
                continue
            assert (fate == "thought") == (position < begin)
            too_far.discard(position)  # taken back, set aside, or taken after all
    assert not too_far


def test_one_step_as_it_is_told():
    """The model would write a quote where an integer begins; the next best is taken."""
    tokens = token_automaton('root ::= "a" [0-9] "b"')
    trace = Trace()
    session = Session(tokens, LaveOptions(confidence="model"), 20, trace=trace)
    id_of = VOCABULARY.id_of
    logits = torch.full((1, 4, len(VOCABULARY)), -20.0)
    for position, weights in enumerate(
        [
            {b"a": 0.4, b"b": 0.3},
            {b"c": 0.75, b"7": 0.25},
            {b"b": 0.6, b"c": 0.4},
            {b"c": 0.5, b"a": 0.5},
        ]
    ):
        for text, probability in weights.items():
            logits[0, position, id_of[text]] = torch.tensor(probability).log()
    logits[0, 3, END] = torch.tensor(1e-3).log()
    before = torch.full((1, 4), MASK_ID)
    after = before.clone()
    after[0, 1] = id_of[b"c"]
    engine = ScriptedEngine(4)
    denoise(
        [Row(0, session, [], 0)],
        before,
        after,
        logits,
        cutter=engine.cutter,
        mask_id=MASK_ID,
        threshold=0.9,
    )
    (step,) = trace.steps
    assert step["before"] == [MASKED] * 4
    assert [[f, p, VOCABULARY.token_bytes[t].decode(), c] for f, p, t, c in step["events"]] == [
        ["refused", 1, "c", 0.75],
        ["accepted", 1, "7", 0.25],
        ["forced", 0, "a", pytest.approx(0.5714, abs=1e-3)],
        ["forced", 2, "b", 0.6],
        ["forced", 3, "", pytest.approx(1e-3, abs=1e-4)],
    ]
    facts = session.facts([*step["after"]])["trace"]
    assert facts["texts"][str(id_of[b"7"])] == "7"
    assert facts["end_tokens"] == [END]
    assert facts["left_out"] == 0


def test_a_long_trace_is_cut_and_says_so(monkeypatch):
    monkeypatch.setattr(traces, "MOST_ENTRIES", 30)
    trace = Trace()
    engine = {"block": 8, "seed": 1, "sharpness": 0.5}
    _, _, steps = decode("ambiguous", engine, trace)
    assert trace.left_out and len(trace.steps) + trace.left_out == steps
    assert sum(len(step["after"]) + len(step["events"]) for step in trace.steps) <= 60


class Streamed(Trace):
    """Some of its steps are taken while the others are still to be made."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.parts: list[dict] = []

    def end_step(self, *arguments) -> None:
        super().end_step(*arguments)
        for _ in range(self.random.choice([0, 0, 1, 2])):
            self.parts.append(self.take(VOCABULARY))


@given(
    name=st.sampled_from(list(GRAMMARS)),
    engine=engines,
    seed=st.integers(0, 999),
    most=st.sampled_from([60, traces.MOST_ENTRIES]),
)
@settings(max_examples=30, deadline=None)
def test_in_parts_nothing_is_lost_and_nothing_told_twice(name, engine, seed, most):
    trace, whole = Streamed(seed), Trace()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traces, "MOST_ENTRIES", most)
        decode(name, engine, whole)
        answer, session, steps = decode(name, engine, trace)
    expected = whole.take(VOCABULARY)
    parts = [*trace.parts, session.facts(answer)["trace"]]
    told = nothing_told()
    for part in copy.deepcopy(parts):
        join(told, part)
        for step in part["steps"]:  # it can be shown when it comes
            for token in map(str, [*step["after"], *(event[2] for event in step["events"])]):
                assert told["texts"].get(token) == expected["texts"].get(token)
    assert told == expected
    assert len(told["steps"]) + told["left_out"] == steps
    assert sum(len(part["texts"]) for part in parts) == len(told["texts"])
    assert sum(len(part["end_tokens"]) for part in parts) == len(told["end_tokens"])
    assert session.new_steps() == {"trace": nothing_told()}


def test_a_row_is_weighed_by_its_own_logits():
    """Others of the batch, without a constraint, stand before it."""
    tokens = token_automaton('root ::= "a" | "b"')
    session = Session(tokens, LaveOptions(strategy="map"), 9)
    logits = torch.full((3, 1, len(VOCABULARY)), -9.0)
    logits[:2, 0, VOCABULARY.id_of[b"a"]] = 9.0
    logits[2, 0, VOCABULARY.id_of[b"b"]] = 9.0
    before = torch.full((3, 1), MASK_ID)
    outcome = denoise(
        [Row(2, session, [], 0)],
        before,
        logits.argmax(-1),
        logits,
        cutter=ScriptedEngine(1).cutter,
        mask_id=MASK_ID,
        threshold=0.7,
    )
    assert not outcome.errors
    assert np.array_equal(outcome.tokens, [[VOCABULARY.id_of[b"b"]]])
