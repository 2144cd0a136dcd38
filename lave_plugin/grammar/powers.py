"""Repetition, put back together.

xgrammar prints `x{3,500}` as a hundred small rules: a chain of nested options for the first part,
`x_repeat{0,372}` followed by 128 times `x` for the rest. Read literally, that is ambiguous (after
200 characters, 72 counts are possible at once) and each character costs a hundred Earley items.
Here every rule that is a power of one element, x{low,high}, is recognised as such, so that it
becomes one chain.
"""

from collections.abc import Iterator

from lave_plugin.grammar.notation import (
    Body,
    Dispatch,
    Element,
    Limited,
    Macro,
    Repeat,
    RuleRef,
    Sequence,
)

# A power is substituted for every reference to its rule if it is one of these: an alias, an
# option, a star, a plus. Others are substituted where the reference is itself part of a power.
_SMALL = {(1, 1), (0, 1), (0, None), (1, None)}


def fold_powers(rules: dict[str, Body]) -> dict[str, Body]:
    """The same grammar with powers recognised, aliases resolved and neighbours merged."""
    powers: dict[str, Repeat] = {}
    folded: dict[str, Body] = {}
    first_with: dict[Body, str] = {}
    for name in _callees_first(rules):
        body = rules[name]
        if not isinstance(body, Macro | Limited):
            power = _power_of_body(name, body, powers)
            if power is not None:
                powers[name] = power
                folded[name] = (_as_sequence(power),)
                continue
        folded[name] = body = _substitute(body, powers)
        # Schemas repeat themselves: a rule that says the same as an earlier one is its alias.
        first = first_with.setdefault(body, name)
        if first != name:
            powers[name] = Repeat(RuleRef(first), 1, 1)
    return {name: _substitute(folded[name], powers) for name in rules}


def references(body: Body) -> Iterator[str]:
    """Names of the rules that a body refers to, with repetition, in order."""
    if isinstance(body, Limited):
        body = body.body
    if isinstance(body, Dispatch):
        for _, name in body.triggers:
            yield name
    elif not isinstance(body, Macro):
        for sequence in body:
            for element in sequence:
                inner = element.element if isinstance(element, Repeat) else element
                if isinstance(inner, RuleRef):
                    yield inner.name


def _callees_first(rules: dict[str, Body]) -> list[str]:
    """Depth-first post-order over the references, without recursion."""
    order: list[str] = []
    visited: set[str] = set()
    for root in rules:
        if root in visited:
            continue
        visited.add(root)
        path = [(root, references(rules[root]))]
        while path:
            name, rest = path[-1]
            for callee in rest:
                if callee in rules and callee not in visited:
                    visited.add(callee)
                    path.append((callee, references(rules[callee])))
                    break
            else:
                path.pop()
                order.append(name)
    return order


def _power_of_body(name: str, body: tuple[Sequence, ...], powers: dict[str, Repeat]):
    """The body as a power of one element, or None."""
    itself = RuleRef(name)
    loops = [sequence for sequence in body if sequence and sequence[-1] == itself]
    rest = [sequence for sequence in body if not sequence or sequence[-1] != itself]
    counts = [_power_of_sequence(sequence, powers) for sequence in rest]
    if not counts or None in counts or any(RuleRef(name) == count.element for count in counts):
        return None
    result = _union(counts)
    if not loops or result is None:
        return result
    # name ::= x name | x{low,high} is x{low,}, provided that the loop adds one x at a time.
    steps = {_power_of_sequence(sequence[:-1], powers) for sequence in loops}
    if len(steps) != 1:
        return None
    step = steps.pop()
    if step is None or (step.low, step.high) != (1, 1):
        return None
    if result.high == 0:
        return Repeat(step.element, 0, None)
    return Repeat(step.element, result.low, None) if step.element == result.element else None


def _power_of_sequence(sequence: Sequence, powers: dict[str, Repeat]) -> Repeat | None:
    """x x{0,3} x as x{2,5}; the empty sequence is the zeroth power of nothing in particular."""
    if not sequence:
        return Repeat(RuleRef(""), 0, 0)
    merged = _merge_neighbours(sequence, powers, small_only=False)
    if len(merged) != 1:
        return None
    return merged[0] if isinstance(merged[0], Repeat) else Repeat(merged[0], 1, 1)


def _union(counts: list[Repeat]) -> Repeat | None:
    """x{0,0} | x{1,127} | x{128,500} as x{0,500}, where no count is missing in between."""
    elements = {count.element for count in counts if count.high != 0}
    if len(elements) > 1:
        return None
    counts = sorted(counts, key=lambda count: count.low)
    element = elements.pop() if elements else counts[0].element
    low, high = counts[0].low, counts[0].high
    for count in counts[1:]:
        if high is None:
            break
        if count.low > high + 1:
            return None
        high = None if count.high is None else max(high, count.high)
    return Repeat(element, low, high)


def _substitute(body: Body, powers: dict[str, Repeat]) -> Body:
    if isinstance(body, Limited):
        return body._replace(body=_substitute(body.body, powers))
    if isinstance(body, Macro):
        return body
    return tuple(_merge_neighbours(sequence, powers, small_only=True) for sequence in body)


def _merge_neighbours(
    sequence: Sequence, powers: dict[str, Repeat], *, small_only: bool
) -> Sequence:
    """Replace references to powers and merge x{a,b} x{c,d} into x{a+c,b+d}."""
    merged: list[Element] = []
    before = None  # what the last of `merged` repeats
    for element in sequence:
        power = _resolve(element, powers, small_only=small_only)
        inner = power.element if isinstance(power, Repeat) else power
        if before == inner:
            merged[-1] = _product(_as_power(merged[-1]), _as_power(power))
        elif power is inner or power.high != 0:
            merged.append(power)
            before = inner
    return tuple(merged)


def _product(first: Repeat, second: Repeat) -> Repeat:
    bounded = first.high is not None and second.high is not None
    high = first.high + second.high if bounded else None
    return Repeat(first.element, first.low + second.low, high)


def _resolve(element: Element, powers: dict[str, Repeat], *, small_only: bool) -> Element:
    """Follow a reference, or the reference inside a repetition, to the power behind it."""
    if isinstance(element, RuleRef):
        power = powers.get(element.name)
        if power is None or (small_only and (power.low, power.high) not in _SMALL):
            return element
        return power.element if (power.low, power.high) == (1, 1) else power
    if isinstance(element, Repeat) and isinstance(element.element, RuleRef):
        power = powers.get(element.element.name)
        if power is not None and (power.low, power.high) == (1, 1):
            return Repeat(power.element, element.low, element.high)
    return element


def _as_power(element: Element) -> Repeat:
    return element if isinstance(element, Repeat) else Repeat(element, 1, 1)


def _as_sequence(power: Repeat) -> Sequence:
    return () if power.high == 0 else (power,)
