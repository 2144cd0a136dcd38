"""Grammars of every kind that xgrammar compiles, to be walked at random beside its matcher.

Some readings of xgrammar 0.2.7 are deliberately not ours, and no grammar here touches the first
four (`tests/grammar/test_known_differences.py` shows each of them):

- a class that begins with an escaped caret, `[\\^a]`, which it reads as negated
- bounded repetition of a rule that refers to itself, which its matcher miscounts
- negated classes that exclude characters beyond ASCII, where it forgets the exclusion
- rules that never end, into which it takes steps
- malformed UTF-8, which it takes wherever a class or free text takes a character beyond ASCII:
  that can't be kept out, so `pair.Pair` tells it from a disagreement
- masks that contradict its own matcher, behind nullable rules: `pair.Pair` counts them apart
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import xgrammar
from subjects import ARITHMETIC, C_LIKE, LOG_LINE, PERSON, SMILES


@dataclass(frozen=True)
class Grammar:
    """A grammar by name, compiled for any vocabulary."""

    name: str
    compile: Callable[[xgrammar.GrammarCompiler], xgrammar.CompiledGrammar]


def _ebnf(name: str, source: str) -> Grammar:
    return Grammar(name, lambda compiler: compiler.compile_grammar(source))


def _schema(name: str, schema: dict, **options) -> Grammar:
    return Grammar(name, lambda compiler: compiler.compile_json_schema(schema, **options))


def _regex(name: str, pattern: str) -> Grammar:
    return Grammar(name, lambda compiler: compiler.compile_regex(pattern))


def _lark(name: str, source: str) -> Grammar:
    return Grammar(
        name, lambda compiler: compiler.compile_grammar(xgrammar.Grammar.from_lark(source))
    )


def _tags(name: str, tag_format: dict) -> Grammar:
    tag = {"type": "structural_tag", "format": tag_format}
    return Grammar(name, lambda compiler: compiler.compile_structural_tag(tag))


def _legacy_tags(compiler: xgrammar.GrammarCompiler) -> xgrammar.CompiledGrammar:
    tags = [
        xgrammar.StructuralTagItem(begin="<f=a>", schema={"type": "integer"}, end="</f>"),
        xgrammar.StructuralTagItem(begin="<f=b>", schema=ORDER["properties"]["who"], end="</f>"),
        xgrammar.StructuralTagItem(begin="<g>", schema={"type": "boolean"}, end="</g>"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return compiler.compile_structural_tag(tags, ["<f=", "<g>"])


ORDER = {
    "type": "object",
    "properties": {
        "who": {"type": "string", "minLength": 1, "maxLength": 12},
        "when": {"type": "string", "format": "date-time"},
        "code": {"type": "string", "pattern": "^[A-Z]{2,3}-\\d+$"},
        "size": {"type": "number", "minimum": 0.5, "exclusiveMaximum": 20},
        "count": {"type": "integer", "minimum": -7, "maximum": 130},
        "kind": {"enum": ["a", "ab", 12, None]},
        "parts": {"type": "array", "items": {"$ref": "#"}, "minItems": 1, "maxItems": 3},
        "rest": {"anyOf": [{"type": "boolean"}, {"type": "array", "maxItems": 90}]},
    },
    "required": ["who", "size"],
    "additionalProperties": {"type": "null"},
}

LEFT_RECURSION = """
root ::= sum
sum ::= sum "+" term | sum "-" term | term
term ::= call | term "*" call
call ::= call "(" sum? ")" | call "." name | empty call "!" | name
name ::= [a-c]+
empty ::= "" | "~"
"""

NULLABLE = """
root ::= a b c root? ";"
a ::= "" | "x" a
b ::= a a | "y" | d{2,4}
c ::= "(" root? ")" | ""
d ::= "" | "k"
"""

AMBIGUOUS = """
root ::= statement
statement ::= "if " pair " " statement | "if " pair " " statement " else " statement | pair | nest
pair ::= pair pair | "s" | "ss" | "t"
nest ::= "a" nest "a" | "b" nest "b" | "" | nest nest
"""

UNICODE = """
root ::= word ("、" word | "é" [^a] | wide)*
word ::= [à-üα-ω]+ | [\\u4e00-\\u9fff]{1,4} | "naïve" | "na" [\\u00ef\\u0300] "l"
wide ::= [\\U0001f600-\\U0001f64f] [\\ufe0f]? | "日本" | "日" [\\u0800-\\uffff]
"""

REPETITION = """
root ::= row{1,40} "."
row ::= "<" cell{3,300} ">" | "[" [a-c]{2,} "]" | "(" pair{0,70} ")" | "x"{5} | ("ab" | "é"){64,65}
cell ::= "x" | "yz" | "é"
pair ::= [0-9]{1,2} ","?
"""

LARK = """
start: statement (";" statement)*
statement: NAME "=" sum | "print"i sum | "repeat" INT "{" start "}"
sum: product | sum ("+" | "-") product
product: atom | product "*" atom
atom: INT | NAME | STRING | "(" sum ")" | "-" atom | list
list: "[" [sum ("," sum)*] "]"
NAME: /[a-z_][a-z0-9_]{0,9}/
STRING: /"[^"\\n]*"/
COLOUR: "#" HEXDIGIT~3..6
%import common.INT
%import common.HEXDIGIT
%ignore /[ \\t]+/
"""


def _tag(begin: str, end: str | list[str], content: dict) -> dict:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


# A tag must come first, so a walk is inside one from its beginning.
TOOLS = {
    "type": "triggered_tags",
    "triggers": ["<f=", "<calc>"],
    "tags": [
        _tag("<f=order>", "</f>", {"type": "json_schema", "json_schema": ORDER}),
        _tag("<f=day>", ["</f>", "</g>"], {"type": "regex", "pattern": "\\d{4}-\\d\\d"}),
        _tag("<calc>", "</calc>", {"type": "grammar", "grammar": LEFT_RECURSION}),
    ],
    "at_least_one": True,
    "excludes": ["</s>", "é!"],
}

THINKING = {
    "type": "sequence",
    "elements": [
        _tag("<t>", "</t>", {"type": "any_text"}),
        {
            "type": "triggered_tags",
            "triggers": ["<"],
            "tags": [
                _tag("<a>", "</a>", {"type": "json_schema", "json_schema": PERSON}),
                _tag("<b>", "</b>", {"type": "regex", "pattern": "[a-c]+|é"}),
            ],
            "stop_after_first": True,
        },
    ],
}

SEPARATED = {
    "type": "tags_with_separator",
    "separator": ",\n",
    "tags": [
        _tag("<a>", "</a>", {"type": "json_schema", "json_schema": {"type": "integer"}}),
        _tag("<b>", "</b>", {"type": "regex", "pattern": "[a-c]+|é"}),
    ],
    "at_least_one": True,
}

GRAMMARS = [
    _regex("regex", LOG_LINE),
    _regex("regex beyond ASCII", r"([à-ü]{2,4}|日本?|[\u4e00-\u9fff]x)+(-\d{3,}|\.(com|org))?"),
    _regex("regex, long bounds", r"(ab|c[d-f]?){2,300}\s\w{0,80}[^a-z\d]{1,70}"),
    _ebnf("left recursion", LEFT_RECURSION),
    _ebnf("nullable", NULLABLE),
    _ebnf("ambiguous", AMBIGUOUS),
    _ebnf("UTF-8", UNICODE),
    _ebnf("bounded repetition", REPETITION),
    _ebnf("arithmetic", ARITHMETIC),
    _ebnf("SMILES", SMILES),
    _lark("Lark", LARK),
    Grammar("legacy structural tag", _legacy_tags),
    _tags("structural tag", TOOLS),
    _tags("structural tag, thinking", THINKING),
    _tags("structural tag, separated", SEPARATED),
    _schema("JSON schema", PERSON),
    _schema("JSON schema, strict white space", PERSON, any_whitespace=False),
    _schema("JSON schema, bounds and patterns", ORDER),
    Grammar("free JSON", lambda compiler: compiler.compile_builtin_json_grammar()),
    _ebnf("C-like", C_LIKE),
]
