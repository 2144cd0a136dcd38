"""Every place where the plugin takes hold of SGLang, why, and whether it stands.

SGLang logs a plugin that fails to load and goes on without it, and a hook on a function
that has moved is only logged too. A constraint that is silently not there is the one
thing that must not happen, so with ``--constrained-decoding lave`` the hooks are checked
in the process that parses the command line and in every scheduler.
"""

from __future__ import annotations

import inspect
import logging
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

from sglang.srt.plugins.hook_registry import HookRegistry, HookType

from lave_plugin.engines.sglang import (
    admission,
    arguments,
    config,
    custom_tools,
    grammars,
    metrics,
    openai_report,
    response,
    step_times,
    stepping,
)

logger = logging.getLogger(__name__)

TRIED_VERSIONS = ("0.5.23",)
HANDSHAKE = "lave_plugin"
"""Key in a scheduler's start-up message that says its hooks stand."""


class EngineMismatch(RuntimeError):
    """The engine is not as the plugin knows it; the message says where."""


@dataclass(frozen=True)
class Hook:
    """One hook.

    Attributes:
        target: dotted path of the hooked function.
        kind: how the hook runs (see ``sglang/srt/plugins/hook_registry.py``).
        handler: our side of it.
        parameters: the parameter names of the target that the handler relies on, all.
        reason: what cannot be done without it.
    """

    target: str
    kind: HookType
    handler: Callable
    parameters: tuple[str, ...]
    reason: str


def _ready(result: dict, scheduler) -> dict:
    """``Scheduler.get_init_info``: say in the start-up message that the hooks stand."""
    if arguments.constrained_decoding(scheduler.server_args) != "none":
        check()
        result[HANDSHAKE] = True
    return result


def _pass_on_acknowledgement(result: dict, controller) -> dict:
    """``DataParallelController.get_init_info``: all of its schedulers, or none."""
    infos = controller._scheduler_init_infos
    if infos and all(info.get(HANDSHAKE) for info in infos):
        result[HANDSHAKE] = True
    return result


def _expect_acknowledgement(result, engine_class, server_args, *args, **kwargs):
    """``Engine._launch_scheduler_processes``: no start without the word of every scheduler."""
    if arguments.constrained_decoding(server_args) == "none":
        return result
    init_result, _ = result
    wait_for_ready = init_result.wait_for_ready

    def wait_and_check() -> None:
        wait_for_ready()
        if not all(info.get(HANDSHAKE) for info in init_result.scheduler_infos):
            raise EngineMismatch(
                "a scheduler process runs without the lave plugin, so it would ignore every "
                "constraint: see the log above for why it failed to load there."
            )

    init_result.wait_for_ready = wait_and_check
    return result


HOOKS = (
    Hook(
        "sglang.srt.server_args.ServerArgs.add_cli_args",
        HookType.AFTER,
        arguments.add_flag,
        ("parser",),
        "the flag --constrained-decoding",
    ),
    Hook(
        "sglang.srt.server_args.ServerArgs.from_cli_args",
        HookType.AROUND,
        arguments.carry_flag,
        ("cls", "args"),
        "carries the flag to the schedulers, since ServerArgs takes no new field",
    ),
    Hook(
        "sglang.srt.server_args.ServerArgs.check_server_args",
        HookType.AFTER,
        config.check_launch,
        ("self",),
        "refuses a launch whose other flags the constraint cannot work with",
    ),
    Hook(
        "sglang.srt.dllm.config.DllmConfig.from_server_args",
        HookType.AFTER,
        config.take_mask_id,
        ("server_args",),
        "takes the mask id from the checkpoint",
    ),
    Hook(
        "sglang.srt.dllm.config.DllmConfig.from_server_args",
        HookType.AFTER,
        config.add_options,
        ("server_args",),
        "takes the flag and the options from the YAML file to the scheduler",
    ),
    Hook(
        "sglang.srt.dllm.config.DllmConfig.validate_request",
        HookType.AFTER,
        admission.validate_request,
        ("self", "req"),
        "answers 400 to what cannot be enforced, before anything is compiled, and puts a grammar "
        "that the request names, or a choice, where the engine looks for one",
    ),
    Hook(
        "sglang.srt.dllm.mixin.scheduler.SchedulerDllmMixin.get_new_batch_dllm",
        HookType.BEFORE,
        admission.poll_grammar_queue,
        ("self", "running_batch"),
        "dLLM schedulers never poll the grammar queue: without it constrained requests hang",
    ),
    Hook(
        "sglang.srt.managers.scheduler.Scheduler._add_request_to_queue",
        HookType.AROUND,
        admission.admit,
        ("self", "req", "is_retracted"),
        "opens the session of a constrained request, or answers 400 without a forward pass",
    ),
    Hook(
        "sglang.srt.constrained.grammar_manager.GrammarManager.__init__",
        HookType.AFTER,
        grammars.build_automata_with_grammars,
        ("self", "scheduler"),
        "builds the states where the engine compiles, off the scheduler's thread",
    ),
    Hook(
        "sglang.srt.managers.tp_worker.TpModelWorker._init_dllm_algorithm",
        HookType.AFTER,
        stepping.constrain_algorithm,
        ("self",),
        "wraps the step of the algorithm that the user chose",
    ),
    Hook(
        "sglang.srt.managers.tp_worker.TpModelWorker._forward_batch_generation_dllm",
        HookType.AROUND,
        stepping.with_requests,
        ("self", "forward_batch", "batch"),
        "the only place that has both the tensors of a batch and its requests",
    ),
    Hook(
        "sglang.srt.managers.scheduler_components.output_streamer"
        ".SchedulerOutputStreamer.__post_init__",
        HookType.AFTER,
        response.allow_facts,
        ("self",),
        "lets an answer say something of its constraint",
    ),
    Hook(
        "sglang.srt.managers.scheduler_components.output_streamer"
        ".SchedulerOutputStreamer.build_additional_customized_info",
        HookType.AFTER,
        response.add_facts,
        ("self", "reqs"),
        "says which strategy made an answer and whether it is complete, and in a stream the steps "
        "that were asked for",
    ),
    Hook(
        "sglang.srt.managers.tokenizer_manager.TokenizerManager.update_request_meta_info",
        HookType.AROUND,
        response.report_facts,
        ("self", "meta_info", "state", "customized_info", "index", "finish_reason"),
        "puts that into the answer's meta_info, and nothing into those of its neighbours",
    ),
    Hook(
        "sglang.srt.entrypoints.openai.serving_chat.OpenAIServingChat._build_chat_response",
        HookType.AFTER,
        openai_report.add_report,
        ("self", "request", "ret", "created"),
        "says in a chat completion what meta_info says, where the request asks for it",
    ),
    Hook(
        "sglang.srt.entrypoints.openai.serving_chat.OpenAIServingChat._generate_stream_content",
        HookType.AROUND,
        openai_report.add_report_to_stream,
        ("self", "content", "index", "request"),
        "the same in a stream",
    ),
    Hook(
        "sglang.srt.entrypoints.openai.serving_completions"
        ".OpenAIServingCompletion._build_completion_response",
        HookType.AFTER,
        openai_report.add_report,
        ("self", "request", "ret", "created"),
        "the same in a completion",
    ),
    Hook(
        "sglang.srt.entrypoints.openai.responses_adapters.custom_tool_description",
        HookType.BEFORE,
        custom_tools.refuse_grammar,
        ("description", "tool_format"),
        "refuses a custom tool with a grammar, of which the engine only tells the model",
    ),
    Hook(
        "sglang.srt.managers.scheduler.Scheduler.get_internal_state",
        HookType.AFTER,
        step_times.report_step_times,
        ("self", "recv_req"),
        "shows in /server_info what verification costs",
    ),
    Hook(
        "sglang.srt.managers.scheduler.Scheduler.get_init_info",
        HookType.AFTER,
        _ready,
        ("self",),
        "each scheduler says that its hooks stand",
    ),
    Hook(
        "sglang.srt.managers.scheduler.Scheduler.get_init_info",
        HookType.AFTER,
        metrics.start,
        ("self",),
        "each scheduler begins to count",
    ),
    Hook(
        "sglang.srt.managers.data_parallel_controller.DataParallelController.get_init_info",
        HookType.AFTER,
        _pass_on_acknowledgement,
        ("self",),
        "the same through a data-parallel controller",
    ),
    Hook(
        "sglang.srt.entrypoints.engine.Engine._launch_scheduler_processes",
        HookType.AFTER,
        _expect_acknowledgement,
        ("cls", "server_args", "port_args", "run_scheduler_process_func"),
        "the server does not start unless every scheduler has said so",
    ),
)


CALLED = (
    ("sglang.srt.managers.scheduler._make_abort_req", ("req",)),
    ("sglang.srt.managers.scheduler.Scheduler._release_aborted_request", ("self", "req")),
    ("sglang.srt.managers.scheduler.Scheduler.send_abort_output", ("self", "abort_req", "req")),
    *(
        (f"sglang.srt.constrained.xgrammar_backend.XGrammarGrammarBackend.{name}", parameters)
        for name, parameters in (
            ("_from_context", ("self", "ctx", "key_string", "grammar_stats")),
            ("_init_value_dispatch", ("self", "key", "require_reasoning")),
            ("dispatch_json", ("self", "key_string")),
            ("dispatch_regex", ("self", "key_string")),
            ("dispatch_ebnf", ("self", "key_string")),
            ("dispatch_structural_tag", ("self", "key_string")),
        )
    ),
)
"""What the plugin calls or replaces on one object, besides hooks, and the parameters: all that a
request comes by only under way, where a change would end the scheduler."""


def register_hooks() -> None:
    """Register every hook with SGLang."""
    for hook in HOOKS:
        HookRegistry.register(hook.target, hook.handler, hook.kind)


def check() -> None:
    """Check that every hook stands on a function of the known form, and what is called as well.

    Raises:
        EngineMismatch: names each that does not, and what it is needed for.
    """
    engine = version("sglang")
    faults = [_fault(hook) for hook in HOOKS]
    faults += [_fault_of_called(*called) for called in CALLED]
    faults = [fault for fault in faults if fault]
    if faults:
        raise EngineMismatch(
            f"the lave plugin does not fit SGLang {engine} (tried: "
            f"{', '.join(TRIED_VERSIONS)}), so it could not enforce a constraint: "
            f"{'; '.join(faults)}. Install a version that was tried, or start without "
            "--constrained-decoding."
        )
    if engine not in TRIED_VERSIONS:
        logger.warning(
            "SGLang %s was not tried with the lave plugin (tried: %s); all hooked functions "
            "have the form it knows, so it goes on.",
            engine,
            ", ".join(TRIED_VERSIONS),
        )


def _fault(hook: Hook) -> str | None:
    function = _resolve(hook.target)
    if function is None:
        return f"{_short(hook.target)} does not exist ({hook.reason})"
    if hook.target not in HookRegistry._patched or not hasattr(function, "__wrapped__"):
        return f"the hook on {_short(hook.target)} does not stand ({hook.reason})"
    return _other_form(hook.target, function, hook.parameters)


def _fault_of_called(target: str, parameters: tuple[str, ...]) -> str | None:
    function = _resolve(target)
    if function is None:
        return f"{_short(target)} does not exist, which the plugin calls"
    return _other_form(target, function, parameters)


def _other_form(target: str, function: Callable, parameters: tuple[str, ...]) -> str | None:
    original = inspect.unwrap(getattr(function, "__func__", function))
    found = tuple(inspect.signature(original).parameters)
    if found[: len(parameters)] != parameters:
        return f"{_short(target)} takes ({', '.join(found)}), expected ({', '.join(parameters)})"
    return None


def _resolve(target: str) -> Callable | None:
    try:
        return pkgutil.resolve_name(target)
    except (ImportError, AttributeError):
        return None


def _short(target: str) -> str:
    return target.removeprefix("sglang.srt.")
