"""The picture of a figure: ours as lines over the seeds' spread, printed numbers as rings."""

from __future__ import annotations

import statistics
from pathlib import Path

import accountant as ac
from mechanisms.papers.runner import Result, RowResult

__all__ = ["draw"]

Point = tuple[float, float, float, float]
"""Where, median, least, largest."""


def draw(result: Result, path: Path) -> bool:
    """Write the picture; False where matplotlib is not installed, or nothing was computed."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = result.item.figure
    assert figure is not None
    lines: dict[str, list[Point]] = {}
    rings: list[tuple[float, float]] = []
    for found in result.rows:
        if found.row.x is None:
            continue
        if values := found.values(figure.y):
            point = (found.row.x, statistics.median(values), min(values), max(values))
            lines.setdefault(found.row.series, []).append(point)
        rings += _find_rings(found, figure.y)
    if not lines:
        return False
    with matplotlib.rc_context({"svg.hashsalt": "reproduce"}):
        sheet = Figure(figsize=(7.6, 4.4), layout="constrained")
        axes = sheet.subplots()
        for name, points in lines.items():
            x, y, low, high = zip(*sorted(points), strict=True)
            (line,) = axes.plot(x, y, marker="o" if len(x) < 20 else None, label=name)
            if low != high:
                axes.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
        if rings:
            axes.plot(
                *zip(*rings, strict=True), "ko", fillstyle="none", markersize=10, linestyle="none", label="printed"
            )
        for axis in figure.log:
            getattr(axes, f"set_{axis}scale")("log")
        small = " (small)" if result.request.small and result.item.runs else ""
        axes.set_title(f"{result.item.source}{small}", loc="left")
        axes.set(xlabel=figure.x.replace("_", " "), ylabel=result.item.quantities[figure.y])
        axes.legend(frameon=False, fontsize="small")
        with ac.files.open_whole(path) as stream:
            sheet.savefig(stream, format="svg", metadata={"Date": None, "Title": result.item.title})
    return True


def _find_rings(found: RowResult, quantity: str) -> list[tuple[float, float]]:
    """The printed number of a point, if there is one."""
    try:
        value = float(found.row.printed[quantity])
    except (KeyError, ValueError):
        return []
    assert found.row.x is not None
    return [(found.row.x, value)]
