"""Feature maps for nearest neighbours. None may depend on private records, or it would release part of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

import accountant as ac
from mechanisms.arrays import Singles
from mechanisms.validation import check_features, require

__all__ = ["FEATURES", "FeatureMap", "feature_map", "hog", "standardise"]

FeatureMap: TypeAlias = Callable[[Singles], Singles]
"""From records (n, d) to features (n, d'), row by row."""

HOG_PRESETS: dict[str, dict[str, int | None]] = {
    "hog": {"orientations": 9, "cell": None, "block": 2},
    "hog-coarse": {"orientations": 8, "cell": 8, "block": 1},
    "hog-people": {"orientations": 9, "cell": 8, "block": 2},
}
"""Directions, side of a cell in pixels (None: an eighth of the shorter side), and cells of a block's side.

An image of 28 x 28 pixels has 2304 numbers by "hog"; 72 by "hog-coarse", which is that of the published code of Zhu et
al. 2020; and 144 by "hog-people", which is that of Dalal & Triggs 2005.
"""

FEATURES = ("raw", "standardised", *HOG_PRESETS)


def feature_map(
    features: str | Callable[[Singles], object], public: object, images: tuple[int, ...] | None = None
) -> FeatureMap:
    """A checked feature map by name, or from any callable.

    Parameters
    ----------
    features : {"raw", "standardised", "hog", "hog-coarse", "hog-people"} or callable
        The last three are presets of `hog`. A callable takes records (n, d) and returns features (n, d'). It must not
        depend on private records.
    public : array of shape (m, d)
        Public records, from which "standardised" takes means and deviations.
    images : tuple of int, optional
        Shape of one record as an image, for HOG.

    Raises
    ------
    accountant.ParameterError
        The name is unknown, or `images` is missing for HOG. The map itself raises it if a callable does not return
        finite features, one row for each record.
    """
    if callable(features):
        return partial(_apply, features)
    if features == "raw":
        return check_features
    if features == "standardised":
        return standardise(public)
    if isinstance(features, str) and features in HOG_PRESETS:
        if images is None:
            raise ac.ParameterError(
                f"features = {features!r} needs images; accepted: 'raw', 'standardised', a callable"
            )
        return hog(images, features)
    raise ac.ParameterError(f"features = {features!r}; accepted: {', '.join(map(repr, FEATURES))} or a callable")


def standardise(public: object) -> FeatureMap:
    """Subtract the public mean of each column and divide by its public standard deviation, unless that is 0."""
    table = check_features(public, "public").astype(float)
    if len(table) == 0:
        raise ac.ParameterError("public holds no points; accepted: at least one")
    centre, spread = table.mean(axis=0), table.std(axis=0)
    spread[spread == 0] = 1.0

    def transform(records: Singles) -> Singles:
        scaled: Singles = ((records - centre) / spread).astype(np.float32)
        return scaled

    return partial(_apply, transform)


def hog(images: tuple[int, ...], preset: str = "hog") -> FeatureMap:
    """Histograms of oriented gradients (Dalal & Triggs 2005) by scikit-image.

    Parameters
    ----------
    images : tuple of int
        Shape of one record: (height, width) or (height, width, channels), at least 8 by 8; for "hog-people" 16 by 16.
    preset : {"hog", "hog-coarse", "hog-people"}
        See `HOG_PRESETS`.
    """
    describe = require("skimage.feature").hog
    chosen = HOG_PRESETS[preset]
    least = (chosen["cell"] or 4) * (chosen["block"] or 1)
    if len(images) not in (2, 3) or min(images[:2]) < least:
        raise ac.ParameterError(
            f"images = {images}; accepted: (height, width[, channels]) of at least {least} by {least}"
        )
    cell = chosen["cell"] or max(min(images[:2]) // 8, 2)
    options = {
        "orientations": chosen["orientations"],
        "pixels_per_cell": (cell, cell),
        "cells_per_block": (chosen["block"], chosen["block"]),
        "channel_axis": -1 if len(images) == 3 else None,
    }

    def transform(records: Singles) -> Singles:
        if records.shape[1] != math.prod(images):
            raise ac.ParameterError(f"images = {images}; accepted: a shape of the {records.shape[1]} columns")
        return np.stack([describe(record.reshape(images), **options) for record in records]).astype(np.float32)

    return partial(_apply, transform)


def _apply(transform: Callable[[Singles], object], records: Singles) -> Singles:
    """Features of records, checked: finite, one row for each record."""
    features = check_features(transform(records), "features")
    if len(features) != len(records):
        raise ac.ParameterError(f"features have {len(features)} rows; accepted: {len(records)}, one for each record")
    return features
