"""Labelled data: bundled digits, published image formats, tables in files, and OpenML by name.

Every reader is strict: input that is damaged, incomplete or not finite is refused in one line. Nothing is unpickled.
"""

from mechanisms.datasets.dataset import DataError, Dataset, Split, private_public_test_split
from mechanisms.datasets.formats import cifar10_binary, digits, idx, svhn
from mechanisms.datasets.sources import load
from mechanisms.datasets.tables import csv, npz, openml, parquet

__all__ = [
    "DataError",
    "Dataset",
    "Split",
    "cifar10_binary",
    "csv",
    "digits",
    "idx",
    "load",
    "npz",
    "openml",
    "parquet",
    "private_public_test_split",
    "svhn",
]
