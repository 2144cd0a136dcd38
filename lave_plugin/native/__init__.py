"""The states in C++, behind the interface of the Python reference.

`Automaton` and `TokenAutomaton` take what their namesakes in `grammar.automaton` and
`grammar.token_automaton` take, and decide the same; state ids may be numbered differently.
`lattice.find_witness` uses the search that comes with them, and `find_witness_batch` searches for
many rows in one call.

States are capped: see `TokenAutomaton.make_room`. A call that would unfold four times as many as
the grammar may keep raises StatesExhausted, and a search answers UNDECIDED.

All calls may come from any thread. An automaton serves one of them at a time, and the searches let
go of the interpreter's lock.

Importing this fails where it was not built; who doesn't care which implementation it gets asks
`implementation`.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, chain
from weakref import WeakKeyDictionary

import numpy

import lave_plugin.native._native as _native
from lave_plugin.grammar.automaton import TokenClasses
from lave_plugin.grammar.normal_form import RuleAutomata
from lave_plugin.grammar.token_automaton import ENDED, special_tokens
from lave_plugin.grammar.vocabulary import Vocabulary

StatesExhausted = _native.StatesExhausted

ALIVE, REFUTED, UNDECIDED = range(3)
"""Verdicts of `find_witness_batch`."""

MAX_STATES = 1 << 17
"""States of one grammar that `make_room` lets stand; about 100 MB of a C-like grammar."""

_MAX_THREADS = 8


class Automaton(_native.Automaton):
    """States of one grammar (see `lave_plugin.grammar.automaton.Automaton`)."""

    def __init__(
        self, rules: RuleAutomata | _native.RuleArrays, max_states: int = MAX_STATES
    ) -> None:
        if isinstance(rules, _native.RuleArrays):  # from `native.reader`
            super().__init__(rules=rules, max_states=max_states)
            self.token_classes = TokenClasses(())
            return
        super().__init__(
            byte_begins=_begins(rules.byte_edges),
            byte_edges=_numbers(rules.byte_edges),
            rule_begins=_begins(rules.rule_edges),
            rule_edges=_numbers(rules.rule_edges),
            final=array("B", rules.final),
            start=array("i", rules.start),
            root=rules.root,
            max_states=max_states,
            token_sets=rules.token_sets,
            token_edges=array("i", chain.from_iterable(_by_node(rules.token_edges))),
            token_budgets=array("i", chain.from_iterable(rules.token_budgets.items())),
            character_budgets=array("i", chain.from_iterable(rules.character_budgets.items())),
        )
        self.token_classes = TokenClasses(rules.token_sets)


class TokenAutomaton(_native.TokenAutomaton):
    """States over a vocabulary (see `lave_plugin.grammar.token_automaton.TokenAutomaton`)."""

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        super().__init__(automaton, _arena(vocabulary))
        self.automaton = automaton
        self.vocabulary = vocabulary
        self.special_tokens = special_tokens(automaton.token_classes, vocabulary)

    def make_room(self) -> None:
        """Drop all states if there are more than the grammar may keep.

        Afterwards `start` is another and `generation` has risen; states from before are refused
        with an IndexError, and who holds one walks its text again.
        """
        self.automaton.make_room()

    def only_end(self, state: int) -> bool:
        """Whether nothing but the end of text may follow."""
        return state == ENDED or (
            self.is_complete(state) and not self.automaton.can_continue(state)
        )

    def forced_bytes(self, state: int) -> bytes:
        """The bytes that are the only way on (see `Automaton.forced_bytes`)."""
        return b"" if state < 0 else self.automaton.forced_bytes(state)

    def drop_states(self) -> None:
        """Drop all states (see `grammar.room`)."""
        self.automaton.drop_states()

    @property
    def memory(self) -> int:
        """Bytes that the states take, about."""
        return self.automaton.memory


def find_witness_batch(
    tokens: Sequence[TokenAutomaton],
    states: numpy.ndarray,
    canvases: numpy.ndarray,
    first: numpy.ndarray,
    tokens_left: numpy.ndarray,
    candidates: numpy.ndarray,
    budget: int,
    *,
    fillers: bool = True,
    threads: int | None = None,
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """`lattice.find_witness` for many rows in one call.

    Args:
        tokens: For each row its grammar's states; rows may share them.
        states: int64 `[rows]`, the state before the canvas.
        canvases: int32 `[rows, block]`, MASKED (-1) where no token stands.
        first: int64 `[rows]`, the position where the answer begins.
        tokens_left: int64 `[rows]`, tokens that the request may still produce, counted from
            `first`.
        candidates: int32 `[rows, block, K]`, in the order to try them; the first negative id ends a
            list. Lists of positions that aren't masked are not read.
        budget: Transitions that each row may try.
        fillers: As of `lattice.find_witness`.
        threads: At most this many; rows of one grammar are searched by one thread. By default the
            machine's, at most 8.

    Returns:
        verdicts: uint8 `[rows]`: ALIVE, REFUTED or UNDECIDED.
        witnesses: int32 `[rows, block]`: a token for every masked position up to the last committed
            one of the rows that are alive, -1 elsewhere.

    Raises:
        TypeError, ValueError, IndexError: For arrays that are no such arrays, and for states that
            there are not, or no more.
    """
    return _native.find_witness_batch(
        tokens=list(tokens),
        states=states,
        canvases=canvases,
        first=first,
        tokens_left=tokens_left,
        candidates=candidates,
        budget=budget,
        fillers=fillers,
        threads=_default_threads() if threads is None else threads,
    )


Lave = _native.Lave
"""See `strategies.batched`."""


def step_batch(
    laves: Sequence[Lave],
    states: numpy.ndarray,
    canvases: numpy.ndarray,
    first: numpy.ndarray,
    tokens_left: numpy.ndarray,
    proposed: numpy.ndarray,
    best: numpy.ndarray,
    *,
    candidates: numpy.ndarray | None = None,
    probabilities: numpy.ndarray | None = None,
    stages: numpy.ndarray | None = None,
    threshold: float,
    threads: int | None = None,
) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray, dict, dict]:
    """One denoising step of many rows, as far as it goes with what is known of them.

    Args:
        laves, states, canvases, first, tokens_left, proposed, best, threshold: As of
            `strategies.batched.step`.
        candidates, probabilities: int32 and float32 `[rows, block, K]`, as of
            `candidates.CandidateArrays`, or None.
        stages: uint8 `[rows]`, where to go on; by default all rows begin.
        threads: At most this many; rows of one grammar are stepped by one thread.

    Returns:
        written: int32 `[rows, block]`, the canvases as far as the step went.
        needs: uint8 `[rows]`: 0 the step is made, 1 candidates are needed, 2 a token is.
        stages: uint8 `[rows]`: where to go on with it.
        positions: For rows that need a token: the position for it, and the state before it.
        errors: What failed, by row.

    Raises:
        TypeError, ValueError, IndexError: For arrays that are no such arrays, and for states that
            there are not, or no more.
    """
    return _native.step_batch(
        laves=list(laves),
        states=states,
        canvases=canvases,
        first=first,
        tokens_left=tokens_left,
        proposed=proposed,
        best=best,
        candidates=candidates,
        probabilities=probabilities,
        stages=numpy.zeros(len(laves), numpy.uint8) if stages is None else stages,
        threshold=threshold,
        threads=_default_threads() if threads is None else threads,
    )


def lay_out(
    before: numpy.ndarray,
    after: numpy.ndarray,
    logits: numpy.ndarray,
    index: numpy.ndarray,
    first: numpy.ndarray,
    barred: numpy.ndarray,
    mask_id: int,
) -> tuple[numpy.ndarray, ...]:
    """What a step knows of its rows before it decides, in one pass over logits in host memory.

    Args:
        before, after: int64 `[batch, block]`, the ids before and after the engine's algorithm.
        logits: float32 `[batch, block, vocabulary]`; rows may lie anywhere, but not their entries.
        index, first: int64 `[rows]`, where in the batch each row stands, and where in its block
            the answer goes on.
        barred: bool `[vocabulary]`, what no grammar may allow.
        mask_id: what stands at a mask.

    Returns:
        before: int32 `[rows, block]`, of the rows.
        canvases: the same with MASKED at the answer's masks.
        proposed: int32 `[rows, block]`, what the algorithm wrote into the answer, else MASKED.
        best: int32 `[rows, block]`, at masks the candidate to try first, which is not barred.
        owed: bool `[rows, block]`, the answer's masks.

    Raises:
        TypeError, ValueError, IndexError: For arrays that are no such arrays, and for rows and
            tokens that the logits don't have.
    """
    return _native.lay_out(
        before=before,
        after=after,
        logits=logits,
        index=index,
        first=first,
        barred=barred,
        mask_id=mask_id,
    )


def cut_candidates(
    logits: numpy.ndarray,
    index: numpy.ndarray,
    masked: numpy.ndarray,
    first: numpy.ndarray,
    never: numpy.ndarray,
    named: Sequence[Sequence[int]],
    top_k: int,
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """`candidates.CandidateCutter.cut` for logits in the host's memory.

    Args:
        logits: float32 `[batch, block, vocabulary]`; rows may lie anywhere, but not their entries.
        index: int64 `[rows]`, where in the batch each row stands.
        masked, first: bool and int32 `[rows, block]`, as of `CandidateCutter.cut`.
        never: int32, the ids that are no candidates.
        named: For each row those of them that are.

    Returns:
        tokens, probabilities: int32 and float32 `[rows, block, top_k + 1]`, as of
            `candidates.CandidateArrays`; of tokens with equal logits the lower id comes first.

    Raises:
        TypeError, ValueError, IndexError: For arrays that are no such arrays, and for rows and
            tokens that the logits don't have.
    """
    return _native.cut_candidates(
        logits=logits,
        index=index,
        masked=masked,
        first=first,
        never=never,
        named=named,
        top_k=top_k,
    )


@cache
def _default_threads() -> int:
    return min(os.cpu_count() or 1, _MAX_THREADS)


_arenas: WeakKeyDictionary[Vocabulary, _native.Vocabulary] = WeakKeyDictionary()


def _arena(vocabulary: Vocabulary) -> _native.Vocabulary:
    """The vocabulary in C++, one for all grammars; the bytes are those of what it came from."""
    arena = _arenas.get(vocabulary)
    if arena is None:
        ends = [vocabulary.end_token, *sorted(vocabulary.end_tokens - {vocabulary.end_token})]
        if vocabulary.base is not None:
            arena = _arena(vocabulary.base).with_end_tokens(ends)
        else:
            arena = _native.Vocabulary(
                bytes=b"".join(vocabulary.token_bytes),
                begins=array("q", accumulate(map(len, vocabulary.token_bytes), initial=0)),
                end_tokens=ends,
            )
        _arenas[vocabulary] = arena
    return arena


def _by_node(edges: dict[int, tuple[tuple[int, int], ...]]) -> Iterator[tuple[int, int, int]]:
    """(node, set, target), in the order of the nodes."""
    return ((node, *edge) for node in sorted(edges) for edge in edges[node])


def _begins(edges: list[tuple]) -> array:
    return array("i", accumulate(map(len, edges), initial=0))


def _numbers(edges: list[tuple]) -> array:
    return array("i", chain.from_iterable(chain.from_iterable(edges)))
