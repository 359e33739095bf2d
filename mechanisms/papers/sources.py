"""Data of items: the user's files by name, and what packages bring along."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mechanisms.datasets import Dataset, load, parse_source, private_public_test_split
from mechanisms.papers.item import SOURCES, ItemError

__all__ = ["Parts", "describe_source", "fill_source", "find_parts"]

ATTRIBUTES = {
    "even": (0, 2, 4, 6, 8),
    "prime": (2, 3, 5, 7),
    "at least 5": (5, 6, 7, 8, 9),
    "multiple of 3": (0, 3, 6, 9),
    "square": (0, 1, 4, 9),
    "power of 2": (1, 2, 4, 8),
    "with a loop": (0, 6, 8, 9),
    "odd and below 6": (1, 3, 5),
}
"""Label sets for `--small`: attributes of a digit, in the place of those of faces and people."""


class Parts:
    """Private, public and test records of a run.

    Attributes
    ----------
    private, public : Dataset
    test : Dataset or None
    """

    def __init__(self, private: Dataset, public: Dataset, test: Dataset | None) -> None:
        self.private, self.public, self.test = private, public, test


def fill_source(source: str, given: Mapping[str, str]) -> str:
    """A source with the user's paths in the place of ``{mnist}`` and the like.

    Raises
    ------
    ItemError
        The user gave no path of that name.
    """

    def find(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in given:
            raise ItemError(f"no data {name}; accepted: --data {name}=PATH, or --small")
        return str(given[name])

    return re.sub(r"\{([a-z0-9-]+)\}", find, source)


def find_parts(run: Mapping[str, Any], given: Mapping[str, str], seed: int) -> Parts:
    """The records of a run: from separate sources, or from one that a seed cuts in three."""
    if "data" in run:
        whole = _load(fill_source(run["data"], given))
        whole = _with_attributes(whole) if run.get("attributes") else whole
        cut = private_public_test_split(whole, tuple(run["split"]), seed)
        return Parts(_repeat(cut.private, int(run.get("copies", 1))), cut.public, cut.test)
    private, public = (_load(fill_source(run[part], given)) for part in ("private", "public"))
    test = _load(fill_source(run["test"], given)) if "test" in run else None
    return Parts(_repeat(private, int(run.get("copies", 1))), public, test)


def describe_source(run: Mapping[str, Any], given: Mapping[str, str]) -> list[list[Any]]:
    """What tells one state of a run's files from another: paths, sizes and times of change."""
    found: list[list[Any]] = []
    for key in SOURCES:
        if isinstance(run.get(key), str):
            base = parse_source(fill_source(run[key], given)).base
            path = Path(base)
            files = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
            marks = [(each.name, os.stat(each).st_size, os.stat(each).st_mtime_ns) for each in files]
            found.append([key, fill_source(run[key], given), *marks])
    return found


@lru_cache(maxsize=4)
def _load(source: str) -> Dataset:
    return load(source)


def _with_attributes(dataset: Dataset) -> Dataset:
    """The same digits, with label sets."""
    assert dataset.labels is not None
    sets = np.array([[digit in chosen for chosen in ATTRIBUTES.values()] for digit in range(10)], np.int64)
    return replace(dataset, labels=sets[dataset.labels], classes=None)


def _repeat(dataset: Dataset, copies: int) -> Dataset:
    """Every record several times, as in the ablation over the number of records."""
    return dataset if copies == 1 else dataset.take(np.tile(np.arange(len(dataset)), copies))
