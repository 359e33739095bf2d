"""Identifiers of private records, so that a record always pays from the same budget."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.arrays import Singles

__all__ = ["check_ids", "digest_ids", "digest_in", "number_of_equal"]


def check_ids(ids: object, n: int | None = None) -> list[str]:
    """Identifiers as texts.

    Raises
    ------
    accountant.ParameterError
        One is neither text nor a whole number, one occurs twice, or there are not `n` of them.
    """
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise ac.ParameterError(f"ids = {ac.shorten(ids)}; accepted: a list of str or int")
    listed = list(ids)
    for name in listed:
        if isinstance(name, bool) or not isinstance(name, str | int | np.integer):
            raise ac.ParameterError(f"ids holds {ac.shorten(name)}; accepted: str or int")
    names = [str(name) for name in listed]
    if n is not None and len(names) != n:
        raise ac.ParameterError(f"ids holds {len(names)} identifiers; accepted: {n}, one for each record")
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise ac.ParameterError(f"ids holds {ac.shorten(twice)} twice; accepted: every identifier once")
    return names


def digest_ids(key: bytes, features: Singles, labels: NDArray[np.int64], taken: Collection[str] = ()) -> list[str]:
    """HMAC-SHA256 of every record's features and label, in hexadecimal.

    The second of equal records gets the suffix "#2", the third "#3", and so on; names in `taken` are skipped.
    """
    names, times = [], Counter[bytes]()
    rows = features + np.float32(0)  # turns -0 into 0, which is the same number
    for row, label in zip(rows, labels.astype("<i8"), strict=True):
        made = hmac.digest(key, row.astype("<f4").tobytes() + label.tobytes(), hashlib.sha256)
        name = ""
        while not name or name in taken:
            times[made] += 1
            name = made.hex() + (f"#{times[made]}" if times[made] > 1 else "")
        names.append(name)
    return names


def digest_in(name: str) -> str:
    """The digest that equal records have in common."""
    return name.partition("#")[0]


def number_of_equal(name: str) -> int:
    """1 of the first record with a digest, 2 of the second, and so on."""
    return int(name.partition("#")[2] or 1)
