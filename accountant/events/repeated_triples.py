"""Gaussian noise on samples with replacement, where the record, its replacement and whoever is drawn instead differ.

A = b_0 R + b_1 P_1 + b_2 P_2 + ... and B with Q_k, where the record is drawn k times with probability b_k. R is shared
out: H(A||B) is at most the sum of b_k E(P_k - e^e Q_k - l_k R)_+ for all l_k >= 0 whose mean is no more than is there,
b_0 (e^e - 1). The first term is that of a triple; the others have bounds whose means over draws stand for all data
(notebooks/mathematics.md, Runs of samples with replacement).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.answers import Repeats, Triple
from accountant.events.drawn_triples import (
    EDGES,
    Arc,
    DrawnTriples,
    cover_circle,
    log_height_of_weights,
    usual_sum_of,
)
from accountant.events.event import Event
from accountant.events.gaussian import gaussian_log_profiles
from accountant.events.mixture_of_gaussians import MixtureOfGaussians, fill_places
from accountant.numerics.kernel import FloatArray

__all__ = ["UNUSUAL", "RepeatedTriples", "convex_log_profiles", "cover_triples", "share_out", "usual_draws"]

ROUNDING = 1e-11
"""More than the relative rounding of a probability, and of what is shared out."""

VALUE = 450.0
"""Operations (see `accountant.patience`) of a value, by number of draws."""

SHORT, MANY, FEW = 150, 12, 7
"""Pairs of arcs between which all triples of a circle count as one curve: many in so few steps, and few in more."""

UNUSUAL = -20.0
"""Log of the probability of draws, in all of a run, that a grid need not reach."""


@dataclass(frozen=True)
class RepeatedTriples(Event):
    """Triples of which the record's part may be drawn more than once.

    Of several draws, P is at most `apart` from Q and `own` from R by draw: both forward, and both backward, with P and
    Q exchanged.
    """

    _profile_error: ClassVar[float] = 1e-11  # type: ignore[misc]  # those of sums over the number of draws

    triples: DrawnTriples
    forward: tuple[float, float]
    backward: tuple[float, float]
    mu: float
    repeats: Repeats
    adjacency: ClassVar[Adjacency] = Adjacency.ADD_REMOVE  # type: ignore[misc]  # both directions differ

    @classmethod
    def apart(cls, triples: DrawnTriples, mu: float, repeats: Repeats) -> RepeatedTriples:
        """Where outcomes are only known to be at most `mu` apart by draw."""
        return cls(triples, (mu, mu), (mu, mu), mu, repeats)

    @classmethod
    def of_sums(cls, triples: DrawnTriples, mu: float, repeats: Repeats) -> RepeatedTriples:
        """Of sums, each draw of which is a triple."""
        forward, backward = ((min(each.apart, mu), min(each.own, mu)) for each in triples.directed())
        return cls(triples, forward, backward, mu, repeats)

    def _curve(self, orders: FloatArray) -> FloatArray:
        """The largest loss; no other order is asked for."""
        return np.where(np.isinf(orders), math.inf, math.nan)

    def _profile_work(self) -> float:
        return self.triples._profile_work() + VALUE * len(self.repeats.log_probabilities)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        shared = share_out(self.mu, self.repeats, epsilons)
        several = self._of_several(epsilons, shared)
        first = self.repeats.log_probabilities[0] + math.log1p(ROUNDING)
        forward, backward = (
            np.minimum(np.logaddexp(first + log_height_of_weights(*lengths, epsilons, shared[0]), more), 0.0)
            for lengths, more in zip(self.triples.directed(), several, strict=True)
        )
        return forward, backward

    def _of_several(self, epsilons: FloatArray, shared: FloatArray) -> list[FloatArray]:
        """Logs of what two and more draws add at most, in the mean over all that may be drawn instead; both ways."""
        lengths = np.array([*self.forward, *self.backward])
        logs = [np.full_like(epsilons, self.repeats.log_rest)] * 2
        for many, log_probability in enumerate(self.repeats.log_probabilities[1:], 2):
            log_r = shared[many - 1]
            at = np.logaddexp(epsilons, log_r)
            heights = convex_log_profiles(many * lengths, many * self.mu, at)
            for way, (pair, alone) in enumerate((heights[:2], heights[2:])):
                height = np.logaddexp(epsilons - at + pair, log_r - at + alone)
                logs[way] = np.logaddexp(logs[way], log_probability + math.log1p(ROUNDING) + height)
        return logs


def cover_triples(triple: Triple, steps: int) -> list[DrawnTriples] | list[RepeatedTriples]:
    """All triples of an event, as curves; in a ball by either cover, that of which so many steps come to less."""
    mu, rate, in_ball, repeats = triple
    bands = [DrawnTriples.isosceles(mu, rate, near, far) for near, far in pairwise(EDGES)]
    if repeats is None:
        known = [bands, cover_circle(steps, partial(DrawnTriples.on_circle, mu, rate))] if in_ball else [bands]
        return min(known, key=lambda cover: max(usual_sum_of(each, steps) for each in cover))

    def of_sums(first: Arc, second: Arc) -> RepeatedTriples:
        return RepeatedTriples.of_sums(DrawnTriples.on_circle(mu, rate, first, second), mu, repeats)

    covers = [[RepeatedTriples.apart(each, mu, repeats) for each in bands]]
    if in_ball:
        covers.append(cover_circle(steps, of_sums, MANY if steps <= SHORT else FEW))
    return min(covers, key=lambda cover: max(usual_sum_of(each, steps) for each in cover))


def share_out(mu: float, repeats: Repeats, epsilons: FloatArray) -> FloatArray:
    """Logs of l_k >= 0, in rows, whose mean with weights b_k is at most b_0 (e^e - 1).

    Where all that is drawn instead is like Q the best are those for which all terms are positive at one side of the
    same place, where the mean of all P has e^e times the density of R; of l_k < 0 there are none, others are less.
    """
    log_b = np.array(repeats.log_probabilities)
    shifts = mu * np.arange(1.0, log_b.size + 1)[:, None]
    places = np.empty_like(epsilons)
    fill_places(np.append(repeats.log_none, log_b), np.append(0.0, shifts[:, 0]), epsilons, places)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        over = shifts * places - shifts * shifts / 2 - epsilons
        logs = np.where(over > 0.0, epsilons + over + np.log(-np.expm1(-over)), -math.inf)
        there = repeats.log_none + epsilons + np.log(-np.expm1(-epsilons))
        asked = np.logaddexp.reduce(log_b[:, None] + logs, axis=0)
        less = np.where(asked > -math.inf, np.minimum(there - asked, 0.0), 0.0)
    return np.asarray(logs + less + math.log1p(-ROUNDING))


def convex_log_profiles(distances: FloatArray, farthest: float, epsilons: FloatArray) -> FloatArray:
    """Logs, in rows, of a convex function of the distance that is above H_e of N(distance, 1) and N(0, 1).

    At `farthest`, which no distance is beyond, both are the same. H is convex up to sqrt(2 e) and concave beyond: above
    it is the tangent at `farthest`.
    """
    sizes, rows = np.unique(np.append(distances, farthest), return_inverse=True)
    found = gaussian_log_profiles(sizes, epsilons)[rows]
    known, end = found[:-1], found[-1]
    place = farthest / 2 - epsilons / farthest
    with np.errstate(divide="ignore", under="ignore"):
        slope = np.exp(-place * place / 2) / math.sqrt(2 * math.pi)
        tangent = np.log(np.maximum(np.exp(end) * (1 + ROUNDING) - (farthest - distances[:, None]) * slope, 0.0))
    return np.asarray(np.where(place > 0.0, np.maximum(known, tangent), known))


def usual_draws(mu: float, repeats: Repeats, steps: int) -> Event:
    """A sum that shows the record, without numbers of draws that hardly occur in so many steps."""
    logs = repeats.log_probabilities
    last = max((many for many, log in enumerate(logs, 1) if log + math.log(steps) > UNUSUAL), default=1)
    shares = [math.exp(log) for log in logs[:last]]
    return MixtureOfGaussians(1.0, (0.0, *(mu * many for many in range(1, last + 1))), (1 - math.fsum(shares), *shares))
