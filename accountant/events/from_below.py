"""What a release costs at least where its price is a bound from above: pairs that some data, or an attacker, reach."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import ClassVar

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import ProfileUnavailable
from accountant.events.discrete_pair import DiscretePair, Outcomes
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray

__all__ = ["FromBelow", "costs_less", "costs_nothing", "pair_from_below"]


class FromBelow(Event):
    """A bound from below only: its pairs are known one direction at a time (`_surrogates`).

    Attributes
    ----------
    limit_reached : bool
        Whether losses come as near to the curve's limit at order inf as one likes, for some data.
    """

    between_bounds: ClassVar[bool] = True
    limit_reached: bool = False

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        raise ProfileUnavailable(f"{self!r} is a bound from below only")


def costs_less(event: Event) -> bool:
    """Whether what the event is priced as is a bound from above, which no data may reach."""
    return event._certain(2) is not event


@lru_cache(maxsize=8192)
def costs_nothing(event: Event) -> bool:
    """Whether it tells nothing: asked of the same events at every tolerance and point."""
    return event._largest_loss() == 0.0


def pair_from_below(likely: FloatArray, other: FloatArray, rounding: float, direction: Direction) -> DiscretePair:
    """A pair from below of two distributions of which outcomes are known: at least `likely`, at most `other`.

    More generally the divergence of all outcomes but those, from the first to the second, is at least theirs.
    """
    # what is left of one is where the other may have nothing; what the likely one lacks counts for the reverse only
    rest, lack = 1 - math.fsum(other.tolist()) - rounding, max(1 - math.fsum(likely.tolist()), 0.0) + rounding
    if direction == DIRECTIONS[0]:
        order = np.argsort(likely / other)
        return DiscretePair(Outcomes(other[order], (likely / other)[order], rest, 0.0, rounding, -rounding), lack)
    order = np.argsort(other / likely)
    return DiscretePair(Outcomes(likely[order], (other / likely)[order], 0.0, rest, rounding, -rounding), lack, True)
