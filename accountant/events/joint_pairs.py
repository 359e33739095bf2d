"""Poisson samples of many coordinates, by the joint distribution of their losses between two bounds.

All coordinates share one sample, so that (1-g) Q + g P against Q is the pair of their *joint* distributions. Its loss
is log(1 - g + g e^l), l being the sum of one loss for each coordinate. Coordinates whose losses are on a lattice, or
that stand between two that are, have the law of that sum by `accountant.numerics.lattice_powers`
(notebooks/mathematics.md, Poisson samples of many coordinates).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from accountant.errors import ToleranceUnreachable
from accountant.events.answers import Outcomes
from accountant.events.event import Event
from accountant.events.sticks import Sticks, both_sticks, connect
from accountant.numerics.finite_curves import finite_curve
from accountant.numerics.kernel import FloatArray
from accountant.numerics.lattice_powers import lattice_power
from accountant.numerics.scipy_special import expit, logit
from accountant.numerics.special import log_mixture, log_mixture_ratio
from accountant.patience import spend

__all__ = ["JointPair", "JointSketch", "joint_curve", "joint_pair"]

MOST_POINTS = 2**22
"""Points of the lattice of a sum."""

LARGEST_STEP = 1e10
"""Of that lattice, in nats: tilts of its masses, which are as large, are rounded to their last digits."""

POINT = 1000.0
"""Operations (see `accountant.patience`) for each of them."""

REACH = 30.0
"""About how many standard deviations of the sum are computed."""

SHARE = 1 / 16
"""Share of the square of a grid's step that lattices may add to the variance of a sampled loss."""

COARSEST = 1e-4
"""Share of the variance of a sum of losses that a lattice adds to it at most."""

OUTCOMES = 256
"""Losses of the pair whose Rényi curve is above that of a sample: at most twice as many."""

LEAST = -600.0
"""Log of what that pair has at the largest loss."""

KNOTS = 64
"""Losses with atoms that a grid is aligned with, at most."""

ATOM = math.log(1e-3)
"""Log of the least mass of such an atom."""


class JointPair(Event):
    """A pair with the losses of a sampled sum of coordinates, above or below it.

    Parameters
    ----------
    event : Event
        All coordinates, not sampled.
    losses, log_p : array
        Different losses in rising order, with logs of P's probabilities.
    log_lost : float
        Log of the probability of an infinite loss, in either direction.
    """

    losses: FloatArray
    log_p: FloatArray
    sticks: tuple[Sticks, Sticks]
    log_lost: float
    _knots: Sequence[float]

    def __init__(self, event: Event, losses: FloatArray, log_p: FloatArray, log_lost: float) -> None:
        heavy = np.abs(losses[log_p + np.maximum(-losses, 0.0) > ATOM])
        self.__dict__.update(
            adjacency=event.adjacency,
            losses=losses,
            log_p=log_p,
            log_lost=log_lost,
            sticks=both_sticks(losses, log_p),
            _knots=[] if heavy.size > KNOTS else np.unique(heavy[heavy > 0.0]).tolist(),
            _largest_finite_loss=float(np.max(np.abs(losses))) * (1 + 1e-12),
            # sums of so many positive terms, whose logarithms are rounded
            _profile_error=1e-12 + 4 * math.ulp(1.0) * losses.size,
        )

    def __repr__(self) -> str:
        return f"<pair of {self.losses.size} outcomes of a sum>"

    def _curve(self, orders: FloatArray) -> FloatArray:
        """The largest loss; no other order is asked for."""
        end = self._largest_finite_loss if self.log_lost == -math.inf else math.inf
        return np.where(np.isinf(orders), end, math.nan)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        forward, backward = (np.logaddexp(each.log_value(epsilons), self.log_lost) for each in self.sticks)
        return forward, backward

    def _profile_knots(self) -> Sequence[float]:
        return self._knots

    def _outcomes(self) -> Outcomes:
        return Outcomes(self.losses, self.log_p)


def joint_pair(event: Event, rate: float, step: float, log_lost: float, sign: int) -> JointPair:
    """A pair above (sign 1) or below (-1) a sample of all coordinates of an event, for a grid of losses at `step`.

    Raises
    ------
    ToleranceUnreachable
        It takes a lattice of too many points.
    """
    count = event._coordinates
    variance = 2 * float(event._curve(np.ones(1))[0])
    added = min(SHARE * step * step / _steepness(rate, variance), COARSEST * variance) / count
    lattice = event._lattice(added, sign)
    assert lattice is not None
    if lattice.step > LARGEST_STEP:
        accepted = f"accepted: at most {LARGEST_STEP:g}, or method = 'renyi' or 'auto'"
        raise ToleranceUnreachable(
            f"the losses of {event!r} lie on a lattice at a step of {lattice.step:.3g}; {accepted}"
        )
    points = REACH * math.sqrt(variance) / lattice.step + lattice.log_masses.size
    _refuse_too_many(event, points)
    key = (event, rate, lattice.step, log_lost, sign)
    spend(POINT * min(points, count * float(lattice.log_masses.size)), f"the sum of {count} coordinates", once=key)
    return _make_pair(event, rate, added, log_lost, sign)


class JointSketch(Event):
    """About the pair of a sample of all coordinates: few outcomes above it, in little time."""

    event: Event
    rate: float

    def __init__(self, event: Event, rate: float) -> None:
        self.__dict__.update(adjacency=event.adjacency, event=event, rate=rate)

    def __repr__(self) -> str:
        return f"<about {self.event!r} sampled at {self.rate:g}>"

    def _curve(self, orders: FloatArray) -> FloatArray:
        return joint_curve(self.event, self.rate, orders)


def joint_curve(event: Event, rate: float, orders: FloatArray) -> FloatArray:
    """A bound on the Rényi curve of a sample of all coordinates at orders in [1, inf]: of few outcomes above it."""
    pair = _few(event, rate)
    end = float(log_mixture_ratio(rate, np.array([float(event._largest_loss())]))[0])
    curve = np.full_like(orders, end)
    finite = np.isfinite(orders)
    finite_curve(orders[finite], *pair, found := np.empty(int(finite.sum())))
    curve[finite] = np.minimum(found, end)
    return curve


@lru_cache(maxsize=16)
def _few(event: Event, rate: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Logs of Q and P, and losses, of a pair with few losses that dominates the sample."""
    pair = joint_pair(event, rate, math.inf, LEAST, 1)
    losses, log_p = connect(pair.losses, pair.log_p, OUTCOMES)
    return log_p - losses, log_p, losses


@lru_cache(maxsize=8)
def _make_pair(event: Event, rate: float, added: float, log_lost: float, sign: int) -> JointPair:
    lattice, count = event._lattice(added, sign), event._coordinates
    assert lattice is not None
    middle = count * (lattice.log_masses.size - 1) / 2
    power = lattice_power(lattice.log_masses, count, -lattice.step / 2, log_lost, MOST_POINTS)
    if power is None:
        raise ToleranceUnreachable(_too_many(event, MOST_POINTS))
    losses = lattice.step * (np.arange(float(power.low.size)) + (power.first - middle))
    log_p, log_all = (power.high if sign > 0 else power.low).copy(), -math.inf
    if sign > 0:
        # what is left out moves up: to the first loss that is there, and to the largest of all
        log_p[0] = np.logaddexp(log_p[0], power.log_before)
        log_beyond = float(np.logaddexp(power.log_beyond, math.log(count) + lattice.log_lost))
        if lattice.log_lost > -math.inf:
            log_all = log_beyond
        elif log_beyond > -math.inf:
            losses, log_p = np.append(losses, lattice.step * middle), np.append(log_p, log_beyond)
    # opposite losses have both probabilities exchanged
    rest = losses > 0.0
    losses = np.concatenate([-losses[rest][::-1], losses])
    log_p = np.concatenate([log_p[rest][::-1] + losses[: int(rest.sum())], log_p])
    kept = log_p > -1e299
    return _mix(event, rate, losses[kept], log_p[kept], log_all)


def _mix(event: Event, rate: float, losses: FloatArray, log_p: FloatArray, log_lost: float) -> JointPair:
    """(1-g) Q + g P against Q; losses that are rounded to one are one."""
    mixed, ratios = log_mixture(rate, log_p - losses, log_p), log_mixture_ratio(rate, losses)
    starts = np.flatnonzero(np.diff(ratios, prepend=-math.inf) > 0)
    return JointPair(event, ratios[starts], np.logaddexp.reduceat(mixed, starts), log_lost)


def _steepness(rate: float, variance: float) -> float:
    """Mean square of how much the sampled loss rises with the other, as if that one were normal."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    weights /= weights.sum()
    total = 0.0
    for sign, chance in ((1.0, rate), (-1.0, 1.0 - rate)):
        places = sign * variance / 2 + math.sqrt(variance) * nodes
        total += chance * float(np.sum(weights * expit(places + logit(rate)) ** 2))
    return max(total, 1e-300)


def _refuse_too_many(event: Event, points: float) -> None:
    if not points <= MOST_POINTS:
        raise ToleranceUnreachable(_too_many(event, points))


def _too_many(event: Event, points: float) -> str:
    return (
        f"the losses of {event!r} add up on a lattice of {points:.3g} points; accepted: at most {MOST_POINTS}, hence "
        "fewer coordinates, or method = 'renyi' or 'auto'"
    )
