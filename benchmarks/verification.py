"""What a lookahead costs: canvases that have a witness, searched in C++ and in Python.

    python benchmarks/verification.py --quick --vocabulary qwen.tiktoken

A vocabulary file has a base64 token and its rank in each line; the PyPI package dashscope carries
a real one of 151,643 tokens. Without one, a synthetic vocabulary of that size is made.

A row is a block of 32 tokens of a text of the grammar, with 20 or 50 % of its positions masked and
16 candidates at each of them: the true token at a rank that is 0 in most cases, and tokens that are
frequent in such texts or random. So each row has a witness, and a verdict other than ALIVE is a
lookahead that failed within its budget.

- cold: states of which only the way to the blocks has been walked
- next: states that have searched other batches of the same kind before
- warm: the same batch once more

`ratio` is Python's time over C++'s on the same warm batch. Figures are of one run; a machine that
does other things at the time moves the times more than the ratios.

The second table has the lookahead of the paper (arXiv 2602.00612) on the same kind of rows: N = 10
and 40 fillings, each position drawn on its own from the candidates' probabilities, tested by
xgrammar's matcher over the same vocabulary, at most until one fits. The probabilities are those
that the true tokens' ranks come from.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import random
import resource
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy
import xgrammar

from lave_plugin.canvas import MASKED, Canvas
from lave_plugin.grammar import automaton as reference
from lave_plugin.grammar import native
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.normal_form import RuleAutomata, read_normal_form
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.lattice import Verdict, find_witness

BLOCK, TOP_K, BUDGET, TOKENS_LEFT = 32, 16, 512, 400
RANK_DECAY = 0.7
"""The true token has rank r with a probability in proportion to exp(-RANK_DECAY * r)."""
WORDS = [
    "count",
    "value",
    "left",
    "right",
    "node",
    "index",
    "total",
    "user",
    "name",
    "list",
    "data",
    "next",
    "size",
    "key",
    "item",
]

# --- grammars, and texts that they accept ---------------------------------------------------------

PERSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "kind": {"enum": ["user", "admin", "guest"]},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            "required": ["street", "city"],
        },
        "tags": {"type": "array", "items": {"type": "string"}},
        "score": {"type": "number"},
        "active": {"type": "boolean"},
    },
    "required": ["id", "name", "kind", "address", "tags", "score", "active"],
}

LOG_LINE = (
    r"(\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2} (INFO|WARN|ERROR) \[[a-z]+\] "
    r"[a-z]+=[0-9a-f]{8}( [a-z_]+=\d+(\.\d+)?(ms|s|kB))*; )+"
)

ARITHMETIC = """
root ::= sum
sum ::= product | sum ws [+-] ws product
product ::= power | product ws [*/%] ws power
power ::= atom | atom "^" power
atom ::= number | name | name "(" sum ("," ws sum)* ")" | "(" sum ")" | "-" atom
number ::= [0-9]+ ("." [0-9]+)?
name ::= [a-z] [a-z0-9_]*
ws ::= " "?
"""

SMILES = r"""
root ::= chain
chain ::= unit | chain bond? unit
unit ::= atom ring* branch*
branch ::= "(" bond? chain ")"
ring ::= [1-9] | "%" [1-9] [0-9]
bond ::= "-" | "=" | "#" | ":" | "/" | "\\"
atom ::= "Cl" | "Br" | [BCNOPSFI] | [bcnops] | bracket
bracket ::= "[" isotope? symbol chiral? hydrogens? charge? "]"
isotope ::= [1-9] [0-9]{0,2}
symbol ::= [A-Z] [a-z]? | [bcnops] | "se" | "as"
chiral ::= "@" "@"?
hydrogens ::= "H" [1-9]?
charge ::= "+" [1-9]? | "-" [1-9]? | "++" | "--"
"""

C_LIKE = r"""
root ::= ws item+
item ::= function | declaration
function ::= type identifier "(" ws parameters? ")" ws block
parameters ::= parameter ("," ws parameter)*
parameter ::= type identifier
type ::= "const " type | base ws ("*" ws)*
base ::= "int" | "char" | "float" | "double" | "void" | "long" | "unsigned " base | "struct " name
declaration ::= type declarator ("," ws declarator)* ";" ws
declarator ::= identifier ("[" ws expression? "]" ws)* ("=" ws initializer)?
initializer ::= expression | "{" ws (expression ("," ws expression)*)? "}" ws
block ::= "{" ws statement* "}" ws
statement ::= block | declaration | simple ";" ws | ";" ws | if | while | for | return | jump
if ::= "if" ws "(" ws expression ")" ws statement ("else" gap statement)?
while ::= "while" ws "(" ws expression ")" ws statement
for ::= "for" ws "(" ws (declaration | simple? ";" ws) expression? ";" ws simple? ")" ws statement
return ::= "return" (gap expression)? ";" ws
jump ::= ("break" | "continue") ws ";" ws
simple ::= expression
expression ::= conditional | unary assignment ws expression
assignment ::= "=" | "+=" | "-=" | "*=" | "/="
conditional ::= or | or "?" ws expression ":" ws conditional
or ::= and | or "||" ws and
and ::= equality | and "&&" ws equality
equality ::= relation | equality ("==" | "!=") ws relation
relation ::= sum | relation ("<=" | ">=" | "<" | ">") ws sum
sum ::= product | sum [+-] ws product
product ::= unary | product [*/%] ws unary
unary ::= postfix | ("++" | "--" | "-" | "!" | "*" | "&") ws unary
postfix ::= primary suffix*
suffix ::= "[" ws expression "]" ws | "(" ws arguments? ")" ws | ("." | "->") identifier | step
step ::= ("++" | "--") ws
arguments ::= expression ("," ws expression)*
primary ::= identifier | number ws | string ws | character ws | "(" ws expression ")" ws
identifier ::= name ws
name ::= [a-zA-Z_] [a-zA-Z0-9_]*
number ::= [0-9]+ ("." [0-9]+)? [fuL]?
string ::= "\"" ([^"\\\n] | "\\" [nt"\\0])* "\""
character ::= "'" ([^'\\\n] | "\\" [nt'\\0]) "'"
gap ::= [ \n\t] ws
ws ::= ([ \n\t] | "//" [^\n]* "\n")*
"""


def person(rng: random.Random) -> str:
    return json.dumps(
        {
            "id": rng.randrange(10**5),
            "name": " ".join(rng.choices(WORDS, k=2)).title(),
            "kind": rng.choice(["user", "admin", "guest"]),
            "address": {
                "street": f"{rng.randrange(200)} {rng.choice(WORDS)} road",
                "city": rng.choice(WORDS).title(),
            },
            "tags": rng.choices(WORDS, k=rng.randrange(2, 9)),
            "score": round(rng.random() * 100, 2),
            "active": rng.random() < 0.5,
        }
    )


def document(rng: random.Random, depth: int = 0) -> str:
    def value(depth: int):
        kind = rng.randrange(6 if depth < 4 else 4)
        if kind == 4 or depth == 0:
            return {word: value(depth + 1) for word in rng.sample(WORDS, rng.randrange(2, 6))}
        if kind == 5:
            return [value(depth + 1) for _ in range(rng.randrange(1, 5))]
        return [rng.choice(WORDS), rng.randrange(1000), rng.random() < 0.5, None][kind]

    return json.dumps(value(depth))


def log_lines(rng: random.Random) -> str:
    def line() -> str:
        pairs = "".join(
            f" {rng.choice(WORDS)}={rng.randrange(999)}{rng.choice(['ms', 's', '.5kB'])}"
            for _ in range(rng.randrange(4))
        )
        return (
            f"2024-0{rng.randrange(1, 9)}-1{rng.randrange(9)} 12:{rng.randrange(10, 59)}:07 "
            f"{rng.choice(['INFO', 'WARN', 'ERROR'])} [{rng.choice(WORDS)}] "
            f"id={rng.randrange(16**8):08x}{pairs}; "
        )

    return "".join(line() for _ in range(rng.randrange(2, 5)))


def formula(rng: random.Random, depth: int = 0) -> str:
    kind = rng.randrange(3, 6) if depth > 5 else rng.randrange(2 if depth < 3 else 4)
    if kind <= 1:
        operator = rng.choice([" + ", " - ", " * ", "/"])
        return formula(rng, depth + 1) + operator + formula(rng, depth + 1)
    if kind == 2:
        return f"({formula(rng, depth + 1)})"
    if kind == 3:
        return f"{rng.choice(WORDS)}({formula(rng, depth + 1)}, {rng.randrange(99)})"
    return rng.choice(WORDS) if kind == 4 else str(rng.randrange(1000))


PIECES = [
    "CC",
    "C(=O)",
    "c1ccc(Cl)cc1",
    "N",
    "O",
    "C(F)(F)F",
    "[C@@H](C)",
    "C=C",
    "OC",
    "S(=O)(=O)",
    "[NH3+]",
    "c1ccncc1",
    "C#N",
]


def molecule(rng: random.Random) -> str:
    return "".join(rng.choices(PIECES, k=rng.randrange(14, 24)))


def program(rng: random.Random) -> str:
    def name() -> str:
        return rng.choice(WORDS)

    def expression(depth: int = 0) -> str:
        kind = rng.randrange(7 if depth < 2 else 3)
        deeper = depth + 1
        return [
            name,
            lambda: str(rng.randrange(100)),
            lambda: f"{name()}->{name()}",
            lambda: f"{expression(deeper)} {rng.choice('+-*<')} {expression(deeper)}",
            lambda: f"{name()}({expression(deeper)}, {expression(deeper)})",
            lambda: f"{name()}[{expression(deeper)}]",
            lambda: f"({expression(deeper)})",
        ][kind]()

    def statement(depth: int = 0) -> str:
        pad = "    " * (depth + 1)
        kind = rng.randrange(7 if depth < 2 else 4)
        if kind == 0:
            return f"{pad}int {name()} = {expression()};\n"
        if kind == 1:
            return f"{pad}{name()} += {expression()};\n"
        if kind == 2:
            return f'{pad}printf("%d\\n", {expression()});\n'
        if kind == 3:
            return f"{pad}return {expression()};\n"
        inner = "".join(statement(depth + 1) for _ in range(rng.randrange(1, 3)))
        if kind == 4:
            return f"{pad}if ({expression()} == {expression()}) {{\n{inner}{pad}}}\n"
        if kind == 5:
            return f"{pad}while ({name()} < {expression()}) {{\n{inner}{pad}}}\n"
        return f"{pad}for (int i = 0; i < {name()}; i++) {{\n{inner}{pad}}}\n"

    body = "".join(statement() for _ in range(rng.randrange(3, 7)))
    return f"int {name()}(int {name()}, char *{name()}) {{\n{body}}}\n"


@dataclass(frozen=True)
class Subject:
    """A grammar with a source of texts."""

    name: str
    compile: Callable[[xgrammar.GrammarCompiler], xgrammar.CompiledGrammar]
    text: Callable[[random.Random], str]


SUBJECTS = [
    Subject("JSON schema", lambda c: c.compile_json_schema(PERSON), person),
    Subject("free JSON", lambda c: c.compile_builtin_json_grammar(), document),
    Subject("regex", lambda c: c.compile_regex(LOG_LINE), log_lines),
    Subject("arithmetic", lambda c: c.compile_grammar(ARITHMETIC), formula),
    Subject("SMILES", lambda c: c.compile_grammar(SMILES), molecule),
    Subject("C-like", lambda c: c.compile_grammar(C_LIKE), program),
]

# --- vocabulary and canvases ----------------------------------------------------------------------


def read_vocabulary(path: Path) -> list[bytes]:
    tokens = {}
    for line in path.read_text().splitlines():
        data, rank = line.split()
        tokens[int(rank)] = base64.b64decode(data)
    return [tokens.get(rank, b"") for rank in range(max(tokens) + 1)]


def synthetic_vocabulary(size: int = 151_643) -> list[bytes]:
    """All bytes, then pieces of words, numbers and signs, as a BPE would have them."""
    rng = random.Random(0)
    letters, signs = "etaoinshrdlucmfwypvbgkqjxz", ' {}[]():;,."=<>+-*/_\\\n'
    tokens = {bytes([byte]): None for byte in range(256)}
    for word in WORDS:
        for end in range(1, len(word) + 1):
            for piece in (word[:end], word[:end].title(), " " + word[:end]):
                tokens.setdefault(piece.encode())
    while len(tokens) < size:
        kind, length = rng.random(), rng.randrange(2, 9)
        if kind < 0.08:
            piece = "".join(rng.choices(signs, k=rng.randrange(2, 4)))
        else:
            weights = [1 / (rank + 2) for rank in range(len(letters))]
            piece = "".join(rng.choices(letters, weights, k=length))
            piece = " " + piece if kind < 0.5 else piece
        tokens.setdefault(piece.encode())
    return list(tokens)


def tokenize(vocabulary: Vocabulary, data: bytes) -> list[int]:
    """The longest token first, from the left."""
    tokens, at = [], 0
    while at < len(data):
        length = next(
            n
            for n in range(min(24, len(data) - at), 0, -1)
            if data[at : at + n] in vocabulary.id_of
        )
        tokens.append(vocabulary.id_of[data[at : at + length]])
        at += length
    return tokens


@dataclass
class Row:
    """The tokens before a block, the block, and its candidates."""

    prefix: list[int]
    canvas: list[int]
    candidates: dict[int, list[int]]


class RowMaker:
    """Makes rows that have a witness."""

    def __init__(self, subject: Subject, vocabulary: Vocabulary, rng: random.Random) -> None:
        self._vocabulary, self._rng = vocabulary, rng
        self.texts = [tokenize(vocabulary, subject.text(rng).encode()) for _ in range(300)]
        counts = Counter(token for text in self.texts for token in text)
        self._frequent, self._weights = list(counts), list(counts.values())

    def row(self, masked: float) -> Row:
        rng = self._rng
        text = rng.choice(self.texts)
        begin = rng.randrange(max(1, len(text) - BLOCK // 2))
        block = text[begin : begin + BLOCK]
        block += [self._vocabulary.end_token] * (BLOCK - len(block))
        canvas, candidates = list(block), {}
        for position in rng.sample(range(BLOCK), round(masked * BLOCK)):
            canvas[position] = MASKED
            candidates[position] = self._ranked(block[position])
        return Row(text[:begin], canvas, candidates)

    def _ranked(self, true: int) -> list[int]:
        rng = self._rng
        others = rng.choices(self._frequent, self._weights, k=TOP_K - 5)
        others += [rng.randrange(len(self._vocabulary) - 1) for _ in range(4)]
        rank = min(int(rng.expovariate(RANK_DECAY)), TOP_K - 1)
        return [*others[:rank], true, *others[rank:]]


@dataclass
class Arrays:
    """A batch as the native call takes it."""

    canvases: numpy.ndarray
    first: numpy.ndarray
    left: numpy.ndarray
    candidates: numpy.ndarray

    @classmethod
    def of(cls, rows: list[Row]) -> Arrays:
        candidates = numpy.full((len(rows), BLOCK, TOP_K), -1, dtype=numpy.int32)
        for index, row in enumerate(rows):
            for position, ids in row.candidates.items():
                candidates[index, position] = ids
        return cls(
            numpy.array([row.canvas for row in rows], dtype=numpy.int32),
            numpy.zeros(len(rows), dtype=numpy.int64),
            numpy.full(len(rows), TOKENS_LEFT, dtype=numpy.int64),
            candidates,
        )


# --- measuring ------------------------------------------------------------------------------------


def state_behind(tokens, prefix: list[int]) -> int:
    state = tokens.start
    for token in prefix:
        state = tokens.advance(state, token)
    if state == DEAD:
        raise ValueError("the text is not of the grammar")
    return state


def search_native(tokens, rows: list[Row]) -> tuple[float, list[int]]:
    """Milliseconds, and the verdicts."""
    arrays = Arrays.of(rows)
    states = numpy.array([state_behind(tokens, row.prefix) for row in rows], dtype=numpy.int64)
    begin = time.perf_counter()
    verdicts, _ = native.find_witness_batch(
        [tokens] * len(rows),
        states,
        arrays.canvases,
        arrays.first,
        arrays.left,
        arrays.candidates,
        BUDGET,
    )
    return 1e3 * (time.perf_counter() - begin), verdicts.tolist()


def search_python(tokens, rows: list[Row]) -> tuple[float, list[int]]:
    canvases = [Canvas(row.canvas, 0, TOKENS_LEFT) for row in rows]
    states = [state_behind(tokens, row.prefix) for row in rows]
    begin = time.perf_counter()
    found = [
        find_witness(tokens, state, canvas, row.candidates, BUDGET)
        for state, canvas, row in zip(states, canvases, rows, strict=True)
    ]
    elapsed = 1e3 * (time.perf_counter() - begin)
    return elapsed, [list(Verdict).index(each.verdict) for each in found]


def search_sampled(
    matcher: xgrammar.GrammarMatcher, row: Row, samples: int, rng: random.Random
) -> tuple[float, bool]:
    """Milliseconds of a sampled lookahead, and whether it found a witness."""
    for token in row.prefix:
        if not matcher.accept_token(token):
            raise ValueError("the text is not of the grammar")
    last = max(position for position, token in enumerate(row.canvas) if token != MASKED)
    weights = [math.exp(-RANK_DECAY * rank) for rank in range(TOP_K)]
    begin = time.perf_counter()
    found = False
    for _ in range(samples):
        accepted = 0
        for position in range(last + 1):
            token = row.canvas[position]
            if token == MASKED:
                (token,) = rng.choices(row.candidates[position], weights)
            if matcher.is_terminated():
                fits = token == matcher.stop_token_ids[0]  # behind an end only ends stand
            elif fits := matcher.accept_token(token):
                accepted += 1
            if not fits:
                break
        else:
            found = True
        matcher.rollback(accepted)
        if found:
            break
    return 1e3 * (time.perf_counter() - begin), found


def spread(times: list[float]) -> str:
    """Median / p90 / p99."""
    ordered = sorted(times)
    picks = [statistics.median(ordered)]
    picks += [ordered[min(len(ordered) - 1, int(len(ordered) * q))] for q in (0.9, 0.99)]
    return " / ".join(f"{pick:.3g}" for pick in picks)


def native_states(rules: RuleAutomata, vocabulary: Vocabulary):
    return native.TokenAutomaton(native.Automaton(rules), vocabulary)


def measure(subject: Subject, rules: RuleAutomata, vocabulary: Vocabulary, repeats: int) -> None:
    rng = random.Random(subject.name)
    maker = RowMaker(subject, vocabulary, rng)
    used = native_states(rules, vocabulary)
    python = TokenAutomaton(reference.Automaton(rules), vocabulary)
    for masked in (0.2, 0.5):
        for size in (1, 8, 64):
            cold, following, warm, ratios, verdicts = [], [], [], [], []
            for repeat in range(repeats):
                rows = [maker.row(masked) for _ in range(size)]
                cold.append(search_native(native_states(rules, vocabulary), rows)[0])
                elapsed, found = search_native(used, rows)
                following.append(elapsed)
                verdicts += found
                again = [search_native(used, rows)[0] for _ in range(3)]
                warm.append(statistics.median(again))
                if repeat < 2 and size <= 8:
                    _, same = search_python(python, rows)
                    if same != found:
                        raise AssertionError(f"{subject.name}: Python and C++ disagree")
                    ratios.append(search_python(python, rows)[0] / min(again))
            alive = 100 * verdicts.count(native.ALIVE) / len(verdicts)
            ratio = f"{statistics.median(ratios):.0f}" if ratios else "-"
            print(
                f"| {subject.name} | {100 * masked:.0f} % | {size} | {spread(cold)} |"
                f" {spread(following)} | {spread(warm)} | {ratio} | {alive:.1f} % |",
                flush=True,
            )
    print(
        f"| {subject.name} | | | {used.automaton.state_count} states,"
        f" {used.automaton.memory / 1e6:.1f} MB | | | | |",
        flush=True,
    )


def measure_sampled(
    subject: Subject, compiled: xgrammar.CompiledGrammar, vocabulary: Vocabulary, rows: int
) -> None:
    rng = random.Random(subject.name)
    maker = RowMaker(subject, vocabulary, rng)
    for masked in (0.2, 0.5):
        drawn = [maker.row(masked) for _ in range(rows)]
        for samples in (10, 40):
            matcher = xgrammar.GrammarMatcher(compiled)
            times, found = [], []
            for row in drawn:
                matcher.reset()
                elapsed, alive = search_sampled(matcher, row, samples, rng)
                times.append(elapsed)
                found.append(alive)
            print(
                f"| {subject.name} | {100 * masked:.0f} % | {samples} | {spread(times)} |"
                f" {100 * statistics.mean(found):.1f} % |",
                flush=True,
            )


def measure_memory(rules: RuleAutomata, vocabulary: Vocabulary, max_states: int = 50_000) -> None:
    """A million tokens of C-like text, and searches along it, under a cap on states."""
    rng = random.Random(0)
    maker = RowMaker(SUBJECTS[-1], vocabulary, rng)
    tokens = native.TokenAutomaton(native.Automaton(rules, max_states), vocabulary)
    count, begin = 0, time.perf_counter()
    for report in range(100_000, 1_100_000, 100_000):
        while count < report:
            tokens.make_room()
            text = tokenize(vocabulary, program(rng).encode())
            state_behind(tokens, text)
            rows = [maker.row(0.5) for _ in range(16)]
            search_native(tokens, rows)
            count += len(text) + sum(len(row.prefix) + BLOCK for row in rows)
        print(
            f"{count:>9} tokens: {tokens.automaton.state_count:>6} states,"
            f" {tokens.automaton.memory / 1e6:5.1f} MB, flushed {tokens.generation} times; process"
            f" {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB at most,"
            f" {time.perf_counter() - begin:.1f} s",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions (under 50 s)")
    parser.add_argument("--memory", action="store_true", help="states over a million tokens")
    parser.add_argument("--vocabulary", type=Path, help="a .tiktoken file")
    options = parser.parse_args()

    data = read_vocabulary(options.vocabulary) if options.vocabulary else synthetic_vocabulary()
    vocabulary = Vocabulary([*data, b""], [len(data)])
    bytes_only = xgrammar.TokenizerInfo(
        [bytes([byte]) for byte in range(256)] + [b""], stop_token_ids=[256]
    )
    compiler = xgrammar.GrammarCompiler(bytes_only, max_threads=1, cache_enabled=False)
    if options.memory:
        compiled = SUBJECTS[-1].compile(compiler)
        return measure_memory(read_normal_form(str(compiled.grammar)), vocabulary)
    print(f"{len(data)} tokens; block {BLOCK}, K = {TOP_K}, budget {BUDGET}; milliseconds a batch,")
    print("median / p90 / p99\n")
    print("| grammar | masked | rows | cold | next | warm | ratio | found |")
    print("|---|---|---|---|---|---|---|---|")
    for subject in SUBJECTS:
        rules = read_normal_form(str(subject.compile(compiler).grammar))
        measure(subject, rules, vocabulary, repeats=40 if options.quick else 100)

    whole = xgrammar.TokenizerInfo([*data, b""], stop_token_ids=[len(data)])
    compiler = xgrammar.GrammarCompiler(whole, max_threads=2, cache_enabled=False)
    print("\nsampled lookahead on xgrammar's matchers; milliseconds a row, median / p90 / p99\n")
    print("| grammar | masked | N | time | found |")
    print("|---|---|---|---|---|")
    for subject in SUBJECTS:
        measure_sampled(
            subject, subject.compile(compiler), vocabulary, rows=200 if options.quick else 1000
        )


if __name__ == "__main__":
    sys.exit(main())
