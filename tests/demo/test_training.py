"""Training and decoding see the same thing, and a checkpoint comes back as it went."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from lave_plugin.demo.records import Sample
from lave_plugin.demo.shipped import CHECKPOINT, algorithm_config
from lave_plugin.demo.tasks import FIRST_LESSON, LAST_LESSON, held_out
from lave_plugin.demo.training import train
from lave_plugin.demo.training.constraints import Constraints
from lave_plugin.demo.training.evaluate import Score, answers, decode, score_of
from lave_plugin.demo.training.model import (
    NEVER_SAID,
    ModelSize,
    TinyDLLM,
    block_causal,
    load_checkpoint,
    save_checkpoint,
)
from lave_plugin.demo.training.muon import Muon, orthogonalised
from lave_plugin.demo.training.packing import Example, pack
from lave_plugin.demo.training.tokenizer import END_ID, MASK_ID, chat, load_tokenizer
from lave_plugin.demo.training.train import STATE, Run, learning_rate

BLOCK_SIZE = 8


@pytest.fixture(scope="module")
def random_model() -> TinyDLLM:
    """A small model in which every part has an effect (training starts from an identity)."""
    torch.manual_seed(0)
    model = TinyDLLM(
        ModelSize(
            hidden=32, layers=2, heads=2, kv_heads=1, head_dim=16, mlp=48, block_size=BLOCK_SIZE
        )
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


@pytest.fixture(scope="module")
def checkpoint():
    return load_checkpoint(CHECKPOINT), load_tokenizer(CHECKPOINT)


EXAMPLES = [
    Example(prompt=list(range(100, 121)), answer=list(range(300, 340))),
    Example(prompt=list(range(150, 182)), answer=list(range(400, 407))),
]


@pytest.mark.parametrize("autoregressive", [False, True])
@torch.no_grad()
def test_a_noisy_block_is_computed_as_in_decoding(random_model, autoregressive):
    batch = pack(EXAMPLES, np.random.default_rng(1), BLOCK_SIZE, autoregressive=autoregressive)
    block_size = 1 if autoregressive else BLOCK_SIZE
    packed = random_model.hidden(batch.token_ids, batch.positions, batch.visible)
    for row, example in enumerate(EXAMPLES):
        clean = [*example.prompt, *example.answer, END_ID]
        clean += [END_ID] * (-len(clean) % block_size)
        first = len(example.prompt) // block_size
        for block in range(first, len(clean) // block_size):
            start = block * block_size
            where = batch.noisy + start - first * block_size
            noisy = batch.token_ids[row, where : where + block_size]
            tokens = torch.cat([torch.tensor(clean[:start], dtype=torch.long), noisy])[None]
            length = tokens.shape[1]
            alone = random_model.hidden(
                tokens, torch.arange(length)[None], block_causal(length, block_size)
            )
            torch.testing.assert_close(
                alone[0, start:], packed[row, where : where + block_size], rtol=1e-4, atol=1e-4
            )


def test_only_the_answer_is_masked_and_its_targets_are_its_tokens():
    batch = pack(EXAMPLES, np.random.default_rng(2), BLOCK_SIZE, autoregressive=False)
    noisy = batch.token_ids[:, batch.noisy :]
    masked = noisy == MASK_ID
    assert torch.equal(masked, batch.targets >= 0)
    assert torch.equal(masked, batch.weights > 0)
    for row, example in enumerate(EXAMPLES):
        positions = batch.positions[row, batch.noisy :][masked[row]]
        assert positions.min() >= len(example.prompt)
        whole = example.prompt + example.answer + [END_ID] * BLOCK_SIZE
        assert batch.targets[row][masked[row]].tolist() == [whole[p] for p in positions.tolist()]


def test_the_autoregressive_form_masks_the_whole_answer():
    batch = pack(EXAMPLES, np.random.default_rng(3), BLOCK_SIZE, autoregressive=True)
    assert (batch.targets >= 0).sum().item() == sum(len(e.answer) + 1 for e in EXAMPLES)


@pytest.mark.parametrize(
    ("step", "progress", "expected"),
    [(0, 0.0, 0.01), (99, 0.1, 1.0), (500, 0.4, 1.0), (900, 0.7, 0.5), (1000, 1.0, 0.0)],
)
def test_the_learning_rate_rises_holds_and_falls(step, progress, expected):
    assert learning_rate(step, progress) == pytest.approx(expected)


def test_a_saved_model_comes_back(random_model, tmp_path):
    save_checkpoint(random_model, tmp_path, torch.float32, softening=1.0)
    loaded = load_checkpoint(tmp_path)
    assert loaded.size == random_model.size
    for name, weight in loaded.state_dict().items():
        assert torch.equal(weight, random_model.state_dict()[name])


@torch.no_grad()
@pytest.mark.parametrize("softening", [1.0, 1.2, 3.0])
def test_a_checkpoint_is_less_sure_than_the_model_it_is_of(random_model, tmp_path, softening):
    save_checkpoint(random_model, tmp_path, torch.float32, softening)
    hidden = torch.randn(5, random_model.size.hidden)
    torch.testing.assert_close(
        load_checkpoint(tmp_path).logits(hidden), random_model.logits(hidden) / softening
    )


def test_a_row_decodes_the_same_alone_and_in_a_batch(random_model):
    prompts = [example.prompt for example in EXAMPLES] + [list(range(500, 516))]
    together = decode(random_model, prompts, threshold=0.5)
    for prompt, row in zip(prompts, together, strict=True):
        (alone,) = decode(random_model, [prompt], threshold=0.5)
        assert (alone.tokens, alone.steps) == (row.tokens, row.steps)


def test_a_threshold_of_one_commits_one_token_a_step(random_model):
    (row,) = decode(random_model, [list(range(100, 132))], threshold=1.0)
    assert row.steps == len(row.tokens) - row.prompt_length
    assert MASK_ID not in row.tokens


@torch.no_grad()
def test_at_a_temperature_the_draws_go_by_torch_s_seed(random_model):
    prompts = [example.prompt for example in EXAMPLES]

    def drawn(seed: int) -> list[list[int]]:
        torch.manual_seed(seed)
        return [row.tokens for row in decode(random_model, prompts, 0.5, temperature=1.0)]

    assert drawn(1) == drawn(1) != drawn(2)


@pytest.fixture
def short_run(monkeypatch):
    """A whole training run of six steps, of a small model on few samples."""
    monkeypatch.setattr(train, "TOKENIZER_SAMPLES", 300)
    monkeypatch.setattr(train, "ROWS", 4)
    size = ModelSize(hidden=32, layers=2, heads=2, kv_heads=1, head_dim=16, mlp=48)

    def run(out: Path, stops: tuple[int, ...] = (), seed: int = 3) -> dict[str, torch.Tensor]:
        """The weights after six steps, stopped and gone on with before each of `stops`."""
        cpu = torch.device("cpu")
        going = Run(out, 6, seed, resume=False, device=cpu, size=size)
        while going.step < going.steps:
            if going.step in stops:
                going.save()
                going = Run(out, 6, seed, resume=True, device=cpu, size=size)
            going.advance()
        return {name: weight.clone() for name, weight in going.model.state_dict().items()}

    return run


def test_a_run_that_is_stopped_goes_on_bit_by_bit(short_run, tmp_path):
    whole = short_run(tmp_path / "whole")
    stopped = short_run(tmp_path / "stopped", stops=(1, 4, 5))
    other = short_run(tmp_path / "other", seed=4)
    assert all(torch.equal(whole[name], stopped[name]) for name in whole)
    assert any(not torch.equal(whole[name], other[name]) for name in whole)


@pytest.mark.parametrize(
    ("step", "lesson", "progress"),
    [
        (0, FIRST_LESSON, 0.0),
        (4_500, FIRST_LESSON, 0.5),
        (8_999, FIRST_LESSON, 8_999 / 9_000),
        (9_000, LAST_LESSON, 9 / 11),
        (11_000, LAST_LESSON, 1.0),
    ],
)
def test_a_run_has_two_lessons(step, lesson, progress):
    assert train.place_in(11_000, step) == (lesson, pytest.approx(progress))


@pytest.mark.parametrize("first_group", [0, 2_000, 2_300])
def test_the_batches_of_a_group_hold_all_its_samples_and_are_of_one_size(checkpoint, first_group):
    _, tokenizer = checkpoint
    for group in range(first_group, first_group + 4):
        batches = train.batches_of(tokenizer, 5, 11_000, group, BLOCK_SIZE)
        rows = [len(batch.token_ids) for batch in batches]
        assert len(batches) == train.GROUP
        assert sum(rows) in (train.GROUP * train.ROWS, 2 * train.GROUP * train.ROWS)
        sizes = [batch.token_ids.numel() for batch in batches]
        assert max(sizes) < 2 * min(sizes)


def test_a_run_is_saved_whole_or_not_at_all(short_run, tmp_path):
    short_run(tmp_path / "run", stops=(2,))
    assert (tmp_path / "run" / STATE).exists()
    assert not list((tmp_path / "run").glob("*.part"))
    with pytest.raises(SystemExit, match="seed"):
        Run(tmp_path / "run", 6, 9, resume=True, device=torch.device("cpu"))


# --- the checkpoint that ships ---------------------------------------------------------


def test_the_checkpoint_is_small_and_says_what_the_engine_must_know():
    files = [path for path in CHECKPOINT.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 12_000_000
    config = json.loads((CHECKPOINT / "config.json").read_text())
    assert config["architectures"] == ["SDARForCausalLM"]
    assert config["mask_token_id"] == MASK_ID
    assert algorithm_config() == {"block_size": config["block_size"], "threshold": 0.7}
    assert config["tie_word_embeddings"] is False


def test_the_head_does_not_know_what_no_answer_has():
    weights = load_file(CHECKPOINT / "model.safetensors")
    head, embedding = weights["lm_head.weight"], weights["model.embed_tokens.weight"]
    assert ((head != embedding).any(1).nonzero().flatten() == torch.tensor(NEVER_SAID)).all()
    assert not head[NEVER_SAID].any()


def score_at(checkpoint, samples: list[Sample], threshold: float) -> Score:
    return score_of(samples, *answers(*checkpoint, samples, threshold))


@pytest.mark.parametrize(("task", "valid", "exact"), [("record", 85, 70), ("unseen", 75, 65)])
def test_the_checkpoint_copies_what_it_has_never_seen(checkpoint, task, valid, exact):
    score = score_at(checkpoint, held_out(30, 11, task), threshold=0.95)
    assert score.valid >= valid
    assert score.exact >= exact


def test_the_decoder_keeps_to_constraints_as_the_engine_does(checkpoint):
    model, tokenizer = checkpoint
    constraints = Constraints(tokenizer)
    for task in ("record", "expression", "field"):
        samples = held_out(12, 11, task)
        texts, _ = answers(model, tokenizer, samples, 0.5, constraints=constraints)
        assert score_of(samples, texts, [1]).valid == 100
    with pytest.raises(ValueError, match="temperature 0"):
        answers(model, tokenizer, samples, 0.5, 1.0, constraints)


def test_the_checkpoint_leaves_something_to_repair(checkpoint):
    """A demo of constrained decoding needs a model that errs when hurried."""
    score = score_at(checkpoint, held_out(60, 11), threshold=0.5)
    assert score.valid < 90


def test_the_shipped_tokenizer_knows_the_texts_well(checkpoint):
    _, tokenizer = checkpoint
    texts = [sample.answer for sample in held_out(500, 0)]
    tokens = sum(len(tokenizer.encode(text).ids) for text in texts)
    assert sum(map(len, texts)) / tokens > 2.0


def test_a_prompt_ends_where_the_answer_begins(checkpoint):
    _, tokenizer = checkpoint
    sample = held_out(1, 0)[0]
    prompt = tokenizer.encode(chat(sample.prompt)).ids
    answer = tokenizer.encode(sample.answer).ids
    assert tokenizer.encode(chat(sample.prompt) + sample.answer).ids == prompt + answer


def test_an_independent_qwen3_computes_the_same_logits(checkpoint):
    """What loads the file elsewhere gets the model that was trained, but for what it never says."""
    transformers = pytest.importorskip("transformers")
    model, tokenizer = checkpoint
    reference = transformers.Qwen3ForCausalLM.from_pretrained(
        CHECKPOINT, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    prompt = tokenizer.encode(chat(held_out(1, 0)[0].prompt)).ids
    size = model.size.block_size
    token_ids = torch.tensor([prompt + [MASK_ID] * (2 * size - len(prompt) % size)])
    length = token_ids.shape[1]
    visible = block_causal(length, size)
    bias = torch.zeros(1, 1, length, length).masked_fill(~visible[None], torch.finfo().min)
    with torch.no_grad():
        expected = reference(token_ids, attention_mask=bias).logits
        hidden = model.hidden(token_ids, torch.arange(length)[None], visible)
        logits = model.logits(hidden)
    assert logits[..., NEVER_SAID].any()
    logits[..., NEVER_SAID] = 0.0
    torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("shape", [(48, 48), (24, 96), (96, 24)])
def test_muon_steps_as_torch_s_does(shape):
    """torch's computes in bfloat16, so the two agree to that format's three digits of a step."""
    torch.manual_seed(0)
    ours, theirs = (torch.nn.Parameter(torch.zeros(shape)) for _ in range(2))
    mine = Muon([ours], 0.02, torch.float32)
    reference = torch.optim.Muon([theirs], lr=0.02, weight_decay=0.0)
    for _ in range(4):
        ours.grad = torch.randn(shape)
        theirs.grad = ours.grad.clone()
        mine.step()
        reference.step()
    assert (ours - theirs).norm() < 0.02 * theirs.norm()


@pytest.mark.parametrize("shape", [(3, 40, 40), (2, 16, 64), (2, 64, 16)])
def test_orthogonalised_matrices_have_singular_values_near_one(shape):
    torch.manual_seed(1)
    values = torch.linalg.svdvals(orthogonalised(torch.randn(shape)))
    # The coefficients trade exactness for speed: any random matrix ends within 0.3 of 1.
    assert ((values > 0.3) & (values < 1.3)).all()
