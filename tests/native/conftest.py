"""The native states beside the Python reference. Skipped where they were not built."""

import sys
from pathlib import Path

import pytest

# The tables of sentences, and their oracle, serve both implementations.
sys.path.insert(0, str(Path(__file__).parent.parent / "grammar"))

from xgrammar_oracle import byte_compiler

pytest.importorskip("lave_plugin.grammar.native", reason="the native states were not built")


@pytest.fixture(scope="session")
def compiler():
    """xgrammar's compiler over single bytes."""
    return byte_compiler()
