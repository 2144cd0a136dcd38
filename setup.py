"""The native part; everything else is in setup.cfg.

It is optional: where it can't be compiled the installation goes on, and the plugin runs on the
Python reference, which decides the same (see lave_plugin/grammar/implementation.py).
"""

import os
from pathlib import Path

from setuptools import Extension, setup

try:
    import pybind11
except ModuleNotFoundError:  # without build isolation, on a machine that hasn't got it
    pybind11 = None

SOURCES = Path("lave_plugin/native/src")


def native() -> list[Extension]:
    if pybind11 is None:
        print("pybind11 is not installed: going on without the native grammar states")
        return []
    # What `make sanitize` adds.
    extra = os.environ.get("LAVE_NATIVE_FLAGS", "").split()
    return [
        Extension(
            "lave_plugin.native._native",
            sources=sorted(str(path) for path in SOURCES.glob("*.cpp")),
            depends=sorted(str(path) for path in SOURCES.glob("*.hpp")),
            include_dirs=[pybind11.get_include()],
            language="c++",
            extra_compile_args=[
                "-std=c++17",
                "-O2",
                "-g0",
                "-fvisibility=hidden",
                "-ffp-contract=off",  # sums to the bit as the reference's
                "-Wno-psabi",  # GCC notes what vectors are passed as, and none leaves its file
                "-pthread",
                *extra,
            ],
            extra_link_args=["-pthread", *extra],
            optional=True,
        )
    ]


setup(ext_modules=native())
