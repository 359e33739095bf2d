"""Writes the documentation's page of the papers' tables and figures from the results of `make reproduce-small`.

``python benchmarks/reproduced.py build/reproduced``. Every number called *printed* is that of an item's file; every
other one was computed or measured by the run whose JSON files lie in the directory.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from mechanisms.papers import Item, list_items
from mechanisms.papers.writing import agrees, format_value

PAGE = Path(__file__).parent.parent / "notebooks" / "papers" / "reproduced.md"

HEAD = """# Every table and figure, printed beside ours

`mechanisms reproduce` lists the tables and figures of the five papers, what each needs and how long it takes;
`mechanisms reproduce private-knn table-1 --mnist DIR --svhn DIR --cifar10 DIR` runs one on your files, and with
`--small` on real data that comes with Python packages (`pip install 'knn-accountant[mechanisms,plots,small]'`). A run
that was killed goes on where it stopped. It writes JSON, Markdown, LaTeX and, for figures, a picture.

This page was made by `make reproduce-small`. *Printed* is what the paper prints, *ours* the price, or the median of the
runs with their least and largest, and *why different* comes from the item's file. Rows that say *small* ran on other
and far less data than the paper's: they show that the item runs, not what the paper measured. Points of figures that
print no number are left out here.

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="directory of `mechanisms reproduce all --small`")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    options.page.write_text(make_page(options.results), encoding="utf-8")
    print(f"written to {options.page}")


def make_page(results: Path) -> str:
    """The page, from the JSON files of all items."""
    sections = [HEAD, "## All items\n", list_of_items(), ""]
    for item in list_items():
        found = read_result(results, item)
        lines = [] if found is None else list_lines(found)
        if lines:
            sections += [f"## {item.paper} {item.name}: {item.title}\n", f"{item.source}. {found['how']}\n", *lines, ""]
            notes = item.note, f"Not run: {item.missing}." if item.missing else ""
            sections += [f"{each}\n" for each in notes if each]
    return "\n".join(sections).rstrip() + "\n"


def list_of_items() -> str:
    rows = ["| paper | item | what | status |", "|---|---|---|---|"]
    rows += [f"| {item.paper} | {item.name} | {item.title} | {item.status} |" for item in list_items()]
    return "\n".join(rows)


def read_result(results: Path, item: Item) -> dict[str, Any] | None:
    """What the item's JSON file holds; None of an item that nothing is computed for."""
    if not item.rows:
        return None
    found: dict[str, Any] = json.loads((results / item.paper / f"{item.name}-small.json").read_text("utf-8"))
    return found


def list_lines(found: dict[str, Any]) -> list[str]:
    """A line for every printed number; empty where a figure prints none."""
    lines = []
    for row in found["rows"]:
        for quantity, printed in row["printed"].items():
            priced = quantity in row["priced"]
            name = "run_epsilon" if quantity == "epsilon" else quantity
            values = [row["priced"][quantity]] if priced else [each[name] for each in row["measured"] if name in each]
            cells = [row["name"], quantity.replace("_", " "), str(printed), *show(quantity, values)]
            cells.append(why(row, quantity, values, priced))
            lines.append(f"| {' | '.join(cells)} |")
    head = ["| | quantity | printed | ours | spread | why different |", "|---|---|---|---|---|---|"]
    return head + lines if lines else []


def show(quantity: str, values: list[float]) -> tuple[str, str]:
    """The median, and least and largest."""
    if not values:
        return "", ""
    low, high = min(values), max(values)
    spread = "" if low == high else f"{format_value(quantity, low)} to {format_value(quantity, high)}"
    return format_value(quantity, statistics.median(values)), spread


def why(row: dict[str, Any], quantity: str, values: list[float], priced: bool) -> str:
    """Why ours differs from what is printed."""
    told: str = row["different"].get(quantity, row["different"].get("all", ""))
    if not values:
        return row["refused"] or told
    if agrees(row["printed"][quantity], statistics.median(values)):
        return "agrees"
    return told if priced else "; ".join(each for each in ("small: other data", told) if each)


if __name__ == "__main__":
    main()
