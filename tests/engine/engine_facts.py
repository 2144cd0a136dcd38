"""What the engine does by itself where a patch changes it, as JSON.

``python engine_facts.py CHECKPOINT CHECKPOINT_THAT_NAMES_NO_MASK PLUGIN...``, with the engine that
is meant, and the plugins, on the path, and no plugin loaded (``SGLANG_PLUGINS=none``).
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import sys
from types import SimpleNamespace
from typing import Any

CONSTRAINTS = ("json_schema", "regex", "ebnf", "structural_tag")


def mask_id(checkpoint: str) -> int:
    from sglang.srt.dllm.config import DllmConfig
    from sglang.srt.server_args import ServerArgs

    arguments = ServerArgs(model_path=checkpoint, dllm_algorithm="LowConfidence", device="cpu")
    return DllmConfig.from_server_args(arguments).mask_id


def refusals(enforced: bool) -> dict[str, str | None]:
    """By the parameter that constrains the request, ``free`` where none does."""
    from sglang.srt.dllm.algorithm import get_algorithm_cls

    algorithm = get_algorithm_cls("LowConfidence")
    if enforced:
        algorithm = type("Enforcing", (algorithm,), {"enforces_grammar": True})
    return {
        name: algorithm.validate_request(
            SimpleNamespace(
                sampling_params=SimpleNamespace(**{**dict.fromkeys(CONSTRAINTS), name: "x"})
            )
        )
        for name in (*CONSTRAINTS, "free")
    }


def steps_of_a_block_that_likes_its_masks(name: str) -> int | None:
    """How many an algorithm takes where the mask is every position's favourite; None: no end."""
    import torch
    from sglang.srt.dllm.algorithm import get_algorithm_cls

    block, mask = 8, 3
    config = SimpleNamespace(
        algorithm_config={}, block_size=block, mask_id=mask, first_done_first_out_mode=True
    )
    algorithm = get_algorithm_cls(name)(config)
    batch = SimpleNamespace(
        batch_size=1,
        input_ids=torch.full((block,), mask),
        dllm_prompt_mask=torch.zeros(1, block, dtype=torch.bool),
    )
    states = algorithm.init_step_state(batch)
    for step in range(4 * block):
        logits = torch.rand(block, 16, generator=torch.Generator().manual_seed(step))
        logits[:, mask] = 9.0
        if algorithm.step(batch, logits, states) == [True]:
            return None if mask in batch.input_ids.tolist() else step
    return None


def options_in_a_subprocess() -> dict[str, Any]:
    """What another process is told of three options that are no fields of ``ServerArgs``."""
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    parser.add_argument("--own", dest="_own")
    parser.add_argument("--left", dest="_left", default="as it was")
    parser.add_argument("--public")
    command_line = ["--model-path", "m", "--own", "chosen", "--public", "chosen"]
    arguments = ServerArgs.from_cli_args(parser.parse_args(command_line))
    copy = pickle.loads(pickle.dumps(arguments))
    return {name: getattr(copy, name, None) for name in ("_own", "_left", "public")}


def failure(plugin: str, required: bool) -> str | None:
    """What ``load_plugins`` raises with ``plugin`` alone."""
    from sglang.srt import plugins

    plugins._plugins_loaded = False
    plugins.HookRegistry.reset()
    os.environ["SGLANG_PLUGINS"] = plugin
    os.environ["SGLANG_REQUIRED_PLUGINS"] = plugin if required else ""
    try:
        plugins.load_plugins()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def main(checkpoint: str, names_no_mask: str, *plugins: str) -> None:
    facts = {
        "mask ids": [mask_id(checkpoint), mask_id(names_no_mask)],
        "refused": refusals(enforced=False),
        "refused where enforced": refusals(enforced=True),
        "steps": {
            name: steps_of_a_block_that_likes_its_masks(name)
            for name in ("LowConfidence", "JointThreshold")
        },
        "options": options_in_a_subprocess(),
        "required": {plugin: failure(plugin, True) for plugin in plugins},
        "not required": {plugin: failure(plugin, False) for plugin in plugins},
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main(*sys.argv[1:])
