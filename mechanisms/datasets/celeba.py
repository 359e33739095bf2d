"""CelebA's images with their attributes, from the files that its authors give out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import accountant as ac
from mechanisms.arrays import Integers, Singles
from mechanisms.datasets.dataset import DataError, Dataset, name_errors
from mechanisms.validation import require

__all__ = ["CELEBA_NAMES", "celeba"]

CELEBA_NAMES = ("list_attr_celeba.txt",)
PARTITIONS = {"train": 0, "test": 2}
SIDE = 32
IMAGES = "img_align_celeba"
ACCEPTED = (
    "list_attr_celeba.txt, list_eval_partition.txt and img_align_celeba/ (or features.npy, one row for each image)"
)


def celeba(path: str | Path, parts: Sequence[str] = ()) -> Dataset:
    """CelebA's images as 32 x 32 grey pixels, with the set of their attributes as label.

    Parameters
    ----------
    path : str or Path
        A directory with ``list_attr_celeba.txt``, ``list_eval_partition.txt`` and ``img_align_celeba``. Where it holds
        ``features.npy``, an array with a row for each image in the order of the list, these are the features, and
        images are not read.
    parts : sequence of str
        "train" and "test" of CelebA's partition; none: all images.

    Raises
    ------
    DataError
        A file is missing or damaged.
    """
    folder = Path(path)
    with name_errors(folder / CELEBA_NAMES[0], ACCEPTED):
        names, sets = _read_attributes(folder / CELEBA_NAMES[0])
    rows = np.arange(len(names))
    if parts:
        with name_errors(folder / "list_eval_partition.txt", ACCEPTED):
            partition = dict(line.split() for line in (folder / "list_eval_partition.txt").read_text().splitlines())
            found = np.array([int(partition[name]) for name in names])
        wrong = [part for part in parts if part not in PARTITIONS]
        if wrong:
            raise DataError(f"{path}: part {wrong[0]!r}; accepted: {', '.join(PARTITIONS)}")
        rows = np.concatenate([np.flatnonzero(found == PARTITIONS[part]) for part in parts])
    features, images = _read_features(folder, [names[row] for row in rows], rows, len(names))
    return Dataset(str(path), features, sets[rows], images)


def _read_attributes(path: Path) -> tuple[list[str], Integers]:
    """Names of images, and 0/1 for each attribute of an image."""
    count, head, *lines = path.read_text(encoding="utf-8").splitlines()
    cells = [line.split() for line in lines if line.strip()]
    if len(cells) != int(count) or any(len(row) != len(head.split()) + 1 for row in cells):
        raise ValueError(f"{len(cells)} lines of images, its first line says {count}, or lines of other lengths")
    values = np.array([row[1:] for row in cells])
    if not np.isin(values, ("1", "-1")).all():
        raise ValueError("holds other values than 1 and -1")
    names = [row[0] for row in cells]
    outside = next((name for name in names if name in (".", "..") or set(name) & set("/\\")), None)
    if outside is not None:
        raise ValueError(f"lists {ac.shorten(outside)}, which is no name of a file in {IMAGES}")
    return names, (values == "1").astype(np.int64)


def _read_features(
    folder: Path, names: list[str], rows: Integers, every: int
) -> tuple[Singles, tuple[int, int] | None]:
    """The user's features, or grey pixels."""
    own = folder / "features.npy"
    if own.is_file():
        with name_errors(own, ACCEPTED), open(own, "rb") as stream:
            table = np.load(stream, allow_pickle=False)
            if table.ndim != 2 or len(table) != every:
                raise ValueError(f"shape {table.shape}, not ({every}, d)")
            return table[rows].astype(np.float32), None
    pictures = folder / IMAGES
    imread, resize = require("skimage.io").imread, require("skimage.transform").resize
    pixels = np.empty((len(names), SIDE * SIDE), np.float32)
    for i, name in enumerate(names):
        with name_errors(pictures / name, ACCEPTED):
            image = imread(pictures / name, as_gray=True)
            grey = image / 255 if image.dtype == np.uint8 else image
            pixels[i] = resize(grey, (SIDE, SIDE), anti_aliasing=True).ravel()
    return pixels, (SIDE, SIDE)
