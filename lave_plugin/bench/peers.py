"""Figures that others published, with their source and what differs from our setting.

They are theirs, not measured here. Syntactic@1 in percent, as LAVE (arXiv 2602.00612) prints it.
"""

from __future__ import annotations

from lave_plugin.bench.table import Table


def syntactic() -> Table:
    """JSON-Bench, CPP-Bench and SMILES-Bench (arXiv 2602.00612)."""
    return Table(
        "Published: syntactic@1, % (arXiv 2602.00612)",
        ("model", "method", "JSON", "CPP", "SMILES"),
        [
            ["LLaDA-8B", "NO-CD", "85.4", "74.2", "66.0"],
            ["LLaDA-8B", "FS-CD", "94.9", "66.3", "75.7"],
            ["LLaDA-8B", "IG-CD", "94.8", "86.1", "94.3"],
            ["LLaDA-8B", "LAVE", "99.5", "90.9", "98.7"],
            ["Dream-7B", "NO-CD", "86.8", "76.2", "74.0"],
            ["Dream-7B", "FS-CD", "96.8", "83.1", "93.1"],
            ["Dream-7B", "IG-CD", "94.9", "87.6", "95.1"],
            ["Dream-7B", "LAVE", "99.0", "96.0", "99.4"],
        ],
        words=2,
    )


def steps() -> Table:
    """Few denoising steps, Dream-7B on JSON-Bench (arXiv 2602.00612)."""
    return Table(
        "Published: syntactic@1 by denoising steps, Dream-7B on JSON-Bench, % (arXiv 2602.00612)",
        ("method", "T = 16", "32", "64", "128", "256"),
        [
            ["NO-CD", "7.8", "21.0", "63.6", "86.8", "97.4"],
            ["LAVE", "76.3", "91.7", "97.2", "99.0", "100.0"],
        ],
    )


def ablation() -> Table:
    """Dream-7B on JSON-Bench (arXiv 2602.00612)."""
    return Table(
        "Published: ablation, Dream-7B on JSON-Bench, syntactic@1, % (arXiv 2602.00612)",
        ("parts", "syntactic@1"),
        [["none", "86.8"], ["verification", "94.8"], ["verification and recovery", "99.0"]],
    )


def feasibility() -> Table:
    """Twenty percent of the tokens masked, N = 10 (arXiv 2602.00612)."""
    return Table(
        "Published: witnesses found by sampling, 20 % masked, N = 10, % (arXiv 2602.00612)",
        ("model", "found"),
        [["Dream-7B", "98.1"], ["LLaDA-8B", "97.3"]],
    )


def others() -> Table:
    """Validity and time as their authors or others report them."""
    return Table(
        "Published: validity and time elsewhere",
        ("system", "task", "figures"),
        [
            ["LAVE", "JSON, C++, SMILES, LLaDA-8B and Dream-7B",
             "time ×1.03, ×1.27, ×0.41 of unconstrained (arXiv 2602.00612)"],
            ["LAVE", "JSONSchemaBench medium, 511 schemas",
             "76.1 % valid, mean 30.6 s, 65 time-outs (run by Dgrammar's authors)"],
            ["Dgrammar", "JSONSchemaBench medium",
             "81.0 % valid, mean 8.2 s against 3.9 s unconstrained (guan404ming/dgrammar)"],
            ["finite automata", "BFCL-Live, temperature 1",
             "22.3 → 69.0 %; +4 % time by tree, +114 % by chain (arXiv 2607.07026)"],
        ],
        words=3,
    )  # fmt: skip


DIFFERENCES = """\
What differs, so that no row of ours stands for one of theirs:

- **Model.** Theirs are LLaDA-8B-Instruct and Dream-7B, 8 and 7 billion parameters on a GPU. Ours
  is the one that ships, 1.9 million parameters on a CPU, unless the setting above names another.
- **Tasks.** Theirs are JSON-Bench (272 problems), CPP-Bench and SMILES-Bench. Ours are
  held-out prompts of what the shipped model was trained for: records as JSON, functions of a few
  lines of C++, small molecules; with `--data` the tasks are those of the files.
- **Decoding.** Theirs is a loop in transformers with T = 128 steps for 256 tokens, blocks of 32,
  N = 10, τ = 5, batch 1. Ours is SGLang's `LowConfidence`, which has a threshold and no T: it
  takes as few steps as the model is sure of (but for `--table steps`, whose loop is theirs, without
  the engine). τ is `attempts` (5), N is `samples` (10).
- **Unconstrained.** Our `none` draws at the same temperature as the others. SGLang itself knows
  no temperature for these models.
- **Baselines.** `sequential`, `intersection` (IG-CD, arXiv 2508.10111), `lave sampled` (LAVE),
  `map` (DINGO, arXiv 2505.23061) and `posterior` (finite automata, arXiv 2607.07026) are this
  plugin's implementations of the papers' methods, over the same states; their times say nothing
  about their authors' code.
- **Scores.** SMILES by RDKit's canonical form (the published checker always gives 0), JSON by value
  and not by the order of keys, C++ by its tests. Time to compile a grammar is not counted by
  either.
- **Length.** The plugin ends every answer within its tokens; in the papers an answer that runs
  out of them counts as invalid.
"""
