"""The demo's data: every sample's answer is right, and held-out means held out."""

import json
import random
import re

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lave_plugin.demo.records import (
    BOOLEAN,
    DATE,
    INTEGER,
    NUMBER,
    RECORD_TYPES,
    STRING,
    TIME,
    Draw,
    Record,
    Sample,
    array_of,
    key_with_parts,
    object_of,
    one_of,
    split_of,
    typed,
)
from lave_plugin.demo.shipped import CHECKPOINT
from lave_plugin.demo.tasks import LAST_LESSON, held_out, training_samples
from lave_plugin.demo.tasks.judging import is_valid
from lave_plugin.demo.training.tokenizer import (
    END_ID,
    MASK_ID,
    PAD_ID,
    START_ID,
    chat,
    load_tokenizer,
)

SEEDS = st.integers(0, 2**32 - 1)
# No deadline: these tests share their machine with servers and training runs.
unhurried = settings(deadline=None)
briefly = settings(deadline=None, max_examples=20)
MADE_HERE = ["record", "copy", "expression", "field"]
TASKS = st.sampled_from(MADE_HERE)


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(CHECKPOINT)


# --- what a prompt says ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (STRING, "name"),
        (INTEGER, "name:int"),
        (NUMBER, "name:number"),
        (BOOLEAN, "name:bool"),
        (DATE, "name:date"),
        (TIME, "name:time"),
        (one_of(["dry", "wet"]), "name:dry|wet"),
        (array_of(STRING), "name[text]"),
        (array_of(INTEGER), "name[int]"),
        (object_of({"mayor": STRING, "depth": NUMBER}), "name(mayor,depth:number)"),
        (array_of(object_of({"load": NUMBER, "zone": STRING})), "name[load:number,zone]"),
    ],
)
def test_a_prompt_names_keys_with_their_types(schema, told):
    assert typed("name", schema) == told


# --- the answer is right ---------------------------------------------------------------


@pytest.mark.parametrize("task", MADE_HERE)
def test_every_answer_meets_its_own_constraint(task):
    for sample in held_out(400, seed=3, task=task):
        assert is_valid(sample, sample.answer), sample


@given(seed=SEEDS, task=TASKS)
@unhurried
def test_an_answer_meets_its_constraint_whatever_the_seed(seed, task):
    (sample,) = held_out(1, seed, task)
    assert is_valid(sample, sample.answer)


@pytest.mark.parametrize("make", RECORD_TYPES, ids=lambda make: make.__name__)
@given(seed=SEEDS)
@briefly
def test_every_field_of_a_record_is_valid_and_its_text_holds_the_strings(make, seed):
    record: Record = make(Draw(random.Random(seed), "train"))
    for key, (value, schema) in record.fields.items():
        jsonschema.validate(value, schema)
        # A date may be spelled out; everything else stands in the text as it is.
        for leaf in strings_and_numbers(value):
            if "pattern" not in schema:
                assert leaf in record.text, (key, record)


def strings_and_numbers(value):
    """The texts that JSON writes for a value's leaves, booleans left out."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [leaf for item in value for leaf in strings_and_numbers(item)]
    return [] if isinstance(value, bool) else [str(value)]


def test_there_are_at_least_fifteen_record_types_and_all_of_them_occur():
    assert len(RECORD_TYPES) >= 15
    kinds = {sample.kind for sample in held_out(400, seed=0)}
    assert kinds == {make.__name__ for make in RECORD_TYPES}


def test_the_schemas_cover_every_form_of_value():
    forms = set()
    for sample in held_out(400, seed=0):
        for schema in sample.schema["properties"].values():
            forms.add(form_of(schema))
            forms.add(form_of(schema.get("items", {})) + " in an array")
    plain = {"string", "integer", "number", "boolean", "enum", "date", "object", "array"}
    in_arrays = {f"{form} in an array" for form in ("string", "number", "enum", "object")}
    assert plain | in_arrays <= forms


def form_of(schema: dict) -> str:
    if "pattern" in schema:
        return "date"
    return "enum" if "enum" in schema else schema.get("type", "none")


def test_a_schema_is_closed_and_lists_its_keys_in_the_answers_order():
    def check(value, schema):
        if schema["type"] == "array":
            for item in value:
                check(item, schema["items"])
        if schema["type"] == "object":
            assert schema["additionalProperties"] is False
            assert list(value) == list(schema["properties"]) == schema["required"]
            for key, inner in schema["properties"].items():
                check(value[key], inner)

    for sample in held_out(200, seed=1):
        check(json.loads(sample.answer), sample.schema)


def test_a_prompt_names_the_keys_in_the_answers_order():
    for sample in held_out(200, seed=1):
        properties = sample.schema["properties"].items()
        keys = ", ".join(key_with_parts(key, schema) for key, schema in properties)
        assert keys in sample.prompt


WRONG_ANSWERS = {
    "a key is missing": '{"age": 7}',
    "a key is doubled into its neighbour": '{"name": "Ada", "ageage": 7}',
    "a value has the wrong type": '{"name": "Ada", "age": "7"}',
    "a key is too many": '{"name": "Ada", "age": 7, "town": "Fez"}',
    "the brace is not closed": '{"name": "Ada", "age": 7',
    "there is text behind": '{"name": "Ada", "age": 7}}',
    "there is nothing": "",
}


@pytest.mark.parametrize("answer", WRONG_ANSWERS.values(), ids=WRONG_ANSWERS.keys())
def test_a_wrong_answer_is_not_valid(answer):
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    sample = Sample("resident", "", '{"name": "Ada", "age": 7}', schema=schema)
    assert is_valid(sample, sample.answer)
    assert not is_valid(sample, answer)


# --- constraints that other tasks use --------------------------------------------------

EXPRESSIONS = [
    ("x", True),
    ("0", True),
    ("3 + x * 7", True),
    ("(3 + x) * 7", True),
    ("((a - b) / 2)", True),
    ("3 +x", False),
    ("07", False),
    ("ab", False),
    ("(x", False),
    ("x)", False),
    ("x +", False),
    ("x y", False),
    ("-x", False),
    ("@", False),
    ("()", False),
    ("", False),
]


@pytest.mark.parametrize(("text", "accepted"), EXPRESSIONS)
def test_the_expression_grammar_and_its_checker_agree(text, accepted):
    sample = held_out(1, seed=0, task="expression")[0]
    assert is_valid(sample, text) == accepted
    xgrammar = pytest.importorskip("xgrammar")
    from xgrammar.testing import _is_grammar_accept_string

    grammar = xgrammar.Grammar.from_ebnf(sample.grammar)
    assert _is_grammar_accept_string(grammar, text) == accepted


def test_an_expression_has_the_value_that_its_words_say():
    words_to_symbols = {"sum": "+", "difference": "-", "product": "*", "quotient": "/"}

    def value_of_words(words: list[str], variables: dict[str, float]) -> float:
        """Evaluate ``the <operation> of <left> and <right>``, taking words from the front."""
        word = words.pop(0)
        if word != "the":
            return variables.get(word) or float(word)
        symbol = words_to_symbols[words.pop(0)]
        assert words.pop(0) == "of"
        left = value_of_words(words, variables)
        assert words.pop(0) == "and"
        right = value_of_words(words, variables)
        return eval(f"left {symbol} right", {}, {"left": left, "right": right})

    variables = dict(zip("abmnxyz", (2.1, 3.2, 5.3, 7.4, 11.5, 13.6, 17.7), strict=True))
    for sample in held_out(200, seed=5, task="expression"):
        words = sample.prompt.split(": ")[1].rstrip(".").split()
        try:
            expected = value_of_words(words, variables)
        except ZeroDivisionError:  # (x - x) as a divisor
            continue
        assert eval(sample.answer, {}, variables) == pytest.approx(expected)


# --- held out --------------------------------------------------------------------------


@pytest.mark.parametrize("task", MADE_HERE)
def test_held_out_samples_follow_from_the_seed_alone(task):
    assert held_out(50, seed=8, task=task) == held_out(50, seed=8, task=task)
    assert held_out(50, seed=8, task=task) != held_out(50, seed=9, task=task)


@given(seed=SEEDS, task=TASKS)
@unhurried
def test_no_held_out_prompt_can_occur_in_training(seed, task):
    (sample,) = held_out(1, seed, task)
    assert split_of(sample.prompt) == "held-out"


@pytest.mark.parametrize("value", ["invented", "person", "title"])
def test_open_values_of_the_two_splits_are_disjoint(value):
    def values(split: str) -> set[str]:
        draw = Draw(random.Random(split), split)
        return {getattr(draw, value)().removeprefix("The ") for _ in range(2000)}

    assert not values("train") & values("held-out")


def test_the_names_in_held_out_records_never_occur_in_training_texts():
    samples = training_samples(LAST_LESSON, 0, 0, 3000, 0.1)
    training = " ".join(sample.prompt for sample in samples)
    for sample in held_out(300, seed=2):
        record = json.loads(sample.answer)
        for key in ("name", "author", "director", "title", "guest", "patient", "dish"):
            if key in record:
                name = re.escape(record[key].removeprefix("The "))
                assert not re.search(rf"\b{name}\b", training)


# --- tokens ----------------------------------------------------------------------------


@pytest.mark.parametrize("task", MADE_HERE)
def test_prompts_and_answers_survive_the_tokenizer(tokenizer, task):
    for sample in held_out(300, seed=6, task=task):
        for text in (sample.prompt, sample.answer):
            assert tokenizer.decode(tokenizer.encode(text).ids) == text


@given(text=st.text())
@unhurried
def test_any_text_survives_the_tokenizer(tokenizer, text):
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_every_byte_is_a_token_and_the_special_ones_come_first(tokenizer):
    from tokenizers.pre_tokenizers import ByteLevel

    config = json.loads((CHECKPOINT / "config.json").read_text())
    assert tokenizer.get_vocab_size() == config["vocab_size"]
    assert all(tokenizer.token_to_id(byte) is not None for byte in ByteLevel.alphabet())
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|MASK|>"]
    assert [tokenizer.token_to_id(token) for token in special] == [0, 1, 2, 3]
    assert [PAD_ID, START_ID, END_ID, MASK_ID] == [0, 1, 2, 3]


@pytest.mark.parametrize("token", ['{"', '":', '",', '"}', '"],', "},"])
def test_tokens_cross_grammar_boundaries(tokenizer, token):
    assert tokenizer.token_to_id(token) is not None


@pytest.mark.parametrize("value", ["Ada Falk", "Zanmarova", "2031-04-05", "IB1184", "12.75"])
def test_a_value_has_the_same_tokens_in_a_text_and_in_json(tokenizer, value):
    def tokens_of_value(text: str) -> list[str]:
        encoding = tokenizer.encode(text)
        start = text.index(value)
        inside = zip(encoding.tokens, encoding.offsets, strict=True)
        return [token for token, (first, _) in inside if start <= first < start + len(value)]

    assert tokens_of_value(f"seen by {value} then") == tokens_of_value(f'{{"name": "{value}"}}')


def test_lengths_are_those_of_a_quick_demo(tokenizer):
    samples = held_out(500, seed=7)
    prompts = [len(tokenizer.encode(chat(sample.prompt)).ids) for sample in samples]
    answers = [len(tokenizer.encode(sample.answer).ids) for sample in samples]
    assert max(prompts) < 100
    assert max(answers) < 100
    assert 25 <= sum(answers) / len(answers) <= 50


def test_the_chat_template_of_the_checkpoint_writes_what_training_read():
    jinja2 = pytest.importorskip("jinja2")
    template = json.loads((CHECKPOINT / "tokenizer_config.json").read_text())["chat_template"]
    messages = [{"role": "user", "content": "Repeat: Ada"}]
    rendered = jinja2.Template(template, keep_trailing_newline=True).render(
        messages=messages, add_generation_prompt=True
    )
    assert rendered == chat("Repeat: Ada")
