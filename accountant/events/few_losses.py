"""All losses of several releases that have finitely many each, where they are few, and their probabilities."""

from __future__ import annotations

import math

import numpy as np

from accountant.events.answers import Lattice, Outcomes
from accountant.numerics.special import log_mixture, log_mixture_ratio

__all__ = ["MOST_FEW", "BothOutcomes", "few_of_lattice"]

MOST_FEW = 2**14
"""Losses up to which all are held that several releases may have together."""

MOST_FOLDED = 2**12
"""The same of releases whose probabilities are added up, and not known by a formula."""

MOST_TIMES = 256
"""Samples of one kind up to which they are: logarithms of larger factorials round by more."""

LEAST_LOG = -600.0
"""Log of the least probability of which products are floats."""

BothOutcomes = tuple[Outcomes, Outcomes]
"""The pairs of directions "remove" and "add"; the same object twice where they are the same."""


def few_of_lattice(lattice: Lattice, times: int, rate: float) -> BothOutcomes | None:
    """All losses of a release on a lattice, Poisson-sampled at a rate, `times` times.

    None where they are not few, or have probabilities so small that floats do not hold them.
    """
    last, least = times * (lattice.log_masses.size - 1), times * float(lattice.log_masses.min())
    if least < LEAST_LOG:
        return None
    if rate < 1.0:
        return _few_of_samples(lattice, times, rate)
    if last >= (MOST_FEW if times == 1 else MOST_FOLDED):
        return None
    losses = lattice.step * (np.arange(last + 1.0) - last / 2)
    masses, power, whole = np.exp(lattice.log_masses), times, np.ones(1)
    while power:  # sums of positive products: each rounds by a few units in the last place
        whole = np.convolve(whole, masses) if power % 2 else whole
        power //= 2
        masses = np.convolve(masses, masses) if power else masses
    return (Outcomes(losses, np.log(whole)),) * 2


def _few_of_samples(lattice: Lattice, times: int, rate: float) -> BothOutcomes | None:
    """The same below rate 1, where sums of losses are on no lattice: by how often each of them occurs."""
    log_p, log_q, last = lattice.log_masses, lattice.log_masses[::-1], lattice.log_masses.size - 1
    if times > MOST_TIMES or last >= MOST_FEW or math.comb(times + last, last) > MOST_FEW:
        return None
    ratios = log_mixture_ratio(rate, lattice.step * (np.arange(last + 1.0) - last / 2))
    log_mixed = log_mixture(rate, log_q, log_p)
    log_factorials = np.array([math.log(math.factorial(k)) for k in range(times + 1)])
    # each row is a number of releases that are left, and what the others have lost
    left, rows = np.array([times]), np.zeros((3, 1))
    rows[1:] = log_factorials[times]
    for j in range(last + 1):
        least = 0 if j < last else left  # all that are left have the last loss
        choices = left - least + 1
        row = np.repeat(np.arange(left.size), choices)
        number = np.arange(row.size) - np.repeat(np.cumsum(choices) - choices, choices)
        number = number if j < last else left[row]
        added = np.stack([number * each[j] for each in (ratios, log_mixed, log_q)])
        added[1:] -= log_factorials[number]
        left, rows = left[row] - number, rows[:, row] + added
    losses, forward, backward = rows
    return Outcomes(losses, forward), Outcomes(-losses, backward)
