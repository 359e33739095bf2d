"""Records by name, by a file's extension or by what a directory holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mechanisms.datasets.dataset import DataError, Dataset, decoding, numbered
from mechanisms.datasets.formats import CIFAR_NAMES, IDX_NAMES, SVHN_NAMES, cifar10_binary, digits, files_of, idx, svhn
from mechanisms.datasets.tables import csv, npz, openml, parquet

__all__ = ["load"]

ACCEPTED = (
    "digits, openml:NAME, a directory of IDX files, of CIFAR-10's .bin or of SVHN's .mat files, "
    "or a .mat, .bin, .npz, .parquet, .csv or .tsv file"
)

_DIRECTORIES: tuple[tuple[Callable[[Path], Dataset], tuple[str, ...]], ...]
_DIRECTORIES = ((idx, IDX_NAMES), (cifar10_binary, CIFAR_NAMES), (svhn, SVHN_NAMES))
_FORMATS: dict[str, Callable[[Path], Dataset]] = {".mat": svhn, ".bin": cifar10_binary}
_TABLES: dict[str, Callable[..., Dataset]] = {".npz": npz, ".parquet": parquet, ".csv": csv, ".tsv": csv}


def load(
    source: str | Path,
    *,
    labelled: bool = True,
    ids: str | None = None,
    leave_out: str | None = None,
    classes: Sequence[str] | None = None,
) -> Dataset:
    """Records by name, extension of a file or content of a directory.

    Parameters
    ----------
    source : str or Path
        ``digits``, ``openml:NAME``, a directory of MNIST's IDX files, of CIFAR-10's binary version or of SVHN's cropped
        digits, or a file ``.mat`` (SVHN), ``.bin`` (CIFAR-10), ``.npz``, ``.parquet``, ``.csv`` or ``.tsv``.
    labelled : bool
        Refuse tables without labels; the other kinds always have them.
    ids : str, optional
        Array or column of a table that identifies its records; it is not a feature.
    leave_out : str, optional
        Column that is not a feature, where there is one.
    classes : sequence of str, optional
        Names of the classes in their order: labels are matched by their text, and numbered 0, 1, ...

    Raises
    ------
    DataError
        The source is not whole, finite data of a known kind; one line says what, where, and what would be accepted.
    """
    path = Path(source)
    dataset: Dataset | None = None
    table: Callable[..., Dataset] | None = None
    if source == "digits":
        dataset = digits()
    elif str(source).startswith("openml:"):
        dataset = openml(str(source).removeprefix("openml:"), classes=classes)
    elif source and path.is_file() and path.suffix.lower() in _TABLES:
        table = _TABLES[path.suffix.lower()]
        dataset = table(path, ids=ids, leave_out=leave_out, classes=classes)
    else:
        dataset = _format_of(source)(path)
    if labelled and dataset.labels is None:
        wanted = "an array labels" if table is npz else "a column label"
        raise DataError(f"{source}: has no labels; accepted: {wanted} beside the features")
    if ids is not None and table is None:
        accepted = "identifiers in .npz, .parquet, .csv or .tsv files"
        raise DataError(f"{source}: has no column {ids!r}; accepted: {accepted}")
    matched = table is not None or str(source).startswith("openml:")  # while names were at hand
    return dataset if matched or classes is None else _with_classes(dataset, classes)


def _format_of(source: str | Path) -> Callable[[Path], Dataset]:
    path = Path(source)
    read: Any = None
    with decoding(source or "''", ACCEPTED):
        if source and path.is_dir():
            read = next((reader for reader, names in _DIRECTORIES if files_of(path, names)), None)
        elif path.exists():
            read = _FORMATS.get(path.suffix.lower())
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
    labels = None if dataset.labels is None else numbered(dataset.name, dataset.labels, classes)
    return Dataset(dataset.name, dataset.features, labels, dataset.images, dataset.ids)


def _advice(path: Path) -> str:
    if path.suffix in (".pkl", ".pickle") or (path / "data_batch_1").exists():
        return " (pickled files are never read; CIFAR-10 also comes as a binary version)"
    if path.suffix == ".npy":
        return " (save it as .npz or .parquet)"
    return " (give the directory that holds it)" if "-ubyte" in path.name else ""
