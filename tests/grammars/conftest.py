"""The grammars that ship, in both implementations of the states."""

from collections.abc import Callable
from functools import cache

import pytest
import xgrammar

from lave_plugin import grammars
from lave_plugin.grammar import automaton
from lave_plugin.grammar.normal_form import RuleAutomata, read_normal_form

try:
    from lave_plugin import native
except ImportError:
    native = None

IMPLEMENTATIONS = {"python": automaton.Automaton}
if native is not None:
    IMPLEMENTATIONS["native"] = native.Automaton

Accepts = Callable[[str, bytes], bool]


@cache
def rules_of(name: str) -> RuleAutomata:
    vocabulary = [*(bytes([byte]) for byte in range(256)), b""]
    info = xgrammar.TokenizerInfo(vocabulary, vocab_size=257, stop_token_ids=[256])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    return read_normal_form(str(compiler.compile_grammar(grammars.load(name)[1]).grammar))


@pytest.fixture(scope="session", params=IMPLEMENTATIONS)
def accepts(request) -> Accepts:
    """Whether a grammar that ships accepts a text."""
    states = cache(lambda name: IMPLEMENTATIONS[request.param](rules_of(name)))

    def verdict(name: str, data: bytes) -> bool:
        of_grammar = states(name)
        state = of_grammar.run(of_grammar.start, data)
        return state != automaton.DEAD and of_grammar.accepting(state)

    return verdict
