"""Draws the pictures of the README and of the documentation into notebooks/pictures.

Prices are drawn by `accountant plot`, and what was measured from the figures in accepted.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "notebooks" / "pictures"

PLOTS: dict[str, tuple[str, ...]] = {
    "releases": ("figure5-subsampled-screening", "--kind", "releases", "--tolerance", "0.05"),
}
"""Arguments of `accountant plot`, by the name of the picture."""

ACCEPTED = Path(__file__).parent / "accepted.json"


def query_costs(target: Path) -> None:
    """Processor time of a query against the number of records, beside the bare products."""
    from accountant.plots import save
    from accountant.plots.style import canvas, headline, legend_below, style

    figures = json.loads(ACCEPTED.read_text("utf-8"))["more_records_than_memory"]
    rows, workers = figures["sizes"], figures["workers"]
    millions = [row["records"] / 1e6 for row in rows]
    spent = [row["ms_per_query"] * row["cpu_seconds"] / row["seconds"] for row in rows]
    bare = [each / row["cpu_ratio"] for each, row in zip(spent, rows, strict=True)]
    with canvas(None) as ax:
        for index, (name, values) in enumerate((("Private-kNN, out of core", spent), ("bare products", bare))):
            ax.plot(millions, values, label=name, **style(index))
        ax.set(xlim=(0, None), ylim=(0, None), xlabel="millions of records", ylabel="processor time, ms per query")
        headline(
            ax, "A query costs in proportion to the records", f"64 features, 1024 queries in a pass, {workers} workers"
        )
        legend_below(ax)
        save(ax, target)


DRAWN: dict[str, Callable[[Path], None]] = {"query_costs": query_costs}
"""Pictures of what was measured."""

DARK = "<style>@media (prefers-color-scheme: dark) { svg { filter: invert(0.93) hue-rotate(180deg) } }</style>"
"""On a dark page lightness is turned round, and hues are kept."""


def draw(name: str, folder: Path = FOLDER) -> Path:
    """Draw a picture, then take its background away and make it readable on a dark page."""
    target = folder / f"{name}.svg"
    if name in DRAWN:
        DRAWN[name](target)
    else:
        subprocess.run([sys.executable, "-m", "accountant", "plot", *PLOTS[name], "-o", str(target)], check=True)
    text = target.read_text("utf-8").replace('style="fill: #ffffff"', 'style="fill: none"')
    opening, end, rest = text.partition(" <metadata>")
    target.write_text(f"{opening} {DARK}\n{end}{rest}", "utf-8")
    return target


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in (*PLOTS, *DRAWN):
        draw(name)


if __name__ == "__main__":
    main()
