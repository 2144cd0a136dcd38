"""`lave bench verify`: what is compared is compared on the same canvases, and judged rightly."""

import importlib.util
import random

import pytest
from typer.testing import CliRunner

from lave_plugin.bench import plots
from lave_plugin.bench.lookahead import beams, guided
from lave_plugin.bench.lookahead.rows import BLOCK, TOP_K, Row, RowMaker
from lave_plugin.bench.lookahead.sampled import SampledLookahead
from lave_plugin.bench.results import Results
from lave_plugin.bench.synthetic.subjects import SUBJECTS
from lave_plugin.bench.synthetic.vocabularies import synthetic_vocabulary, tokenize
from lave_plugin.bench.tables import tables_of
from lave_plugin.bench.verify import (
    FILLINGS,
    Size,
    VerifyBenchmark,
    found_by_samples,
    quantiles,
)
from lave_plugin.canvas import MASKED
from lave_plugin.cli import app
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.implementation import native_module, states_over
from lave_plugin.grammar.text_compiler import text_compiler
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.lattice import Verdict

BY_NAME = {subject.name: subject for subject in SUBJECTS}
needs_llguidance = pytest.mark.skipif(
    importlib.util.find_spec("llguidance") is None, reason="llguidance is not installed"
)


@pytest.fixture(scope="module")
def vocabulary():
    data = synthetic_vocabulary(1500)
    return Vocabulary([*data, b""], [len(data)])


@pytest.fixture(scope="module")
def llguidance_tokenizer(vocabulary):
    return beams.tokenizer_of(vocabulary)


def rows_of(subject, vocabulary, masked, count):
    rng = random.Random(0)
    texts = [tokenize(vocabulary, subject.text(rng).encode()) for _ in range(30)]
    maker = RowMaker(texts, vocabulary, rng)
    return [maker.row(masked) for _ in range(count)]


def lookaheads(subject, vocabulary, tokenizer):
    """By name, a function that says of a row whether a witness was found."""
    import xgrammar

    info = xgrammar.TokenizerInfo(vocabulary.token_bytes, stop_token_ids=[vocabulary.end_token])
    compiled = subject.compile(xgrammar.GrammarCompiler(info, max_threads=1))
    tokens = states_over(automaton_of(subject.compile(text_compiler())), vocabulary)
    sampled = SampledLookahead(compiled, (40,))
    by_beams = beams.BeamLookahead(subject, tokenizer, vocabulary)
    rng = random.Random(0)
    return {
        "guided": lambda row: guided.search(tokens, [row])[1] == [Verdict.ALIVE],
        "sampled": lambda row: sampled.search(row, rng).found(40),
        "beams": lambda row: by_beams.search(row, rng)[1],
    }


def certain(row, right):
    """The row with the right token in front at each mask, and in every place behind it."""
    return Row(row.prefix, row.canvas, {p: [right[p]] * TOP_K for p in row.candidates})


@needs_llguidance
@pytest.mark.parametrize("name", BY_NAME)
def test_every_lookahead_finds_the_text_itself_and_refuses_what_no_text_has(
    name, vocabulary, llguidance_tokenizer
):
    subject = BY_NAME[name]
    found = lookaheads(subject, vocabulary, llguidance_tokenizer)
    nonsense = vocabulary.id_of[b"\xff"]  # in no UTF-8
    rng = random.Random(name)
    for _ in range(6):
        text = tokenize(vocabulary, subject.text(rng).encode())
        begin = rng.randrange(max(1, len(text) - BLOCK // 2))
        right = text[begin : begin + BLOCK]
        right += [vocabulary.end_token] * (BLOCK - len(right))
        places = rng.sample(range(BLOCK), BLOCK // 2)
        canvas = [MASKED if place in places else token for place, token in enumerate(right)]
        row = certain(Row(text[:begin], canvas, dict.fromkeys(places, ())), right)
        assert {way: judge(row) for way, judge in found.items()} == dict.fromkeys(found, True)
        committed = next(place for place, token in enumerate(canvas) if token != MASKED)
        row.canvas[committed] = nonsense
        assert {way: judge(row) for way, judge in found.items()} == dict.fromkeys(found, False)


@needs_llguidance
def test_a_benchmark_measures_all_ways_on_rows_that_have_a_witness(vocabulary, tmp_path):
    size = Size(batch_rows=(1, 4), batches=3, rows=12)
    subjects = [BY_NAME["JSON schema"], BY_NAME["C-like"]]
    benchmark = VerifyBenchmark(size, vocabulary, subjects)
    results = Results.open(tmp_path / "verify.json", "verify", {})
    benchmark.run(results)
    assert benchmark.is_complete(results)
    assert len(results) == 2 * 2 * 3
    for entry in results.all(kind="cost"):
        assert entry["found"] == 1.0
        assert (entry["python_ratio"] is not None) == (native_module() is not None)
        for which in ("cold_ms", "next_ms", "warm_ms"):
            assert 0 < entry[which]["p50"] <= entry[which]["p90"] <= entry[which]["p99"]
    for entry in results.all(kind="peers"):
        ways, by_samples = entry["ways"], entry["found_by_samples"]
        assert ways["guided"]["found"] == 1.0
        assert ways["guided"]["ratio"] == 1.0
        assert len(by_samples) == FILLINGS
        assert by_samples == sorted(by_samples)
        assert by_samples[9] == ways["sampled, N = 10"]["found"]
        assert by_samples[39] == ways["sampled, N = 40"]["found"]
        assert entry["not_measured"] == {}
        assert "beams" in ways
    cost, peers = tables_of(results)
    assert (len(cost.rows), len(peers.rows)) == (8, 16)


def test_what_is_not_installed_stands_in_the_table_with_how_to_get_it(
    vocabulary, tmp_path, monkeypatch
):
    monkeypatch.setattr(beams, "has_llguidance", lambda: False)
    results = Results.open(tmp_path / "verify.json", "verify", {})
    VerifyBenchmark(Size((1,), 1, 2), vocabulary, [BY_NAME["regex"]]).run(results)
    _, peers = tables_of(results)
    (line, _) = [row for row in peers.rows if row[2].startswith("beams")]
    assert line[3:] == ["llguidance is not installed (pip install llguidance)", "–", "–"]


def test_the_command_writes_its_results_and_goes_on_with_them(tmp_path, vocabulary_file):
    file = tmp_path / "verify.json"
    arguments = ["--grammar", "regex", "--batches", "1", "--rows", "2", "--json", str(file)]
    command = ["bench", "verify", *arguments, "--vocabulary", str(vocabulary_file)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert Results.read(file).options["grammars"] == ["regex"]
    if plots.can_plot():
        names = {path.name for path in tmp_path.iterdir()}
        assert {"verify.svg", "verify.png", "verify-samples.svg", "verify-samples.png"} <= names
    assert "Everything is measured" in CliRunner().invoke(app, command).output
    other = CliRunner().invoke(app, [*command, "--budget", "7"])
    assert (other.exit_code, "other options (budget)" in other.output) == (2, True)


def test_a_vocabulary_that_is_none_is_refused(tmp_path):
    file = tmp_path / "words.tiktoken"
    file.write_text("one two three\n")
    elsewhere = ["--json", str(tmp_path / "verify.json")]
    result = CliRunner().invoke(app, ["bench", "verify", "--vocabulary", str(file), *elsewhere])
    # Lines are broken where the path happens to reach the margin.
    assert f"--vocabulary{file}" in "".join(result.output.split())
    assert result.exit_code == 2


@pytest.mark.parametrize("masked", [0.2, 0.5])
def test_rows_are_masked_as_asked_and_hold_the_true_token(vocabulary, masked):
    subject = BY_NAME["arithmetic"]
    for row in rows_of(subject, vocabulary, masked, 20):
        assert row.canvas.count(MASKED) == len(row.candidates) == round(masked * BLOCK)
        assert all(len(ids) == TOP_K for ids in row.candidates.values())


def test_the_share_found_by_samples():
    assert found_by_samples([1, 3, None, 2], 4) == [0.25, 0.5, 0.75, 0.75]


def test_quantiles():
    assert quantiles(range(1, 101)) == {"p50": 50.5, "p90": 91, "p99": 100}
    assert quantiles([2.0]) == {"p50": 2.0, "p90": 2.0, "p99": 2.0}
