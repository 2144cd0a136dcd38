"""xgrammar's matcher as the oracle: verdicts on bytes, over a vocabulary of single bytes."""

import xgrammar

END_TOKEN = 256


def byte_compiler() -> xgrammar.GrammarCompiler:
    """A compiler for 256 tokens of one byte each and an end token."""
    vocabulary = [bytes([byte]) for byte in range(256)] + [b""]
    info = xgrammar.TokenizerInfo(vocabulary, vocab_size=257, stop_token_ids=[END_TOKEN])
    return xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)


class Oracle:
    """Walks xgrammar's matcher byte by byte."""

    def __init__(self, compiled: xgrammar.CompiledGrammar) -> None:
        self._compiled = compiled
        self._matcher = xgrammar.GrammarMatcher(compiled)

    def restart(self, prefix: bytes = b"") -> bool:
        """Go back to the start, then read `prefix`; False if it isn't viable."""
        self._matcher = xgrammar.GrammarMatcher(self._compiled)
        return all(self.feed(byte) for byte in prefix)

    def feed(self, byte: int) -> bool:
        """Read one byte; a refused byte leaves the matcher as it was."""
        return self._matcher.accept_token(byte)

    def allows(self, byte: int) -> bool:
        """Whether a byte may come next."""
        if not self._matcher.accept_token(byte):
            return False
        self._matcher.rollback(1)
        return True

    def allowed(self) -> set[int]:
        """All bytes that may come next."""
        return {byte for byte in range(256) if self.allows(byte)}

    def accepting(self) -> bool:
        """Whether the text so far is a sentence."""
        return self._matcher.is_completed()

    def judge(self, text: bytes) -> str:
        """`accepted`, `open` (a viable prefix) or `dead`."""
        if not self.restart(text):
            return "dead"
        return "accepted" if self.accepting() else "open"


def is_utf8_prefix(data: bytes) -> bool:
    """Whether some well-formed UTF-8 text begins with these bytes."""
    tails = (b"", b"\x80", b"\x80\x80", b"\x80\x80\x80", b"\x90\x80\x80", b"\xa0\x80")
    return any(_decodes(data + tail) for tail in tails)


def _decodes(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
