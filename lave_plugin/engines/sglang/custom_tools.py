"""OpenAI's custom tools whose text has a grammar (``/v1/responses``): refused, since not enforced.

The engine makes a function with one string of such a tool, and tells the model about the grammar
in the function's description (``entrypoints/openai/responses_adapters.py``). What comes back
can be anything, and a client that sent a grammar would not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lave_plugin.engines.sglang import arguments


def refuse_grammar(description: str | None, tool_format: Mapping[str, Any] | None) -> None:
    """Hook before ``custom_tool_description``, by which each custom tool of a request comes.

    Raises:
        ValueError: which the engine answers with 400; its message and its cause are shown, one
            behind the other.
    """
    if not isinstance(tool_format, Mapping) or tool_format.get("type") != "grammar":
        return
    if arguments.constrained_decoding(_server_args()) == "none":
        return
    raise ValueError(
        "The grammar in the format of a custom tool is not enforced: SGLang only tells the model "
        "about it."
    ) from ValueError(
        "Leave the format out and describe it in the tool's description, or take a function tool "
        "with a schema of its own and tool_choice."
    )


def _server_args() -> Any:
    from sglang.srt.runtime_context import get_server_args

    return get_server_args()
