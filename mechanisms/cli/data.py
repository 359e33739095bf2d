"""What the commands read: private, public and test records, and public options about them."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.cli.results_file import OptionError
from mechanisms.cli.split import DEFAULT_SPLIT, parse_split

if TYPE_CHECKING:
    from mechanisms.datasets import Columns, Dataset

__all__ = [
    "LEARNT_CLASSES",
    "LEARNT_NAMES",
    "MAPS",
    "SEED_WARNING",
    "CommandData",
    "add_data",
    "check_excluded",
    "load_data",
    "load_private",
    "parse_classes",
    "parse_names",
    "parse_seed",
    "read_query_ids",
    "refuse_same",
    "warn_of_seed",
]

SEED_WARNING = "reproducible noise: not private against whoever knows the seed"

LEARNT_CLASSES = "the largest label that occurs in private records is released, and was not paid for"

LEARNT_NAMES = "the names of all labels that occur in private records are released, and were not paid for"

MAPS = ("raw", "standardised", "hog", "hog-coarse", "hog-people")

FEATURES_HELP = "columns that are features (default: all columns of numbers but label and identifiers)"
MAPS_HELP = "; or what is made of them in the first round: raw (default), standardised, hog, hog-coarse or hog-people"


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
        Names of the classes, if `--classes` listed them, or `--learn-classes` took them from private labels.
    nominal : int
        Public number of private records, from which defaults follow: an option, or their number rounded to two digits.
    query_ids : array, shape (m,)
        Identifiers of the public points: text from the column that `--ids` names, or rows of their file, from 0.
    """

    private: Dataset
    public: Dataset
    test: Dataset | None
    n_classes: int
    class_names: tuple[str, ...] | None
    nominal: int
    query_ids: NDArray[Any]

    def name_labels(self, labels: NDArray[np.int64]) -> NDArray[Any]:
        """Labels as the data had them: names, if the classes have names, and then "" for -1; else numbers."""
        return labels if self.class_names is None else np.array([*self.class_names, ""])[labels]


class _FeaturesAction(argparse.Action):
    """``--features a,b,c`` chooses columns; ``raw``, ``standardised`` and ``hog`` name what is made of them."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        if values not in MAPS:
            try:
                namespace.columns = parse_names(values)
            except argparse.ArgumentTypeError as error:
                raise argparse.ArgumentError(self, str(error)) from None
        elif hasattr(namespace, "features"):
            namespace.features = values
        else:
            raise argparse.ArgumentError(self, f"{values!r}; accepted: names of columns")


def add_data(parser: argparse.ArgumentParser, maps: bool = False, third: str = "test") -> None:
    """Options that name private, public and test records, and say what is public about the private ones.

    `maps`: whether the command can make other features of the columns. `third`: what the test records are called.
    """
    add = parser.add_argument
    add("--data", metavar="SOURCE", help="labelled records to cut in three: digits, openml:NAME, file, directory")
    add(
        "--split",
        metavar="A,B,C",
        help=f"shares or numbers of private, public, {third} records (default {DEFAULT_SPLIT})",
    )
    add(
        "--private",
        metavar="SOURCE",
        help="labelled private records, instead of --data; DIR:train is a part, [a:b] are rows",
    )
    add("--public", metavar="SOURCE", help="public points; labels, if any, are used for diagnostics only")
    what = "for diagnostics" if third == "test" else "private as well"
    add(f"--{third}", dest="test", metavar="SOURCE", help=f"labelled {third} records, {what}")
    add(
        "--classes",
        metavar="N|LIST",
        type=parse_classes,
        help="number of classes, their names, or a file of names: 10, or cat,dog,bird, or @names.txt, one a line",
    )
    add("--learn-classes", action="store_true", help="take the classes from private labels, which releases them")
    add("--label", metavar="NAME", default="label", help="column of labels in all tables (default label)")
    add("--features", action=_FeaturesAction, metavar="A,B,C", help=FEATURES_HELP + (MAPS_HELP if maps else ""))
    add("--exclude", metavar="A,B,C", type=parse_names, default=(), help="columns that are not used")
    add("--standardize", metavar="public", type=_parse_standardize, help="by means and deviations of public points")
    add("--impute-public", action="store_true", help="missing features become the mean of public points")
    parser.set_defaults(columns=None, **({"features": "raw"} if maps else {}))
    add("--records", metavar="N", type=ac.terminal.whole, help="public number of private records, for defaults")


def parse_seed(text: str) -> int:
    """A seed from the command line."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer >= 0")
    return int(text)


def parse_classes(text: str) -> int | tuple[str, ...]:
    """A number of classes, or their names."""
    from mechanisms.datasets.dataset import MAX_CLASSES

    names = tuple(name.strip() for name in text.split(","))
    if text.startswith("@"):
        try:
            lines = Path(text[1:]).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "is not text in UTF-8"
            raise argparse.ArgumentTypeError(f"{text!r}: {reason}; accepted: a file with a name on each line") from None
        names = tuple(line.strip() for line in lines if line.strip())
    number = int(text) if len(names) == 1 and text.strip().isdecimal() and len(text) < 99 else None
    if not 2 <= (number or len(names)) <= MAX_CLASSES or "" in names or len(set(names)) < len(names):
        accepted = "a number such as 10, or two or more different names such as cat,dog; at least 2 classes"
        raise argparse.ArgumentTypeError(f"{ac.shorten(text)}; accepted: {accepted}, at most {MAX_CLASSES}")
    return number or names


def parse_names(text: str) -> tuple[str, ...]:
    """Names of columns, as in a line of a CSV file: a name with a comma stands in quotes."""
    names = tuple(next(csv.reader([text], skipinitialspace=True), []))
    if not names or not all(map(str.strip, names)) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r}; accepted: different names of columns, such as age,weight")
    return names


def _parse_standardize(text: str) -> str:
    if text != "public":
        reason = "means and deviations of private records would be released without being paid for"
        raise argparse.ArgumentTypeError(f"{text!r}: {reason}; accepted: public")
    return text


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

    private, public, test, query_ids = _load_datasets(options)
    names = options.classes if isinstance(options.classes, tuple) else private.class_names
    n_classes = _count_classes(options, private)
    # a number that was learnt from private labels limits those alone
    for each in (private,) if options.learn_classes else (private, public, test):
        if each is not None:
            _check_labels(each, n_classes)
    _say_columns(options, private)
    if options.standardize:
        private, public, test = _standardize(private, public, test)
    nominal = options.records or nominal_count(len(private))
    return CommandData(private, public, test, n_classes, names, nominal, query_ids)


def _load_datasets(options: argparse.Namespace) -> tuple[Dataset, Dataset, Dataset | None, NDArray[Any]]:
    """Private, public and test records, and identifiers of the public ones."""
    from mechanisms.datasets import load, private_public_test_split

    ids = getattr(options, "ids", None)
    ids = None if ids == "digest" else ids
    names = options.classes if isinstance(options.classes, tuple) else None
    chosen = _choose_columns(options)
    _check_names(options.private if options.data is None else options.data, options.label, ids)
    if options.data is not None:
        if (options.private, options.public, options.test) != (None, None, None):
            raise OptionError("--data was given with --private, --public or --test; accepted: one or the other")
        if options.impute_public:
            raise OptionError("--impute-public was given with --data; accepted: with --private and --public")
        data = load(options.data, ids=ids, classes=names, columns=chosen)
        check_excluded(options.exclude, [data])
        rows = data if ids else replace(data, ids=tuple(map(str, range(len(data)))))
        # the cut is public; it must be the same when an interrupted run goes on
        cut = private_public_test_split(rows, parse_split(options.split, len(data)), options.seed or 0)
        public_ids = np.array(cut.public.ids) if ids else np.array(cut.public.ids).astype(int)
        private, public, test = (replace(part, ids=part.ids if ids else None) for part in vars(cut).values())
        return private, public, test, public_ids
    if options.private is None or options.public is None or options.split is not None:
        raise OptionError(
            "accepted: --data SOURCE [--split A,B,C], or --private SOURCE --public SOURCE [--test SOURCE]"
        )
    refuse_same(options)
    return _load_tables(options, ids, names, chosen)


def refuse_same(options: argparse.Namespace) -> None:
    """Refuse private records that are others, too: what is known of public and test records is shown."""
    from mechanisms.datasets import parse_source

    private = parse_source(options.private)
    for name in ("public", "test"):
        if (other := getattr(options, name)) is not None and private.overlaps(parse_source(other)):
            raise OptionError(f"--{name} {other} holds private records; accepted: others than --private has")


def _choose_columns(options: argparse.Namespace) -> Columns:
    from mechanisms.datasets import Columns

    return Columns(options.label, None, options.columns, options.exclude, None, options.learn_classes)


def load_private(options: argparse.Namespace) -> tuple[Dataset, int, tuple[str, ...] | None, int]:
    """Private records alone, number and names of classes, and public number of records; errors as for `load_data`."""
    from mechanisms.datasets import load
    from mechanisms.validation import nominal_count

    refused = {"--data": options.data, "--test": options.test, "--split": options.split}
    refused |= {"--standardize": options.standardize, "--impute-public": options.impute_public or None}
    for name, given in refused.items():
        if given is not None:
            raise OptionError(f"{name} was given with --public -; accepted: --private SOURCE, and queries as they come")
    if options.private is None:
        raise OptionError("--public - was given without --private; accepted: --private SOURCE")
    _check_names(options.private, options.label, None if options.ids == "digest" else options.ids)
    private = load(
        options.private,
        ids=None if options.ids == "digest" else options.ids,
        classes=options.classes if isinstance(options.classes, tuple) else None,
        columns=_choose_columns(options),
    )
    check_excluded(options.exclude, [private])
    n_classes = _count_classes(options, private)
    _check_labels(private, n_classes)
    names = options.classes if isinstance(options.classes, tuple) else private.class_names
    return private, n_classes, names, options.records or nominal_count(len(private))


def _load_tables(
    options: argparse.Namespace, ids: str | None, names: tuple[str, ...] | None, chosen: Columns
) -> tuple[Dataset, Dataset, Dataset | None, NDArray[Any]]:
    """Records from separate sources, whose columns are matched by name."""
    from mechanisms.datasets import load, match_columns

    fill, test = None, None
    own = replace(chosen, fill="own" if options.impute_public else None)
    public = load(options.public, labelled=False, leave_out=ids, classes=names, columns=own)
    if options.impute_public:
        assert public.columns is not None  # sources without names refuse to be filled
        fill = dict(zip(public.columns, public.features.astype(float).mean(axis=0).tolist(), strict=True))
    chosen = replace(chosen, fill=fill)
    private = load(options.private, ids=ids, classes=names, columns=chosen)
    if options.test is not None:
        test = load(options.test, leave_out=ids, classes=names, columns=chosen)
    known = None if private.class_names is None else private.class_names
    public = _number_as(known, match_columns(private, public))
    test = None if test is None else _number_as(known, match_columns(private, test))
    check_excluded(options.exclude, [each for each in (private, public, test) if each is not None])
    widths = [each.features.shape[1] for each in (private, public, test) if each is not None]
    if len(set(widths)) > 1:
        raise OptionError(f"{options.private}: records of {widths} columns; accepted: as many in all sources")
    return private, public, test, read_query_ids(options.public, ids, len(public))


def _check_names(private: str | None, label: str, ids: str | None) -> None:
    """Refuse a column of labels or identifiers that the private table lacks; names of columns are public."""
    from mechanisms.datasets import read_names

    names = None if private is None else read_names(private)
    for option, name in (("--label", label), ("--ids", ids)):
        if names is not None and name is not None and name not in names:
            found = f"{private} has no column {name!r}"
            raise OptionError(f"{option}: {found}; accepted: the name of one, among {ac.shorten(names)}")


def check_excluded(exclude: Sequence[str], tables: Sequence[Dataset]) -> None:
    """Refuse a name that no table has: with a letter wrong, the column that was meant would be a feature."""
    known = {name for each in tables for name in each.ignored}
    lost = [name for name in exclude if name not in known]
    if lost and any(each.columns is not None for each in tables):
        has = ac.shorten(sorted({*known, *(name for each in tables for name in each.columns or ())}))
        raise OptionError(f"--exclude {lost[0]}: no table has that column; accepted: names among {has}")


def _number_as(names: tuple[str, ...] | None, other: Dataset) -> Dataset:
    """Labels numbered by names that were learnt from private labels; others get numbers above them."""
    if names is None or other.labels is None:
        return other
    own = other.class_names or tuple(map(str, range(int(other.labels.max()) + 1)))
    position = {name: number for number, name in enumerate((*names, *(name for name in own if name not in names)))}
    return replace(other, labels=np.array([position[name] for name in own])[other.labels], class_names=None)


def read_query_ids(source: str, ids: str | None, n: int) -> NDArray[Any]:
    """The public points' column of identifiers as text, if their table has it; else their rows."""
    from mechanisms.datasets import read_column

    values = None if ids is None else read_column(source, ids)
    return np.arange(n) if values is None else values


def _say_columns(options: argparse.Namespace, private: Dataset) -> None:
    """Say which columns are used and which are not; names of columns are public."""
    if private.columns is None:
        return
    written = ac.shorten(", ".join(private.columns))
    used = written[1:].removesuffix(written[0])  # without its quotation marks, of which a cut leaves one
    ignored = f"; ignored: {', '.join(private.ignored)}" if private.ignored else ""
    plain = options.columns is None and not private.ignored
    if not plain or options.data is not None or _has_names(options.public):
        text = f"{len(private.columns)} features by name: {used}; label: {options.label}{ignored}"
        print(f"mechanisms: {text}", file=sys.stderr)


def _has_names(source: str) -> bool:
    from mechanisms.datasets import parse_source

    return Path(parse_source(source).base).suffix.lower() in (".csv", ".tsv", ".parquet", ".arrow", ".feather")


def _standardize(private: Dataset, public: Dataset, test: Dataset | None) -> tuple[Dataset, Dataset, Dataset | None]:
    """All records with each column centred and scaled by public means and deviations."""
    from mechanisms.features import standardise

    scale = standardise(public.features)
    private, public = (replace(each, features=scale(each.features)) for each in (private, public))
    return private, public, None if test is None else replace(test, features=scale(test.features))


def _count_classes(options: argparse.Namespace, private: Dataset) -> int:
    """The number of classes, from an option or from the file format."""
    if options.classes is not None and options.learn_classes:
        raise OptionError("--classes was given with --learn-classes; accepted: one or the other")
    if options.classes is not None:
        return options.classes if isinstance(options.classes, int) else len(options.classes)
    if options.learn_classes:
        names = private.class_names
        print(f"mechanisms: {LEARNT_CLASSES if names is None else LEARNT_NAMES}", file=sys.stderr)
        assert private.labels is not None  # private records are read with labels
        found = int(private.labels.max()) + 1 if names is None else len(names)
        if found < 2:
            raise OptionError(f"{private.name}: one class; accepted: labels of two classes or more")
        return found
    if private.labels is not None and private.labels.ndim == 2:
        return int(private.labels.shape[1])  # of label sets: a number of columns, which is public
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
