"""The interface of local randomizers: one user's report, and unbiased counts from many reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

import accountant as ac
from mechanisms.arrays import Bytes, Floats, Integers
from mechanisms.noise.source import Randomness
from mechanisms.validation import check_count, check_real

__all__ = [
    "Estimate",
    "LocalRandomizer",
    "MalformedReport",
    "Responses",
    "check_entries",
    "check_parameters",
    "stack_reports",
]


class MalformedReport(ac.ParameterError):
    """A serialised report that no randomizer of these parameters writes."""


class Estimate(NamedTuple):
    """Counts from randomized reports.

    Attributes
    ----------
    counts : ndarray of float
        Unbiased estimate of how many users have each entry; shape (domain,). It can be negative.
    variance : ndarray of float
        Estimate of the variance of each of `counts`, given the users' inputs; never negative, and unbiased for
        randomized response and Collision.
    """

    counts: Floats
    variance: Floats


class LocalRandomizer(Protocol):
    """Turns the entries of one user into a report that is differentially private by itself.

    An input is a set of exactly `nonzeros` out of `domain` entries. All randomness of a report comes from 64-bit words.
    Probabilities are multiples of 2^-64, rounded so that a report costs no more than `event`.

    Attributes
    ----------
    mean_variance : float
        Variance of a count, for one user and averaged over the entries: the same for every input.
    """

    @property
    def domain(self) -> int:
        """Number of entries: queries times classes, with entry = query * classes + class."""
        ...

    @property
    def nonzeros(self) -> int:
        """Number of entries that every input has (Wang et al. 2022, Def. 4: neighbours times ones of a label)."""
        ...

    @property
    def event(self) -> ac.Event | ac.Composition:
        """Price of one report, when the user's input is replaced."""
        ...

    @property
    def report_bytes(self) -> int:
        """Length of every serialised report."""
        ...

    @property
    def mean_variance(self) -> float: ...

    def randomize(self, entries: Integers, source: Randomness) -> bytes:
        """Serialised report of one user.

        Parameters
        ----------
        entries : ndarray of int
            The user's non-zero entries, each once, in any order; shape (nonzeros,).
        source : Randomness

        Raises
        ------
        accountant.ParameterError
            They are not exactly `nonzeros` different integers in [0, domain).
        """
        ...

    def randomize_many(self, entries: Integers, source: Randomness) -> Bytes:
        """Serialised reports of many users, shape (n, report_bytes), from entries of shape (n, nonzeros)."""
        ...

    def check(self, report: bytes) -> None:
        """Raise MalformedReport unless it is a report that this randomizer could have written."""
        ...

    def check_many(self, reports: Bytes) -> None:
        """As `check`, for reports of shape (n, report_bytes)."""
        ...

    def estimate(self, reports: Sequence[bytes] | Bytes) -> Estimate:
        """Unbiased counts from reports (a sequence of bytes, or an array of shape (n, report_bytes)).

        Raises
        ------
        MalformedReport
            A report has another length, or no randomizer of these parameters writes it.
        """
        ...


@dataclass(frozen=True)
class Responses:
    """Counts from independent bits for each entry: 1 with probability `p` from users who have it, else `q`.

    Parameters
    ----------
    p, q : float
    gap : float
        p - q > 0, computed without cancellation.
    """

    p: float
    q: float
    gap: float

    def estimate(self, ones: Integers, n: int) -> Estimate:
        """Counts from the number of ones among n reports.

        Given the true count t, the variance is ``(t p(1-p) + (n-t) q(1-q)) / gap^2``, which is linear in t. So the
        estimate of t gives an unbiased one of the variance, ``(ones (1-p-q) + n p q) / gap^2``, which lies in
        n [p q, (1-p)(1-q)] / gap^2.
        """
        hits, misses = ones.astype(np.float64), (n - ones).astype(np.float64)
        counts = (hits - n * self.q) / self.gap
        variance = (hits * ((1 - self.p) * (1 - self.q)) + misses * (self.p * self.q)) / self.gap**2
        return Estimate(counts, variance)

    def count_variance(self, counts: Integers | Floats | float, n: int) -> Floats:
        """Variance of estimated counts, from the true counts of n users."""
        ones, zeros = np.asarray(counts, dtype=float), n - np.asarray(counts, dtype=float)
        variance: Floats = (ones * self.p * (1 - self.p) + zeros * self.q * (1 - self.q)) / self.gap**2
        return variance


def check_parameters(domain: object, nonzeros: object, epsilon: object) -> dict[str, int | float]:
    """Parameters of a randomizer, checked and converted."""
    entries = check_count("domain", domain, 1, 10**9)
    return {
        "domain": entries,
        "nonzeros": check_count("nonzeros", nonzeros, 1, min(entries, 256)),
        "epsilon": check_real("epsilon", epsilon, "[1e-9, 500]", lambda number: 1e-9 <= number <= 500),
    }


def check_entries(entries: object, nonzeros: int, domain: int, many: bool = False) -> Integers:
    """Entries of one user, or of many as rows: exactly `nonzeros` different entries, sorted in each row."""
    rows = np.asarray(entries)
    wanted = "(n, {0})" if many else "({0},)"
    if rows.ndim != 1 + many or rows.shape[-1] != nonzeros or rows.dtype.kind not in "iu":
        shape = wanted.format(nonzeros)
        raise ac.ParameterError(
            f"entries have shape {rows.shape} and type {rows.dtype}; accepted: integers of shape {shape}"
        )
    ordered = np.sort(rows, axis=-1)
    if rows.size and (ordered.min() < 0 or ordered.max() >= domain):
        bad = ordered.min() if ordered.min() < 0 else ordered.max()
        raise ac.ParameterError(f"entries hold {bad}; accepted: 0..{domain - 1}")
    if (ordered[..., 1:] == ordered[..., :-1]).any():
        raise ac.ParameterError("entries hold an entry twice; accepted: every entry once")
    return ordered.astype(np.int64)


def stack_reports(reports: Sequence[bytes] | Bytes, width: int) -> Bytes:
    """Reports as rows of an array of bytes."""
    if isinstance(reports, np.ndarray):
        if reports.ndim != 2 or reports.shape[1] != width or reports.dtype != np.uint8:
            raise MalformedReport(
                f"reports have shape {reports.shape} and type {reports.dtype}; accepted: uint8 of shape (n, {width})"
            )
        return reports
    for i, report in enumerate(reports):
        if not isinstance(report, bytes | bytearray | memoryview) or len(report) != width:
            raise MalformedReport(f"reports[{i}] = {ac.shorten(report)}; accepted: {width} bytes")
    return np.frombuffer(b"".join(reports), np.uint8).reshape(-1, width)
