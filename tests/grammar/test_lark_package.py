"""The lark package as the oracle: the same grammar text, the same verdict on every text.

Texts are sentences of our own reading, and those with a character changed: the first kind finds
what we take and Lark doesn't, the second kind mostly the reverse.
"""

import random

import lark
import pytest

from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.lark import lark_to_ebnf
from lave_plugin.grammar.lark.libraries import LIBRARIES

# Lark ignores text in front of the first token as well.
SKIP = '%grammar_options {"allow_initial_skip": true}\n'

GRAMMARS = {
    "calculator": r"""
        ?start: sum
        ?sum: product | sum "+" product -> add | sum "-" product -> sub
        ?product: atom | product "*" atom | product "/" atom
        ?atom: NUMBER -> number | "-" atom | NAME | "(" sum ")"
        %import common.CNAME -> NAME
        %import common.NUMBER
        %import common.WS_INLINE
        %ignore WS_INLINE
    """,
    "JSON": r"""
        ?start: value
        ?value: object | array | string | SIGNED_NUMBER | "true" | "false" | "null"
        array: "[" [value ("," value)*] "]"
        object: "{" [pair ("," pair)*] "}"
        pair: string ":" value
        string: ESCAPED_STRING
        %import common.ESCAPED_STRING
        %import common.SIGNED_NUMBER
        %import common.WS
        %ignore WS
    """,
    "templates": r"""
        start: "[" _sep{item, ","} "]" | call{item}
        _sep{x, s}: x (s x)*
        call{y}: "f(" _sep{y, ";"} ")"
        item: /[a-c]+/ | "1".."3" | pair{item}
        pair{z}: "<" z z ">"
    """,
    "comments": r"""
        start: (A | /[0-9]{2,3}/)+ "."
        A: "a"~2..3 | "b"i
        COMMENT: "/*" /(.|\n)*?/ "*/" | /#[^\n]*/
        %ignore COMMENT
        %ignore " "
    """,
    "assignments": r"""
        start: (ID "=" NUM ";")*
        ID: /[a-z]+/
        NUM: /[0-9]+/
        %import common (SH_COMMENT, CPP_COMMENT, WS)
        %ignore SH_COMMENT
        %ignore CPP_COMMENT
        %ignore WS
    """,
    "strings": r"""
        start: STRING ("," STRING)*
        STRING: "\"" /.*?/ /(?<!\\)(\\\\)*?/ "\"" | /'[^']*'/
    """,
    "reserved words": r"""
        start: (ID | "=" | ";")+
        ID: /(?!if|do)[a-z]+/
        %ignore " "
    """,
    "priorities": r"""
        start: (KW ID)+
        KW.2: "kw" | "let"
        ID.-1: /[0-9]+/
        %ignore /\s/
    """,
    "cases": 'start: "select"i /[A-Z]/i+ "ß"i? /é/i?',
    "overrides": r"""
        start: item+
        item: "a" | WORD
        %import common.WORD
        %override WORD: /[x-z]+/
        %extend item: "(" item ")" | "b"~2
    """,
}

KEYWORDS = {
    "statements": r"""
        start: (stmt ";")+
        stmt: "let" ID "=" ID | ID "=" ID | "if" ID
        ID: /[a-z_][a-z0-9_]*/
        %ignore " "
    """,
    "named keywords": r"""
        start: (LET ID | IN NUM | ID)*
        LET: "let"
        IN: "in"i
        ID: /[a-z]+/i
        NUM: /[0-9]+/
        %ignore /[ \t]+/
    """,
    "a keyword of higher priority": r"""
        start: (IF ID | ID ";")*
        IF.2: "if"
        ID: /[a-z]+/
        %ignore " "
    """,
    "two kinds of words": r"""
        start: ("a" HEX | ID "." | HEX ";" | "z" ID)*
        HEX.1: /[0-9a-f]+/
        ID: /[g-z]+/
        %ignore " "
    """,
}


def automaton_for(compiler, text):
    return automaton_of(compiler.compile_grammar(lark_to_ebnf(SKIP + text)))


def texts(automaton, rng: random.Random, count: int, letters: str):
    for _ in range(count):
        state, data = automaton.start, bytearray()
        for _ in range(rng.randrange(16)):
            allowed = automaton.allowed_bytes(state)
            printable = [byte for byte in allowed if 32 <= byte < 127 or byte == 10]
            if not (printable or allowed):
                break
            data.append(rng.choice(printable or allowed))
            state = automaton.step(state, data[-1])
        data += automaton.shortest_completion(state)
        text = data.decode()
        yield text
        for _ in range(3):
            at = rng.randrange(len(text) + 1)
            letter = rng.choice(text + letters)
            yield rng.choice(
                [
                    text[:at] + letter + text[at:],
                    text[:at] + text[at + 1 :],
                    text[:at] + letter + text[at + 1 :],
                ]
            )


def compare(automaton, parser, letters='aZ" 1*/\\.', count=60) -> None:
    taken = 0
    for text in texts(automaton, random.Random(1), count, letters):
        try:
            parser.parse(text)
            expected = True
        except lark.exceptions.LarkError:
            expected = False
        state = automaton.run(automaton.start, text.encode())
        assert automaton.accepting(state) == expected, text
        taken += expected
    assert count <= taken < 4 * count


@pytest.mark.parametrize("name", GRAMMARS)
def test_any_way_to_cut_the_text(compiler, name):
    text = GRAMMARS[name]
    compare(
        automaton_for(compiler, text),
        lark.Lark(text, parser="earley", lexer="dynamic_complete"),
    )


@pytest.mark.parametrize("name", KEYWORDS)
def test_strict_keywords_are_the_basic_lexer(compiler, name):
    text = KEYWORDS[name]
    compare(
        automaton_for(compiler, "%lave strict_keywords\n" + text),
        lark.Lark(text, parser="earley", lexer="basic"),
        letters="alet=; if",
        count=150,
    )


# Those of which a text can be cut into two, such as numbers next to each other, are in one pair of
# brackets each; DEC_NUMBER and STRING look ahead.
@pytest.mark.parametrize(
    ("library", "name"),
    [
        (library, name)
        for library, terminals in LIBRARIES.items()
        for name in terminals
        if library != "unicode"
    ],
)
def test_a_library_has_what_lark_has(compiler, library, name):
    text = f'start: "<" {name} ">"\n%import {library}.{name}'
    compare(
        automaton_for(compiler, text),
        lark.Lark(text, parser="earley", lexer="dynamic_complete"),
        letters="09.eE+-_ \"'\\azZ\nx>",
        count=25,
    )
