"""The five tasks' data: every answer is right by its judge, and held-out means held out."""

import json
import random
import re
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lave_plugin.bench import programs
from lave_plugin.demo.records import RESERVED, Draw, Sample, split_of
from lave_plugin.demo.tasks import (
    FIRST_LESSON,
    LAST_LESSON,
    MAKERS,
    PRACTICE,
    UNSEEN_WORDS,
    cpp,
    extraction,
    held_out,
    training_samples,
)
from lave_plugin.demo.tasks.judging import is_right, is_valid
from lave_plugin.demo.tasks.sql import sql_sample

SEEDS = st.integers(0, 2**32 - 1)
# No deadline: these tests share their machine with servers and training runs.
briefly = settings(deadline=None, max_examples=15)
TASKS = st.sampled_from(list(MAKERS))


def words_of(samples: list[Sample]) -> set[str]:
    text = " ".join(f"{sample.prompt} {sample.answer}" for sample in samples)
    return set(re.findall("[a-z]+", text.lower()))


# --- the answer is right ---------------------------------------------------------------


@pytest.mark.parametrize("task", MAKERS)
def test_every_answer_meets_its_own_constraint_and_is_right(task):
    for sample in held_out(60, seed=3, task=task):
        assert is_valid(sample, sample.answer), sample
        assert is_right(sample, sample.answer)


LESSONS = pytest.mark.parametrize("lesson", [FIRST_LESSON, LAST_LESSON], ids=["first", "last"])


@LESSONS
def test_training_answers_meet_their_constraints_as_well(lesson):
    for sample in training_samples(lesson, 0, 1, 250, 0.1):
        assert is_valid(sample, sample.answer), sample


@LESSONS
def test_a_lesson_s_shares_are_of_tasks_and_make_a_whole(lesson):
    assert lesson.shares.keys() <= {*MAKERS, *PRACTICE} - {"unseen", "copy"}
    assert sum(lesson.shares.values()) == pytest.approx(1)


def test_both_lessons_together_show_every_task_but_the_unseen_one():
    shown = {*FIRST_LESSON.shares, *LAST_LESSON.shares, "copy"}
    assert shown == {*MAKERS, *PRACTICE} - {"unseen"}


@pytest.mark.parametrize("task", PRACTICE)
def test_practice_is_right_too(task):
    draw = Draw(random.Random(f"practice {task}"), "train", UNSEEN_WORDS)
    for _ in range(40):
        sample = PRACTICE[task](draw)
        assert is_right(sample, sample.answer), sample


@given(seed=SEEDS, task=TASKS)
@briefly
def test_an_answer_meets_its_constraint_whatever_the_seed(seed, task):
    (sample,) = held_out(1, seed, task)
    assert is_valid(sample, sample.answer)


@pytest.mark.parametrize("joined", [0.0, 0.7])
def test_the_c_plus_plus_answers_pass_their_tests(joined):
    """Six functions of each form in one program, each with its own ``main`` under a name."""
    if shutil.which("g++") is None and shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    parts, calls = [], []
    for form in dict.fromkeys(cpp.FORMS):
        draw = Draw(random.Random(f"program {form.__name__}"), "held-out")
        for number in range(6):
            function = form(cpp.Parts(draw, joined), "f")
            tests = cpp.tests_of("f", function.calls).replace("int main()", "int judge()")
            place = f"{form.__name__}_{number}"
            answer = f"{function.signature} {{\n{function.body}}}"
            parts.append(f"namespace {place} {{\n{answer}\n{tests}}}\n")
            calls.append(f"  if ({place}::judge()) return 1;\n")
    assert programs.passes(cpp.program("".join(parts), main_of(calls))) == "passed"
    failing = parts[0].replace("return", "return 7777 +", 1)
    assert programs.passes(cpp.program(failing, main_of(calls[:1]))) == "failed"


def main_of(calls: list[str]) -> str:
    return f"int main() {{\n{''.join(calls)}  return 0;\n}}\n"


WRONG = {
    "json call": lambda text: text.replace('"name"', '"tool"'),
    "python call": lambda text: text.removesuffix(")"),
    "cpp": lambda text: text.removesuffix("}"),
    "smiles": lambda text: text + "(",
    "sql": lambda text: text.replace("SELECT ", "SELECT , "),
    "composed": lambda text: text.replace('": ', '" ', 1),
}


@pytest.mark.parametrize("task", WRONG)
def test_a_broken_answer_is_not_valid(task):
    for sample in held_out(10, seed=4, task=task):
        assert not is_valid(sample, WRONG[task](sample.answer))


def test_a_query_is_judged_by_what_it_returns():
    sample = held_out(1, seed=0, task="sql")[0]
    other = sample.answer.replace("SELECT", "select").replace(" FROM", "  from")
    assert is_right(sample, other)
    assert not is_right(sample, "SELECT 1")
    assert not is_right(sample, "DROP TABLE x")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT COUNT(*) FROM n"
    assert not is_right(sample, endless)


def test_most_queries_have_rows_to_tell_them_apart():
    """A database in which a condition is met nowhere would call many wrong queries right."""
    told_apart = 0
    # The rest may well return the same for other rows: a largest value, a few first ones.
    telling = re.compile(r"SELECT (?!DISTINCT|MAX|MIN)(?!.*LIMIT).* WHERE ")
    samples = [s for s in held_out(200, seed=2, task="sql") if telling.match(s.answer)]
    for sample in samples:
        without = re.sub(r" WHERE .*?(?= GROUP| ORDER|$)", "", sample.answer)
        told_apart += not is_right(sample, without)
    assert told_apart > 0.9 * len(samples)


def test_a_c_plus_plus_answer_is_judged_by_what_it_does():
    if shutil.which("g++") is None and shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    sample = next(s for s in held_out(60, seed=1, task="cpp") if "int r = 0;" in s.answer)
    renamed = re.sub(r"\br\b", "outcome", sample.answer)
    assert is_right(sample, renamed)
    assert not is_right(sample, re.sub(r"return \w+;", "return -7777;", sample.answer))


def test_values_of_a_composed_record_stand_in_its_text():
    for sample in held_out(200, seed=9, task="composed"):
        schema = sample.schema["properties"]
        for key, value in json.loads(sample.answer).items():
            if isinstance(value, str) and "pattern" not in schema[key]:
                assert value in sample.prompt
            if isinstance(value, int | float) and not isinstance(value, bool):
                assert str(value) in sample.prompt


# --- held out --------------------------------------------------------------------------


@pytest.mark.parametrize("task", MAKERS)
def test_held_out_samples_follow_from_the_seed_alone(task):
    assert held_out(20, seed=8, task=task) == held_out(20, seed=8, task=task)
    assert held_out(20, seed=8, task=task) != held_out(20, seed=9, task=task)


@LESSONS
def test_training_samples_follow_from_the_seed_and_the_group(lesson):
    assert training_samples(lesson, 4, 7, 60, 0.1) == training_samples(lesson, 4, 7, 60, 0.1)
    assert training_samples(lesson, 4, 7, 60, 0.1) != training_samples(lesson, 5, 7, 60, 0.1)
    assert training_samples(lesson, 4, 7, 60, 0.1) != training_samples(lesson, 4, 8, 60, 0.1)


@given(seed=SEEDS, task=TASKS)
@briefly
def test_no_held_out_prompt_can_occur_in_training(seed, task):
    (sample,) = held_out(1, seed, task)
    assert split_of(sample.prompt) == "held-out"


@LESSONS
@given(seed=SEEDS)
@briefly
def test_every_training_prompt_belongs_to_the_training_split(lesson, seed):
    samples = training_samples(lesson, seed, 0, 20, 0.1)
    assert {split_of(sample.prompt) for sample in samples} == {"train"}


@LESSONS
def test_held_out_words_stand_in_no_training_sample(lesson):
    assert not UNSEEN_WORDS & words_of(training_samples(lesson, 0, 0, 4000, 0.1))


@pytest.mark.parametrize("task", ["composed", "json call", "python call", "sql"])
def test_about_half_of_what_must_be_named_is_coined_in_training_and_nothing_elsewhere(task):
    listed = words_of(held_out(600, seed=2, task=task))

    def coined(samples: list[Sample]) -> float:
        """The share of samples with a word of small letters that no held-out one has."""
        words = [re.findall(r"\b[a-z]{4,10}\b", sample.prompt) for sample in samples]
        return sum(bool(set(found) - listed) for found in words) / len(samples)

    draw = Draw(random.Random("train"), "train", UNSEEN_WORDS)
    assert coined([MAKERS[task](draw) for _ in range(200)]) > 0.8
    assert coined(held_out(200, seed=3, task=task)) < 0.1


def test_about_half_of_the_functions_are_coined_in_training_and_none_elsewhere():
    def listed(samples: list[Sample]) -> float:
        names = [re.search(r"(\w+)\(", sample.prompt)[1] for sample in samples]
        return sum(name in cpp.NAMES for name in names) / len(names)

    draw = Draw(random.Random("train"), "train", UNSEEN_WORDS)
    assert 0.35 < listed([MAKERS["cpp"](draw) for _ in range(200)]) < 0.65
    assert listed(held_out(200, seed=3, task="cpp")) == 1.0


def test_a_coined_word_is_no_keyword_and_none_that_is_barred():
    free = Draw(random.Random(0), "train")
    words = {free.coined() for _ in range(2000)}
    assert len(words) > 1900
    barred = frozenset(sorted(words)[::2])
    again = Draw(random.Random(0), "train", barred)
    coined = {again.coined() for _ in range(2000)}
    assert not coined & (barred | RESERVED)
    assert all(re.fullmatch("[a-z]{4,10}", word) for word in coined)


def test_the_lists_themselves_are_disjoint_from_the_held_out_ones():
    """What 4,000 samples might miss."""
    seen = {*extraction.KINDS, *extraction.CHOICES, *extraction.GROUP_KEYS}
    seen |= {key for seen_keys, *_ in extraction.FORMS for key in seen_keys}
    assert not UNSEEN_WORDS & seen


def test_a_record_of_an_unseen_type_has_no_key_that_training_has():
    seen = words_of(training_samples(LAST_LESSON, 1, 0, 3000, 0.0))
    for sample in held_out(200, seed=5, task="unseen"):
        assert not set(sample.schema["properties"]) & seen
    kinds = {sample.kind for sample in held_out(400, seed=5, task="unseen")}
    assert len(kinds) >= 15


@pytest.mark.parametrize("task", ["json call", "python call", "sql"])
def test_half_of_the_held_out_tools_and_tables_are_of_unseen_words(task):
    samples = held_out(200, seed=6, task=task)
    unseen = sum(bool(UNSEEN_WORDS & words_of([sample])) for sample in samples)
    assert 0.35 * len(samples) < unseen < 0.65 * len(samples)


def test_a_held_out_c_plus_plus_task_combines_its_parts_as_no_training_task_does():
    """Neither the names of its functions nor its descriptions come up in training."""
    draw = Draw(random.Random("train"), "train")
    training = [MAKERS["cpp"](draw).prompt for _ in range(2500)]

    def parts(prompts: list[str]) -> tuple[set[str], set[str]]:
        matches = [re.search(r"(\w+)\(.*?\) returns (.*)", prompt) for prompt in prompts]
        names = {match[1] for match in matches}
        return names, {re.sub(r"\d+", "k", match[2]) for match in matches}

    names, said = parts(training)
    other_names, other_said = parts([s.prompt for s in held_out(200, seed=1, task="cpp")])
    assert not names & other_names
    # Of letters there is one form for each pair, so the letters alone are held out.
    new = {one for one in other_said if "'" not in one}
    assert not {one for one in new if "from k to" not in one} & said


def test_extraction_has_more_than_twenty_types_and_every_form_of_value():
    schemas = json.dumps([sample.schema for sample in held_out(300, seed=0, task="composed")])
    for form in ("integer", "number", "boolean", "enum", "pattern", "array"):
        assert form in schemas
    assert '"object", "properties": {"' in schemas
    assert len({sample.kind for sample in held_out(400, seed=0, task="composed")}) > 20


def test_a_database_is_part_of_an_sql_sample():
    sample = sql_sample(Draw(random.Random(0), "train"))
    assert sample.tests.count("CREATE TABLE") == 2
