"""Results as plots, SVG and PNG each. Needs matplotlib (``pip install 'lave-plugin[bench]'``)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from lave_plugin.bench import paper, serve, state_plots
from lave_plugin.bench.figure import COLOURS, save
from lave_plugin.bench.results import Results
from lave_plugin.bench.variants import TABLES


def can_plot() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def plot(results: Results, folder: Path) -> list[Path]:
    """Draw what there is to draw of these results; the SVG files that were written."""
    import matplotlib

    matplotlib.use("Agg")
    # The same results give the same file: no date, and ids that don't change.
    matplotlib.rcParams["svg.hashsalt"] = "lave"
    matplotlib.rcParams["svg.fonttype"] = "none"
    folder.mkdir(parents=True, exist_ok=True)
    if results.benchmark == "serve":
        return [_throughput(results, folder), _share(results, folder)]
    if results.benchmark != "paper":
        return state_plots.PLOTS[results.benchmark](results, folder)
    sweeps = any(variant.at is not None for variant in TABLES[results.options["table"]])
    return [(_sweep if sweeps else _scores)(results, folder)]


def _throughput(results: Results, folder: Path) -> Path:
    """Output tokens a second over the requests in flight, one panel for each mix."""
    import matplotlib.pyplot as plt

    rows = serve.summary(results)
    mixes = list(dict.fromkeys(row["mix"] for row in rows))
    figure, axes = plt.subplots(
        1, len(mixes), figsize=(2.6 * len(mixes) + 0.8, 3.2), squeeze=False, layout="constrained"
    )
    for axis, mix in zip(axes[0], mixes, strict=True):
        for way, colour in COLOURS.items():
            mine = [row for row in rows if (row["mix"], row["way"]) == (mix, way)]
            found = [(row["max_concurrency"], row["output_throughput"]) for row in mine]
            found = [(at, value) for at, value in found if value is not None]
            if not found:
                continue
            middle = [value.median for _, value in found]
            below = [value.median - value.least for _, value in found]
            above = [value.most - value.median for _, value in found]
            axis.errorbar(
                [at for at, _ in found],
                middle,
                yerr=[below, above],
                label=way,
                color=colour,
                marker="o",
                capsize=2,
            )
        axis.set_title(mix)
        axis.set_xscale("log", base=2)
        ticks = sorted({row["max_concurrency"] for row in rows})
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.set_ylim(bottom=0)
        axis.set_xlabel("requests in flight")
    axes[0][0].set_ylabel("output tokens/s")
    axes[0][-1].legend(frameon=False, loc="lower right")
    return save(figure, folder, results.path.stem)


def _share(results: Results, folder: Path) -> Path:
    """Milliseconds of verification in a step over its constrained rows, a line for each mix."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(4.6, 3.2), layout="constrained")
    for mix in results.options["mixes"]:
        found = serve.verification_by_rows(results, mix=mix)
        if found:
            axis.plot(list(found), list(found.values()), marker="o", label=mix)
            axis.legend(frameon=False, loc="upper left")
    axis.set_xlabel("constrained rows in the step")
    axis.set_ylabel("verification, ms a step")
    axis.set_ylim(bottom=0)
    return save(figure, folder, f"{results.path.stem}-verification")


def _scores(results: Results, folder: Path) -> Path:
    """syntactic@1 and functional@1 of each variant, and its time."""
    import matplotlib.pyplot as plt

    rows = paper.summary(results, TABLES[results.options["table"]])
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    figure, axes = plt.subplots(
        len(kinds), 2, figsize=(9, 0.8 + 2.8 * len(kinds)), squeeze=False, layout="constrained"
    )
    for (scores, times), kind in zip(axes, kinds, strict=True):
        mine = [row for row in rows if row["kind"] == kind]
        places = range(len(mine))
        for shift, score, colour in (
            (-0.2, "syntactic", COLOURS["free"]),
            (0.2, "functional", COLOURS["constrained"]),
        ):
            values = [(row[score] or {}).get(1, 0.0) for row in mine]
            scores.barh([at + shift for at in places], values, 0.4, label=f"{score}@1",
                        color=colour)  # fmt: skip
        scores.set_yticks(places, [row["variant"] for row in mine])
        scores.invert_yaxis()
        scores.set_xlim(0, 100)
        scores.set_xlabel(f"{kind}, %")
        scores.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        times.barh(places, [row["seconds"] for row in mine], color=COLOURS["off"])
        times.set_yticks(places, [""] * len(mine))
        times.invert_yaxis()
        times.locator_params(axis="x", nbins=5)
        times.set_xlabel("mean seconds an answer")
    return save(figure, folder, results.path.stem)


def _sweep(results: Results, folder: Path) -> Path:
    """syntactic@1, functional@1 and time over what is swept, a line for each strategy."""
    import matplotlib.pyplot as plt

    rows = paper.summary(results, TABLES[results.options["table"]])
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for strategy, colour in (("none", COLOURS["off"]), ("lave", COLOURS["constrained"])):
        mine = [row for row in rows if row["strategy"] == strategy]
        if not mine:
            continue
        at = [row["at"] for row in mine]
        for score, line in (("syntactic", "-"), ("functional", "--")):
            values = [(row[score] or {}).get(1) for row in mine]
            axes[0].plot(at, values, line, marker="o", color=colour, label=f"{strategy}, {score}@1")
        axes[1].plot(at, [row["seconds"] for row in mine], marker="o", color=colour, label=strategy)
    axes[0].set_ylabel("%")
    axes[0].set_ylim(0, 102)
    axes[1].set_ylabel("mean seconds an answer")
    axes[1].set_ylim(bottom=0)
    for axis in axes:
        axis.set_xlabel(results.options["table"])
        axis.legend(frameon=False)
    return save(figure, folder, results.path.stem)
