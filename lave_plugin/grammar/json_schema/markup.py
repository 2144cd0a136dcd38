"""An object whose members stand between tags, as models of several families write tool calls.

A member that is a text stands there as it is, any other as JSON:

    <parameter=city>Oslo</parameter><parameter=days>[1, 2]</parameter>

The reader (a tool parser of the engine) cuts a text at the first closing tag, may trim it, and
takes `null` for no text. So a text that has to satisfy something holds no such tag, neither begins
nor ends with whitespace and is not `null`; one that may be anything is only kept from the tag.
Where the tags don't say what a member is, nothing can tell a text from another value.
"""

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from lave_plugin.grammar.dfa import Dfa, complement, is_empty
from lave_plugin.grammar.json_schema.branches import Branch, Object, Text, Values
from lave_plugin.grammar.json_schema.document import Conjunction
from lave_plugin.grammar.json_schema.emit import Emitter
from lave_plugin.grammar.json_schema.errors import UnsupportedSchema
from lave_plugin.grammar.json_schema.pattern import ALPHABET, UnreadablePattern, search
from lave_plugin.grammar.json_schema.strings import (
    char_class,
    length_of,
    literal,
    meet,
    rules_of,
)
from lave_plugin.grammar.utf8 import CodePointRange, normalise_ranges
from lave_plugin.grammar.utf8 import complement as complement_of


class Style(NamedTuple):
    """Tags as xgrammar 0.2.7 has them under this name."""

    name: str
    before_name: str
    behind_name: str
    open_text: str
    """What ends the opening tag of a text."""
    open_json: str
    """What ends the opening tag of anything else."""
    close: str
    padding: str = ""
    """What every reader takes away on both sides of a member, as EBNF."""

    @property
    def tells(self) -> bool:
        """Whether the tags say what a member is."""
        return self.open_text != self.open_json


STYLES = {
    style.name: style
    for style in (
        Style("qwen_xml", "<parameter=", "", ">", ">", "</parameter>", r'"\n"?'),
        Style("minimax_xml", '<parameter name="', '"', ">", ">", "</parameter>"),
        Style("glm_xml", "<arg_key>", "</arg_key>", "<arg_value>", "<arg_value>", "</arg_value>"),
        Style(
            "deepseek_xml",
            '<\uff5cDSML\uff5cparameter name="',
            '" string="',
            'true">',
            'false">',
            "</\uff5cDSML\uff5cparameter>",
        ),
    )
}
"""Those that are written here; all but `glm_xml` allow no whitespace inside the opening tag."""

_NAME = "^[a-zA-Z_][a-zA-Z0-9_]*$"
"""Of members that are not listed."""

_COUNTED = 8
"""Longer texts whose length counts hold no `<`."""

# What `str.strip` takes away, and JavaScript's `trim`.
_BLANKS = (
    *((0x09, 0x0D), (0x1C, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
    *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
)


def _all_but(ranges: Iterable[CodePointRange]) -> str:
    surrogates = (0xD800, 0xDFFF)
    return char_class(complement_of(normalise_ranges([*ranges, surrogates])))


_TAG = (ord("<"), ord("<"))
_INSIDE, _AT_AN_EDGE = _all_but([_TAG]), _all_but([_TAG, *_BLANKS])

_MARKS = re.compile(r"[<>\"\s]")


class MarkupEmitter(Emitter):
    """Writes the outermost object between tags, and everything inside it as JSON."""

    def __init__(self, reader, layout, style: Style) -> None:
        super().__init__(reader, layout)
        self._style = style
        self._raw_texts: dict[Text, str] = {}

    def _root(self, start: Conjunction) -> str:
        ways = []
        for branch in self._branches[start]:
            if isinstance(branch, Object) and self._is_possible(branch, self._possible, start):
                members, may_be_empty = self._members(
                    branch, start, self._named, self._other_named, ""
                )
                ways += [f"{members} ws"] * bool(members) + ["ws"] * may_be_empty
        if not ways:
            raise UnsupportedSchema(
                self._reader.document.path(start),
                "type",
                f"must be an object: {self._style.name} writes the members of one",
            )
        self._rules.append(f"outermost ::= {' | '.join(ways)}")
        return "outermost"

    def _named(self, name: str, inner: Conjunction) -> str:
        if _MARKS.search(name):
            raise UnsupportedSchema(
                self._reader.document.path(inner),
                "properties",
                f"has the name {name!r}, which can't stand in a tag of {self._style.name}",
            )
        return self._tagged(literal(self._style.before_name + name), inner)

    def _other_named(self, names: Text, inner: Conjunction, of: Conjunction) -> str:
        rule = self._new("k")
        dfa = self._language(Text((*names.terms, ("pattern", _NAME, True))), of)
        if is_empty(dfa):
            raise UnsupportedSchema(
                self._reader.document.path(of),
                "patternProperties or propertyNames",
                f"asks for names that can't stand in a tag of {self._style.name}",
            )
        if not self._style.tells and self._sorted(inner)[1]:
            raise UnsupportedSchema(
                self._reader.document.path(of),
                "additionalProperties or patternProperties",
                f"allows members that are no texts, for which a reader of {self._style.name} takes"
                " all that are not listed; list them under properties",
            )
        self._rules += rules_of(rule, dfa, quoted=False)
        return self._tagged(f"{literal(self._style.before_name)} {rule}", inner)

    def _tagged(self, begin: str, inner: Conjunction) -> str:
        style = self._style
        texts, others = self._sorted(inner)
        behind = literal(style.behind_name) + (" ws " if style.name == "glm_xml" else " ")
        close = literal(style.close)
        ways = [
            f"{literal(opening)} {rule} {close}"
            for opening, rule in ((style.open_text, texts), (style.open_json, others))
            if rule
        ]
        return f"ws {begin} {behind}({' | '.join(ways)})"

    def _sorted(self, inner: Conjunction) -> tuple[str | None, str | None]:
        """The rules of a member's texts, and of its other values."""
        if not inner:
            return self._raw(Text(()), inner), ("any" if self._style.tells else None)
        branches = [b for b in self._branches[inner] if self._is_possible(b, self._possible, inner)]
        strings: list[Branch] = []
        others: list[Branch] = []
        for branch in branches:
            if isinstance(branch, Values):
                parts = ([], [])
                for value in branch.values:
                    parts[not isinstance(value, str)].append(value)
                strings += [Values(tuple(parts[0]))] * bool(parts[0])
                others += [Values(tuple(parts[1]))] * bool(parts[1])
            else:
                (strings if isinstance(branch, Text) else others).append(branch)
        if Text(()) in strings:
            strings = [Text(())]
            if not self._style.tells:  # all of it can be read as a text
                others = []
        told = self._style.tells or all(branch == Values((None,)) for branch in others)
        if strings and others and not told:
            raise UnsupportedSchema(
                self._reader.document.path(inner),
                "type",
                f"allows a string with keywords beside other values, which {self._style.name} can't"
                " tell apart; allow one of them",
            )
        ways = [self._raw(branch, inner) for branch in strings]
        inside = [way for branch in others for way in self._branch(branch, inner)]
        return self._alternatives(ways), self._alternatives(
            [self._padded(inside)] if inside else []
        )

    def _padded(self, ways: list[str]) -> str:
        return f"{self._style.padding} ({' | '.join(ways)}) {self._style.padding}"

    def _alternatives(self, ways: list[str]) -> str | None:
        if not ways:
            return None
        rule = self._new("m")
        self._rules.append(f"{rule} ::= {' | '.join(ways)}")
        return rule

    def _raw(self, branch: Text | Values, of: Conjunction) -> str:
        """A text between tags."""
        close = self._style.close
        if isinstance(branch, Values):
            tidy = [value for value in branch.values if _is_tidy(value, close)]
            if len(tidy) < len(branch.values):
                wrong = next(value for value in branch.values if value not in tidy)
                raise UnsupportedSchema(
                    self._reader.document.path(of),
                    "enum or const",
                    f"has the text {json.dumps(wrong)}, which {self._style.name} can't hold",
                )
            return self._padded([literal(value) for value in tidy])
        if branch not in self._raw_texts:
            name = self._raw_texts[branch] = self._new("t")
            self._rules += self._rules_of_raw(name, branch, of)
        return self._raw_texts[branch]

    def _rules_of_raw(self, name: str, text: Text, of: Conjunction) -> Iterator[str]:
        close = self._style.close
        if not text.terms:
            yield from rules_of(name, _without(close), quoted=False)
            return
        low, high = length_of(text) or (0, None)
        ways = []
        if max(low, high or 0) > _COUNTED:
            # Counted beside the tag, each character would take a copy of the tag's states.
            bounds = f"{{{max(low, _COUNTED + 1) - 2},{'' if high is None else high - 2}}}"
            ways.append(f"{_AT_AN_EDGE} {_INSIDE}{bounds} {_AT_AN_EDGE}")
            text = Text((*text.terms, ("maxLength", _COUNTED, True)))
        try:
            dfa = meet(self._language(text, of), _tidy(close))
        except UnreadablePattern as error:
            raise UnsupportedSchema(self._reader.document.path(of), "a text", str(error)) from None
        if not is_empty(dfa):
            ways.append(f"{name}s")
            yield from rules_of(f"{name}s", dfa, quoted=False)
        if not ways:
            raise UnsupportedSchema(
                self._reader.document.path(of),
                "a text",
                f"between tags of {self._style.name} can't satisfy it",
            )
        yield f"{name} ::= {self._padded(ways)}"


def _is_tidy(value: str, close: str) -> bool:
    return value == value.strip() and close not in value and value.lower() != "null"


@lru_cache(maxsize=8)
def _without(close: str) -> Dfa:
    """The texts that don't hold the closing tag."""
    return complement(search(re.escape(close)), ALPHABET)


@lru_cache(maxsize=8)
def _tidy(close: str) -> Dfa:
    """The texts that come back from between tags as they went in."""
    dfa = _without(close)
    for untidy in (r"^\s", r"\s$", "^[nN][uU][lL][lL]$"):
        dfa = meet(dfa, complement(search(untidy, True), ALPHABET))
    return dfa
