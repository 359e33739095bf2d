"""Contests of a few candidates with Laplace noise against a few, and of one against a crowd.

See notebooks/mathematics.md, Prices from below.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from accountant.numerics.kernel import FloatArray
from accountant.numerics.quadrature import gauss_legendre
from accountant.numerics.scipy_special import exp1

__all__ = ["best_teams", "log_beats_crowd", "team_bits", "team_wins"]

CROWDED = 4.0
"""Place from which on e^-e^place is below the rounding of a probability."""

LEAST_CHANCE = 1e-300
"""Chances of contests below it are not told from 0."""

TEAMS = (2, 2), (2, 3), (2, 4)
"""Candidates on either side of a contest in a run, with Laplace noise."""

TEAM_LEADS = tuple(np.linspace(-5.0, 2.0, 141).tolist())
"""Leads of theirs that are looked at for a release by itself, beside half of what changes."""

PANELS = 40
"""Unit panels of an integral of something that falls at least like e^-x."""

STEEPEST = 300.0
"""Largest log of the slopes at which contests are told apart."""


def log_beats_crowd(place: float) -> float:
    """Log of the probability that one Laplace variable is above `place` plus a standard Gumbel one.

    With r = e^place it is (1 - (1 + r) e^-r)/(2r) + e^-r - r E_1(r)/2.
    """
    if place > CROWDED:
        return -place - math.log(2.0)
    r = math.exp(place)
    return math.log((1 - (1 + r) * math.exp(-r)) / (2 * r) + math.exp(-r) - r * float(exp1(r)) / 2)


def team_wins(team: int, others: int, lead: FloatArray) -> FloatArray:
    """Probability that the largest of `team` Laplace variables, plus `lead`, is above that of `others`; both >= 2.

    An integral, of positive terms, over the place x of the team's largest: below both medians of exponentials; above
    them of a polynomial in e^-x; and between, where it falls at least like e^-|x - m| from one median m on.
    """
    nodes, weights = gauss_legendre(16)
    k, j, t = float(team), float(others), lead[:, None]
    low, high = np.minimum(0.0, -t), np.maximum(0.0, -t)
    below = k * 0.5 ** (k + j) / (k + j) * np.exp(j * t + (k + j) * low)
    y = np.exp(-high) * nodes
    above = (
        k / 2 * np.exp(-high) * weights * (1 - y / 2) ** (k - 1) * (1 - nodes * np.exp(-np.maximum(t, 0.0)) / 2) ** j
    )
    span = np.minimum(np.abs(t), PANELS)
    edges = span * np.arange(PANELS)[None, :] / PANELS
    x = high - (edges[:, :, None] + span[:, :, None] / PANELS * nodes).reshape(lead.size, -1)
    ahead, behind = np.exp(-np.abs(x)) / 2, np.exp(-np.abs(x + t)) / 2
    first = k * ahead * np.where(x < 0, ahead, 1 - ahead) ** (k - 1)
    between = first * np.where(x + t < 0, behind, 1 - behind) ** j * np.tile(weights, PANELS) * span / PANELS
    return np.asarray(below[:, 0] + above.sum(axis=1) + between.sum(axis=1))


@lru_cache(maxsize=256)
def team_bits(apart: float, offsets: tuple[float, ...]) -> list[tuple[float, float]]:
    """Logs of the chances of contests of few against few, before and after either side falls back by `apart`; leads are
    apart/2 and an offset."""
    leads = apart / 2 + np.array(offsets)
    found: list[tuple[float, float]] = []
    for sides in TEAMS:
        for one, other in {sides, sides[::-1]}:
            chances = np.array([team_wins(one, other, leads), team_wins(one, other, leads - apart)])
            told = chances[:, np.all(chances > LEAST_CHANCE, axis=0)]
            found += zip(*np.log(told).tolist(), strict=True)
    return found


@lru_cache(maxsize=256)
def best_teams(apart: float) -> list[tuple[float, float]]:
    """Of these those that are best at some epsilon."""
    chances = team_bits(apart, TEAM_LEADS)
    one, other = np.exp(np.array(chances)).T
    slopes = np.exp(np.linspace(0.0, min(apart, STEEPEST), 65))
    best = np.argmax(one - slopes[:, None] * other, axis=1)
    return [chances[i] for i in np.unique(best).tolist()]
