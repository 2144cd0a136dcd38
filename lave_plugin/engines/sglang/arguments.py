"""The flag ``--constrained-decoding``, and its way to the scheduler processes."""

from __future__ import annotations

import argparse
import sys
from typing import Any

CHOICES = ("none", "lave", "sequential", "map", "posterior", "intersection")
"""``none`` refuses constrained requests. That a constraint be taken and deliberately not kept
is a strategy as well, which only ``lave: {strategy: none}`` or a request itself can choose."""
# ServerArgs is a msgspec struct without room for a new field, but it lets a name with
# an underscore through and carries it when pickled (server_args.py, __reduce__).
_ATTRIBUTE = "_constrained_decoding"


def constrained_decoding(server_args: Any) -> str:
    """The flag's value for this server: one of ``CHOICES``."""
    return getattr(server_args, _ATTRIBUTE, "none")


class _Flag(argparse.Action):
    """Checks the hooks the moment the flag is met.

    The hook that carries the value on might be the one that does not stand.
    """

    def __call__(self, parser, namespace, value, option_string=None) -> None:
        if value != "none":
            from lave_plugin.engines.sglang import contract

            try:
                contract.check()
            except contract.EngineMismatch as mismatch:
                parser.error(str(mismatch))
        setattr(namespace, self.dest, value)


def add_flag(result: None, parser: argparse.ArgumentParser) -> None:
    """Hook behind ``ServerArgs.add_cli_args``."""
    parser.add_argument(
        "--constrained-decoding",
        dest=_ATTRIBUTE,
        action=_Flag,
        choices=CHOICES,
        default="none",
        help="(lave plugin) How a diffusion language model is made to obey json_schema, "
        "regex, ebnf and structural_tag: by lookahead and verification ('lave'), or by "
        "another strategy of the literature. With 'none' such requests are refused. Options "
        "of the method stand under 'lave:' in the file of --dllm-algorithm-config.",
    )


def carry_flag(original, cls, args: argparse.Namespace):
    """Hook around ``ServerArgs.from_cli_args``."""
    server_args = original(cls, args)
    setattr(server_args, _ATTRIBUTE, getattr(args, _ATTRIBUTE, "none"))
    return server_args


def extend_engine_class() -> None:
    """Let ``sglang.Engine`` take ``constrained_decoding=``.

    ``Engine.__init__`` loads the plugins and then builds its arguments with
    ``self.server_args_class``. Where the engine's module is not loaded yet this is a
    server's process, which has the flag instead.
    """
    module = sys.modules.get("sglang.srt.entrypoints.engine")
    if module is None:
        return
    server_args_class = module.Engine.server_args_class

    def make_server_args(*args, constrained_decoding: str = "none", **kwargs):
        from lave_plugin.engines.sglang import contract

        if constrained_decoding not in CHOICES:
            raise ValueError(
                f"constrained_decoding must be one of {', '.join(CHOICES)}, "
                f"got {constrained_decoding!r}"
            )
        if constrained_decoding != "none":
            contract.check()
        server_args = server_args_class(*args, **kwargs)
        setattr(server_args, _ATTRIBUTE, constrained_decoding)
        return server_args

    module.Engine.server_args_class = staticmethod(make_server_args)
