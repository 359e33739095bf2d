"""Discrete pairs of distributions that bound a pair from one side, as events for the tight route."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from accountant.adjacency import DIRECTIONS, Adjacency, Direction
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray

__all__ = ["DiscretePair", "Outcomes"]

KNOTS = 64
"""Losses with atoms that a grid is aligned with, at most."""

ATOM = 1e-3
"""Least mass of such an atom."""


class Outcomes(NamedTuple):
    """X = dP/dQ under Q: masses, values in rising order, Q's mass at 0, and P's where Q has none.

    `zero` and `lost` may be negative where they say what a bound from below falls short. `accuracy` is the relative
    error of the profile; `moved` the relative change of places that keeps rounding on the safe side, above 0 for a
    bound from above.
    """

    masses: FloatArray
    places: FloatArray
    zero: float
    lost: float
    accuracy: float
    moved: float


class DiscretePair(Event):
    """Bounds E(X - u)_+ + lost and E(1 - u X)_+ - lack u on a profile, X = dP/dQ discrete under Q.

    Parameters
    ----------
    outcomes : Outcomes
    lack : float
        What the mass of P or of Q falls short of 1: the other direction's profile is less by lack times u.
    mirrored : bool
        Whether the bound is one on H(Q||P): then E(X - u)_+ lacks lack times u.
    """

    def __init__(self, outcomes: Outcomes, lack: float = 0.0, mirrored: bool = False) -> None:
        object.__setattr__(self, "adjacency", Adjacency.ADD_REMOVE)
        masses, places, self._zero, self._lost, self._profile_error, self._moved = outcomes
        self._masses, self._places = masses[masses > 0.0], places[masses > 0.0]
        self._lacks = (lack, 0.0) if mirrored else (0.0, lack)
        self._largest_finite_loss = float(np.max(np.abs(np.log(self._places)))) + 1e-9
        gaps = np.diff(self._places)
        # from the right E(X - u)_+ and Q(X >= u), from the left E(u - X)_+ and Q(X <= u), at all places
        self._tails = np.cumsum(self._masses[::-1])[::-1]
        self._excess = np.append(np.cumsum((gaps * self._tails[1:])[::-1])[::-1], 0.0)
        self._heads = self._zero + np.cumsum(self._masses)
        self._short = self._zero * self._places[0] + np.append(0.0, np.cumsum(gaps * self._heads[:-1]))

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<pair of {self._masses.size} outcomes>"

    def infinite_mass(self, direction: Direction) -> float:
        """Probability of an infinite loss in that direction."""
        return self._lost if direction == DIRECTIONS[0] else self._zero

    def _curve(self, orders: FloatArray) -> FloatArray:
        """The largest loss; no other order is asked for."""
        highest = math.inf if self._lost else math.log(self._places[-1])
        lowest = math.inf if self._zero else -math.log(self._places[0])
        return np.where(np.isinf(orders), max(highest, lowest), math.nan)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
            u = np.exp(epsilons) * (1 - self._moved)
            k = np.searchsorted(self._places, u, side="right")
            inside, k = k < self._places.size, np.minimum(k, self._places.size - 1)
            remove = np.where(inside, self._excess[k] + self._tails[k] * (self._places[k] - u), 0.0) + self._lost
            v = np.exp(-epsilons) * (1 + self._moved)
            k = np.searchsorted(self._places, v, side="left") - 1
            inside, k = k >= 0, np.maximum(k, 0)
            add = np.where(inside, self._short[k] + self._heads[k] * (v - self._places[k]), self._zero * v)
            # what is certain may be less than nothing
            remove, add = np.maximum(remove, 0.0), np.maximum(add, 0.0)
            if self._lacks[0]:
                remove = np.maximum(remove - self._lacks[0] * np.exp(epsilons), 0.0)
            if self._lacks[1]:
                add = np.maximum(add - self._lacks[1], 0.0)
            return np.minimum(np.log(remove), 0.0), np.minimum(np.log(add) + epsilons, 0.0)

    def _profile_knots(self) -> Sequence[float]:
        heavy = np.maximum(self._masses, self._masses * self._places) > ATOM
        losses = np.abs(np.log(self._places[heavy]))
        return [] if losses.size > KNOTS else losses[losses > 0].tolist()
