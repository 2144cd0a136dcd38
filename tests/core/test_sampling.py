"""Draws follow the distribution that a request asks for, and its seed alone."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scripted import END, MASK_ID, VOCABULARY, ScriptedEngine, text_of, token_automaton

from lave_plugin.sampling import Sampling, draw, gumbel_noise

LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0, 3.0, -30.0])
NEVER = torch.tensor([False, False, False, False, True, False])


def frequencies(sampling_of_seed, draws=4000):
    counts = np.zeros(len(LOGITS))
    rows = LOGITS.expand(40, -1)
    for seed in range(draws // 40):
        tokens = draw(rows, NEVER, sampling_of_seed(seed), 0).tokens
        counts += np.bincount(tokens.numpy(), minlength=len(LOGITS))
    return counts


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_are_the_tempered_probabilities(temperature):
    counts = frequencies(lambda seed: Sampling(temperature, seed))
    expected = (LOGITS.double().masked_fill(NEVER, -math.inf) / temperature).softmax(-1).numpy()
    assert counts[4] == counts[5] == 0
    chi_squared = stats.chisquare(counts[:4], expected[:4] / expected[:4].sum() * counts[:4].sum())
    assert chi_squared.pvalue > 1e-3


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ({"top_k": 2}, {0, 1}),
        ({"top_k": 99}, {0, 1, 2, 3}),
        ({"top_p": 0.5}, {0}),
        ({"top_p": 0.85}, {0, 1}),
        ({"top_p": 0.95}, {0, 1, 2}),
        ({"min_p": 0.3}, {0, 1}),
        ({"top_k": 3, "top_p": 0.85, "min_p": 0.9}, {0}),
    ],
)
def test_filters(filters, left):
    counts = frequencies(lambda seed: Sampling(1.0, seed, **filters), draws=2000)
    assert set(np.flatnonzero(counts).tolist()) == left


def test_noise_is_gumbel_and_depends_on_seed_position_and_token_alone():
    noise = gumbel_noise(7, torch.arange(50), 400)
    assert stats.kstest(noise.flatten().numpy(), "gumbel_r").pvalue > 1e-3
    assert torch.equal(noise[3:9], gumbel_noise(7, torch.arange(3, 9), 400))
    assert torch.equal(noise[:, :90], gumbel_noise(7, torch.arange(50), 90))
    others = [gumbel_noise(seed, torch.arange(50), 400) for seed in (8, -7, 7 + 2**64 - 1, 2**63)]
    for other in others:
        assert abs(np.corrcoef(noise.flatten(), other.flatten())[0, 1]) < 0.05
    assert torch.isfinite(gumbel_noise(1, torch.arange(64), 20_000)).all()


def test_an_algorithm_is_shown_the_model_s_own_confidence():
    logits = LOGITS.expand(200, -1)
    drawn = draw(logits, NEVER, Sampling(1.5, 3, top_k=3), 0)
    shown = drawn.as_logits(logits)
    assert torch.equal(shown.argmax(-1), drawn.tokens)
    confidence = shown.softmax(-1).max(-1).values
    true = logits.softmax(-1).gather(1, drawn.tokens[:, None])[:, 0]
    likely = true >= 2 / len(LOGITS)
    assert torch.allclose(confidence[likely], true[likely], atol=1e-5)
    assert len(set(drawn.tokens.tolist())) > 2


GRAMMAR = 'root ::= [ -~]{4,12} ";"'


@pytest.mark.parametrize("edits", [False, True])
def test_answers_at_a_temperature_are_valid_and_go_by_the_seed(edits):
    tokens = token_automaton(GRAMMAR)
    answers = {}
    for seed in (1, 2, 3):
        for again in range(2):
            engine = ScriptedEngine(8, edits=edits, sharpness=0.5, seed=5)
            engine.sampling = Sampling(1.0, seed)
            answer, _, _ = engine.answer(tokens, 20)
            text = text_of(answer)
            assert END in answer and MASK_ID not in answer
            state = tokens.automaton.run(tokens.automaton.start, text)
            assert tokens.automaton.accepting(state)
            if again:
                assert answers[seed] == text
            answers[seed] = text
    assert len(set(answers.values())) == 3
    assert len(VOCABULARY) == len(engine.logits()[0, 0])
