"""What a local randomizer answers: one user's report, and unbiased counts from many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.noise.source import Randomness
from mechanisms.validation import check_count, check_real, shorten

__all__ = ["Estimate", "LocalRandomizer", "MalformedReport", "Responses", "check_entries", "check_local", "stacked"]

Bytes = NDArray[np.uint8]
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


class MalformedReport(ac.ParameterError):
    """A serialised report that no randomizer of these parameters writes."""


class Estimate(NamedTuple):
    """Counts from randomized reports.

    Attributes
    ----------
    counts : ndarray of float
        Unbiased estimate of how many users have each entry; shape (domain,). Not clipped: it can be negative.
    variance : ndarray of float
        Estimate of the variance of each of `counts`, for the users' inputs held fixed; never negative, and unbiased for
        randomized response and Collision.
    """

    counts: Floats
    variance: Floats


class LocalRandomizer(Protocol):
    """Turns the entries of one user into a report that is differentially private by itself.

    An input is a set of exactly `nonzeros` out of `domain` entries. All that is random in a report comes from 64-bit
    words, and probabilities are multiples of 2^-64 rounded so that `event` prices them exactly, never below.

    Attributes
    ----------
    mean_variance : float
        Variance of a count, for one user and averaged over the entries: the same for every input.
    """

    @property
    def domain(self) -> int:
        """Number of entries, (queries times classes; entry = query * classes + class)."""
        ...

    @property
    def nonzeros(self) -> int:
        """Number of entries that every input has (reverse-knn, Def. 4: neighbours times ones of a label)."""
        ...

    @property
    def event(self) -> ac.Event | ac.Composition:
        """What one report costs, under replacement of the user's input."""
        ...

    @property
    def report_bytes(self) -> int:
        """Length of every serialised report."""
        ...

    @property
    def mean_variance(self) -> float: ...

    def randomize(self, entries: Counts, source: Randomness) -> bytes:
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

    def randomize_many(self, entries: Counts, source: Randomness) -> Bytes:
        """Serialised reports of many users, shape (n, report_bytes), from entries of shape (n, nonzeros)."""
        ...

    def check(self, report: bytes) -> None:
        """Raise MalformedReport unless it is a report that this randomizer could have written."""
        ...

    def check_many(self, reports: Bytes) -> None:
        """The same for many, shape (n, report_bytes)."""
        ...

    def estimate(self, reports: Sequence[bytes] | Bytes) -> Estimate:
        """Unbiased counts from reports (a sequence of bytes, or an array of shape (n, report_bytes)).

        Raises
        ------
        MalformedReport
            A report is of another length, or holds what is never written.
        """
        ...


@dataclass(frozen=True)
class Responses:
    """Counts from n independent bits per entry: 1 with probability `p` for users who have it, `q` for the others.

    Parameters
    ----------
    p, q : float
    gap : float
        p - q > 0, without cancellation.
    """

    p: float
    q: float
    gap: float

    def estimate(self, ones: Counts, n: int) -> Estimate:
        """From the number of ones among n reports.

        The variance given the true count t is ``t p(1-p) + (n-t) q(1-q)`` over gap^2, linear in t: t estimated gives an
        unbiased estimate of it, ``ones (1-p-q) + n p q`` over gap^2, which lies in n [p q, (1-p)(1-q)] / gap^2.
        """
        fallen, missed = ones.astype(np.float64), (n - ones).astype(np.float64)
        counts = (fallen - n * self.q) / self.gap
        variance = (fallen * ((1 - self.p) * (1 - self.q)) + missed * (self.p * self.q)) / self.gap**2
        return Estimate(counts, variance)

    def count_variance(self, counts: Counts | Floats | float, n: int) -> Floats:
        """Variance of an estimated count, from the true ones."""
        ones, zeros = np.asarray(counts, dtype=float), n - np.asarray(counts, dtype=float)
        variance: Floats = (ones * self.p * (1 - self.p) + zeros * self.q * (1 - self.q)) / self.gap**2
        return variance


def check_local(domain: object, nonzeros: object, epsilon: object) -> dict[str, int | float]:
    """Parameters of a randomizer, in the types that it keeps."""
    entries = check_count("domain", domain, 1, 10**9)
    return {
        "domain": entries,
        "nonzeros": check_count("nonzeros", nonzeros, 1, min(entries, 256)),
        "epsilon": check_real("epsilon", epsilon, "[1e-9, 500]", lambda number: 1e-9 <= number <= 500),
    }


def check_entries(entries: object, nonzeros: int, domain: int, many: bool = False) -> Counts:
    """Entries of one user, or of many as rows, each row sorted: exactly `nonzeros` different ones."""
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
        raise ac.ParameterError("entries hold one twice; accepted: every entry once")
    return ordered.astype(np.int64)


def stacked(reports: Sequence[bytes] | Bytes, width: int) -> Bytes:
    """Reports as rows of bytes."""
    if isinstance(reports, np.ndarray):
        if reports.ndim != 2 or reports.shape[1] != width or reports.dtype != np.uint8:
            raise MalformedReport(
                f"reports have shape {reports.shape} and type {reports.dtype}; accepted: uint8 of shape (n, {width})"
            )
        return reports
    for i, report in enumerate(reports):
        if not isinstance(report, bytes | bytearray | memoryview) or len(report) != width:
            raise MalformedReport(f"reports[{i}] = {shorten(report)}; accepted: {width} bytes")
    return np.frombuffer(b"".join(reports), np.uint8).reshape(-1, width)
