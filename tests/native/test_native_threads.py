"""Calls from several threads: what one sees does not depend on the others."""

import random
from concurrent.futures import ThreadPoolExecutor

import numpy
from test_sentences import EBNF

from lave_plugin import native
from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar.normal_form import read_normal_form
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.lattice import find_witness

VOCABULARY = Vocabulary([b"", *(bytes([byte]) for byte in range(256)), b"aa", b"1+", b"xx"], [0])


def rows(seed):
    rng = random.Random(seed)
    listed = [1 + ord(letter) for letter in "abcx1+<>.y"] + [257, 258, 259, 0]
    for _ in range(8):
        canvas = [MASKED if rng.random() < 0.6 else rng.choice(listed) for _ in range(8)]
        yield canvas, [[rng.choice(listed) for _ in range(4)] for _ in range(8)]


def answers(grammars, seed, one_by_one):
    found = []
    for canvas, candidates in rows(seed):
        if one_by_one:
            for tokens in grammars:
                result = find_witness(
                    tokens, tokens.start, Canvas(canvas, 0, 30), dict(enumerate(candidates)), 200
                )
                witness = result.witness or {}
                found.append((result.verdict.value, [witness.get(p, MASKED) for p in range(8)]))
            continue
        count = len(grammars)
        verdicts, witnesses = native.find_witness_batch(
            grammars,
            numpy.array([tokens.start for tokens in grammars]),
            numpy.array([canvas] * count, numpy.int32),
            numpy.zeros(count, numpy.int64),
            numpy.full(count, 30),
            numpy.array([candidates] * count, numpy.int32),
            200,
            threads=4,
        )
        names = ["alive", "refuted", "undecided"]
        found += zip([names[v] for v in verdicts], witnesses.tolist(), strict=True)
    return found


def test_many_threads_over_the_same_states(compiler):
    texts = sorted({grammar for grammar, _, _ in EBNF})
    rules = [read_normal_form(str(compiler.compile_grammar(text).grammar)) for text in texts]

    def states():
        return [native.TokenAutomaton(native.Automaton(each), VOCABULARY) for each in rules]

    alone = {seed: answers(states(), seed, True) for seed in range(6)}
    shared = states()
    with ThreadPoolExecutor(8) as pool:
        jobs = [(seed, one_by_one) for seed in range(6) for one_by_one in (True, False)]
        found = pool.map(lambda job: (job[0], answers(shared, *job)), jobs)
        for seed, result in found:
            assert result == alone[seed]
