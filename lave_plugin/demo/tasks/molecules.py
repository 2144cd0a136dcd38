"""Molecules described part by part, to be written as SMILES.

A molecule is a chain or a ring of carbons with groups on numbered atoms; a group may be a chain
with groups of its own. The answer is written atom by atom in the description's order, every group
as a branch, so that there is one right text.
"""

from __future__ import annotations

from lave_plugin.demo.records import Draw, Sample, split_of
from lave_plugin.grammars import load

GROUPS = {
    "methyl": "C",
    "ethyl": "CC",
    "hydroxyl": "O",
    "amino": "N",
    "thiol": "S",
    "chlorine": "Cl",
    "fluorine": "F",
    "bromine": "Br",
    "iodine": "I",
    "cyano": "C#N",
    "carboxyl": "C(=O)O",
    "formyl": "C=O",
    "methoxy": "OC",
    "nitro": "[N+](=O)[O-]",
    "amide": "C(=O)N",
    "acetyl": "C(=O)C",
    "phenyl": "c1ccccc1",
    "cyclopropyl": "C1CC1",
}
NUMBER_WORDS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight")


def _chain(draw: Draw, length: int, depth: int) -> tuple[str, str, str]:
    """A chain as (SMILES, what is said of its groups, which kinds of parts it has)."""
    bonds = [""] * length
    bond_said, kinds = "", [f"chain {length}"]
    if length > 2 and draw.chance(0.35):
        place = draw.whole(1, length - 1)
        kind = draw.pick("double", "triple") if depth else "double"
        bonds[place] = {"double": "=", "triple": "#"}[kind]
        bond_said = f"{kind} bond after {place}"
        kinds.append(kind)
    # An atom beside a double bond may carry one group; beside a triple bond none.
    free = [
        atom
        for atom in range(1, length + 1)
        if "#" not in (bonds[atom - 1] + (bonds[atom] if atom < length else ""))
    ]
    if depth == 0:  # the first atom of a branch is bound to what carries it
        free = [atom for atom in free if atom > 1]
    carried, said, used = _groups(draw, free, depth)
    smiles = "".join(f"{bonds[atom - 1]}C{carried.get(atom, '')}" for atom in range(1, length + 1))
    said = ", ".join(part for part in (bond_said, said) if part)
    return smiles, said, " ".join(kinds + used)


def _groups(draw: Draw, free: list[int], depth: int) -> tuple[dict[int, str], str, list[str]]:
    """Groups on some of the free atoms: atom -> branch, what is said, the kinds."""
    count = min(len(free), draw.pick(1, 2, 2, 3) if depth else 1)
    carried, said, kinds = {}, [], []
    for atom in sorted(draw.rng.sample(free, count)):
        if depth and draw.chance(0.2):
            length = draw.whole(2, 4)
            inner, inner_said, inner_kinds = _chain(draw, length, 0)
            carried[atom] = f"({inner})"
            told = f" (with {inner_said})" if inner_said else ""
            said.append(f"side chain of {NUMBER_WORDS[length]}{told} on {atom}")
            kinds.append(inner_kinds)
        else:
            name = draw.pick(*GROUPS)
            # A ring inside a ring has the next number.
            carried[atom] = f"({GROUPS[name]})"
            said.append(f"{name} on {atom}")
            kinds.append(name)
    return carried, ", ".join(said), kinds


def _ring(draw: Draw) -> tuple[str, str, str]:
    """A ring as (SMILES, its description, which kinds of parts it has)."""
    name, atoms = draw.pick(
        ("benzene", "cccccc"),
        ("benzene", "cccccc"),
        ("pyridine", "nccccc"),
        ("ring of three", "CCC"),
        ("ring of four", "CCCC"),
        ("ring of five", "CCCCC"),
        ("ring of six", "CCCCCC"),
        ("piperidine", "NCCCCC"),
        ("oxane", "OCCCCC"),
    )
    free = [place for place, atom in enumerate(atoms, 1) if atom in "cC"]
    carried, said, kinds = _groups(draw, free, 1)
    parts = []
    for place, atom in enumerate(atoms, 1):
        number = "1" if place in (1, len(atoms)) else ""
        branch = carried.get(place, "")
        # Ring bond 1 is open here, so a ring in a branch is number 2.
        parts.append(atom + number + branch.replace("1", "2"))
    return "".join(parts), f"{name} with {said}", " ".join([name, *kinds])


def smiles_sample(draw: Draw) -> Sample:
    while True:
        if draw.chance(0.4):
            smiles, said, kinds = _ring(draw)
        else:
            length = draw.whole(3, 8)
            smiles, inner, kinds = _chain(draw, length, 1)
            said = f"chain of {NUMBER_WORDS[length]} with {inner}"
        if split_of(kinds) == draw.split:
            break
    return Sample("smiles", f"SMILES: {said}.", smiles, grammar=load("smiles")[1])
