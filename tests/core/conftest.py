"""The naive reader of grammars over tokens stands with the grammar's tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "grammar"))
