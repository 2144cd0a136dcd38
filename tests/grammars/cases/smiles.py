"""SMILES after OpenSMILES, its examples and their neighbours."""

ACCEPTED = {
    "atoms": ["C", "Cl", "Br", "c1ccccc1", "*", "[H]", "[Au]", "[Og]", "[se]1cccc1"],
    "brackets": ["[13CH4]", "[238U]", "[NH4+]", "[OH-]", "[Cu++]", "[Cu+2]", "[O--]", "[CH4:200]"],
    "hydrogens": ["[CH]", "[CH0]", "[H+]", "[2H]C", "[ClH]"],
    "bonds": ["CC", "C-C", "C=C", "C#N", "C$C", "c:c", "C/C=C/C", "C/C=C\\C", "CC.CC", "[Na+].[Cl-]"],
    "branches": ["CC(C)C", "C(C)(C)C", "C(=O)O", "CC(C(C)(C)C)C", "C(.C)C", "C(C.C)C"],
    "ring bonds": ["C1CCCCC1", "C=1CCCCC=1", "C0CC0", "C%12CC%12", "C12CC1CC2", "C%01CC1", "C1CC%01"],
    "chirality": ["N[C@](C)(F)O", "N[C@@H](C)O", "[C@TH1](F)(Cl)(Br)I", "F[As@TB20](Cl)(S)(Br)N"],
    "more chirality": ["NC(Br)=[C@AL1]=C(O)C", "F[Po@SP3](Cl)(Br)I", "C[Co@OH30](F)(Cl)(Br)(I)S"],
    "what only chemistry forbids": ["C1CC", "C(=O)(=O)(=O)=O", "c1ccc1", "C11", "F=F"],
}

REFUSED = {
    "nothing": ["", " "],
    "bonds with one end": ["C=", "=C", "C==C", "C=(C)", "C-", "C.", ".C", "C..C", "C.=C"],
    "branches": ["(C)", "C(", "C)", "C()", "C((C))", "C(C", "C(C=)C", "C(-)C"],
    "ring bonds before an atom or behind a branch": ["1CC1", "C(C)1CC1", "%11C"],
    "ring bonds of half a number": ["C%1", "C%", "C%1C"],
    "brackets": ["[", "[]", "[C", "C]", "[CC]", "[1]", "[H2]", "[+]", "[C@@@]", "[C+-]", "[C:]", "[C:a]"],
    "their parts in another order": ["[C+H]", "[HC]", "[C:1+]", "[C@13]", "[H@C]", "[CH@]"],
    "elements that aren't": ["[Xx]", "[cl]", "Q", "A", "D", "R", "[Jo]", "Na", "H", "Fe"],
    "charges": ["[C+16]", "[C---]", "[C+-1]"],
    "chirality that isn't": ["[C@TH3]", "[C@SP4]", "[C@TB21]", "[C@OH31]", "[C@XX1]"],
    "blanks": ["C C", " C", "C ", "C\n"],
}
