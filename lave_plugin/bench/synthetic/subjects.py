"""The grammars that the benchmarks measure, each with a source of texts that it accepts."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass

import xgrammar

from lave_plugin.grammar.compiler import OBJECT_OR_ARRAY

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
    """A grammar with a source of texts.

    Attributes:
        kind: what the source is: ``json_schema``, ``regex`` or ``ebnf`` (xgrammar's).
        text: a text of the grammar, drawn at random.
        blanks: the rules for blanks between the words of a programming language.
    """

    name: str
    kind: str
    source: str
    text: Callable[[random.Random], str]
    blanks: tuple[str, ...] = ()

    def compile(self, compiler: xgrammar.GrammarCompiler) -> xgrammar.CompiledGrammar:
        """By xgrammar, as the engine does."""
        if self.kind == "json_schema":
            return compiler.compile_json_schema(self.source)
        if self.kind == "regex":
            return compiler.compile_regex(self.source)
        return compiler.compile_grammar(self.source)


SUBJECTS = [
    Subject("JSON schema", "json_schema", json.dumps(PERSON), person),
    Subject("free JSON", "json_schema", OBJECT_OR_ARRAY, document),
    Subject("regex", "regex", LOG_LINE, log_lines),
    Subject("arithmetic", "ebnf", ARITHMETIC, formula),
    Subject("SMILES", "ebnf", SMILES, molecule),
    Subject("C-like", "ebnf", C_LIKE, program, blanks=("ws", "gap")),
]
