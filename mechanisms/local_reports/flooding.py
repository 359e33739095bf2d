"""Flooding: pairs of a +1 and a -1 that cancel, so that a shuffler's output hides how many there are of either.

Messages that are only shuffled show, for every count, how many say +1 and how many say -1. Noise that is a difference
of two geometric variables hides their difference alone: without a single +1 the true count is 0 for certain. So users
also send pairs, a negative binomial number of them in all for each count (Ghazi et al. 2020). What it costs to see
noise and pairs is the price of `accountant.ShuffledCounts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import accountant as ac
from mechanisms.validation import check_real

__all__ = ["LARGEST_SCALE", "Flood", "flood_for"]

LARGEST_SCALE = 2e4
"""Largest 1/log(1/ratio) of negative binomials whose parts are tabulated."""

LEAST_RATIO = 1e-9

LARGEST_SHAPE = 1e7

DECAY = 0.25
"""log(1/ratio) of a flood relative to that of the noise, where the search begins: about the best for one round."""

TURNS = 6
"""How often the search may turn to another ratio."""

FINE = 1.002
"""Ratio of shapes that are told apart."""


@dataclass(frozen=True)
class Flood:
    """Pairs for each count, over all users that must take part: negative binomial, ``P(z) = C(z+r-1, z) (1-x)^r x^z``.

    Parameters
    ----------
    shape : float
        r; (0, 1e7].
    ratio : float
        x; [1e-9, exp(-1/2e4)].
    """

    shape: float
    ratio: float

    def __post_init__(self) -> None:
        check_real("shape", self.shape, f"(0, {LARGEST_SHAPE:g}]", lambda number: 0 < number <= LARGEST_SHAPE)
        most = math.exp(-1 / LARGEST_SCALE)
        accepted = f"[{LEAST_RATIO:g}, {most:.6g}]"
        check_real("ratio", self.ratio, accepted, lambda number: LEAST_RATIO <= number <= most)

    @property
    def mean(self) -> float:
        """Expected pairs for each count."""
        return self.shape * self.ratio / (1 - self.ratio)


def flood_for(
    scale: float, nonzeros: int, epsilon: float, delta: float, *, rounds: int = 1, **route: Any
) -> Flood | None:
    """The flood with about the fewest pairs with which noise of that scale keeps (epsilon, delta); None if none does.

    Parameters
    ----------
    scale : float
        Of the discrete Laplace noise on a count.
    nonzeros : int
        Entries of a record.
    epsilon, delta : float
        The target, over all rounds.
    rounds : int
    **route
        Passed to `accountant.epsilon`, which must not be asked for the Rényi route alone.
    """

    def excess(decay: float, mean: float) -> float:
        """Of the price over the target, where the noise has a decay of 1."""
        try:
            flood = _flood(decay / scale, mean)
            event = ac.ShuffledCounts(scale, flood.shape, flood.ratio, nonzeros)
            return ac.epsilon(rounds * event, delta, **route).epsilon - epsilon
        except (ac.NoGuarantee, ac.ParameterError):
            return math.inf

    sums = ac.DiscreteLaplace(scale, 1, 2 * nonzeros, ac.Adjacency.REPLACE)
    if (ac.epsilon(rounds * sums, delta, **route).lower or 0.0) > epsilon:
        return None
    decay, mean = DECAY, 10.0 + scale
    for _ in range(TURNS):
        least = _least(partial(excess, decay), mean, 1.1)
        if least is None:
            return None
        mean, before = least, decay
        decay = _better_decay(partial(excess, mean=mean), before)
        if decay == before:
            break
    least = _least(partial(excess, decay), mean, FINE)
    return None if least is None else _flood(decay / scale, least)


def _better_decay(excess: Callable[[float], float], decay: float) -> float:
    """Downhill from there, in steps of a factor 2, which is near enough."""
    value = excess(decay)
    for step in (2.0, 0.5):
        best = decay
        while (found := excess(best * step)) < value:
            best, value = best * step, found
        if best != decay:
            return best
    return decay


def _flood(decay: float, mean: float) -> Flood:
    ratio = math.exp(-max(min(decay, -math.log(LEAST_RATIO) * (1 - 1e-9)), 1 / LARGEST_SCALE))
    return Flood(mean * (1 - ratio) / ratio, ratio)


def _least(excess: Callable[[float], float], start: float, fine: float) -> float | None:
    """The smallest mean whose excess is not above 0, from the side where it is not, to the ratio `fine`."""
    high, step = start, 1.5
    while excess(high) > 0:
        if high > 1e9:
            return None
        high, step = high * step, step**1.5
    low = high
    while low == high or excess(low) <= 0:
        high, low = low, low / 1.5
        if low < 1e-6:
            return high
    while high / low > fine:
        middle = math.sqrt(high * low)
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high
