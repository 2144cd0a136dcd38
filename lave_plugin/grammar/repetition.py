"""Long repetition with few nodes.

x{0,1000000} as a chain has a million nodes. In blocks of 64, `whole ::= x{64}` and
`part ::= x{0,63}`, it is `whole{0,15624} part | whole{15625}`, and the same again for the blocks,
so that the nodes grow with the logarithm of the bound. A character then has one continuation with
an item for each level, and the states of the parser are those of the chain.
"""

from lave_plugin.grammar.notation import (
    Body,
    CharClass,
    Element,
    Limited,
    Macro,
    Repeat,
    RuleRef,
    Sequence,
)

# Up to this many copies are a plain chain.
_BLOCK = 64

# A class beyond ASCII takes several nodes. Where it is repeated more often than this, it becomes a
# rule of its own, so that each repetition takes one.
_MAX_COPIES_OF_CLASS = 8


def split_long_repetition(rules: dict[str, Body]) -> dict[str, Body]:
    """The same grammar, in which no repetition has a bound above `_BLOCK`."""
    return _Splitter().split(rules)


class _Splitter:
    def __init__(self) -> None:
        self._added: dict[str, Body] = {}

    def split(self, rules: dict[str, Body]) -> dict[str, Body]:
        result = {name: self._split(body) for name, body in rules.items()}
        return result | self._added

    def _split(self, body: Body) -> Body:
        if isinstance(body, Limited):
            return body._replace(body=self._split(body.body))
        if isinstance(body, Macro):
            return body
        return tuple(tuple(self._short(element) for element in sequence) for sequence in body)

    def _short(self, element: Element) -> Element:
        if not isinstance(element, Repeat):
            return element
        element = self._with_class_as_rule(element)
        if _bound(element) <= _BLOCK:
            return element
        return self._rule(f"{element}", lambda: self._in_blocks(element))

    def _with_class_as_rule(self, repeat: Repeat) -> Repeat:
        inner = repeat.element
        if not isinstance(inner, CharClass) or _bound(repeat) <= _MAX_COPIES_OF_CLASS:
            return repeat
        if not inner.ranges or inner.ranges[-1][1] <= 0x7F:
            return repeat
        return repeat._replace(element=self._rule(f"{inner}", lambda: ((inner,),)))

    def _in_blocks(self, repeat: Repeat) -> tuple[Sequence, ...]:
        """x{low,high} as x{low} x{0,high-low}, each in blocks."""
        inner, low, high = repeat
        whole = self._rule(f"{inner}{{{_BLOCK}}}", lambda: ((Repeat(inner, _BLOCK, _BLOCK),),))
        blocks, rest = divmod(low, _BLOCK)
        prefix = self._copies(whole, blocks, blocks) + self._copies(inner, rest, rest)
        if high is None:
            return ((*prefix, Repeat(inner, 0, None)),)
        blocks, rest = divmod(high - low, _BLOCK)
        if blocks == 0:
            return (prefix + self._copies(inner, 0, rest),)
        part = self._rule(f"{inner}{{<{_BLOCK}}}", lambda: ((Repeat(inner, 0, _BLOCK - 1),),))
        return (
            (*prefix, *self._copies(whole, 0, blocks - 1), part),
            prefix + self._copies(whole, blocks, blocks) + self._copies(inner, 0, rest),
        )

    def _copies(self, element: Element, low: int, high: int) -> Sequence:
        return (self._short(Repeat(element, low, high)),) if high else ()

    def _rule(self, name: str, body) -> RuleRef:
        if name not in self._added:
            self._added[name] = ()  # reserve the place in the order
            self._added[name] = body()
        return RuleRef(name)


def _bound(repeat: Repeat) -> int:
    return repeat.low if repeat.high is None else repeat.high
