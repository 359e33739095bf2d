"""How much shuffling hides the bits of one of two users: exactly, and so more than any number of users costs.

More users cost no more, as what the others report may be added by whoever looks. With another user's report R at z,
H(u) = E (Y + Y')_+ / 2 for independent Y = (P0(z) - u P1(z))/R(z) at z ~ R (Balle et al. 2019, Lemma 5.3), in which
only m, k and i bits count in which that user's input differs from both inputs, from the first, from the second
(notebooks/mathematics.md, Shuffled bits).
"""

from __future__ import annotations

import math

import numpy as np

from accountant.events.shuffled_attacks import ULP, flips_of
from accountant.events.shuffled_inputs import Facts, kinds
from accountant.numerics.kernel import FloatArray
from accountant.patience import spend

__all__ = ["log_two_users_delta", "work_of_two_users"]

CHANCES = 1e-12
"""Relative, of products of probabilities of three numbers of bits, of up to 64."""

ATOM, KIND = 120.0, 1e5
"""Operations (see `accountant.patience`) of a value of Y, and of a kind beside."""

WHAT = "bounds on shuffled bits of two users"


def log_two_users_delta(epsilon: float, facts: Facts, point: float) -> float:
    """Log of H(e^point), point >= 0, of one changed report beside one other with any input, rounded up."""
    spend(work_of_two_users(facts), WHAT)
    most = max(divergence(epsilon, kind, point) for kind in kinds_of(facts))
    return math.log(most) if most > 0.0 else -math.inf


def work_of_two_users(facts: Facts) -> float:
    """About how many operations that takes."""
    return sum(KIND + ATOM * math.prod(bits + 1 for bits in kind) for kind in kinds_of(facts))


def kinds_of(facts: Facts) -> list[tuple[int, int, int]]:
    """Kinds of the other's input that nothing is above."""
    return [(int(m), int(k), int(i)) for m, k, i in zip(*kinds(facts.bits, facts.length), strict=True)]


def divergence(epsilon: float, kind: tuple[int, int, int], point: float) -> float:
    """E (Y + Y')_+ / 2, rounded up."""
    both, first, second = (epsilon * (2.0 * np.arange(bits + 1) - bits) for bits in kind)
    # powers are right to an ulp, their arguments too
    off = (8.0 + epsilon * sum(kind) + point) * 2 * ULP
    gained, lost = np.exp(first) * (1 + off), np.exp(point + second) * (1 - off)
    values = np.multiply.outer(np.exp(both), np.subtract.outer(gained, lost)).ravel()
    chances = [flips_of(epsilon, bits) for bits in kind]
    masses = np.multiply.outer(chances[0], np.multiply.outer(chances[1], chances[2])).ravel()
    order = np.argsort(values)
    values, masses = values[order], masses[order]
    from_here, worth, size = (sums_from(masses * each) for each in (np.ones(values.size), values, np.abs(values)))
    start = np.searchsorted(values, -values)
    sums = worth[start] + values * from_here[start]
    sums += 4 * (values.size + 16) * ULP * (size[start] + np.abs(values) * from_here[start])
    return 0.5 * math.fsum((masses * np.maximum(sums, 0.0)).tolist()) * (1 + CHANCES)


def sums_from(terms: FloatArray) -> FloatArray:
    """Sums of all terms from each place on; the last is 0."""
    return np.append(np.cumsum(terms[::-1])[::-1], 0.0)
