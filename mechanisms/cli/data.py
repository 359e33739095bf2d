"""What the commands read: private, public and test records, and public options about them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import accountant as ac
from mechanisms.cli.results_file import OptionError

if TYPE_CHECKING:
    from mechanisms.datasets import Dataset

__all__ = ["LEARNT_CLASSES", "SEED_WARNING", "CommandData", "add_data", "load_data", "parse_seed", "warn_of_seed"]

SPLIT = (0.55, 0.28, 0.17)
"""Default shares of private, public and test records when one data set is cut into three."""

SEED_WARNING = "reproducible noise: not private against whoever knows the seed"

LEARNT_CLASSES = "the largest label that occurs in private records is released, and was not paid for"


@dataclass(frozen=True, eq=False)
class CommandData:
    """The data of a command, and what is public about its private part.

    Attributes
    ----------
    private, public : Dataset
    test : Dataset or None
    n_classes : int
        From a public option or from the file format; from the private labels only if `--learn-classes` asked for it.
    class_names : tuple of str or None
        Names of the classes, if `--classes` listed them.
    nominal : int
        Public number of private records, from which defaults follow: an option, or their number rounded to two digits.
    """

    private: Dataset
    public: Dataset
    test: Dataset | None
    n_classes: int
    class_names: tuple[str, ...] | None
    nominal: int


def add_data(parser: argparse.ArgumentParser) -> None:
    """Options that name private, public and test records, and say what is public about the private ones."""
    add = parser.add_argument
    add("--data", metavar="SOURCE", help="labelled records to cut in three: digits, openml:NAME, file, directory")
    add("--split", metavar="A,B,C", help=f"shares or numbers of private, public, test records (default {_join(SPLIT)})")
    add("--private", metavar="SOURCE", help="labelled private records, instead of --data")
    add("--public", metavar="SOURCE", help="public points; labels, if any, are used for diagnostics only")
    add("--test", metavar="SOURCE", help="labelled test records, for diagnostics")
    add(
        "--classes",
        metavar="N|LIST",
        type=_parse_classes,
        help="number of classes, or their names: 10, or cat,dog,bird",
    )
    add("--learn-classes", action="store_true", help="take the largest private label instead, which releases it")
    add("--records", metavar="N", type=ac.terminal.whole, help="public number of private records, for defaults")


def parse_seed(text: str) -> int:
    """A seed from the command line."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer >= 0")
    return int(text)


def _parse_classes(text: str) -> int | tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if len(names) == 1 and text.strip().isdigit() and int(text) >= 1:
        return int(text)
    if len(names) == 1 or "" in names or len(set(names)) < len(names):
        accepted = "a number such as 10, or two or more different names such as cat,dog"
        raise argparse.ArgumentTypeError(f"{text!r}; accepted: {accepted}")
    return names


def _join(values: Sequence[float]) -> str:
    return ",".join(f"{value:g}" for value in values)


def warn_of_seed(options: argparse.Namespace) -> None:
    """Warn on stderr that noise from a seed protects nothing from people who know the seed."""
    if options.seed is not None:
        print(f"mechanisms: {SEED_WARNING}", file=sys.stderr)


# --- records -------------------------------------------------------------------------------------------


def load_data(options: argparse.Namespace) -> CommandData:
    """Read private, public and test records; with the column of identifiers that `options.ids` names, if any.

    Raises
    ------
    accountant.AccountantError
        Options that do not go together, data that cannot be used, or an unknown number of classes. The message may
        show private records: it is for the terminal of the operator, who has them.
    """
    from mechanisms.validation import nominal_count

    if options.classes is not None and options.learn_classes:
        raise OptionError("--classes was given with --learn-classes; accepted: one or the other")
    names = options.classes if isinstance(options.classes, tuple) else None
    private, public, test = _load_datasets(options, names)
    n_classes = _count_classes(options, private)
    # a number that was learnt from private labels limits those alone
    for each in (private,) if options.learn_classes else (private, public, test):
        if each is not None:
            _check_labels(each, n_classes)
    return CommandData(private, public, test, n_classes, names, options.records or nominal_count(len(private)))


def _load_datasets(
    options: argparse.Namespace, names: tuple[str, ...] | None
) -> tuple[Dataset, Dataset, Dataset | None]:
    from mechanisms.datasets import load, private_public_test_split

    ids = getattr(options, "ids", None)
    ids = None if ids == "digest" else ids
    if options.data is not None:
        if options.private or options.public or options.test:
            raise OptionError("--data was given with --private, --public or --test; accepted: one or the other")
        data = load(options.data, ids=ids, classes=names)
        # the cut is public; it must be the same when an interrupted run goes on
        cut = private_public_test_split(data, _parse_split(options.split, len(data)), options.seed or 0)
        return cut.private, cut.public, cut.test
    if not options.private or not options.public or options.split:
        raise OptionError(
            "accepted: --data SOURCE [--split A,B,C], or --private SOURCE --public SOURCE [--test SOURCE]"
        )
    return (
        load(options.private, ids=ids, classes=names),
        load(options.public, labelled=False, leave_out=ids, classes=names),
        load(options.test, leave_out=ids, classes=names) if options.test else None,
    )


def _count_classes(options: argparse.Namespace, private: Dataset) -> int:
    """The number of classes, from an option or from the file format."""
    if options.classes is not None:
        return options.classes if isinstance(options.classes, int) else len(options.classes)
    if options.learn_classes:
        print(f"mechanisms: {LEARNT_CLASSES}", file=sys.stderr)
        assert private.labels is not None  # private records are read with labels
        return int(private.labels.max()) + 1
    if private.classes is None:
        accepted = "--classes N, --classes NAME,NAME,... or --learn-classes, which releases the largest private label"
        raise OptionError(f"{private.name}: the format does not fix the number of classes; accepted: {accepted}")
    return private.classes


def _check_labels(dataset: Dataset, n_classes: int) -> None:
    labels = dataset.labels
    if labels is not None and labels.ndim == 1 and labels.max() >= n_classes:
        row = int(np.argmax(labels >= n_classes))
        accepted = f"0..{n_classes - 1}, of {n_classes} classes"
        raise OptionError(f"{dataset.name}: record {row} has label {labels[row]}; accepted: {accepted}")


def _parse_split(split: str | None, n: int) -> tuple[int, int, int]:
    """Numbers of private, public and test records, from `--split` as shares or as numbers."""
    accepted = f"accepted: three shares that sum to at most 1, or three whole numbers that sum to at most {n}"
    try:
        values = [float(part) for part in (split or _join(SPLIT)).split(",")]
    except ValueError:
        values = []
    shares = sum(values) <= 1 + 1e-12
    if len(values) != 3 or not all(value > 0 and (shares or value == int(value)) for value in values):
        raise OptionError(f"--split {split}: {accepted}")
    first, second, third = (int(value * n + 1e-9) if shares else int(value) for value in values)
    if first + second + third > n or min(first, second, third) < 1:
        raise OptionError(f"--split {split}: {accepted}")
    return first, second, third
