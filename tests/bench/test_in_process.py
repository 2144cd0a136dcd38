"""What is measured on the shipped model without an engine: the sweep over T, the feasibility."""

import pytest
import torch
from typer.testing import CliRunner

from lave_plugin.bench.in_process import feasibility, steps
from lave_plugin.bench.in_process.model import ShippedModel
from lave_plugin.bench.results import Results
from lave_plugin.bench.tables import tables_of
from lave_plugin.cli import app
from lave_plugin.demo.shipped import CHECKPOINT
from lave_plugin.demo.tasks import held_out
from lave_plugin.demo.training.evaluate import decode
from lave_plugin.demo.training.model import load_checkpoint
from lave_plugin.demo.training.tokenizer import END_ID, MASK_ID


@pytest.fixture(scope="module")
def model():
    return ShippedModel(CHECKPOINT)


def test_text_and_tokens_of_the_model_are_each_others(model):
    for sample in held_out(5, 3):
        tokens = model.tokens(sample.answer)
        assert model.text(tokens) == sample.answer
        assert model.text([*tokens, END_ID, tokens[0]]) == sample.answer
    assert model.vocabulary.end_tokens == {END_ID}
    assert not model.vocabulary.token_bytes[MASK_ID]


def test_logits_of_a_row_do_not_depend_on_longer_rows_beside_it(model):
    short, long = [5] * 14 + [MASK_ID] * 2, [7] * 40 + [MASK_ID] * 8
    together, alone = model.logits([short, long])[0], model.logits([short])[0]
    assert together.shape == (model.block_size, len(model.vocabulary))
    assert torch.allclose(together, alone, atol=1e-4)
    assert torch.all(together[:, MASK_ID] == -torch.inf)


def test_the_surest_masks_are_filled_and_nothing_else():
    before = torch.tensor([[9, MASK_ID, MASK_ID, MASK_ID]])
    logits = torch.zeros(1, 4, 12)
    for position, (token, height) in enumerate([(5, 99), (6, 1), (7, 3), (8, 2)]):
        logits[0, position, token] = height
    assert steps.surest(before, logits, 2).tolist() == [[9, MASK_ID, 7, 8]]
    assert steps.surest(before, logits, 16).tolist() == [[9, 6, 7, 8]]


def test_without_a_constraint_one_token_a_step_is_what_the_evaluation_decodes(model):
    """At a threshold that nothing is above, LowConfidence takes one token a step as well."""
    samples = held_out(3, 0)
    benchmark = steps.StepsBenchmark(model, len(samples), 0)
    prompts = [model.prompted(sample.prompt).tokens for sample in samples]
    expected = decode(load_checkpoint(CHECKPOINT), prompts, 1.0)
    decodings = benchmark._answer(samples, 1, None)
    assert [d.answer for d in decodings] == [row.tokens[row.prompt_length :] for row in expected]
    assert [d.steps for d in decodings] == [row.steps for row in expected]


def test_few_steps_leave_constrained_answers_valid(model, tmp_path):
    results = Results.open(tmp_path / "paper-steps.json", "steps", {"table": "steps"})
    benchmark = steps.StepsBenchmark(model, 3, 1)
    benchmark.run(results)
    assert benchmark.is_complete(results)
    rows = {(row["mode"], row["T"]): row for row in steps.summary(results)}
    assert len(rows) == len(steps.STEPS) * 2
    for (mode, _), row in rows.items():
        assert row["answers"] == 3
        assert mode == "none" or row["syntactic"] == 100.0
    assert rows["none", 16]["syntactic"] < 100.0, "nothing was hard"
    assert rows["none", 16]["steps"] < rows["none", 64]["steps"] < rows["none", 256]["steps"]
    (table,) = tables_of(results)
    assert len(table.rows) == len(rows)


class TestFeasibility:
    def test_blocks_are_the_right_answer_behind_its_prompt(self, model):
        benchmark = feasibility.FeasibilityBenchmark(model, 4, 1)
        assert len({block.key for block in benchmark.blocks}) == len(benchmark.blocks)
        for sample in benchmark.samples:
            mine = [b for b in benchmark.blocks if b.sample is sample and b.part == 0.2]
            whole = [*mine[-1].before, *mine[-1].right]
            prompt = model.prompted(sample.prompt).tokens
            assert whole[: len(prompt)] == prompt
            assert model.text(whole[len(prompt) :]) == sample.answer
            assert mine[-1].answered == whole[len(prompt) : -model.block_size]

    def test_the_search_finds_what_sampling_finds(self, model, tmp_path):
        results = Results.open(tmp_path / "paper-feasibility.json", "feasibility", {})
        feasibility.FeasibilityBenchmark(model, 3, 0).run(results)
        for entry in results.all():
            if any(entry[way] is not None for way in feasibility.WAYS):
                assert entry["guided"], entry
        for part in feasibility.parts(results):
            for way in feasibility.WAYS:
                accepted = feasibility.acceptance(results, part, way)
                assert accepted == sorted(accepted)
                assert len(accepted) == feasibility.MOST
        (table,) = tables_of(results)
        assert len(table.rows) == len(feasibility.MASKED_PARTS) * 3


@pytest.mark.parametrize("table", ["steps", "feasibility"])
def test_a_checkpoint_of_another_kind_is_refused(tmp_path, table):
    (tmp_path / "config.json").write_text('{"architectures": ["LLaDA2MoeModelLM"]}')
    files = ["--model", str(tmp_path), "--json", str(tmp_path / "out.json")]
    result = CliRunner().invoke(app, ["bench", "paper", "--table", table, *files])
    assert result.exit_code == 2
    assert "can't be run without an engine" in result.output.replace("\n", " ")
