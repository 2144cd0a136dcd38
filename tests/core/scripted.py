"""An engine of a few lines with a scripted model: arbitrary logits, LowConfidence decoding.

For properties of the algorithm only. The real engine has its own tests (``tests/engine``).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import xgrammar as xgr

from lave_plugin.batch import Row, denoise
from lave_plugin.candidates import CandidateCutter
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.implementation import states_over
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.options import LaveOptions
from lave_plugin.sampling import Sampling, draw
from lave_plugin.session import Session
from lave_plugin.thinking import Thinking
from lave_plugin.trace import Trace

END, MASK_ID = 0, 1
PIECES = [b"aa", b"ab", b"ba", b"abc", b"cc", b'":', b'{"', b'"}', b"true", b"1,", b"[1", b" a"]
TEXT = [b"", b"", *(bytes([byte]) for byte in range(256)), *PIECES]
CALL, DONE = len(TEXT), len(TEXT) + 1
TOKEN_BYTES = [*TEXT, b"", b""]
VOCABULARY = Vocabulary(TOKEN_BYTES, [END])
# To xgrammar a special token is text as well, so it gets bytes that no text has.
COMPILER = xgr.GrammarCompiler(
    xgr.TokenizerInfo([*TEXT, b"\xff1", b"\xff2"], stop_token_ids=[END]), cache_enabled=False
)


def token_automaton(ebnf: str) -> TokenAutomaton:
    """States of an EBNF grammar over ``VOCABULARY``."""
    compiled = COMPILER.compile_grammar(ebnf)
    return states_over(automaton_of(compiled, {END, MASK_ID}), VOCABULARY)


def text_of(answer: list[int]) -> bytes:
    """The bytes of an answer up to its first end token."""
    end = answer.index(END) if END in answer else len(answer)
    return b"".join(TOKEN_BYTES[token] for token in answer[:end])


class ScriptedEngine:
    """Runs requests block by block with logits drawn from a seed.

    Args:
        block: block size.
        threshold: LowConfidence's.
        edits: let the model also propose edits of committed tokens, as JointThreshold does.
        sharpness: scale of the logits; high is a model that is sure of its noise.
        phrase: tokens that the model likes to write, one after another, anywhere.
        retractions: how often a request loses the block under way and begins it again.
    """

    def __init__(
        self,
        block: int,
        *,
        threshold: float = 0.7,
        edits: bool = False,
        sharpness: float = 4.0,
        seed: int = 0,
        options: LaveOptions | None = None,
        phrase: Sequence[int] = (),
        retractions: int = 0,
    ) -> None:
        self.block = block
        self.threshold = threshold
        self.edits = edits
        self.sharpness = sharpness
        self.options = options or LaveOptions()
        self.cutter = CandidateCutter(VOCABULARY, MASK_ID, self.options.top_k)
        self.sampling: Sampling | None = None
        self.random = torch.Generator().manual_seed(seed)
        self.phrase = phrase
        self.retractions = retractions

    def logits(self) -> torch.Tensor:
        """``[1, block, vocabulary]``; in every other step MASK is the model's favourite."""
        shape = (1, self.block, len(VOCABULARY))
        logits = self.sharpness * torch.randn(shape, generator=self.random)
        if torch.rand((), generator=self.random) < 0.5:
            logits[..., MASK_ID] += 4 * self.sharpness
        if self.phrase and torch.rand((), generator=self.random) < 0.1:
            place = int(torch.randint(self.block, (), generator=self.random))
            # Above all else, or second to MASK.
            liking = 20 if torch.rand((), generator=self.random) < 0.5 else 4
            for position, token in zip(range(place, self.block), self.phrase, strict=False):
                logits[0, position, token] += liking * self.sharpness
        return logits

    def propose(self, ids: torch.Tensor, logits: torch.Tensor, first: int) -> torch.Tensor:
        """What LowConfidence (with T2T edits, if asked for) makes of ``ids``."""
        probabilities, best = logits.softmax(-1).max(-1)
        masked = ids == MASK_ID
        masked[:, :first] = False
        commit = masked & (probabilities > self.threshold)
        if masked.any() and not commit.any():
            commit[0, probabilities.masked_fill(~masked, -1).argmax()] = True
        if self.edits:
            edit = ~masked
            edit[:, :first] = False
            commit |= edit & (torch.rand(ids.shape, generator=self.random) < 0.2)
        return torch.where(commit, best, ids)

    def answer(
        self,
        tokens: TokenAutomaton,
        budget: int,
        prompt_tail: int = 0,
        thinking: Thinking | None = None,
        trace: Trace | None = None,
    ) -> tuple[list[int], Session, int]:
        """Decode one request. Returns its tokens, cut at ``budget``, its session and steps."""
        session = Session(tokens, self.options, budget, thinking=thinking, trace=trace)
        answer: list[int] = []
        first, steps = prompt_tail, 0
        while not session.ended and len(answer) < budget:
            ids = torch.full((1, self.block), MASK_ID)
            ids[0, :first] = MASK_ID if steps % 2 else 7  # a prompt may hold a literal mask
            # Where thinking ends, what stood behind it may be masked anew.
            passes = 1 + (thinking is not None) + self.retractions
            for _ in range(self.block * passes + 16):
                steps += 1
                if self.retractions and torch.rand((), generator=self.random) < 0.2:
                    self.retractions -= 1
                    ids[0, first:] = MASK_ID
                    session.restart_block()
                logits = self.logits()
                drawn, shown = {}, logits
                if self.sampling is not None:
                    never = self.cutter.never(logits, tokens.special_tokens)
                    drawn = {0: draw(logits[0], never, self.sampling, len(answer) - first)}
                    shown = drawn[0].as_logits(logits[0])[None]
                outcome = denoise(
                    [Row(0, session, answer, first)],
                    ids,
                    self.propose(ids, shown, first),
                    logits,
                    drawn=drawn,
                    cutter=self.cutter,
                    mask_id=MASK_ID,
                    threshold=self.threshold,
                )
                if outcome.errors:
                    raise outcome.errors[0]
                masks_before = int((ids[0, first:] == MASK_ID).sum())
                ids = torch.from_numpy(outcome.tokens)
                masks = int((ids[0, first:] == MASK_ID).sum())
                assert masks < masks_before or masks_before == 0 or thinking, "nothing committed"
                if masks == 0 and (outcome.finished[0] or not self.edits):
                    break
            assert masks == 0, "the block did not fill"
            answer += ids[0, first:].tolist()
            session.follow(answer)
            first = 0
        return answer[:budget], session, steps
