"""How often a record is drawn of several independent draws."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from accountant.events.answers import Repeats
from accountant.numerics.binomial_tails import log_binomial_tails
from accountant.numerics.scipy_special import logsumexp
from accountant.numerics.special import log_binomial_pmf

__all__ = ["MOST_SIZES", "draws_by_size", "repeats_of"]

MOST_SIZES = 1024
"""Numbers of draws that are told apart; where there are more, several count as the largest of them."""

NEGLIGIBLE = -760.0
"""Log of probabilities that no float tells from 0; they are not dropped, but bounded."""

UNSEEN = -32.0
"""Log of the probability of a number of draws that is not told from all draws."""

MOST_REPEATS = 64
"""Numbers of draws of a game, at most."""


@lru_cache(maxsize=256)
def draws_by_size(draws: int, population: int) -> tuple[tuple[int, float], ...]:
    """How often a record may be drawn, and the logs of probabilities that sum up to that of any draw.

    Of more than MOST_SIZES numbers, neighbours count as the largest of them, and those above the last one whose
    probability is e^NEGLIGIBLE count as `draws`: no group costs less than a smaller one.
    """
    mean, chance = draws / population, 1 / population
    # Bernstein's inequality: beyond, the probability is below e^NEGLIGIBLE
    reach = mean - NEGLIGIBLE / 3 + math.sqrt((NEGLIGIBLE / 3) ** 2 - 2 * NEGLIGIBLE * mean)
    sizes = np.arange(1, min(draws, math.ceil(reach)) + 1)
    logs = np.array([log_binomial_pmf(float(draws), float(size), chance) for size in sizes])
    last = int(np.flatnonzero((logs > NEGLIGIBLE) | (sizes == 1))[-1]) + 1
    width = -(-last // MOST_SIZES)
    edges = [*range(width, last, width), last]
    found = [(edge, float(logsumexp(logs[low:edge]))) for low, edge in zip([0, *edges], edges, strict=False)]
    if last < draws:
        found.append((draws, log_binomial_tails(draws, last + 1, chance)[1]))
    return tuple(found)


def repeats_of(draws: int, population: int) -> Repeats | None:
    """The same for a game; None where there are too many numbers for one, or a record is drawn hardly ever."""
    if population == 1:
        return None
    found = draws_by_size(draws, population)
    seen = max((place for place, (_, log) in enumerate(found, 1) if log > UNSEEN), default=0)
    if not 0 < seen <= MOST_REPEATS or found[0][0] != 1:
        return None
    rest = [log for _, log in found[seen:]]
    log_rest = float(logsumexp(rest)) if rest else -math.inf
    return Repeats(tuple(log for _, log in found[:seen]), log_rest, draws * math.log1p(-1 / population))
