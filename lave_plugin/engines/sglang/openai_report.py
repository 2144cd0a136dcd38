"""What an answer of the OpenAI API says of its constraint, where its request asks for it.

The request does so with ``custom_params: {"lave": {"report": true}}``; the facts are those of
``meta_info`` (``response.py``). They stand under ``metadata``, beside the weight version that the
engine puts there: a list, one for each choice, ``null`` where a choice has none.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from lave_plugin.engines.sglang.response import KEY


def wants_report(request: Any) -> bool:
    """Whether a request of the OpenAI API asks for the facts."""
    chosen = (request.custom_params or {}).get("lave")
    return isinstance(chosen, Mapping) and chosen.get("report") is True


def add_report(result: Any, serving: Any, request: Any, ret: list[dict[str, Any]], created: int):
    """Hook behind ``_build_chat_response`` and ``_build_completion_response``."""
    if wants_report(request) and hasattr(result, "choices"):
        facts = [answer["meta_info"].get(KEY) for answer in ret]
        result.metadata = {**(result.metadata or {}), KEY: facts}
    return result


def add_report_to_stream(
    original,
    serving: Any,
    content: dict[str, Any],
    index: int,
    request: Any,
    *args: Any,
    **kwargs: Any,
) -> AsyncIterator[str]:
    """Hook around ``OpenAIServingChat._generate_stream_content``.

    The facts of a choice come behind its last text, in a chunk of their own.
    """
    chunks = original(serving, content, index, request, *args, **kwargs)
    facts = content["meta_info"].get(KEY)
    if facts is None or not wants_report(request):
        return chunks
    chunk = {
        "id": content["meta_info"]["id"],
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": request.model,
        "choices": [{"index": index, "delta": {}, "finish_reason": None}],
        "metadata": {KEY: [facts]},
    }
    return _followed_by(chunks, f"data: {json.dumps(chunk)}\n\n")


async def _followed_by(chunks: AsyncIterator[str], last: str) -> AsyncIterator[str]:
    async for chunk in chunks:
        yield chunk
    yield last
