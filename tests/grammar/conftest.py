"""Fixtures of the grammar room."""

import pytest
from xgrammar_oracle import byte_compiler


@pytest.fixture(scope="session")
def compiler():
    """xgrammar's compiler over single bytes; compiled grammars are not cached."""
    return byte_compiler()
