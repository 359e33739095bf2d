"""A result as JSON, Markdown, LaTeX and, for figures, a picture: printed beside ours, and why they differ."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import accountant as ac
from mechanisms.papers.item import Item, Row
from mechanisms.papers.runner import Result, RowResult, refuse_secret_votes

__all__ = ["Line", "format_value", "list_lines", "to_latex", "to_markdown", "write_result"]

HEAD = ("", "quantity", "printed", "ours", "spread", "why different")

AGREES = "agrees"


@dataclass(frozen=True)
class Line:
    """One number of a row: printed, ours (median over the seeds), least and largest, and why they differ."""

    row: str
    quantity: str
    printed: str
    ours: float | None
    low: float | None
    high: float | None
    why: str

    @property
    def cells(self) -> tuple[str, ...]:
        """As text, under `HEAD`."""
        ours = "" if self.ours is None else format_value(self.quantity, self.ours)
        spread = ""
        if self.low is not None and self.high is not None and self.low != self.high:
            spread = f"{format_value(self.quantity, self.low)} to {format_value(self.quantity, self.high)}"
        return (self.row, self.quantity.replace("_", " "), self.printed, ours, spread, self.why)


def list_lines(result: Result) -> list[Line]:
    """Every number of a result; quantities that a row neither prints nor computes are left out."""
    lines = []
    for found in result.rows:
        for quantity in result.item.quantities:
            values = found.values(quantity)
            printed = str(found.row.printed.get(quantity, ""))
            if not values and not printed:
                continue
            ours = statistics.median(values) if values else None
            low, high = (min(values), max(values)) if len(values) > 1 else (None, None)
            lines.append(
                Line(found.row.name, quantity, printed, ours, low, high, _explain(result, found, quantity, ours))
            )
    return lines


def _explain(result: Result, found: RowResult, quantity: str, ours: float | None) -> str:
    """Why ours is not what is printed."""
    row, printed = found.row, found.row.printed.get(quantity)
    if ours is None:
        return found.refused or _reason(row, quantity) or "not computed"
    if printed is None:
        return "" if quantity in found.priced else _said_small(result)
    if agrees(printed, ours):
        return AGREES
    small = "" if quantity in found.priced else _said_small(result)
    return "; ".join(each for each in (small, _reason(row, quantity)) if each) or "not explained"


def _reason(row: Row, quantity: str) -> str:
    return row.different.get(quantity, row.different.get("all", ""))


def _said_small(result: Result) -> str:
    return "small: other data" if result.request.small else ""


def agrees(printed: Any, ours: float) -> bool:
    """Whether ours, rounded to the printed digits, is the printed number."""
    try:
        number = Decimal(str(printed))
    except InvalidOperation:
        return False
    exponent = number.as_tuple().exponent
    unit = Decimal(1).scaleb(exponent) if isinstance(exponent, int) else Decimal(0)
    return abs(Decimal(repr(float(ours))) - number) <= unit / 2 * Decimal("1.000001")


def format_value(quantity: str, value: float) -> str:
    """Accuracies with one decimal, counts whole, other numbers with four digits."""
    if quantity.endswith(("accuracy", "nonprivate")):
        return f"{value:.1f}"
    if quantity.endswith("answers"):
        return f"{value:g}"
    return f"{value:.4g}" if quantity != "seconds" else f"{value:.2g}"


def say_how(result: Result) -> str:
    """On what the item was run."""
    item = result.item
    if not item.runs:
        return "Computed from the printed parameters; no data is needed."
    if result.request.small:
        data = (item.small or {}).get("data", "")
        said = f"Run small, on {data}: real data that comes with a Python package, not the paper's."
        return f"{said} {item.small_note}".strip()
    used = [name for name in item.needs if name in result.request.data]
    absent = [name for name in item.needs if name not in used]
    told = [f"Run on the user's files of {', '.join(used)}."] if used else []
    told += [f"Not run for want of {', '.join(absent)}; what needs no data is computed."] if absent else []
    return " ".join(told) or "Run on data that comes with a Python package."


def to_markdown(result: Result) -> str:
    """The result as a table in Markdown."""
    item = result.item
    text = [f"### {item.paper} {item.name}: {item.title}", "", f"{item.source}. {say_how(result)}", ""]
    text += [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    text += [f"| {' | '.join(cell.replace('|', '/') for cell in line.cells)} |" for line in list_lines(result)]
    text += ["", "; ".join(f"*{name.replace('_', ' ')}*: {what}" for name, what in item.quantities.items()) + "."]
    for note in (item.note, f"Not run: {item.missing}" if item.missing else ""):
        text += ["", note] if note else []
    return "\n".join(text) + "\n"


def to_latex(result: Result) -> str:
    """The result as a table in LaTeX, which needs no packages."""
    item = result.item
    lines = [" & ".join(map(ac.terminal.escape_latex, line.cells)) + r" \\" for line in list_lines(result)]
    head = " & ".join(map(ac.terminal.escape_latex, HEAD)) + r" \\"
    caption = ac.terminal.escape_latex(f"{item.source}: {item.title}. {say_how(result)}")
    begin = [
        r"\begin{table}",
        rf"\caption{{{caption}}}",
        r"\begin{tabular}{llrrrp{0.35\linewidth}}",
        r"\hline",
        head,
        r"\hline",
    ]
    return "\n".join([*begin, *lines, r"\hline", r"\end{tabular}", r"\end{table}"]) + "\n"


def to_table(result: Result) -> Any:
    """The result as a table for the terminal."""
    columns = [ac.terminal.Column(title, wrap=title in ("", "why different")) for title in HEAD]
    item = result.item
    notes = [
        say_how(result),
        *(note for note in (item.note, f"Not run: {item.missing}" if item.missing else "") if note),
    ]
    rows = [line.cells for line in list_lines(result)]
    return ac.terminal.Table(f"{item.source}: {item.title}", columns, rows, notes=notes)


def join_pages(items: Sequence[Item], out: Path, small: bool) -> str:
    """The Markdown of all results that are there, in the order of the items."""
    pages = []
    for item in items:
        path = out / item.paper / f"{item.name}{'-small' if small and item.rows else ''}.md"
        if path.is_file() and item.rows:
            pages.append(path.read_text(encoding="utf-8"))
    return "\n".join(pages)


def to_json(result: Result) -> dict[str, Any]:
    """The result for programs."""
    item = result.item
    rows = [
        {
            "name": found.row.name,
            "series": found.row.series,
            "x": found.row.x,
            "printed": dict(found.row.printed),
            "different": dict(found.row.different),
            "price": found.row.price,
            "run": found.row.run,
            "priced": found.priced,
            "measured": list(found.measured),
            "refused": found.refused,
        }
        for found in result.rows
    ]
    about = {"paper": item.paper, "item": item.name, "title": item.title, "source": item.source, "how": say_how(result)}
    more = {"small": result.request.small, "version": ac.__version__, "quantities": dict(item.quantities)}
    return {**about, **more, "note": item.note, "missing": item.missing, "rows": rows}


def write_result(result: Result, out: Path) -> list[Path]:
    """Write the result's files, each whole or not at all; returns their paths.

    Raises
    ------
    accountant.ParameterError
        A file cannot be written.
    accountant.DataDependentError
        As for `refuse_secret_votes`.
    """
    refuse_secret_votes(result.item, result.request)
    folder = out / result.item.paper
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{result.item.name}{'-small' if result.request.small else ''}"
    paths = [folder / f"{stem}{ending}" for ending in (".json", ".md", ".tex")]
    ac.files.write_json(paths[0], to_json(result))
    ac.files.write_text(paths[1], to_markdown(result))
    ac.files.write_text(paths[2], to_latex(result))
    if result.item.figure is not None:
        from mechanisms.papers.picture import draw

        picture = folder / f"{stem}.svg"
        if draw(result, picture):
            paths.append(picture)
    return paths
