"""Is an answer right? Judged by what it says, not by how it is written.

Published scorers of the same tasks go wrong in two ways that are avoided here: the SMILES score
of IG-CD (arXiv 2508.10111) and LAVE (arXiv 2602.00612) reads a key that is not there and is
always 0, and IG-CD's score of JSON depends on the order of the keys.
"""

from __future__ import annotations

import importlib.util
import json
import re
from math import comb
from typing import Any, NoReturn


class Unscorable(RuntimeError):
    """What a score needs is not installed; the message says what."""


# --- JSON ---------------------------------------------------------------------------------


def same_json(answer: str, reference: str) -> bool:
    """Whether both are the same JSON value.

    The order of keys and blanks between the parts don't count, 1.0 is 1, and ``true`` is not 1.
    What is not JSON by RFC 8259, or names a key twice, is no value.
    """
    try:
        return _as_compared(_value(answer)) == _as_compared(_value(reference))
    except ValueError:
        return False


def _value(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _as_compared(value: Any) -> Any:
    """In Python, True == 1; here each value stands beside its kind."""
    if isinstance(value, dict):
        return {key: _as_compared(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_compared(inner) for inner in value]
    return isinstance(value, bool), value


# --- SMILES -------------------------------------------------------------------------------


def has_rdkit() -> bool:
    return importlib.util.find_spec("rdkit") is not None


def same_molecule(answer: str, reference: str) -> bool:
    """Whether RDKit writes both as the same canonical SMILES.

    Raises:
        Unscorable: RDKit is not installed.
    """
    if not has_rdkit():
        raise Unscorable("RDKit is not installed (pip install rdkit): SMILES are not scored.")
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        molecules = [Chem.MolFromSmiles(text.strip()) for text in (answer, reference)]
        if any(molecule is None or not molecule.GetNumAtoms() for molecule in molecules):
            return False
        first, second = (Chem.MolToSmiles(molecule) for molecule in molecules)
    return first == second


# --- all kinds ----------------------------------------------------------------------------

FENCED = re.compile(r"```[a-zA-Z+]*\n(.*?)(?:```|\Z)", re.DOTALL)


def unfenced(answer: str) -> str:
    """What stands in the first code fence of an answer, or the whole of it without one.

    Unconstrained models wrap code in fences, and the papers' scorers look inside as well.
    """
    found = FENCED.search(answer)
    return found[1] if found else answer


def at_k(samples: int, right: int, k: int) -> float:
    """The probability that one of ``k`` out of ``samples`` answers is right, ``right`` being so.

    The unbiased estimate of Chen et al. (arXiv 2107.03374, eq. 1).

    Raises:
        ValueError: ``k`` is larger than ``samples``.
    """
    if k > samples:
        raise ValueError(f"@{k} needs {k} samples, there are {samples}")
    return 1.0 - comb(samples - right, k) / comb(samples, k)
