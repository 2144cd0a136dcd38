"""The adapter for SGLang, loaded through its plugin group ``sglang.srt.plugins``.

SGLang calls ``register`` in every one of its processes, before it parses its command
line. What is hooked, and why, stands in ``contract.py``.
"""

from __future__ import annotations


def register() -> None:
    """Register the hooks; SGLang applies them right after."""
    from lave_plugin.engines.sglang import arguments, contract

    contract.register_hooks()
    arguments.extend_engine_class()
