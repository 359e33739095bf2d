"""Gaussian noise on samples of a fixed size, where the record, its replacement and whoever is drawn instead differ.

With g the share of records in a sample, A = (1-g) R + g P and B = (1-g) R + g Q for normal P, Q, R of which any two are
at most mu apart. The worst are isosceles: P is mu from Q and R, which are some b apart, or Q is mu from P and R. As b
grows H(A||B) falls and H(B||A) rises. Of P, Q and R in a ball of diameter mu the worst are on a circle of that diameter
(notebooks/mathematics.md, Runs of samples of a fixed size).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.event import Event
from accountant.events.gaussian import gaussian_log_profile
from accountant.events.truncated_readings import TOLD, usual_sum
from accountant.numerics.kernel import FloatArray
from accountant.numerics.scipy_special import log_ndtr, ndtr
from accountant.numerics.special import log_mixture_ratio
from accountant.patience import spend

__all__ = [
    "EDGES",
    "FARTHEST",
    "Arc",
    "DrawnTriples",
    "cover_circle",
    "log_height_of_triple",
    "log_height_of_weights",
    "nodes_of",
    "usual_sum_of",
]

END = 9.0
"""Standard deviations beyond which the integrand is left out."""

SPARE = 1e-14
"""More than the rule and its rounding err by."""

FARTHEST = 8.0
"""Largest mu for which steps are not too small."""

VALUE = 50.0
"""Operations (see `accountant.patience`) of a node."""

Arc: TypeAlias = tuple[float, float]
E = TypeVar("E", bound=Event)

EDGES = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.87, 0.95, 1.0)
"""Distances of Q and R, as shares of mu, between which all triples count as one curve."""

CELLS = 16
"""Pairs of arcs between which all triples on a circle count as one curve."""


GAIN = 5e-4
"""Share by which halving a cell makes it cheaper at least."""


class Lengths(NamedTuple):
    """Of P from Q, of P from R and of Q from R."""

    apart: float
    own: float
    base: float


@dataclass(frozen=True)
class DrawnTriples(Event):
    """Triples that cost no more than the first does as H(A||B), and no more than the second does as H(B||A)."""

    forward: Lengths
    backward: Lengths
    rate: float
    adjacency: ClassVar[Adjacency] = Adjacency.ADD_REMOVE  # type: ignore[misc]  # both directions differ

    @classmethod
    def isosceles(cls, mu: float, rate: float, near: float, far: float) -> DrawnTriples:
        """All whose P is `mu` from Q and R, where these are between `near` and `far` times mu apart."""
        return cls(Lengths(mu, mu, near * mu), Lengths(mu, mu, far * mu), rate)

    @classmethod
    def on_circle(cls, mu: float, rate: float, first: Arc, second: Arc) -> DrawnTriples:
        """All on a circle of diameter `mu`, P and Q being turned from the point opposite to R by angles in two arcs.

        These are to either side, and together at most a half turn; all of them have less as H(A||B) than P from its
        first end and Q from its last, as far apart as any, and as H(B||A) than the reverse.
        """
        (least, most), (low, high) = first, second
        most, high = min(most, math.pi - low), min(high, math.pi - least)
        apart = mu * math.sin(min(most + high, math.pi) / 2)
        ends = [(mu * math.cos(angle / 2) if angle < math.pi else 0.0) for angle in (least, most, low, high)]
        return cls(Lengths(apart, ends[0], ends[3]), Lengths(apart, ends[1], ends[2]), rate)

    def _curve(self, orders: FloatArray) -> FloatArray:
        """The largest loss; no other order is asked for."""
        return np.where(np.isinf(orders), math.inf, math.nan)

    def _profile_work(self) -> float:
        counts = (nodes_of(*lengths)[2].size for lengths in self.directed() if lengths.base > 0.0)
        return 500.0 + VALUE * sum(counts)

    def directed(self) -> tuple[Lengths, Lengths]:
        """Forward; and backward with P and Q exchanged."""
        apart, own, base = self.backward
        return self.forward, Lengths(apart, base, own)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        forward, backward = (log_height_of_triple(*lengths, self.rate, epsilons) for lengths in self.directed())
        return forward, backward


def cover_circle(steps: int, make: Callable[[Arc, Arc], E], most: int = CELLS) -> list[E]:
    """All triples on a circle that are P nearer to the point opposite to R, in cells; any cells are a bound.

    The cell of which so many steps come to most is halved, along the arc where that leaves least, while that gains.
    """
    cells: list[tuple[Arc, Arc]] = [((0.0, math.pi / 2), (0.0, math.pi))]
    costs = [math.inf]
    while len(cells) < most:
        worst = int(np.argmax(costs))
        ways = [_halves(cells[worst], which) for which in (0, 1)]
        priced = [[usual_sum_of(make(*cell), steps) for cell in way] for way in ways]
        best = min((0, 1), key=lambda which: (max(priced[which]), sum(priced[which])))
        if max(priced[best]) > (1 - GAIN) * costs[worst]:
            break  # it would be halved on and on towards points that coincide, with ever more nodes
        cells[worst : worst + 1], costs[worst : worst + 1] = ways[best], priced[best]
    return [make(*cell) for cell in cells]


def _halves(cell: tuple[Arc, Arc], which: int) -> list[tuple[Arc, Arc]]:
    """Of one of its arcs; of those that are together more than a half turn, or where Q is nearer, none."""
    low, high = cell[which]
    found = []
    for arc in ((low, (low + high) / 2), ((low + high) / 2, high)):
        first, second = (arc, cell[1]) if which == 0 else (cell[0], arc)
        if first[0] < second[1] and first[0] + second[0] < math.pi:
            found.append((first, second))
    return found


def usual_sum_of(shape: Event, steps: int) -> float:
    """About what the losses of so many steps come to."""
    spend(TOLD.size * shape._profile_work(), "curves of triples")
    forward, backward = shape._log_profile(TOLD)
    return usual_sum(np.exp(forward), np.exp(backward), steps)


def log_height_of_triple(mu: float, own: float, base: float, rate: float, epsilons: FloatArray) -> FloatArray:
    """Log of H(A||B) at epsilons >= 0 at most, where P is mu from Q and `own` from R, which is `base` from Q.

    H(A||B) = g sup P - e^e Q - (1 - g) (e^t - 1) R with e^e = 1 + g (e^t - 1).
    """
    inner = log_mixture_ratio(1 / rate, epsilons)
    with np.errstate(divide="ignore"):
        log_r = math.log1p(-rate) + inner + np.log(-np.expm1(-inner))
    return math.log(rate) + log_height_of_weights(mu, own, base, epsilons, log_r)


def log_height_of_weights(apart: float, own: float, base: float, log_q: FloatArray, log_r: FloatArray) -> FloatArray:
    """Log of sup P - e^log_q Q - e^log_r R at most, where log_q >= 0.

    Let v run along the line through Q and R from the point next to P, which is w from it: across, what is best for
    each v is a half-line.
    """
    most: FloatArray = gaussian_log_profile(max(apart, own), np.logaddexp(log_q, log_r))
    if base == 0.0:
        return most
    place, w, nodes = nodes_of(apart, own, base)
    q, r, v = -place, base - place, nodes[:, None]
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        logs = np.logaddexp(log_q + q * v - q * q / 2, log_r + r * v - r * r / 2)
        end = w / 2 - logs / w
        height = ndtr(end) - np.exp(logs + log_ndtr(end - w))
        whole = np.sum(height * np.exp(-(v**2) / 2), axis=0) * ((nodes[1] - nodes[0]) / math.sqrt(2 * math.pi))
        found: FloatArray = np.log(np.maximum(whole, 0.0) + SPARE)
    return np.minimum(found, most)


def nodes_of(mu: float, own: float, base: float) -> tuple[float, float, FloatArray]:
    """How far Q is from the point next to P, and that from P; and the nodes of the trapezoidal rule.

    The integrand has no singularity within pi/base of the real line, and grows like exp((1 + s^2) d^2/2) at a distance
    d, with s the largest slope of the half-lines' ends: so the rule errs by exp((1 + s^2) d^2/2 - 2 pi d/step) for
    every d up to there, about, which is below e^-35 for some.
    """
    place = (mu * mu + base * base - own * own) / (2 * base)
    w = math.sqrt(max(mu * mu - place * place, 0.0))
    slope = max(abs(place), abs(base - place)) / w
    step = min(0.7 / math.hypot(1.0, slope), 0.5 / base, 0.5)
    many = math.ceil(END / step)
    return place, w, step * np.arange(-many, many + 1.0)
