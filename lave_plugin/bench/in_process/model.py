"""The shipped model in this process: the logits of one block behind what is committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import xgrammar

from lave_plugin.demo.training.model import TinyDLLM, block_causal, load_checkpoint
from lave_plugin.demo.training.tokenizer import (
    END_ID,
    MASK_ID,
    PAD_ID,
    SPECIAL_TOKENS,
    chat,
    load_tokenizer,
)
from lave_plugin.grammar.by_bytes import compile_text
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.implementation import states_over
from lave_plugin.grammar.token_automaton import TokenAutomaton
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.options import LaveOptions


class OtherModel(ValueError):
    """A checkpoint that only an engine can run; the message says so."""


@dataclass(frozen=True)
class Prompted:
    """A prompt's tokens, and how many of them stand in the block in which the answer begins."""

    tokens: list[int]
    first: int


class ShippedModel:
    """The network, its tokenizer, and the states of schemas over its vocabulary.

    Raises:
        OtherModel: The checkpoint is of another architecture.
    """

    def __init__(self, checkpoint: Path) -> None:
        try:
            self._model: TinyDLLM = load_checkpoint(checkpoint)
        except (KeyError, RuntimeError, OSError) as error:
            raise OtherModel(
                f"{checkpoint} can't be run without an engine ({type(error).__name__}); this "
                "table takes the model that ships, or one that was trained like it "
                "(lave_plugin.demo.training.train)."
            ) from None
        self._tokenizer = load_tokenizer(checkpoint)
        ids = self._tokenizer.get_vocab()
        info = xgrammar.TokenizerInfo(
            sorted(ids, key=ids.__getitem__),
            xgrammar.VocabType.BYTE_LEVEL,
            stop_token_ids=[END_ID],
        )
        special = {ids[token] for token in SPECIAL_TOKENS}
        self.vocabulary = Vocabulary(
            [b"" if id in special else data for id, data in enumerate(info.decoded_vocab)],
            [END_ID],
        )

    @property
    def block_size(self) -> int:
        return self._model.size.block_size

    def prompted(self, prompt: str) -> Prompted:
        tokens = self.tokens(chat(prompt))
        return Prompted(tokens, len(tokens) % self.block_size)

    def tokens(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def text(self, tokens: Sequence[int]) -> str:
        """What tokens spell up to the first end token."""
        spelled = b"".join(self.vocabulary.token_bytes[token] for token in _until_end(tokens))
        return spelled.decode(errors="replace")

    def states(self, schema: str) -> TokenAutomaton:
        """Of a JSON schema, as a server reads it."""
        compiled = compile_text("json_schema", schema, LaveOptions.json_max_whitespace)
        return states_over(automaton_of(compiled), self.vocabulary)

    @torch.inference_mode()
    def logits(self, sequences: Sequence[Sequence[int]]) -> torch.Tensor:
        """Of the last block of each sequence, float32 ``[rows, block, vocabulary]``.

        The sequences are whole blocks; ``MASK_ID`` stands where there is no token yet.
        """
        length = max(map(len, sequences))
        # Padding stands in later blocks, where block-causal attention does not look.
        token_ids = torch.tensor([[*row, *[PAD_ID] * (length - len(row))] for row in sequences])
        positions = torch.arange(length).expand(len(sequences), length)
        hidden = self._model.hidden(token_ids, positions, block_causal(length, self.block_size))
        ends = torch.tensor([len(row) for row in sequences])[:, None]
        place = ends - self.block_size + torch.arange(self.block_size)
        logits = self._model.logits(hidden[torch.arange(len(sequences))[:, None], place])
        logits[..., MASK_ID] = -torch.inf
        return logits


def _until_end(tokens: Sequence[int]) -> Sequence[int]:
    return tokens[: tokens.index(END_ID)] if END_ID in tokens else tokens
