"""`load`: data by name, by the extension of a file, or by the files of a directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mechanisms.datasets.bundled import BUNDLED
from mechanisms.datasets.celeba import CELEBA_NAMES, celeba
from mechanisms.datasets.columns import Columns
from mechanisms.datasets.dataset import DataError, Dataset, name_errors, number_labels
from mechanisms.datasets.formats import CIFAR_NAMES, IDX_NAMES, SVHN_NAMES, cifar10_binary, files_of, idx, svhn
from mechanisms.datasets.parts import SourceParts, parse_source
from mechanisms.datasets.tables import arrow, csv, npy, npz, openml, parquet

__all__ = ["load"]

ACCEPTED_SOURCES = (
    f"{', '.join(BUNDLED)}, openml:NAME, a directory of IDX files, of CIFAR-10's .bin, of SVHN's .mat files, "
    "of CelebA, or a .mat, .bin, .npz, .parquet, .arrow, .feather, .csv or .tsv file, or FEATURES.npy,LABELS.npy"
)

_DIRECTORY_READERS: tuple[tuple[Callable[..., Dataset], tuple[str, ...]], ...] = (
    (idx, IDX_NAMES),
    (cifar10_binary, CIFAR_NAMES),
    (svhn, SVHN_NAMES),
    (celeba, CELEBA_NAMES),
)
_FILE_READERS: dict[str, Callable[[Path], Dataset]] = {".mat": svhn, ".bin": cifar10_binary}
_TABLE_READERS: dict[str, Callable[..., Dataset]] = {
    ".npz": npz,
    ".npy": npy,
    ".parquet": parquet,
    ".arrow": arrow,
    ".feather": arrow,
    ".csv": csv,
    ".tsv": csv,
}


def load(
    source: str | Path,
    *,
    labelled: bool = True,
    ids: str | None = None,
    leave_out: str | None = None,
    classes: Sequence[str] | None = None,
    columns: Columns | None = None,
) -> Dataset:
    """Load a data set by name, by the extension of a file, or by the files of a directory.

    Parameters
    ----------
    source : str or Path
        ``digits``, ``mnist-5k``, ``breast-cancer``, ``lfw-faces``, ``openml:NAME``, a directory of MNIST's IDX files,
        of CIFAR-10's binary version or of SVHN's cropped digits, one of MNIST's files of images, or a file ``.mat``
        (SVHN), ``.bin`` (CIFAR-10), ``.npz``, ``.parquet``, ``.arrow``, ``.feather``, ``.csv`` or ``.tsv``; or
        ``FEATURES.npy``, or ``FEATURES.npy,LABELS.npy``. ``DIR:train``, ``DIR:t10k``, ``DIR:test`` and
        ``DIR:train+extra`` take parts of a directory; ``[a:b]`` at the end takes the rows from a to before b.
    labelled : bool
        Refuse tables without labels; other sources always have labels.
    ids : str, optional
        Array or column of a table that identifies records; it is not used as a feature.
    leave_out : str, optional
        Column that is not used as a feature, if it exists.
    classes : sequence of str, optional
        Names of the classes in their order: labels are compared as text and become 0, 1, ...
    columns : Columns, optional
        What the columns of a table are for: label, features, and what stands for missing ones.

    Raises
    ------
    DataError
        The source is unknown, damaged, incomplete or not finite; one line says where, and what is accepted.
    """
    given = columns or Columns()
    exclude = (*given.exclude, *(() if leave_out is None else (leave_out,)))
    ids, classes = ids or given.ids, classes or given.classes
    columns = replace(given, ids=ids, classes=classes, exclude=exclude)
    whole = parse_source(source)
    source = whole.base
    path, dataset = Path(source), _load_table(source, columns)
    table = dataset is not None
    if dataset is None:
        if columns.features is not None or columns.fill is not None:
            raise DataError(f"{source}: has no named columns; accepted: a table to choose or to fill columns of")
        if str(source).startswith("openml:"):
            dataset = openml(str(source).removeprefix("openml:"), classes=classes)
        else:
            dataset = BUNDLED[source]() if source in BUNDLED else _read_format(whole)
            dataset = dataset if classes is None else _with_classes(dataset, classes)
    if labelled and dataset.labels is None:
        wanted = "an array labels" if path.suffix in (".npz", ".npy") else f"a column {columns.label}"
        raise DataError(f"{source}: has no labels; accepted: {wanted} beside the features")
    if ids is not None and not table:
        accepted = "identifiers in .npz, .parquet, .arrow, .csv or .tsv files"
        raise DataError(f"{source}: has no column {ids!r}; accepted: {accepted}")
    return whole.cut(dataset)


def _load_table(source: str | Path, columns: Columns) -> Dataset | None:
    """A table of named columns or a numpy file; None if the source is something else."""
    first, comma, second = str(source).partition(",")
    if comma and first.endswith(".npy") and not Path(source).exists():
        return npy(first, second, columns=columns)
    path = Path(source)
    reader = _TABLE_READERS.get(path.suffix.lower())
    return None if not source or reader is None or not path.is_file() else reader(path, columns=columns)


def _read_format(whole: SourceParts) -> Dataset:
    """The images of a file, of a directory, or of some parts of a directory."""
    read, path = _format_of(whole.base), Path(whole.base)
    return read(path, whole.parts) if whole.parts else read(path)


def _format_of(source: str | Path) -> Callable[..., Dataset]:
    path = Path(source)
    read: Any = None
    with name_errors(source or "''", ACCEPTED_SOURCES):
        if source and path.is_dir():
            read = next((reader for reader, names in _DIRECTORY_READERS if files_of(path, names)), None)
        elif path.exists():
            read = idx if "-images" in path.name else _FILE_READERS.get(path.suffix.lower())
        else:
            near = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else []
            close = get_close_matches(path.name, [*BUNDLED, *near], n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise ValueError(f"no such file, directory or name{hint}")
        if read is None:
            raise ValueError(f"not a known kind of data{_advice(path)}")
    found: Callable[..., Dataset] = read
    return found


def _with_classes(dataset: Dataset, classes: Sequence[str]) -> Dataset:
    labels = None if dataset.labels is None else number_labels(dataset.name, dataset.labels, classes)
    return replace(dataset, labels=labels, classes=None)


def _advice(path: Path) -> str:
    if path.suffix in (".pkl", ".pickle") or (path / "data_batch_1").exists():
        return " (pickled files are never read; CIFAR-10 also comes as a binary version)"
    return " (give the file of images, or the directory that holds it)" if "-ubyte" in path.name else ""
