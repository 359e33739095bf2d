"""At which count noisy screening costs most."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accountant.errors import ParameterError, shorten
from accountant.events.curve import check_orders
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.special import divergence_from_log_mean, log_mean_term, logaddexp

__all__ = ["WorstPairs", "has_pairs", "worst_pairs"]


SAME = 1e-12
"""Log means that differ by less are the same but for rounding."""


class WorstPairs(NamedTuple):
    """The costliest pair of neighbouring counts, one for each order.

    Attributes
    ----------
    votes : int array
        Votes without the individual; the smallest where several pairs are costliest.
    step : int array
        1 or -1: the count with the individual less the count without.
    divergence : float array
        Rényi divergence of that pair, in nats; to rounding the event's curve.
    threshold : float
    """

    votes: NDArray[np.int64]
    step: NDArray[np.int64]
    divergence: FloatArray
    threshold: float


def has_pairs(event: Event) -> bool:
    """Whether it is a noisy screening, Poisson-subsampled at a rate above 0 or not."""
    return event.unsampled._screening() is not None and event.sampling_rate > 0.0


def worst_pairs(event: Event, orders: ArrayLike) -> WorstPairs:
    """The costliest neighbouring counts of a noisy screening, Poisson-subsampled or not, at orders in [1, inf).

    Every pair is looked at.

    Raises
    ------
    ParameterError
        The event is no noisy screening, or an order is out of range.
    """
    screening, rate = event.unsampled._screening(), event.sampling_rate
    if screening is None or rate == 0.0:
        raise ParameterError(f"event = {shorten(event)}; accepted: a noisy screening, Poisson-subsampled or not")
    points = check_orders(orders).ravel()
    if not np.isfinite(points).all():
        raise ParameterError("order = inf; accepted: [1, inf)")
    best = np.full(points.size, -math.inf)
    where = np.zeros(points.size, np.int64)
    for pairs in (screening.pairs(rate), screening.reversed_pairs(rate)):
        value, index = np.empty(points.size), np.empty(points.size, np.int64)
        costliest(points - 1.0, *pairs, value, index)
        better = value > best + SAME
        best, where = np.maximum(value, best), np.where(better, index, where)
    divergence = np.array([divergence_from_log_mean(*each) for each in zip(points - 1.0, best, strict=True)])
    return WorstPairs(screening.counts[where], screening.steps[where], divergence, screening.threshold)


@Kernel
def costliest(
    b: FloatArray,
    log_pass: FloatArray,
    log_fail: FloatArray,
    ratio_pass: FloatArray,
    ratio_fail: FloatArray,
    moved_pass: FloatArray,
    moved_fail: FloatArray,
    value: FloatArray,
    index: NDArray[np.int64],
) -> None:
    """Fill in the largest log E_Q[phi_a/b] over the pairs, a = 1 + b, and where it first is."""
    means = np.empty(log_pass.size)
    for i in range(b.size):
        for j in range(log_pass.size):
            passed = log_mean_term(b[i], moved_pass[j], log_pass[j], ratio_pass[j])
            means[j] = logaddexp(passed, log_mean_term(b[i], moved_fail[j], log_fail[j], ratio_fail[j]))
        value[i] = means.max()
        index[i] = np.argmax(means >= value[i] - SAME)
