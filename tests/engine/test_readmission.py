"""A request that the engine has taken back comes by again.

In SGLang 0.5.23 no dLLM request survives it: preemption looks for running requests where
there are none, and ``/pause_generation`` with mode retract ends the scheduler ("Redundant
requests detected"), with the plugin or without. So this is our side of it, on objects that
have what ours reads.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from lave_plugin.engines.sglang import cpu

pytestmark = pytest.mark.engine

SCRIPT = """
from types import SimpleNamespace
from unittest.mock import Mock

from lave_plugin.engines.sglang.admission import admit
from lave_plugin.engines.sglang.grammars import LaveGrammar

grammar = LaveGrammar.__new__(LaveGrammar)
grammar.session = Mock()
parameters = SimpleNamespace(json_schema=None, regex="a", ebnf=None, structural_tag=None)
request = SimpleNamespace(
    sampling_params=parameters, grammar=grammar, to_finish=None, finished=lambda: False
)
queue = []
admit(lambda _, request, again: queue.append(request), Mock(), request, True)
assert queue == [request] and request.to_finish is None
assert request.grammar is grammar
grammar.session.restart_block.assert_called_once_with()
"""


def test_it_keeps_its_session_and_begins_its_block_again():
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=cpu.environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
