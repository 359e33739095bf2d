"""Sums of many independent copies of one number on a lattice: certified probabilities, far tails included.

With masses p_j on j = 0, ..., K the sum of c copies has E e^{iwS} = A(w)^c. Under the masses a_j ~ p_j e^{t j} the sum
is near its mean M(t) wherever a tilt t puts that, and there a Fourier transform errs by little relative to the answer:

    p(n) = e^{c L - t (n - M)} p_t(n),   L = log sum p_j e^{t (j - m)},   M = c m.

A ladder of tilts, their means four standard deviations apart, serves all n. A(w) - 1 = sum a_j (e^{iw(j - m)} - 1) is
summed as it stands where A^c counts, so that its error is relative to what c copies make of it. What is wrapped around
the transform's window is bounded by Chernoff's bound on the same masses, rounding by the sizes of what is added; both
widen the bounds.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray

__all__ = ["LatticePower", "lattice_power", "norm", "transform_error"]

ULP = math.ulp(1.0)

SPACING = 4.0
"""Standard deviations between the means of neighbouring tilts."""

ALIASED = -38.0
"""Log of what may be wrapped around a window; it is counted."""

NEGLIGIBLE = -50.0
"""Log of |A|^c from which on it counts as 0, and as an error of that size."""

WAVES = 2**20, 2**25
"""Products of frequencies and masses up to which A is summed as it stands, where a transform of the masses would do and
where it would not; beyond, it is a transform anyhow."""

ACCURATE = 1e-8
"""Error of A^c, relative to itself, up to which a transform does."""

CHUNK = 2**21
"""Products that are held at once."""

CHERNOFF = np.array([1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 24.0, 40.0])
"""Powers of Chernoff's bound, in units of 1/deviation."""


class LatticePower(NamedTuple):
    """Logs of bounds on the probabilities of the sums first, first + 1, ...

    `log_before` bounds the logarithm of all that is between the least sum that was asked for and `first`, `log_beyond`
    that of all sums behind the last one.
    """

    first: int
    low: FloatArray
    high: FloatArray
    log_before: float
    log_beyond: float


class _Tilted:
    """The law of one copy under a tilt, moved by its mean: m is so round that c m is exact."""

    def __init__(self, log_masses: FloatArray, count: int, tilt: float) -> None:
        places = np.arange(log_masses.size, dtype=float)
        logs = log_masses + tilt * places
        weights = np.exp(logs - np.max(logs))
        mean = float(np.sum(weights * places) / np.sum(weights))
        bits = max(52 - math.ceil(math.log2(count * log_masses.size + 1)), 0)
        self.m = math.ldexp(round(math.ldexp(mean, min(bits, 30))), -min(bits, 30))
        self.count, self.tilt, self.places = count, tilt, places - self.m
        logs = log_masses + tilt * self.places
        top = float(np.max(logs))
        self.log_whole = top + math.log(math.fsum(np.exp(logs - top).tolist()))
        self.logs = logs - self.log_whole
        self.masses = np.exp(self.logs)
        # relative error of every mass, on average: of a few roundings of its logarithm's parts
        sizes = 8 + abs(self.log_whole) + np.abs(tilt * self.places) + np.abs(np.maximum(log_masses, -1e3))
        self.errors = ULP * sizes * self.masses
        self.mean = count * self.m
        self.deviation = math.sqrt(count * float(np.sum(self.masses * (places - mean) ** 2)))

    @property
    def log_tail(self) -> float:
        """Log of Chernoff's bound on the sums on the far side of the mean."""
        return self.count * self.log_whole * (1 - 1e-12) + 1e-9

    def log_outside(self, distance: float) -> float:
        """Log of a bound on the tilted probability of sums at least that far from the mean, on either side."""
        best = np.zeros(2)
        for row, sign in enumerate((1.0, -1.0)):
            for power in (CHERNOFF / max(self.deviation, 1e-3)).tolist():
                moment = float(np.logaddexp.reduce(self.logs + sign * power * self.places))
                best[row] = min(float(best[row]), self.count * moment - power * distance)
        return float(np.logaddexp.reduce(best)) + 1e-6


def lattice_power(
    log_masses: FloatArray, count: int, least_tilt: float, log_lost: float, most: int
) -> LatticePower | None:
    """Bounds on the law of the sum of `count` copies, from its mean under the least tilt up.

    Parameters
    ----------
    log_masses : array
        Logs of the masses on 0, 1, ..., K.
    count : int
    least_tilt : float
        At most 0.
    log_lost : float
        Log of what may be left out before and behind the sums that are returned.
    most : int
        Points of the longest transform; None is returned where more are needed.
    """
    last = count * (log_masses.size - 1)
    law, log_before = _Tilted(log_masses, count, least_tilt), -math.inf
    if law.log_tail < log_lost and least_tilt < 0.0:
        law = _start(log_masses, count, least_tilt, log_lost)
        log_before = law.log_tail
    ladder = [law]
    while not (law.tilt >= 0.0 and law.log_tail <= log_lost) and law.mean < last - 0.5:
        law = _next(log_masses, count, law, last)
        ladder.append(law)
    first = math.ceil(ladder[0].mean - 1e-9)
    top = law.mean >= last - 0.5
    end = last if top else math.floor(law.mean)
    middles = [_between(*pair) for pair in pairwise(ladder)]
    edges = [first, *(min(max(each, first), end + 1) for each in middles), end + 1]
    parts = []
    for law, low, high in zip(ladder, edges, edges[1:], strict=False):
        if high > low:
            if (part := _window(law, low, high, last, most)) is None:
                return None
            parts.append(part)
    below, above = (np.concatenate([part[i] for part in parts]) for i in range(2))
    return LatticePower(first, below, above, log_before, -math.inf if top else ladder[-1].log_tail)


def _next(log_masses: FloatArray, count: int, law: _Tilted, last: int) -> _Tilted:
    """The law at the next tilt: its mean is not too many deviations of either from that of `law`."""
    target = min(law.mean + SPACING * law.deviation + 1.0, last - 0.25)
    for _ in range(60):
        found = _tilt_to(log_masses, count, law, target)
        if found.mean - law.mean <= 0.625 * SPACING * (law.deviation + found.deviation) + 1.0:
            break
        target = (law.mean + target) / 2
    return found


def _between(law: _Tilted, following: _Tilted) -> int:
    """The first sum that is as many deviations from the mean of the one as of the other, or more."""
    share = law.deviation / (law.deviation + following.deviation)
    return math.ceil(law.mean + share * (following.mean - law.mean))


def _start(log_masses: FloatArray, count: int, least_tilt: float, log_lost: float) -> _Tilted:
    """The law at a tilt below 0 up to whose mean there is about exp(log_lost), and not more."""
    low, high = least_tilt, 0.0
    for _ in range(60):
        middle = (low + high) / 2
        if (law := _Tilted(log_masses, count, middle)).log_tail <= log_lost:
            low = middle
            if law.log_tail > log_lost - 1.0:
                break
        else:
            high = middle
    return _Tilted(log_masses, count, low)


def _tilt_to(log_masses: FloatArray, count: int, law: _Tilted, target: float) -> _Tilted:
    """The law at a tilt whose mean is about `target`, above that of `law`."""
    low, width = law.tilt, 1.0 / max(law.deviation, 1e-3)
    while (high := _Tilted(log_masses, count, low + width)).mean < target and width < 1e6 * (1.0 + abs(low)):
        width *= 2.0
    ends = low, low + width
    found = high
    for _ in range(60):
        if abs(found.mean - target) <= max(0.25 * found.deviation, 0.05) and found.mean > law.mean:
            break
        middle = (ends[0] + ends[1]) / 2
        found = _Tilted(log_masses, count, middle)
        ends = (middle, ends[1]) if found.mean < target else (ends[0], middle)
    return found if found.mean > law.mean else high


def _window(law: _Tilted, low: int, high: int, last: int, most: int) -> tuple[FloatArray, FloatArray] | None:
    """Logs of bounds on the probabilities of low, ..., high - 1."""
    from scipy.fft import irfft, next_fast_len

    reach = max(high - law.mean, law.mean - low, 0.0)
    points = float(high - low) + 2 * reach + 10 * law.deviation + 64
    log_aliased = law.log_outside(points - reach)
    while log_aliased > ALIASED and points <= last:
        points *= 1.5
        log_aliased = law.log_outside(points - reach)
    if points > last:
        points, log_aliased = float(last + 1), -math.inf
    if points > most:
        return None
    size = 2 * int(next_fast_len(math.ceil(max(points, 16.0) / 2), real=True))
    spectrum, error = _spectrum(law, size, low)
    found = irfft(spectrum, size)[: high - low]
    error += transform_error(size) * norm(spectrum) * math.sqrt(2.0 / size) + math.exp(log_aliased)
    away = np.arange(low - law.mean, high - law.mean)[: high - low]
    scale = law.count * law.log_whole - law.tilt * away
    slack = law.count * (float(np.sum(law.errors)) + 4 * ULP * (1 + abs(law.log_whole)))
    slack += 4 * ULP * (4 + float(np.max(np.abs(law.tilt * away))))
    with np.errstate(divide="ignore"):
        logs = (np.log(np.maximum(found + sign * error, 0.0)) + scale + sign * slack for sign in (-1, 1))
        below, above = logs
    return below, np.maximum(above, -1e300)


def _spectrum(law: _Tilted, size: int, low: int) -> tuple[NDArray[np.complex128], float]:
    """The transform of the sum's law from `low` on, and what all its errors together do to any probability."""
    from scipy.fft import rfft

    c, n = law.count, law.masses.size
    wrapped = np.zeros(math.ceil(n / size) * size)
    wrapped[:n] = law.masses
    wrapped = wrapped.reshape(-1, size).sum(axis=0)
    waves = 2 * math.pi / size * np.arange(size // 2 + 1)
    rough = rfft(wrapped) * np.exp(1j * waves * law.m)
    fuzz = transform_error(size) * math.sqrt(size) * norm(wrapped) + float(np.sum(law.errors)) + 8 * ULP * law.m
    log_sizes = c * np.log(np.abs(rough) + fuzz)
    counts = log_sizes > NEGLIGIBLE
    spectrum = np.zeros(waves.size, dtype=complex)
    error = float(np.sum(np.exp(log_sizes[~counts])))
    some = np.flatnonzero(counts)
    if some.size * n <= WAVES[0 if c * fuzz <= ACCURATE else 1]:
        above_one, errors = _sums(law, waves[some])
    else:
        above_one, errors = rough[some] - 1.0, np.full(some.size, fuzz)
    real, imaginary = above_one.real, above_one.imag
    logs = 0.5 * np.log1p(np.maximum(2 * real + real * real + imaginary * imaginary, -1 + 1e-300))
    angles = np.arctan2(imaginary, 1.0 + real)
    offset = low - law.mean
    powers = np.exp(np.minimum(c * logs, 0.0) + 1j * (c * angles + waves[some] * offset))
    sizes = np.exp(logs)
    shares = c * (errors / sizes + 8 * ULP / sizes**2)
    shares += ULP * (8 + 4 * c * (np.abs(logs) + np.abs(angles)) + 4 * waves[some] * abs(offset))
    # |A| is at most its computed size and its error
    error += float(np.sum(np.exp(c * np.minimum(logs + errors / sizes, 0.0)) * np.minimum(2 * shares, 2.0)))
    spectrum[some] = powers
    return spectrum, 2 * error / size


def _sums(law: _Tilted, waves: NDArray[Any]) -> tuple[NDArray[np.complex128], FloatArray]:
    """A - 1 at these frequencies, and bounds on its error."""
    result, errors = np.empty(waves.size, dtype=complex), np.empty(waves.size)
    rounding = ULP * (16 + math.log2(law.masses.size + 1))
    for part in np.array_split(np.arange(waves.size), math.ceil(waves.size * law.masses.size / CHUNK)):
        angles = waves[part, None] * law.places
        sines, squares = np.sin(angles), 2 * np.sin(angles / 2) ** 2
        sizes = np.minimum(np.abs(angles), 2.0)
        result[part] = -np.sum(law.masses * squares, axis=1) + 1j * np.sum(law.masses * sines, axis=1)
        errors[part] = rounding * np.sum(law.masses * (squares + np.abs(sines)), axis=1)
        errors[part] += np.sum(law.errors * sizes, axis=1) + ULP * np.sum(law.masses * np.abs(angles), axis=1)
    return np.conj(result), errors


def transform_error(points: int) -> float:
    """What a transform errs by, relative to its 2-norm: more than 7 log2(points) roundings (Higham 2002, Thm 24.2)."""
    return 16 * ULP * math.log2(points)


def norm(x: NDArray[np.float64] | NDArray[np.complex128]) -> float:
    """2-norm. (np.linalg.norm calls threaded BLAS.)"""
    return math.sqrt(float(np.sum(np.abs(x) ** 2)))
