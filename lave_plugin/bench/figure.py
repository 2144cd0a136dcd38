"""A figure of matplotlib as files."""

from __future__ import annotations

from pathlib import Path

COLOURS = {"off": "#777777", "free": "#2b6cb0", "constrained": "#c05621"}
FORMATS = ("svg", "png")


def save(figure, folder: Path, name: str) -> Path:
    """Write it in each of the formats, and close it; the SVG file."""
    import matplotlib.pyplot as plt

    for kind in FORMATS:
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(folder / f"{name}.{kind}", dpi=120, metadata=metadata)
    plt.close(figure)
    return folder / f"{name}.svg"
