"""All losses of several releases that have finitely many each, where they are few, and their probabilities."""

from __future__ import annotations

import numpy as np

from accountant.events.answers import Lattice, Outcomes
from accountant.numerics.special import log_mixture, log_mixture_ratio

__all__ = ["MOST_FEW", "BothOutcomes", "few_of_lattice"]

MOST_FEW = 2**14
"""Losses up to which all are held that several releases may have together."""

MOST_FOLDED = 2**12
"""The same of releases whose probabilities are added up, and not known by a formula."""

LEAST_LOG = -600.0
"""Log of the least probability of which products are floats."""

BothOutcomes = tuple[Outcomes, Outcomes]
"""The pairs of directions "remove" and "add"; the same object twice where they are the same."""


def few_of_lattice(lattice: Lattice, times: int, rate: float) -> BothOutcomes | None:
    """All losses of a release on a lattice, `times` times, or of one Poisson-sampled at a rate.

    None where they are not few, or have probabilities so small that floats do not hold them.
    """
    last, least = times * (lattice.log_masses.size - 1), times * float(lattice.log_masses.min())
    if last >= (MOST_FEW if times == 1 else MOST_FOLDED) or least < LEAST_LOG or (times > 1 and rate < 1.0):
        return None
    losses = lattice.step * (np.arange(last + 1.0) - last / 2)
    if rate < 1.0:
        log_p, log_q = lattice.log_masses, lattice.log_masses[::-1]
        ratios = log_mixture_ratio(rate, losses)
        return Outcomes(ratios, log_mixture(rate, log_q, log_p)), Outcomes(-ratios, log_q)
    masses, power, whole = np.exp(lattice.log_masses), times, np.ones(1)
    while power:  # sums of positive products: each rounds by a few units in the last place
        whole = np.convolve(whole, masses) if power % 2 else whole
        power //= 2
        masses = np.convolve(masses, masses) if power else masses
    return (Outcomes(losses, np.log(whole)),) * 2
