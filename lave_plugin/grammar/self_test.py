"""Whether an xgrammar that was not tried still prints and judges as the plugin reads it.

The states are built from what xgrammar prints, and nothing promises that a later version prints
the same. So when another version is met than those that the whole test suite ran with, grammars of
every kind are compiled, walked along short texts, and judged by xgrammar's matcher and by the
states: at every prefix, which of the tokens may follow, among them the 256 bytes, and whether the
text may end.
"""

import logging
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import NamedTuple

import xgrammar

from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.implementation import states_over
from lave_plugin.grammar.utf8 import unfinished_character
from lave_plugin.grammar.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

TRIED_VERSIONS = ("0.2.7",)

_TEXT = [*(bytes([byte]) for byte in range(256)), b"ab", b"</t>x"]
_SPECIAL = _CALL, _DONE = range(len(_TEXT), len(_TEXT) + 2)
_AB = _TEXT.index(b"ab")
_END_TOKEN = len(_TEXT) + len(_SPECIAL)
_VOCABULARY = Vocabulary([*_TEXT, *[b""] * (len(_SPECIAL) + 1)], [_END_TOKEN])


class XgrammarMismatch(RuntimeError):
    """The installed xgrammar is not as the plugin knows it; the message says where."""


class Case(NamedTuple):
    """A grammar, and texts that begin as its sentences do, each up to where it matters."""

    name: str
    compile: Callable[[xgrammar.GrammarCompiler], xgrammar.CompiledGrammar]
    texts: tuple[str | tuple[int, ...], ...]
    """As strings that are read by the byte, or as tokens."""
    counts_tokens: bool = False


def check_version() -> None:
    """Test the installed xgrammar, unless it was tried; under a second.

    Raises:
        XgrammarMismatch: If a grammar of the table can't be read any more, or is judged in two
            ways.
    """
    found = version("xgrammar")
    if found in TRIED_VERSIONS:
        return
    tried = ", ".join(TRIED_VERSIONS)
    difference = first_difference(CASES)
    if difference is not None:
        raise XgrammarMismatch(
            f"the lave plugin was not tried with xgrammar {found} (tried: {tried}), and its own"
            f" reading of a grammar is not that version's: {difference}. So it could not enforce a"
            f" constraint. Install xgrammar {TRIED_VERSIONS[-1]}, or start without"
            " --constrained-decoding."
        )
    logger.warning(
        "xgrammar %s was not tried with the lave plugin (tried: %s); it judges the %d grammars of"
        " the self-test as the plugin does, so it goes on.",
        found,
        tried,
        len(CASES),
    )


def first_difference(cases: Iterable[Case]) -> str | None:
    """Where the states and xgrammar's matcher part, in words."""
    compiler = _compiler()
    for case in cases:
        try:
            difference = _difference(case, compiler)
        except Exception as error:  # whatever an unknown version brings, it is a difference
            difference = f"{type(error).__name__}: {error}"
        if difference is not None:
            return f"{case.name}: {difference}"
    return None


def _compiler() -> xgrammar.GrammarCompiler:
    # To xgrammar a special token has bytes; these are such as no text has.
    special = [b"\xff" + bytes([number]) for number in range(len(_SPECIAL))]
    info = xgrammar.TokenizerInfo(
        [*_TEXT, *special, b""], vocab_size=_END_TOKEN + 1, stop_token_ids=[_END_TOKEN]
    )
    return xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)


def _difference(case: Case, compiler: xgrammar.GrammarCompiler) -> str | None:
    compiled = case.compile(compiler)
    tokens = states_over(automaton_of(compiled), _VOCABULARY)
    for text in case.texts:
        matcher = xgrammar.GrammarMatcher(compiled)
        read = list(text.encode()) if isinstance(text, str) else list(text)
        state = tokens.start
        for position in range(len(read) + 1):
            # On purpose the states leave out some of what xgrammar takes: what is no UTF-8, and
            # special tokens that a grammar does not name.
            before = read[:position]
            words = b"".join(_VOCABULARY.token_bytes[token] for token in before)
            mask = _mask_of(matcher) if case.counts_tokens else None
            for token in range(_END_TOKEN):
                theirs = matcher.accept_token(token)
                if theirs:
                    matcher.rollback(1)
                theirs = theirs and (mask is None or token in mask)
                ours = tokens.advance(state, token) != DEAD
                data = _VOCABULARY.token_bytes[token]
                left_out = token in _SPECIAL or unfinished_character(words + data) is None
                if theirs != ours and not (theirs and left_out):
                    return _sentence(theirs, _name(token), before)
            theirs = matcher.is_completed()
            if theirs != tokens.is_complete(state) and not unfinished_character(words):
                return _sentence(theirs, "the end of the text", before)
            if position < len(read):
                following = tokens.advance(state, read[position])
                if not matcher.accept_token(read[position]):
                    break  # a version may take less than another; they agree on that
                if following == DEAD:
                    return _sentence(True, _name(read[position]), before)
                state = following
    return None


def _mask_of(matcher: xgrammar.GrammarMatcher) -> set[int]:
    """The tokens that may follow; computing them is what makes a budget hold."""
    mask = xgrammar.allocate_token_bitmask(1, _END_TOKEN + 1)
    matcher.fill_next_token_bitmask(mask)
    words = mask[0].tolist()
    return {token for token in range(_END_TOKEN + 1) if words[token >> 5] >> (token & 31) & 1}


def _name(token: int) -> str:
    return f"token {token}" if token in _SPECIAL else repr(_TEXT[token])


def _sentence(theirs: bool, what: str, before: list[int]) -> str:
    if any(token in _SPECIAL for token in before):
        behind = f"tokens {before}"
    else:
        behind = repr(b"".join(_TEXT[token] for token in before))
    return f"xgrammar {'takes' if theirs else 'refuses'} {what} behind {behind}"


# --- the table: everything that xgrammar prints today ---------------------------------------------


def _ebnf(name: str, source: str, *texts: str) -> Case:
    return Case(name, lambda compiler: compiler.compile_grammar(source), texts)


def _schema(name: str, schema: dict, *texts: str, **options) -> Case:
    return Case(name, lambda compiler: compiler.compile_json_schema(schema, **options), texts)


def _tag(begin: str, end: str, pattern: str) -> dict:
    content = {"type": "regex", "pattern": pattern}
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _structural_tag(name: str, tag_format: dict, *texts: str | tuple[int, ...]) -> Case:
    tag = {"type": "structural_tag", "format": tag_format}
    return Case(name, lambda compiler: compiler.compile_structural_tag(tag), texts)


def _legacy_tags(compiler: xgrammar.GrammarCompiler) -> xgrammar.CompiledGrammar:
    tags = [
        xgrammar.StructuralTagItem(begin="<f=a>", schema={"type": "integer"}, end="</f>"),
        xgrammar.StructuralTagItem(begin="<f=b>", schema={"type": "boolean"}, end="</f>"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return compiler.compile_structural_tag(tags, ["<f="])


_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 70},
        "code": {"type": "string", "pattern": "^[a-c]{2}\\d$"},
        "size": {"type": "number", "minimum": 0.5, "maximum": 20},
        "kind": {"enum": ["a", "ab", None]},
        "parts": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
    },
    "required": ["name"],
    "additionalProperties": False,
}
_CALLS = {
    "type": "triggered_tags",
    "triggers": ["<f", "<g>"],
    "tags": [_tag("<f=a>", "</f>", "[a-c]+"), _tag("<g>", "</g>", "\\d")],
}

CASES = (
    _ebnf(
        "strings and classes with every kind of escape",
        'root ::= "\\"\\\\\\n\\r\\t\\x01\\x7f\\x85é日" [\\-\\]\\\\a^] [^\\n\\"b] [+--]'
        " [à-üα-ω\\u4e00-\\u9fff] [\\U0001f600-\\U0001f64f]",
        '"\\\n\r\t\x01\x7f\x85é日]é,ü😀',
        '"\\\n\r\t\x01\x7f\x85é日^\\-一😏',
    ),
    _ebnf(
        "left and right recursion",
        'root ::= root "+" term | term\nterm ::= "x" term | "y" | "(" root ")" | n root "!"\n'
        'n ::= "" | "~"',
        "xy+(y+xxy)!+~y!",
    ),
    _ebnf(
        "a grammar whose sentences may be empty", 'root ::= "" | "a" root "b" | root root', "aab"
    ),
    _ebnf("an ambiguous grammar", 'root ::= root root | "a" | "aa" | [ab] "c"?', "aabacaa"),
    _ebnf(
        "bounded repetition",
        'root ::= "<" a{2,4} ">" [0-9]{3,} "ab"{0,2} b{1,200} [p-r]* ("s" | "tu")* "."\n'
        'a ::= "x" | "yz"\nb ::= "é" | "e" [^a]',
        "<xyzxx>1234ababéeépqstus.",
        "<xx>123éé",
    ),
    _ebnf(
        "long repetition",
        'root ::= "<" a{3,300} ">"\na ::= "x" | "yz"',
        "<" + 298 * "x" + "yzx>",
    ),
    _ebnf(
        "long repetition without bound",
        'root ::= "<" [a-cé]{200,} ">"',
        "<" + 199 * "b" + "éc>",
    ),
    Case(
        "a regular expression",
        lambda compiler: compiler.compile_regex(
            r"^(\d{3}-)?[a-z]+@\w+\.(com|org)|[^a-z\d]{2,70}(à|é)*$"
        ),
        ("123-me@x_1.org", "ÀÀ.é"),
    ),
    _schema(
        "a JSON schema",
        _SCHEMA,
        '{"name": "Bo é", "code":"ab1" , "size": 19.5,"kind": "ab"}',
        '{"name":"x","parts":[{"name":"y","kind":null},{"name": "z"}]}',
    ),
    _schema(
        "a JSON schema with strict white space",
        {"type": "array", "items": {"type": ["integer", "boolean"]}, "minItems": 1},
        "[-12, true, 0]",
        any_whitespace=False,
    ),
    Case(
        "JSON without a schema",
        lambda compiler: compiler.compile_builtin_json_grammar(),
        ('{"a": [1.5e-7, "\\u00e9é", {}], "b": null}',),
    ),
    Case(
        "a Lark grammar",
        lambda compiler: compiler.compile_grammar(
            xgrammar.Grammar.from_lark(
                'start: item ("," item)*\nitem: WORD "="i INT~1..2 | "[" start? "]"\n'
                'WORD: /[a-z_]+/\n%import common.INT\n%ignore " "'
            )
        ),
        ("ab = 12 3, [ c_=4]",),
    ),
    _structural_tag("tags with triggers", _CALLS, "é < <f=a>abc</f><g>1</g> x", "<g>2</g"),
    _structural_tag(
        "tags of which one must come, and words that must not",
        {**_CALLS, "at_least_one": True, "excludes": ["no", "né"]},
        "<f=a>a</f>n o <g>1</g>nn",
    ),
    _structural_tag(
        "a tag behind which nothing may come",
        {**_CALLS, "stop_after_first": True},
        "so <g>7</g>",
    ),
    _structural_tag(
        "free text within tags",
        {
            "type": "sequence",
            "elements": [
                {"type": "tag", "begin": "<t>", "content": {"type": "any_text"}, "end": "</t>"},
                {"type": "tags_with_separator", "separator": ",", "tags": _CALLS["tags"]},
            ],
        },
        "<t>h é<</t</t><f=a>b</f>,<g>1</g>",
    ),
    Case("structural tags of the older form", _legacy_tags, ("x <f=a>-12</f> <f=b>true</f>",)),
    Case(
        "tokens, and all but some",
        lambda compiler: compiler.compile_grammar(
            f"root ::= Token({_CALL}, {_AB}) inside* Token({_DONE})\n"
            f'inside ::= ExcludeToken({ord("a")}, {_AB}, {_CALL}, {_DONE}) | "ab"'
        ),
        ((_CALL, ord("b"), ord("a"), ord("b"), _DONE), (_AB, ord("x"), _DONE)),
    ),
    _structural_tag(
        "a tag between tokens",
        {
            "type": "tag",
            "begin": {"type": "token", "token": _CALL},
            "content": {"type": "any_tokens", "exclude_tokens": [_AB]},
            "end": {"type": "token", "token": _DONE},
        },
        (_CALL, ord("a"), ord("b"), _DONE),
    ),
    _structural_tag(
        "tokens with triggers",
        {
            "type": "token_dispatch",
            "rules": [[_CALL, {"type": "const_string", "value": "ab"}]],
            "exclude_tokens": [_DONE],
            "loop": True,
        },
        (ord("x"), _CALL, _AB, ord("y"), _CALL, ord("a"), ord("b"), ord("z")),
    ),
    Case(
        "a budget in tokens",
        lambda compiler: compiler.compile_grammar(
            'root ::= "<" inside ">"\ninside[max_tokens=3] ::= [a-z]*'
        ),
        ((ord("<"), _AB, ord("x"), _AB, ord(">")),),
        counts_tokens=True,
    ),
    Case(
        "budgets within a budget",
        lambda compiler: compiler.compile_grammar(
            'root ::= "<" outer ">"\nouter[max_tokens=5] ::= ([a-z] | "," inner | few)*\n'
            "inner[max_tokens=2] ::= [0-9]*\nfew[max_chars=1] ::= [A-Z]*"
        ),
        ((ord("<"), _AB, ord("x"), ord(","), ord("1"), ord("2")), tuple(b"<,1a,1>")),
        counts_tokens=True,
    ),
    _structural_tag(
        "a budget in characters",
        {
            "type": "tag",
            "begin": "<t>",
            "content": {"type": "any_text", "max_chars": 3},
            "end": "</t>",
        },
        "<t>aéb</t>",
    ),
)
