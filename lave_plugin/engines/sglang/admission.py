"""The way in: every constrained request gets a session, or a sentence that says why not."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any, NamedTuple

from sglang.srt.managers.schedule_batch import FINISH_ABORT

from lave_plugin.engines.sglang import metrics
from lave_plugin.engines.sglang.config import NOT_COVERED
from lave_plugin.engines.sglang.grammars import LaveGrammar, constraint_of, thinking_of
from lave_plugin.engines.sglang.parameters import (
    composed,
    ebnf_of_own_constraint,
    options_of,
    own_constraint,
    seed_of,
    wants_trace,
)
from lave_plugin.grammar import composition
from lave_plugin.grammar.vocabulary import UNSPELLABLE
from lave_plugin.options import InvalidOptions
from lave_plugin.session import Session
from lave_plugin.trace import Trace

logger = logging.getLogger(__name__)

LONGEST_SHORTEST_ANSWER = 1 << 16
"""Bytes. The shortest answer is spelled in tokens when a request is admitted, on the
scheduler's thread; beyond this that would be felt by everybody."""

_FIELDS = ("json_schema", "regex", "ebnf", "structural_tag")


class Refusal(NamedTuple):
    """Why a request gets no answer, as the metrics count it and as its sender reads it."""

    reason: metrics.Reason
    sentence: str


def is_constrained(request: Any) -> bool:
    """Whether ``request`` has a constraint, wherever it was written; asked in every step."""
    parameters = request.sampling_params
    return any(getattr(parameters, name) is not None for name in _FIELDS)


def constraint_field(request: Any) -> str | None:
    """The parameter that constrains ``request``, if one does, as the user wrote it."""
    for name in _FIELDS:
        if getattr(request.sampling_params, name) is not None:
            if composition.is_key(getattr(request.sampling_params, name)):
                return " and ".join(f"lave.{kind}" for part in composed(request) for kind in part)
            own = own_constraint(request)
            return f"lave.{own}" if own else name
    return None


def put_own_constraint(request: Any) -> None:
    """Let what constrains ``request`` under ``lave`` stand where the engine looks for it.

    Raises:
        InvalidOptions: if that is no constraint, or the request has another one.
    """
    text = ebnf_of_own_constraint(request)
    if text is None:
        return
    parameters = request.sampling_params
    for name in _FIELDS:
        # Requests of one batch may share their parameters: there it is written already.
        if getattr(parameters, name) not in (None, text):
            raise InvalidOptions(
                f"lave.{own_constraint(request)} and {name} are two constraints, and a request "
                "has one: leave one out."
            )
    parameters.ebnf = text


def compose(request: Any) -> None:
    """Make one constraint of what ``request`` puts together, its own included.

    It stands in the place of a structural tag, where the engine looks for a constraint; the
    backend knows it again (``grammars.py``).

    Raises:
        composition.InvalidComposition: if it is not of the form that there is.
    """
    parts = composed(request)
    parameters = request.sampling_params
    if not parts:
        return
    for name in _FIELDS:
        if (own := getattr(parameters, name)) is not None:
            parts.append({name: own})
    key = composition.key_of(parts[0] if len(parts) == 1 else {"all_of": parts})
    for name in _FIELDS:
        setattr(parameters, name, None)
    parameters.structural_tag = key


def validate_request(result: str | None, dllm_config, request) -> str | None:
    """Hook behind ``DllmConfig.validate_request``: a sentence refuses the request with 400.

    It runs before the engine looks at the request's constraint, so a grammar that the request
    names, a choice, or what it puts together, is put there.
    """
    if result is not None:
        return result
    refusal = _never_enforced(dllm_config, request)
    if refusal is None:
        return None
    if metrics.of_process is not None:
        metrics.of_process.refused(refusal.reason)
    return refusal.sentence


def _never_enforced(dllm_config, request) -> Refusal | None:
    # Requests of one batch may share their parameters: there it is written already.
    if not composition.is_key(request.sampling_params.structural_tag):
        try:
            put_own_constraint(request)
            compose(request)
        except InvalidOptions as error:
            return Refusal("parameters", str(error))
        except composition.InvalidComposition as error:
            return Refusal("parameters", f"custom_params: {error}")
    field = constraint_field(request)
    if field is None:
        return None
    if dllm_config.constrained_decoding == "none":
        return Refusal(
            "not_covered",
            f"This server does not enforce {field}: it was started without "
            "--constrained-decoding lave. Start it with that flag, or send the request "
            "without the constraint.",
        )
    if why := NOT_COVERED.get(dllm_config.algorithm):
        return Refusal(
            "not_covered",
            f"{field} cannot be enforced under --dllm-algorithm {dllm_config.algorithm}: "
            f"{why}. Use LowConfidence or JointThreshold.",
        )
    if request.return_logprob:
        return Refusal(
            "not_covered",
            f"{field} together with log probabilities is not supported: SGLang computes none "
            "for a diffusion language model. Send the request without logprobs.",
        )
    return None


def poll_grammar_queue(scheduler, running_batch=None) -> None:
    """Hook before ``get_new_batch_dllm``.

    The engine polls in ``_get_new_batch_prefill_raw`` only, where a dLLM scheduler never
    comes by (seen in 0.5.23: every constrained request waits for ever).
    """
    if scheduler.grammar_manager.has_waiting_grammars():
        for request in scheduler.grammar_manager.get_ready_grammar_requests():
            scheduler._add_request_to_queue(request)


def admit(original, scheduler, request, is_retracted: bool = False) -> None:
    """Hook around ``Scheduler._add_request_to_queue``."""
    dllm_config = scheduler.dllm_config
    if dllm_config is None or not is_constrained(request) or request.finished():
        return original(scheduler, request, is_retracted)
    if request.to_finish is None:
        constraint = constraint_of(request.grammar)
        if constraint is None or constraint.session is None:
            request.to_finish = _open_or_refuse(scheduler, request, constraint)
        else:  # a preempted or retracted request comes by again
            constraint.session.restart_block()
    elif metrics.of_process is not None and (reason := _reason_of_engine(request.to_finish)):
        metrics.of_process.refused(reason)
    if isinstance(request.to_finish, FINISH_ABORT):
        # The engine would let it run for one forward pass first; in a dLLM that is a
        # whole block, without a bound if the model's choice stays MASK.
        return end_now(scheduler, request)
    return original(scheduler, request, is_retracted)


def _reason_of_engine(end: Any) -> metrics.Reason | None:
    """Why the engine itself has refused a request, by its message (``GrammarManager``)."""
    message = str(getattr(end, "message", ""))
    if message.startswith("Aborted"):
        return None  # the client is gone
    if message.startswith("Failed to compile"):
        return "grammar"
    return "timeout" if message.startswith("Grammar preprocessing timed out") else "engine"


def _open_or_refuse(scheduler, request, constraint: LaveGrammar | None) -> FINISH_ABORT | None:
    counted = metrics.of_process
    try:
        refusal = open_session(scheduler, request, constraint)
    except Exception as error:
        logger.exception("could not open the session of a constrained request")
        if counted is not None:
            counted.refused("failed")
        return FINISH_ABORT(
            f"{constraint_field(request)} could not be prepared, which says nothing about "
            f"other requests: {type(error).__name__}: {error}",
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "InternalServerError",
        )
    if refusal is not None:
        if counted is not None:
            counted.refused(refusal.reason)
        return FINISH_ABORT(refusal.sentence, HTTPStatus.BAD_REQUEST, "BadRequestError")
    if counted is not None and answers(request):
        counted.admitted(constraint.session.name, constraint_field(request))
    return None


def answers(request: Any) -> bool:
    """Whether ``request`` asks for text, and not only that its prompt be read.

    The engine itself sends one of the latter before it answers a request with n > 1.
    """
    return request.sampling_params.max_new_tokens != 0


def open_session(scheduler, request, constraint: LaveGrammar | None) -> Refusal | None:
    """Open the session of ``request``; why not, if it cannot be served."""
    field = constraint_field(request)
    if constraint is None:
        return Refusal(
            "not_covered",
            f"{field} cannot be enforced: the engine made a "
            f"{type(request.grammar).__name__} of it, which has no states.",
        )
    try:
        options = options_of(request, scheduler.dllm_config.lave_options)
        trace = Trace() if wants_trace(request) else None
    except InvalidOptions as error:
        return Refusal("parameters", str(error))
    stop_tokens = frozenset(request.sampling_params.stop_token_ids or ())
    if both := sorted(constraint.states.named_tokens & stop_tokens):
        return Refusal(
            "not_covered",
            f"{field} cannot be enforced: it names token {both[0]}, and stop_token_ids ends the "
            "answer there. Take the token out of one of them.",
        )
    tokens = constraint.states.over(stop_tokens)
    budget, limit = token_budget(scheduler, request)
    if not answers(request):
        budget = UNSPELLABLE - 1  # the block that a dLLM fills all the same is cut whole
    shortest = tokens.automaton.shortest_length(tokens.start)
    if shortest > LONGEST_SHORTEST_ANSWER:
        return Refusal(
            "length",
            f"{field} cannot be served: its shortest answer has {shortest} bytes, and "
            f"{LONGEST_SHORTEST_ANSWER} are the limit. Ask for less in one answer.",
        )
    needed = tokens.tokens_to_finish(tokens.start)
    if needed >= UNSPELLABLE:
        return Refusal(
            "grammar",
            f"{field} cannot be enforced: the tokens of this model cannot spell its "
            "shortest answer.",
        )
    ends = tokens.vocabulary.end_tokens
    thinking = thinking_of(request, {*ends, scheduler.dllm_config.mask_id})
    included = "end token included"
    if thinking is not None:
        if not ends.isdisjoint(thinking.end):
            return Refusal(
                "not_covered",
                f"{field} cannot be enforced: the request stops at the end of thinking, "
                "before its answer. Leave that out of stop_token_ids.",
            )
        needed += len(thinking.end)
        included = "end of thinking and end token included"
    if needed > budget:
        return Refusal(
            "length",
            f"{limit} is too small: a shortest answer that {field} allows takes {needed} "
            f"tokens, {included}, and {budget} are left. Allow at least {needed}.",
        )
    session = Session(tokens, options, budget, seed_of(request), thinking, trace)
    constraint.open_session(request, session)
    # The engine asks the request's grammar whether the answer has ended; its wrapper for
    # thinking would have to be told every token to know.
    request.grammar = constraint
    return None


def token_budget(scheduler, request) -> tuple[int, str]:
    """Tokens that the answer may have, and the name of what limits it.

    Besides ``max_new_tokens`` it is the context: the engine starts no block that does
    not fit whole (``_finish_dllm_request_if_needed``).
    """
    block = scheduler.dllm_config.block_size
    in_context = scheduler.model_config.context_len // block * block
    left_in_context = in_context - len(request.origin_input_ids)
    max_new_tokens = request.sampling_params.max_new_tokens
    if left_in_context < max_new_tokens:
        return max(left_in_context, 0), f"the context of {in_context} tokens"
    return max_new_tokens, f"max_new_tokens={max_new_tokens}"


def end_now(scheduler, request) -> None:
    """Answer a request that is already refused, as ``handle_generate_request`` does."""
    from sglang.srt.managers.scheduler import _make_abort_req

    scheduler._release_aborted_request(request)
    abort = _make_abort_req(request, finished_reason=request.to_finish.to_json())
    request.time_stats.trace_ctx.abort(abort_info=abort.finished_reason)
    scheduler.send_abort_output(abort, request)
