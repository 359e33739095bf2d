"""All items, from the files beside this one."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from mechanisms.papers.item import Item, ItemError, parse_item

__all__ = ["PAPERS", "list_items", "load_item"]

PAPERS = {
    "private-knn": "Zhu et al. 2020, Private-kNN",
    "ind-knn": "Zhu et al. 2023, Private Prediction Strikes Back (arXiv)",
    "ind-knn-supplement": "Zhu et al. 2023, supplementary material (UAI)",
    "reverse-knn": "Wang et al. 2022, Fine-grained Private Knowledge Distillation",
    "reverse-knn-short": "Li et al. 2023, Fine-grained Private Knowledge Distillation (ICASSP)",
}
"""The five documents."""


@cache
def list_items() -> tuple[Item, ...]:
    """All items: tables and figures of every paper, in the order of the papers and of the numbers."""
    found: list[Item] = []
    for paper in PAPERS:
        names = [each.name.removesuffix(".toml") for each in _folder(paper).iterdir() if each.name.endswith(".toml")]
        found.extend(_read(paper, name) for name in sorted(names, key=_by_number))
    return tuple(found)


def load_item(paper: str, name: str) -> Item:
    """The item of that name.

    Raises
    ------
    ItemError
        There is none.
    """
    if paper not in PAPERS:
        raise ItemError(f"paper = {paper!r}; accepted: {', '.join(PAPERS)}")
    for item in list_items():
        if (item.paper, item.name) == (paper, name):
            return item
    accepted = ", ".join(item.name for item in list_items() if item.paper == paper)
    raise ItemError(f"item = {name!r} of {paper}; accepted: {accepted}")


def _folder(paper: str) -> Any:
    return files("mechanisms.papers") / paper


def _read(paper: str, name: str) -> Item:
    try:
        return parse_item(paper, name, tomllib.loads((_folder(paper) / f"{name}.toml").read_text("utf-8")))
    except tomllib.TOMLDecodeError as error:
        raise ItemError(f"{paper}/{name}.toml: {error}; accepted: TOML") from None


def _by_number(name: str) -> tuple[bool, int, str]:
    kind, _, number = name.rpartition("-")
    return kind != "table", int(number.rstrip("ab")), number
