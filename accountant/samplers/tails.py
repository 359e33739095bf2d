"""Tests of one count each: how likely the declared sampler is to give a count as far off."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.scipy_special import betainc

__all__ = ["SamplerTest", "binomial_tails", "chernoff", "exact", "impossible", "share_by_thirds", "thirds"]


@dataclass(frozen=True)
class SamplerTest:
    """One test.

    Attributes
    ----------
    name : str
        What was counted.
    found, expected : float
        The count, and its mean if the declared sampler ran.
    p : float
        Upper bound on the chance that such a sampler gives a count at least as far off.
    adjusted : float
        The same over all tests (Holm 1979): an alarm where it is at most the false alarm rate.
    """

    name: str
    found: float
    expected: float
    p: float
    adjusted: float = 1.0


def binomial_tails(found: int, trials: int, share: float) -> tuple[float, float]:
    """P(X <= found) and P(X >= found) of a binomial count."""
    above = 1.0 if found <= 0 else float(betainc(found, trials - found + 1, share)) if found <= trials else 0.0
    below = 1.0 if found >= trials else float(betainc(trials - found, found + 1, 1 - share)) if found >= 0 else 0.0
    return below, above


def exact(name: str, found: int, trials: int, share: float) -> SamplerTest:
    """Of a binomial count, both sides."""
    p = min(1.0, 2 * min(binomial_tails(found, trials, share)))
    return SamplerTest(name, found, trials * share, p)


def chernoff(name: str, found: int, trials: int, share: float) -> SamplerTest:
    """Of a sum of independent or negatively associated indicators with this mean share, both sides.

    The bound is 2 e^{-n D(found/n || share)}.
    """
    rate = found / trials
    distance = sum(a * math.log(a / b) for a, b in ((rate, share), (1 - rate, 1 - share)) if a > 0.0 and b > 0.0)
    excluded = (share <= 0.0 < rate) or (share >= 1.0 > rate)
    return SamplerTest(name, found, trials * share, 0.0 if excluded else min(1.0, 2 * math.exp(-trials * distance)))


def impossible(name: str, found: int) -> SamplerTest:
    """Of a count that is 0 for certain."""
    return SamplerTest(name, found, 0.0, 0.0 if found else 1.0)


def thirds(name: str, counts: NDArray[Any], trials: int, share: float, zeros: int = 0) -> list[SamplerTest]:
    """Independent binomial counts, and so many that are 0: how many lie below, between and above their thirds."""
    mean, spread = trials * share, 12 * math.sqrt(trials * share * (1 - share)) + 12
    values = np.arange(max(0, math.floor(mean - spread)), min(trials - 1, math.ceil(mean + spread)) + 1)
    if values.size == 0:
        return []
    below = betainc(trials - values, values + 1, 1 - share)
    first, second = (int(values[int(np.argmin(np.abs(below - part)))]) for part in (1 / 3, 2 / 3))
    low, high = binomial_tails(first, trials, share)[0], binomial_tails(second + 1, trials, share)[1]
    return _three_parts(name, counts, (first, second), (low, high), zeros)


def share_by_thirds(name: str, counts: NDArray[Any], below: NDArray[Any]) -> list[SamplerTest]:
    """The same of any independent counts with P(X <= i) = below[i]."""
    first, second = (int(np.argmin(np.abs(below - part))) for part in (1 / 3, 2 / 3))
    return _three_parts(name, counts, (first, second), (float(below[first]), 1 - float(below[second])))


def _three_parts(
    name: str, counts: NDArray[Any], ends: tuple[int, int], chances: tuple[float, float], zeros: int = 0
) -> list[SamplerTest]:
    """Counts up to the first end, up to the second, and above; the chances of the first and the last part."""
    (first, second), (low, high) = ends, chances
    shares = {"few": low, "usual": max(1 - low - high, 0.0), "many": high}
    few, many = zeros + int((counts <= first).sum()), int((counts > second).sum())
    size = counts.size + zeros
    found = {"few": few, "usual": size - few - many, "many": many}
    return [exact(f"{name}: {part}", found[part], size, each) for part, each in shares.items() if 1e-12 < each < 1.0]
