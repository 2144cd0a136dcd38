"""One tensor-parallel rank, as a process: prints every token that it writes, as JSON.

``python rank.py LOOKAHEAD ALREADY_SERVED``: the stream of logits is the same whatever the
arguments; with the second one at 1 the states have served other requests before, so that
they are numbered otherwise.
"""

from __future__ import annotations

import json
import sys

import torch
from scripted import END, MASK_ID, VOCABULARY, ScriptedEngine, token_automaton

from lave_plugin.batch import Row, denoise
from lave_plugin.options import LaveOptions
from lave_plugin.session import Session
from lave_plugin.thinking import Thinking

GRAMMARS = [
    'root ::= term (("+" | "-") term)*\nterm ::= [0-9]+ | "(" root ")"',
    'root ::= "{" "\\"a\\":" val "}"\nval ::= "true" | "[" [0-9] ("," [0-9])* "]"',
    "root ::= [a-c]{3,9}",
    'root ::= "a" root "b" | "c"',
    'root ::= "é" [α-ω]{2} "漢"',
]
BLOCK, BUDGET, STEPS = 8, 30, 80


def written(lookahead: str, already_served: bool) -> list:
    """The ids of all rows after each step."""
    options = LaveOptions(lookahead=lookahead)
    engine = ScriptedEngine(BLOCK, edits=True, seed=7, options=options)
    automata = [token_automaton(grammar) for grammar in GRAMMARS]
    if already_served:
        for seed, tokens in enumerate(reversed(automata)):
            ScriptedEngine(BLOCK, seed=seed, options=options).answer(tokens, 2 * BUDGET)
    thinks = Thinking([VOCABULARY.id_of[b"%"]], {END, MASK_ID})
    sessions = [
        Session(tokens, options, BUDGET, seed, thinks if seed % 3 == 1 else None)
        for seed, tokens in enumerate(automata)
    ]
    answers: list[list[int]] = [[] for _ in sessions]
    ids = torch.full((len(sessions), BLOCK), MASK_ID)
    history = []
    for _ in range(STEPS):
        logits = torch.cat([engine.logits() for _ in sessions])
        proposed = [
            engine.propose(ids[row : row + 1], logits[row : row + 1], 0)
            for row in range(len(sessions))
        ]
        going_on = [row for row, session in enumerate(sessions) if not session.ended]
        if not going_on:
            break
        outcome = denoise(
            [Row(row, sessions[row], answers[row], 0) for row in going_on],
            ids,
            torch.cat(proposed),
            logits,
            cutter=engine.cutter,
            mask_id=MASK_ID,
            threshold=engine.threshold,
        )
        assert not outcome.errors
        ids[going_on] = torch.from_numpy(outcome.tokens)
        history.append(ids.tolist())
        for row in going_on:
            if not (ids[row] == MASK_ID).any():
                answers[row] += ids[row].tolist()
                sessions[row].follow(answers[row])
                ids[row] = MASK_ID
    assert all(session.ended for session in sessions), "too few steps to say much"
    return history


if __name__ == "__main__":
    json.dump(written(sys.argv[1], sys.argv[2] == "1"), sys.stdout)
