"""Flooding: pairs of a +1 and a -1, which cancel, hide how many messages of either sign a shuffler passes on.

Shuffled messages show, for every count, how many say +1 and how many say -1. Noise that is the difference of two
geometric variables hides only the difference of these numbers: if no message says +1, the true count is certainly 0.
So users also send cancelling pairs, for each count a negative binomial number of them in all (Ghazi et al. 2020). The
price of seeing noise and pairs is that of `accountant.ShuffledCounts`.
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
"""Largest 1/log(1/ratio) of a negative binomial distribution whose terms are tabulated."""

LEAST_RATIO = 1e-9

LARGEST_SHAPE = 1e7

START_DECAY = 0.25
"""Start of the search for log(1/ratio) of a flood over that of the noise; near the best value for one round."""

MOST_SEARCHES = 6
"""Most alternations between the search for the ratio and that for the mean."""

RESOLUTION = 1.002
"""The mean is found to this factor."""


@dataclass(frozen=True)
class Flood:
    """Number z of pairs for each count, over all users that must take part: ``P(z) = C(z+r-1, z) (1-x)^r x^z``.

    Parameters
    ----------
    shape : float
        r in (0, 1e7].
    ratio : float
        x in [1e-9, exp(-1/2e4)].
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
    """A flood with nearly the fewest pairs for which noise of that scale keeps (epsilon, delta); None if none does.

    Parameters
    ----------
    scale : float
        Scale of the discrete Laplace noise on a count.
    nonzeros : int
        Entries of a record.
    epsilon, delta : float
        The target, over all rounds.
    rounds : int
    **route
        Options of `accountant.epsilon`; its Rényi route alone finds no finite price.
    """

    def excess(decay: float, mean: float) -> float:
        """How far the price exceeds the target; `decay` is in units of the noise's 1/scale."""
        try:
            flood = _flood(decay / scale, mean)
            event = ac.ShuffledCounts(scale, flood.shape, flood.ratio, nonzeros)
            return ac.epsilon(rounds * event, delta, **route).epsilon - epsilon
        except (ac.NoGuarantee, ac.ParameterError):
            return math.inf

    sums = ac.DiscreteLaplace(scale, 1, 2 * nonzeros, ac.Adjacency.REPLACE)
    if (ac.epsilon(rounds * sums, delta, **route).lower or 0.0) > epsilon:
        return None
    decay, mean = START_DECAY, 10.0 + scale
    for _ in range(MOST_SEARCHES):
        least = _find_least(partial(excess, decay), mean, 1.1)
        if least is None:
            return None
        mean, before = least, decay
        decay = _improve_decay(partial(excess, mean=mean), before)
        if decay == before:
            break
    least = _find_least(partial(excess, decay), mean, RESOLUTION)
    return None if least is None else _flood(decay / scale, least)


def _improve_decay(excess: Callable[[float], float], decay: float) -> float:
    """Descend from `decay` in steps of a factor 2."""
    value = excess(decay)
    for step in (2.0, 0.5):
        best = decay
        while (found := excess(best * step)) < value:
            best, value = best * step, found
        if best != decay:
            return best
    return decay


def _flood(decay: float, mean: float) -> Flood:
    """The flood with this log(1/ratio), kept in range, and this mean."""
    ratio = math.exp(-max(min(decay, -math.log(LEAST_RATIO) * (1 - 1e-9)), 1 / LARGEST_SCALE))
    return Flood(mean * (1 - ratio) / ratio, ratio)


def _find_least(excess: Callable[[float], float], start: float, fine: float) -> float | None:
    """A mean with an excess of at most 0, within the factor `fine` of the smallest; None if there is none."""
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
