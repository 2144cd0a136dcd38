"""Which implementation of the states serves: C++ where it was built, else the Python reference.

Both decide the same. The environment variable LAVE_NATIVE chooses: `0` forces the reference, `1`
makes a missing native part an error, anything else takes it where it is there.

Limits that hold over rules within rules are counted in Python alone (`counting`): they are rare,
and their rows are stepped as the reference steps them.
"""

import logging
import os
from collections.abc import Callable, Container, Sequence
from functools import cache
from types import ModuleType

from lave_plugin.grammar import automaton, token_automaton
from lave_plugin.grammar.counting import CountingAutomaton
from lave_plugin.grammar.normal_form import RuleAutomata, read_normal_form
from lave_plugin.grammar.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


Characters = Callable[[], Sequence[int | None]]
"""Gives the `characters` of `automaton.TokenClasses`."""


def states_of(rules: RuleAutomata, characters: Characters | None = None) -> automaton.Automaton:
    """The states of a grammar.

    `characters` is asked where a limit counts the characters of tokens.
    """
    if rules.counts_through_rules():
        return CountingAutomaton(rules, characters and characters())
    native = native_module()
    return automaton.Automaton(rules) if native is None else native.Automaton(rules)


def states_of_text(
    text: str, never: Container[int] = (), characters: Characters | None = None
) -> automaton.Automaton:
    """The states of a grammar in xgrammar's printed normal form.

    `never` is that of `normal_form.read_normal_form`, `characters` that of `states_of`.

    Raises:
        UnsupportedGrammar: If the grammar has something that can't be modelled, or has no sentence.
    """
    native = native_module()
    if native is None:
        return states_of(read_normal_form(text, never), characters)
    from lave_plugin.native.reader import read_normal_form as read_natively

    rules = read_natively(text, never)
    if isinstance(rules, RuleAutomata):
        return states_of(rules, characters)
    return native.Automaton(rules)


def states_over(
    states: automaton.Automaton, vocabulary: Vocabulary
) -> token_automaton.TokenAutomaton:
    """The same states, stepped by tokens; of the implementation that `states` are of."""
    if isinstance(states, automaton.Automaton):
        return token_automaton.TokenAutomaton(states, vocabulary)
    return _built_module().TokenAutomaton(states, vocabulary)


def native_module() -> ModuleType | None:
    """`lave_plugin.native` where it serves, else None."""
    choice = os.environ.get("LAVE_NATIVE")
    if choice == "0":
        return None
    native = _built_module()
    if native is None and choice == "1":
        raise ImportError(
            "LAVE_NATIVE=1 asks for the native grammar states, and they were not built; install"
            " the plugin again where a C++ compiler is at hand, or unset LAVE_NATIVE."
        )
    return native


@cache
def _built_module() -> ModuleType | None:
    try:
        from lave_plugin import native
    except ImportError as error:
        logger.warning(
            "The native grammar states are not there (%s), so the Python reference serves: the"
            " answers are the same, each step takes longer. Install the plugin again where a C++"
            " compiler is at hand; LAVE_NATIVE=0 asks for the reference without this warning.",
            error,
        )
        return None
    return native
