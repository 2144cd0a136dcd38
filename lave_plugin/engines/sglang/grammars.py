"""From the engine's compiled grammars to ours: states beside every matcher."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from sglang.srt.constrained.base_grammar_backend import GrammarStats, InvalidGrammarObject
from sglang.srt.constrained.reasoner_grammar_backend import (
    ReasonerGrammarBackend,
    ReasonerGrammarObject,
)
from sglang.srt.constrained.xgrammar_backend import XGrammarGrammar, XGrammarGrammarBackend
from xgrammar import GrammarCompiler, GrammarMatcher

from lave_plugin.engines.sglang import arguments, xgrammar_log
from lave_plugin.engines.sglang.parameters import ANY_JSON
from lave_plugin.engines.sglang.recent import RecentGrammars
from lave_plugin.grammar import composition, self_test
from lave_plugin.grammar.automaton import Automaton
from lave_plugin.grammar.caret import move_carets_in_ebnf, move_carets_in_regex
from lave_plugin.grammar.compiler import OBJECT_OR_ARRAY, automaton_of, characters_of_tokens
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.implementation import states_of, states_over
from lave_plugin.grammar.json_schema import Layout, exact_grammar
from lave_plugin.grammar.lark import LarkError, is_lark, lark_to_ebnf
from lave_plugin.grammar.lost_limits import check_limits
from lave_plugin.grammar.normal_form import RuleAutomata, read_normal_form
from lave_plugin.grammar.structural_tag import (
    exact_schemas_in,
    grammars_in,
    misread_in_repeat,
    with_bounded_whitespace,
)
from lave_plugin.grammar.text_compiler import text_compiler
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.session import Session
from lave_plugin.thinking import Thinking


class States:
    """The states of one compiled grammar, shared by all requests that use it."""

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        self._automaton = automaton
        self._vocabulary = vocabulary
        self._over: dict[Vocabulary, TokenAutomaton] = {}

    @property
    def named_tokens(self) -> frozenset[int]:
        """Tokens that the grammar takes as a whole because it names them."""
        return self._automaton.token_classes.named

    def over(self, stop_tokens: Iterable[int]) -> TokenAutomaton:
        """States over the vocabulary in which ``stop_tokens`` end an answer as well."""
        vocabulary = self._vocabulary.with_stop_tokens(frozenset(stop_tokens))
        if vocabulary not in self._over:
            self._over[vocabulary] = states_over(self._automaton, vocabulary)
        return self._over[vocabulary]


class LaveGrammar(XGrammarGrammar):
    """The engine's grammar object of one request, with the states of its grammar.

    Attributes:
        states: shared with every other request that has this grammar.
        session: this request's, from its admission on.
    """

    def __init__(self, compiled: XGrammarGrammar, states: States) -> None:
        super().__init__(
            compiled.matcher,
            compiled.vocab_size,
            compiled.ctx,
            compiled.override_stop_tokens,
            compiled.key_string,
            compiled.grammar_stats,
        )
        self.states = states
        self.session: Session | None = None
        self._request: Callable[[], Any] | None = None

    def open_session(self, request: Any, session: Session) -> None:
        """Begin the request's session."""
        # Weakly: a request holds its grammar, and a circle of the two, with all the states,
        # would wait for the garbage collector, which a server's large heap makes rare.
        self._request, self.session = weakref.ref(request), session

    def copy(self) -> LaveGrammar:
        return LaveGrammar(super().copy(), self.states)

    def is_terminated(self) -> bool:
        """Asked by ``Req.update_finish_state`` last, which matters with ``ignore_eos``."""
        if self.session is None:
            return False
        self.session.follow(self._request().output_ids)
        return self.session.ended


def constraint_of(grammar: Any) -> LaveGrammar | None:
    """The constraint in a request's grammar object, if it is one of ours."""
    if isinstance(grammar, ReasonerGrammarObject):
        grammar = grammar.grammar
    return grammar if isinstance(grammar, LaveGrammar) else None


def thinking_of(request: Any, never: Iterable[int]) -> Thinking | None:
    """How ``request`` thinks before its constraint begins, if it does.

    The engine's own object follows the tokens of an autoregressive model one by one; what
    it was told of the request (``GrammarManager._apply_request_reasoning_config``) is taken
    over from it.

    Args:
        never: ids that may not stand in the thinking, whatever the engine allows.
    """
    grammar = request.grammar
    if not isinstance(grammar, ReasonerGrammarObject) or grammar.reasoning_in_grammar:
        return None
    if not request.require_reasoning:
        return None
    if not grammar.enable_token_filter:  # --enable-strict-thinking
        return Thinking(grammar.think_end_ids, never)
    excluded = grammar.think_excluded_token_ids or ()
    longest = grammar.max_think_tokens if grammar.max_think_tokens >= 0 else None
    return Thinking(grammar.think_end_ids, {*never, *excluded}, longest)


def build_automata_with_grammars(result: None, manager, scheduler) -> None:
    """Hook behind ``GrammarManager.__init__``.

    The engine compiles on its backend's own threads, caches by grammar and reports
    errors as 400; what is built beside the matcher has all of that.
    """
    if scheduler.dllm_config is None:
        return
    if arguments.constrained_decoding(scheduler.server_args) == "none":
        return
    backend = manager.grammar_backend
    if isinstance(backend, ReasonerGrammarBackend):
        backend = backend.grammar_backend
    if backend is None:
        return  # --grammar-backend none, or no tokenizer: the engine refuses by itself
    if not isinstance(backend, XGrammarGrammarBackend):
        raise TypeError(
            "--constrained-decoding lave reads the grammars that xgrammar compiles, and "
            f"this server's grammar backend is {type(backend).__name__}"
        )
    manager.grammar_backend.cache = RecentGrammars()
    backend.grammar_compiler = GrammarCompiler(backend._tokenizer_info, cache_enabled=False)
    self_test.check_version()
    vocabulary = vocabulary_of(
        scheduler.tokenizer,
        backend._tokenizer_info.decoded_vocab,
        scheduler.model_config.hf_eos_token_id,
    )
    # Ids that no answer may hold, even where a structural tag names them.
    never = frozenset(
        {scheduler.dllm_config.mask_id, *vocabulary.end_tokens}
        | {token for token, data in enumerate(backend._tokenizer_info.decoded_vocab) if not data}
    )
    from_context = backend._from_context

    def from_context_with_states(ctx, key_string, grammar_stats):
        compiled = from_context(ctx, key_string, grammar_stats)
        try:
            return LaveGrammar(compiled, States(automaton_of(ctx, never), vocabulary))
        except UnsupportedGrammar as error:
            return _refused(error)

    backend._from_context = from_context_with_states
    # What the user wrote, in a form that xgrammar does not misread (grammar/caret.py).
    dispatch_ebnf, dispatch_regex = backend.dispatch_ebnf, backend.dispatch_regex

    def dispatch_ebnf_or_lark(source):
        if not is_lark(source):
            try:
                check_limits(source)
            except UnsupportedGrammar as error:
                return _refused(error)
            return dispatch_ebnf(move_carets_in_ebnf(source))
        try:
            return dispatch_ebnf(lark_to_ebnf(source, backend._tokenizer_info))
        except LarkError as error:
            return InvalidGrammarObject(str(error))

    backend.dispatch_ebnf = dispatch_ebnf_or_lark
    backend.dispatch_regex = lambda source: dispatch_regex(move_carets_in_regex(source))
    bound_whitespace(backend, scheduler.dllm_config.lave_options.json_max_whitespace)
    keep_every_keyword(backend)
    dispatch_structural_tag = backend.dispatch_structural_tag

    def dispatch_what_is_read_rightly(source):
        if composition.is_key(source):
            return compose(backend, source, never, vocabulary)
        if kind := misread_in_repeat(source):
            return InvalidGrammarObject(
                f"A structural tag can't hold {kind} with its tokens inside repeat, where xgrammar "
                "loses them. Use star, plus or optional, or write the repetition out."
            )
        try:
            for grammar in grammars_in(source):
                check_limits(grammar)
            source = exact_schemas_in(source, layout_of(backend))
        except UnsupportedGrammar as error:
            return _refused(error)
        return dispatch_structural_tag(source)

    backend.dispatch_structural_tag = dispatch_what_is_read_rightly
    xgrammar_log.speak_once(backend)


def compose(
    backend: XGrammarGrammarBackend, key: str, never: frozenset[int], vocabulary: Vocabulary
) -> LaveGrammar | InvalidGrammarObject:
    """The grammar of constraints that a request puts together (``grammar/composition.py``)."""
    dispatch = {
        "json_schema": backend.dispatch_json,
        "regex": backend.dispatch_regex,
        "ebnf": backend.dispatch_ebnf,
        "structural_tag": backend.dispatch_structural_tag,
    }

    def rules_of(kind: str, source: str) -> RuleAutomata:
        grammar = dispatch[kind](source)
        if isinstance(grammar, InvalidGrammarObject):
            raise UnsupportedGrammar(f"{kind}: {grammar.error_message}")
        return read_normal_form(str(grammar.ctx.grammar), never)

    try:
        states = states_of(
            composition.rules_of_key(key, rules_of),
            lambda: characters_of_tokens(backend._tokenizer_info.decoded_vocab, never),
        )
    except UnsupportedGrammar as error:
        return _refused(error)
    # The engine's own half can't say what the constraint is; no step asks it, and if one did it
    # would allow nothing at all.
    nothing = text_compiler().compile_grammar('root ::= ""')
    compiled = XGrammarGrammar(
        GrammarMatcher(nothing),
        backend.vocab_size,
        nothing,
        backend.override_stop_tokens,
        key,
        GrammarStats(dispatch_type="structural_tag"),
    )
    return LaveGrammar(compiled, States(states, vocabulary))


def _refused(error: UnsupportedGrammar) -> InvalidGrammarObject:
    return InvalidGrammarObject(str(error))  # which the engine logs


def layout_of(backend: XGrammarGrammarBackend) -> Layout:
    """Where the server lets JSON have whitespace."""
    return Layout(backend.any_whitespace, backend.max_whitespace_cnt)


def keep_every_keyword(backend: XGrammarGrammarBackend) -> None:
    """Let JSON schemas be read by `grammar/json_schema` where xgrammar would not be exact.

    The engine's check for keywords that xgrammar ignores (``validate_xgrammar_json_schema``)
    judges what is left to xgrammar; the others are written without those keywords, or refused.
    """
    dispatch_json = backend.dispatch_json

    def dispatch_exactly(source):
        if source == ANY_JSON:
            return dispatch_json(source)
        try:
            grammar = exact_grammar(source, layout_of(backend))
        except UnsupportedGrammar as error:
            return _refused(error)
        except ValueError:
            return dispatch_json(source)  # which says what is wrong with the JSON
        if grammar is None:
            return dispatch_json(source)
        # The states are made of what is printed, which does not depend on the vocabulary.
        compiled = text_compiler().compile_grammar(grammar)
        return backend._from_context(compiled, source, GrammarStats(dispatch_type="json"))

    backend.dispatch_json = dispatch_exactly


def bound_whitespace(backend: XGrammarGrammarBackend, limit: int | None) -> None:
    """Let JSON have at most so many characters of whitespace in a row."""
    if backend.max_whitespace_cnt is None:
        backend.max_whitespace_cnt = limit
    if backend.max_whitespace_cnt is None:
        return
    dispatch_json, dispatch_structural_tag = backend.dispatch_json, backend.dispatch_structural_tag
    # The builtin grammar has no limit; the same as a schema has.
    backend.dispatch_json = lambda source: dispatch_json(
        OBJECT_OR_ARRAY if source == ANY_JSON else source
    )
    # The engine's own limit does not reach into structural tags.
    backend.dispatch_structural_tag = lambda source: dispatch_structural_tag(
        with_bounded_whitespace(source, backend.max_whitespace_cnt)
    )


def vocabulary_of(
    tokenizer: Any, decoded_vocab: list[bytes], model_end_tokens: Iterable[int] | None
) -> Vocabulary:
    """The vocabulary as the engine's finish check sees it (``Req._check_token_based_finish``)."""
    ends = [
        getattr(tokenizer, "eos_token_id", None),
        *sorted(model_end_tokens or ()),
        *sorted(getattr(tokenizer, "additional_stop_token_ids", None) or ()),
    ]
    special = set(getattr(tokenizer, "all_special_ids", ()))
    return Vocabulary(
        [b"" if token in special else data for token, data in enumerate(decoded_vocab)],
        dict.fromkeys(end for end in ends if end is not None),
    )
