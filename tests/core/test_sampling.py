"""Draws follow the distribution that a request asks for, and its seed alone."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scripted import (
    CALL,
    DONE,
    END,
    MASK_ID,
    VOCABULARY,
    ScriptedEngine,
    text_of,
    token_automaton,
)
from test_any_logits import TOKEN_GRAMMARS, id_of, is_token_sentence

from lave_plugin.batch import Row, denoise
from lave_plugin.candidates import CandidateCutter
from lave_plugin.options import LaveOptions
from lave_plugin.sampling import Sampling, draw, gumbel_noise
from lave_plugin.session import Session

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


@pytest.mark.parametrize("edits", [False, True], ids=["masks only", "with edits"])
@pytest.mark.parametrize("name", TOKEN_GRAMMARS)
def test_answers_of_grammars_over_tokens_at_a_temperature(name, edits):
    tokens = token_automaton(TOKEN_GRAMMARS[name])
    budget = tokens.tokens_to_finish(tokens.start) + 5
    answers = []
    for seed in (1, 2, 3, 1):
        engine = ScriptedEngine(8, edits=edits, sharpness=0.5, seed=5)
        engine.sampling = Sampling(1.0, seed, top_p=0.99)
        answer, _, _ = engine.answer(tokens, budget, prompt_tail=2)
        assert is_token_sentence(TOKEN_GRAMMARS[name], answer), answer
        assert MASK_ID not in answer
        answers.append(answer)
    assert answers[0] == answers[3]
    assert len(set(map(tuple, answers))) > 1


def first_tokens(grammars, logits, sampling):
    """The first token of a request of each grammar, all in one batch, in blocks of one."""
    sessions = [Session(token_automaton(ebnf), LaveOptions(), 9) for ebnf in grammars]
    cutter = CandidateCutter(VOCABULARY, MASK_ID, 16)
    rows = [Row(index, session, [], 0) for index, session in enumerate(sessions)]
    batch = logits.expand(len(rows), 1, -1)
    drawn = {
        row.index: draw(
            batch[row.index],
            cutter.never(batch, row.session.tokens.special_tokens),
            sampling,
            0,
        )
        for row in rows
    }
    masks = torch.full((len(rows), 1), MASK_ID)
    proposed = torch.stack([drawn[row.index].tokens for row in rows])
    outcome = denoise(
        rows,
        masks,
        proposed,
        batch,
        cutter=cutter,
        mask_id=MASK_ID,
        threshold=0.7,
        drawn=drawn,
    )
    assert not outcome.errors
    return outcome.tokens[:, 0].tolist()


EITHER_TOKEN = f'root ::= (Token({CALL}) | Token({DONE}) | "a") "b"'


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_special_tokens_are_drawn_with_their_tempered_probability(temperature):
    """Under the next-token mask, though most of what is drawn at first is not allowed."""
    logits = torch.zeros(len(VOCABULARY))
    logits[CALL], logits[DONE], logits[id_of("a")], logits[MASK_ID] = 5.0, 4.0, 4.5, 9.0
    found = [
        first_tokens([EITHER_TOKEN], logits, Sampling(temperature, seed))[0] for seed in range(400)
    ]
    allowed = [CALL, DONE, id_of("a"), id_of("ab")]
    expected = (logits[allowed].double() / temperature).softmax(-1).numpy() * len(found)
    counts = [found.count(token) for token in allowed]
    assert sum(counts) == len(found)
    assert stats.chisquare(counts, expected).pvalue > 1e-3


def test_a_special_token_is_drawn_only_where_the_row_s_own_grammar_names_it():
    logits = torch.zeros(len(VOCABULARY))
    logits[CALL] = logits[DONE] = 20.0
    grammars = [f'root ::= Token({CALL}) "b" | "c"', "root ::= [a-c]", f"root ::= Token({DONE})"]
    for seed in range(20):
        called, text, done = first_tokens(grammars, logits, Sampling(1.0, seed))
        assert (called, done) == (CALL, DONE)
        assert VOCABULARY.token_bytes[text] in (b"a", b"b", b"c")
