"""What xgrammar says while it compiles: once each, in the engine's log.

It writes warnings straight to the process's standard error, with a time and a place in its own
sources, for each grammar anew; and its errors carry the same into the sentence of a 400.
"""

from __future__ import annotations

import faulthandler
import fcntl
import logging
import os
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

logger = logging.getLogger(__name__)

_PLACE = r"\[\d\d:\d\d:\d\d\] \S+\.(?:cc|cpp|h|hpp):\d+: "
_WARNING = re.compile(rf"^{_PLACE}(?:Warning: )?(?P<text>.*)$".encode())
REMEMBERED = 1024


def plain(message: str) -> str:
    """An error of xgrammar's on one line, without the time and the place in its sources."""
    return " ".join(re.sub(_PLACE, "", message).split())


class CapturedStderr:
    """Takes xgrammar's lines out of what is written to file descriptor 2 meanwhile.

    Everything else goes on to where it was going, a little later.

    Args:
        real: another descriptor of the same file.
    """

    def __init__(self, real: int) -> None:
        self._real = real
        self._lock = threading.Lock()
        self._inside = 0  # grammars compile on several threads
        self._told: OrderedDict[bytes, None] = OrderedDict()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._inside:
                self._redirect()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    os.dup2(self._real, 2)
                self._pass_on()
                if not self._inside:
                    os.close(self._file)

    def _redirect(self) -> None:
        # A file and no pipe: nobody has to read it for a writer to go on.
        self._file, self._read = os.memfd_create("stderr"), 0
        # Each write goes behind all others, whatever the threads' timing.
        fcntl.fcntl(self._file, fcntl.F_SETFL, os.O_APPEND)
        os.dup2(self._file, 2)

    def _pass_on(self) -> None:
        """What was written since the last time."""
        data = os.pread(self._file, os.fstat(self._file).st_size - self._read, self._read)
        if self._inside:
            data = data[: data.rfind(b"\n") + 1]
        self._read += len(data)
        rest = []
        for line in data.splitlines(keepends=True):
            if match := _WARNING.match(line.rstrip(b"\n")):
                self._tell(match["text"])
            else:
                rest.append(line)
        os.write(self._real, b"".join(rest))

    def _tell(self, text: bytes) -> None:
        if text not in self._told:
            logger.warning("xgrammar on a grammar: %s", text.decode(errors="replace"))
        self._told[text] = None
        self._told.move_to_end(text)
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)


def speak_once(backend: Any) -> None:
    """Let the engine's backend say one line for each grammar that it refuses.

    The engine logs the refusal with the request's id; the line before it has the whole grammar,
    and the sentence again.
    """
    from sglang.srt.constrained.base_grammar_backend import InvalidGrammarObject

    logging.getLogger("sglang.srt.constrained.xgrammar_backend").addFilter(
        lambda record: not str(record.msg).startswith("Hit invalid ")
    )
    compile_one = backend._init_value_dispatch
    captured = CapturedStderr(_own_stderr()) if hasattr(os, "memfd_create") else nullcontext

    def compile_quietly(key, require_reasoning):
        with captured():
            grammar = compile_one(key, require_reasoning)
        if isinstance(grammar, InvalidGrammarObject):
            grammar.error_message = plain(grammar.error_message)
        return grammar

    backend._init_value_dispatch = compile_quietly


def _own_stderr() -> int:
    """Give Python a descriptor of its own, so that only what C++ writes is ever held up.

    A log must not wait for a compilation that hangs, nor the trace of a crash be lost with it.
    """
    own = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr:
            handler.setStream(own)
    sys.stderr = own
    if faulthandler.is_enabled():
        faulthandler.enable(own)
    return own.fileno()
