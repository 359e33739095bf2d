"""Bounds on the probabilities of sums of independent scores of two kinds, far tails included.

Under the masses a_j ~ q_j e^{tilt s_j} a sum is near its mean wherever the tilt puts that, and there a transform's
error is little relative to the answer, q(S) = e^{K(tilt) - tilt S} q_tilt(S); of several tilts each sum takes the
nearest bounds. What wraps around the window is bounded by Chernoff's bound, and is part of the upper ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray
from accountant.numerics.lattice_powers import norm, transform_error
from accountant.tight.fourier import integer_power
from accountant.tight.polygon import ULP

__all__ = ["Scores", "bounds_on_sums", "convolve", "window_of"]

SPACING = 6.0
"""Standard deviations between the means of neighbouring tilts."""

NEAREST = 0.1
"""Of them at least, by the deviation under the first of both."""

MOST_TILTS = 12
"""Of one law, in each direction."""

CHERNOFF = np.geomspace(0.1, 40.0, 40)
"""Powers of Chernoff's bound, in units of 1/deviation."""

SPARE = 1e-12
"""Taken off masses, so that they come to no more than 1: above what their sums err by."""

LARGEST = 600.0
"""Logs of factors beyond which a tilt says nothing of a sum."""


@dataclass(frozen=True)
class Scores:
    """Logs of the masses of one score of each kind, at whole numbers, and how many of each kind are added."""

    places: NDArray[np.int64]
    log_masses: tuple[FloatArray, FloatArray]
    counts: tuple[int, int]

    def log_moment(self, tilt: float) -> float:
        """K(tilt), the log of E e^{tilt S}."""
        return sum(
            count * float(np.logaddexp.reduce(logs + tilt * self.places))
            for logs, count in zip(self.log_masses, self.counts, strict=True)
            if count
        )

    def spread(self, tilt: float) -> tuple[float, float]:
        """Mean and standard deviation of the sum under a tilt."""
        mean = variance = 0.0
        for logs, count in zip(self.log_masses, self.counts, strict=True):
            tilted = logs + tilt * self.places
            masses = np.exp(tilted - np.logaddexp.reduce(tilted))
            own = float(np.sum(masses * self.places))
            mean += count * own
            variance += count * float(np.sum(masses * (self.places - own) ** 2))
        return mean, max(math.sqrt(variance), 0.5)

    def reach(self, log_lost: float) -> tuple[float, float]:
        """Below and above which there is less than e^log_lost."""
        powers = CHERNOFF / self.spread(0.0)[1]
        low = max((log_lost - self.log_moment(-each)) / each for each in powers.tolist())
        high = min((self.log_moment(each) - log_lost) / each for each in powers.tolist())
        return low, high

    def log_outside(self, tilt: float, low: float, high: float) -> float:
        """Log of a bound on what is not between `low` and `high` under a tilt."""
        powers, whole = (CHERNOFF / self.spread(tilt)[1]).tolist(), self.log_moment(tilt)
        below = min(self.log_moment(tilt - each) - whole + each * low for each in powers)
        above = min(self.log_moment(tilt + each) - whole - each * high for each in powers)
        return float(np.logaddexp(below, above)) + 1e-6

    def tilts(self, low: float, high: float) -> list[float]:
        """Tilts whose sums have their means not far apart between two places."""
        found = [0.0]
        for sign, end in ((1, high), (-1, low)):
            tilt, (mean, deviation) = 0.0, self.spread(0.0)
            for _ in range(MOST_TILTS):
                if sign * (end - mean) < SPACING / 2 * deviation:
                    break
                change = SPACING / deviation
                after = self.spread(tilt + sign * change)
                while sign * (after[0] - mean) > SPACING / 2 * (deviation + after[1]) and change * deviation > NEAREST:
                    change /= 2
                    after = self.spread(tilt + sign * change)
                if not sign * (after[0] - mean) > NEAREST * deviation:
                    break  # no sum is farther
                tilt, (mean, deviation) = tilt + sign * change, after
                found.append(tilt)
        return found


def window_of(laws: Sequence[Scores], log_lost: float) -> tuple[int, int]:
    """First and last place of the sums that matter."""
    ends = [law.reach(log_lost) for law in laws]
    return math.floor(min(low for low, _ in ends)), math.ceil(max(high for _, high in ends))


def bounds_on_sums(law: Scores, first: int, points: int, core: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bounds on the probabilities of the sums first, ..., first + points - 1; near those in `core`."""
    low, high = np.zeros(points), np.full(points, math.inf)
    for tilt in law.tilts(*core):
        below, above = _bounds_by_tilt(law, first, points, tilt)
        np.maximum(low, below, out=low)
        np.minimum(high, above, out=high)
    return low, high


def _bounds_by_tilt(law: Scores, first: int, points: int, tilt: float) -> tuple[FloatArray, FloatArray]:
    sums = first + np.arange(points)
    laws, size = [], 8.0
    with np.errstate(under="ignore"):
        for logs in law.log_masses:
            tilted = logs + tilt * law.places
            masses = np.exp(tilted - np.logaddexp.reduce(tilted)) * (1 - SPARE)
            laws.append(np.bincount(law.places % points, masses, points).astype(float))
            some = np.isfinite(logs)
            size = max(size, float(np.max(np.abs(tilted[some])) + np.max(np.abs(logs[some]))))
    found, error = convolve(laws[1], law.counts[1], laws[0], law.counts[0])
    rolled: FloatArray = np.roll(found, -(first % points))
    whole, total = law.log_moment(tilt), sum(law.counts)
    exponents = whole - tilt * sums
    # of the masses and of the factor, by their logs
    share = total * (4 * SPARE + 8 * ULP * size) + 8 * ULP * (abs(whole) + abs(tilt) * float(np.max(np.abs(sums))))
    outside = math.exp(min(law.log_outside(tilt, float(first), float(first + points - 1)), 0.0))
    with np.errstate(under="ignore", over="ignore"):
        factor = np.exp(np.minimum(exponents, LARGEST))
        below = np.maximum(rolled - error - outside, 0.0) * factor * (1 - share)
        above = np.where(exponents <= LARGEST, (rolled + error) * factor * (1 + share) + 1e-300, math.inf)
    return below, above


def convolve(q: FloatArray, many: int, p: FloatArray, few: int) -> tuple[FloatArray, float]:
    """q^{*many} * p^{*few} modulo their length n, and a bound on the error of every mass (sums of q and p at most 1).

    A transform errs by eta = `transform_error(n)` of its 2-norm, hence by at most eta sqrt(n) |q| in one place. A
    product of factors of at most m_k in place k then errs by (factors) m_k^(factors - 1) times that, and what comes
    back, a mean over all places, by the mean of it: at most eta |q| |m^(factors - 1)| / sqrt(n) for each factor
    (Cauchy-Schwarz inequality).
    """
    from scipy.fft import irfft, rfft

    size, total = q.size, many + few
    eta, length = transform_error(size), max(norm(q), norm(p))
    spectra = rfft(q), rfft(p)
    product = integer_power(spectra[0], many) * integer_power(spectra[1], few)
    off = eta * math.sqrt(size) * length
    largest = np.minimum(np.maximum(np.abs(spectra[0]), np.abs(spectra[1])) * (1 + 4 * ULP) + off, 1 + off)
    with np.errstate(under="ignore"):
        powers = math.sqrt(2) * largest ** (total - 1)
    found = irfft(product, size)
    share = eta * length * norm(powers) / math.sqrt(size) + 4 * ULP * float(np.sum(powers)) * math.sqrt(2) / size
    return np.maximum(found, 0.0), 1.01 * total * share + 2 * eta * norm(found) + 1e-300
