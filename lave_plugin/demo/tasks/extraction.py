"""Records of types that are made up on the spot, so that a type never seen can be asked for.

The twenty types of ``records`` have texts of their own, which a model can learn by heart. A type
of this file is a kind and some keys drawn from word lists, and its text says each key beside its
value, in one of several frames. Lists are kept apart: training draws from the first of each pair
and from words that it coins, and never meets one of the second.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from lave_plugin.demo.records import (
    BOOLEAN,
    DATE,
    INTEGER,
    NUMBER,
    STRING,
    Draw,
    Record,
    Sample,
    array_of,
    listed,
    object_of,
    one_of,
    typed,
    words,
)

Value = tuple[Any, str, dict[str, Any]]
"""What JSON has, what a text says, and the schema."""

KINDS = words(
    "badge boat bridge camera campaign cargo clinic club colony cottage dinner dog engine estate "
    "exam expedition experiment factory farm festival fountain garage garden harvest horse journey "
    "kitchen letter machine match meeting museum painting permit planet plant project quarry "
    "rental repair school shipment station stall tower tree trial tunnel visit workshop"
)
UNSEEN_KINDS = words(
    "auction aquarium caravan ceramic dragon excavation glacier hostel lighthouse monument opera "
    "orchid submarine tournament violin volcano"
)

NAME_KEYS = words(
    "agent artist boss buyer chief founder guide host keeper leader manager member neighbour "
    "owner painter partner pilot rider seller sender singer speaker sponsor tenant winner witness"
)
UNSEEN_NAME_KEYS = words("archivist broker curator donor inspector mayor sculptor surgeon")
PLACE_KEYS = words("base border city coast county district harbour home origin region site valley")
UNSEEN_PLACE_KEYS = words("canyon hamlet island province suburb")
CODE_KEYS = words("berth box channel deck desk lane locker model platform ref shelf slot tag zone")
UNSEEN_CODE_KEYS = words("aisle cabin hangar vault")
COUNT_KEYS = words(
    "beds boxes crew days doors floors guests hours lamps miles parts pieces places points rooms "
    "score seats staff steps tables tons votes weeks wheels windows workers"
)
UNSEEN_COUNT_KEYS = words("acres barrels cables exits lockers pumps sails tickets")
MEASURE_KEYS = words("area cost depth distance fee height length load mass price rate speed width")
UNSEEN_MEASURE_KEYS = words("altitude budget deposit salinity voltage")
DATE_KEYS = words("begins built checked closed due ends found made opened signed sold tested")
UNSEEN_DATE_KEYS = words("expires launched repainted shipped")
FLAG_KEYS = words("active clean dry full heated hidden locked public rented safe shared urgent")
UNSEEN_FLAG_KEYS = words("certified insured portable vacant")
LIST_KEYS = words("friends helpers judges names owners players pupils rivals towns visitors")
UNSEEN_LIST_KEYS = words("architects captives jurors soloists")
SERIES_KEYS = words("levels marks prices results scores sizes times values weights")
UNSEEN_SERIES_KEYS = words("depths doses pressures")
CHOICE_KEYS = words("class grade level phase rank shape size state status style type")
UNSEEN_CHOICE_KEYS = words("category condition texture")
CHOICES = words(
    "bronze central coarse cold early easy empty fine firm gold hard heavy large late light "
    "lower medium mild minor narrow open plain poor prime quick rough round short small soft "
    "square steep upper warm weak wide"
)
UNSEEN_CHOICES = words("brittle damp faint glossy jagged lunar opaque severe sterile tidal")
GROUP_KEYS = words("contact crate frame item lot office part plan room side unit")
UNSEEN_GROUP_KEYS = words("basin cradle turret")


# --- values ----------------------------------------------------------------------------


def _plain(value: Any, schema: dict[str, Any]) -> Value:
    return value, str(value), schema


def _name(draw: Draw) -> Value:
    return _plain(draw.person() if draw.chance(0.6) else draw.invented(), STRING)


def _place(draw: Draw) -> Value:
    return _plain(draw.town(), STRING)


def _code(draw: Draw) -> Value:
    return _plain(draw.code("ABCDEFGHKLMNPRTXZ", 1, 999), STRING)


def _count(draw: Draw) -> Value:
    return _plain(draw.whole(0, draw.pick(9, 99, 999, 9999)), INTEGER)


def _measure(draw: Draw) -> Value:
    return _plain(draw.decimal(0, draw.pick(9, 99, 900), places=draw.pick(1, 1, 2)), NUMBER)


def _date(draw: Draw) -> Value:
    iso, written = draw.date()
    return iso, written, DATE


def _names(draw: Draw) -> Value:
    names = [draw.given_name() for _ in range(draw.whole(2, 3))]
    return names, listed(names), array_of(STRING)


def _series(draw: Draw) -> Value:
    numbers = [draw.whole(0, draw.pick(9, 99, 999)) for _ in range(draw.whole(2, 4))]
    return numbers, listed([str(number) for number in numbers]), array_of(INTEGER)


# --- how a text says them --------------------------------------------------------------


def _framed(draw: Draw, key: str, value: str) -> str:
    return draw.pick(
        f"{key} {value}",
        f"{key} {value}",
        f"{key}: {value}",
        f"{key} is {value}",
        f"the {key} is {value}",
        f"{key} = {value}",
    )


def _listed_behind(draw: Draw, key: str, value: str) -> str:
    return draw.pick(f"{key} {value}", f"{key}: {value}", f"the {key} are {value}")


def _flagged(draw: Draw, key: str, value: bool) -> str:
    if value:
        return draw.pick(f"{key}: yes", f"it is {key}", f"{key}")
    return draw.pick(f"{key}: no", f"it is not {key}", f"not {key}")


# (keys that training sees, keys it doesn't, value, frame, how often)
Makes = Callable[[Draw], Value]
FORMS: Sequence[tuple[list[str], list[str], Makes, Callable[[Draw, str, str], str], int]] = (
    (NAME_KEYS, UNSEEN_NAME_KEYS, _name, _framed, 5),
    (PLACE_KEYS, UNSEEN_PLACE_KEYS, _place, _framed, 3),
    (CODE_KEYS, UNSEEN_CODE_KEYS, _code, _framed, 3),
    (COUNT_KEYS, UNSEEN_COUNT_KEYS, _count, _framed, 4),
    (MEASURE_KEYS, UNSEEN_MEASURE_KEYS, _measure, _framed, 3),
    (DATE_KEYS, UNSEEN_DATE_KEYS, _date, _framed, 3),
    (LIST_KEYS, UNSEEN_LIST_KEYS, _names, _listed_behind, 2),
    (SERIES_KEYS, UNSEEN_SERIES_KEYS, _series, _listed_behind, 2),
)
FORM_SHARES = [often for *_, often in FORMS]
FLAG_SHARE, CHOICE_SHARE, GROUP_SHARE = 0.12, 0.12, 0.12


def _field(draw: Draw, unseen: bool) -> tuple[str, str, Any, dict[str, Any]]:
    """One field as (key, what the text says, value, schema)."""
    which = draw.rng.random()
    if which < FLAG_SHARE:
        key, flag = draw.word(UNSEEN_FLAG_KEYS if unseen else FLAG_KEYS), draw.chance(0.5)
        return key, _flagged(draw, key, flag), flag, BOOLEAN
    which -= FLAG_SHARE
    if which < CHOICE_SHARE:
        options = draw.some_words(UNSEEN_CHOICES if unseen else CHOICES, 3, 5)
        key, choice = draw.word(UNSEEN_CHOICE_KEYS if unseen else CHOICE_KEYS), options[0]
        return key, _framed(draw, key, choice), choice, one_of(sorted(options))
    which -= CHOICE_SHARE
    if which < GROUP_SHARE:
        return _group(draw, unseen)
    seen_keys, unseen_keys, make, frame, _ = draw.rng.choices(FORMS, FORM_SHARES)[0]
    key = draw.word(unseen_keys if unseen else seen_keys)
    value, written, schema = make(draw)
    return key, frame(draw, key, written), value, schema


def _group(draw: Draw, unseen: bool) -> tuple[str, str, Any, dict[str, Any]]:
    """An object inside, of two fields; or two such objects in an array."""
    key = draw.word(UNSEEN_GROUP_KEYS if unseen else GROUP_KEYS)
    forms = draw.rng.sample(FORMS[:5], 2)
    inner = [(draw.word(other if unseen else seen), make) for seen, other, make, *_ in forms]

    def one() -> tuple[dict[str, Any], str, dict[str, Any]]:
        values = {name: make(draw) for name, make in inner}
        return (
            {name: value for name, (value, _, _) in values.items()},
            " and ".join(f"{name} {written}" for name, (_, written, _) in values.items()),
            object_of({name: schema for name, (_, _, schema) in values.items()}),
        )

    value, written, schema = one()
    if draw.chance(0.65):
        return key, f"{key} with {written}", value, schema
    other, other_written, _ = one()
    return (
        f"{key}s",
        f"{key} with {written}, {key} with {other_written}",
        [
            value,
            other,
        ],
        array_of(schema),
    )


def _told(draw: Draw, kind: str, unseen: bool) -> tuple[dict[str, Any], list[str]]:
    """Some fields, and what a text says of each, in another order."""
    fields: dict[str, tuple[Any, dict[str, Any]]] = {}
    parts = []
    spoken: set[str] = {kind}
    for _ in range(draw.pick(2, 3, 3, 4)):
        key, part, value, schema = _field(draw, unseen)
        names = {key, *schema.get("items", schema).get("properties", {})}
        if names & spoken:
            continue
        spoken |= names
        fields[key] = value, schema
        parts.append(part)
    draw.rng.shuffle(parts)
    return fields, parts


def _record(draw: Draw, kind: str, unseen: bool) -> Record:
    fields, parts = _told(draw, kind, unseen)
    told = draw.pick(", ", ", ", "; ").join(parts)
    text = draw.pick(
        f"A {kind}: {told}.",
        f"This {kind} has {told}.",
        f"{draw.invented()} is a {kind}, {told}.",
        f"About the {kind}, {told}.",
        f"{told}, says the {kind} list.",
    )
    return Record(text, fields)


LINKS = words("and at by for from gets has in keeps of on shows the to with")


def _woven(draw: Draw, parts: list[str]) -> str:
    """The parts as somebody tells them who keeps to no frame."""
    text = ""
    for part in parts:
        link = f"{draw.pick(*LINKS)} " if draw.chance(0.4) else ""
        if not text or draw.chance(0.2):
            text += f"{'. ' if text else ''}{(link + part)[0].upper()}{(link + part)[1:]}"
        else:
            text += draw.pick(", ", ", ", "; ", " ") + link + part
    return f"{text}."


def _asked(draw: Draw, kind: str, record: Record, keys: list[str]) -> Sample:
    """The sample that asks for some keys of a record."""
    fields = {key: record.fields[key] for key in keys}
    named = ",".join(typed(key, schema) for key, (_, schema) in fields.items())
    return Sample(
        kind=kind,
        prompt=draw.pick(
            f"Extract as JSON ({named}): {record.text}",
            f"{record.text} Write it as JSON ({named}).",
            f"JSON ({named}) of this {kind}: {record.text}",
        ),
        answer=json.dumps({key: value for key, (value, _) in fields.items()}),
        schema=object_of({key: schema for key, (_, schema) in fields.items()}),
    )


def composed_sample(draw: Draw) -> Sample:
    """A record of a made-up type, of words that training knows."""
    kind = draw.word(KINDS)
    record = _record(draw, kind, unseen=False)
    keys = draw.some(list(record.fields), min(2, len(record.fields)), len(record.fields))
    return _asked(draw, kind, record, keys)


def woven_sample(draw: Draw) -> Sample:
    """Practice for types whose texts are unlike those of ``composed_sample``."""
    kind = draw.word(KINDS)
    fields, parts = _told(draw, kind, unseen=False)
    keys = draw.some(list(fields), min(2, len(fields)), len(fields))
    return _asked(draw, kind, Record(_woven(draw, parts), fields), keys)


# --- types that training never sees ----------------------------------------------------


def voyage(draw: Draw) -> Record:
    skipper, sails, barrels = draw.person(), draw.whole(2, 40), draw.whole(10, 900)
    (iso, written), island = draw.date(), draw.town()
    text = draw.pick(
        f"The island {island} saw a ship with skipper {skipper}, sails {sails}, "
        f"barrels {barrels}, launched {written}.",
        f"Launched {written}, with sails {sails} and barrels {barrels}, it left the island "
        f"{island}; skipper {skipper}.",
    )
    return Record(
        text,
        {
            "skipper": (skipper, STRING),
            "island": (island, STRING),
            "sails": (sails, INTEGER),
            "barrels": (barrels, INTEGER),
            "launched": (iso, DATE),
        },
    )


def lease(draw: Draw) -> Record:
    landlord, deposit, acres = draw.person(), draw.decimal(100, 900), draw.whole(1, 90)
    vacant, vault = draw.chance(0.5), draw.code("KTV", 1, 90)
    text = draw.pick(
        f"Landlord {landlord} takes a deposit of {deposit} for acres {acres}, vault {vault}, "
        f"{'' if vacant else 'not '}vacant.",
        f"Vault {vault} holds the deposit {deposit}. The landlord is {landlord}, "
        f"vacant: {'yes' if vacant else 'no'}, acres {acres}.",
    )
    return Record(
        text,
        {
            "landlord": (landlord, STRING),
            "deposit": (deposit, NUMBER),
            "acres": (acres, INTEGER),
            "vault": (vault, STRING),
            "vacant": (vacant, BOOLEAN),
        },
    )


def laboratory(draw: Draw) -> Record:
    chemist, doses = draw.person(), [draw.whole(1, 99) for _ in range(draw.whole(2, 4))]
    acid, flask = draw.decimal(0, 14, places=1), draw.code("BGQ", 1, 60)
    text = draw.pick(
        f"The chemist {chemist} gave doses {listed([str(dose) for dose in doses])}, "
        f"acidity {acid}, from flask {flask}.",
        f"Flask {flask}, acidity {acid}, doses {listed([str(dose) for dose in doses])}; "
        f"the chemist is {chemist}.",
    )
    return Record(
        text,
        {
            "chemist": (chemist, STRING),
            "doses": (doses, array_of(INTEGER)),
            "acidity": (acid, NUMBER),
            "flask": (flask, STRING),
        },
    )


UNSEEN_TYPES: tuple[Callable[[Draw], Record], ...] = (voyage, lease, laboratory)
WRITTEN_SHARE = 0.25


def unseen_sample(draw: Draw) -> Sample:
    """A record of a type none of whose words training has seen."""
    if draw.chance(WRITTEN_SHARE):
        make = draw.pick(*UNSEEN_TYPES)
        record, kind = make(draw), make.__name__
        keys = draw.some(list(record.fields), 2, 4)
        return _asked(draw, kind, record, keys)
    kind = draw.pick(*UNSEEN_KINDS)
    record = _record(draw, kind, unseen=True)
    keys = draw.some(list(record.fields), min(2, len(record.fields)), len(record.fields))
    return _asked(draw, kind, record, keys)


UNSEEN_WORDS = frozenset(
    [make.__name__ for make in UNSEEN_TYPES]
    + words("skipper landlord chemist acidity flask")
    + UNSEEN_KINDS
    + [key for _, unseen_keys, *_ in FORMS for key in unseen_keys]
    + UNSEEN_FLAG_KEYS
    + UNSEEN_CHOICE_KEYS
    + UNSEEN_CHOICES
    + UNSEEN_GROUP_KEYS
)
