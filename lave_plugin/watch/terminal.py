"""The steps in the terminal, each as three lines that can be read as text, and what happened."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from lave_plugin.watch.story import MASKED, Story

SIGNS = {
    "accepted": ("✔", "green"),
    "edited": ("✎", "cyan"),
    "replaced": ("⇄", "blue"),
    "recovered": ("↷", "magenta"),
    "forced": ("→", "yellow"),
    "filled": ("⏎", "dim"),
    "unverified": ("?", "red"),
    "thought": ("…", "italic dim"),
    "refused": ("✘", "red"),
    "set aside": ("–", "red dim"),
    "taken back": ("↶", "red"),
}
_LOST = ("refused", "set aside", "taken back")
_BAR = 10
_LONGEST_TAIL = 200


def show(console: Console, story: Story, steps: Iterable[int], *, step: bool, pace: float) -> None:
    """Each step as it comes, in one place at a terminal, else in a row; then the answer.

    Args:
        steps: their numbers; the next one may take as long as the engine takes to make it.
        step: wait for Enter before each but the first.
        pace: seconds that a step stays at least, where the next one takes its place.
    """
    if console.is_terminal and not step:
        with Live(console=console, auto_refresh=False) as live:
            for at in steps:
                live.update(frame(story, at), refresh=True)
                time.sleep(pace)
    else:
        for at in steps:
            if step and at > 0:
                step = _wait(console)
            console.print(frame(story, at))
    console.print(Rule(style="dim"))
    console.print(closing(story))


def _wait(console: Console) -> bool:
    """Until Enter is pressed; False where nobody is there to press it."""
    console.print(Text("Enter for the next step", "dim"), end="")
    return bool(sys.stdin.readline())


def frame(story: Story, at: int) -> RenderableType:
    """Step ``at`` (from 0): what the model would write, the block, its witness, and why."""
    step = story.steps[at]
    last = step["begin"] + len(step["after"]) - 1
    of_all = f" of {len(story.steps)}" if story.is_finished else ""
    title = Text.assemble(
        (f"step {at + 1}", "bold"),
        f"{of_all}, block {story.block_number(at)}, tokens {step['begin']} to {last}",
    )
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="dim", no_wrap=True)
    lines.add_column(overflow="fold")
    if before := "".join(map(story.written, story.before_block(at))):
        cut = "…" if len(before) > _LONGEST_TAIL else ""
        lines.add_row("before", Text(cut + before[-_LONGEST_TAIL:], "dim"))
    lines.add_row("model", _model(story, step))
    lines.add_row("block", _block(story, step))
    if step["witness"]:
        lines.add_row("witness", _witness(story, step))
    return Group(Rule(title, style="dim", align="left"), lines, _events(story, step))


def _model(story: Story, step: dict) -> Text:
    """The block as the model would have it, its proposals underlined, what is lost struck out."""
    favourites = {position: (token, p) for position, token, p in step["favourites"]}
    proposed = {position: token for position, token in step["proposed"]}
    after = dict(enumerate(step["after"], step["begin"]))
    lost = {
        (position, token)
        for fate, position, token, _ in step["events"]
        if fate in _LOST and after[position] != token  # and not taken in the end
    }
    line = Text()
    for position, token in enumerate(step["before"], step["begin"]):
        shown, probability = favourites.get(position, (proposed.get(position, token), None))
        style = "" if position in favourites or position in proposed else "dim"
        if probability is not None and probability < 0.5:
            style += " dim"
        if position in proposed:
            style += " underline"
        if (position, shown) in lost:
            style += " red strike"
        line.append(story.written(shown), style.strip())
    return line


def _block(story: Story, step: dict) -> Text:
    fates = {position: fate for fate, position, *_ in step["events"] if fate not in _LOST}
    lost = {position for fate, position, *_ in step["events"] if fate in _LOST}
    line = Text()
    for position, token in enumerate(step["after"], step["begin"]):
        if token == MASKED:
            line.append(story.written(token), "red" if position in lost else "dim")
        elif position in fates:
            line.append(story.written(token), f"bold {SIGNS[fates[position]][1]}")
        else:
            line.append(story.written(token))
    return line


def _witness(story: Story, step: dict) -> Text:
    witness = dict(step["witness"])
    line = Text()
    for position, token in enumerate(step["after"], step["begin"]):
        if token == MASKED and position not in witness:
            line.append(story.written(token), "dim")
        else:
            line.append(
                story.written(witness.get(position, token)),
                "italic" if position in witness else "dim",
            )
    return line


def _events(story: Story, step: dict) -> RenderableType:
    if not step["events"]:
        return Text("nothing is masked any more: the pass that closes the block", "dim")
    table = Table.grid(padding=(0, 2))
    for told in story.told(step):
        sign, style = SIGNS[told.fate]
        twice = f" ×{told.times}" if told.times > 1 else ""
        to = f" to {told.last}" if told.last > told.first else ""
        table.add_row(
            Text(f"{sign} {told.fate}{twice}", style),
            Text(f"{told.first}{to}", "dim"),
            Text(story.written(told.token).replace(" ", "·"), "bold"),
            _bar(told.probability),
        )
    return table


def _bar(probability: float | None) -> Text:
    if probability is None:
        return Text()
    filled = round(probability * _BAR)
    return Text.assemble(
        ("━" * filled, "cyan"), ("━" * (_BAR - filled), "dim"), f" {probability:.2f}"
    )


def closing(story: Story) -> RenderableType:
    """The answer, and its facts in a line."""
    facts = story.facts
    line = (
        f"{facts['strategy']}: {facts['steps']} steps, {facts['refusals']} refusals, "
        f"{facts['recoveries']} recovered, {facts['forced_tokens']} forced; "
        f"{'complete' if facts['complete'] else 'not complete'}"
    )
    if left_out := story.trace["left_out"]:
        line += f"; {left_out} steps more than a trace may tell of"
    return Group(Text(story.answer, "bold"), Text(line, "dim"))
