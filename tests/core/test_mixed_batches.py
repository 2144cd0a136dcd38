"""A constrained row is decided by its own logits, wherever in the batch it stands."""

import pytest
import torch
from scripted import MASK_ID, VOCABULARY, token_automaton

from lave_plugin.batch import Row, denoise
from lave_plugin.candidates import CandidateCutter
from lave_plugin.options import LaveOptions
from lave_plugin.session import Session

STRATEGIES = {
    "lave": {},
    "sequential": {"strategy": "sequential"},
    "intersection": {"strategy": "intersection"},
    "map": {"strategy": "map"},
    "map, candidates": {"strategy": "map", "regular_states": 0},
    "posterior": {"strategy": "posterior"},
    "posterior, mf": {"strategy": "posterior", "posterior": "mf"},
    "sampled": {"lookahead": "sampled"},
}


def step(options, logits, at):
    """What a step makes of a block of masks whose row stands at `at` in the batch."""
    masks = torch.full(logits.shape[:2], MASK_ID)
    session = Session(token_automaton("root ::= [a-z]{5}"), options, 12)
    outcome = denoise(
        [Row(at, session, [], 0)],
        masks,
        torch.where(logits.softmax(-1).amax(-1) > 0.5, logits.argmax(-1), masks),
        logits,
        cutter=CandidateCutter(VOCABULARY, MASK_ID, options.top_k),
        mask_id=MASK_ID,
        threshold=0.5,
    )
    assert not outcome.errors
    return outcome.tokens.tolist()


@pytest.mark.parametrize("name", STRATEGIES)
def test_rows_beside_a_constrained_one_change_nothing(name):
    options = LaveOptions(**STRATEGIES[name])
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        others = 4 * torch.randn((2, 8, len(VOCABULARY)), generator=generator)
        own = 4 * torch.randn((1, 8, len(VOCABULARY)), generator=generator)
        alone = step(options, own, 0)
        assert step(options, torch.cat([others, own]), 2) == alone
