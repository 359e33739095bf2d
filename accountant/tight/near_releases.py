"""Sampled Gaussians that differ little from each other, each bracketed by mixtures of the two of a run next to it.

The profile h of N(mu,1) against N(0,1) at e >= 0 has dh/dmu = phi(d) and d2h/dmu2 = phi(d) (e^2/mu^3 - mu/4), where
d = mu/2 - e/mu. So between two mu, a < b, it lies below the chord in any coordinate that bends down at least as much as
mu/4, and above the chord in one that bends up at least as much as E^2/mu^3 for all e <= E. A chord is the profile of a
mixture of which one learns the part. Proof: notebooks/mathematics.md, Privacy-loss distributions.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.events.answers import SAMPLED_GAUSSIAN
from accountant.events.event import Event
from accountant.events.gaussian import GaussianLike
from accountant.numerics.kernel import FloatArray
from accountant.numerics.special import log_mixture_ratio
from accountant.tight.fourier import LossSum
from accountant.tight.polygon import NOTHING, Grid, Masses, normalise

__all__ = ["Between", "find_near"]

FEWEST = 2
"""Releases between two others for which those stand."""

LEAST_DISTANCE = 1.0
"""Standard deviations beyond the mean from which on losses are cut off, at least."""

ROUNDING = 1e-13
"""More than what shares of chords err by, relative to themselves."""


class Between(NamedTuple):
    """Releases of one rate whose mu lies between those of `low` and `high`.

    Attributes
    ----------
    ends : (float, float)
        mu of `low` and of `high`.
    rate : float
    mus : array of shape (n,)
    counts : list of int
    distance : float
        y: what is more than y standard deviations beyond the mean of `high` is left out from below.
    """

    low: Event
    high: Event
    ends: tuple[float, float]
    rate: float
    mus: FloatArray
    counts: list[int]
    distance: float

    def shares_above(self) -> FloatArray:
        """Shares of `high` in mixtures above the releases: chords in 1 - e^{-b mu/4}, which bends down by b/4."""
        low, high = self.ends
        rates = np.expm1(-high / 4 * (self.mus - low)) / math.expm1(-high / 4 * (high - low))
        return np.asarray(np.minimum(rates * (1 + ROUNDING), 1.0))

    def shares_below(self) -> FloatArray:
        """Shares of `high` in mixtures below them up to E: chords in mu^p, which bends up by (p - 1)/mu >= E^2/mu^3."""
        low, high = self.ends
        power = 1 + (self.end / low) ** 2
        places = np.log1p((np.append(self.mus, high) - low) / low)
        # (e^{p x} - 1)/(e^{p c} - 1) without large numbers
        shares = np.exp(power * (places[:-1] - places[-1])) * np.expm1(-power * places[:-1])
        return np.asarray(shares / math.expm1(-power * float(places[-1])) * (1 - ROUNDING * (1 + power * places[-1])))

    @property
    def end(self) -> float:
        """E, the loss of `high` without sampling up to which mixtures from below lie below."""
        high = self.ends[1]
        return high * (self.distance + high / 2)

    def add_to(
        self, sums: Sequence[LossSum], direction: Direction, low: Sequence[Masses], high: Sequence[Masses]
    ) -> None:
        """Compose measures above, and where there are two sums below, with those of the releases."""
        if low[0].offset == high[0].offset:
            sums[0].add_between(low[0], high[0], self.shares_above(), self.counts)
        else:
            sums[0].add(high[0], sum(self.counts))
        for total, a, b in zip(sums[1:], low[1:], high[1:], strict=False):
            if a.offset == b.offset:
                a, b = (self.cut(each, direction, total.grid) for each in (a, b))
                total.add_between(a, b, self.shares_below(), self.counts)
            else:  # less noise is never better
                total.add(a, sum(self.counts))

    def cut(self, masses: Masses, direction: Direction, grid: Grid) -> Masses:
        """What mixtures from below are made of: losses above E lowered to it, and all less by a share e^{-y^2/2}.

        At E the profile of `high` is at most min(b, 1) e^{-y^2/2}/2, and that share covers losses below -E.
        """
        if direction == DIRECTIONS[0]:
            end = float(log_mixture_ratio(self.rate, np.array([self.end]))[0])
        else:
            end = -float(log_mixture_ratio(self.rate, np.array([-self.end]))[0])
        (step, tilt), weights = grid, masses.weights
        last = math.floor((end * (1 - ROUNDING) - masses.offset) / step - ROUNDING * weights.size) - masses.first
        scale = masses.log_total + math.log1p(-math.exp(-0.5 * self.distance**2)) - ROUNDING
        if last < 0:
            return Masses(weights, masses.first, masses.offset, NOTHING)
        if last < weights.size - 1:
            kept = weights[: last + 1].copy()
            beyond = weights[last + 1 :]
            kept[-1] += float(np.sum(beyond * np.exp(-tilt * step * np.arange(1.0, beyond.size + 1))))
            return normalise(kept, masses.first, masses.offset, scale)
        return Masses(weights, masses.first, masses.offset, scale)


def find_near(
    entries: Sequence[tuple[Event, int]], near: float, log_delta: float, log_count: float
) -> tuple[list[Between], list[tuple[Event, int]]]:
    """Releases that lie between two others, and the rest, among which those are.

    Parameters
    ----------
    entries : sequence of (Event, int)
    near : float
        Largest distance in log mu of two that stand for those between, times how many standard deviations losses
        matter; the price errs by less than about its square. With 0 there are none.
    log_delta, log_count : float
        Logs of the delta, and of the releases, that say how much may be left out of one.
    """
    if not near > 0.0 or len(entries) <= FEWEST + 1:
        return [], list(entries)
    log_share = 2 * math.log(near) - log_count - 3
    log_left = log_delta + log_share
    rows: dict[float, list[tuple[float, Event, int]]] = defaultdict(list)
    rest: list[tuple[Event, int]] = []
    for event, count in entries:
        row = event._row() if isinstance(event.unsampled, GaussianLike) else None
        if row is not None and row.kind == SAMPLED_GAUSSIAN:
            rows[row.rate].append((row.mu, event, count))
        else:
            rest.append((event, count))
    found: list[Between] = []
    for rate, each in rows.items():
        each.sort(key=lambda one: one[0])
        distance = max(math.sqrt(2 * max(math.log(rate) - log_left, -log_share, 0.0)), LEAST_DISTANCE)
        i = 0
        while i < len(each):
            low, event, count = each[i]
            rest.append((event, count))
            j = i
            while j + 1 < len(each) and math.log(each[j + 1][0] / low) * (distance + each[j + 1][0] / 2) <= near:
                j += 1
            if j - i > FEWEST:
                inner = each[i + 1 : j]
                mus, counts = np.array([one[0] for one in inner]), [one[2] for one in inner]
                found.append(Between(event, each[j][1], (low, each[j][0]), rate, mus, counts, distance))
                i = j
            else:
                i += 1
    return found, rest
