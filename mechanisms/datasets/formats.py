"""Readers of published image formats: MNIST's IDX, SVHN, and CIFAR-10's binary version."""

from __future__ import annotations

import gzip
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.datasets.dataset import DataError, Dataset, check_labels_in, name_errors
from mechanisms.datasets.matlab import matlab_arrays

__all__ = [
    "CIFAR_NAMES",
    "IDX_NAMES",
    "SVHN_NAMES",
    "cifar10_binary",
    "files_of",
    "idx",
    "of_images",
    "pick",
    "svhn",
]

CIFAR_NAMES = ("data_batch_*.bin", "test_batch.bin")
SVHN_NAMES = ("train_32x32.mat", "extra_32x32.mat", "test_32x32.mat")
IDX_NAMES = ("train-*idx?-ubyte*", "t10k-*idx?-ubyte*")


def idx(directory: str | Path, parts: Sequence[str] = (), *, classes: int = 10) -> Dataset:
    """Images in MNIST's IDX format: the train files of a directory, then its t10k files, where they exist.

    Parameters
    ----------
    directory : str or Path
        Holds ``train-images-idx3-ubyte`` and ``train-labels-idx1-ubyte``, the same for ``t10k``, or both; plain or
        ``.gz``. Or a file of images, whose labels lie beside it.
    parts : sequence of str
        "train", "t10k" (or "test"), in this order; none: both.
    classes : int
        Labels are 0..classes - 1.
    """
    if Path(directory).is_file():
        directory, parts = _of_one_file(Path(directory))
    wanted = tuple("t10k" if part == "test" else part for part in parts) or ("train", "t10k")
    found = []
    for part in wanted:
        patterns = [tuple(f"{part}-{kind}[-.]idx?-ubyte{end}" for end in ("", ".gz")) for kind in ("images", "labels")]
        images, labels = (files_of(directory, names)[:1] for names in patterns)
        if len(images) != len(labels):
            lone = (images or labels)[0]
            raise DataError(f"{lone}: has no partner; accepted: {part}-images and {part}-labels together")
        for pictures, answers in zip(images, labels, strict=True):
            pixels = _read_idx(pictures, 3)
            found.append((pixels, check_labels_in(answers, _read_idx(answers, 1), pixels.shape[:1], 0, classes - 1)))
        if parts and not images:
            raise DataError(f"{directory}: no files of part {part!r}; accepted: parts that are there, train or t10k")
    return of_images(
        directory, found, "train-images-idx3-ubyte[.gz] and train-labels-idx1-ubyte[.gz], or t10k", classes
    )


def _of_one_file(path: Path) -> tuple[Path, tuple[str]]:
    """Directory and part of an IDX file of images."""
    part, _, rest = path.name.partition("-")
    if part not in ("train", "t10k") or not rest.startswith("images"):
        raise DataError(f"{path}: accepted: {{train,t10k}}-images-idx3-ubyte[.gz], or a directory")
    return path.parent, (part,)


def svhn(path: str | Path, parts: Sequence[str] = ()) -> Dataset:
    """SVHN's cropped digits (format 2): a ``.mat`` file, or those of a directory; the label 10 means 0.

    `parts` chooses among "train", "extra" and "test" of a directory; none takes all that are there, in this order.
    """
    found = []
    for file in _named_files(path, SVHN_NAMES, parts, "{}_32x32.mat"):
        with name_errors(file, "SVHN's cropped digits in MATLAB's format 5 (not 7.3)"):
            images, labels = pick(matlab_arrays(memoryview(file.read_bytes())), "X", "y")
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
            shape = f"{images.dtype} values of shape {images.shape}"
            raise DataError(f"{file}: X holds {shape}; accepted: bytes of shape (32, 32, 3, n)")
        labels = labels.ravel() if labels.shape == (labels.size, 1) else labels
        classes = check_labels_in(file, labels, images.shape[3:], 1, 10)
        found.append((np.moveaxis(images, 3, 0), classes % 10))
    return of_images(path, found, " and ".join(SVHN_NAMES), 10)


def cifar10_binary(path: str | Path, parts: Sequence[str] = ()) -> Dataset:
    """CIFAR-10's binary version: one ``.bin`` file, or the data and test batches of a directory, in this order.

    `parts` chooses among "train" and "test" of a directory; none takes both.
    """
    found = []
    for file in _named_files(path, CIFAR_NAMES, parts, "{}_batch*.bin", train="data"):
        with name_errors(file, "CIFAR-10's binary version"):
            raw = np.frombuffer(file.read_bytes(), np.uint8)
        if len(raw) == 0 or len(raw) % 3073:
            raise DataError(f"{file}: {len(raw)} bytes; accepted: 3073 for each record of CIFAR-10's binary version")
        records = raw.reshape(-1, 3073)
        labels = check_labels_in(file, records[:, 0], (len(records),), 0, 9)
        found.append((records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels))
    return of_images(path, found, "data_batch_1.bin, ..., test_batch.bin", 10)


def files_of(path: str | Path, patterns: Iterable[str]) -> list[Path]:
    """The file itself, or the files of a directory whose names match."""
    path = Path(path)
    found = [file for pattern in patterns for file in sorted(path.glob(pattern)) if file.is_file()]
    return found if path.is_dir() else [path]


def _named_files(path: str | Path, every: Sequence[str], parts: Sequence[str], form: str, **names: str) -> list[Path]:
    """The files of these parts of a directory; of none, all of `every`."""
    if not parts:
        return files_of(path, every)
    chosen = []
    for part in parts:
        part = "test" if part == "t10k" else part
        files = files_of(path, [form.format(names.get(part, part))])
        if not files:
            accepted = "parts whose files are there"
            raise DataError(f"{path}: no files of part {part!r}; accepted: {accepted}, of {', '.join(every)}")
        chosen.extend(files)
    return chosen


def _read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The unsigned bytes of an IDX file: magic number, big-endian sizes, values."""
    with name_errors(path, "MNIST's IDX format"):
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


def pick(arrays: Mapping[str, NDArray[Any]], *names: str) -> tuple[NDArray[Any], ...]:
    """The arrays with these names."""
    for name in names:
        if name not in arrays:
            raise ValueError(f"no array {name!r} among {list(arrays)}")
    return tuple(arrays[name] for name in names)


def of_images(
    source: str | Path,
    parts: Sequence[tuple[NDArray[Any], NDArray[Any] | None]],
    accepted: str,
    classes: int | None = None,
    ids: Any = None,
) -> Dataset:
    """Join parts of images and labels to one data set; bytes are scaled to [0, 1]."""
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
    return Dataset(str(source), flat, labels, shapes[0], ids, classes)
