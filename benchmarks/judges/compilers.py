"""Compilers as judges of syntax: each says of many programs what is wrong with them, if anything.

A verdict is None for a program whose syntax is right, the compiler's first message for one whose
syntax is wrong, and UNKNOWN where the compiler stopped at something else, a name or a type.
"""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

UNKNOWN = "?"

Judge = Callable[[list[str]], list[str | None]]

# How g++ begins what it says of a sentence that its grammar hasn't got.
_SYNTAX = re.compile(
    r"expected |stray |missing terminating|extra |invalid preprocessing|#\w+ expects|unterminated"
    r"|empty character|too many decimal|invalid suffix|exponent|.else. without|no macro name"
    r"|a function-definition is not allowed|invalid digit|two or more data types|duplicate "
    r"|lambda-expression in|unable to find numeric literal|decl-specifier|unmatched"
)
_HEADERS = "".join(
    f"#include <{name}>\n"
    for name in ("stdio.h", "stdlib.h", "math.h", "algorithm", "map", "set", "string", "vector")
)


def gxx(programs: list[str]) -> list[str | None]:
    """`g++ -fsyntax-only`, program by program, over a precompiled standard library."""
    with TemporaryDirectory() as folder:
        header, source = Path(folder, "all.h"), Path(folder, "program.cpp")
        header.write_text(_HEADERS)
        subprocess.run(["g++", "-std=c++20", "-x", "c++-header", header], check=True, timeout=120)
        command = ["g++", "-std=c++20", "-w", "-fsyntax-only", "-fno-diagnostics-show-caret"]
        command += ["-fmax-errors=1", "-include", header, source]
        return [_first_of_gxx(command, source, program) for program in programs]


def _first_of_gxx(command: list, source: Path, program: str) -> str | None:
    source.write_text(program)
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    errors = re.findall(r"error: (.*)", run.stderr)
    if not errors:
        return None
    return errors[0] if _SYNTAX.match(errors[0]) else UNKNOWN


def javac(programs: list[str]) -> list[str | None]:
    """javac in one call: where one file does not parse, no file's types are looked at."""
    with TemporaryDirectory() as folder:
        files = _write(folder, [*programs, "class"], "java")
        run = subprocess.run(
            ["javac", "-proc:none", "-Xmaxerrs", "1000000", "-d", folder, *files],
            capture_output=True,
            text=True,
            timeout=300,
        )
        return _first_by_file(run.stderr, r"(\d+)\.java:\d+: error: (.*)", len(programs))


def gofmt(command: str) -> Judge:
    """`gofmt -e`, which parses and resolves no names."""

    def judge(programs: list[str]) -> list[str | None]:
        with TemporaryDirectory() as folder:
            files = _write(folder, [f"package main;{program}" for program in programs], "go")
            run = subprocess.run(
                [command, "-e", "-l", *files], capture_output=True, text=True, timeout=300
            )
            return _first_by_file(run.stderr, r"(\d+)\.go:\d+:\d+: (.*)", len(programs))

    return judge


def _write(folder: str, programs: list[str], suffix: str) -> list[Path]:
    files = [Path(folder, f"{index}.{suffix}") for index in range(len(programs))]
    for file, program in zip(files, programs, strict=True):
        file.write_text(program)
    return files


def _first_by_file(output: str, pattern: str, count: int) -> list[str | None]:
    first: dict[int, str] = {}
    for index, message in re.findall(pattern, output):
        first.setdefault(int(index), message)
    return [first.get(index) for index in range(count)]
