"""Tests of Poisson samples in which every record has a rate of its own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accountant.errors import ParameterError, integer, shorten
from accountant.numerics.kernel import FloatArray
from accountant.numerics.scipy_special import betainc
from accountant.samplers.counts import by_window, neighbours, together
from accountant.samplers.stream import Stream
from accountant.samplers.tails import SamplerTest, chernoff, exact, impossible, share_by_thirds

__all__ = ["rates_per_record", "test_rates"]

GROUPS = 10
"""Groups of records by rate whose participations are counted together."""

MOST_TERMS = 2e8
"""Factors of the distribution of a batch's size; where there are more it is not tested."""


def rates_per_record(declared: object, records: int | None) -> FloatArray | None:
    """The rates of an array, or of the file in ``poisson:@FILE``; None of any other declaration.

    Raises
    ------
    ParameterError
        The file cannot be read, a rate is not in [0, 1], or there are not as many as records.
    """
    if isinstance(declared, str):
        if not declared.startswith("poisson:@"):
            return None
        name, values = declared.removeprefix("poisson:@"), _read(declared.removeprefix("poisson:@"))
    else:
        name, values = "declared", declared
    accepted = "accepted: one rate in [0, 1] for each record, not all of them 0"
    try:
        rates = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} = {shorten(values)}; {accepted}") from None
    if rates.ndim != 1 or rates.size == 0 or not ((rates >= 0) & (rates <= 1)).all() or not rates.any():
        raise ParameterError(f"{name} = {shorten(values)}; {accepted}")
    if records is not None and integer("records", records, 1, 2**31) != rates.size:
        raise ParameterError(f"records = {records}; accepted: {rates.size}, the number of rates in {name}")
    return rates


def _read(path: str) -> Any:
    """The numbers of a file."""
    try:
        if path.endswith(".npy"):
            return np.load(path, allow_pickle=False)
        return [float(part) for part in Path(path).read_text("utf-8").replace(",", " ").split()]
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or "holds other things than numbers"
        raise ParameterError(f"{path}: {reason}; accepted: a text file of rates, or .npy") from None


def test_rates(seen: Stream, rates: FloatArray) -> list[SamplerTest]:
    """Counts of independent coins, whose chances differ: binomial if they do not, else by Chernoff's bound."""
    records, length = rates.size, seen.length
    counts = np.bincount(seen.indices, minlength=records)
    tests = [impossible("a record twice in one batch", seen.repeats), _most_unlikely(counts, length, rates)]
    for low, high, members in _groups(rates):
        span = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        found = int(counts[members].sum())
        tests.append(_coins(f"participations of records at {span}", found, length, rates[members]))
    tests += _sizes(seen, rates)
    window = min(max(2, round(1 / float(rates.mean()))), length)
    never, once, _ = by_window(seen, window)
    missed = (1 - rates) ** window
    single = window * rates * (1 - rates) ** (window - 1)
    tests.append(_coins(f"records never met within {window} steps", never, length // window, missed))
    tests.append(_coins(f"records met once within {window} steps", once, length // window, np.minimum(single, 1.0)))
    for lag in sorted({1, window}):
        found, pairs = together(seen, lag)
        if pairs:
            tests.append(_coins(f"records in two steps {lag} apart", found, pairs, rates * rates))
    found, chances = neighbours(seen)
    if chances:
        both = rates[: 2 * (records // 2)].reshape(-1, 2).prod(axis=1)
        tests.append(_coins("neighbours by index in one batch", found, length, both))
    return tests


def _coins(name: str, found: int, repeats: int, shares: FloatArray) -> SamplerTest:
    """Of a sum of `repeats` independent coins at each of these chances.

    By the inequality of means E e^{sX} = prod (1 - p_i + p_i e^s) is at most what n coins at their mean have, so that
    Chernoff's bound at the mean holds.
    """
    test = exact if float(shares.min()) == float(shares.max()) else chernoff
    return test(name, found, repeats * shares.size, float(shares.mean()))


def _most_unlikely(counts: NDArray[Any], length: int, rates: FloatArray) -> SamplerTest:
    """The most unlikely of all records' binomial counts: the sum of their chances."""
    below = np.where(counts >= length, 1.0, betainc(np.maximum(length - counts, 1), counts + 1, 1 - rates))
    above = np.where(counts == 0, 1.0, betainc(np.maximum(counts, 1), length - counts + 1, rates))
    tails = np.minimum(below, above)
    worst = int(tails.argmin())
    p = min(1.0, 2 * counts.size * float(tails[worst]))
    name = "most unlikely participations of a record at its rate"
    return SamplerTest(name, int(counts[worst]), length * float(rates[worst]), p)


def _groups(rates: FloatArray) -> list[tuple[float, float, NDArray[Any]]]:
    """Records by rate: those of one rate each if there are few, else of about as many records each."""
    values = np.unique(rates)
    if values.size <= GROUPS:
        return [(float(value), float(value), np.flatnonzero(rates == value)) for value in values]
    parts = np.array_split(np.argsort(rates, kind="stable"), GROUPS)
    return [(float(rates[part].min()), float(rates[part].max()), part) for part in parts if part.size]


def _sizes(seen: Stream, rates: FloatArray) -> list[SamplerTest]:
    """Batches by thirds of the distribution of their size, which is a Fourier sum over a window of sizes.

    Sizes outside it, at 12 standard deviations and 12 from the mean or more, have a chance below 1e-20 by Bernstein's
    inequality, and are counted as if they were a window's length away.
    """
    mean, spread = float(rates.sum()), 12 * math.sqrt(float((rates * (1 - rates)).sum())) + 48
    start, width = math.floor(mean - spread), math.ceil(2 * spread) + 1
    values, many = np.unique(rates, return_counts=True)
    if values.size * width > MOST_TERMS:
        return []
    turns = np.exp(-2j * np.pi * np.arange(width) / width)
    spectrum = np.exp(2j * np.pi * np.arange(width) * start / width)
    for value, number in zip(values.tolist(), many.tolist(), strict=True):
        spectrum *= (1 - value + value * turns) ** number
    masses = np.maximum(np.fft.ifft(spectrum).real, 0.0)
    sizes = np.bincount(seen.steps, minlength=seen.length) - start
    return share_by_thirds("batches by size", sizes, np.cumsum(masses))
