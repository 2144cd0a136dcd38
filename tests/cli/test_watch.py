"""What ``lave watch`` shows, in the terminal and as a page; the page in a real browser."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from browser import Browser, find_browser
from rich.console import Console
from typer.testing import CliRunner

from lave_plugin.cli import app
from lave_plugin.cli.watch import ask
from lave_plugin.trace import FATES, nothing_told
from lave_plugin.watch.page import page
from lave_plugin.watch.story import Story
from lave_plugin.watch.terminal import SIGNS, frame, show

# Ids: 1 is the end token, -1 a mask, 9 has no text.
TEXTS = {"2": '{"', "3": "age", "4": '":', "5": " ", "6": "36", "7": '"', "8": "}\n"}
STEPS = [
    {
        "begin": 0,
        "before": [-1, -1, -1, -1],
        "after": [2, 3, 4, -1],
        "favourites": [[0, 2, 0.98], [1, 3, 0.9], [2, 4, 0.4], [3, 7, 0.8]],
        "proposed": [[0, 2], [3, 7]],
        "events": [
            ["refused", 3, 7, 0.8],
            ["accepted", 0, 2, 0.98],
            ["refused", 3, 7, 0.8],
            ["recovered", 1, 3, 0.9],
            ["forced", 2, 4, None],
        ],
        "witness": [[3, 5]],
    },
    {
        "begin": 0,
        "before": [2, 3, 4, -1],
        "after": [2, 3, 4, 5],
        "favourites": [[3, 5, 0.6]],
        "proposed": [[3, 5]],
        "events": [["accepted", 3, 5, 0.6]],
        "witness": [],
    },
    {
        "begin": 0,
        "before": [2, 3, 4, 5],
        "after": [2, 3, 4, 5],
        "favourites": [],
        "proposed": [],
        "events": [],
        "witness": [],
    },
    {
        "begin": 4,
        "before": [-1, -1, -1, -1],
        "after": [6, 8, 1, 1],
        "favourites": [[4, 6, 0.7], [5, 9, 0.9], [6, 1, 1.0], [7, 1, 1.0]],
        "proposed": [[4, 6], [5, 9]],
        "events": [
            ["accepted", 4, 6, 0.7],
            ["accepted", 5, 8, 0.1],
            ["filled", 6, 1, 1.0],
            ["filled", 7, 1, 1.0],
            ["set aside", 5, 9, 0.9],
        ],
        "witness": [],
    },
]
FACTS = {
    "strategy": "lave",
    "complete": True,
    "steps": 4,
    "refusals": 2,
    "recoveries": 1,
    "forced_tokens": 1,
    "unverified": 0,
    "trace": {"steps": STEPS, "left_out": 0, "texts": TEXTS, "end_tokens": [1]},
}
PROMPT = 'How old is "Ada" </script><b>&amp;'
STORY = Story(PROMPT, "json_schema", '{"type": "object"}', '{"age": 36}\n', FACTS)


def printed(what) -> str:
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(what)
    return console.export_text()


def test_a_step_reads_as_text():
    lines = [line.rstrip() for line in printed(frame(STORY, 0)).splitlines()]
    assert lines[0].startswith("step 1 of 4, block 1, tokens 0 to 3 ")
    assert lines[1:5] == [
        'model    {"age":"',
        'block    {"age":▢',
        'witness  {"age":',
        '✘ refused ×2  3  "    ━━━━━━━━━━ 0.80',
    ]
    assert lines[5].split() == ["✔", "accepted", "0", '{"', "━━━━━━━━━━", "0.98"]
    assert [line.split()[:2] for line in lines[6:]] == [["↷", "recovered"], ["→", "forced"]]


def test_what_stands_before_the_block_ends_that_fill_it_and_a_token_without_text():
    text = printed(frame(STORY, 3))
    assert 'before  {"age": ' in text
    assert "model   36⟨9⟩⏎⏎" in text
    assert "block   36}↵⏎⏎" in text
    assert "⏎ filled     6 to 7  ⏎" in text
    assert "the pass that closes the block" in printed(frame(STORY, 2))


def test_every_fate_has_its_sign():
    assert SIGNS.keys() == FATES.keys()
    assert len({sign for sign, _ in SIGNS.values()}) == len(SIGNS)


def test_at_a_terminal_the_steps_take_one_place_and_a_cut_trace_says_so(tmp_path):
    story = Story("", "regex", "", "", {**FACTS, "trace": {**FACTS["trace"], "left_out": 7}})
    with open(tmp_path / "out", "w") as out:
        console = Console(file=out, force_terminal=True, width=100)
        show(console, story, range(4), step=False, pace=0)
    text = (tmp_path / "out").read_text()
    assert "\x1b[1A" in text  # up, to write over the step before
    assert "7 steps more than a trace may tell of" in text


def in_parts() -> Iterator[tuple[str, dict]]:
    """The story as a stream brings it: a part for each step, and an end without any."""
    texts = dict(TEXTS)
    for step in STEPS:
        new = {str(i): texts.pop(str(i)) for i in step["after"] if str(i) in texts}
        ends = [1] if 1 in step["after"] else []
        yield "", {"trace": nothing_told() | {"steps": [step], "texts": new, "end_tokens": ends}}
    yield STORY.answer[:4], {}
    yield STORY.answer[4:], {**FACTS, "trace": nothing_told() | {"texts": texts}}


def test_a_story_grows_to_what_it_is_told_at_once():
    story = Story(STORY.prompt, STORY.kind, STORY.constraint)
    assert [(at, story.is_finished) for at in story.grow(in_parts())] == [
        (at, False) for at in range(4)
    ]
    assert story == STORY and story.is_finished


@pytest.mark.parametrize("way", ["in a row", "in one place", "at Enter"])
def test_a_step_is_shown_while_the_next_is_still_to_come(way, monkeypatch):
    story, out = Story("", "regex", ""), io.StringIO()
    monkeypatch.setattr("sys.stdin", io.StringIO("\n" * 4))
    console = Console(file=out, force_terminal=way == "in one place", color_system=None, width=100)

    def coming():
        for number, part in enumerate(in_parts(), 1):
            yield part
            if number <= 4:
                assert f"step {number}, block {1 + (number == 4)}, tokens" in out.getvalue()
                assert f"step {number + 1}" not in out.getvalue()

    show(console, story, story.grow(coming()), step=way == "at Enter", pace=0)
    assert out.getvalue().count("Enter for the next step") == (3 if way == "at Enter" else 0)
    assert "lave: 4 steps, 2 refusals" in out.getvalue()


def test_a_step_stays_where_it_is_shown_for_a_while(monkeypatch):
    waits = []
    monkeypatch.setattr(time, "sleep", waits.append)
    for terminal in (False, True):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
        show(console, STORY, range(4), step=False, pace=0.25)
        assert waits == [0.25] * 4 * terminal


# --- the command -------------------------------------------------------------------------


@pytest.fixture
def pretend():
    """``pretend(status, content)``: the URL of a server that answers so, and what it was asked.

    The content is that of an error, or the events of a stream.
    """
    servers, asked = [], []

    def pretend(status: int, content: dict | Iterable[dict]) -> tuple[str, list[dict]]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                asked.append({"path": self.path, "key": self.headers["Authorization"]})
                asked[-1].update(json.loads(body))
                self.send_response(status)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                if isinstance(content, dict):
                    self.send(json.dumps(content))
                else:
                    for event in content:
                        self.send(f"data: {json.dumps(event)}\n\n")
                    self.send("data: [DONE]\n\n")
                self.send("")

            def send(self, text: str):
                data = text.encode()
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}", asked

    yield pretend
    for server in servers:
        server.shutdown()
        server.server_close()


def chunk(text: str = "", facts: dict | None = None, finish: str | None = None) -> dict:
    """An event of a chat completion that is streamed."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return {"choices": [choice], **({"metadata": {"lave": [facts]}} if facts else {})}


def answer(facts: dict | None) -> list[dict]:
    """The events of one whose steps all come at its end."""
    return [chunk(STORY.answer), chunk(facts=facts), chunk(finish="stop")]


def watch(*arguments: str, keys: str = ""):
    return CliRunner().invoke(app, ["watch", *arguments], input=keys)


CONSTRAINTS = {
    "regex": (["--regex", "[ab]"], {"regex": "[ab]"}),
    "ebnf": (["--ebnf", 'root ::= "a"'], {"ebnf": 'root ::= "a"'}),
    "lark": (["--lark", 'start: "a"'], {"ebnf": 'start: "a"'}),
    "schema": (
        ["--json-schema", '{"type": "object"}'],
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "object"}},
            }
        },
    ),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_what_the_server_is_asked(pretend, name):
    options, constraint = CONSTRAINTS[name]
    url, asked = pretend(200, answer(FACTS))
    more = ["--strategy", "map", "--seed", "3", "--max-tokens", "7", "--api-key", "k"]
    result = watch(PROMPT, *options, "--url", url + "/", *more)
    assert result.exit_code == 0, result.output
    (body,) = asked
    assert body.items() >= {**constraint, "seed": 3, "max_tokens": 7, "temperature": 0}.items()
    assert body["messages"] == [{"role": "user", "content": PROMPT}]
    assert body["custom_params"] == {"lave": {"trace": True, "report": True, "strategy": "map"}}
    assert body["stream"] and body["key"] == "Bearer k"
    assert body["path"] == "/v1/chat/completions"


def test_a_grammar_that_ships_a_file_and_the_example(pretend, tmp_path):
    url, asked = pretend(200, answer(FACTS))
    assert watch(PROMPT, "--grammar", "cpp", "--url", url).exit_code == 0
    assert asked[-1]["custom_params"]["lave"] == {
        "grammar": "cpp",
        "trace": True,
        "report": True,
    }
    (tmp_path / "digits.regex").write_text("[0-9]+\n")
    assert watch(PROMPT, str(tmp_path / "digits.regex"), "--url", url).exit_code == 0
    assert asked[-1]["regex"] == "[0-9]+"
    assert watch("--url", url).exit_code == 0
    assert asked[-1]["response_format"]["json_schema"]["schema"]["required"] == ["director", "year"]


def test_step_by_step_it_waits_until_nobody_is_there(pretend):
    url, _ = pretend(200, answer(FACTS))
    result = watch(PROMPT, "--regex", "a", "--url", url, "--step", keys="\n")
    assert result.exit_code == 0
    assert result.output.count("Enter for the next step") == 2
    assert result.output.count("step ") >= 4 and "lave: 4 steps, 2 refusals" in result.output


def test_what_comes_is_told_before_the_next_is_sent(pretend):
    """Over HTTP: the server sends a part when the one before has been read."""
    read = threading.Semaphore(0)

    def sent():
        for text, facts in in_parts():
            yield chunk(text, facts)
            assert read.acquire(timeout=10)
        yield chunk(finish="stop")

    url, _ = pretend(200, sent())
    story = Story(STORY.prompt, STORY.kind, STORY.constraint)

    def reading():
        for part in ask(url, {}, None):
            yield part
            read.release()

    assert list(story.grow(reading())) == [0, 1, 2, 3]
    assert story == STORY


FAULTS = {
    "refused": (400, {"message": "a regex that is none"}, "says 400: a regex that is none"),
    "refused in the stream": (200, [{"error": {"message": "a bad regex"}}], "says: a bad regex"),
    "aborted": (
        200,
        [*(chunk(*part) for part in [*in_parts()][:3]), chunk(finish="abort")],
        "ended the stream before the answer",
    ),
    "an end before the end": (200, answer(FACTS)[:2], "ended the stream before the answer"),
    "no plugin": (200, answer(None), "tells nothing of its steps"),
    "no trace": (200, answer({"strategy": "lave"}), "tells nothing of its steps"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_answer_without_steps(pretend, name):
    status, content, sentence = FAULTS[name]
    url, _ = pretend(status, content)
    result = watch(PROMPT, "--regex", "a", "--url", url)
    assert result.exit_code == 1
    assert sentence in " ".join(result.output.split())


BAD_USE = {
    "no grammar": ([PROMPT], "no grammar"),
    "no prompt": (["--regex", "a"], "no prompt"),
    "two grammars": ([PROMPT, "--regex", "a", "--ebnf", "b"], "two grammars"),
    "no JSON": ([PROMPT, "--json-schema", "{"], "the schema is no JSON"),
    "no server": ([PROMPT, "--regex", "a", "--model", "nowhere"], "no checkpoint in nowhere"),
}


@pytest.mark.parametrize("name", BAD_USE)
def test_bad_use_is_a_sentence(name):
    arguments, sentence = BAD_USE[name]
    result = watch(*arguments)
    assert result.exit_code == 2
    assert sentence in " ".join(result.output.split())


# --- the page ----------------------------------------------------------------------------


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of its story."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.story = ""
        self._in_story = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self._in_story = dict(attributes).get("id") == "story"

    def handle_data(self, data):
        if self._in_story:
            self.story += data

    def handle_endtag(self, tag):
        self._in_story = False


def test_the_page_holds_the_story_and_needs_nothing_else():
    text = page(STORY)
    elements = Elements(text)
    told = json.loads(elements.story)
    assert told["prompt"] == PROMPT and told["trace"] == FACTS["trace"]
    assert len(told["told"]) == 4 and told["told"][0][0]["times"] == 2
    assert told["fates"].keys() == FATES.keys()
    for tag, attributes in elements.found:
        assert tag not in ("link", "img", "iframe") and not {"src", "href"} & attributes.keys()
    assert "http" not in text.replace("http-equiv", "")
    assert ("meta", "default-src 'none'") in [
        (tag, attributes.get("content", "").split(";")[0]) for tag, attributes in elements.found
    ]
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_html_writes_it_and_says_where(pretend, tmp_path):
    url, _ = pretend(200, answer(FACTS))
    path = tmp_path / "page.html"
    result = watch(PROMPT, "--regex", "[ab]", "--url", url, "--html", str(path))
    assert result.exit_code == 0
    assert f"{path}:4steps" in "".join(result.output.split())  # wherever the lines break
    assert json.loads(Elements(path.read_text()).story)["constraint"] == "[ab]"
    nowhere = watch(PROMPT, "--regex", "a", "--url", url, "--html", str(tmp_path / "no" / "p"))
    assert nowhere.exit_code == 2


@pytest.fixture
def browser(tmp_path):
    path = find_browser()
    if path is None:
        pytest.skip("no Chromium (Debian's chromium-headless-shell, or LAVE_BROWSER=PATH)")
    with Browser(path, tmp_path / "profile") as browser:
        yield browser


def where(browser: Browser) -> str:
    return browser.evaluate("document.getElementById('where').textContent")


def cells(browser: Browser) -> list[str]:
    return browser.evaluate(
        "[...document.querySelectorAll('#block .token')].map((cell) => cell.textContent)"
    )


def test_in_a_real_browser(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page(STORY), encoding="utf-8")
    browser.open(path)
    assert browser.evaluate("document.getElementById('prompt').textContent") == PROMPT
    assert where(browser) == "step 1 of 4, block 1"
    assert cells(browser) == ['{"', "age", '":', "▢"]
    fates = "[...document.querySelectorAll('#block .cell')].map((cell) => cell.dataset.fate ?? '')"
    assert browser.evaluate(fates) == ["accepted", "recovered", "forced", ""]
    assert browser.evaluate("document.querySelectorAll('#block .lost').length") == 1
    assert browser.evaluate("document.querySelector('#witness b').textContent") == " "
    assert browser.evaluate("document.querySelector('#events td').textContent") == "✘ refused ×2"

    # The keyboard, from anywhere in the page; nothing goes beyond the ends.
    browser.press("ArrowLeft")
    assert where(browser).startswith("step 1 ")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    assert where(browser) == "step 3 of 4, block 1"
    assert browser.evaluate("!document.getElementById('quiet').hidden")
    browser.press("End")
    browser.press("ArrowRight")
    assert where(browser) == "step 4 of 4, block 2"
    assert cells(browser) == ["36", "}↵", "⏎", "⏎"]
    assert browser.evaluate("document.getElementById('before').textContent") == '{"age": '
    assert browser.evaluate("getComputedStyle(document.getElementById('witness')).display") == (
        "none"
    )

    # The slider, with the mouse; then the map, its second row.
    box = "document.getElementById('%s').getBoundingClientRect()"
    for place, x, y, expected in [
        ("slider", "left + 2", "top + r.height / 2", "step 1 "),
        ("slider", "right - 2", "top + r.height / 2", "step 4 "),
        ("map", "left + 12", "top + r.height * 0.375", "step 2 "),
        ("back", "left + 5", "top + 5", "step 1 "),
        ("on", "left + 5", "top + 5", "step 2 "),
    ]:
        at = browser.evaluate(f"(() => {{ const r = {box % place}; return [r.{x}, r.{y}] }})()")
        browser.click(*at)
        assert where(browser).startswith(expected), place
    assert browser.evaluate("document.getElementById('slider').getAttribute('aria-valuetext')") == (
        "step 2 of 4"
    )

    # Light and dark differ, and are legible; a telephone needs no scrolling sideways.
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        colours = browser.evaluate(
            "(() => { const s = getComputedStyle(document.body);"
            " return [s.color, s.backgroundColor] })()"
        )
        ink, paper = (luminance(colour) for colour in colours)
        assert (ink < paper) == (scheme == "light")
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) > 10
    browser.resize(390, 844)
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert len(browser.screenshot()) > 10_000

    # It plays to the end by itself, stops there, and all the while nothing went wrong or out.
    browser.evaluate("document.activeElement.blur()")  # to a button the space bar is its own
    browser.press("End")
    browser.press(" ")
    playing = "document.getElementById('play').title"
    assert (where(browser), browser.evaluate(playing)) == ("step 1 of 4, block 1", "pause")
    deadline = time.monotonic() + 20
    while browser.evaluate(playing) == "pause" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (where(browser), browser.evaluate(playing)) == ("step 4 of 4, block 2", "play")
    wrong = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
    assert [event for event in browser.events if event.get("method") in wrong] == []
    asked = [e for e in browser.events if e.get("method") == "Network.requestWillBeSent"]
    assert [event["params"]["request"]["url"] for event in asked] == [path.as_uri()]


def luminance(colour: str) -> float:
    """Relative luminance of ``rgb(r, g, b)`` (WCAG 2.1)."""
    parts = [int(part) / 255 for part in colour[4:-1].split(",")]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
