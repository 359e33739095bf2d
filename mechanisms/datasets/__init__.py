"""Labelled data: bundled digits, published image formats, tables in files, and OpenML by name.

Every reader is strict: input that is damaged, incomplete or not finite is refused in one line. Nothing is unpickled.
"""

from mechanisms.datasets.bundled import breast_cancer, digits, lfw_faces, mnist_5k
from mechanisms.datasets.celeba import celeba
from mechanisms.datasets.columns import Columns, match_columns
from mechanisms.datasets.dataset import DataError, Dataset, Split, private_public_test_split
from mechanisms.datasets.formats import cifar10_binary, idx, svhn
from mechanisms.datasets.parts import parse_source
from mechanisms.datasets.sources import load
from mechanisms.datasets.tables import arrow, csv, frame, npy, npz, openml, parquet, read_column, read_names

__all__ = [
    "Columns",
    "DataError",
    "Dataset",
    "Split",
    "arrow",
    "breast_cancer",
    "celeba",
    "cifar10_binary",
    "csv",
    "digits",
    "frame",
    "idx",
    "lfw_faces",
    "load",
    "match_columns",
    "mnist_5k",
    "npy",
    "npz",
    "openml",
    "parquet",
    "parse_source",
    "private_public_test_split",
    "read_column",
    "read_names",
    "svhn",
]
