"""Launch-time settings: what is refused at once, and what the checkpoint and the YAML say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from lave_plugin.engines.sglang import arguments
from lave_plugin.options import InvalidOptions, LaveOptions

NOT_COVERED = {
    "JointThresholdInDel": "it inserts and deletes tokens, which moves what was verified",
    "Gemma4Renoise": "it has no masks: every position is drawn anew in every step",
}
"""Algorithms whose steps the constraint cannot follow, and why."""


def check_launch(result: None, server_args) -> None:
    """Hook behind ``ServerArgs.check_server_args``: refuse before anything is loaded.

    Raises:
        ValueError: with ``--constrained-decoding lave`` on a launch that cannot keep it.
    """
    if arguments.constrained_decoding(server_args) == "none":
        return
    from sglang.srt.arg_groups.overrides import resolving_view

    launch = resolving_view(server_args)
    if launch.dllm_algorithm is None:
        raise ValueError(
            "--constrained-decoding lave is for diffusion language models: set "
            "--dllm-algorithm as well, or leave the flag out, since SGLang constrains "
            "autoregressive models by itself."
        )
    if launch.grammar_backend not in (None, "xgrammar"):
        raise ValueError(
            "--constrained-decoding lave reads the grammars that xgrammar compiles: set "
            f"--grammar-backend xgrammar instead of {launch.grammar_backend}."
        )
    try:
        options_at_launch(server_args)
    except InvalidOptions as error:
        raise ValueError(f"{launch.dllm_algorithm_config}: {error}") from error


def options_at_launch(server_args) -> LaveOptions:
    """The options of a server, read from its file where no ``DllmConfig`` is at hand.

    Raises:
        InvalidOptions: as ``options_of_server``.
    """
    from sglang.srt.arg_groups.overrides import resolving_view

    path = resolving_view(server_args).dllm_algorithm_config
    if path is None:
        return options_of_server(server_args, {})
    import yaml

    with open(path) as file:
        return options_of_server(server_args, yaml.safe_load(file) or {})


def take_mask_id(dllm_config, server_args):
    """Hook behind ``DllmConfig.from_server_args``.

    The engine has a table of mask ids by architecture (``dllm/config.py``). A checkpoint
    that names its own knows better: tiny vocabularies don't even reach the table's ids.
    """
    if dllm_config is not None and dllm_config.mask_id >= 0:
        mask_id = _checkpoint_mask_id(server_args.model_path, server_args.revision)
        if mask_id is not None:
            dllm_config.mask_id = mask_id
    return dllm_config


def add_options(dllm_config, server_args):
    """Hook behind ``DllmConfig.from_server_args``: the flag and the YAML file's options."""
    if dllm_config is not None:
        dllm_config.constrained_decoding = arguments.constrained_decoding(server_args)
        dllm_config.lave_options = options_of_server(server_args, dllm_config.algorithm_config)
    return dllm_config


def options_of_server(server_args, settings: Mapping[str, Any]) -> LaveOptions:
    """The ``lave:`` section of the settings, with the strategy that the flag names.

    ``--constrained-decoding lave`` leaves the strategy to the section.

    Raises:
        InvalidOptions: also where flag and section name two strategies.
    """
    options = LaveOptions.from_mapping(settings.get("lave"))
    flag = arguments.constrained_decoding(server_args)
    if flag in ("none", "lave", options.strategy):
        return options
    if "strategy" in (settings.get("lave") or {}):
        raise InvalidOptions(
            f"lave.strategy is {options.strategy} and --constrained-decoding {flag}: name one."
        )
    return replace(options, strategy=flag)


@lru_cache(maxsize=4)
def _checkpoint_mask_id(model_path: str, revision: str | None) -> int | None:
    """``mask_token_id`` of the checkpoint's configuration, if it names one."""
    from transformers import PretrainedConfig

    settings, _ = PretrainedConfig.get_config_dict(model_path, revision=revision)
    mask_id = settings.get("mask_token_id")
    return mask_id if isinstance(mask_id, int) else None
