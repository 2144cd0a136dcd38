"""The algorithm that the user chose, with its steps verified on constrained rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from time import perf_counter
from typing import Any

import torch
from sglang.srt.managers.schedule_batch import FINISH_ABORT

from lave_plugin.batch import Row, denoise
from lave_plugin.candidates import CandidateCutter
from lave_plugin.engines.sglang import metrics
from lave_plugin.engines.sglang.admission import answers, is_constrained
from lave_plugin.engines.sglang.grammars import constraint_of
from lave_plugin.engines.sglang.parameters import sampling_of
from lave_plugin.engines.sglang.step_times import StepTimes
from lave_plugin.sampling import Draw, draw


class ConstrainedStep:
    """Stands in for ``algorithm.step`` of one worker.

    The engine's algorithm runs as it is, on the whole batch: what it writes into
    constrained rows is its proposal. Unconstrained rows keep every bit of it, and a
    batch without constrained rows goes straight through.
    """

    def __init__(self, algorithm: Any, top_k: int) -> None:
        self._algorithm = algorithm
        self._algorithm_step = algorithm.step
        self._algorithm_max_steps = algorithm.max_steps
        self._top_k = top_k
        self._cutter: CandidateCutter | None = None
        self._requests: list[Any] = []
        self.times = StepTimes()
        self._constrained, self._verifying = 0, 0.0
        # An algorithm without a threshold commits what it commits; a refused proposal
        # then only has its next best tried where nothing else was committed.
        self._threshold = float(getattr(algorithm, "threshold", 1.0))

    @contextmanager
    def on(self, requests: list[Any]) -> Iterator[None]:
        """The requests of the batch, in the order of its rows."""
        self._requests, self._constrained, self._verifying = requests, 0, 0.0
        begin = perf_counter()
        try:
            yield
        finally:
            self._requests = []
        if self._algorithm.fdfo:  # else these were the many steps of a block
            seconds = perf_counter() - begin
            self.times.add(len(requests), self._constrained, seconds, self._verifying)

    def __call__(self, forward_batch, full_logits: torch.Tensor, states: list) -> list[bool]:
        """One step; see ``DllmAlgorithm.step`` (``dllm/algorithm/base.py``)."""
        rows = []
        for index, request in enumerate(self._requests):
            if not is_constrained(request):
                continue
            if (row := self._row(index, request)) is not None:
                rows.append(row)
            elif _lost_its_constraint(request):
                _fail(request, LookupError("its grammar is gone"))
        if not rows:
            return self._algorithm_step(forward_batch, full_logits, states)

        begin = perf_counter()
        shape = (forward_batch.batch_size, self._algorithm.block_size)
        ids = forward_batch.input_ids.view(shape)
        logits = full_logits.view(*shape, -1)
        before = ids.clone()
        cutter = self._cutter_for(rows[0])
        drawn = self._draw(rows, logits, cutter)
        own = {index: logits[index].clone() for index in drawn}
        for index, of_row in drawn.items():
            logits[index] = of_row.as_logits(own[index])  # the algorithm knows no temperature
        before_algorithm = perf_counter()
        done = list(self._algorithm_step(forward_batch, full_logits, states))
        after_algorithm = perf_counter()
        for index, of_row in own.items():
            logits[index] = of_row
        outcome = denoise(
            rows,
            before,
            ids,
            logits,
            cutter=cutter,
            mask_id=self._algorithm.mask_id,
            threshold=self._threshold,
            drawn=drawn,
        )
        # In place: CUDA graphs hold on to this tensor.
        tokens = torch.from_numpy(outcome.tokens)
        if len(rows) == len(ids):
            ids.copy_(tokens)
        else:
            ids[torch.tensor([row.index for row in rows], device=ids.device)] = tokens.to(ids)
        for row, finished in zip(rows, outcome.finished, strict=True):
            done[row.index] = finished
        for place, error in outcome.errors.items():
            _fail(self._requests[rows[place].index], error)
        self._constrained = len(rows)
        self._verifying = perf_counter() - after_algorithm + before_algorithm - begin
        if metrics.of_process is not None:
            answering = [row.session for row in rows if answers(self._requests[row.index])]
            metrics.of_process.stepped(answering, self._verifying)
        return done

    def max_steps(self, block_size: int) -> int:
        """Stands in for ``algorithm.max_steps``, the bound of the synchronous loop.

        Where thinking ends inside the block, what stood behind it may be masked anew.
        """
        steps = self._algorithm_max_steps(block_size)
        return steps + block_size if any(map(_is_thinking, self._requests)) else steps

    def _row(self, index: int, request: Any) -> Row | None:
        """The row of a constrained request; ``None`` while its prompt is being read, or
        where it has no constraint (any more)."""
        constraint = constraint_of(request.grammar)
        if constraint is None or constraint.session is None:
            return None
        committed = len(request.origin_input_ids) + len(request.output_ids)
        first = committed - request.dllm_block_offset
        if first >= self._algorithm.block_size:
            return None
        return Row(index, constraint.session, request.output_ids, first)

    def _draw(
        self, rows: list[Row], logits: torch.Tensor, cutter: CandidateCutter
    ) -> dict[int, Draw]:
        """Tokens for the rows whose requests have a temperature, by index in the batch."""
        drawn = {}
        for row in rows:
            if (sampling := sampling_of(self._requests[row.index])) is not None:
                special = row.session.tokens.special_tokens
                if row.session.is_thinking:
                    special = special.union(row.session.thinking.end)
                drawn[row.index] = draw(
                    logits[row.index],
                    cutter.never(logits, special),
                    sampling,
                    len(row.answer) - row.first,
                )
        return drawn

    def _cutter_for(self, row: Row) -> CandidateCutter:
        """One cutter serves all: stop tokens of single requests stay candidates."""
        if self._cutter is None:
            self._cutter = CandidateCutter(
                row.session.tokens.vocabulary, self._algorithm.mask_id, self._top_k
            )
        return self._cutter


def _is_thinking(request: Any) -> bool:
    constraint = constraint_of(request.grammar)
    session = None if constraint is None else constraint.session
    return session is not None and session.is_thinking


def _lost_its_constraint(request: Any) -> bool:
    """Whether a request that must be constrained would get an unconstrained answer.

    The engine takes the grammar away from a request that it aborts: that one gets no
    answer. Any other would be a fault of ours, and must not pass for a valid answer.
    """
    return (
        constraint_of(request.grammar) is None
        and request.to_finish is None
        and not request.finished()
    )


def _fail(request: Any, error: Exception) -> None:
    """End ``request`` with a 500 when its block is done; the others go on."""
    request.to_finish = FINISH_ABORT(
        "The constraint failed on this request, which says nothing about others: "
        f"{type(error).__name__}: {error}",
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "InternalServerError",
    )


def constrain_algorithm(result: None, worker) -> None:
    """Hook behind ``TpModelWorker._init_dllm_algorithm``."""
    worker.lave_step = None
    if worker.dllm_algorithm is None:
        return
    from sglang.srt.dllm.config import DllmConfig

    dllm_config = DllmConfig.from_server_args(worker.server_args)
    if dllm_config.constrained_decoding != "none":
        worker.lave_step = ConstrainedStep(worker.dllm_algorithm, dllm_config.lave_options.top_k)
        worker.dllm_algorithm.step = worker.lave_step
        worker.dllm_algorithm.max_steps = worker.lave_step.max_steps
        # For an engine that refuses what its algorithms don't keep (patches/0003).
        type(worker.dllm_algorithm).enforces_grammar = True


def with_requests(original, worker, forward_batch, batch=None):
    """Hook around ``TpModelWorker._forward_batch_generation_dllm``."""
    if worker.lave_step is None or batch is None:
        return original(worker, forward_batch, batch)
    with worker.lave_step.on(batch.reqs):
        return original(worker, forward_batch, batch)
