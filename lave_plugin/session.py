"""One constrained request across its blocks: where the grammar stands, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lave_plugin.candidates import Candidates
from lave_plugin.canvas import Canvas
from lave_plugin.grammar.automaton import DEAD
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.options import LaveOptions
from lave_plugin.strategies.intersection import Intersection
from lave_plugin.strategies.lave import Lave, Proposals
from lave_plugin.strategies.map import MostProbable
from lave_plugin.strategies.none import Unconstrained
from lave_plugin.strategies.posterior import Posterior
from lave_plugin.strategies.sampled import Sampled
from lave_plugin.strategies.sequential import Sequential
from lave_plugin.thinking import Thinking
from lave_plugin.trace import Trace

if TYPE_CHECKING:
    from lave_plugin.strategies.batched import BatchedLave
    from lave_plugin.strategies.strategy import Strategy


class BrokenConstraint(RuntimeError):
    """The answer so far is not a prefix of any sentence of the grammar.

    Every committed block had a witness, so this is a bug here or a token that reached
    the answer past the constraint; the request must fail rather than go on.
    """


_STRATEGIES = {
    "lave": Lave,
    "sequential": Sequential,
    "map": MostProbable,
    "posterior": Posterior,
    "intersection": Intersection,
    "none": Unconstrained,
}
_MAY_END_INVALID = ("intersection", "none")


def _alone(tokens: TokenAutomaton, options: LaveOptions, seed: int) -> Strategy:
    if (options.strategy, options.lookahead) == ("lave", "sampled"):
        return Sampled(tokens, options, seed)
    return _STRATEGIES[options.strategy](tokens, options, seed)


def _goes_together(tokens: TokenAutomaton, options: LaveOptions) -> bool:
    native = not isinstance(tokens, TokenAutomaton)
    return native and options.strategy == "lave" and options.lookahead == "guided"


def _together(tokens: TokenAutomaton, options: LaveOptions) -> BatchedLave:
    from lave_plugin.strategies.batched import BatchedLave

    return BatchedLave(tokens, options)


class Session:
    """What is remembered of one request.

    Attributes:
        name: of its strategy.
        token_budget: tokens that the whole answer may have, end token included.
        state: the grammar's state behind the committed blocks (the *frontier*).
        length: tokens of the answer that stand before the frontier.
        thinking: how the request thinks before the grammar begins, if it does.
        begin: tokens of the answer before the grammar begins, ``None`` while it thinks.
        trace: where its steps are written down, if they are. It then takes them alone, by the
            reference of its strategy, which decides the same and tells of it.
        batched: whether the strategy takes its steps together with those of other rows
            (``strategies.batched``), instead of by ``step``.
        ended: whether an end token stands before the frontier.
        steps: denoising steps so far.
    """

    def __init__(
        self,
        tokens: TokenAutomaton,
        options: LaveOptions,
        token_budget: int,
        seed: int = 0,
        thinking: Thinking | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.tokens = tokens
        self.token_budget = token_budget
        self.thinking = thinking
        self.trace = trace
        self.batched = trace is None and _goes_together(tokens, options)
        self.strategy: Strategy | BatchedLave = (
            _together(tokens, options) if self.batched else _alone(tokens, options, seed)
        )
        if trace is not None:
            self.strategy.counts.listener = trace.hear
        self.name = options.strategy
        self._may_end_invalid = options.strategy in _MAY_END_INVALID
        self.generation = tokens.generation
        self.steps = 0
        self._start()

    def _start(self) -> None:
        self.state = self.tokens.start
        self.length = 0
        self.begin: int | None = 0 if self.thinking is None else None
        self.ended = False

    @property
    def is_thinking(self) -> bool:
        """Whether no end of thinking has been committed in the blocks before."""
        return self.begin is None

    def follow(self, answer: Sequence[int]) -> None:
        """Move the frontier behind ``answer``, the tokens of all committed blocks.

        Only what is new is read, so after a retraction, which keeps the answer and
        drops the cache, there is nothing to do (but see ``restart_block``).

        Raises:
            BrokenConstraint: where the answer has left the grammar under a strategy that
                keeps to it.
        """
        if self.generation != self.tokens.generation:
            self._walk_again(answer)
        if len(answer) < self.length:
            self._start()
        if len(answer) == self.length:
            return
        if self.is_thinking:
            unread = max(self.length - len(self.thinking.end) + 1, 0)
            self.begin = self.thinking.behind_end(answer, unread)
        if not self.is_thinking:
            for token in answer[max(self.begin, self.length) :]:
                self.state = self.tokens.advance(self.state, token)
                self.ended = self.ended or token in self.tokens.vocabulary.end_tokens
        self.length = len(answer)
        self.strategy.start_block()
        if self.state == DEAD and not self._may_end_invalid:
            raise BrokenConstraint(
                f"after {self.length} tokens the answer is no prefix of a sentence of the grammar"
            )

    def _walk_again(self, answer: Sequence[int]) -> None:
        """The states were dropped to make room: find the frontier among the new ones."""
        self.generation = self.tokens.generation
        self.state = self.tokens.start
        if not self.is_thinking:
            for token in answer[self.begin : self.length]:
                self.state = self.tokens.advance(self.state, token)

    def restart_block(self) -> None:
        """The block begins again as masks: what was known of its canvas holds no more."""
        self.strategy.start_block()

    @property
    def tokens_left(self) -> int:
        """Tokens that the answer may still have behind the frontier."""
        return self.token_budget - self.length

    def tallies(self) -> dict[str, int]:
        """What has been counted of the request so far.

        The denoising ``steps``; how many tokens the model proposed that were ``accepted``; how
        many were refused (``refusals``), committed by recovery (``recoveries``), forced by the
        grammar (``forced_tokens``), or committed although nothing vouched for them
        (``unverified``: ``intersection`` alone counts them, ``none`` verifies nothing); and the
        searches that ended ``undecided``.
        """
        counts = self.strategy.counts
        return {
            "steps": self.steps,
            "accepted": counts.get("accepted", 0),
            "refusals": counts.get("refused", 0) + counts.get("replaced", 0),
            "recoveries": counts.get("recovered", 0),
            "forced_tokens": counts.get("forced", 0),
            "unverified": counts.get("unverified", 0),
            "undecided": counts.get("undecided", 0),
        }

    def facts(self, answer: Sequence[int]) -> dict[str, Any]:
        """What there is to say of a finished answer.

        The ``strategy``; ``complete``, whether it is a sentence of the grammar;
        ``thinking_tokens``, those before the grammar began; ``tallies``; and of the ``trace``,
        where there is one, ``new_steps``.

        Args:
            answer: its tokens, up to where it was cut.
        """
        begin = 0 if self.thinking is None else self.thinking.behind_end(answer, 0)
        state = DEAD
        if begin is not None:
            state = self.tokens.start
            for token in answer[begin:]:
                state = self.tokens.advance(state, token)
        return {
            "strategy": self.name,
            "complete": self.tokens.is_complete(state),
            "thinking_tokens": len(answer) if begin is None else begin,
            **self.tallies(),
            **self.new_steps(),
        }

    def new_steps(self) -> dict[str, Any]:
        """Under ``trace`` the steps since it was last asked; nothing without a trace."""
        if self.trace is None:
            return {}
        return {"trace": self.trace.take(self.tokens.vocabulary)}

    def step(self, canvas: Canvas, candidates: Candidates, proposals: Proposals) -> None:
        """One denoising step on ``canvas``, in place (see ``Lave.step``)."""
        if self.trace is not None:
            self.trace.expect(candidates, proposals)
        if canvas.masked() or proposals.edits:
            self.strategy.step(self.state, canvas, candidates, proposals)
