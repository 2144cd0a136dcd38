"""Lark's syntax: from the text to definitions and directives, each with its place.

The language is that of Lark 1.3's own `lark.lark` (https://lark-parser.readthedocs.io, "Grammar
Reference"). What llguidance adds to it is recognised and left to xgrammar: see `Extension`.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from lave_plugin.grammar.lark.source import Source


class Extension(Exception):
    """The text uses what only llguidance's dialect of Lark has."""


class Literal(NamedTuple):
    text: str
    ignores_case: bool
    at: int


class Regexp(NamedTuple):
    pattern: str
    flags: str
    at: int


class CharRange(NamedTuple):
    low: str
    high: str
    at: int


class Name(NamedTuple):
    """A rule, a terminal, or a parameter of a template."""

    name: str
    at: int


class Call(NamedTuple):
    """A template with its arguments."""

    name: str
    arguments: tuple["Expression", ...]
    at: int


class Sequence(NamedTuple):
    items: tuple["Expression", ...]


class Choice(NamedTuple):
    items: tuple["Expression", ...]


class Repeat(NamedTuple):
    item: "Expression"
    low: int
    high: int | None


Expression = Literal | Regexp | CharRange | Name | Call | Sequence | Choice | Repeat


class Definition(NamedTuple):
    name: str
    parameters: tuple[str, ...]
    body: Expression
    at: int
    priority: int = 0


class Import(NamedTuple):
    library: str
    name: str
    alias: str
    at: int


@dataclass
class Grammar:
    """What a text says, in its order."""

    source: Source
    definitions: list[Definition] = field(default_factory=list)
    extensions: list[Definition] = field(default_factory=list)
    overrides: list[Definition] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    ignored: list[tuple[Expression, int]] = field(default_factory=list)
    start: Name | None = None
    strict_keywords: bool = False
    allow_initial_skip: bool = False


def is_terminal(name: str) -> bool:
    return name.lstrip("_")[:1].isupper()


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


_TOKEN = re.compile(
    r"""
      (?P<space>(?:[ \t\f]|\\[ \t]*\r?\n)+)
    | (?P<comment>(?://|\#)[^\n]*)
    | (?P<newline>\r?\n)
    | (?P<string>"(?:\\.|[^"\\\n])*+"i?)
    | (?P<regexp>/(?!/)(?:\\[\s\S]|[^/\\])*+/[a-z]*)
    | (?P<name>_?[A-Za-z][A-Za-z0-9_]*|_+[0-9A-Za-z_]*)
    | (?P<number>[+-]?\d+)
    | (?P<directive>%[a-z_]+)
    | (?P<op>->|\.\.|[:|()\[\]{},~.*+?!])
    """,
    re.VERBOSE,
)
_EXTENDED = re.compile(r"<|@|&|%(?:json|regex|lark|grammar)\b")
_FLAGS = "imslux"
_MOST_COPIES = 1 << 16
_MOST_DEPTH = 64


def parse(text: str) -> Grammar:
    """Parse a Lark text.

    Raises:
        LarkError: With line and column, if it isn't one.
        Extension: If it is llguidance's dialect.
    """
    return _Parser(Source(text)).parse()


def _tokens(source: Source) -> list[_Token]:
    tokens: list[_Token] = []
    position, text = 0, source.text
    depth = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if _EXTENDED.match(text, position):
            raise Extension
        if match is None:
            what = text[position]
            unclosed = {'"': "this string has no end on its line", "/": "this regexp has no end"}
            raise source.error(position, unclosed.get(what, f"{what!r} has no meaning here") + ".")
        kind = match.lastgroup
        if kind == "op" and match.group() in "([{":
            depth += 1
        elif kind == "op" and match.group() in ")]}":
            depth = max(depth - 1, 0)
        if kind == "directive":
            depth = 0
        if kind not in ("space", "comment") and not (kind == "newline" and depth):
            tokens.append(_Token(kind, match.group(), position))
        position = match.end()
    tokens.append(_Token("newline", "", len(text)))
    tokens.append(_Token("end", "the end of the text", len(text)))
    return tokens


class _Parser:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._tokens = _tokens(source)
        self._index = 0
        self._grammar = Grammar(source)
        self._depth = 0

    def parse(self) -> Grammar:
        while True:
            while self._token.kind == "newline":
                self._index += 1
            if self._token.kind == "end":
                return self._grammar
            if self._token.kind == "directive":
                self._directive(self._take())
            else:
                self._grammar.definitions.append(self._definition())

    # --- tokens -----------------------------------------------------------------------------

    @property
    def _token(self) -> _Token:
        return self._tokens[self._index]

    def _take(self) -> _Token:
        self._index += 1
        return self._tokens[self._index - 1]

    def _at_op(self, text: str) -> bool:
        return self._token.kind == "op" and self._token.text == text

    def _skip_op(self, text: str) -> bool:
        if self._at_op(text):
            self._index += 1
            return True
        return False

    def _expect(self, kind: str, what: str) -> _Token:
        if self._token.kind != kind:
            raise self._unexpected(what)
        return self._take()

    def _expect_op(self, text: str, what: str = "") -> None:
        if not self._skip_op(text):
            raise self._unexpected(what or f"{text!r}")

    def _unexpected(self, what: str) -> Exception:
        token = self._token
        found = "the end of the line" if token.kind == "newline" else repr(token.text)
        return self._source.error(token.at, f"expected {what}, found {found}.")

    def _end_of_statement(self) -> None:
        self._expect("newline", "the end of the line")

    # --- statements -------------------------------------------------------------------------

    def _definition(self) -> Definition:
        while self._skip_op("?") or self._skip_op("!"):
            pass
        name = self._expect("name", "a rule or a terminal")
        self._check_case(name)
        if self._at_op("["):
            raise Extension  # attributes such as [max_tokens=5]
        parameters: list[str] = []
        if self._at_op("{"):
            if is_terminal(name.text):
                raise self._source.error(
                    self._token.at, f"{name.text} is a terminal; only rules can be templates."
                )
            self._take()
            parameters.append(self._expect("name", "a parameter").text)
            while self._skip_op(","):
                parameters.append(self._expect("name", "a parameter").text)
            self._expect_op("}")
        priority = 0
        if self._skip_op("."):
            priority = int(self._expect("number", "a priority").text)
        self._expect_op(":", f"':' behind {name.text}")
        body = self._expansions()
        self._end_of_statement()
        return Definition(name.text, tuple(parameters), body, name.at, priority)

    def _check_case(self, name: _Token) -> None:
        letters = name.text.lstrip("_")
        if not letters or not (letters.islower() or letters.isupper()):
            raise self._source.error(
                name.at,
                f"{name.text} is neither a rule (lower case) nor a terminal (upper case).",
            )

    def _directive(self, directive: _Token) -> None:
        grammar = self._grammar
        match directive.text:
            case "%ignore":
                if self._token.kind == "newline":
                    raise self._unexpected("what to ignore")
                grammar.ignored.append((self._expansions(), directive.at))
            case "%import":
                self._import(directive)
            case "%extend":
                grammar.extensions.append(self._definition())
                return
            case "%override":
                grammar.overrides.append(self._definition())
                return
            case "%llguidance" | "%grammar_options":
                self._options(directive)
                return
            case "%lave":
                self._own_option()
            case "%declare":
                raise self._source.error(
                    directive.at,
                    "%declare names terminals that a lexer of yours produces (such as _INDENT), "
                    "which has no text of its own; define the terminal.",
                )
            case _:
                raise self._source.error(
                    directive.at, f"{directive.text} is no directive that Lark has."
                )
        self._end_of_statement()

    def _import(self, directive: _Token) -> None:
        if self._at_op(".") or self._at_op(".."):
            raise self._source.error(
                self._token.at, "a request has no files to import from; put the rules in here."
            )
        path = [self._expect("name", "a library").text]
        while self._skip_op("."):
            path.append(self._expect("name", "a name").text)
        if self._skip_op("("):
            names = [self._expect("name", "a name")]
            while self._skip_op(","):
                names.append(self._expect("name", "a name"))
            self._expect_op(")")
            library = ".".join(path)
            self._grammar.imports += [
                Import(library, name.text, name.text, name.at) for name in names
            ]
            return
        if len(path) < 2:
            raise self._unexpected("'.' and what to import")
        alias = path[-1]
        if self._skip_op("->"):
            alias = self._expect("name", "the name here").text
        self._grammar.imports.append(Import(".".join(path[:-1]), path[-1], alias, directive.at))

    def _options(self, directive: _Token) -> None:
        """A line of JSON, as llguidance has it."""
        text = self._source.text
        end = text.find("\n", directive.at)
        end = len(text) if end < 0 else end
        options = re.sub(r"\s", "", text[directive.at + len(directive.text) : end])
        if options not in ("", "{}", '{"allow_initial_skip":true}', '{"allow_initial_skip":false}'):
            raise Extension
        self._grammar.allow_initial_skip |= options.endswith("true}")
        while self._token.at < end:
            self._index += 1

    def _own_option(self) -> None:
        option = self._expect("name", "strict_keywords or start")
        match option.text:
            case "strict_keywords":
                self._grammar.strict_keywords = True
            case "start":
                self._grammar.start = Name(*self._expect("name", "the start rule")[1:])
            case _:
                raise self._source.error(
                    option.at,
                    f"%lave has the options strict_keywords and start NAME, not {option.text}.",
                )

    # --- expressions ------------------------------------------------------------------------

    def _expansions(self) -> Expression:
        alternatives = [self._alias()]
        while self._next_alternative():
            alternatives.append(self._alias())
        return alternatives[0] if len(alternatives) == 1 else Choice(tuple(alternatives))

    def _next_alternative(self) -> bool:
        """Also at the beginning of a later line."""
        index = self._index
        while self._token.kind == "newline" and self._token.text:
            self._index += 1
        if self._skip_op("|"):
            return True
        self._index = index
        return False

    def _alias(self) -> Expression:
        items = []
        while self._token.kind in ("string", "regexp", "name") or (
            self._token.kind == "op" and self._token.text in "(["
        ):
            items.append(self._repeated())
        if self._skip_op("->"):
            self._expect("name", "the name of the alternative")
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _repeated(self) -> Expression:
        item = self._atom()
        while True:
            at = self._token.at
            if self._skip_op("?"):
                item = Repeat(item, 0, 1)
            elif self._skip_op("*"):
                item = Repeat(item, 0, None)
            elif self._skip_op("+"):
                item = Repeat(item, 1, None)
            elif self._skip_op("~"):
                low = high = int(self._expect("number", "a number").text)
                if self._skip_op(".."):
                    high = int(self._expect("number", "a number").text)
                if not 0 <= low <= high:
                    raise self._source.error(
                        at, f"{low}..{high} times can't be: count from fewer to more."
                    )
                if high > _MOST_COPIES:
                    raise self._source.error(
                        at, f"{high} times is more than the limit of {_MOST_COPIES}."
                    )
                item = Repeat(item, low, high)
            else:
                return item

    def _atom(self) -> Expression:
        token = self._take()
        if token.kind == "op":
            self._depth += 1
            if self._depth > _MOST_DEPTH:
                raise self._source.error(
                    token.at, f"brackets are nested deeper than {_MOST_DEPTH}; make rules of them."
                )
            inner = self._expansions()
            self._expect_op(")" if token.text == "(" else "]")
            self._depth -= 1
            return inner if token.text == "(" else Repeat(inner, 0, 1)
        if token.kind == "regexp":
            pattern, _, flags = token.text[1:].rpartition("/")
            for flag in flags:
                if flag not in _FLAGS:
                    raise self._source.error(
                        token.at + token.text.rindex(flag), f"a regexp has no flag {flag!r}."
                    )
            return Regexp(pattern, flags, token.at)
        if token.kind == "string":
            return self._string(token)
        if self._at_op("{"):
            self._take()
            arguments = [self._repeated()]
            while self._skip_op(","):
                arguments.append(self._repeated())
            self._expect_op("}")
            return Call(token.text, tuple(arguments), token.at)
        return Name(token.text, token.at)

    def _string(self, token: _Token) -> Literal | CharRange:
        low = self._unescape(token)
        if not self._at_op(".."):
            return Literal(low, token.text.endswith("i"), token.at)
        self._take()
        end = self._expect("string", "the last character of the range")
        high = self._unescape(end)
        for bound, at in ((low, token.at), (high, end.at)):
            if len(bound) != 1:
                raise self._source.error(at, "a range has one character at each of its ends.")
        if low > high:
            raise self._source.error(token.at, "this range runs backwards.")
        return CharRange(low, high, token.at)

    def _unescape(self, token: _Token) -> str:
        """As Lark does: an escape that it doesn't know is the backslash and the character."""
        body = token.text.removesuffix("i")[1:-1]

        def character(escape: re.Match[str]) -> str:
            code, other = escape[1] or escape[2] or escape[3], escape[4]
            if code is not None:
                try:
                    character = chr(int(code, 16))
                except ValueError:
                    character = "\ud800"
                if not character.isascii() and "\ud800" <= character <= "\udfff":
                    raise self._source.error(
                        token.at + 1 + escape.start(), "this escape names no character."
                    )
                return character
            if other in "Uux":
                raise self._source.error(
                    token.at + 1 + escape.start(), f"\\{other} lacks its hexadecimal digits."
                )
            return {"n": "\n", "f": "\f", "t": "\t", "r": "\r", "\\": "\\", '"': '"'}.get(
                other, "\\" + other
            )

        return _ESCAPE.sub(character, body)


_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
