"""SMILES of well-known molecules, and a judge of the notation that no grammar of ours is part of.

It follows the OpenSMILES specification but for what no context-free grammar says: that ring bonds
come in pairs, that valences hold.
"""

import importlib.util
from functools import cache

ELEMENTS = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As "
    "Se Br Kr Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd "
    "Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am "
    "Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og"
)

# In terminals, as lark has it: other rules than those of the grammar that ships, another parser.
LARK_GRAMMAR = r"""
start: chain (DOT chain)*
chain: unit | chain unit | chain BOND unit
unit: (ORGANIC | BRACKET) RINGS? branch*
branch: "(" BOND? chain (DOT chain)* ")"
DOT: "."
BOND: /[-=#$:\/\\]/
RINGS: /([-=#$:\/\\]?([0-9]|%[0-9]{2}))+/
ORGANIC: /Cl|Br|[BCNOPSFIbcnops*]/
BRACKET: /\[[0-9]{0,3}(ELEMENT|se|as|[bcnops*])(@@?)?(H[0-9]?)?CHARGE?(:[0-9]{1,4})?\]/
"""

MOLECULES = {
    "aspirin": "CC(=O)OC1=CC=CC=C1C(=O)O",
    "caffeine": "CN1C=NC2=C1C(=O)N(C(=O)N2C)C",
    "ibuprofen": "CC(C)CC1=CC=C(C=C1)C(C)C(=O)O",
    "paracetamol": "CC(=O)NC1=CC=C(C=C1)O",
    "nicotine": "CN1CCC[C@H]1C2=CN=CC=C2",
    "glucose": "OC[C@H]1OC(O)[C@H](O)[C@@H](O)[C@@H]1O",
    "vanillin": "COC1=C(C=CC(=C1)C=O)O",
    "dopamine": "C1=CC(=C(C=C1CCN)O)O",
    "serotonin": "C1=CC2=C(C=C1O)C(=CN2)CCN",
    "adrenaline": "CNC[C@@H](C1=CC(=C(C=C1)O)O)O",
    "melatonin": "CC(=O)NCCC1=CNC2=C1C=C(C=C2)OC",
    "morphine": "CN1CC[C@]23[C@@H]4[C@H]1CC5=C2C(=C(C=C5)O)O[C@H]3[C@H](C=C4)O",
    "penicillin G": "CC1([C@@H](N2[C@H](S1)[C@@H](C2=O)NC(=O)CC3=CC=CC=C3)C(=O)O)C",
    "cholesterol": "CC(C)CCC[C@@H](C)[C@H]1CC[C@H]2[C@@H]3CC=C4C[C@@H](O)CC[C@]4(C)[C@H]3CC[C@]12C",
    "testosterone": "C[C@]12CC[C@H]3[C@H]([C@@H]1CC[C@@H]2O)CCC4=CC(=O)CC[C@]34C",
    "ascorbic acid": "C([C@@H]([C@@H]1C(=C(C(=O)O1)O)O)O)O",
    "citric acid": "C(C(=O)O)C(CC(=O)O)(C(=O)O)O",
    "alanine": "C[C@@H](C(=O)O)N",
    "tryptophan": "C1=CC=C2C(=C1)C(=CN2)C[C@@H](C(=O)O)N",
    "histamine": "C1=C(NC=N1)CCN",
    "adenine": "C1=NC2=NC=NC(=C2N1)N",
    "adenosine": "C1=NC(=C2C(=N1)N(C=N2)[C@H]3[C@@H]([C@@H]([C@H](O3)CO)O)O)N",
    "sucrose": "OC[C@H]1O[C@@](CO)(O[C@H]2O[C@H](CO)[C@@H](O)[C@H](O)[C@H]2O)[C@@H](O)[C@@H]1O",
    "limonene": "CC1=CCC(CC1)C(=C)C",
    "menthol": "C[C@@H]1CC[C@H]([C@@H](C1)O)C(C)C",
    "camphor": "CC1(C2CCC1(C(=O)C2)C)C",
    "capsaicin": "CC(C)/C=C/CCCCC(=O)NCC1=CC(=C(C=C1)O)OC",
    "retinol": r"CC1=C(C(CCC1)(C)C)/C=C/C(=C/C=C/C(=C/CO)/C)/C",
    "oleic acid": r"CCCCCCCC/C=C\CCCCCCCC(=O)O",
    "diazepam": "CN1C(=O)CN=C(C2=C1C=CC(=C2)Cl)C3=CC=CC=C3",
    "sildenafil": "CCCC1=NN(C2=C1N=C(NC2=O)C3=C(C=CC(=C3)S(=O)(=O)N4CCN(CC4)C)OCC)C",
    "fluoxetine": "CNCCC(C1=CC=CC=C1)OC2=CC=C(C=C2)C(F)(F)F",
    "ciprofloxacin": "C1CC1N2C=C(C(=O)C3=CC(=C(C=C32)N4CCNCC4)F)C(=O)O",
    "metformin": "CN(C)C(=N)N=C(N)N",
    "omeprazole": "CC1=CN=C(C(=C1OC)C)CS(=O)C2=NC3=C(N2)C=C(C=C3)OC",
    "warfarin": "CC(=O)CC(C1=CC=CC=C1)C2=C(C3=CC=CC=C3OC2=O)O",
    "chloroquine": "CCN(CC)CCCC(C)NC1=C2C=CC(=CC2=NC=C1)Cl",
    "DDT": "C1=CC(=CC=C1C(C2=CC=C(C=C2)Cl)C(Cl)(Cl)Cl)Cl",
    "TNT": "CC1=C(C=C(C=C1[N+](=O)[O-])[N+](=O)[O-])[N+](=O)[O-]",
    "sodium benzoate": "c1ccc(cc1)C(=O)[O-].[Na+]",
    "pyrene": "c1cc2ccc3cccc4ccc(c1)c2c34",
    "thiophene": "c1ccsc1",
    "acetylcholine": "CC(=O)OCC[N+](C)(C)C",
    "methionine": "CSCC[C@@H](C(=O)O)N",
}


def can_judge() -> bool:
    """Whether lark is installed."""
    return importlib.util.find_spec("lark") is not None


@cache
def _parser():
    from lark import Lark

    # Two letters first: an alternation takes the first that fits.
    elements = "|".join(sorted(ELEMENTS.split(), key=len, reverse=True))
    grammar = LARK_GRAMMAR.replace("ELEMENT", elements)
    grammar = grammar.replace("CHARGE", r"(\+\+|\+[0-9]{0,2}|--|-[0-9]{0,2})")
    return Lark(grammar, parser="lalr")


def check(text: str) -> str | None:
    """Why ``text`` is no SMILES, or None where it is."""
    from lark.exceptions import UnexpectedInput

    try:
        _parser().parse(text)
    except UnexpectedInput as error:
        return f"no SMILES: {str(error).splitlines()[0]}"
    return None
