"""One line in the log for what xgrammar says, and one for a grammar that is refused."""

from __future__ import annotations

import logging
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from client import post

from lave_plugin.engines.sglang.xgrammar_log import CapturedStderr, plain

WARNING = b"[14:33:57] /project/cpp/regex_converter.cc:89: Warning: '$' is ignored.\n"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("[14:32:30] /project/cpp/grammar_parser.cc:820: Expect element, but got \n", None),
        ("Rule 'root' has no end.", "Rule 'root' has no end."),
        ("json_schema: [01:02:03] /a/b.h:1: No\n  such type", "json_schema: No such type"),
    ],
)
def test_an_error_without_its_place(message, expected):
    assert plain(message) == (expected or "Expect element, but got")


@pytest.fixture
def captured(tmp_path):
    """``(captured, what has come out)``; file descriptor 2 is put back."""
    saved = os.dup(2)
    real = os.open(tmp_path / "stderr", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        yield CapturedStderr(real), (tmp_path / "stderr").read_bytes
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(real)


def test_xgrammar_s_lines_are_told_once_and_others_pass(captured, caplog):
    capture, passed = captured
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            with capture():
                os.write(2, b"before\n" + WARNING + b"behind\nno end")
    assert passed() == b"before\nbehind\nno end" * 3
    assert [record.getMessage() for record in caplog.records] == [
        "xgrammar on a grammar: '$' is ignored."
    ]


def test_what_is_written_meanwhile_by_others_is_not_lost(captured, caplog):
    """Grammars compile on several threads; what one of them holds up the next lets go."""
    capture, passed = captured
    hold = threading.Event()

    def one(number: int) -> None:
        with capture():
            os.write(2, b"line %d\n" % number + WARNING)
            time.sleep(0.001 * (number % 3))

    def long() -> None:
        with capture():
            hold.wait(30)

    with ThreadPoolExecutor(9) as pool:
        long_one = pool.submit(long)
        list(pool.map(one, range(200)))
        assert len(passed().splitlines()) == 200  # though one is inside all the time
        hold.set()
        long_one.result()
    assert sorted(passed().split(b"\n")) == sorted([b"", *(b"line %d" % n for n in range(200))])
    os.write(2, b"behind\n")
    assert passed().endswith(b"behind\n")
    assert len(caplog.records) == 1


@pytest.mark.engine
def test_what_a_server_says(lave_server):
    url, log = lave_server.url, lave_server.log_path
    begin = log.stat().st_size

    def ask(regex: str) -> int:
        return post(url, {"text": "x", "sampling_params": {"regex": regex}}).status_code

    # Its escape is ignored, with a warning; and a malformed one.
    assert [ask(r"\Aab"), ask(r"\Aac"), ask("q{5,3}")] == [200, 200, 400]
    lines = log.read_bytes()[begin:].decode(errors="replace").splitlines()
    assert sum("xgrammar on a grammar: " in line for line in lines) == 1
    assert not [line for line in lines if ".cc:" in line or "Hit invalid" in line]
    refused = [line for line in lines if "Lower bound is larger" in line]
    # The scheduler's, which names the request, and the HTTP server's.
    assert len(refused) == 2 and sum("self.rid=" in line for line in refused) == 1
