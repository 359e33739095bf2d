"""1/B as a sum of exponentials, from below: sum of w_l e^(-x_l B) over few l.

The trapezoidal sum of 1/B = int B e^(t - B e^t) dt/B over t = j h, all whole j, differs from 1/B by at most
2 sum_k |Gamma(1 + 2 pi i k/h)|/B (Poisson's summation formula), and |Gamma(1 + i y)|^2 = pi y/sinh(pi y). Divided by
1 plus that it is no more than 1/B. Its terms of the smallest places, a positive measure of which e^(-x B) is
integrated, are replaced by a Gauss rule, which leaves out the integral of a square times a derivative of even order,
which is positive; and those of the largest are left out.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.numerics.kernel import FloatArray

__all__ = ["Exponentials", "sum_exponentials"]

GAUSS = 5
"""Places of the rule for the smallest."""

ROUNDING = 1e-14
"""Of the weights: fifteen times what was seen in 40 digits. A race costs as much of the local profile."""


class Exponentials(NamedTuple):
    """Places x_l and weights w_l; B times the sum is at most 1, and in the range asked for 1 - short or more."""

    places: FloatArray
    weights: FloatArray
    short: float


def sum_exponentials(low: float, high: float, error: float) -> Exponentials:
    """A sum that is short by about `error`, at most, where low <= B <= high."""
    step = 1.0
    while alias_error(step) > error / 8:
        step *= 0.97
    places, weights, norm = smallest_places(step)
    # f^(2N)/(2N)! times the integral of the squared polynomial, f = B e^(-x B)
    share = norm / math.factorial(2 * GAUSS)
    first = (error / 4 / share) ** (1 / (2 * GAUSS + 1)) / high
    reach = 3.0 - math.log(error)
    count = max(math.ceil(math.log(reach / (low * first)) / step), 0) + 1
    others = first * np.exp(step * np.arange(count))
    beyond = float(others[-1]) * math.exp(step) * low
    # each further term is less than half of the one before
    last = 2.0 * step * beyond * math.exp(-beyond)
    scale = (1.0 + alias_error(step)) * (1.0 + ROUNDING)
    return Exponentials(
        np.concatenate([first * places, others]),
        np.concatenate([first * weights, step * others]) / scale,
        2.0 * alias_error(step) + error / 4 + last + 2.0 * ROUNDING,
    )


def alias_error(step: float) -> float:
    """2 sum_k |Gamma(1 + 2 pi i k/h)|: later terms are less than a hundredth of the first."""
    y = 2.0 * math.pi / step
    return 2.02 * math.sqrt(2.0 * math.pi * y / -math.expm1(-2.0 * math.pi * y)) * math.exp(-math.pi * y / 2.0)


@lru_cache(maxsize=64)
def smallest_places(step: float) -> tuple[FloatArray, FloatArray, float]:
    """The Gauss rule for masses h e^(-h j) at e^(-h j), j >= 1, and the integral of its polynomial's square."""
    atoms = np.exp(-step * np.arange(1, math.ceil(80.0 / step)))
    masses = step * atoms
    before, now = np.zeros_like(atoms), np.ones_like(atoms)
    middles, ratios, norm = list[float](), list[float](), float(masses.sum())
    for _ in range(GAUSS):
        middles.append(float(masses @ (atoms * now**2)) / norm)
        before, now = now, (atoms - middles[-1]) * now - (ratios[-1] if ratios else 0.0) * before
        ratios.append(float(masses @ now**2) / norm)
        norm *= ratios[-1]
    beside = np.sqrt(ratios[:-1])
    places, vectors = np.linalg.eigh(np.diag(middles) + np.diag(beside, 1) + np.diag(beside, -1))
    return places, float(masses.sum()) * vectors[0] ** 2, norm
