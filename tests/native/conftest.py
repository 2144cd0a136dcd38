"""The native states beside the Python reference.

Left out where they were not built, unless LAVE_NATIVE=1 says that they must be there.
"""

import os
import sys
from pathlib import Path

import pytest

# The tables of sentences, and their oracle, serve both implementations.
sys.path.insert(0, str(Path(__file__).parent.parent / "grammar"))

from xgrammar_oracle import byte_compiler

try:
    import lave_plugin.native  # noqa: F401
except ImportError:
    if os.environ.get("LAVE_NATIVE") == "1":
        raise
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def compiler():
    """xgrammar's compiler over single bytes."""
    return byte_compiler()
