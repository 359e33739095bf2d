"""Pairs of distributions by their losses: profiles between any two of them, and pairs of fewer losses above them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel

__all__ = ["Sticks", "both_sticks", "connect"]


class Sticks(NamedTuple):
    """Hockey-stick divergences of a distribution on rising losses: log H at each, logs of u |H'| to its left and right.

    `log_slope` begins to the left of the first loss.
    """

    losses: FloatArray
    log_h: FloatArray
    log_slope: FloatArray

    def log_value(self, epsilons: FloatArray) -> FloatArray:
        """log H(e^epsilon): between losses H is linear in e^epsilon."""
        after = np.searchsorted(self.losses, epsilons, side="right")
        right, left = np.minimum(after, self.losses.size - 1), np.maximum(after - 1, 0)
        with np.errstate(divide="ignore"):
            part = np.log(np.expm1(np.maximum(self.losses[right] - epsilons, 0.0))) + (epsilons - self.losses[left])
        return np.logaddexp(self.log_h[right], part + self.log_slope[after])


def connect(losses: FloatArray, log_p: FloatArray, many: int) -> tuple[FloatArray, FloatArray]:
    """At most twice so many of the rising losses of a pair, and logs of P's probabilities: a pair that dominates it.

    An outcome at l between L and R is split among both so that P and Q stay the same: (e^-L - e^-l)/(e^-L - e^-R) of P
    goes to R, (e^-l - e^-R)/(e^-L - e^-R) to L ("connect the dots", Doroshenko et al. 2022).
    """
    if losses.size <= 2 * many:
        return losses, log_p
    # half of them evenly by number, where most of the probability is, half by size, for the tail
    evenly = np.linspace(0, losses.size - 1, many).astype(int)
    by_size = np.searchsorted(losses, np.linspace(losses[0], losses[-1], many)).clip(0, losses.size - 1)
    keep = np.unique(np.concatenate([evenly, by_size]))
    ends, first = np.unique(losses[keep], return_index=True)
    if ends.size < 2:  # all are equal
        return losses[:1], np.logaddexp.reduce(log_p, keepdims=True)
    keep = np.append(keep[first[:-1]], losses.size - 1)  # of equal losses the first, but all up to the last
    group = np.repeat(np.arange(keep.size - 1), np.diff(keep))
    inside, left, right = losses[:-1], ends[group], ends[group + 1]
    log_width = np.log(-np.expm1(left - right))
    with np.errstate(divide="ignore"):
        to_right = log_p[:-1] + np.log(-np.expm1(left - inside)) - log_width
        to_left = log_p[:-1] + np.log(-np.expm1(inside - right)) + (left - inside) - log_width
    log_masses = np.append(np.logaddexp.reduceat(to_left, keep[:-1]), log_p[-1])
    log_masses[1:] = np.logaddexp(log_masses[1:], np.logaddexp.reduceat(to_right, keep[:-1]))
    return ends, log_masses


def both_sticks(losses: FloatArray, log_p: FloatArray) -> tuple[Sticks, Sticks]:
    """Of P against Q and of Q against P."""
    return sticks(losses, log_p), sticks(-losses[::-1], (log_p - losses)[::-1].copy())


def sticks(losses: FloatArray, log_p: FloatArray) -> Sticks:
    log_h, log_slope = np.empty(losses.size), np.empty(losses.size + 1)
    fill_sticks(losses, log_p, log_h, log_slope)
    return Sticks(losses, log_h, log_slope)


@Kernel
def fill_sticks(losses: FloatArray, log_p: FloatArray, log_h: FloatArray, log_slope: FloatArray) -> None:
    """Fill `Sticks`, from the last loss to the first: sums of positive terms.

    With V_k = sum_{i>=k} p_i u_k/u_i:  V_k = p_k + V_{k+1} u_k/u_{k+1},  H_k = H_{k+1} + (1 - u_k/u_{k+1}) V_{k+1}.
    """
    last = losses.size - 1
    unit = log_p[last]  # log of what 1 stands for
    value, slope = 0.0, 1.0
    log_h[last], log_slope[last + 1], log_slope[last] = -math.inf, -math.inf, unit
    for k in range(last - 1, -1, -1):
        if log_p[k] > unit + 100.0:
            value, slope = value * math.exp(unit - log_p[k]), slope * math.exp(unit - log_p[k])
            unit = log_p[k]
        gap = losses[k + 1] - losses[k]
        value -= math.expm1(-gap) * slope
        log_h[k] = math.log(value) + unit
        log_slope[k + 1] = math.log(slope) - gap + unit
        slope = math.exp(log_p[k] - unit) + slope * math.exp(-gap)
    log_slope[0] = math.log(slope) + unit
