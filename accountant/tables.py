"""Tables of the command lines in the forms that people and programs ask for: one description, every form."""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from accountant.numerics.decimals import format_down, format_exact, format_up

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

__all__ = [
    "FORMS",
    "Column",
    "Down",
    "Table",
    "Up",
    "add_forms",
    "console",
    "escape_latex",
    "escape_markdown",
    "print_json",
    "write_table",
]

FORMS = {
    "json": "one JSON object instead of a table",
    "latex": "a LaTeX table",
    "csv": "comma-separated values, numbers as they are",
    "markdown": "a Markdown table",
}
"""Options for the form of a table, beside the table for terminals."""


class Up(float):
    """An upper bound in a column of mixed values: it is rounded up."""


class Down(float):
    """A lower bound in a column of mixed values: it is rounded down."""


def _show_any(value: Any) -> str:
    if isinstance(value, Up | Down):
        return (format_up if isinstance(value, Up) else format_down)(float(value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


KINDS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "up": format_up,
    "down": format_down,
    "count": lambda value: f"{value:,}",
    "share": lambda value: f"{value:.1%}",
    "number": lambda value: f"{value:.6g}",
    "exact": format_exact,
    "value": lambda value: _show_any(value),
}
"""What a column holds, and how people see it: upper bounds are rounded up, lower bounds down, and what bounds are given
for ("exact") not at all."""


FOLDED = 16
"""Characters of a word that stay on one line where a terminal is narrow; numbers stay whole."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    title : str
    kind : {"text", "up", "down", "count", "share", "number", "exact", "value"}
        How its values are written; text stands on the left, numbers on the right, a mixture ("value") too.
    wrap : bool
        Whether a terminal may break its lines.
    """

    title: str
    kind: str = "text"
    wrap: bool = True

    def show(self, value: Any) -> str:
        """A value as people see it; None is an empty cell, and text in a column of numbers stays as it is."""
        if value is None:
            return ""
        return value if isinstance(value, str) else KINDS[self.kind](value)


@dataclass(frozen=True)
class Table:
    """A table, with a line above and sentences below.

    Attributes
    ----------
    title : str
    columns : sequence of Column
    rows : sequence of sequences
        Values, not yet written as text.
    heading : str
        What stands out above the table.
    caption : str
        A description of the table, below it.
    notes : sequence of str
        Sentences that follow; programs that read CSV do not get them.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    heading: str = ""
    caption: str = ""
    notes: Sequence[str] = field(default=())

    def cells(self) -> list[list[str]]:
        """The values as people see them."""
        return [[column.show(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]


def add_forms(parser: argparse.ArgumentParser, forms: Sequence[str] = tuple(FORMS)) -> None:
    """Add --json, --latex, --csv and --markdown, which exclude each other; ``options.form`` is the chosen one."""
    group = parser.add_mutually_exclusive_group()
    for form in forms:
        text = FORMS[form]
        group.add_argument(f"--{form}", dest="form", action="store_const", const=form, default="table", help=text)


def write_table(table: Table, form: str, record: Mapping[str, Any] | None = None) -> None:
    """Write a table to standard output.

    Parameters
    ----------
    table : Table
    form : str
        "table" for terminals, or one of `FORMS`.
    record : mapping, optional
        What "json" prints; otherwise the rows by the titles of their columns.
    """
    if form == "json":
        titles = [column.title for column in table.columns]
        rows = [dict(zip(titles, row, strict=True)) for row in table.rows]
        print_json({"title": table.title, "rows": rows} if record is None else record)
        return
    {"table": _write_for_terminals, "latex": _write_latex, "csv": _write_csv, "markdown": _write_markdown}[form](table)


def _write_for_terminals(table: Table) -> None:
    from rich.table import Table as RichTable

    screen, rows = console(), table.cells()
    if table.heading:
        screen.print(table.heading, style="bold")
    if (widths := _fit(table.columns, rows, screen.width)) is None:
        _write_lines(table, rows, screen)
    else:
        drawn = RichTable(title=table.title, caption=table.caption or None)
        drawn.title_justify = drawn.caption_justify = "left"
        for column, width in zip(table.columns, widths, strict=True):
            side: Literal["left", "right"] = "left" if column.kind == "text" else "right"
            drawn.add_column(column.title, justify=side, overflow="fold", width=width)
        for row in rows:
            drawn.add_row(*row)
        screen.print(drawn)
    for note in table.notes:
        screen.print(note)


def _fit(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """Widths of the columns, of which the widest are made narrower; None where a number would have to be broken."""
    wanted, least = [], []
    for place, column in enumerate(columns):
        cells = [column.title, *(row[place] for row in rows)]
        whole, word = (_widest(part for cell in cells for part in split(cell)) for split in (str.splitlines, str.split))
        wanted.append(whole)
        least.append(whole if not column.wrap else min(word, FOLDED) if column.kind == "text" else word)
    room -= 3 * len(columns) + 1  # lines and blanks between columns
    if sum(least) > room:
        return None
    while sum(wanted) > room:
        place = max((each for each in range(len(wanted)) if wanted[each] > least[each]), key=wanted.__getitem__)
        wanted[place] -= 1
    return wanted


def _widest(parts: Iterable[str]) -> int:
    from rich.cells import cell_len

    return max([1, *map(cell_len, parts)])


def _write_lines(table: Table, rows: Sequence[Sequence[str]], screen: Console) -> None:
    """The same where a terminal has no room for it: a line for each value, which the terminal may break."""
    screen.print(table.title, style="italic")
    for row in rows:
        named = [(column.title, cell) for column, cell in zip(table.columns, row, strict=True) if cell]
        lines = [f"{title}: {cell}" if title else cell for title, cell in named]
        screen.print("\n".join(lines), end="\n\n", soft_wrap=True)
    if table.caption:
        screen.print(table.caption)


def _write_csv(table: Table) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([column.title for column in table.columns])
    writer.writerows([["" if value is None else value for value in row] for row in table.rows])


def _write_markdown(table: Table) -> None:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(escape_markdown(cell) for cell in cells)} |"

    above = [f"**{escape_markdown(text)}**" for text in (table.heading, table.title) if text]
    rules = ["---" if column.kind == "text" else "---:" for column in table.columns]
    grid = [line([column.title for column in table.columns]), f"| {' | '.join(rules)} |", *map(line, table.cells())]
    below = [escape_markdown(text) for text in (table.caption, *table.notes) if text]
    print("\n\n".join([*above, "\n".join(grid), *below]))


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is, in one cell of a table."""
    return " ".join("".join(f"\\{mark}" if mark in "\\`*_[]<>|#~&$" else mark for mark in text).split())


def _write_latex(table: Table) -> None:
    """A table environment; every character of the text is escaped, and no package is needed."""

    def line(cells: Sequence[str]) -> str:
        return f"    {' & '.join(escape_latex(cell) for cell in cells)} \\\\"

    sides = "".join("l" if column.kind == "text" else "r" for column in table.columns)
    caption = ". ".join(text.rstrip(".") for text in (table.title, table.heading, table.caption) if text)
    grid = [line([column.title for column in table.columns]), "    \\hline", *map(line, table.cells())]
    lines = ["\\begin{table}", "  \\centering", f"  \\caption{{{escape_latex(caption)}.}}"]
    lines += [f"  \\begin{{tabular}}{{{sides}}}", "    \\hline", *grid, "    \\hline", "  \\end{tabular}"]
    lines += [f"  \\par {escape_latex(note)}" for note in table.notes]
    print("\n".join([*lines, "\\end{table}"]))


LATEX = {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    "'": "\\textquotesingle{}",
    '"': "\\textquotesingle{}\\textquotesingle{}",  # a straight double one needs a package for its font
    "`": "\\textasciigrave{}",
    "[": "{[}",  # an option, and "*" a variant, of the end of the row above
    "*": "{*}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}

LIGATURES = re.compile(r"([-,])(?=\1)")
"""What LaTeX would print as one character with the next, once `LATEX` is applied."""


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is, on one line."""
    return LIGATURES.sub(r"\1\\/", "".join(LATEX.get(mark, mark) for mark in " ".join(text.split())))


def console(*, stderr: bool = False) -> Console:
    """The console for tables; at least 110 columns wide if it is not a terminal."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            raise  # rich would end the process, as if a command had found something

    found = Screen(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not found.is_terminal:
        found.width = max(found.width, 110)
    return found


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object on standard output."""

    def plain(item: Any) -> Any:
        # JSON has no infinity; float() reads "inf"
        if isinstance(item, float) and not math.isfinite(item):
            return str(item)
        if isinstance(item, Mapping):
            return {key: plain(entry) for key, entry in item.items()}
        if isinstance(item, list | tuple):
            return [plain(entry) for entry in item]
        return item

    print(json.dumps(plain(value), allow_nan=False, indent=2))
