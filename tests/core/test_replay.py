"""A tiny replay, so that the benchmark stays what it says it is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def modules():
    """The benchmarks are scripts that find each other beside themselves."""
    sys.path.insert(0, str(BENCHMARKS))
    threads = torch.get_num_threads()
    try:
        import molecules
        import replay
        import simulated
        import strategies
        import vocabularies

        modules = (molecules, replay, simulated, strategies, vocabularies)
        yield {module.__name__: module for module in modules}
    finally:
        torch.set_num_threads(threads)
        sys.path.remove(str(BENCHMARKS))


def test_guided_answers_are_valid_and_complete(modules, tmp_path, capsys):
    report = tmp_path / "report.json"
    arguments = "--requests 2 --accuracies 0.6 --thresholds 0.7 --slice 1024 --batch 3"
    code = modules["replay"].main([*arguments.split(), "--json", str(report)])
    assert code == 0
    cells = json.loads(report.read_text())["cells"]
    assert {(cell["task"], cell["budget"]) for cell in cells} == {
        (task, budget)
        for task in ("JSON", "C++", "SMILES")
        for budget in ("shortest", "reference", "ample")
    }
    for cell in cells:
        assert cell["requests"] == 2
        if cell["mode"] == "guided":
            assert (cell["valid"], cell["complete"], cell["failures"]) == (2, 2, [])
    assert any(cell["failures"] for cell in cells if cell["mode"] == "none"), "nothing was hard"
    assert "guided: 18 of 18 valid and complete" in capsys.readouterr().out


def test_the_strategies_that_keep_to_the_grammar_do_so_in_replay(modules):
    rows = modules["strategies"].in_replay(2, [0.5], "C++", None, None, 0)
    assert {row.task for row in rows} == {"JSON", "SMILES"}
    for row in rows:
        assert row.requests == 2
        assert row.valid + sum(row.failures.values()) == 2
        if row.strategy.startswith(("sequential", "map", "posterior", "lave")):
            assert row.valid == 2, row
    assert any(row.failures for row in rows if row.strategy == "no constraint")


@pytest.mark.parametrize(
    ("smiles", "valid"),
    [("C1=CC=CC=C1", True), ("C(C", False), ("[13CH4+2:1]", True), ("[Xx]", False), ("", False)],
)
def test_the_judge_of_molecules(modules, smiles, valid):
    assert (modules["molecules"].check(smiles) is None) == valid


class TestSimulatedModel:
    TEXT = b'{"left": [1, 2, 3], "right": [4, 5, 6], "size": 7}'

    @pytest.fixture
    def vocabulary(self, modules):
        words = [b"left", b"right", b'": [', b", ", b'"size']
        data = [bytes([byte]) for byte in range(256)] + words
        return modules["replay"].Vocabulary([*data, b"", b""], [len(data)])

    def model(self, modules, vocabulary, accuracy):
        simulated = modules["simulated"]
        kind = simulated.TextKind(vocabulary, [self.TEXT], len(vocabulary))
        return simulated.SimulatedModel(kind, self.TEXT, accuracy, "seed")

    def fill(self, model, vocabulary, before, block):
        """The most probable token everywhere, as text."""
        marginals = model.predict(before, len(before), block)
        tokens = [
            marginals[place].tokens[0] if token < 0 else token for place, token in enumerate(block)
        ]
        return b"".join(vocabulary.token_bytes[token] for token in tokens)

    @pytest.mark.parametrize("wrong", [b"", b"oops ", b'{"left": [9'])
    def test_it_picks_the_reference_up_where_a_text_has_left_it(self, modules, vocabulary, wrong):
        model = self.model(modules, vocabulary, 1 - 1e-9)
        before = wrong + self.TEXT[:25]
        assert self.fill(model, vocabulary, before, [-1] * 60) == self.TEXT[25:]

    def test_it_spells_what_is_missing_in_the_masks_there_are(self, modules, vocabulary):
        model = self.model(modules, vocabulary, 1 - 1e-9)
        tokenize = modules["vocabularies"].tokenize
        gap, behind = self.TEXT[20:41], self.TEXT[41:]
        fewest = len(tokenize(vocabulary, gap))
        for masks in range(fewest, fewest + 4):  # three of its tokens can be split
            block = [-1] * masks + tokenize(vocabulary, behind)
            assert self.fill(model, vocabulary, self.TEXT[:20], block) == gap + behind, masks

    def test_confidence_is_calibrated_and_accuracy_as_asked_for(self, modules, vocabulary):
        simulated = modules["simulated"]
        kind = simulated.TextKind(vocabulary, [self.TEXT], len(vocabulary))
        confident = right = sure = surely = 0
        for seed in range(200):
            model = simulated.SimulatedModel(kind, self.TEXT, 0.7, str(seed))
            # Far from what stands before, so that no neighbour is known.
            marginals = model.predict(b"", 0, [-1] * 12)
            truth = model._reference.tokens(0, 12)
            for place in range(4, 12):
                correct = marginals[place].tokens[0] == truth[place][0]
                confident, right = confident + 1, right + correct
                if marginals[place].probabilities[0] > 0.9:
                    sure, surely = sure + 1, surely + correct
        assert right / confident == pytest.approx(0.7, abs=0.05)
        assert surely / sure == pytest.approx(0.95, abs=0.03)
