"""Composed measures of losses on a grid, by one Fourier transform for each distinct event.

What wraps around the Fourier window is bounded by Chernoff's bound on the same masses, rounding by the norm of the
transform's error; both are added on the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray
from accountant.numerics.lattice_powers import norm, transform_error
from accountant.tight.polygon import ULP, Grid, Masses

ComplexArray = NDArray[np.complex128]

__all__ = ["WINDOW_NATS", "ComposedLoss", "HockeyStick", "LossSum", "Remainder"]

WINDOW_NATS = 27.0
"""The Fourier window is to hold all but e^-WINDOW_NATS of the tilted mass."""


class Remainder(Protocol):
    """What later events leave of delta: bounds on log W(e^x), W <= 1 convex and falling in e^x."""

    def log_upper(self, x: FloatArray) -> FloatArray: ...

    def log_lower(self, x: FloatArray) -> FloatArray: ...


class HockeyStick:
    """Nothing comes after: W(u) = (1 - u)_+."""

    def log_upper(self, x: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(-np.expm1(np.minimum(x, 0.0))))

    log_lower = log_upper


class Part(NamedTuple):
    """One measure ready to be composed.

    `cumulants` are log E e^{t (l - mean)} and log E e^{-t (l - mean)} for every t of a sum's powers, `deep` the second
    at its deep t; `error` bounds that of the spectrum in the 2-norm.
    """

    spectrum: ComplexArray
    masses: Masses
    mean: float
    cumulants: FloatArray
    deep: float
    error: float


class Mixed(NamedTuple):
    """Mixtures of two parts on the same points; `shares` are those of the higher one in the tilted masses.

    `masses` says where the points are; the others are as for a part, with a row for every mixture.
    """

    masses: Masses
    shares: FloatArray
    means: FloatArray
    log_totals: FloatArray
    cumulants: FloatArray
    deep: FloatArray
    error: float

    @classmethod
    def alone(cls, part: Part) -> Mixed:
        """One part that is not mixed."""
        means, log_totals, deep = np.array([[part.mean], [part.masses.log_total], [part.deep]])
        return cls(part.masses, np.zeros(1), means, log_totals, part.cumulants[None], deep, part.error)

    @classmethod
    def of(cls, low: Part, high: Part, shares: FloatArray, powers: FloatArray, deep: float) -> Mixed:
        """Mixtures of which `shares` are those of `high` in the masses that are not tilted."""
        with np.errstate(divide="ignore"):
            logs = np.array([np.log1p(-shares) + low.masses.log_total, np.log(shares) + high.masses.log_total])
            log_totals = np.logaddexp(*logs)
            tilted = np.exp(logs[1] - log_totals)
            logs -= log_totals
        means = (1 - tilted) * low.mean + tilted * high.mean

        def tails(turns: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
            """Logs of E e^{t (l - mean)}, a row for every mixture and a column for every t."""
            both = (
                log[:, None] + value + turns * (part.mean - means)[:, None]
                for log, part, value in ((logs[0], low, a), (logs[1], high, b))
            )
            found = np.logaddexp(*both)
            return np.asarray(found + ULP * (64 + 4 * np.abs(found)))

        up, down = (
            tails(sign * powers, low.cumulants[row], high.cumulants[row]) for row, sign in ((0, 1.0), (1, -1.0))
        )
        (lowest,) = tails(np.array([-deep]), np.array([low.deep]), np.array([high.deep])).T
        error = max(low.error, high.error) + 8 * ULP
        return cls(low.masses, tilted, means, log_totals, np.stack([up, down], axis=1), lowest, error)


def align(low: Masses, high: Masses) -> tuple[Masses, Masses]:
    """The same measures on points that begin and end together."""
    first = min(low.first, high.first)
    last = max(each.first + each.weights.size for each in (low, high))
    padded = (np.pad(each.weights, (each.first - first, last - each.first - each.weights.size)) for each in (low, high))
    a, b = (Masses(w, first, each.offset, each.log_total) for w, each in zip(padded, (low, high), strict=True))
    return a, b


class LossSum:
    """Collects the masses of a composition's events: spectra are multiplied up, and turned back once by `compose`.

    Parameters
    ----------
    grid : Grid
    points : int
        Length of the Fourier window.
    spread : float
        Rough standard deviation of the composed loss under the tilted masses.
    """

    def __init__(self, grid: Grid, points: int, spread: float) -> None:
        self.grid, self.points = grid, points
        self.spectrum: ComplexArray = np.ones(points // 2 + 1, dtype=complex)
        self.first, self.last, self.offset, self.log_total, self.mean, self.kinds = 0, 0, 0.0, 0.0, 0.0, 0
        # bounds on errors: of the probabilities in the 2-norm, of the log of their normalisation, of the losses
        self.noise, self.slack, self.shift = 0.0, 0.0, 0.0
        # log E e^{t (l - mean)} and log E e^{-t (l - mean)} for every t of `powers`; the same for one t above the tilt
        self.powers = np.asarray(2.0 ** np.arange(-4, 4) / spread, dtype=np.float64)
        self.cumulants = np.zeros((2, self.powers.size))
        self.deep, self.deep_cumulant = grid.tilt + 6 / spread, 0.0
        self.support = np.zeros(2)  # how far the loss reaches above and below its mean

    def add(self, masses: Masses, count: int) -> None:
        """Compose with `count` copies."""
        part = self._part(masses)
        self.spectrum *= integer_power(part.spectrum, count)
        self._account(Mixed.alone(part), [count])

    def add_between(self, low: Masses, high: Masses, shares: FloatArray, counts: Sequence[int]) -> None:
        """Compose with copies of mixtures of two measures on the same points; `shares` are those of the higher one."""
        first, second = (self._part(each) for each in align(low, high))
        mixed = Mixed.of(first, second, shares, self.powers, self.deep)
        a, b = first.spectrum, second.spectrum
        apart, mixture = b - a, np.empty_like(a)
        for share, count in zip(mixed.shares.tolist(), counts, strict=True):
            np.multiply(apart, share, out=mixture)
            mixture += a
            self.spectrum *= mixture if count == 1 else integer_power(mixture, count)
        self._account(mixed, counts)

    def _part(self, masses: Masses) -> Part:
        """The spectrum of one measure, and what bounds its tails."""
        from scipy.fft import rfft

        x, n = masses.weights, self.points
        wrapped = np.zeros(math.ceil(x.size / n) * n)
        wrapped[: x.size] = x
        wrapped = wrapped.reshape(-1, n).sum(axis=0)
        places = self.grid.step * np.arange(x.size)
        mean = float(np.sum(x * places))
        rounding = ULP * (x.size + 32)
        cumulants = np.empty((2, self.powers.size))
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            for row, sign in enumerate((1.0, -1.0)):
                growth = np.exp(sign * self.powers[0] * (places - mean))
                for column in range(self.powers.size):
                    cumulants[row, column] = np.log(np.sum(x * growth, where=x > 0)) + rounding
                    growth = growth * growth
            deep = np.log(np.sum(x * np.exp(-self.deep * (places - mean)), where=x > 0)) + rounding
        error = transform_error(n) * norm(wrapped) + 32 * ULP
        return Part(rfft(wrapped), masses, mean, cumulants, float(deep), error)

    def _account(self, mixed: Mixed, copies: Sequence[int]) -> None:
        """Add up what `compose` has to know of mixtures, each composed so many times."""
        masses, tilt, whole, counts = mixed.masses, self.grid.tilt, sum(copies), np.array(copies, dtype=float)
        size, many, mean = masses.weights.size, float(whole), float(counts @ mixed.means)
        self.kinds += counts.size
        self.first += whole * masses.first
        self.last += whole * (size - 1)
        self.offset += many * masses.offset
        self.log_total += float(counts @ mixed.log_totals)
        self.mean += mean
        self.support += np.array([many * self.grid.step * (size - 1) - mean, mean])
        # |spectrum| <= 1: all errors add up
        self.noise += many * mixed.error
        far = max(abs(masses.first), abs(masses.first + size)) * self.grid.step + abs(masses.offset)
        self.slack += ULP * (many * (size + 8 + 8 * tilt * far) + 8 * float(counts @ np.abs(mixed.log_totals)))
        self.shift += many * far
        self.cumulants += np.tensordot(counts, mixed.cumulants, 1)
        self.deep_cumulant += float(counts @ mixed.deep)

    def compose(self) -> ComposedLoss:
        """The probabilities on one window, with bounds on what lies outside it."""
        from scipy.fft import irfft

        n, step, tilt = self.points, self.grid.step, self.grid.tilt
        reach = np.min((self.cumulants + WINDOW_NATS) / self.powers, axis=1)
        up, down = np.minimum(reach, self.support * (1 + 1e-9) + step).tolist()
        needed = (up + down) / step
        start = math.floor((self.mean - down) / step - (n - needed) / 2)
        held = slice(max(-start, 0), max(self.last + 1 - start, 1))  # elsewhere is only noise
        probabilities = np.roll(irfft(self.spectrum, n), -(start % n))[held]
        losses = (self.offset + step * (float(self.first) + start + np.arange(n, dtype=float)))[held]
        centre = self.offset + step * self.first + self.mean
        outside = [1e-300, 1e-300]  # above and below; at least what underflows
        for row, distance in enumerate(((start + n) * step - self.mean, self.mean - (start - 1) * step)):
            if distance <= self.support[row] * (1 + 1e-9):
                chernoff = float(np.min(self.cumulants[row] - self.powers * distance))
                outside[row] += math.exp(min(0.0, chernoff + 1e-9))
        noise = self.noise + transform_error(n) * (norm(probabilities) + self.noise)
        shift = ULP * (8 + self.kinds) * (self.shift + float(np.max(np.abs(losses))))
        slack = self.slack + (ULP * self.kinds * abs(self.log_total) + tilt * shift)
        # P(l < a) = M E~[e^{-tilt l}; l < a] <= M e^{-tilt a} E~ e^{-t (l - a)} for t >= tilt
        below = self.log_total - tilt * losses[0] - self.deep * (centre - losses[0])
        return ComposedLoss(
            tilt=tilt,
            losses=losses,
            step=step,
            probabilities=probabilities,
            centre=centre,
            log_total=self.log_total,
            above_window=outside[0],
            below_window=outside[1],
            # a window that begins with the least loss of all has nothing below
            log_below=min(1.0, float(below) + self.deep_cumulant + slack + 1e-6) if start > 0 else -math.inf,
            noise=noise,
            slack=slack,
            shift=shift,
            needed=needed,
        )


@dataclass(frozen=True, eq=False)
class ComposedLoss:
    """Probabilities of the composed loss on one window, tilted by e^{tilt l}, and what they may err by.

    Attributes
    ----------
    step : float
        Of the grid: differences of the losses, which are rounded, are further off than these.
    log_total : float
        Log of what the tilted masses add up to, `slack` its error.
    above_window, below_window : float
        Bounds on the tilted probabilities outside the window.
    log_below : float
        Log of a bound on P(l < losses[0]), not tilted.
    noise, shift : float
        Bounds on the 2-norm of the error of the probabilities, and on the errors of the losses.
    needed : float
        Number of points of a window that holds all but e^-WINDOW_NATS.
    """

    tilt: float
    losses: FloatArray
    step: float
    probabilities: FloatArray
    centre: float
    log_total: float
    above_window: float
    below_window: float
    log_below: float
    noise: float
    slack: float
    shift: float
    needed: float

    def log_delta(self, epsilon: float, remainder: Remainder, sign: int) -> float:
        """Log of delta(epsilon), bounded above (sign 1) or below (sign -1).

        What lies outside the window may have been wrapped into it; above the window W <= 1, below it W is at
        most what it is at its end.
        """
        log_w, shifted = remainder.log_upper if sign > 0 else remainder.log_lower, epsilon - sign * self.shift
        # below epsilon the hockey stick is 0
        first = int(np.searchsorted(self.losses, shifted)) if isinstance(remainder, HockeyStick) else 0
        losses, probabilities = self.losses[first:], self.probabilities[first:]
        with np.errstate(under="ignore", over="ignore"):
            exponents = log_w(shifted - losses) - self.tilt * (losses - self.centre)
            top = float(np.max(exponents, initial=-math.inf))
            top = top if top > -math.inf else 0.0
            weights = np.exp(exponents - top)
        total = float(np.sum(probabilities * weights))
        share = 1e-12 + 4 * ULP * self.tilt * float(np.max(np.abs(self.losses[[0, -1]] - self.centre)))
        error = self.noise * norm(weights) + share * abs(total)
        terms = (self.log_total, top, -self.tilt * self.centre)
        scale = sum(terms) + sign * (self.slack + 4 * ULP * sum(map(abs, terms)))
        if sign < 0:
            total -= error + (self.above_window + self.below_window) * float(weights.max(initial=0.0))
            return math.log(total) + scale if total > 0 else -math.inf
        beyond = math.log(self.above_window) - self.tilt * (float(self.losses[-1]) - self.centre) - top
        inside = np.logaddexp(math.log(max(total + error, 1e-300)) if weights.size else -math.inf, beyond) + scale
        return min(0.0, float(np.logaddexp(inside, self.log_below + log_w(shifted - self.losses[:1])[0])))


def integer_power(z: ComplexArray, n: int) -> ComplexArray:
    """z**n by squaring: fewer than 4 n roundings, relative to max(|z|, 1)**n."""
    result: ComplexArray | None = None
    while n:
        if n & 1:
            result = z.copy() if result is None else result * z
        n >>= 1
        if n:
            z = z * z
    return np.ones_like(z) if result is None else result
