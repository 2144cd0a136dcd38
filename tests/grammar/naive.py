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


def accepts(
    grammar: str,
    token_bytes: list[bytes],
    tokens: tuple[int, ...],
    characters: list[int] | None = None,
) -> bool:
    """Whether `tokens` are a sentence; the classes of the grammar are ASCII, without macros.

    A budget counts the tokens, or the characters, that begin inside the rule. `characters` has
    those of each token, if they are not those of its bytes.
    """
    rules = read_rules(grammar)
    data = [token_bytes[token] for token in tokens]

    def begun(text: bytes) -> int:
        return sum(byte & 0xC0 != 0x80 for byte in text)

    lengths = [
        begun(data[at]) if characters is None else characters[token]
        for at, token in enumerate(tokens)
    ]

    def characters_before(place: tuple[int, int]) -> int:
        token, offset = place
        return sum(lengths[:token]) + (begun(data[token][:offset]) if offset else 0)

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
        ends = set().union(*(sequence(each, place) for each in body.body))
        if body.limits.max_tokens is not None:
            last_token = place[0] + body.limits.max_tokens - (place[1] == 0)
            ends = {end for end in ends if end <= (last_token + 1, 0)}
        if body.limits.max_chars is not None:
            most = characters_before(place) + body.limits.max_chars
            ends = {end for end in ends if characters_before(end) <= most}
        return ends

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
