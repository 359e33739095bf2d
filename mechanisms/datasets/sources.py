"""`load`: data by name, by the extension of a file, or by the files of a directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mechanisms.datasets.dataset import DataError, Dataset, name_errors, number_labels
from mechanisms.datasets.formats import CIFAR_NAMES, IDX_NAMES, SVHN_NAMES, cifar10_binary, digits, files_of, idx, svhn
from mechanisms.datasets.tables import csv, npz, openml, parquet

__all__ = ["load"]

ACCEPTED_SOURCES = (
    "digits, openml:NAME, a directory of IDX files, of CIFAR-10's .bin or of SVHN's .mat files, "
    "or a .mat, .bin, .npz, .parquet, .csv or .tsv file"
)

_DIRECTORY_READERS: tuple[tuple[Callable[[Path], Dataset], tuple[str, ...]], ...] = (
    (idx, IDX_NAMES),
    (cifar10_binary, CIFAR_NAMES),
    (svhn, SVHN_NAMES),
)
_FILE_READERS: dict[str, Callable[[Path], Dataset]] = {".mat": svhn, ".bin": cifar10_binary}
_TABLE_READERS: dict[str, Callable[..., Dataset]] = {".npz": npz, ".parquet": parquet, ".csv": csv, ".tsv": csv}


def load(
    source: str | Path,
    *,
    labelled: bool = True,
    ids: str | None = None,
    leave_out: str | None = None,
    classes: Sequence[str] | None = None,
) -> Dataset:
    """Load a data set by name, by the extension of a file, or by the files of a directory.

    Parameters
    ----------
    source : str or Path
        ``digits``, ``openml:NAME``, a directory of MNIST's IDX files, of CIFAR-10's binary version or of SVHN's cropped
        digits, or a file ``.mat`` (SVHN), ``.bin`` (CIFAR-10), ``.npz``, ``.parquet``, ``.csv`` or ``.tsv``.
    labelled : bool
        Refuse tables without labels; other sources always have labels.
    ids : str, optional
        Array or column of a table that identifies records; it is not used as a feature.
    leave_out : str, optional
        Column that is not used as a feature, if it exists.
    classes : sequence of str, optional
        Names of the classes in their order: labels are compared as text and become 0, 1, ...

    Raises
    ------
    DataError
        The source is unknown, damaged, incomplete or not finite; one line says where, and what is accepted.
    """
    path = Path(source)
    dataset: Dataset | None = None
    table: Callable[..., Dataset] | None = None
    if source == "digits":
        dataset = digits()
    elif str(source).startswith("openml:"):
        dataset = openml(str(source).removeprefix("openml:"), classes=classes)
    elif source and path.is_file() and path.suffix.lower() in _TABLE_READERS:
        table = _TABLE_READERS[path.suffix.lower()]
        dataset = table(path, ids=ids, leave_out=leave_out, classes=classes)
    else:
        dataset = _format_of(source)(path)
    if labelled and dataset.labels is None:
        wanted = "an array labels" if table is npz else "a column label"
        raise DataError(f"{source}: has no labels; accepted: {wanted} beside the features")
    if ids is not None and table is None:
        accepted = "identifiers in .npz, .parquet, .csv or .tsv files"
        raise DataError(f"{source}: has no column {ids!r}; accepted: {accepted}")
    matched = table is not None or str(source).startswith("openml:")  # these readers number the labels themselves
    return dataset if matched or classes is None else _with_classes(dataset, classes)


def _format_of(source: str | Path) -> Callable[[Path], Dataset]:
    path = Path(source)
    read: Any = None
    with name_errors(source or "''", ACCEPTED_SOURCES):
        if source and path.is_dir():
            read = next((reader for reader, names in _DIRECTORY_READERS if files_of(path, names)), None)
        elif path.exists():
            read = _FILE_READERS.get(path.suffix.lower())
        else:
            near = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else []
            close = get_close_matches(path.name, ["digits", *near], n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise ValueError(f"no such file, directory or name{hint}")
        if read is None:
            raise ValueError(f"not a known kind of data{_advice(path)}")
    found: Callable[[Path], Dataset] = read
    return found


def _with_classes(dataset: Dataset, classes: Sequence[str]) -> Dataset:
    labels = None if dataset.labels is None else number_labels(dataset.name, dataset.labels, classes)
    return Dataset(dataset.name, dataset.features, labels, dataset.images, dataset.ids)


def _advice(path: Path) -> str:
    if path.suffix in (".pkl", ".pickle") or (path / "data_batch_1").exists():
        return " (pickled files are never read; CIFAR-10 also comes as a binary version)"
    if path.suffix == ".npy":
        return " (save it as .npz or .parquet)"
    return " (give the directory that holds it)" if "-ubyte" in path.name else ""
