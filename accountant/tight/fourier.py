"""Composed measures of losses on a grid, by one Fourier transform for each distinct event.

What wraps around the Fourier window is bounded by Chernoff's bound on the same masses, rounding by the norm of the
transform's error; both are added on the safe side.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray
from accountant.tight.polygon import ROUNDING, Grid, Masses

__all__ = ["TAIL", "HockeyStick", "Side", "Terminal"]

TAIL = 27.0
"""Tilted mass outside the Fourier window is sought below e^-TAIL."""


class Terminal(Protocol):
    """What comes after all events here: bounds on log W(e^x), W <= 1 convex and falling in e^x."""

    def log_upper(self, x: FloatArray) -> FloatArray: ...

    def log_lower(self, x: FloatArray) -> FloatArray: ...


class HockeyStick:
    """Nothing comes after: W(u) = (1 - u)_+."""

    def log_upper(self, x: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(-np.expm1(np.minimum(x, 0.0))))

    log_lower = log_upper


class Side:
    """The composed measure of one side (above or below): spectra are multiplied up, then turned back once.

    `noise` bounds the 2-norm of the error of the probabilities, `slack` the error of the logarithm of their
    normalisation, `places` that of the losses.
    """

    def __init__(self, grid: Grid, points: int, spread: float) -> None:
        self.grid, self.points = grid, points
        self.spectrum: NDArray[np.complex128] = np.ones(points // 2 + 1, dtype=complex)
        self.first, self.last, self.offset, self.log_total, self.mean, self.kinds = 0, 0, 0.0, 0.0, 0.0, 0
        self.noise, self.slack, self.places = 0.0, 0.0, 0.0
        # log E e^{t (l - mean)} and log E e^{-t (l - mean)} for every t of `powers`; the same for one t above the tilt
        self.powers = 2.0 ** np.arange(4) / spread
        self.cumulants = np.zeros((2, self.powers.size))
        self.deep, self.deep_cumulant = grid.tilt + 6 / spread, 0.0
        self.support = np.zeros(2)  # how far the loss reaches above and below its mean

    def add(self, masses: Masses, count: int) -> None:
        """Compose with `count` copies."""
        from scipy.fft import rfft

        x, n = masses.weights, self.points
        wrapped = np.zeros(math.ceil(x.size / n) * n)
        wrapped[: x.size] = x
        wrapped = wrapped.reshape(-1, n).sum(axis=0)
        self.spectrum *= integer_power(rfft(wrapped), count)
        places = self.grid.step * np.arange(x.size)
        mean = float(np.sum(x * places))
        self.kinds += 1
        self.first += count * masses.first
        self.last += count * (x.size - 1)
        self.offset += count * masses.offset
        self.log_total += count * masses.log_total
        self.mean += count * mean
        self.support += count * np.array([float(places[-1]) - mean, mean])
        # Higham 2002, Thm 24.2: transforms err by less than 7 log2(n) roundings of the norm; |spectrum| <= 1: all add
        self.noise += count * ROUNDING * (16 * math.log2(n) * norm(wrapped) + 32)
        far = max(abs(masses.first), abs(masses.first + x.size)) * self.grid.step + abs(masses.offset)
        self.slack += count * ROUNDING * (x.size + 8 * (1 + abs(masses.log_total)) + 8 * self.grid.tilt * far)
        self.places += count * far
        rounding = ROUNDING * (x.size + 32)
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            for row, sign in enumerate((1.0, -1.0)):
                growth = np.exp(sign * self.powers[0] * (places - mean))
                for column in range(self.powers.size):
                    self.cumulants[row, column] += count * (np.log(np.sum(x * growth, where=x > 0)) + rounding)
                    growth = growth * growth
            deep = np.exp(-self.deep * (places - mean))
            self.deep_cumulant += count * (np.log(np.sum(x * deep, where=x > 0)) + rounding)

    def finish(self) -> None:
        """Turn back into probabilities on one window, and bound what lies outside."""
        from scipy.fft import irfft

        n, step = self.points, self.grid.step
        reach = np.min((self.cumulants + TAIL) / self.powers, axis=1)
        up, down = np.minimum(reach, self.support * (1 + 1e-9) + step).tolist()
        self.needed = (up + down) / step
        start = math.floor((self.mean - down) / step - (n - self.needed) / 2)
        held = slice(max(-start, 0), max(self.last + 1 - start, 1))  # elsewhere is only noise
        self.probabilities = np.roll(irfft(self.spectrum, n), -(start % n))[held]
        self.losses = (self.offset + step * (float(self.first) + start + np.arange(n, dtype=float)))[held]
        self.centre = self.offset + step * self.first + self.mean
        self.outside = [1e-300, 1e-300]  # above and below; at least what underflows
        for row, distance in enumerate(((start + n) * step - self.mean, self.mean - (start - 1) * step)):
            if distance <= self.support[row] * (1 + 1e-9):
                chernoff = float(np.min(self.cumulants[row] - self.powers * distance))
                self.outside[row] += math.exp(min(0.0, chernoff + 1e-9))
        self.noise += ROUNDING * 16 * math.log2(n) * (norm(self.probabilities) + self.noise)
        self.places = ROUNDING * (8 + self.kinds) * (self.places + float(np.max(np.abs(self.losses))))
        self.slack += ROUNDING * self.kinds * abs(self.log_total) + self.grid.tilt * self.places
        # P(l < a) = M E~[e^{-tilt l}; l < a] <= M e^{-tilt a} E~ e^{-t (l - a)} for t >= tilt
        below = self.log_total - self.grid.tilt * self.losses[0] - self.deep * (self.centre - self.losses[0])
        self.log_below = min(1.0, float(below) + self.deep_cumulant + self.slack + 1e-6)

    def log_delta(self, epsilon: float, terminal: Terminal, sign: int) -> float:
        """Log of delta(epsilon), bounded above (sign 1) or below (sign -1).

        What lies outside the window may have been wrapped into it; above the window W <= 1, below it W is at
        most what it is at its end.
        """
        log_w, shifted = terminal.log_upper if sign > 0 else terminal.log_lower, epsilon - sign * self.places
        # below epsilon the hockey stick is 0
        first = int(np.searchsorted(self.losses, shifted)) if isinstance(terminal, HockeyStick) else 0
        losses, probabilities = self.losses[first:], self.probabilities[first:]
        with np.errstate(under="ignore", over="ignore"):
            exponents = log_w(shifted - losses) - self.grid.tilt * (losses - self.centre)
            top = float(np.max(exponents, initial=-math.inf))
            top = top if top > -math.inf else 0.0
            weights = np.exp(exponents - top)
        total = float(np.sum(probabilities * weights))
        share = 1e-12 + 4 * ROUNDING * self.grid.tilt * float(np.max(np.abs(self.losses[[0, -1]] - self.centre)))
        error = self.noise * norm(weights) + share * abs(total)
        terms = (self.log_total, top, -self.grid.tilt * self.centre)
        scale = sum(terms) + sign * (self.slack + 4 * ROUNDING * sum(map(abs, terms)))
        if sign < 0:
            total -= error + sum(self.outside) * float(weights.max(initial=0.0))
            return math.log(total) + scale if total > 0 else -math.inf
        beyond = math.log(self.outside[0]) - self.grid.tilt * (float(self.losses[-1]) - self.centre) - top
        inside = np.logaddexp(math.log(max(total + error, 1e-300)) if weights.size else -math.inf, beyond) + scale
        return min(0.0, float(np.logaddexp(inside, self.log_below + log_w(shifted - self.losses[:1])[0])))


def norm(x: FloatArray) -> float:  # the library's would start threads
    return math.sqrt(float(np.sum(x * x)))


def integer_power(z: NDArray[np.complex128], n: int) -> NDArray[np.complex128]:
    """z**n by squaring: fewer than 4 n roundings, relative to max(|z|, 1)**n."""
    result: NDArray[np.complex128] | None = None
    while n:
        if n & 1:
            result = z.copy() if result is None else result * z
        n >>= 1
        if n:
            z = z * z
    return np.ones_like(z) if result is None else result
