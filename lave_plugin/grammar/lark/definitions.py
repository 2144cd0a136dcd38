"""From definitions to rules over terminals: imports, %extend, %override, templates, the start."""

from dataclasses import dataclass, field
from typing import NamedTuple

from lave_plugin.grammar.lark.libraries import LIBRARIES
from lave_plugin.grammar.lark.pattern import (
    Either,
    Joined,
    Look,
    Pattern,
    Times,
    of_range,
    of_regexp,
    of_text,
)
from lave_plugin.grammar.lark.syntax import (
    Call,
    CharRange,
    Choice,
    Definition,
    Expression,
    Grammar,
    Literal,
    Name,
    Regexp,
    Repeat,
    Sequence,
    is_terminal,
)

_MOST_INSTANCES = 256
_LARGEST_TERMINAL = 1 << 16


class Token(NamedTuple):
    """A use of a terminal."""

    terminal: str


class Ref(NamedTuple):
    rule: str


class Seq(NamedTuple):
    items: tuple["Node", ...]


class Alt(NamedTuple):
    items: tuple["Node", ...]


class Rep(NamedTuple):
    item: "Node"
    low: int
    high: int | None


Node = Token | Ref | Seq | Alt | Rep


class Terminal(NamedTuple):
    name: str
    pattern: Pattern
    at: int
    literal: str | None = None
    """Its text, where it has only one."""
    priority: int = 0


@dataclass
class Rules:
    """A grammar without anything that is only a way of writing."""

    start: str
    rules: dict[str, Node] = field(default_factory=dict)
    terminals: dict[str, Terminal] = field(default_factory=dict)
    """Those that rules use, and those that are ignored; names of anonymous ones hold a quote or
    a slash."""
    ignored: list[str] = field(default_factory=list)


def resolve(grammar: Grammar) -> Rules:
    """Resolve all names.

    Raises:
        LarkError: For what is not defined, defined twice, or can't be kept.
    """
    return _Resolver(grammar).resolve()


class _Resolver:
    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._source = grammar.source
        self._definitions: dict[str, Definition] = {}
        self._patterns: dict[str, Pattern] = {}
        self._sizes: dict[int, int] = {}
        self._imported: set[str] = set()
        self._instances: dict[tuple[str, tuple[Expression, ...]], str] = {}
        self._pending: list[tuple[str, Expression, dict[str, Expression]]] = []
        self._out = Rules("")

    def resolve(self) -> Rules:
        self._import()
        self._define()
        start = self._start()
        self._out.start = start.name
        self._pending.append((start.name, start.body, {}))
        self._instances[start.name, ()] = start.name
        while self._pending:
            name, body, arguments = self._pending.pop()
            self._out.rules[name] = self._node(body, arguments)
        for body, at in self._grammar.ignored:
            self._out.ignored.append(self._ignored(body, at))
        # What no rule uses has to be sound as well.
        for definition in self._definitions.values():
            if is_terminal(definition.name):
                self._pattern_of(definition.name, definition.at)
            else:
                self._check_names(definition.body, set(definition.parameters))
        return self._out

    # --- definitions ------------------------------------------------------------------------

    def _import(self) -> None:
        for library, name, alias, at in self._grammar.imports:
            if library not in LIBRARIES:
                raise self._source.error(
                    at, f"there is no library {library}; there are {', '.join(LIBRARIES)}."
                )
            if name not in LIBRARIES[library]:
                known = ", ".join(LIBRARIES[library])
                raise self._source.error(
                    at, f"{library}.{name} can't be imported; {library} has {known}."
                )
            if not is_terminal(alias):
                raise self._source.error(
                    at, f"{name} is a terminal, and {alias} is the name of a rule."
                )
            self._patterns[alias] = of_regexp(LIBRARIES[library][name], "")
            self._imported.add(alias)

    def _define(self) -> None:
        grammar, known = self._grammar, self._definitions
        for definition in grammar.definitions:
            if definition.name in known or definition.name in self._imported:
                raise self._source.error(definition.at, f"{definition.name} is defined twice.")
            known[definition.name] = definition
        for definition in grammar.overrides:
            self._check_known(definition, "%override")
            self._imported.discard(definition.name)
            self._patterns.pop(definition.name, None)
            known[definition.name] = definition
        for definition in grammar.extensions:
            self._check_known(definition, "%extend")
            if definition.name in self._imported:
                more = self._pattern(definition.body)
                self._patterns[definition.name] = Either((self._patterns[definition.name], more))
                continue
            before = known[definition.name]
            if before.parameters != definition.parameters:
                raise self._source.error(
                    definition.at, f"{definition.name} has other parameters where it is defined."
                )
            known[definition.name] = before._replace(body=Choice((before.body, definition.body)))

    def _check_known(self, definition: Definition, directive: str) -> None:
        if definition.name not in self._definitions and definition.name not in self._imported:
            raise self._source.error(
                definition.at, f"{directive} needs a definition of {definition.name}."
            )

    def _start(self) -> Definition:
        rules = {
            name: definition
            for name, definition in self._definitions.items()
            if not is_terminal(name) and not definition.parameters
        }
        if self._grammar.start is not None:
            name, at = self._grammar.start
            if name not in rules:
                raise self._source.error(at, f"there is no rule {name} to start with.")
            return rules[name]
        if "start" in rules:
            return rules["start"]
        if not rules:
            raise self._source.error(0, "there is no rule; a grammar begins with the rule start.")
        used = {
            name
            for definition in self._definitions.values()
            for name in _names(definition.body)
            if name != definition.name
        }
        unused = [name for name in rules if name not in used]
        if len(unused) != 1:
            what = " or ".join(unused or rules)
            raise self._source.error(
                next(iter(rules.values())).at,
                f"no rule is named start; say where to start: %lave start {what}.",
            )
        return rules[unused[0]]

    # --- rules ------------------------------------------------------------------------------

    def _node(self, body: Expression, arguments: dict[str, Expression]) -> Node:
        match body:
            case Sequence(items):
                return Seq(tuple(self._node(item, arguments) for item in items))
            case Choice(items):
                return Alt(tuple(self._node(item, arguments) for item in items))
            case Repeat(item, low, high):
                return Rep(self._node(item, arguments), low, high)
            case Name(name):
                if name in arguments:
                    return self._node(arguments[name], {})
                return self._use(body)
            case Call(name, given):
                return self._instance(
                    name, tuple(_substituted(each, arguments) for each in given), body.at
                )
        return self._anonymous(body)

    def _use(self, use: Name) -> Node:
        name, at = use
        if is_terminal(name):
            self._token(name, at)
            return Token(name)
        return self._instance(name, (), at)

    def _instance(self, name: str, arguments: tuple[Expression, ...], at: int) -> Ref:
        definition = self._definitions.get(name)
        if definition is None:
            raise self._source.error(at, f"{name} is not defined.")
        if len(arguments) != len(definition.parameters):
            raise self._source.error(
                at,
                f"{name} takes {len(definition.parameters)} arguments, and here it has "
                f"{len(arguments)}.",
            )
        key = (name, tuple(map(_without_place, arguments)))
        if key not in self._instances:
            if len(self._instances) > _MOST_INSTANCES and arguments:
                raise self._source.error(
                    at,
                    f"the template {name} goes on for ever, or is used in more than "
                    f"{_MOST_INSTANCES} ways.",
                )
            number = sum(known == name for known, _ in self._instances)
            self._instances[key] = f"{name}.{number}" if arguments else name
            self._pending.append(
                (
                    self._instances[key],
                    definition.body,
                    dict(zip(definition.parameters, arguments, strict=True)),
                )
            )
        return Ref(self._instances[key])

    def _check_names(self, body: Expression, parameters: set[str]) -> None:
        for name, at in _names(body).items():
            if name in parameters or name in self._definitions or name in self._imported:
                continue
            raise self._source.error(at, f"{name} is not defined.")

    # --- terminals --------------------------------------------------------------------------

    def _token(self, name: str, at: int) -> None:
        if name in self._out.terminals:
            return
        pattern = self._pattern_of(name, at)
        definition = self._definitions.get(name)
        literal, priority = None, 0
        if definition is not None:
            at, priority = definition.at, definition.priority
            if isinstance(definition.body, Literal):
                literal = definition.body.text
        self._out.terminals[name] = Terminal(name, pattern, at, literal, priority)

    def _anonymous(self, body: Literal | Regexp | CharRange) -> Node:
        match body:
            case Literal("", _, _):
                return Seq(())
            case Literal(text, ignores_case, at):
                name, literal = f'"{text}"{"i" * ignores_case}', text
            case Regexp(pattern, flags, at):
                name, literal = f"/{pattern}/{flags}", None
            case CharRange(low, high, at):
                name, literal = f'"{low}".."{high}"', None
        if name not in self._out.terminals:
            self._out.terminals[name] = Terminal(name, self._pattern(body), at, literal)
        return Token(name)

    def _ignored(self, body: Expression, at: int) -> str:
        if isinstance(body, Name) and is_terminal(body.name):
            self._token(*body)
            return body.name
        name = f"/{at}"
        self._out.terminals[name] = Terminal(name, self._pattern(body), at)
        return name

    def _pattern_of(self, name: str, at: int) -> Pattern:
        known = self._patterns.get(name)
        if known is not None:
            return known
        definition = self._definitions.get(name)
        if definition is None:
            raise self._source.error(at, f"{name} is not defined.")
        self._patterns[name] = _BEING_READ
        pattern = self._patterns[name] = self._pattern(definition.body)
        # Terminals of terminals of terminals grow by powers.
        size = self._sizes[id(pattern)] = _size(pattern, self._sizes)
        if size > _LARGEST_TERMINAL:
            raise self._source.error(
                definition.at,
                f"{name} has {size} characters when all its terminals are written out; the limit "
                f"is {_LARGEST_TERMINAL}. Make it a rule.",
            )
        return pattern

    def _pattern(self, body: Expression) -> Pattern:
        match body:
            case Literal(text, ignores_case):
                return of_text(text, ignores_case)
            case CharRange(low, high):
                return of_range(low, high)
            case Regexp(pattern, flags, at):
                with self._source.placed(at):
                    return of_regexp(pattern, flags)
            case Sequence(items):
                return Joined(tuple(map(self._pattern, items)))
            case Choice(items):
                return Either(tuple(map(self._pattern, items)))
            case Repeat(item, low, high):
                return Times(self._pattern(item), low, high)
            case Name(name, at):
                if not is_terminal(name):
                    raise self._source.error(
                        at, f"{name} is a rule, and a terminal is made of terminals only."
                    )
                pattern = self._pattern_of(name, at)
                if pattern is _BEING_READ:
                    raise self._source.error(
                        at, f"the terminal {name} is made of itself; make it a rule."
                    )
                return pattern
            case Call(name, _, at):
                raise self._source.error(
                    at, f"{name} is a rule, and a terminal is made of terminals only."
                )


_BEING_READ = Joined((Joined(()),))


def _size(pattern: Pattern, known: dict[int, int]) -> int:
    if id(pattern) in known:
        return known[id(pattern)]
    match pattern:
        case Joined(items) | Either(items):
            return sum(_size(item, known) for item in items) + 1
        case Times(item) | Look(item):
            return _size(item, known) + 1
    return 1


def _names(body: Expression) -> dict[str, int]:
    """Every name that is used, with a place."""
    found: dict[str, int] = {}
    pending = [body]
    while pending:
        part = pending.pop()
        match part:
            case Name(name, at):
                found[name] = at
            case Call(name, arguments, at):
                found[name] = at
                pending += arguments
            case Sequence(items) | Choice(items):
                pending += items
            case Repeat(item):
                pending.append(item)
    return found


def _substituted(body: Expression, arguments: dict[str, Expression]) -> Expression:
    match body:
        case Name(name) if name in arguments:
            return arguments[name]
        case Call(name, given, at):
            return Call(name, tuple(_substituted(each, arguments) for each in given), at)
        case Sequence(items):
            return Sequence(tuple(_substituted(item, arguments) for item in items))
        case Choice(items):
            return Choice(tuple(_substituted(item, arguments) for item in items))
        case Repeat(item, low, high):
            return Repeat(_substituted(item, arguments), low, high)
    return body


def _without_place(body: Expression) -> Expression:
    match body:
        case Sequence(items):
            return Sequence(tuple(map(_without_place, items)))
        case Choice(items):
            return Choice(tuple(map(_without_place, items)))
        case Repeat(item, low, high):
            return Repeat(_without_place(item), low, high)
        case Call(name, given, _):
            return Call(name, tuple(map(_without_place, given)), 0)
    return body._replace(at=0)
