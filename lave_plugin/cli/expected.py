"""Where a text stands in a grammar, for people to read."""

from lave_plugin.grammar.automaton import DEAD, Automaton

_CONTROLS = {0x09: "a tab", 0x0A: "a new line", 0x0D: "a carriage return"}
_UNCLEAR = {0x20: "a blank", 0x2C: "a comma"}
_MOST_SHOWN = 12


def walk(automaton: Automaton, data: bytes) -> tuple[int, int]:
    """How many bytes are the beginning of a sentence, and the state behind them."""
    state = automaton.start
    for offset, byte in enumerate(data):
        following = automaton.step(state, byte)
        if following == DEAD:
            # Not in the middle of a character, of which only whole ones are shown.
            begin = len(data[:offset].decode(errors="ignore").encode())
            return begin, automaton.run(automaton.start, data[:begin])
        state = following
    return len(data), state


def place(data: bytes, offset: int) -> tuple[int, int, str]:
    """Line and column of an offset, both from 1 and in characters, and the line's text."""
    before = data[:offset].decode(errors="replace")
    text = data.decode(errors="replace")
    begin = before.rfind("\n") + 1
    line = text[begin:].partition("\n")[0]
    return before.count("\n") + 1, len(before) - begin + 1, line


def expected(automaton: Automaton, state: int) -> str:
    """What may stand behind a text, in words."""
    ways = []
    forced = automaton.forced_bytes(state).decode(errors="ignore")
    if forced:
        return repr(forced)
    allowed = automaton.allowed_bytes(state)
    ascii_bytes = [byte for byte in allowed if byte < 0x80]
    for low, high in _runs(ascii_bytes):
        ways += _range_in_words(low, high)
    if len(ways) > _MOST_SHOWN:
        ways = [*ways[:_MOST_SHOWN], "and others"]
    if len(ascii_bytes) < len(allowed):
        ways.append("a character beyond ASCII")
    if automaton.accepting(state):
        ways.append("the end of the text")
    return ", ".join(ways)


def _runs(values: list[int]) -> list[tuple[int, int]]:
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return [(low, high) for low, high in runs]


def _range_in_words(low: int, high: int) -> list[str]:
    if high - low < 3:
        return [_in_words(byte) for byte in range(low, high + 1)]
    if low < 0x20 or high == 0x7F:
        # Control characters are no good ends of a range to read.
        named = [name for code, name in _CONTROLS.items() if low <= code <= high]
        printable = _range_in_words(max(low, 0x20), min(high, 0x7E)) if high >= 0x20 else []
        return [*printable, *named]
    return [f"{chr(low)} to {chr(high)}" if low > 0x20 else f"a blank to {chr(high)}"]


def _in_words(byte: int) -> str:
    if byte in _CONTROLS:
        return _CONTROLS[byte]
    if byte in _UNCLEAR:
        return _UNCLEAR[byte]
    character = chr(byte)
    return character if 0x20 < byte < 0x7F else repr(character)
