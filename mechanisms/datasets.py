"""Labelled data as users have it: bundled digits, published image formats, plain tables, OpenML by name.

Every reader is strict: what is not the format, whole and finite, is refused in one line. Nothing is ever unpickled.
"""

from __future__ import annotations

import gzip
import math
import struct
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.matlab import matlab_arrays
from mechanisms.validation import INSTALL, needed

__all__ = [
    "DataError",
    "Dataset",
    "Split",
    "cifar10_binary",
    "digits",
    "idx",
    "load",
    "npz",
    "openml",
    "parquet",
    "private_public_test_split",
    "svhn",
]

MAX_CLASSES = 2**15
"""Larger labels are taken for a mistake, such as a column of identifiers."""

ACCEPTED = (
    "digits, openml:NAME, a directory of IDX files, of CIFAR-10's .bin or of SVHN's .mat files, "
    "or a .mat, .bin, .npz or .parquet file"
)

_Array = NDArray[Any]


class DataError(ac.AccountantError, ValueError):
    """Data that cannot be used; the message names the source and what would be accepted."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled records, checked on construction.

    Parameters
    ----------
    name : str
        Where the records came from; errors begin with it.
    features : array, shape (n, d)
        Finite numbers, kept in single precision. Pixels of images lie in [0, 1].
    labels : array, shape (n,) or (n, c), or None
        Classes 0, 1, ..., or 0/1 for each of c >= 2 labels that a record may carry together; None if unlabelled.
    images : tuple of int, optional
        Shape of one record as an image: (height, width) or (height, width, channels).
    """

    name: str
    features: NDArray[np.float32]
    labels: NDArray[np.int64] | None
    images: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        features = np.asarray(self.features)
        if features.dtype.kind not in "biuf" or features.ndim != 2 or 0 in features.shape:
            found = f"{features.dtype} values of shape {features.shape}"
            raise DataError(f"{self.name}: features hold {found}; accepted: numbers of shape (n, d), n and d >= 1")
        with np.errstate(over="ignore", invalid="ignore"):
            features = np.ascontiguousarray(features, dtype=np.float32)
        if not np.isfinite([features.min(), features.max()]).all():
            row, column = np.argwhere(~np.isfinite(features))[0]
            where = f"feature {column} of record {row} is {features[row, column]}"
            raise DataError(f"{self.name}: {where}; accepted: finite numbers in single precision")
        if self.images is not None and math.prod(self.images) != features.shape[1]:
            width = features.shape[1]
            raise DataError(f"{self.name}: images of shape {self.images}; accepted: shapes of {width} numbers")
        object.__setattr__(self, "features", features)
        if self.labels is not None:
            labels = np.asarray(self.labels)
            several = labels.ndim == 2 and labels.shape[1] > 1
            shape = (len(features), *labels.shape[1:]) if several else (len(features),)
            labels = _whole_labels(self.name, labels, shape, 0, 1 if several else MAX_CLASSES - 1)
            object.__setattr__(self, "labels", labels)

    def __len__(self) -> int:
        return len(self.features)

    def take(self, rows: NDArray[np.int64]) -> Dataset:
        """The records at these positions, in this order."""
        labels = None if self.labels is None else self.labels[rows]
        return Dataset(self.name, self.features[rows], labels, self.images)


@dataclass(frozen=True, eq=False)
class Split:
    """Disjoint parts of one data set."""

    private: Dataset
    public: Dataset
    test: Dataset


def private_public_test_split(
    dataset: Dataset, sizes: tuple[int, int, int], rng: np.random.Generator | int | None = None
) -> Split:
    """Shuffle the records and cut three disjoint parts.

    Parameters
    ----------
    dataset : Dataset
    sizes : tuple of three int
        Numbers of private, public and test records, each at least 1; what remains is left out.
    rng : Generator, int or None
        The same seed gives the same parts; None draws a fresh one.
    """
    whole = [isinstance(size, int | np.integer) and not isinstance(size, bool) and size > 0 for size in sizes]
    if len(whole) != 3 or not all(whole) or sum(map(int, sizes)) > len(dataset):
        accepted = f"three whole numbers >= 1 that sum to at most {len(dataset)}"
        raise DataError(f"{dataset.name}: sizes = {sizes!r}; accepted: {accepted}")
    order = np.random.default_rng(rng).permutation(len(dataset))
    private, public, test, _ = np.split(order, np.cumsum([int(size) for size in sizes]))
    return Split(dataset.take(private), dataset.take(public), dataset.take(test))


def load(source: str | Path, *, labelled: bool = True) -> Dataset:
    """Records by name, extension of a file or content of a directory.

    Parameters
    ----------
    source : str or Path
        ``digits``, ``openml:NAME``, a directory of MNIST's IDX files, of CIFAR-10's binary version or of SVHN's cropped
        digits, or a file ``.mat`` (SVHN), ``.bin`` (CIFAR-10), ``.npz`` or ``.parquet``.
    labelled : bool
        Refuse ``.npz`` and ``.parquet`` files without labels; the other kinds always have them.
    """
    path = Path(source)
    if source == "digits":
        return digits()
    if str(source).startswith("openml:"):
        return openml(str(source).removeprefix("openml:"))
    with _decoding(source or "''", ACCEPTED):
        if source and path.is_dir():
            read = next((reader for reader, names in _DIRECTORIES if _files(path, names)), None)
        elif path.exists():
            read = _READERS.get(path.suffix.lower())
        else:
            near = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else []
            close = get_close_matches(path.name, ["digits", *near], n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise ValueError(f"no such file, directory or name{hint}")
        if read is None:
            raise ValueError(f"not a known kind of data{_advice(path)}")
    dataset = read(path)
    if labelled and dataset.labels is None:
        wanted = "an array labels" if read is npz else "a column label"
        raise DataError(f"{source}: has no labels; accepted: {wanted} beside the features")
    return dataset


def digits() -> Dataset:
    """The 1797 images of 8 x 8 pixels that scikit-learn bundles; needs no file and no network."""
    bunch = needed("sklearn.datasets").load_digits()
    return Dataset("digits", bunch.data / 16, bunch.target, (8, 8))


def idx(directory: str | Path, *, classes: int = 10) -> Dataset:
    """Images in MNIST's IDX format: what a directory holds of the train and the t10k files, in this order.

    Parameters
    ----------
    directory : str or Path
        Holds ``train-images-idx3-ubyte`` and ``train-labels-idx1-ubyte``, or the same of ``t10k``, or both; plain or
        ``.gz``.
    classes : int
        Labels are 0..classes - 1.
    """
    parts = []
    for part in ("train", "t10k"):
        patterns = [tuple(f"{part}-{kind}[-.]idx?-ubyte{end}" for end in ("", ".gz")) for kind in ("images", "labels")]
        images, labels = (_files(directory, names)[:1] for names in patterns)
        if len(images) != len(labels):
            lone = (images or labels)[0]
            raise DataError(f"{lone}: has no partner; accepted: {part}-images and {part}-labels together")
        for pictures, answers in zip(images, labels, strict=True):
            pixels = _read_idx(pictures, 3)
            parts.append((pixels, _whole_labels(answers, _read_idx(answers, 1), pixels.shape[:1], 0, classes - 1)))
    return _of_images(directory, parts, "train-images-idx3-ubyte[.gz] and train-labels-idx1-ubyte[.gz], or t10k")


def svhn(path: str | Path) -> Dataset:
    """SVHN's cropped digits (format 2): a ``.mat`` file, or train and test of a directory; the label 10 means 0."""
    parts = []
    for file in _files(path, _SVHN_NAMES):
        with _decoding(file, "SVHN's cropped digits in MATLAB's format 5 (not 7.3)"):
            images, labels = _pick(matlab_arrays(memoryview(file.read_bytes())), "X", "y")
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
            shape = f"{images.dtype} values of shape {images.shape}"
            raise DataError(f"{file}: X holds {shape}; accepted: bytes of shape (32, 32, 3, n)")
        labels = labels.ravel() if labels.shape == (labels.size, 1) else labels
        classes = _whole_labels(file, labels, images.shape[3:], 1, 10)
        parts.append((np.moveaxis(images, 3, 0), classes % 10))
    return _of_images(path, parts, " and ".join(_SVHN_NAMES))


def cifar10_binary(path: str | Path) -> Dataset:
    """CIFAR-10's binary version: one ``.bin`` file, or the data and test batches of a directory, in this order."""
    parts = []
    for file in _files(path, _CIFAR_NAMES):
        with _decoding(file, "CIFAR-10's binary version"):
            raw = np.frombuffer(file.read_bytes(), np.uint8)
        if len(raw) == 0 or len(raw) % 3073:
            raise DataError(f"{file}: {len(raw)} bytes; accepted: 3073 for each record of CIFAR-10's binary version")
        records = raw.reshape(-1, 3073)
        labels = _whole_labels(file, records[:, 0], (len(records),), 0, 9)
        parts.append((records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels))
    return _of_images(path, parts, "data_batch_1.bin, ..., test_batch.bin")


def npz(path: str | Path) -> Dataset:
    """A numpy archive of the arrays ``features`` and, if labelled, ``labels``; features of 3 or 4 axes are images.

    Images of bytes are scaled to [0, 1]; all other numbers stay as they are.
    """
    with _decoding(path, "a .npz file, nothing pickled, of the array features, and labels"), open(path, "rb") as stream:
        archive = np.load(stream, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("one array, not an archive")
        (features,) = _pick(archive, "features")
        labels = archive.get("labels")
    if features.ndim in (3, 4):
        return _of_images(path, [(features, labels)], "images")
    return Dataset(str(path), features, labels)


def parquet(path: str | Path) -> Dataset:
    """A Parquet file: if labelled, a column ``label``; one column of lists ``features`` or any number of plain numbers.

    Without ``features`` every other column of numbers or booleans is a feature, in the file's order; columns of text,
    dates and the like, and pandas' index, are left out. A list of 0/1 as label means several labels.
    """
    reader, expected = needed("pyarrow.parquet"), "a .parquet file with a column label, and features"
    if int(import_module("pyarrow").__version__.split(".")[0]) < 15:  # CVE-2023-47248: older ones unpickle
        raise ac.MissingExtra(f"pyarrow is older than 15; accepted: {INSTALL.format('mechanisms')}")
    with _decoding(path, expected), open(path, "rb") as stream:
        table = reader.ParquetFile(stream, page_checksum_verification=True).read()
        for field in table.schema:
            if hasattr(field.type, "extension_name") or b"ARROW:extension:name" in (field.metadata or {}):
                raise ValueError(f"column {field.name!r} has a type of its own, {field.type}")
        names = table.column_names
        if "features" in names:
            features = _column(table, "features")
        else:
            index = (table.schema.pandas_metadata or {}).get("index_columns", [])
            chosen = [name for name in names if name not in ("label", *index) and _is_numeric(table.field(name).type)]
            if not chosen:
                raise ValueError(f"no column of numbers beside 'label' among {names}")
            features = np.column_stack([_column(table, name) for name in chosen])
        labels = _column(table, "label") if "label" in names else None
    return Dataset(str(path), features, labels)


def openml(name: str) -> Dataset:
    """A data set of numeric features from openml.org, by name or number; kept in scikit-learn's cache.

    Named classes are numbered in the order of their names, or of their values where all names are numbers.
    """
    fetch = needed("sklearn.datasets").fetch_openml
    source = f"openml:{name}"
    key = {"data_id": int(name)} if name.isdecimal() else {"name": name}
    with _decoding(source, "a data set of openml.org with numeric features, and a network"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A network error occurred", UserWarning)  # the last attempt's error is raised
        bunch = fetch(**key, as_frame=False, parser="liac-arff", n_retries=1)
        nominal = [column for column in bunch.feature_names if column in (bunch.categories or {})]
        if nominal:
            raise ValueError(f"feature {nominal[0]!r} holds names, not numbers")
        labels = np.asarray(bunch.target)
        if labels.dtype.kind == "O":
            if None in labels.ravel().tolist():
                raise ValueError("some targets are missing")
            with suppress(ValueError):
                labels = labels.astype(np.float64)
            labels = np.unique(labels, return_inverse=True)[1]
    return Dataset(source, bunch.data, labels)


_CIFAR_NAMES = ("data_batch_*.bin", "test_batch.bin")
_SVHN_NAMES = ("train_32x32.mat", "test_32x32.mat")
_IDX_NAMES = ("train-*idx?-ubyte*", "t10k-*idx?-ubyte*")
_DIRECTORIES: tuple[tuple[Callable[[Path], Dataset], tuple[str, ...]], ...]
_DIRECTORIES = ((idx, _IDX_NAMES), (cifar10_binary, _CIFAR_NAMES), (svhn, _SVHN_NAMES))
_READERS: dict[str, Callable[[Path], Dataset]]
_READERS = {".mat": svhn, ".bin": cifar10_binary, ".npz": npz, ".parquet": parquet}


def _advice(path: Path) -> str:
    if path.suffix in (".pkl", ".pickle") or (path / "data_batch_1").exists():
        return " (pickled files are never read; CIFAR-10 also comes as a binary version)"
    if path.suffix in (".csv", ".npy"):
        return " (save it as .npz or .parquet)"
    return " (give the directory that holds it)" if "-ubyte" in path.name else ""


def _files(path: str | Path, patterns: Iterable[str]) -> list[Path]:
    """The file itself, or what a directory holds of these names."""
    path = Path(path)
    found = [file for pattern in patterns for file in sorted(path.glob(pattern)) if file.is_file()]
    return found if path.is_dir() else [path]


def _read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The unsigned bytes of an IDX file: magic number, big-endian sizes, values."""
    with _decoding(path, "MNIST's IDX format"):
        raw = path.read_bytes()
        raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
    magic, start = bytes((0, 0, 8, dimensions)), 4 + 4 * dimensions
    if not raw.startswith(magic) or len(raw) < start:
        begins, accepted = raw[:start].hex(" ", 4) or "nothing", f"{magic.hex()} and {dimensions} sizes (IDX format)"
        raise DataError(f"{path}: begins with {begins}; accepted: {accepted}")
    shape = struct.unpack_from(f">{dimensions}I", raw, 4)
    if len(raw) - start != math.prod(shape):
        accepted = f"{math.prod(shape)}, as its header says ({' x '.join(map(str, shape))})"
        raise DataError(f"{path}: {len(raw) - start} bytes of values; accepted: {accepted}")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def _pick(arrays: Mapping[str, _Array], *names: str) -> tuple[_Array, ...]:
    for name in names:
        if name not in arrays:
            raise ValueError(f"no array {name!r} among {list(arrays)}")
    return tuple(arrays[name] for name in names)


def _column(table: Any, name: str) -> _Array:
    """A column of numbers as (n,), or of lists of numbers of one length as (n, length)."""
    if table.column_names.count(name) != 1:
        raise ValueError(f"{table.column_names.count(name)} columns {name!r} among {table.column_names}")
    values, shape = table.column(name).combine_chunks(), (table.num_rows,)
    if hasattr(values.type, "value_field"):
        compute = import_module("pyarrow.compute")
        lengths = compute.unique(compute.list_value_length(values)).to_pylist()
        if len(lengths) != 1 or None in lengths:
            raise ValueError(f"column {name!r} holds lists of lengths {sorted(map(str, lengths))[:4]}, not of one")
        values, shape = compute.list_flatten(values), (table.num_rows, *lengths)
    if not _is_numeric(values.type):
        raise ValueError(f"column {name!r} holds {values.type}, not numbers")
    return cast(_Array, values.to_numpy(zero_copy_only=False).reshape(shape))


def _is_numeric(kind: Any) -> bool:
    types = import_module("pyarrow").types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _of_images(source: str | Path, parts: Sequence[tuple[_Array, _Array | None]], accepted: str) -> Dataset:
    """Parts of images and labels as one data set, bytes scaled to [0, 1]."""
    shapes = sorted({pixels.shape[1:] for pixels, _ in parts})
    if len(shapes) != 1:
        found = f"images of different shapes {shapes}" if shapes else "none of its files found"
        raise DataError(f"{source}: {found}; accepted: {accepted}")
    pixels, labels = (
        None if arrays[0] is None else np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
        for arrays in zip(*parts, strict=True)
    )
    assert pixels is not None
    flat = pixels.reshape(len(pixels), math.prod(shapes[0]))
    if flat.dtype == np.uint8:
        flat = np.divide(flat, np.float32(255), dtype=np.float32)
    return Dataset(str(source), flat, labels, shapes[0])


def _whole_labels(source: str | Path, labels: _Array, shape: tuple[int, ...], low: int, high: int) -> NDArray[np.int64]:
    if labels.shape != shape or labels.dtype.kind not in "biuf":
        found = f"{labels.dtype} values of shape {labels.shape}"
        raise DataError(f"{source}: labels hold {found}; accepted: whole numbers of shape {shape}, one for each record")
    whole = labels == np.floor(labels) if labels.dtype.kind == "f" else True
    wrong = ~((labels >= low) & (labels <= high) & whole)
    if wrong.any():
        first = np.argwhere(wrong)[0]
        raise DataError(f"{source}: record {first[0]} has label {labels[tuple(first)]}; accepted: {low}..{high}")
    return labels.astype(np.int64)


@contextmanager
def _decoding(source: str | Path, accepted: str) -> Iterator[None]:
    """Turn whatever a decoder raises on damaged input into one line that names the source."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        reason = " ".join(text.split()) or type(error).__name__
        reason = reason if len(reason) <= 160 else f"{reason[:157]}..."
        raise DataError(f"{source}: {reason}; accepted: {accepted}") from None
