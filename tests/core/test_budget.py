"""A block is longer than what the request has left: the engine cuts it there."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from scripted import COMPILER, END, MASK_ID, VOCABULARY

from lave_plugin.batch import Row, denoise
from lave_plugin.candidates import CandidateCutter
from lave_plugin.grammar import automaton, token_automaton
from lave_plugin.grammar.normal_form import read_normal_form
from lave_plugin.options import LaveOptions
from lave_plugin.session import Session

NATIVE = importlib.util.find_spec("lave_plugin.native._native") is not None


def states(implementation: str, ebnf: str):
    rules = read_normal_form(str(COMPILER.compile_grammar(ebnf).grammar))
    if implementation == "python":
        return token_automaton.TokenAutomaton(automaton.Automaton(rules), VOCABULARY)
    from lave_plugin import native

    return native.TokenAutomaton(native.Automaton(rules), VOCABULARY)


def ids(row: str) -> torch.Tensor:
    special = {"_": MASK_ID, "$": END}
    return torch.tensor(
        [[special[sign] if sign in special else VOCABULARY.id_of[sign.encode()] for sign in row]]
    )


@pytest.mark.parametrize("lookahead", ["guided", "sampled"])
@pytest.mark.parametrize(
    "implementation",
    ["python", pytest.param("native", marks=pytest.mark.skipif(not NATIVE, reason="not built"))],
)
@pytest.mark.parametrize(
    ("block", "proposed", "fits"),
    [
        # All that the model is sure of is right: the text, its end, and the filling behind.
        ("______", "ab$$$$", True),
        # The end has come first.
        ("a_$$$$", "ab$$$$", True),
        ("__$$$$", "cb$$$$", True),
        # This text ends one token too late.
        ("______", "aab$$$", False),
    ],
)
def test_end_tokens_behind_the_budget_cost_nothing(
    implementation, lookahead, block, proposed, fits
):
    """Three tokens are left in a block of six."""
    tokens = states(implementation, "root ::= [ac]+ [bd]")
    session = Session(tokens, LaveOptions(lookahead=lookahead), 3)
    before, after = ids(block), ids(proposed)
    logits = torch.zeros(1, 6, len(VOCABULARY)).scatter_(2, after[..., None], 12.0)
    outcome = denoise(
        [Row(0, session, [], 0)],
        before,
        after,
        logits,
        cutter=CandidateCutter(VOCABULARY, MASK_ID, 4),
        mask_id=MASK_ID,
        threshold=0.9,
    )
    assert not outcome.errors
    assert (outcome.tokens.tolist() == after.tolist()) == fits
