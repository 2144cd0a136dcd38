"""An independent check of finished JSON, counted in the engine's metrics.

That an answer is valid under its JSON schema is what the constraint promises; here ``jsonschema``,
which knows nothing of grammars, says whether the promise was kept. It runs beside the HTTP server,
behind the answer: nobody waits for it. It is there with ``--enable-metrics``, where jsonschema is
installed, unless ``lave: {json_check: false}`` says otherwise.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import queue
import select
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from lave_plugin.engines.sglang import config
from lave_plugin.engines.sglang.parameters import ANY_JSON

logger = logging.getLogger(__name__)

Result = Literal["valid", "invalid", "undecided"]

SECONDS = 5.0
"""For one answer, until it counts as undecided."""
STARTING_SECONDS = 60.0
"""More for the first one, which has to wait for the judge to start."""
WAITING = 256
"""Answers that may wait; what comes then is not checked."""


class Judge:
    """``json_judge`` in its process, which is started at the first question."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen | None = None

    def ask(self, schema: str, text: str) -> tuple[Result, str]:
        """What it says of ``text``, and why; a judge that takes too long is dismissed."""
        seconds = self._seconds
        if self._process is None or self._process.poll() is not None:
            seconds += STARTING_SECONDS
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.json_judge"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        try:
            self._process.stdin.write(f"{json.dumps([schema, text])}\n".encode())
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], seconds)[0]:
                raise TimeoutError
            return tuple(json.loads(self._process.stdout.readline()))
        except (OSError, TimeoutError, ValueError) as error:
            self.dismiss()
            return "undecided", type(error).__name__

    def dismiss(self) -> None:
        """End its process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class JsonChecks:
    """The checks of one process.

    Args:
        labels: those of the engine's own metrics in this process, with their values.
    """

    def __init__(self, labels: Mapping[str, Any]) -> None:
        from prometheus_client import Counter  # see metrics.py

        self._labels = dict(labels)
        self._checked = Counter(
            "lave:json_checks_total",
            "Finished JSON by what jsonschema says of it.",
            [*labels, "result"],
        )
        for result in get_args(Result):
            self._checked.labels(**self._labels, result=result)
        self._waiting: queue.Queue[tuple[str, str, str]] = queue.Queue(WAITING)
        self._judge = Judge()
        threading.Thread(target=self._run, name="lave-json-checks", daemon=True).start()

    def check(self, rid: str, schema: str, text: str) -> None:
        """Have ``text`` checked at some time."""
        try:
            self._waiting.put_nowait((rid, "true" if schema == ANY_JSON else schema, text))
        except queue.Full:
            self._count("undecided")

    def _count(self, result: Result) -> None:
        self._checked.labels(**self._labels, result=result).inc()

    def _run(self) -> None:
        while True:
            rid, schema, text = self._waiting.get()
            result, why = self._judge.ask(schema, text)
            self._count(result)
            if result == "invalid":
                logger.error(
                    "the answer to request %s is complete and not valid under its JSON schema, "
                    "says jsonschema: %s. That is a fault of the lave plugin: please report it "
                    "with the schema.",
                    rid,
                    why,
                )


class Checker:
    """Finds the answers to check among those that the tokenizer manager hands out."""

    def __init__(self) -> None:
        self._checks: JsonChecks | None = None
        self._decided = False

    def see(self, manager: Any, state: Any, facts: Mapping[str, Any], end: Any) -> None:
        """An answer with these facts is about to be finished.

        Args:
            manager: the engine's ``TokenizerManager``, in whose event loop this runs.
            state: its ``ReqState``, which gets the last tokens right behind this call.
            facts: as of ``Session.facts``.
            end: the answer's ``finish_reason``.
        """
        if not self._decided:
            self._decided = True
            if _is_wanted(manager):
                self._checks = JsonChecks(manager.metrics_collector.labels)
        if self._checks is None or not facts["complete"] or manager.tokenizer is None:
            return
        schema = (state.obj.sampling_params or {}).get("json_schema")
        if isinstance(schema, str):
            asyncio.get_running_loop().call_soon(
                self._hand_over, manager.tokenizer, state, schema, facts["thinking_tokens"], end
            )

    def _hand_over(self, tokenizer: Any, state: Any, schema: str, begin: int, end: Any) -> None:
        ids: Sequence[int] = state.output_ids[begin:]
        matched = (end or {}).get("matched")
        if isinstance(matched, str):
            return  # a stop string has cut the answer
        if ids and ids[-1] == matched:
            ids = ids[:-1]
        text = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        self._checks.check(state.obj.rid, schema, text)


def _is_wanted(manager: Any) -> bool:
    if not manager.enable_metrics or not config.options_at_launch(manager.server_args).json_check:
        return False
    if importlib.util.find_spec("jsonschema") is None:
        logger.warning("finished JSON is not checked for the metrics: jsonschema is not installed")
        return False
    return True


of_process = Checker()
