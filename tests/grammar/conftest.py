"""Fixtures of the grammar room."""

import sys
from pathlib import Path

import pytest

# The random walks of benchmarks/agreement.py are a test too, at a small scale.
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from xgrammar_oracle import byte_compiler


@pytest.fixture(scope="session")
def compiler():
    """xgrammar's compiler over single bytes; compiled grammars are not cached."""
    return byte_compiler()
