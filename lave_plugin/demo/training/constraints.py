"""The plugin's own step in the evaluation's decoder: a quick look that needs no server."""

import json
from collections.abc import Sequence
from functools import cache

import torch
import xgrammar
from tokenizers import Tokenizer
from torch import Tensor

from lave_plugin.batch import Row, denoise
from lave_plugin.candidates import CandidateCutter
from lave_plugin.demo.records import Sample
from lave_plugin.demo.training.tokenizer import END_ID, MASK_ID, SPECIAL_TOKENS
from lave_plugin.grammar.by_bytes import compile_text
from lave_plugin.grammar.compiler import automaton_of
from lave_plugin.grammar.implementation import states_over
from lave_plugin.grammar.vocabulary import Vocabulary
from lave_plugin.options import LaveOptions
from lave_plugin.session import Session

OPTIONS = LaveOptions()


class Constraints:
    """Makes sessions of samples, and takes a step for the rows that have one."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        names = [tokenizer.id_to_token(token) for token in range(tokenizer.get_vocab_size())]
        info = xgrammar.TokenizerInfo(names, xgrammar.VocabType.BYTE_LEVEL, stop_token_ids=[END_ID])
        special = len(SPECIAL_TOKENS)
        spelled = [b""] * special + info.decoded_vocab[special:]
        self._vocabulary = Vocabulary(spelled, [END_ID])
        self._cutter = CandidateCutter(self._vocabulary, MASK_ID, OPTIONS.top_k)
        self._states = cache(self._compiled)

    def _compiled(self, kind: str, text: str):
        compiled = compile_text(kind, text, OPTIONS.json_max_whitespace)
        return states_over(automaton_of(compiled), self._vocabulary)

    def session(self, sample: Sample, budget: int) -> Session | None:
        """The session of a request with the sample's constraint; None where it has none."""
        forms = {
            "json_schema": sample.schema and json.dumps(sample.schema),
            "regex": sample.regex,
            "ebnf": sample.grammar,
        }
        for kind, text in forms.items():
            if text is not None:
                return Session(self._states(kind, text), OPTIONS, budget)
        return None

    def step(
        self,
        rows: Sequence[Row],
        before: Tensor,
        after: Tensor,
        logits: Tensor,
        threshold: float,
    ) -> None:
        """Put into ``after`` what the plugin makes of it on these rows (``batch.denoise``).

        Raises:
            Exception: Whatever a row failed with.
        """
        outcome = denoise(
            list(rows),
            before,
            after,
            logits,
            cutter=self._cutter,
            mask_id=MASK_ID,
            threshold=threshold,
        )
        for error in outcome.errors.values():
            raise error
        for place, row in enumerate(rows):
            after[row.index] = torch.from_numpy(outcome.tokens[place])
