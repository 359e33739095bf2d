"""The price of very many releases, from the normal limit of their tilted losses and Berry and Esseen's bound on it.

With L the composed loss, K(t) = log E e^{t L}, and m, s the mean and deviation of L tilted by e^{t L},

    delta(eps) = e^{K(t) - t eps} E_t g(L - eps),   g(x) = e^{-t x} (1 - e^{-x})_+,

and the expectation is that of a normal law but for at most twice g's peak times the distance of both distribution
functions. That falls with the root of the number of releases, which themselves only enter as factors: the work is that
of one. Proof: notebooks/mathematics.md, Very many releases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import NoGuarantee, OutOfPatience
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.numerics.mills import log_mills_gap
from accountant.numerics.roots import LEAST, Interval, bisect, exponentiate
from accountant.renyi.route import renyi_delta, renyi_epsilon
from accountant.tight.directed_run import DEEPEST, Question
from accountant.tight.loss_moments import log_peak, loss_moments
from accountant.tight.polygon import ULP

__all__ = ["NormalLimit", "approach_normal"]

MANY = 1e6
"""Releases from which on it is tried."""

MOST_KINDS = 64
"""Different events up to which it is tried: each has moments of its own."""

SAME, DIFFERENT = 0.4690, 0.5600
"""Constants of Berry and Esseen's theorem for summands of one law, and of several (Shevtsova 2013, 2010)."""

STEEPEST = 0.24198
"""More than the largest y phi(y): how fast Phi(x/s) may change with log s."""

SHARE = 0.005
"""Of the tolerance, that moments may be wrong by."""

FINEST = 1e-11
"""The relative error that is asked of moments at least: below, rounding counts."""

TILTED = 4
"""Times that a tilt is chosen, at most."""

NEAR = 0.3
"""Standard deviations by which a mean may miss epsilon."""

UNSURE = 0.1
"""Nats by which moments may leave log delta open before a smaller tilt is tried."""

FARTHEST, FINE = 1e12, 1e-9
"""Deviations from the mean up to which an epsilon is looked for, and how finely."""

RUNG = 0.5
"""Steps of the ladder below, in deviations."""

LADDER = tuple(RUNG * k for k in range(80, -81, -1))
"""Where a bound from below is looked for, from above."""

SURE = 1e-10
"""More than logarithms of a difference of Mills' ratio err by."""


class NormalLimit:
    """One direction of a composition, tilted by e^{tilt L}, as a normal law with what it may be wrong by.

    Parameters
    ----------
    run : Composition
        Events with a single dominating pair.
    direction : Direction
    tilt : float
        > 0.
    accuracy : float
        Of moments.

    Attributes
    ----------
    known : bool
        Whether moments were found; if not there is nothing else.
    """

    def __init__(self, run: Composition, direction: Direction, tilt: float, accuracy: float) -> None:
        self.tilt = tilt
        log_mean, mean, variance, third = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], 0.0
        normal, others = 0.0, 0
        self.known = False
        for event, count in run:
            summand = event._summand()
            if event.unsampled is event and summand is not None and summand.key == "Gaussian":
                normal += count * summand.size
                continue
            found = loss_moments(event, direction, tilt, accuracy)
            if found is None:
                return
            others += 1
            for side, sign in ((0, -1), (1, 1)):
                log_mean[side] += outward(count * found.log_mean[side], sign)
                mean[side] += outward(count * found.mean[side], sign)
                variance[side] += outward(count * found.variance[side], sign)
            third += count * found.third * (1 + 4 * ULP)
        if not 0.0 < variance[0] <= variance[1] < math.inf:
            return
        # the distance of a sum from its normal law is not increased by independent normal noise
        distance = (SAME if others == 1 else DIFFERENT) * third / variance[0] / math.sqrt(variance[0])
        # a Gaussian of size mu^2 has a normal loss: its mean is (t + 1/2) mu^2, its variance mu^2
        exact = normal * tilt * (1 + tilt) / 2, normal * (tilt + 0.5), normal
        slack = (16 + len(run.entries)) * ULP
        self._keep([log_mean, mean, variance], exact, slack, distance)

    def _keep(self, sums: list[list[float]], exact: tuple[float, float, float], slack: float, distance: float) -> None:
        """Add what is exact, round outward, and keep what the bounds below need."""
        (k_low, k_high), (m_low, m_high), (v_low, v_high) = (
            [low + known - slack * (abs(low) + known), high + known + slack * (abs(high) + known)]
            for (low, high), known in zip(sums, exact, strict=True)
        )
        self.known = k_low >= 0.0 and v_low > 0.0 and k_high < math.inf
        if not self.known:
            return
        t = self.tilt
        self.mean = Interval(m_low, m_high)
        self.spread = math.sqrt(v_high)
        # K - t m, about -(t s)^2/2
        rounding = 4 * ULP * (k_high + t * max(abs(m_low), abs(m_high)))
        self.offset = Interval(k_low - t * m_high - rounding, k_high - t * m_low + rounding)
        distance += STEEPEST * 0.5 * math.log(v_high / v_low) * (1 + 1e-9) + 8 * ULP
        self.log_error = math.log(2 * distance) + log_peak(t)

    def log_delta(self, z: float, sign: int) -> float:
        """Log of a bound on delta at epsilon = mean + z spread, from above (sign 1) or below (-1).

        The mean is the larger end of what is known of it for a bound from above, the lower one from below.
        """
        t, s = self.tilt, self.spread
        x = np.array([-(t * s + z)])
        known = float(log_mills_gap(s, x, s * (s / 2 - x))[0]) + (t * s) ** 2 / 2
        error = self.log_error - t * s * z
        slack = SURE + 64 * ULP * (1 + (t * s + abs(z)) ** 2)
        if sign > 0:
            return min(self.offset.upper + float(np.logaddexp(known + slack, error + slack)), 0.0)
        if not known - slack > error + slack:
            return -math.inf
        return self.offset.lower + known - slack + math.log(-math.expm1(error - known + 2 * slack))

    def place(self, epsilon: float, sign: int) -> float:
        """The z of an epsilon, rounded to the safe side."""
        mean = self.mean.upper if sign > 0 else self.mean.lower
        z = (epsilon - mean) / self.spread
        return z - sign * 8 * ULP * (abs(z) + (epsilon + abs(mean)) / self.spread)

    def log_bounds(self, epsilon: float) -> Interval:
        """Logs of bounds on delta at an epsilon."""
        low, high = (self.log_delta(self.place(epsilon, sign), sign) for sign in (-1, 1))
        return Interval(low, high)

    def epsilon(self, log_delta: float) -> Interval:
        """Bounds on the epsilon at a delta: any z at which a bound on delta is on the right side is one."""

        def passed(z: float) -> bool:
            return self.log_delta(z, 1) <= log_delta

        def short(z: float) -> bool:
            return self.log_delta(z, -1) < log_delta

        low, high = -1.0, 1.0
        while not passed(high) and high < FARTHEST:
            high *= 2
        while passed(low) and low > -FARTHEST:
            low *= 2
        upper = self._at(bisect(passed, low, high, FINE)[1], 1) if passed(high) else math.inf
        # far below the mean the bound from below vanishes again
        reached = next((z for z in LADDER if not short(z)), None)
        if reached is None:
            return Interval(0.0, upper)
        lower = self._at(bisect(short, reached, reached + RUNG, FINE)[0], -1)
        return Interval(max(lower, 0.0), max(upper, 0.0))

    def _at(self, z: float, sign: int) -> float:
        """The epsilon of a z, rounded to the safe side."""
        mean = self.mean.upper if sign > 0 else self.mean.lower
        return mean + z * self.spread + sign * 8 * ULP * (abs(mean) + abs(z) * self.spread)


def outward(value: float, sign: int) -> float:
    """A product that was rounded once, or a sum of such, moved beyond it."""
    return value + sign * 4 * ULP * abs(value)


def approach_normal(
    run: Composition, question: Question, directions: Sequence[Direction] = DIRECTIONS
) -> Interval | None:
    """Bounds on what is asked, as narrow as that; None where it takes another way, or more patience."""
    if run.releases < MANY or len(run.entries) > MOST_KINDS:
        return None
    if any(event.family or event.between_bounds for event in run.entries):
        return None
    try:
        if question.delta is not None:
            price = renyi_epsilon(run, question.delta, "improved")
        else:
            price = renyi_delta(run, question.epsilon, "improved")
    except NoGuarantee:  # the curve is infinite
        return None
    epsilon, known = price.epsilon, price.epsilon if question.delta is not None else price.delta
    log_delta = math.log(max(price.delta, LEAST))
    if price.order is None or not 1.0 < price.order < math.inf or log_delta < DEEPEST:
        return None
    tilt = price.order - 1
    steep = 1.0 if question.delta is not None else max(tilt * epsilon, 1.0)
    accuracy = max(SHARE * question.tolerance / steep, FINEST)
    if all(forward is backward for forward, backward in map(_at_zero, run.entries)):
        directions = directions[:1]
    try:
        found = [_one_direction(run, question, each, tilt, accuracy) for each in directions]
    except OutOfPatience:
        return None
    answer = Interval(max(each.lower for each, _ in found), min(max(each.upper for each, _ in found), known))
    spread = max(spread for _, spread in found)
    return answer if spread > 0.0 and question.width(answer, spread) <= question.tolerance else None


def _at_zero(event: Event) -> tuple[FloatArray, FloatArray]:
    """The profile of both directions at 0: one array where they are the same."""
    return event._log_profile(np.zeros(1))


def _one_direction(
    run: Composition, question: Question, direction: Direction, tilt: float, accuracy: float
) -> tuple[Interval, float]:
    """The narrowest bounds for a few tilts, and the loss's deviation."""
    low, high, spread = 0.0, math.inf if question.delta is not None else 1.0, 0.0
    for _ in range(TILTED):
        limit = NormalLimit(run, direction, tilt, accuracy)
        if not limit.known:
            break
        spread = max(spread, limit.spread)
        if question.delta is not None:
            found = limit.epsilon(math.log(question.delta))
            at = limit.place(found.upper, 1) if found.upper < math.inf else 0.0
        else:
            found, at = exponentiate(*limit.log_bounds(question.epsilon)), limit.place(question.epsilon, 1)
        low, high = max(low, found.lower), min(high, found.upper)
        unsure = limit.offset.upper - limit.offset.lower
        if unsure > UNSURE:  # rounding decides: nearer to 0 there is less of it
            tilt *= UNSURE / (4 * unsure)
        elif abs(at) <= NEAR:
            break
        else:
            tilt = max(tilt + at / limit.spread, tilt / 4)
    return Interval(low, high), spread
