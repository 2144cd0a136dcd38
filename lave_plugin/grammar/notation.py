"""The syntax tree of xgrammar's printed normal form.

`str(compiled.grammar)` prints one rule after the other:

    root ::= (("{" [ \\n\\r\\t]* "\\"a\\"" digits) | (root_1)) (=("}"))
    root_1 ::= ("" | ([^\\"\\\\\\xe9] root_1))
    digits ::= ((digit{2, 30}))
    call ::= TagDispatch(
      ("<call>", body),
      loop_after_dispatch=true,
      excludes=("</s>")
    )
    thought[max_tokens=99] ::= ("" | (ExcludeToken(7) thought)) (=(Token(7)))

A body is a choice of sequences, or one macro. `(=...)` behind a body is a hint for xgrammar's mask
cache and says nothing about the language. Escapes stand for code points, not for bytes.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.nfa import TokenSet
from lave_plugin.grammar.utf8 import CodePointRange, complement, normalise_ranges


class Text(NamedTuple):
    """A literal, as UTF-8."""

    data: bytes


class CharClass(NamedTuple):
    """One character out of normalised code-point ranges; negation is resolved."""

    ranges: tuple[CodePointRange, ...]


class RuleRef(NamedTuple):
    """A reference to another rule."""

    name: str


class Repeat(NamedTuple):
    """`element` at least `low` and at most `high` times; None means without bound."""

    element: Text | CharClass | RuleRef | TokenSet
    low: int
    high: int | None


class Dispatch(NamedTuple):
    """Free text in which a trigger hands over to a rule (xgrammar's TagDispatch)."""

    triggers: tuple[tuple[bytes, str], ...]
    loops: bool
    excludes: tuple[bytes, ...]


class Regex(NamedTuple):
    """A regular expression that xgrammar compiles itself; `source` is the macro as printed."""

    source: str


class Substring(NamedTuple):
    """Neighbouring chunks of a text, from any chunk to any other, or nothing."""

    chunks: tuple[bytes, ...]


class Limits(NamedTuple):
    """What the attributes of a rule take away from the language of its body."""

    lazy: bool = False
    """The first match in the text is the only one: no match begins with a shorter match."""
    max_chars: int | None = None
    max_tokens: int | None = None
    """Tokens that begin inside a match, besides the one in which the match itself begins."""


class Limited(NamedTuple):
    """A body with limits."""

    body: "tuple[Sequence, ...] | Dispatch | Regex | Substring"
    limits: Limits


Element = Text | CharClass | RuleRef | TokenSet | Repeat
Sequence = tuple[Element, ...]
Macro = Dispatch | Regex | Substring
Body = tuple[Sequence, ...] | Macro | Limited

_RULE = re.compile(r'^([^\s\["(]+)(?:\[((?:[^\]"]|"(?:[^"\\]|\\.)*")*)\])? ::= ', re.MULTILINE)

_STRING = r'"(?:[^"\\]|\\.)*"'
_CLASS = r"\[(?:[^\]\\]|\\.)*\]"
_PLAIN = r'[^"\[\]()]'
_BOUNDS = r"\{\d+,\s*-?\d+\}"
_TOKEN = re.compile(
    rf"""
      (?P<space>\s+)
    | (?P<lookahead>\(=(?:{_PLAIN}|{_STRING}|{_CLASS}
          |\((?:{_PLAIN}|{_STRING}|{_CLASS}|\((?:{_PLAIN}|{_STRING}|{_CLASS})*\))*\))*\))
    | (?P<empty>""(?:\*|{_BOUNDS})?)
    | (?P<string>{_STRING})
    | (?P<class>{_CLASS})
    | (?P<star>\*)
    | (?P<repeat>{_BOUNDS})
    | (?P<tokens>(?:Exclude)?Token\([\d,\s]*\))
    | (?P<macro>[A-Za-z]+\((?=[^)]))
    | (?P<name>[^\s"\[\](){{}}|*,=]+)
    | (?P<open>\()
    | (?P<close>\))
    | (?P<choice>\|)
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX_MACRO = re.compile(rf"Regex\({_STRING}(?:, json_string=(?:true|false))?\)", re.DOTALL)
_DISPATCH_MACRO = re.compile(
    rf"""TagDispatch\(\s*
         (?P<triggers>(?:\({_STRING},\s[^\s()]+\),\s*)*)
         loop_after_dispatch=(?P<loops>true|false),\s*
         excludes=\((?P<excludes>(?:{_STRING}(?:,\s)?)*)\)\s*\)""",
    re.VERBOSE | re.DOTALL,
)
_TRIGGER = re.compile(rf"\(({_STRING}),\s([^\s()]+)\)", re.DOTALL)
_TOKEN_DISPATCH_MACRO = re.compile(
    r"""TokenTagDispatch\(\s*
        (?P<triggers>(?:\(\d+,\s[^\s()]+\),\s*)*)
        loop_after_dispatch=(?P<loops>true|false),\s*
        excludes=\((?P<excludes>[\d,\s]*)\)\s*\)""",
    re.VERBOSE,
)
_TOKEN_TRIGGER = re.compile(r"\((\d+),\s([^\s()]+)\)")
_SUBSTRING_MACRO = re.compile(rf"Substring\(((?:{_STRING}(?:,\s)?)*)\)", re.DOTALL)

_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))", re.DOTALL)
_NAMED_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "0": "\0",
}
_CLASS_ITEM = re.compile(r"(\\(?:x..|u....|U.{8}|.)|[^\\])(?:-(\\(?:x..|u....|U.{8}|.)|[^\\]))?")

# A rule that carries one of these attributes still has the language that its body says: they name
# what was matched, how to sample it, or (Lark's `suffix` and `stop`, whose language is in the body)
# how much of it to hide.
_HARMLESS_ATTRIBUTES = re.compile(
    rf"(?:stop_)?capture={_STRING}|temperature=[^,\s]+"
    r"|capture_hidden_(?:suffix_bytes|stop_bytes|body_rule_id|marker_rule_id)=\d+"
)
_LIMIT = re.compile(r"(lazy)|(max_chars|max_tokens)=(\d+)")


def read_rules(text: str) -> dict[str, Body]:
    """Parse the printed normal form; the order of the rules is kept."""
    headers = list(_RULE.finditer(text))
    if not headers:
        raise UnsupportedGrammar(
            "The text is not a grammar as xgrammar prints it: no line reads 'name ::= body'."
        )
    ends = [header.start() for header in headers[1:]] + [len(text)]
    rules: dict[str, Body] = {}
    for header, end in zip(headers, ends, strict=True):
        name, attributes = header.groups()
        limits = _read_limits(name, attributes or "")
        body = _read_body(name, text, header.end(), end)
        rules[name] = _with_limits(body, limits)
    return rules


def read_limits(text: str) -> dict[str, Limits]:
    """The limits of each rule as they are printed."""
    return {name: _read_limits(name, attributes or "") for name, attributes in _RULE.findall(text)}


def _with_limits(body: "tuple[Sequence, ...] | Macro", limits: Limits) -> Body:
    """Counted characters of one class, which is what any text is, are a repetition."""
    match body:
        case ((Repeat(CharClass() as characters, 0, None),),) if limits.max_chars is not None:
            body = ((Repeat(characters, 0, limits.max_chars),),)
            limits = limits._replace(max_chars=None)
    return body if limits == Limits() else Limited(body, limits)


def _read_limits(rule: str, attributes: str) -> Limits:
    rest = _HARMLESS_ATTRIBUTES.sub("", attributes)
    found = {
        lazy or name: True if lazy else int(number) for lazy, name, number in _LIMIT.findall(rest)
    }
    rest = _LIMIT.sub("", rest).strip(", ")
    if rest:
        raise UnsupportedGrammar(
            f"Rule {rule!r} has the attribute {rest!r}, which this version of the plugin does not"
            " know; leave it out."
        )
    return Limits(**found)


def _read_body(rule: str, text: str, start: int, end: int) -> Body:
    if text.startswith("TagDispatch(", start):
        return _read_dispatch(rule, text, start, end)
    if text.startswith("Regex(", start):
        macro = _REGEX_MACRO.match(text, start, end)
        if macro is None:
            raise UnsupportedGrammar(
                f"Rule {rule!r} has a Regex(...) with arguments that this version of the plugin"
                " does not know; write it as an EBNF rule."
            )
        return Regex(macro.group())
    if text.startswith("TokenTagDispatch(", start):
        return _read_token_dispatch(rule, text, start, end)
    if text.startswith("Substring(", start):
        macro = _SUBSTRING_MACRO.match(text, start, end)
        if macro is None:
            raise UnsupportedGrammar(
                f"Rule {rule!r} has a Substring(...) with arguments that this version of the"
                " plugin does not know; give it chunks of text only."
            )
        chunks = (_encode(rule, chunk) for chunk in re.findall(_STRING, macro[1], re.DOTALL))
        return Substring(tuple(chunk for chunk in chunks if chunk))
    return _read_choice(rule, text, start, end)


def _read_dispatch(rule: str, text: str, start: int, end: int) -> Dispatch:
    macro = _DISPATCH_MACRO.match(text, start, end)
    if macro is None:
        raise UnsupportedGrammar(
            f"Rule {rule!r} has a TagDispatch(...) with arguments that this version of the plugin"
            " does not know; use triggers, loop_after_dispatch and excludes only."
        )
    triggers = tuple(
        (_encode(rule, trigger), target) for trigger, target in _TRIGGER.findall(macro["triggers"])
    )
    excludes = tuple(_encode(rule, word) for word in re.findall(_STRING, macro["excludes"]))
    return Dispatch(triggers, macro["loops"] == "true", excludes)


def _read_token_dispatch(rule: str, text: str, start: int, end: int) -> tuple[Sequence, ...]:
    """Free tokens in which a trigger hands over to a rule, as the choice that it is."""
    macro = _TOKEN_DISPATCH_MACRO.match(text, start, end)
    if macro is None:
        raise UnsupportedGrammar(
            f"Rule {rule!r} has a TokenTagDispatch(...) with arguments that this version of the"
            " plugin does not know; use triggers, loop_after_dispatch and excludes only."
        )
    triggers = [(int(token), target) for token, target in _TOKEN_TRIGGER.findall(macro["triggers"])]
    not_free = {token for token, _ in triggers} | set(_read_ids(macro["excludes"]))
    loop = (RuleRef(rule),) if macro["loops"] == "true" else ()
    return (
        (),
        (TokenSet(tuple(sorted(not_free)), excluded=True), RuleRef(rule)),
        *(
            (TokenSet((token,), excluded=False), RuleRef(target), *loop)
            for token, target in triggers
        ),
    )


def _read_ids(numbers: str) -> tuple[int, ...]:
    return tuple(sorted({int(number) for number in re.findall(r"\d+", numbers)}))


def _read_choice(rule: str, text: str, start: int, end: int) -> tuple[Sequence, ...]:
    """`((a b) | (c))`: the outer pair of parentheses, then alternatives split by bars."""
    alternatives: list[Sequence] = []
    sequence: list[Element] = []
    depth = 0
    position = start
    kind = None
    while position < end:
        token = _TOKEN.match(text, position, end)
        before, kind = kind, token and token.lastgroup
        if (
            kind is None
            or (kind == "open" and depth == 2)
            or (kind in ("star", "repeat") and before not in ("string", "class", "name", "tokens"))
        ):
            raise UnsupportedGrammar(
                f"Rule {rule!r} is not in xgrammar's normal form at"
                f" {text[position : position + 40]!r}; this version of the plugin can't read it."
            )
        position = token.end()
        match kind:
            case "space" | "empty":
                pass
            case "string":
                sequence.append(Text(_encode(rule, token.group())))
            case "class":
                sequence.append(_read_class(token.group()))
            case "name":
                sequence.append(RuleRef(token.group()))
            case "star":
                sequence[-1] = Repeat(sequence[-1], 0, None)
            case "repeat":
                low, high = (int(bound) for bound in token.group()[1:-1].split(","))
                sequence[-1] = Repeat(sequence[-1], low, None if high < 0 else high)
            case "open":
                depth += 1
            case "close":
                depth -= 1
                if depth == 0:
                    alternatives.append(tuple(sequence))
            case "choice":
                alternatives.append(tuple(sequence))
                sequence = []
            case "tokens":
                excluded = token.group().startswith("Exclude")
                sequence.append(TokenSet(_read_ids(token.group()), excluded))
            case "macro":
                raise UnsupportedGrammar(
                    f"Rule {rule!r} uses {token.group()[:-1]}(...), which this version of the"
                    " plugin does not know; write it in other words."
                )
    return tuple(alternatives)


@lru_cache(maxsize=4096)
def _read_class(source: str) -> CharClass:
    body = source[1:-1]
    negated = body.startswith("^")
    items = _CLASS_ITEM.findall(body[1:] if negated else body)
    ranges = normalise_ranges(
        [(ord(_unescape(low)), ord(_unescape(high or low))) for low, high in items]
    )
    return CharClass(complement(ranges) if negated else ranges)


def _encode(rule: str, string: str) -> bytes:
    """A string as printed, with its quotes, as UTF-8."""
    try:
        return _unescape(string[1:-1]).encode()
    except UnicodeEncodeError:
        raise UnsupportedGrammar(
            f"Rule {rule!r} holds {string}, half of a surrogate pair, which no text can hold;"
            " write the character itself."
        ) from None


def _unescape(source: str) -> str:
    return _ESCAPE.sub(_escaped_character, source) if "\\" in source else source


def _escaped_character(escape: re.Match[str]) -> str:
    two, four, eight, character = escape.groups()
    if character is None:
        return chr(int(two or four or eight, 16))
    if character.isalnum() and character not in _NAMED_ESCAPES:
        raise UnsupportedGrammar(
            f"The grammar holds the escape '\\{character}', which this version of the plugin does"
            " not know; write the character itself."
        )
    return _NAMED_ESCAPES.get(character, character)
