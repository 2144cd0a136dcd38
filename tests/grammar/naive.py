"""The meaning of a printed grammar over tokens, as directly as it can be said.

Slow, and for whole sequences only: a place is (tokens read, bytes read of the next one), and an
element leads from a place to a set of places.
"""

from lave_plugin.grammar.nfa import TokenSet
from lave_plugin.grammar.notation import (
    CharClass,
    Limited,
    Repeat,
    RuleRef,
    Text,
    read_rules,
)


def accepts(grammar: str, token_bytes: list[bytes], tokens: tuple[int, ...]) -> bool:
    """Whether `tokens` are a sentence; the grammar is ASCII, without macros.

    A budget counts the tokens that begin inside the rule.
    """
    rules = read_rules(grammar)
    data = [token_bytes[token] for token in tokens]

    def settled(token: int, offset: int) -> tuple[int, int]:
        return (
            (token + 1, 0) if token < len(data) and offset == len(data[token]) else (token, offset)
        )

    def read_byte(place: tuple[int, int], allowed) -> set[tuple[int, int]]:
        token, offset = place
        if token == len(data) or not data[token] or not allowed(data[token][offset]):
            return set()
        return {settled(token, offset + 1)}

    # Rules may depend on themselves, so their ends are grown until nothing is added.
    ends_of: dict[tuple[str, tuple[int, int]], set[tuple[int, int]]] = {}

    def rule(name: str, place: tuple[int, int]) -> set[tuple[int, int]]:
        return ends_of.setdefault((name, place), set())

    def grow(name: str, place: tuple[int, int]) -> set[tuple[int, int]]:
        body = rules[name]
        if not isinstance(body, Limited):
            return set().union(*(sequence(each, place) for each in body))
        last_token = place[0] + body.limits.max_tokens - (place[1] == 0)
        ends = set().union(*(sequence(each, place) for each in body.body))
        return {end for end in ends if end <= (last_token + 1, 0)}

    def sequence(elements, place) -> set[tuple[int, int]]:
        places = {place}
        for each in elements:
            places = {end for start in places for end in element(each, start)}
        return places

    def element(each, place) -> set[tuple[int, int]]:
        match each:
            case Text(text):
                places = {place}
                for byte in text:
                    places = {end for start in places for end in read_byte(start, byte.__eq__)}
                return places
            case CharClass(ranges):
                return read_byte(place, lambda byte: any(a <= byte <= b for a, b in ranges))
            case TokenSet(ids, excluded):
                token, offset = place
                if token == len(data) or offset:
                    return set()
                fits = (tokens[token] in ids) != excluded and (bool(data[token]) or not excluded)
                return {(token + 1, 0)} if fits else set()
            case RuleRef(name):
                return rule(name, place)
            case Repeat(inner, low, high):
                places, ends = {place}, set()
                for count in range(len(tokens) * 4 + low + 1 if high is None else high + 1):
                    if count >= low:
                        ends |= places
                    places = {end for start in places for end in element(inner, start)}
                return ends
        raise TypeError(f"{each} is not plain")

    ends_of["root", (0, 0)] = set()
    size = -1
    while size != (size := len(ends_of) + sum(map(len, ends_of.values()))):
        for key in list(ends_of):
            ends_of[key] |= grow(*key)
    return (len(data), 0) in ends_of["root", (0, 0)]
