"""Words that exist nowhere and are built as English ones are, such as ``transcapment``.

Who must copy a word copies it piece by piece, and the pieces of a real word that training never had
are those of words like it: ``con·duct·or``, ``cap·acity``. So the tokenizer and the model have to
meet them all.
"""

import random
from collections.abc import Sequence


def words(text: str) -> list[str]:
    return text.split()


PREFIXES = words(
    "a ab ad al an ap ar at be bi co com con cor de di dis e em en ex for fore il im in inter mid "
    "mis mono non ob op out over para per po pre pro re se sub super sur tele trans tri un up"
)
STEMS = words(
    "act alt anch angl arb arch art audi ball balk band bark bat bell bind bolt bound brac brand "
    "brick cad cand cant cap car cast cav ceed cept cess chart chem cid circ cit claim clav clin "
    "coll cord corp crat cred cret cub cult curr cust dam dent dict dom dorm duct dur face fact "
    "fend fer fess fict fin fix flam flect flor flux form fort fract fund fus gard gat gen glac "
    "gland gloss grad grand graph grav greg gress grot hand hang harb hast haul helm herb hold hum "
    "isol ject jour junct jur lab land laps larg lat launch lect lev lib lic lig lim liqu lith loc "
    "lock lod log loos lud lumb magn mand mar mark mast mat mech med mem mend merc merg met migr "
    "min mir miss mob mod mon mort mount mov mur mut nat nav nom norm not numb nurs obst oper opt "
    "orb orch ord ori pack pact pag pal pan par part pass past pat patr ped pell pend phon pict "
    "pil plac plan plast pleas plic plor poll pop port pos post pound press prim prob prov publ "
    "puls punct quar quest quir rad ran rapt rat reg rest rid riv rob rod rot round rud rupt sail "
    "sal sanct sand scal schol sci scrib sculpt sect seed seg sembl send sens serv sid sign sil "
    "sim sist soc sol solv son sort spat spect spher spin spir spond sta stall stat stell stitut "
    "stor strain strat struct stud suad sum surg tact tail tain tang tech temp tend tens tent term "
    "test text thor tid timb tin tir tol tom ton tor tour tract trad tram trem trib trop tru tub "
    "turb turn twin typ unit urb vac vad val van vap var vas ven vent verb vers vert vest vict vid "
    "vig vill vis vit viv voc vol volv vot wag ward ware watch wav weigh west wid wild wind wing "
    "wood word work yard"
)
ENDINGS = words(
    "able ac age al ain ance and ane ant ar ard ary ate ation ator atory ature chester cy e ed el "
    "en ence end ent er ers ery es ess est et ey field hood ible ic ical ice icle ics id ide ier "
    "ies iety ile ily in ine ing ion ior ious ise ish ism ist ite ition ity ium ive ize ken less "
    "let ling ly man ment mer more most ness ock oid old om on or ory ose ot our ous ow s ship "
    "sion some son stone ster t ter th tle tor try ty ual ud ue ular um unt ure us ute y"
)
MORE_ENDINGS = words(
    "ables ack ails airs ament amps ange ants ape arch ards arm ars atch ates aves awl ax ays "
    "eal eam eard easts ected eels eet eld ells elt empt ench ends ener ense eon eps ept ersed "
    "ert ests ets ette geon ich ick ient igeon ight ils ims ince inch ined ings inks ints ipped "
    "irl ised isk isted its ived ixes izon ket oard oat ocks oids oke olds ollow olt omes oop "
    "oots ords orm orth osts otted oud ought ounds owers oxes ubs uct udge uff ugs ulk ument "
    "umn ump umpet unch unds unks urb urn urst usk usts uts utton wich yers"
)
"""Rarer ones, for the last lesson. Eighteen end held-out words too, some of which (``-ince``,
``-eon``) are here because such words had been copied wrong; no held-out word is ever coined whole.
"""

LENGTHS = range(4, 11)


def coin(rng: random.Random, endings: Sequence[str] = ENDINGS) -> str:
    """One word of four to ten small letters."""
    while True:
        parts = [rng.choice(STEMS)]
        if rng.random() < 0.4:
            parts.insert(0, rng.choice(PREFIXES))
        if len(parts) == 1 or rng.random() < 0.6:
            parts.append(rng.choice(STEMS if rng.random() < 0.15 else endings))
        word = "".join(parts)
        if len(word) in LENGTHS:
            return word
