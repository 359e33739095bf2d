"""Parts of a source that can be typed: ``DIR:train``, ``DIR:t10k[0:5000]``, ``FILE[1000:]``."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from mechanisms.datasets.dataset import DataError, Dataset

__all__ = ["SourceParts", "parse_source", "split_pattern"]

PARTS = ("train", "t10k", "test", "extra")
"""Names of parts; t10k and test are the same part, by MNIST's name and by that of SVHN and CIFAR-10."""

_ROWS = re.compile(r"\[(\d*):(\d*)\]$")
_PARTS = re.compile(r":([a-z0-9+]+)$")


@dataclass(frozen=True)
class SourceParts:
    """A source, and what is taken of it.

    Attributes
    ----------
    base : str
        The source itself.
    parts : tuple of str
        Files of a directory, in this order; none: all.
    start, stop : int or None
        Rows from `start` to before `stop`, counted after the parts were joined; None: from the first, to the last.
    """

    base: str
    parts: tuple[str, ...] = ()
    start: int | None = None
    stop: int | None = None

    def cut(self, dataset: Dataset) -> Dataset:
        """The rows of a data set.

        Raises
        ------
        DataError
            There are fewer rows, or none is taken.
        """
        if self.start is None and self.stop is None:
            return dataset
        low, high = self.start or 0, len(dataset) if self.stop is None else self.stop
        if not low < high <= len(dataset):
            shown = f"[{'' if self.start is None else self.start}:{'' if self.stop is None else self.stop}]"
            raise DataError(f"{dataset.name}: rows {shown}; accepted: 0 <= a < b <= {len(dataset)} in [a:b]")
        return dataset.take(np.arange(low, high))

    def overlaps(self, other: SourceParts) -> bool:
        """Whether rows of both are surely the same: of one source, a directory that is taken whole, or a pattern."""
        return any(one._meets(another) for one in self._list_files() for another in other._list_files())

    def _list_files(self) -> list[SourceParts]:
        """The files that match a pattern, such as data/*.parquet; of another source that source."""
        folder, pattern = split_pattern(_local(self.base))
        if pattern is None or os.path.exists(_local(self.base)) or not self._is_uncut():
            return [self]
        inside = sorted(os.listdir(folder or ".")) if os.path.isdir(folder or ".") else []
        found = [os.path.join(folder, name) for name in inside if fnmatchcase(name, pattern)]
        return [self, *(replace(self, base=path) for path in found)]

    def _meets(self, other: SourceParts) -> bool:
        """Whether rows of both are surely the same; a pattern is a name like others."""
        one, another = _place(self.base), _place(other.base)
        if one == another or (one.exists() and another.exists() and one.samefile(another)):
            mine, theirs = (["test" if part == "t10k" else part for part in each.parts] for each in (self, other))
            if mine == theirs:
                stops = [each.stop for each in (self, other) if each.stop is not None]
                return not stops or max(self.start or 0, other.start or 0) < min(stops)
            # which rows of a part are taken is not known where other parts may be before it
            shared = not (mine and theirs) or bool(set(mine) & set(theirs))
            return shared and self._is_uncut() and other._is_uncut()
        wholes = ((self, one, another), (other, another, one))
        return any(each._is_uncut() and not each.parts and file.is_relative_to(place) for each, place, file in wholes)

    def _is_uncut(self) -> bool:
        return self.start is None and self.stop is None


def _place(base: str) -> Path:
    """Of features and labels in two files the one of features; links are followed."""
    base = _local(base)
    return Path(os.path.realpath(base if Path(base).exists() else base.partition(",")[0]))


def _local(base: str) -> str:
    """The path of an address of this machine's own files, file:///data; anything else as it is."""
    return base.removeprefix("file://") if base.startswith("file:///") else base


def split_pattern(path: str) -> tuple[str, str | None]:
    """The folder of a path and, if its last part is a pattern of names, such as ``part-*.parquet``, that part."""
    folder, slash, last = path.rpartition("/")
    return (folder or slash), last if any(mark in last for mark in "*?[") else None


def parse_source(source: str | Path) -> SourceParts:
    """A source as it was typed, taken apart; a file or directory of that very name is taken as it is.

    Raises
    ------
    DataError
        There is no part of that name.
    """
    text = str(source)
    if not text or Path(text).exists():
        return SourceParts(text)
    rows = _ROWS.search(text)
    base = text[: rows.start()] if rows else text
    start, stop = (int(each) if each else None for each in rows.groups()) if rows else (None, None)
    named = None if Path(base).exists() else _PARTS.search(base)
    parts: tuple[str, ...] = ()
    if named and Path(base[: named.start()]).is_dir():
        base, parts = base[: named.start()], tuple(named.group(1).split("+"))
        wrong = [part for part in parts if part not in PARTS]
        if wrong or len(set(parts)) < len(parts):
            raise DataError(f"{text}: part {(wrong or parts)[0]!r}; accepted: different ones of {', '.join(PARTS)}")
    return SourceParts(base, parts, start, stop)
