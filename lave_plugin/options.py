"""What can be set about the method, with its defaults and its limits.

A server sets them in the YAML file of ``--dllm-algorithm-config``, under ``lave:``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

Strategy = Literal["lave", "sequential", "map", "posterior", "intersection", "none"]
Lookahead = Literal["guided", "sampled"]
Confidence = Literal["constrained", "model"]
Gaps = Literal["any", "exact"]
Posterior = Literal["mar", "mf", "draws"]
Sampler = Literal["chain", "tree"]
_CHOICES = {
    "strategy": Strategy,
    "lookahead": Lookahead,
    "confidence": Confidence,
    "gaps": Gaps,
    "posterior": Posterior,
    "sampler": Sampler,
}


class InvalidOptions(ValueError):
    """An option that is unknown or out of range; the message says which and what is allowed."""


@dataclass(frozen=True)
class LaveOptions:
    """Options of LAVE (arXiv 2602.00612; the letters are the paper's)."""

    top_k: int = 16
    """Candidates of a masked position that a lookahead may use, most probable first (K)."""
    attempts: int = 5
    """Refusals in a row before a step recovers from the witness (tau)."""
    search_budget: int = 1024
    """Lattice nodes that one guided lookahead may enter; undecided counts as refused."""
    plausibility: float = 0.5
    """A guided lookahead first assumes only tokens of at least this probability for the
    masks it has to fill (and each position's best); anything else the grammar allows it
    assumes where nothing could be committed so."""
    confidence: Confidence = "constrained"
    """What the order of candidates goes by after a refusal: the smaller one of the model's
    probability and the posterior under the grammar, or the model's probability alone. The
    sampled lookahead takes the latter."""
    forced_tokens: bool = True
    """Commit at once, without a forward pass, what the grammar leaves no choice about."""
    json_max_whitespace: int | None = 32
    """Characters of whitespace in a row that JSON may have between its parts: a model that
    is not sure how to go on may else fill its whole answer with blanks. ``None`` for no
    limit; the engine's --constrained-json-max-whitespace-cnt goes first."""
    json_check: bool = True
    """Where the engine has metrics, have ``jsonschema`` check finished JSON, and count."""
    lookahead: Lookahead = "guided"
    """``guided``: best first, exact over the candidates.
    ``sampled``: the paper's Algorithm 1 as it stands (see ``strategies.sampled``)."""
    samples: int = 10
    """Distinct fillings that one sampled lookahead draws (N)."""
    strategy: Strategy = "lave"
    """How a step decides; a request may choose another. ``lave``, ``sequential``, ``map`` and
    ``posterior`` end every answer valid. ``intersection`` may not, and ``none`` does not try."""
    max_states: int = 256
    """``map`` and ``posterior``: states of a layer of the lattice that are kept, where it is
    unfolded over the candidates."""
    regular_states: int = 5000
    """``map`` and ``posterior``: states that a grammar may have for a step to weigh the whole
    vocabulary. With more it weighs the candidates, as always with 0."""
    posterior: Posterior = "mar"
    """What ``posterior`` commits. ``mar``: the tokens with the highest posterior marginals.
    ``mf``: those that the model itself is surest of, among the tokens that some filling has.
    ``draws``: a block drawn from the posterior."""
    sampler: Sampler = "chain"
    """How ``draws`` draws over the whole vocabulary: token by token, or by the ``tree`` of
    logarithmic depth on the device of the logits, where a layer has at most 1,024 states."""
    gaps: Gaps = "any"
    """What a run of masks stands for in ``intersection``: ``any`` text, as in the paper, or
    ``exact``, so many tokens."""
    completion: bool = False
    """Whether ``intersection`` completes an answer that its budget would cut (Con.; without:
    Con.-)."""

    def __post_init__(self) -> None:
        for name in (
            *("top_k", "attempts", "search_budget", "samples", "json_max_whitespace"),
            *("max_states", "regular_states"),
        ):
            value = getattr(self, name)
            if name == "json_max_whitespace" and value is None:
                continue
            least = 0 if name == "regular_states" else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidOptions(
                    f"lave.{name} must be a whole number of at least {least}, got {value!r}."
                )
        if not isinstance(self.plausibility, int | float) or not 0 <= self.plausibility <= 1:
            raise InvalidOptions(
                f"lave.plausibility must be a probability, 0 to 1, got {self.plausibility!r}."
            )
        for name in ("forced_tokens", "completion", "json_check"):
            if not isinstance(value := getattr(self, name), bool):
                raise InvalidOptions(f"lave.{name} must be true or false, got {value!r}.")
        for name, choices in _CHOICES.items():
            if (value := getattr(self, name)) not in get_args(choices):
                raise InvalidOptions(
                    f"lave.{name} must be one of {', '.join(get_args(choices))}, got {value!r}."
                )

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any] | None) -> LaveOptions:
        """Read the ``lave:`` section of a configuration; ``None`` gives the defaults.

        Raises:
            InvalidOptions: for a name or a value that is not allowed.
        """
        if mapping is None:
            return cls()
        if not isinstance(mapping, Mapping):
            raise InvalidOptions(f"lave: must be a mapping of options, got {mapping!r}.")
        known = [field.name for field in fields(cls)]
        unknown = sorted(str(name) for name in mapping if name not in known)
        if unknown:
            raise InvalidOptions(
                f"lave.{unknown[0]} is not an option; the options are {', '.join(known)}."
            )
        return cls(**mapping)
