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

from lave_plugin.bench.synthetic.subjects import ARITHMETIC, C_LIKE, LOG_LINE, PERSON, SMILES


@dataclass(frozen=True)
class Grammar:
    """A grammar by name, compiled for any vocabulary, or for one that has its `special` tokens."""

    name: str
    compile: Callable[[xgrammar.GrammarCompiler], xgrammar.CompiledGrammar]
    special: tuple[int, ...] = ()


def _ebnf(name: str, source: str, special: tuple[int, ...] = ()) -> Grammar:
    return Grammar(name, lambda compiler: compiler.compile_grammar(source), special)


def _schema(name: str, schema: dict, **options) -> Grammar:
    return Grammar(name, lambda compiler: compiler.compile_json_schema(schema, **options))


def _regex(name: str, pattern: str) -> Grammar:
    return Grammar(name, lambda compiler: compiler.compile_regex(pattern))


def _lark(name: str, source: str) -> Grammar:
    return Grammar(
        name, lambda compiler: compiler.compile_grammar(xgrammar.Grammar.from_lark(source))
    )


def _tags(name: str, tag_format: dict, special: tuple[int, ...] = ()) -> Grammar:
    tag = {"type": "structural_tag", "format": tag_format}
    return Grammar(name, lambda compiler: compiler.compile_structural_tag(tag), special)


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

SCORES = {
    "type": "array",
    "items": {"anyOf": [{"type": "number"}, {"enum": ["none", None]}, {"$ref": "#"}]},
    "minItems": 1,
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


def _tag(begin: str | dict, end: str | list[str] | dict, content: dict) -> dict:
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


def over_tokens(special: tuple[int, int, int]) -> list[Grammar]:
    """Grammars that read tokens as a whole: three ids without text, and any token of text.

    Three readings of xgrammar's are not ours, and no grammar here touches them: to it a special
    token that is not excluded is one of any tokens, and its bytes are a character wherever a class
    excludes some or text is free; and where a token may be read both as its bytes and as a whole,
    its matcher loses one of the two.
    """
    call, done, other = special
    begin, also_begin, end = ({"type": "token", "token": token} for token in (call, other, done))
    thinking = {
        "type": "sequence",
        "elements": [
            _tag(begin, end, {"type": "any_tokens", "exclude_tokens": [call, other]}),
            {
                "type": "optional",
                "content": {"type": "exclude_token", "exclude_tokens": list(special)},
            },
            _tag(begin, end, {"type": "grammar", "grammar": ARITHMETIC}),
        ],
    }
    triggered = {
        "type": "token_triggered_tags",
        "trigger_tokens": [call, other],
        "tags": [
            _tag(begin, end, {"type": "json_schema", "json_schema": SCORES}),
            _tag(also_begin, "</b>", {"type": "regex", "pattern": "[a-c]+|é"}),
        ],
        "exclude_tokens": [done],
    }
    dispatch = {
        "type": "token_dispatch",
        "rules": [
            [call, {"type": "regex", "pattern": "[a-c]{3}-\\d"}],
            [other, _tag("<t>", "</t>", {"type": "grammar", "grammar": LEFT_RECURSION})],
        ],
        "exclude_tokens": [done],
        "loop": True,
    }
    nested = f"""
root ::= item*
item ::= Token({call}) body Token({done}) | Token({other}) ExcludeToken({call}, {done}, {other})
body ::= [a-z] [a-z0-9]* (":" item+)? | body "," body
"""
    return [
        _tags("tokens, thinking", thinking, special),
        _tags("tokens, triggers", triggered, special),
        _tags("tokens, dispatch", dispatch, special),
        _ebnf("tokens, nested", nested, special),
    ]
