"""Lark in tables: what each feature means, what is refused and where, what is taken for Lark."""

import re
import time

import pytest
import xgrammar
from test_sentences import judge

from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.lark import LarkError, is_lark, lark_to_ebnf


def lark_automaton(compiler, text):
    return automaton_of(compiler.compile_grammar(lark_to_ebnf(text)))


# (feature, grammar, texts that it takes, texts that it doesn't take)
FEATURES = [
    ("rules and terminals", 'start: a B\na: "x" | "y"\nB: "z"', ["xz", "yz"], ["x", "z", "xyz"]),
    ("alternatives on lines", 'start: "a"\n  | "b"\n\n  | "c" -> x\n', ["a", "b", "c"], ["ab", ""]),
    ("modifiers", '?start: a | b\n!a: "x"\n?!b: "y"', ["x", "y"], ["xy"]),
    ("an alternative without anything", 'start: | "a" start', ["", "aa"], ["b"]),
    ("groups and brackets", 'start: ("a" | "b")+ ["c"]', ["a", "babc"], ["c", "acc"]),
    ("operators", 'start: "a"? "b"* "c"+', ["c", "abbcc"], ["ab", "aac"]),
    ("counts", 'start: "a"~2 "b"~1..3', ["aab", "aabbb"], ["ab", "aa", "aabbbb"]),
    ("ranges", 'start: "a".."c" D\nD: "0".."9"', ["a0", "c9"], ["d0", "a"]),
    ("escapes in strings", r'start: "\n\t\x41\u00e9\"\\\d"', ['\n\tAé"\\\\d'], ["\n\tAé"]),
    ("strings of any case", 'start: "Let"i', ["let", "LET", "lEt"], ["lat"]),
    ("comments", '// one\nstart: "a" // "b"\n# two\n   // three\n', ["a"], ["b"]),
    ("a line that goes on", 'start: "a" \\\n  "b"', ["ab"], ["a"]),
    ("an empty string", 'start: "a" ""', ["a"], [""]),
    ("left recursion", 'start: start "+" "1" | "1"', ["1", "1+1+1"], ["1+", "+1"]),
    ("terminals of terminals", 'start: A+\nA: B | "x" B~2\nB: "b" | /c/', ["xbc", "b"], ["x"]),
    ("priorities", 'start.2: A | B\nA.-1: "a"\nB.10: "b"', ["a", "b"], ["c"]),
    ("flags", "start: /a.b/s /C/i /d e # f\n/x", ["a\nbcde", "axbCde"], ["a\nbd e"]),
    ("no flag s", "start: /a.b/", ["axb"], ["a\nb"]),
    ("escapes in a regexp", r"start: /\/\x41\u00e9\n[\]\-^]/", ["/Aé\n]", "/Aé\n^"], ["/A"]),
    ("a caret in front", r"start: /[\^_]/ | /[^a]/", ["^", "_", "b"], ["a"]),
    ("classes", r"start: /\d\D\s\S\w\W/", ["1a a_ ", "٣x\u00a0éé-"], ["11 a_ ", "1a a_a"]),
    ("flags in groups", r"start: /(?i:ab)(?-i:c)(?:d)(?P<e>e)/", ["ABcde"], ["ABCde"]),
    ("import", "start: INT\n%import common.INT", ["12"], ["a"]),
    ("import of several", "start: INT WS N\n%import common (INT, WS)\n%import common.WORD -> N",
     ["1 a"], ["1a"]),
    ("ignored text", 'start: "a" "b"\n%ignore " "\n%ignore /#[^\\n]*\\n/',
     ["ab", "a  b", "a #x\nb ", "a#b\nb"], [" ab", "a #b"]),
    ("ignored text in front",
     '%grammar_options {"allow_initial_skip": true}\nstart: "a"\n%ignore " "',
     ["a", "  a "], ["b"]),
    ("a comment takes its line", 'start: "a" "b"\n%ignore /#[^\\n]*/\n%ignore /\\s/',
     ["a b", "a #b\nb", "ab#"], ["a #b", "a# c b"]),
    ("templates", 'start: _sep{x, ","}\n_sep{item, s}: item (s item)*\nx: "x"',
     ["x", "x,x"], ["x,", "xx"]),
    ("templates of templates", 'start: p{q{"a"}}\np{x}: "(" x ")"\nq{y}: y+ | p{y}',
     ["(aa)", "((a))"], ["(((a)))", "a"]),
    ("a parameter named as a rule", 't{a}: a\na: "no"\nstart: t{"yes"}', ["yes"], ["no"]),
    ("recursive templates", 'start: t{"a"}\nt{x}: x t{x} | "."', ["aa.", "."], ["a"]),
    ("%extend", 'start: a\na: "x"\n%extend a: "y" | "z"', ["x", "y", "z"], ["xy"]),
    ("%extend of what is imported", "start: INT\n%import common.INT\n%extend INT: /0x[0-9a-f]+/",
     ["12", "0xff"], ["0x"]),
    ("%override", 'start: a\na: "x"\n%override a: "y"', ["y"], ["x"]),
    ("%override of what is imported", "start: INT\n%import common.INT\n%override INT: /[1-9]+/",
     ["12"], ["10"]),
    ("%override that comes first", 'start: a\n%override a: "x"\na: "y"', ["x"], ["y"]),
    ("%extend of a template", 'start: t{"a"}\nt{x}: x\n%extend t{x}: x "!"', ["a", "a!"], ["!"]),
    ("priorities of templates and terminals", 'start: t{A}\nt{x}.2: x x\nA.-3: /a/', ["aa"], ["a"]),
    ("counts of groups and from none", 'start: ("a" "b")~2 "c"~0..1', ["abab", "ababc"], ["ab"]),
    ("ignored terminals", 'start: "a" "b"\n%ignore X\nX: "-" | "+"', ["a-+b", "ab"], ["a*b"]),
    ("flags beside each other", "start: /a.b/is", ["A\nB", "a.b"], ["ab"]),
    ("a start rule of another name", 'a: "x"\nprogram: a+', ["xx"], [""]),
    ("a start rule that is named", '%lave start b\na: "x" b\nb: "y" a?', ["y", "yxy"], ["xy"]),
    ("a rule named root", 'start: root "b"\nroot: "a"', ["ab"], ["a"]),
    ("a header", '%llguidance {}\nstart: "a"', ["a"], [""]),
    # look-around and lazy repetition
    ("the usual string", r'start: S "," S' + "\n" + r'S: /".*?(?<!\\)(\\\\)*?"/',
     [r'"a","b"', r'"\"","\\"', '"",""'], ['"a"', r'"a\","', '"a"b","c"']),
    ("the same in parts", 'start: S\n' r'S: "\"" /.*?/ /(?<!\\)(\\\\)*?/ "\""',
     [r'"a\"b"', '""'], ['"a"b"', r'"\"']),
    ("lazy comments", 'start: C "x"\nC: "/*" /(.|\\n)*?/ "*/" | /#[^\\n]*/ "\\n"',
     ["/*a\nb**/x", "#/*\nx"], ["/*a*/b*/x"]),
    ("a prefix that must not be", 'start: ID ";"\nID: /(?!if|do)[a-z]+/',
     ["a;", "i;", "ai;", "foo;"], ["if;", "iffy;", "do;"]),
    ("a word that must not be", "start: ID\nID: /(?!(?:if|do)\\b)[a-z]+/",
     ["iffy", "i", "do_"[:1]], ["if", "do"]),
    ("a word's end", 'start: IF X\nIF: /if\\b/\nX: /[a-z(]+/\n%ignore " "',
     ["if x", "if(x", "if  (x"], ["ifx", "if"]),
    ("not before a character", 'start: A "b" | A "c"\nA: /a(?!b)/', ["ac"], ["ab"]),
    ("only before a character", 'start: A "b"? "c"?\nA: /a(?=b)/', ["ab", "abc"], ["a", "ac"]),
    ("a tempered dot", "start: /<(?:(?!>).)*>/", ["<>", "<a<>"], ["<>>", "<"]),
    ("look-behind", "start: /[a-z]+(?<!x)[0-9]/", ["a1", "xy1"], ["x1", "yx1"]),
    ("no boundary", r"start: /a\Bb/ /c\b/", ["abc"], ["ab c"]),
    # keywords
    ("keywords run into identifiers", 'start: "let" ID "=" ID\nID: /[a-z]+/\n%ignore " "',
     ["letx=y", "let x = y", "letlet=let"], ["let=y"]),
    ("strict keywords",
     '%lave strict_keywords\nstart: "let" ID "=" ID\nID: /[a-z]+/\n%ignore " "',
     ["let x=y", "let  letx = y"], ["letx=y", "let let=y", "let x=let"]),
    ("identifiers run into each other", 'start: ID ID\nID: /[a-z]+/\n%ignore " "',
     ["ab", "a b"], ["a"]),
    ("strict identifiers",
     '%lave strict_keywords\nstart: ("do" | ID) ID\nID: /[a-z]+/\n%ignore " "',
     ["a b", "do b"], ["ab", "dob", "a do"]),
    ("strict keywords through rules",
     '%lave strict_keywords\nstart: kw* rest?\nkw: "on" | "off"i\nrest: "!" | name\n'
     'name: ID\nID: /[a-z]+/i\n%ignore /\\s+/',
     ["on off on !", "on!", "onoff", "OFF a"], ["on Off b on", "offon!", "onOff!"]),
    ("a keyword of higher priority",
     '%lave strict_keywords\nstart: IF ID ";"\nIF.1: "if"\nID: /[a-z]+/\n%ignore " "',
     ["ifx;", "if x;"], ["if ifx;", "if if;"]),
    ("strict keywords, counted",
     '%lave strict_keywords\nstart: ("a" | ID)~2..3\nID: /[a-z]+/\n%ignore " "',
     ["a bc", "x y a", "a a"], ["abc", "a", "a a a a"]),
]  # fmt: skip


@pytest.mark.parametrize(("grammar", "taken", "refused"), [case[1:] for case in FEATURES],
                         ids=[case[0] for case in FEATURES])  # fmt: skip
def test_a_feature(compiler, grammar, taken, refused):
    automaton = lark_automaton(compiler, grammar)
    for text in taken:
        assert judge(automaton, text.encode()) == "accepted", text
    for text in refused:
        assert judge(automaton, text.encode()) != "accepted", text


# (grammar, line, column, words of the sentence)
REFUSED = [
    ('start: "a', 1, 8, "this string has no end"),
    ("start: /a", 1, 8, "this regexp has no end"),
    ('start: "a" $', 1, 12, "'$' has no meaning"),
    ('start "a"', 1, 7, "expected ':' behind start"),
    ('start: ("a"', 1, 12, "expected ')'"),
    ('start: "a")', 1, 11, "expected the end of the line, found ')'"),
    ("start: a\nb: b", 1, 8, "a is not defined"),
    ('start: "a"\nb: c', 2, 4, "c is not defined"),
    ('start: "a"\nA: B', 2, 4, "B is not defined"),
    ('start: "a"\n\nstart: "b"', 3, 1, "start is defined twice"),
    ('start: A\nA: "a"\n%import common.INT -> A', 2, 1, "A is defined twice"),
    ("start: a\na: b\nb: a", 1, 1, "the grammar has no sentence"),
    ('start: A\nA: "a" A | "b"', 2, 8, "the terminal A is made of itself"),
    ('start: A\nA: "a" b\nb: "b"', 2, 8, "b is a rule"),
    ('start: A\nA: b{"x"}\nb{x}: x', 2, 4, "b is a rule"),
    ('start: A\nA{x}: "a"', 2, 2, "only rules can be templates"),
    ('start: t{"a"}\nt{x, y}: x y', 1, 8, "t takes 2 arguments, and here it has 1"),
    ("start: t\nt{x}: x", 1, 8, "t takes 1 arguments, and here it has 0"),
    ('start: t{"a"}\nt{x}: x t{u{x}} | "."\nu{x}: x x', 2, 11, "goes on for ever"),
    ("start: Foo", 1, 8, "Foo is not defined"),
    ('Foo: "a"', 1, 1, "neither a rule (lower case) nor a terminal"),
    ('start: "a"~3..2', 1, 11, "count from fewer to more"),
    ('start: "a"~99999999', 1, 11, "more than the limit"),
    ('start: "ab".."c"', 1, 8, "one character at each"),
    ('start: "b".."a"', 1, 8, "runs backwards"),
    (r'start: "a\x4"', 1, 10, "lacks its hexadecimal digits"),
    (r'start: "\ud800"', 1, 9, "names no character"),
    ("start: /a/q", 1, 11, "no flag 'q'"),
    ("start: /a/l", 1, 8, "locale"),
    ("start: /a(/", 1, 10, "no regular expression"),
    ("start: /[b-a]/", 1, 10, "no regular expression"),
    (r"start: /(a)\1/", 1, 8, "a back-reference"),
    ("start: /(?>a)b/", 1, 8, "an atomic group"),
    ("start: /a++b/", 1, 8, "a possessive repetition"),
    ("start: /^a/", 1, 8, "an end of the whole text"),
    ("start: B\nB: /a$/", 2, 4, "an end of the whole text"),
    ('start: "a" B\nB: /\\bif/', 2, 1, "looks behind the beginning"),
    ("start: /(?<!a)b/", 1, 8, "looks behind the beginning"),
    ("start: /a.*?b[a-z]*/", 1, 8, "mixes lazy repetition with greedy"),
    ("start: /(?!x)[a-z]{1,9999}/", 1, 8, "too large"),
    ("start: /(?:(?!a.{12}b)[ab])*/", 1, 8, "more than 4096 states"),
    ("%declare _INDENT\nstart: _INDENT", 1, 1, "%declare"),
    ("start: X\n%import .x.X", 2, 9, "no files to import from"),
    ("start: X\n%import fancy.X", 2, 1, "no library fancy"),
    ("start: X\n%import common.X", 2, 1, "common.X can't be imported"),
    ("start: x\n%import common.INT -> x", 2, 1, "INT is a terminal, and x is the name of a rule"),
    ("start: INT\n%import common (INT, FOO)", 2, 22, "common.FOO can't be imported"),
    ('start: "a"\n%extend b: "c"', 2, 9, "%extend needs a definition of b"),
    ('start: "a"\n%override b: "c"', 2, 11, "%override needs a definition of b"),
    ('start: t{"a"}\nt{x}: x\n%extend t{y}: y', 3, 9, "other parameters"),
    ('start: "a"\n%ignore b\nb: "b"', 2, 9, "b is a rule"),
    ('start: "a"\n%include x', 2, 1, "%include is no directive"),
    ('start: "a"\n%lave fast', 2, 7, "%lave has the options"),
    ('a: "x"\nb: "y"', 1, 1, "%lave start a or b"),
    ('A: "x"', 1, 1, "there is no rule"),
    ('%lave start c\na: "x"', 1, 13, "there is no rule c"),
    ('start.x: "a"', 1, 7, "expected a priority, found 'x'"),
    ('start: A\nA.: "a"', 2, 3, "expected a priority, found ':'"),
    ('start: "a"~', 1, 12, "expected a number"),
    ('start: "a"~-1', 1, 11, "count from fewer to more"),
    ('start: "a"~2..', 1, 15, "expected a number"),
    ('start: a..b\na: "x"\nb: "y"', 1, 9, "expected the end of the line, found '..'"),
    ('start: "a"..B\nB: "b"', 1, 13, "expected the last character of the range"),
    ('start: ["a"', 1, 12, "expected ']'"),
    ('start: "a" ->', 1, 14, "expected the name of the alternative"),
    ("start: /a{3,1}/", 1, 11, "no regular expression: min repeat greater"),
    ('start: "x" /(?<=ab)c/', 1, 12, "looks behind the beginning"),
    ('start: "a"\n%ignore', 2, 8, "expected what to ignore"),
    ('start: "a"\n%ignore C', 2, 9, "C is not defined"),
    ('start: "a"\n%override', 2, 10, "expected a rule or a terminal"),
    ('start: "a"\n%extend start', 2, 14, "expected ':' behind start"),
    ('start: A\nA: "a"\n%override a: "b"', 3, 11, "%override needs a definition of a"),
    ("start: A\n%import", 2, 8, "expected a library"),
    ("start: A\n%import common", 2, 15, "expected '.' and what to import"),
    ('start: t{"a"\nt{x}: x', 2, 1, "expected '}'"),
    ('start: t{"a"}\nt{}: "x"', 2, 3, "expected a parameter"),
    ('start: "a"\n%lave', 2, 6, "expected strict_keywords or start"),
    ('start: "a"\n%lave strict_keywords now', 2, 23, "expected the end of the line"),
    # llguidance's own dialect is read by xgrammar
    ("start: <|no|> a\na.2: /x/", 2, 2, "read by xgrammar"),
    ('start: %json {"type": "integer"} b', 1, 34, "read by xgrammar"),
]


@pytest.mark.parametrize(("grammar", "line", "column", "words"), REFUSED)
def test_refused_with_its_place(grammar, line, column, words):
    with pytest.raises(LarkError) as refused:
        lark_to_ebnf(grammar)
    assert (refused.value.line, refused.value.column) == (line, column), str(refused.value)
    assert words in str(refused.value)
    assert str(refused.value).startswith(f"Lark grammar, line {line}, column {column}: ")
    assert str(refused.value).endswith(".")


def test_the_dialect_of_llguidance(compiler):
    """Inline schemas and attributes, which only xgrammar's own converter knows."""
    automaton = lark_automaton(compiler, 'start: "n=" %json {"type": "integer"}')
    assert judge(automaton, b"n=12") == "accepted"
    assert judge(automaton, b"n=x") == "dead"


LARK = [
    'start: "a"',
    '\n\n  // comment\nstart : "a"',
    "# comment ::= \n?start: a",
    "%llguidance {}\nx",
    "%import common.INT\nstart: INT",
    "!start.2: a",
    "_sep{x, y}: x y",
    "A: /a/",
    "name[lazy]: /a/",
]
EBNF = [
    'root ::= "a"',
    'root::="a"',
    "# start: comment\nroot ::= b\nb ::= [:]",
    'start ::= "a:"',
    'root[max_tokens=3] ::= "a"',
    'root\n  ::= "x: y"',
    "root ::= TagDispatch()",
    "",
    "nothing of the kind",
]


@pytest.mark.parametrize("text", LARK)
def test_is_lark(text):
    assert is_lark(text)
    with pytest.raises(RuntimeError):  # so nothing is taken from EBNF
        xgrammar.Grammar.from_ebnf(text)


@pytest.mark.parametrize("text", EBNF)
def test_is_not_lark(text):
    assert not is_lark(text)


def test_what_xgrammar_prints_is_never_lark(compiler):
    for case in FEATURES:
        printed = str(compiler.compile_grammar(lark_to_ebnf(case[1])).grammar)
        assert not is_lark(printed)
        assert re.match(r"root ::=", printed)


HOSTILE = [
    "root" + " " * 100_000 + "::= x",
    "start: /" + "\\" * 50_001,
    'start: "' + "\\" * 50_001,
    "start: " + "(" * 5000,
    "start: A0\n" + "\n".join(f"A{'B' * i}: A{'B' * (i + 1)}~2" for i in range(60)) + '\nA0: "x"',
    "start: A\n" + "\n".join(f"A{'B' * i}: A{'B' * (i + 1)} A{'B' * (i + 1)}" for i in range(60)),
    "start: /(?!x)(a{1,250}){1,250}/",
    "start: /(?:(?!a.{14}b)[ab])*/",
    'start: t{"a"}\nt{x}: t{t{x}}',
]


@pytest.mark.parametrize("place", range(len(HOSTILE)))
def test_a_text_that_would_take_for_ever_is_refused_soon(place):
    begin = time.perf_counter()
    is_lark(HOSTILE[place])
    with pytest.raises(LarkError):
        lark_to_ebnf(HOSTILE[place])
    assert time.perf_counter() - begin < 10
