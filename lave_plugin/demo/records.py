"""Short texts with the record to extract from them: the tiny dLLM's whole world.

A sample is a prompt, the answer that a perfect model gives, and the constraint that
every acceptable answer meets: a JSON schema, a regular expression or a grammar.
Everything is written by templates from a ``random.Random``; nothing is downloaded.

Training and held-out samples differ by more than the seed. Each open value (a person,
a title, an invented word) and each whole prompt belongs to one of the two splits, by a
checksum of its text, so the model has never seen a held-out name or prompt.
Words of closed lists (colours, goods, towns that exist) are common to both.
"""

import json
import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lave_plugin.demo.coined import ENDINGS, coin, words

Split = Literal["train", "held-out"]

# One text in HELD_OUT_ONE_IN is kept from training.
HELD_OUT_ONE_IN = 6


@dataclass(frozen=True)
class Sample:
    """One prompt, its right answer, and the constraint on any answer.

    kind: the record type (``"flight"``), or ``"copy"``, ``"expression"``, ``"date"``, ...
    prompt: what the user says, without the chat template.
    answer: the text to generate, without an end token. JSON text where ``schema`` is set.
    schema, regex, grammar: the constraint in the one form that fits; the others are
    None. ``grammar`` is EBNF in xgrammar's syntax.
    tests: what an answer is run against where it need not be the reference to the letter: a C++
    ``main``, or the SQL that makes a database.
    """

    kind: str
    prompt: str
    answer: str
    schema: dict[str, Any] | None = None
    regex: str | None = None
    grammar: str | None = None
    tests: str | None = None


# --- words -----------------------------------------------------------------------------


GIVEN_NAMES = words(
    "Ada Amir Anouk Bela Bruno Cyril Daria Dev Edda Elias Esra Felix Fiona Gita Gustav Hugo "
    "Ida Ilya Ines Jonas Joana Kamal Kira Lars Leila Luca Magda Malik Mira Nadia Niko Oren "
    "Petra Pia Rafael Reza Romy Ruth Samir Selma Stefan Thea Tilda Tobias Ursula Vito Wanda Yara"
)
FAMILY_NAMES = words(
    "Abbot Adler Bauer Becker Calder Castro Dahl Demir Egan Falk Ferrer Gallo Gruber Hansen "
    "Hoffman Iqbal Jansen Kaya Kovacs Lang Lindgren Marsh Mbeki Molina Nash Novotny Olsen Pascal "
    "Pereira Quist Ramos Rivera Sato Sorensen Steiner Tanner Toth Urban Vidal Voss Winter Zeller"
)
TOWNS = words(
    "Aarhus Ankara Basel Bilbao Boise Bristol Brno Calgary Cardiff Cologne Cork Dakar Dallas Delft "
    "Fez Ghent Graz Hanoi Helsinki Izmir Kyoto Leipzig Linz Malaga Manila Mumbai Naples Nantes "
    "Omaha Perth Pisa Porto Reno Salem Seville Split Tampa Tartu Tunis Turin Utrecht Warsaw"
)
SYLLABLES = words(
    "al ba bel cor da den dra el fa fen gal go han il ja kel la lin lo mar mi mon na nor o pa "
    "quin ra ren ro sha sol ta ter tul u va ven wil yo zan ze"
)
GOODS = words(
    "anvil apron atlas bell blender bracelet brush carpet chisel cup curtain desk drum easel fan "
    "flute fork globe guitar harp iron jug kite knife lantern ledger locket magnet necklace oar "
    "oven paddle pan plate puzzle ring rug ruler saddle sofa spoon stool teapot torch vest whistle"
)
COLOURS = words("amber blue brown crimson green ivory pink silver")
STREET_WORDS = words("Birch Canal Chapel Elm Harbour King Linden Meadow Orchard Pine Queen Rose")
STREET_KINDS = ["Street", "Lane", "Road", "Square"]
FOODS = words(
    "almonds beef cabbage celery chickpeas cream cumin ginger ham leeks lentils mint mushrooms "
    "noodles oats olives parsley peas pork pumpkin raisins rosemary saffron spinach thyme yeast"
)
DISHES = words("Bake Broth Casserole Dumplings Gratin Paella Quiche Roast Stir-fry Tart")
TITLE_ADJECTIVES = words(
    "Amber Ancient Bitter Borrowed Empty Fading Gentle Hollow Last Narrow Patient Quiet Restless "
    "Seventh Sunken Velvet Wandering Young"
)
TITLE_NOUNS = words(
    "Archive Bell Captain Comet Crossing Daughter Engine Harvest Lantern Map Meadow Orchard "
    "Passage Promise Railway Season Stranger Tide"
)
TEAM_NOUNS = words("Badgers Comets Falcons Foxes Herons Otters Rangers Rovers Storks Tigers")
SKIES = ["clear", "overcast", "rain", "snow", "fog"]
ORDER_STATES = ["new", "packed", "sent", "returned"]
GENRES = ["action", "crime", "family", "fantasy", "musical", "mystery", "war"]
PRIORITIES = ["low", "normal", "high", "urgent"]
LABELS = ["bug", "docs", "login", "network", "printer", "speed"]
UNITS = ["bar", "celsius", "lux", "volt"]
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
SUBJECTS = words("algebra anatomy botany chemistry drawing ethics geology history logic physics")
JOBS = words("baker carpenter cook driver editor gardener nurse plumber tailor teacher welder")
SKILLS = words("budgets cooking design driving first-aid French German sewing spreadsheets welding")
MONTHS = words(
    "January February March April May June July August September October November December"
)
AIRLINES = ["AZ", "BT", "FR", "IB", "LX", "OS", "SN", "TP"]


# No names of tables, columns, arguments or functions: keywords of four letters and more of SQLite,
# Python and C++.
RESERVED = frozenset(
    words(
        "abort action after alter always analyze attach before begin between cascade case cast "
        "check collate column commit conflict create cross current database default delete desc "
        "detach distinct drop each else escape except exclude exists explain fail filter first "
        "following foreign from full glob group groups having ignore immediate index inner insert "
        "instead intersect into isnull join last left like limit match natural nothing notnull "
        "null nulls offset order others outer over partition plan pragma preceding primary query "
        "raise range recursive regexp reindex release rename replace restrict returning right "
        "rollback rows savepoint select table temp then ties transaction trigger unbounded union "
        "unique update using vacuum values view virtual when where window with without "
        "assert async await break class continue elif except false finally global import lambda "
        "nonlocal pass raise return true while yield none "
        "alignas alignof auto bool catch char const constexpr decltype double enum explicit export "
        "extern float friend goto inline long main mutable namespace noexcept operator private "
        "protected public register requires short signed sizeof static string struct switch "
        "template this throw typedef typename unsigned vector void volatile"
    )
)


def split_of(text: str) -> Split:
    """The split that an open value or a prompt belongs to, for ever."""
    return "held-out" if zlib.crc32(text.encode()) % HELD_OUT_ONE_IN == 0 else "train"


class Draw:
    """Draws values from one split with one random generator.

    barred: words that it must not coin.
    coined_share: how often it coins a word in training instead of taking a listed one.
    endings: of the words that it coins.
    """

    def __init__(
        self,
        rng: random.Random,
        split: Split,
        barred: frozenset[str] = frozenset(),
        coined_share: float = 0.5,
        endings: Sequence[str] = ENDINGS,
    ):
        self.rng = rng
        self.split = split
        self.barred = barred | RESERVED
        self.coined_share = coined_share
        self.endings = endings

    def within_split(self, make: Callable[[], str]) -> str:
        """Call ``make`` until its text belongs to this split."""
        while True:
            text = make()
            if split_of(text) == self.split:
                return text

    def pick(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def whole(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return self.rng.randint(low, high)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def some(self, options: list[str], low: int, high: int) -> list[str]:
        """From low to high different options, in random order."""
        return self.rng.sample(options, self.whole(low, high))

    def coined(self) -> str:
        """A word of small letters that is barred by nobody (see ``coined.coin``)."""
        while (word := coin(self.rng, self.endings)) in self.barred:
            pass
        return word

    def word(self, known: Sequence[str]) -> str:
        """One of a list; in training often a coined one.

        Who has only ever met the words of a list writes them from memory. A coined word must be
        copied from the prompt, and so can one of a list that training has never had.
        """
        if self.split == "train" and self.chance(self.coined_share):
            return self.coined()
        return self.pick(*known)

    def some_words(self, known: Sequence[str], low: int, high: int) -> list[str]:
        """From low to high different ones, as of ``word``."""
        wanted, found = self.whole(low, high), []
        while len(found) < wanted:
            word = self.word(known)
            if word not in found:
                found.append(word)
        return found

    def invented(self) -> str:
        """A capitalised word that exists nowhere, such as ``Kelmarova``."""

        def form() -> str:
            return "".join(self.rng.choices(SYLLABLES, k=self.pick(2, 2, 3, 3, 4))).capitalize()

        return self.within_split(form)

    def given_name(self) -> str:
        return self.pick(*GIVEN_NAMES) if self.chance(0.7) else self.invented()

    def person(self) -> str:
        def form() -> str:
            family = self.pick(*FAMILY_NAMES) if self.chance(0.55) else self.invented()
            return f"{self.given_name()} {family}"

        return self.within_split(form)

    def town(self) -> str:
        return self.pick(*TOWNS) if self.chance(0.75) else self.invented()

    def title(self) -> str:
        def form() -> str:
            if self.chance(0.25):
                return f"{self.pick(*TITLE_NOUNS)} of {self.invented()}"
            return f"{self.pick(*TITLE_ADJECTIVES)} {self.pick(*TITLE_NOUNS)}"

        article = "The " if self.chance(0.3) else ""
        return article + self.within_split(form)

    def company(self) -> str:
        return f"{self.invented()} {self.pick('Ltd', 'Works', 'Group', 'and Sons')}"

    def street(self) -> str:
        first = self.pick(*STREET_WORDS) if self.chance(0.7) else self.invented()
        return f"{first} {self.pick(*STREET_KINDS)} {self.whole(1, 240)}"

    def code(self, letters: str, low: int, high: int) -> str:
        return f"{self.pick(*letters)}{self.whole(low, high)}"

    def decimal(self, low: int, high: int, places: int = 2) -> float:
        scale = 10**places
        return self.rng.randint(low * scale, high * scale) / scale

    def date(self) -> tuple[str, str]:
        """A day as (ISO text, the same day as a text may write it)."""
        year, month, day = self.whole(1985, 2039), self.whole(1, 12), self.whole(1, 28)
        iso = f"{year}-{month:02d}-{day:02d}"
        name = MONTHS[month - 1]
        return iso, self.pick(iso, iso, f"{day} {name} {year}", f"{name} {day}, {year}")


def listed(items: list[str]) -> str:
    """``["a", "b", "c"]`` as ``a, b and c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


# --- schemas ---------------------------------------------------------------------------

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
BOOLEAN = {"type": "boolean"}
DATE = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
TIME = {"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$"}


def one_of(values: list[str]) -> dict[str, Any]:
    return {"type": "string", "enum": values}


def array_of(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def object_of(properties: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """An object with exactly these properties, in this order."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


MARKS = (
    (INTEGER, "int"),
    (NUMBER, "number"),
    (BOOLEAN, "bool"),
    (DATE, "date"),
    (TIME, "time"),
    (STRING, "text"),
)


def typed(key: str, schema: dict[str, Any]) -> str:
    """How a prompt names a key and its type: ``sails:int``, ``jurors[text]``, ``basin(mayor)``.

    Who has never met a key can't know what its values are. Texts have no mark of their own, and
    there are no blanks, so that a key's tokens are those of the answer.
    """
    if "enum" in schema:
        return f"{key}:{'|'.join(schema['enum'])}"
    if "properties" in schema:
        return f"{key}({_named(schema)})"
    if "items" in schema:
        items = schema["items"]
        return f"{key}[{_named(items) if 'properties' in items else _mark(items)}]"
    return key if schema == STRING else f"{key}:{_mark(schema)}"


def _named(schema: dict[str, Any]) -> str:
    return ",".join(typed(*field) for field in schema["properties"].items())


def _mark(schema: dict[str, Any]) -> str:
    return next(mark for of_type, mark in MARKS if of_type == schema)


# --- record types ----------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """A text and all that can be extracted from it: key -> (value, schema)."""

    text: str
    fields: dict[str, tuple[Any, dict[str, Any]]]


def resident(draw: Draw) -> Record:
    name, age, town, married = draw.person(), draw.whole(4, 103), draw.town(), draw.chance(0.5)
    status = "married" if married else "single"
    text = draw.pick(
        f"{name}, {age}, {status}, has a flat in {town}.",
        f"In {town} we met {name}, who is {age} and {status}.",
        f"{name} of {town} turned {age} and is {status}.",
    )
    return Record(
        text,
        {
            "name": (name, STRING),
            "age": (age, INTEGER),
            "town": (town, STRING),
            "married": (married, BOOLEAN),
        },
    )


def purchase(draw: Draw) -> Record:
    number, article, count = draw.whole(100, 99999), draw.pick(*GOODS), draw.whole(2, 40)
    price, state = draw.decimal(1, 90), draw.pick(*ORDER_STATES)
    text = draw.pick(
        f"Order {number} is {state}: {count} pieces of {article}, {price} each.",
        f"Somebody wants {count} of our {article} at {price}; see order {number}, {state}.",
        f"{count} times {article} for {price} a piece, order {number} ({state}).",
    )
    return Record(
        text,
        {
            "order": (number, INTEGER),
            "article": (article, STRING),
            "count": (count, INTEGER),
            "price": (price, NUMBER),
            "state": (state, one_of(ORDER_STATES)),
        },
    )


def concert(draw: Draw) -> Record:
    (iso, written), title = draw.date(), draw.title()
    town, seats = draw.town(), draw.whole(20, 9000)
    text = draw.pick(
        f"{title} plays in {town} on {written}; {seats} seats were sold.",
        f"On {written} {town} hears {title} before {seats} listeners.",
        f"{seats} came to {title}, {town}, {written}.",
    )
    return Record(
        text,
        {
            "title": (title, STRING),
            "date": (iso, DATE),
            "town": (town, STRING),
            "seats": (seats, INTEGER),
        },
    )


def offer(draw: Draw) -> Record:
    article, colour, price = draw.pick(*GOODS), draw.pick(*COLOURS), draw.decimal(1, 400)
    available = draw.chance(0.5)
    stock = draw.pick("on the shelf", "ready to go") if available else draw.pick("gone", "sold")
    text = draw.pick(
        f"Our {colour} {article} at {price} is {stock}.",
        f"{price} buys the {article} in {colour}, which is {stock}.",
        f"One {article}, {colour}, {stock}, {price} in all.",
    )
    return Record(
        text,
        {
            "article": (article, STRING),
            "colour": (colour, one_of(COLOURS)),
            "price": (price, NUMBER),
            "available": (available, BOOLEAN),
        },
    )


def book(draw: Draw) -> Record:
    title, author = draw.title(), draw.person()
    year, pages = draw.whole(1820, 2030), draw.whole(30, 1400)
    text = draw.pick(
        f"{author} published {title} in {year}, {pages} pages long.",
        f"{title}, {pages} pages, came out in {year} and is by {author}.",
        f"{year} saw {title} by {author} ({pages} pages).",
    )
    return Record(
        text,
        {
            "title": (title, STRING),
            "author": (author, STRING),
            "year": (year, INTEGER),
            "pages": (pages, INTEGER),
        },
    )


def flight(draw: Draw) -> Record:
    number = f"{draw.pick(*AIRLINES)}{draw.whole(10, 3999)}"
    origin, destination, gate = draw.town(), draw.town(), draw.code("ABCD", 1, 60)
    delayed = draw.chance(0.5)
    punctual = "late" if delayed else "on time"
    text = draw.pick(
        f"{number} goes from {origin} to {destination}, gate {gate}, {punctual}.",
        f"At gate {gate} the {punctual} {number} boards for {destination}; it came from {origin}.",
        f"{origin} to {destination} with {number}: {punctual} at {gate}.",
    )
    return Record(
        text,
        {
            "flight": (number, STRING),
            "from": (origin, STRING),
            "to": (destination, STRING),
            "gate": (gate, STRING),
            "delayed": (delayed, BOOLEAN),
        },
    )


def customer(draw: Draw) -> Record:
    name, street, town = draw.person(), draw.street(), draw.town()
    postcode, since = str(draw.whole(10000, 99999)), draw.whole(1990, 2026)
    text = draw.pick(
        f"{name}, a customer since {since}, lives in {street}, {postcode} {town}.",
        f"Deliver to {street} in {postcode} {town}, for {name}, with us since {since}.",
    )
    address = {"street": street, "postcode": postcode, "town": town}
    parts = draw.pick(["street", "town"], ["postcode", "town"], ["street", "postcode", "town"])
    return Record(
        text,
        {
            "name": (name, STRING),
            "address": (
                {part: address[part] for part in parts},
                object_of(dict.fromkeys(parts, STRING)),
            ),
            "since": (since, INTEGER),
        },
    )


def recipe(draw: Draw) -> Record:
    dish = draw.within_split(lambda: f"{draw.given_name()} {draw.pick(*DISHES)}")
    serves, minutes, ingredients = draw.whole(1, 16), draw.whole(5, 240), draw.some(FOODS, 2, 4)
    text = draw.pick(
        f"{dish} feeds {serves} and is done in {minutes} minutes. Buy {listed(ingredients)}.",
        f"With {listed(ingredients)} you make {dish} for {serves} in {minutes} minutes.",
        f"{dish} ({minutes} minutes, {serves} plates): {listed(ingredients)}.",
    )
    return Record(
        text,
        {
            "dish": (dish, STRING),
            "serves": (serves, INTEGER),
            "minutes": (minutes, INTEGER),
            "ingredients": (ingredients, array_of(STRING)),
        },
    )


def team(draw: Draw) -> Record:
    name = draw.within_split(lambda: f"{draw.town()} {draw.pick(*TEAM_NOUNS)}")
    players, points = [draw.given_name() for _ in range(draw.whole(2, 4))], draw.whole(0, 90)
    coach = draw.person()
    text = draw.pick(
        f"{listed(players)} scored for the {name}; coach {coach} has {points} points now.",
        f"The {name} of {coach} took {points} points with {listed(players)}.",
        f"{points} points for the {name}: {listed(players)}, coached by {coach}.",
    )
    return Record(
        text,
        {
            "team": (name, STRING),
            "coach": (coach, STRING),
            "players": (players, array_of(STRING)),
            "points": (points, INTEGER),
        },
    )


def forecast(draw: Draw) -> Record:
    town, celsius, sky = draw.town(), draw.whole(-30, 44), draw.pick(*SKIES)
    wind, humidity = draw.whole(0, 95), draw.decimal(0, 1)
    text = draw.pick(
        f"{town} expects {sky}, {celsius} degrees, wind {wind}, humidity {humidity}.",
        f"For {town}: {celsius} degrees and {sky}; humidity {humidity}, wind at {wind}.",
        f"Wind {wind}, humidity {humidity} and {sky} at {celsius} degrees in {town}.",
    )
    return Record(
        text,
        {
            "town": (town, STRING),
            "celsius": (celsius, INTEGER),
            "sky": (sky, one_of(SKIES)),
            "wind": (wind, INTEGER),
            "humidity": (humidity, NUMBER),
        },
    )


def invoice(draw: Draw) -> Record:
    number, buyer, total = draw.whole(100, 9999), draw.company(), draw.decimal(5, 900)
    paid = draw.chance(0.5)
    lines = [{"article": article, "count": draw.whole(1, 30)} for article in draw.some(GOODS, 1, 3)]
    goods = listed([f"{line['count']} {line['article']}" for line in lines])
    text = draw.pick(
        f"Invoice {number} to {buyer}, {'settled' if paid else 'due'}: {goods}, total {total}.",
        f"{buyer} {'paid' if paid else 'owes'} {total} for {goods} (invoice {number}).",
    )
    return Record(
        text,
        {
            "invoice": (number, INTEGER),
            "buyer": (buyer, STRING),
            "lines": (lines, array_of(object_of({"article": STRING, "count": INTEGER}))),
            "total": (total, NUMBER),
            "paid": (paid, BOOLEAN),
        },
    )


def ticket(draw: Draw) -> Record:
    number, reporter, priority = draw.whole(10, 9999), draw.person(), draw.pick(*PRIORITIES)
    labels, is_open = draw.some(LABELS, 1, 3), draw.chance(0.5)
    state = draw.pick("open", "waiting") if is_open else draw.pick("closed", "solved")
    text = draw.pick(
        f"Ticket {number} by {reporter} ({priority}, {state}) is about {listed(labels)}.",
        f"{reporter} wrote about {listed(labels)}: ticket {number}, {priority} priority, {state}.",
    )
    return Record(
        text,
        {
            "ticket": (number, INTEGER),
            "reporter": (reporter, STRING),
            "priority": (priority, one_of(PRIORITIES)),
            "labels": (labels, array_of(one_of(LABELS))),
            "open": (is_open, BOOLEAN),
        },
    )


def film(draw: Draw) -> Record:
    title, director, year = draw.title(), draw.person(), draw.whole(1925, 2030)
    genres, score = draw.some(GENRES, 1, 3), draw.decimal(1, 10, places=1)
    text = draw.pick(
        f"{director} shot {title} in {year}, {listed(genres)}, score {score}.",
        f"{title} ({year}) by {director} got {score} and counts as {listed(genres)}.",
        f"A score of {score} for {title}, {listed(genres)}, {director}, {year}.",
    )
    return Record(
        text,
        {
            "title": (title, STRING),
            "director": (director, STRING),
            "year": (year, INTEGER),
            "genres": (genres, array_of(one_of(GENRES))),
            "score": (score, NUMBER),
        },
    )


def sensor(draw: Draw) -> Record:
    name, unit, healthy = draw.code("EHKMRW", 1, 99), draw.pick(*UNITS), draw.chance(0.5)
    readings = [draw.decimal(0, 60, places=1) for _ in range(draw.whole(2, 4))]
    numbers = listed([str(reading) for reading in readings])
    health = "healthy" if healthy else "broken"
    text = draw.pick(
        f"The {health} probe {name} shows {numbers} {unit}.",
        f"Probe {name}, {health}, in {unit}: {numbers}.",
    )
    return Record(
        text,
        {
            "probe": (name, STRING),
            "unit": (unit, one_of(UNITS)),
            "readings": (readings, array_of(NUMBER)),
            "healthy": (healthy, BOOLEAN),
        },
    )


def route(draw: Draw) -> Record:
    line, hours = draw.code("FGLNT", 1, 90), draw.decimal(1, 12, places=1)
    stops = [{"town": draw.town(), "km": draw.whole(1, 700)} for _ in range(draw.whole(1, 3))]
    path = listed([f"{stop['town']} at {stop['km']} km" for stop in stops])
    text = draw.pick(
        f"Train {line} calls at {path} and needs {hours} hours.",
        f"In {hours} hours {line} runs past {path}.",
    )
    return Record(
        text,
        {
            "train": (line, STRING),
            "hours": (hours, NUMBER),
            "stops": (stops, array_of(object_of({"town": STRING, "km": INTEGER}))),
        },
    )


def course(draw: Draw) -> Record:
    subject, teacher, room = draw.pick(*SUBJECTS), draw.person(), draw.code("BCR", 1, 300)
    days, credits = draw.some(WEEKDAYS, 1, 3), draw.whole(1, 12)
    text = draw.pick(
        f"{teacher} gives {subject} on {listed(days)} in {room} for {credits} credits.",
        f"{credits} credits for {subject}, room {room}, {listed(days)}, with {teacher}.",
    )
    return Record(
        text,
        {
            "subject": (subject, STRING),
            "teacher": (teacher, STRING),
            "room": (room, STRING),
            "days": (days, array_of(one_of(WEEKDAYS))),
            "credits": (credits, INTEGER),
        },
    )


def checkup(draw: Draw) -> Record:
    (iso, written), patient = draw.date(), draw.person()
    pulse, fever, fasting = draw.whole(40, 160), draw.decimal(35, 41, places=1), draw.chance(0.5)
    meal = "before food" if fasting else "after food"
    text = draw.pick(
        f"{patient} came on {written}: pulse {pulse}, {fever} degrees, {meal}.",
        f"Pulse {pulse} and {fever} degrees {meal} for {patient} ({written}).",
    )
    return Record(
        text,
        {
            "patient": (patient, STRING),
            "date": (iso, DATE),
            "pulse": (pulse, INTEGER),
            "fever": (fever, NUMBER),
            "fasting": (fasting, BOOLEAN),
        },
    )


def booking(draw: Draw) -> Record:
    (iso, written), guest, nights = draw.date(), draw.person(), draw.whole(1, 21)
    hotel = draw.within_split(lambda: f"Hotel {draw.town()}")
    breakfast = draw.chance(0.5)
    meals = "with breakfast" if breakfast else "room only"
    text = draw.pick(
        f"{guest} stays {nights} nights in {hotel} from {written}, {meals}.",
        f"{hotel} expects {guest} on {written} for {nights} nights, {meals}.",
    )
    return Record(
        text,
        {
            "guest": (guest, STRING),
            "hotel": (hotel, STRING),
            "arrival": (iso, DATE),
            "nights": (nights, INTEGER),
            "breakfast": (breakfast, BOOLEAN),
        },
    )


def parcel(draw: Draw) -> Record:
    code, weight = draw.code("PXZ", 1000, 99999), draw.decimal(0, 30, places=1)
    width, height = draw.whole(5, 150), draw.whole(5, 150)
    receiver = draw.person()
    text = draw.pick(
        f"Parcel {code} for {receiver} is {width} wide, {height} high and weighs {weight}.",
        f"{receiver} gets {code}, {weight} kilos, width {width}, height {height}.",
    )
    return Record(
        text,
        {
            "parcel": (code, STRING),
            "receiver": (receiver, STRING),
            "size": (
                {"width": width, "height": height},
                object_of({"width": INTEGER, "height": INTEGER}),
            ),
            "weight": (weight, NUMBER),
        },
    )


def vacancy(draw: Draw) -> Record:
    job, employer, pay = draw.pick(*JOBS), draw.company(), draw.whole(18, 99) * 1000
    skills, remote = draw.some(SKILLS, 1, 3), draw.chance(0.5)
    place = "from home" if remote else "on site"
    text = draw.pick(
        f"{employer} seeks a {job} who knows {listed(skills)}, {place}, pay {pay}.",
        f"Work {place} as a {job} at {employer} for {pay}; needs {listed(skills)}.",
    )
    return Record(
        text,
        {
            "job": (job, STRING),
            "employer": (employer, STRING),
            "pay": (pay, INTEGER),
            "skills": (skills, array_of(STRING)),
            "remote": (remote, BOOLEAN),
        },
    )


RECORD_TYPES: tuple[Callable[[Draw], Record], ...] = (
    resident,
    purchase,
    concert,
    offer,
    book,
    flight,
    customer,
    recipe,
    team,
    forecast,
    invoice,
    ticket,
    film,
    sensor,
    route,
    course,
    checkup,
    booking,
    parcel,
    vacancy,
)


def key_with_parts(key: str, schema: dict[str, Any]) -> str:
    """How a prompt names a key: ``total``, or ``lines (article, count)``."""
    inner = schema.get("items", schema)
    return f"{key} ({', '.join(inner['properties'])})" if "properties" in inner else key


def record_sample(draw: Draw) -> Sample:
    """A text, two to four of its keys, and the JSON object that has them."""
    make = draw.pick(*RECORD_TYPES)
    record = make(draw)
    count = min(draw.pick(2, 3, 3, 4), len(record.fields))
    chosen = set(draw.rng.sample(list(record.fields), count))
    fields = {key: field for key, field in record.fields.items() if key in chosen}
    kind = make.__name__
    keys = ", ".join(key_with_parts(key, schema) for key, (_, schema) in fields.items())
    return Sample(
        kind=kind,
        prompt=draw.pick(
            f"Extract the {kind} as JSON with keys {keys}: {record.text}",
            f"{record.text} Write the {kind} as JSON with keys {keys}.",
            f"JSON of this {kind}, keys {keys}. {record.text}",
        ),
        answer=json.dumps({key: value for key, (value, _) in fields.items()}),
        schema=object_of({key: schema for key, (_, schema) in fields.items()}),
    )


# --- other answers than records --------------------------------------------------------

COPY_KEYS = words(
    "author code date from gate guest hotel name patient postcode street team title to town"
)


def copy_sample(draw: Draw) -> Sample:
    """Unrelated words to say again, plainly or as the values of a JSON object.

    A small model learns JSON's form long before it learns to copy; this is copying alone.
    """

    def word() -> str:
        make = draw.pick(draw.given_name, draw.town, draw.invented, draw.invented, None)
        return make() if make else str(draw.whole(0, 9999))

    told_words = [word() for _ in range(draw.whole(2, 7))]
    if draw.chance(0.5):
        line = " ".join(told_words)
        return Sample("copy", f"Repeat: {line}", line)
    keys = draw.rng.sample(COPY_KEYS, min(4, len(told_words)))
    values = dict(zip(keys, told_words, strict=False))
    told = list(values.items())
    draw.rng.shuffle(told)
    facts = ", ".join(f"{key} {value}" for key, value in told)
    return Sample(
        "copy",
        f"JSON with keys {', '.join(keys)}: {facts}.",
        json.dumps(values),
        schema=object_of(dict.fromkeys(keys, STRING)),
    )


OPERATORS = {"+": "sum", "-": "difference", "*": "product", "/": "quotient"}
EXPRESSION_GRAMMAR = """\
root ::= term ((" + " | " - ") term)*
term ::= atom ((" * " | " / ") atom)*
atom ::= [a-z] | number | "(" root ")"
number ::= "0" | [1-9] [0-9]*
"""
ATOM_PRECEDENCE = 3


def expression(draw: Draw, depth: int) -> tuple[str, str, int]:
    """An expression as (in symbols, in words, precedence of its outermost operator)."""
    if depth == 0 or draw.chance(0.2):
        atom = draw.pick(*"abmnxyz") if draw.chance(0.6) else str(draw.whole(1, 99))
        return atom, atom, ATOM_PRECEDENCE
    operator = draw.pick(*OPERATORS)
    precedence = 1 if operator in "+-" else 2
    left, left_words, left_precedence = expression(draw, depth - 1)
    right, right_words, right_precedence = expression(draw, depth - 1)
    if left_precedence < precedence:
        left = f"({left})"
    if right_precedence <= precedence:  # operators group to the left
        right = f"({right})"
    spoken = f"the {OPERATORS[operator]} of {left_words} and {right_words}"
    return f"{left} {operator} {right}", spoken, precedence


def expression_sample(draw: Draw) -> Sample:
    symbols, spoken, _ = expression(draw, draw.pick(1, 2, 2, 3))
    lead = draw.pick("Write as an expression:", "In symbols:")
    return Sample("expression", f"{lead} {spoken}.", symbols, grammar=EXPRESSION_GRAMMAR)


def field_sample(draw: Draw) -> Sample:
    """One value alone, of a form that a regular expression can hold."""
    kind = draw.pick("date", "order_number", "postcode", "flight_number", "time", "price")
    if kind == "date":
        iso, written = draw.date()
        text = draw.pick(
            f"{draw.person()} arrives on {written}.", f"The fair in {draw.town()} opens {written}."
        )
        return Sample(kind, f"Date only, as YYYY-MM-DD: {text}", iso, regex=DATE["pattern"][1:-1])
    if kind == "order_number":
        number = str(draw.whole(100, 99999))
        text = f"{draw.person()} asks where order {number} is, with {draw.whole(2, 40)} pieces."
        return Sample(kind, f"Order number only: {text}", number, regex="[1-9][0-9]{2,4}")
    if kind == "postcode":
        postcode = str(draw.whole(10000, 99999))
        text = f"{draw.person()}, {draw.street()}, {postcode} {draw.town()}."
        return Sample(kind, f"Postcode only: {text}", postcode, regex="[0-9]{5}")
    if kind == "flight_number":
        number = f"{draw.pick(*AIRLINES)}{draw.whole(10, 3999)}"
        text = f"{draw.person()} took {number} to {draw.town()}, gate {draw.code('ABCD', 1, 60)}."
        return Sample(kind, f"Flight number only: {text}", number, regex="[A-Z]{2}[0-9]{2,4}")
    if kind == "time":
        time = f"{draw.whole(0, 23):02d}:{draw.whole(0, 59):02d}"
        text = f"The train to {draw.town()} leaves at {time} from platform {draw.whole(1, 20)}."
        return Sample(kind, f"Time only: {text}", time, regex="[0-2][0-9]:[0-5][0-9]")
    price = f"{draw.whole(1, 999)}.{draw.whole(0, 99):02d}"
    text = f"{draw.whole(2, 40)} {draw.pick(*GOODS)} for {draw.person()} cost {price}."
    return Sample(kind, f"Price only: {text}", price, regex=r"[1-9][0-9]{0,2}\.[0-9]{2}")
