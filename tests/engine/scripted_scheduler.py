"""The plugin's side of a scheduler, as a process: what became of each request, as JSON.

``ConstrainedStep`` and ``admit`` on objects that have what they read of SGLang's, with a model
whose logits are a function of request, block and pass through that block, so that whatever
else happens a request should get the same answer. The scenarios are those that no request of
the real engine comes to (see ``test_wrapper.py``), and those that one can't time there.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from zlib import crc32

import torch
import xgrammar as xgr
from scripted import COMPILER, END, MASK_ID, VOCABULARY, text_of, token_automaton
from sglang.srt.managers.schedule_batch import FINISH_ABORT

from lave_plugin.engines.sglang import response
from lave_plugin.engines.sglang.admission import admit
from lave_plugin.engines.sglang.grammars import LaveGrammar
from lave_plugin.engines.sglang.stepping import ConstrainedStep
from lave_plugin.options import LaveOptions
from lave_plugin.session import Session
from lave_plugin.trace import Trace, join, nothing_told

BLOCK, BUDGET, ROUNDS = 8, 30, 200
GRAMMARS = {
    "arithmetic": 'root ::= term (("+" | "-") term)*\nterm ::= [0-9]+ | "(" root ")"',
    "list": 'root ::= "[" item ("," item){5,8} "]"\nitem ::= [0-9]{1,2}',
    "bounded": "root ::= [a-c]{19,23}",
    "free": None,
}


class Request:
    """What is read of the engine's ``Req``."""

    def __init__(self, rid: str, prompt_length: int) -> None:
        self.rid = rid
        self.origin_input_ids = [7] * prompt_length
        self.output_ids: list[int] = []
        self.to_finish = None
        self.mood = 0  # part of what its logits go by
        constrained = GRAMMARS[rid] is not None
        self.sampling_params = SimpleNamespace(
            json_schema=None,
            regex=None,
            ebnf=GRAMMARS[rid],
            structural_tag=None,
            top_k=1,
            sampling_seed=None,
            custom_params=None,
            max_new_tokens=BUDGET,
        )
        self.grammar = None
        if constrained:
            self.grammar = LaveGrammar.__new__(LaveGrammar)
            self.session = Session(token_automaton(GRAMMARS[rid]), LaveOptions(), BUDGET)
            self.grammar.session = self.session
        self.begin_block()

    @property
    def dllm_block_offset(self) -> int:
        return (len(self.origin_input_ids) + len(self.output_ids)) // BLOCK * BLOCK

    @property
    def output_ids_through_stop(self) -> list[int]:
        end = self.output_ids.index(END) + 1 if END in self.output_ids else BUDGET
        return self.output_ids[:end]

    @property
    def _first(self) -> int:
        return len(self.origin_input_ids) + len(self.output_ids) - self.dllm_block_offset

    def begin_block(self) -> None:
        self.passes = 0
        self.block = [7] * self._first + [MASK_ID] * (BLOCK - self._first)

    def end_block(self) -> None:
        self.output_ids += self.block[self._first :]
        self.begin_block()

    def finished(self) -> bool:
        return END in self.output_ids or len(self.output_ids) >= BUDGET

    def logits(self) -> torch.Tensor:
        self.passes += 1
        seed = crc32(f"{self.rid} {self.dllm_block_offset} {self.passes} {self.mood}".encode())
        generator = torch.Generator().manual_seed(seed)
        return 4 * torch.randn((BLOCK, len(VOCABULARY)), generator=generator)


class LowConfidence:
    """The engine's algorithm, in short."""

    block_size, mask_id, threshold, fdfo = BLOCK, MASK_ID, 0.6, True

    def max_steps(self, block_size: int) -> int:
        return block_size + 1

    def step(self, forward_batch, full_logits: torch.Tensor, states: list) -> list[bool]:
        ids = forward_batch.input_ids.view(-1, BLOCK)
        probabilities, best = full_logits.view(*ids.shape, -1).softmax(-1).max(-1)
        masked = ids == MASK_ID
        commit = masked & (probabilities > self.threshold)
        surest = probabilities.masked_fill(~masked, -1).argmax(-1, keepdim=True)
        commit |= masked & ~commit.any(1, keepdim=True) & (torch.arange(BLOCK) == surest)
        ids[commit] = best[commit]
        return (~masked).all(1).tolist()


class Scheduler:
    """Rounds of one forward pass and one step (first-done-first-out)."""

    dllm_config = SimpleNamespace(lave_options=LaveOptions())

    def __init__(self) -> None:
        self.step = ConstrainedStep(LowConfidence(), 16)
        self.requests = {
            rid: Request(rid, prompt_length=3 * place) for place, rid in enumerate(GRAMMARS)
        }
        self.running = list(self.requests.values())

    def round(self) -> None:
        batch = SimpleNamespace(
            batch_size=len(self.running),
            input_ids=torch.tensor([request.block for request in self.running]).flatten(),
        )
        logits = torch.cat([request.logits() for request in self.running])
        with self.step.on(self.running):
            done = self.step(batch, logits, [None] * len(self.running))
        for request, ids, is_done in zip(
            self.running, batch.input_ids.view(-1, BLOCK).tolist(), done, strict=True
        ):
            request.block = ids
            if is_done:
                request.end_block()
        self.running = [
            request
            for request in self.running
            if not request.finished() and not (request.to_finish and request.passes == 0)
        ]

    def take_back(self, rid: str) -> Request | None:
        """What the engine drops of a request: its block under way (``reset_for_retract``)."""
        request = self.requests[rid]
        if request not in self.running:
            return None
        self.running.remove(request)
        request.begin_block()
        return request

    def readmit(self, request: Request) -> None:
        admit(lambda _, back, again: self.running.append(back), self, request, True)


def undisturbed(scheduler: Scheduler, number: int) -> None:
    pass


def retracted(at: int, rid: str, away: int = 2):
    """Taken back before round ``at``, and admitted again some rounds later."""

    def disturb(scheduler: Scheduler, number: int) -> None:
        if number == at:
            scheduler.away = scheduler.take_back(rid)
        if number == at + away and scheduler.away is not None:
            scheduler.readmit(scheduler.away)

    return disturb


def retracted_again_and_again(scheduler: Scheduler, number: int) -> None:
    if number in (2, 4, 7, 12) and (request := scheduler.take_back("bounded")):
        scheduler.readmit(request)


def retracted_and_of_another_mind(scheduler: Scheduler, number: int) -> None:
    """What was known of the lost canvas, its witness above all, says nothing of the new one."""
    if number % 3 == 2 and number < 60 and (request := scheduler.take_back("list")):
        request.mood += 1
        scheduler.readmit(request)


def order_changes(scheduler: Scheduler, number: int) -> None:
    scheduler.running[:] = scheduler.running[1:] + scheduler.running[:1]


def aborted(scheduler: Scheduler, number: int) -> None:
    """As ``Scheduler.abort_request`` leaves it: without its grammar until its block is done."""
    if number == 3:
        request = scheduler.requests["bounded"]
        request.grammar, request.to_finish = None, FINISH_ABORT()


def without_its_grammar(scheduler: Scheduler, number: int) -> None:
    """Which nothing in the engine does: a fault that must not pass for an answer."""
    if number == 3:
        scheduler.requests["bounded"].grammar = None


def comes_later(scheduler: Scheduler, number: int) -> None:
    if number == 0:
        scheduler.running.remove(scheduler.requests["arithmetic"])
    if number == 4:
        scheduler.running.append(scheduler.requests["arithmetic"])


SCENARIOS = {
    "undisturbed": undisturbed,
    "retracted in its first block": retracted(3, "bounded"),
    "retracted in a later block": retracted(11, "bounded"),
    "retracted before its first pass": retracted(0, "bounded"),
    "retracted, alone when it comes back": retracted(5, "list", away=60),
    "retracted again and again": retracted_again_and_again,
    "retracted, and the model of another mind": retracted_and_of_another_mind,
    "the order of the batch changes": order_changes,
    "aborted in the middle of a block": aborted,
    "without its grammar": without_its_grammar,
    "a request comes later": comes_later,
}


def is_sentence(request: Request) -> bool | None:
    """xgrammar's word on the answer; ``None`` where nothing was asked of it."""
    if (ebnf := GRAMMARS[request.rid]) is None:
        return None
    matcher = xgr.GrammarMatcher(COMPILER.compile_grammar(ebnf), terminate_without_stop_token=True)
    return matcher.accept_string(text_of(request.output_ids)) and matcher.is_terminated()


def run(disturb) -> dict[str, dict]:
    scheduler = Scheduler()
    for number in range(ROUNDS):
        disturb(scheduler, number)
        if scheduler.running:
            scheduler.round()
    assert not scheduler.running, "no end"
    return {
        rid: {
            "ids": request.output_ids,
            "failure": request.to_finish and request.to_finish.to_json(),
            "valid": is_sentence(request),
        }
        for rid, request in scheduler.requests.items()
    }


def traced(stream: bool, read_every: int = 1) -> dict[str, dict]:
    """What a reader is told of the steps, who comes to read only in some rounds."""
    scheduler = Scheduler()
    requests = [r for r in scheduler.requests.values() if r.grammar is not None]
    told, states = {}, {}
    for request in scheduler.requests.values():
        request.stream, request.finished_reason = stream, None
        told[request.rid], states[request.rid] = nothing_told(), SimpleNamespace(out_list=[])
    for request in requests:
        trace = Trace()
        request.session = Session(
            token_automaton(GRAMMARS[request.rid]), LaveOptions(), BUDGET, trace=trace
        )
        request.grammar.session = request.session
    manager = SimpleNamespace(enable_metrics=False)
    for number in range(ROUNDS):
        batch = list(scheduler.running)
        if not batch:
            break
        scheduler.round()
        sent = [request for request in batch if stream or request.finished()]
        info = response.add_facts({}, None, sent)
        for index, request in enumerate(sent):
            state, meta_info = states[request.rid], {}
            end = {"type": "stop"} if request.finished() else None
            if info:
                response.report_facts(lambda *_: None, manager, meta_info, state, info, index, end)
            state.out_list.append({"meta_info": meta_info})
            if end or number % read_every == 0:
                part = state.out_list[-1]["meta_info"].get(response.KEY, {}).get("trace")
                state.out_list = []
                if part is not None:
                    join(told[request.rid], part)
    return told


if __name__ == "__main__":
    outcomes = {name: run(disturb) for name, disturb in SCENARIOS.items()}
    outcomes["traced"] = {
        "whole": traced(stream=False),
        "streamed": traced(stream=True),
        "streamed to a slow reader": traced(stream=True, read_every=7),
    }
    json.dump(outcomes, sys.stdout)
