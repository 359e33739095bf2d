"""The number of tries of a tuning, drawn from the distribution that prices it."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, localcontext
from functools import lru_cache

import accountant as ac
from mechanisms.noise.exact_draws import DIGITS, DistributionTable, expm1, poisson
from mechanisms.noise.source import Randomness

__all__ = ["LARGEST_MEAN", "Tries", "draw_tries"]

Tries = ac.Poisson | ac.NegativeBinomial

LARGEST_MEAN = 1000.0
"""Largest mean number of tries; a geometric number is then below 90 000 but for a chance of 2^-128."""


def draw_tries(tries: Tries, source: Randomness) -> int:
    """A number of tries, to within 2^-100 of its distribution in total variation.

    Raises
    ------
    accountant.ParameterError
        `tries` is no such distribution, or its mean is above 1000.
    """
    if not isinstance(tries, Tries) or tries.mean > LARGEST_MEAN:
        accepted = f"ac.Poisson, ac.NegativeBinomial or ac.Geometric with a mean of at most {LARGEST_MEAN:g}"
        raise ac.ParameterError(f"tries = {ac.shorten(tries)}; accepted: {accepted}")
    if tries.mean == 1.0 and isinstance(tries, ac.NegativeBinomial):
        return 1
    return int(_table(tries).draw(source, 1)[0])


@lru_cache(maxsize=4)
def _table(tries: Tries) -> DistributionTable:
    with localcontext() as context:
        context.prec = DIGITS
        if isinstance(tries, ac.Poisson):
            return DistributionTable.of(poisson(Decimal(tries.mean)), first=0)
        return DistributionTable.of(negative_binomial(Decimal(tries.log_g), Decimal(tries.shape)), first=1)


def negative_binomial(log_g: Decimal, shape: Decimal) -> Iterator[Decimal]:
    """P(1), P(2), ... of the negative binomial distribution given at least 1 (Papernot & Steinke 2022, Def. 1).

    P(k) is proportional to (1-g)^k shape (shape + 1) ... (shape + k - 1) / k!; shape 0 is the limit. Precision as for
    `poisson`.
    """
    missed = -expm1(log_g)
    lost = expm1(-shape * log_g) if shape else -log_g
    probability, value = (shape or 1) * missed / lost, 1
    while True:
        yield probability
        probability = probability * missed * (value + shape) / (value + 1)
        value += 1
