"""What an answer says of its constraint: ``lave`` in its ``meta_info``.

In the scheduler the facts go beside the output of each request that ends; in the process of the
HTTP server they come out of there. The engine has a place for such values, but keeps them as
lists that grow from chunk to chunk, one for every request of a batch that has any.

A streamed request that asks for its steps (``trace.py``) has the new ones in each chunk. With
first-done-first-out scheduling and ``--stream-interval`` 1, both the engine's own choice, it sends
a chunk behind every forward pass, though a block's tokens are in none before the block is done;
without the former, behind every block.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from sglang.srt.managers.schedule_batch import FINISH_ABORT

from lave_plugin.engines.sglang import arguments, json_checks, metrics
from lave_plugin.engines.sglang.admission import answers
from lave_plugin.engines.sglang.grammars import constraint_of
from lave_plugin.trace import join

KEY = "lave"


def allow_facts(result: None, streamer) -> None:
    """Hook behind ``SchedulerOutputStreamer.__post_init__``.

    The engine's Rust server takes no such values, and does without.
    """
    constrained = arguments.constrained_decoding(streamer.server_args) != "none"
    if constrained and streamer.rust_server is None:
        type(streamer).has_additional_customized_info = True


def add_facts(result: dict[str, list], streamer, reqs: list[Any]) -> dict[str, list]:
    """Hook behind ``SchedulerOutputStreamer.build_additional_customized_info``."""
    facts = [_facts(request) for request in reqs]
    return {**result, KEY: facts} if any(facts) else result


def _facts(request: Any) -> list[dict[str, Any]]:
    """None, or the one dictionary, of a constrained request that has ended with an answer.

    Of one that is streamed and goes on, its new steps, also where there are none: what its reader
    has not come to read is handed on from chunk to chunk (``_with_unread``).
    """
    constraint = constraint_of(request.grammar)
    if constraint is None or constraint.session is None:
        return []
    if not request.finished():
        steps = constraint.session.new_steps() if request.stream else {}
        return [steps] if steps else []
    counted = metrics.of_process if answers(request) else None
    if isinstance(request.finished_reason, FINISH_ABORT):
        if counted is not None:
            failed = request.finished_reason.status_code == HTTPStatus.INTERNAL_SERVER_ERROR
            counted.finished(constraint.session.name, "failed" if failed else "aborted")
        return []
    facts = constraint.session.facts(request.output_ids_through_stop)
    if counted is not None:
        counted.finished(facts["strategy"], "complete" if facts["complete"] else "incomplete")
    return [facts]


def report_facts(
    original, manager, meta_info: dict, state, customized_info: dict, index: int, finish_reason
) -> None:
    """Hook around ``TokenizerManager.update_request_meta_info``."""
    others = {key: values for key, values in customized_info.items() if key != KEY}
    original(manager, meta_info, state, others, index, finish_reason)
    if facts := customized_info.get(KEY):
        for of_request in facts[index]:
            meta_info[KEY] = _with_unread(state, of_request)
            if finish_reason is not None:
                json_checks.of_process.see(manager, state, of_request, finish_reason)


def _with_unread(state: Any, facts: dict[str, Any]) -> dict[str, Any]:
    """``facts``, with the steps of the chunks before that no reader has come to yet.

    The engine sends of them only the last one's ``meta_info``.
    """
    unread = state.out_list[-1]["meta_info"].get(KEY, {}) if state.out_list else {}
    if "trace" not in unread:
        return facts
    join(unread["trace"], facts["trace"])
    return {**facts, "trace": unread["trace"]}
