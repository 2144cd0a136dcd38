"""Plots of what is measured without a server: lookaheads, replay, and the shipped model alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from lave_plugin.bench import verify
from lave_plugin.bench.figure import COLOURS, save
from lave_plugin.bench.in_process import feasibility, steps
from lave_plugin.bench.results import Results

WAYS = dict(zip(verify.WAYS, ("#c05621", "#90cdf4", "#2b6cb0", "#68a357"), strict=True))
MODES = {"none": COLOURS["off"], "guided": COLOURS["constrained"], "sampled": COLOURS["free"]}
WIDTHS = {"none": 1.5, "guided": 4.0, "sampled": 1.5}
"""Of lines that often lie upon each other; the later mode is above the earlier."""
HALF, FIFTH = 0.5, 0.2


def verify_plots(results: Results, folder: Path) -> list[Path]:
    return [_lookaheads(results, folder), _by_samples(results, folder)]


def _lookaheads(results: Results, folder: Path) -> Path:
    """Time of a row and share of witnesses found, half of the positions masked, by grammar."""
    import matplotlib.pyplot as plt

    entries = results.all(kind="peers", masked=HALF)
    figure, axes = plt.subplots(
        1, 2, figsize=(9, 1.2 + 0.7 * len(entries)), sharey=True, layout="constrained"
    )
    height = 0.8 / len(WAYS)
    for number, (way, colour) in enumerate(WAYS.items()):
        measured = [
            (at + (number - len(WAYS) / 2 + 0.5) * height, entry["ways"][way])
            for at, entry in enumerate(entries)
            if way in entry["ways"]
        ]
        places = [place for place, _ in measured]
        median = [found["ms"]["p50"] for _, found in measured]
        above = [found["ms"]["p90"] - found["ms"]["p50"] for _, found in measured]
        spread = {"xerr": [[0.0] * len(above), above], "error_kw": {"lw": 0.8}}
        axes[0].barh(places, median, height, label=way, color=colour, **spread)
        axes[1].barh(places, [100 * found["found"] for _, found in measured], height, color=colour)
    axes[0].set_yticks(range(len(entries)), [entry["grammar"] for entry in entries])
    axes[0].invert_yaxis()
    axes[0].set_xscale("log")
    axes[0].set_xlabel("ms a row, median and p90")
    axes[1].set_xlabel("witnesses found, %")
    figure.legend(frameon=False, loc="outside upper center", ncols=len(WAYS))
    return save(figure, folder, results.path.stem)


def _by_samples(results: Results, folder: Path) -> Path:
    """Witnesses found over N, a fifth of the positions masked, a line for each grammar."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for entry in results.all(kind="peers", masked=FIFTH):
        shares = [100 * share for share in entry["found_by_samples"]]
        (line,) = axis.plot(range(1, len(shares) + 1), shares, label=entry["grammar"])
        guided = 100 * entry["ways"]["guided"]["found"]
        axis.axhline(guided, color=line.get_color(), lw=0.8, ls="--")
        axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axis.set_xlabel("fillings N; dashed: guided")
    axis.set_ylabel("witnesses found, %")
    axis.set_ylim(0, 102)
    return save(figure, folder, f"{results.path.stem}-samples")


def replay_plots(results: Results, folder: Path) -> list[Path]:
    """Answers valid and complete, and exact, over the model's accuracy, a panel for each task."""
    import matplotlib.pyplot as plt

    tasks = list(dict.fromkeys(entry["task"] for entry in results.all()))
    figure, axes = plt.subplots(
        1, len(tasks), figsize=(2.8 * len(tasks) + 0.8, 3.2), squeeze=False, layout="constrained"
    )
    for axis, task in zip(axes[0], tasks, strict=True):
        for mode, colour in MODES.items():
            mine = results.all(task=task, mode=mode)
            at = sorted({entry["accuracy"] for entry in mine})
            good, exact = [], []
            for accuracy in at:
                here = [entry for entry in mine if entry["accuracy"] == accuracy]
                answers = sum(entry["requests"] for entry in here)
                failed = sum(len(entry["failures"]) for entry in here)
                good.append(100 * (1 - failed / answers))
                exact.append(100 * sum(entry["exact"] for entry in here) / answers)
            style = {"color": colour, "lw": WIDTHS[mode]}
            axis.plot(at, good, "-", **style, label=f"{mode}, valid and complete")
            axis.plot(at, exact, ":", **style, label=f"{mode}, exact")
        axis.set_title(task)
        axis.set_ylim(-2, 102)
        axis.set_xlabel("accuracy of the model")
    axes[0][0].set_ylabel("%")
    axes[0][-1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return [save(figure, folder, results.path.stem)]


def feasibility_plots(results: Results, folder: Path) -> list[Path]:
    """Witnesses found over N, a panel for each part that is masked."""
    import matplotlib.pyplot as plt

    parts = feasibility.parts(results)
    figure, axes = plt.subplots(
        1, len(parts), figsize=(2.8 * len(parts) + 0.8, 3.2), squeeze=False, layout="constrained"
    )
    for axis, part in zip(axes[0], parts, strict=True):
        for way, colour in zip(feasibility.WAYS, (COLOURS["off"], COLOURS["free"]), strict=True):
            accepted = [100 * share for share in feasibility.acceptance(results, part, way)]
            axis.plot(range(1, len(accepted) + 1), accepted, color=colour, label=way)
        guided = 100 * feasibility.guided(results, part)
        axis.axhline(guided, color=COLOURS["constrained"], ls="--", label="guided")
        axis.set_title(f"{100 * part:.0f} % masked")
        axis.set_xscale("log")
        axis.set_ylim(0, 102)
        axis.set_xlabel("fillings N")
    axes[0][0].set_ylabel("witnesses found, %")
    axes[0][-1].legend(frameon=False, loc="lower right")
    return [save(figure, folder, results.path.stem)]


def steps_plots(results: Results, folder: Path) -> list[Path]:
    """Scores over T, a line for each mode and score."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
    rows = steps.summary(results)
    for mode, colour in (("none", COLOURS["off"]), ("lave", COLOURS["constrained"])):
        mine = [row for row in rows if row["mode"] == mode]
        at = [row["T"] for row in mine]
        for score, line in (("syntactic", "-"), ("functional", "--")):
            values = [row[score] for row in mine]
            axis.plot(at, values, line, marker="o", color=colour, label=f"{mode}, {score}@1")
    axis.set_xscale("log", base=2)
    axis.set_xticks(steps.STEPS, [str(value) for value in steps.STEPS])
    axis.set_xlabel(f"steps T for {steps.LENGTH} tokens")
    axis.set_ylabel("%")
    axis.set_ylim(0, 102)
    axis.legend(frameon=False)
    return [save(figure, folder, results.path.stem)]


PLOTS: Mapping[str, Callable[[Results, Path], list[Path]]] = {
    "verify": verify_plots,
    "replay": replay_plots,
    "feasibility": feasibility_plots,
    "steps": steps_plots,
}
"""By benchmark."""
