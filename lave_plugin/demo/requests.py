"""The requests of ``lave demo``: one row for each way to say a constraint.

The prompts are of the kind that the shipped model was trained on, and none of them is in its
training data (``tasks.held_out`` wrote them). About half were chosen because the model fails
there by itself; how often it does is for ``lave bench paper --table tasks`` to say. The
constraints are as a client sends them; the checks (``checks``) know nothing of the engine.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lave_plugin.demo import checks
from lave_plugin.demo.records import Sample
from lave_plugin.grammars import load

MAX_TOKENS = 96

# The chat template of the shipped checkpoint, for the API that takes plain text.
CHAT = "<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"


@dataclass(frozen=True)
class DemoRequest:
    """One request and the judge of its answer.

    api: ``"chat"`` is OpenAI's chat completions, ``"generate"`` SGLang's own endpoint.
    constraint: more arguments of ``chat.completions.create``, or more sampling parameters.
    """

    name: str
    api: Literal["chat", "generate"]
    prompt: str
    constraint: Mapping[str, Any]
    check: checks.Check


def of_sample(name: str, sample: Sample, check: checks.Check) -> DemoRequest:
    """A task's sample as a request to SGLang's own endpoint."""
    return DemoRequest(name, "generate", sample.prompt, sampling_of(sample), check)


def sampling_of(sample: Sample) -> dict[str, str]:
    """The sampling parameter that says a sample's constraint; empty where it has none."""
    if sample.schema is not None:
        return {"json_schema": json.dumps(sample.schema)}
    forms = {"regex": sample.regex, "ebnf": sample.grammar}
    return {name: text for name, text in forms.items() if text is not None}


# --- constraints -------------------------------------------------------------------------


def record(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with exactly these keys."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def call(tool: str, **arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a call of this tool."""
    return record(name={"enum": [tool]}, arguments=record(**arguments))


STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
BOOLEAN = {"type": "boolean"}
DATE = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}

CONCERT = record(title=STRING, date=DATE, seats=INTEGER)
RECIPE = record(dish=STRING, serves=INTEGER, ingredients={"type": "array", "items": STRING})
PARCEL = record(
    parcel=STRING, receiver=STRING, size=record(width=INTEGER, height=INTEGER), weight=NUMBER
)
TABLE_OR_ALBUM = {
    "anyOf": [
        call("open_table", again=BOOLEAN, town=STRING, friend=STRING),
        call("pay_album", title=STRING),
    ]
}
GUEST_OR_MENU = {
    "anyOf": [
        call("share_guest", amount=INTEGER, quick=BOOLEAN),
        call("pay_menu", weight=NUMBER, code=STRING),
    ]
}

# One language twice: as the engine reads it, and as lark does.
EXPRESSION_EBNF = """\
root ::= term ((" + " | " - ") term)*
term ::= atom ((" * " | " / ") atom)*
atom ::= [a-z] | number | "(" root ")"
number ::= "0" | [1-9] [0-9]*
"""
EXPRESSION_LARK = """\
start: term ((" + " | " - ") term)*
term: atom ((" * " | " / ") atom)*
atom: /[a-z]/ | /0|[1-9][0-9]*/ | "(" start ")"
"""


def response_format(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": name, "schema": schema, "strict": True},
        }
    }


def structural_tag(begin: str, schema: dict[str, Any], end: str) -> str:
    # A model that has never seen the tags would fill with blanks what the grammar lets be blank.
    content = {"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": 1}
    tag = {"type": "tag", "begin": begin, "content": content, "end": end}
    return json.dumps({"type": "structural_tag", "format": tag})


def named(grammar: str) -> dict[str, Any]:
    """One of the grammars that ship, by its name."""
    return {"extra_body": {"custom_params": {"lave": {"grammar": grammar}}}}


# --- the table ---------------------------------------------------------------------------

REQUESTS = (
    DemoRequest(
        "response_format: json_schema",
        "chat",
        "Extract the concert as JSON with keys title, date, seats: "
        "Wandering Tide plays in Cork on March 24, 2001; 8082 seats were sold.",
        response_format("concert", CONCERT),
        checks.json_schema(CONCERT),
    ),
    DemoRequest(
        "response_format: json_schema",
        "chat",
        "With yeast, saffron and mint you make Shadra Casserole for 12 in 22 minutes. "
        "Write the recipe as JSON with keys dish, serves, ingredients.",
        response_format("recipe", RECIPE),
        checks.json_schema(RECIPE),
    ),
    DemoRequest(
        "response_format: json_object",
        "chat",
        "Extract the forecast as JSON with keys sky, wind, humidity: "
        "Iluro expects rain, -25 degrees, wind 69, humidity 0.62.",
        {"response_format": {"type": "json_object"}},
        checks.json_object,
    ),
    DemoRequest(
        "response_format: json_schema",
        "chat",
        "Tools [open_table(again:bool,town,friend),pay_album(title)]. Call as JSON: "
        "Open the table with town Salem, again no and friend Solal.",
        response_format("call", TABLE_OR_ALBUM),
        checks.json_schema(TABLE_OR_ALBUM),
    ),
    DemoRequest(
        "extra_body: regex",
        "chat",
        "Date only, as YYYY-MM-DD: Pia Tulu arrives on 2033-12-17.",
        {"extra_body": {"regex": "[0-9]{4}-[0-9]{2}-[0-9]{2}"}},
        checks.regex("[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    ),
    DemoRequest(
        "extra_body: ebnf",
        "chat",
        "Write as an expression: the product of the quotient of 11 and n and "
        "the difference of m and 4.",
        {"extra_body": {"ebnf": EXPRESSION_EBNF}},
        checks.lark_grammar(EXPRESSION_LARK),
    ),
    DemoRequest(
        "json_schema",
        "generate",
        "Extract the parcel as JSON with keys parcel, receiver, size (width, height), weight: "
        "Parcel P13546 for Stefan Dradenwil is 70 wide, 131 high and weighs 24.1.",
        {"json_schema": json.dumps(PARCEL)},
        checks.json_schema(PARCEL),
    ),
    DemoRequest(
        "regex",
        "generate",
        "Price only: 29 bell for Ada Tersol cost 133.03.",
        {"regex": r"[1-9][0-9]{0,2}\.[0-9]{2}"},
        checks.regex(r"[1-9][0-9]{0,2}\.[0-9]{2}"),
    ),
    DemoRequest(
        "ebnf",
        "generate",
        "In symbols: the quotient of the sum of 97 and b and a.",
        {"ebnf": EXPRESSION_EBNF},
        checks.lark_grammar(EXPRESSION_LARK),
    ),
    DemoRequest(
        "structural_tag",
        "generate",
        "Tools [share_guest(amount:int,quick:bool),pay_menu(weight:number,code)]. "
        "Call as JSON: For quick yes and amount 32, share that guest.",
        {"structural_tag": structural_tag("<tool_call>", GUEST_OR_MENU, "</tool_call>")},
        checks.between("<tool_call>", checks.json_schema(GUEST_OR_MENU), "</tool_call>"),
    ),
    DemoRequest(
        "custom_params: grammar sql",
        "chat",
        "Tables [players(id,town,title,length,votes),drivers(id,owner,maker,stars,age)]. "
        "SQL: Show maker of all drivers with owner Fengo and owner not plate.",
        named("sql"),
        checks.ebnf(load("sql")[1]),
    ),
    DemoRequest(
        "custom_params: grammar smiles",
        "generate",
        "SMILES: chain of six with methoxy on 3, amino on 5.",
        named("smiles")["extra_body"],
        checks.ebnf(load("smiles")[1]),
    ),
    DemoRequest(
        "custom_params: grammar cpp",
        "chat",
        "Write in C++: string count(string s) returns s with 'k' replaced by 'g'.",
        named("cpp"),
        checks.ebnf(load("cpp")[1]),
    ),
)
