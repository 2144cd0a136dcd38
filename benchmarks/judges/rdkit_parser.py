"""RDKit as the judge of SMILES, and a source of molecules.

RDKit reads more than the notation, and looks at the molecule while it reads: what it says of ring
bonds and valences is no verdict on the notation, and is told apart.
"""

import logging
import random
import re
from pathlib import Path

from rdkit import Chem, RDConfig, rdBase

RING = "ring bonds"
VALENCE = "valence or aromaticity"

_RING = re.compile(r"unclosed ring|ring closure", re.IGNORECASE)
_SYNTAX_ERROR = re.compile(r"SMILES Parse Error: ([^:]*)")


class _Lines(logging.Handler):
    """Keeps what RDKit logs."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += record.getMessage()


_logged = _Lines()
rdBase.LogToPythonLogger()
logging.getLogger("rdkit").handlers = [_logged]
logging.getLogger("rdkit").propagate = False


def judge(text: str) -> str | None:
    """None for a valid molecule, RING, VALENCE, or what RDKit says of the notation."""
    _logged.text = ""
    if Chem.MolFromSmiles(text, sanitize=False) is not None:
        return None if Chem.MolFromSmiles(text) is not None else VALENCE
    if _RING.search(_logged.text):
        return RING
    said = _SYNTAX_ERROR.search(_logged.text)
    return said[1] if said else "refused"


def molecules(count: int, rng: random.Random) -> list[str]:
    """Molecules of the National Cancer Institute's that RDKit ships, half of them respelled."""
    lines = Path(RDConfig.RDDataDir, "NCI", "first_5K.smi").read_text().splitlines()
    texts = [line.split()[0] for line in lines]
    parsed = [(text, Chem.MolFromSmiles(text)) for text in rng.sample(texts, min(2 * count, 4500))]
    texts = [text for text, molecule in parsed if molecule is not None][:count]
    for index in range(0, count, 2):
        texts[index] = _respelled(Chem.MolFromSmiles(texts[index]), rng)
    return texts


def _respelled(molecule: Chem.Mol, rng: random.Random) -> str:
    if rng.random() < 0.3:
        for atom in molecule.GetAtoms():
            if rng.random() < 0.3:
                atom.SetAtomMapNum(rng.randrange(1, 200))
            if rng.random() < 0.3:
                atom.SetIsotope(rng.randrange(1, 250))
    kekule = rng.random() < 0.5
    if kekule:
        Chem.Kekulize(molecule, clearAromaticFlags=True)
    return Chem.MolToSmiles(
        molecule,
        doRandom=True,
        canonical=False,
        kekuleSmiles=kekule,
        allBondsExplicit=rng.random() < 0.2,
        allHsExplicit=rng.random() < 0.2,
    )
