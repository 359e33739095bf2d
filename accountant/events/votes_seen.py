"""What a noisy vote costs at the votes that were cast: the pairs of distributions of the label that it releases.

P_i is the probability that label i has the largest noisy count with the votes n that were cast, and Q_i that with the
votes n + v of a neighbour: one changed voter takes one from a count that has some, adds one to another, or both. The
profile at these votes is the largest H(P || Q) over all v, with P first in both directions, as in the papers. The
largest H(P || Q) and H(Q || P) together are those of a single pair (Zhu, Dong & Wang 2022), which bounds compositions;
any one v bounds them from below. `accountant.events.vote_pairs` has the pairs, `accountant.tight.vote_game` the exact
composition.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from accountant.adjacency import DIRECTIONS, Adjacency, Direction
from accountant.events.event import Event
from accountant.events.vote_pairs import WHAT, Pairs, foreseen_size, pairs_of, work
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.special import divergence_from_log_mean, log_mean_term, logaddexp
from accountant.patience import remember, remembered_as, spend

__all__ = ["SeenVotes"]

T = TypeVar("T")

COARSE = 64
"""Epsilons at which it is looked which neighbours are the worst."""

APART = 1e-4
"""Least distance of places of the polygon, relative to the largest loss."""

LEAST = 1e-300
"""The least that is lost, if anything is."""

HALVINGS = 40
"""Of a range of epsilons, to find which neighbour costs most at a delta."""

TERM = 60.0
"""Of a term of a divergence."""


class SeenVotes(Event):
    """A noisy vote at the votes that were cast: its profile is exact, and its curve what the papers prove of it."""

    data_dependent: ClassVar[bool] = True
    between_bounds: ClassVar[bool] = True

    votes: tuple[float, ...]

    @abstractmethod
    def _noise(self) -> tuple[str, float]:
        """Its distribution, "gaussian" or "laplace", and scale."""

    def _pairs(self) -> Pairs:
        return pairs_of(*self._noise(), self.votes)

    def _foreseen(self) -> tuple[tuple[Hashable, float], tuple[Hashable, float]]:
        """The work that every certified price begins with, once for these votes; and that of polygons."""
        (noise, scale), (neighbours, outcomes) = self._noise(), foreseen_size(self.votes)
        key, size = (noise, scale, self.votes), 2 * neighbours * outcomes
        own = remembered_as(pairs_of, *key), work(noise, scale, outcomes - 2, neighbours + 1, float(len(self.votes)))
        return own, (remembered_as(polygons_of, *key), 20.0 * size * 4 * COARSE)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = np.max(self._pairs().log_heights(epsilons, 1)[0], axis=0)
        return both, both  # the votes that were cast come first, with the individual or without

    def _log_profile_from_below(self, epsilons: FloatArray) -> FloatArray:
        return np.asarray(np.max(self._pairs().log_heights(epsilons, -1)[0], axis=0))

    def _profile_work(self) -> float:
        return 40.0 * self._pairs().losses.size

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        return [(WorstNeighbour(self, direction, log_lost) if sign > 0 else self._certain(), 1)]

    def _sharpened(self) -> Event:
        return CurveOfPairs(self)

    def _certain(self, times: int = 1) -> Event:
        return OneNeighbour(self, self._pairs().costliest())


@dataclass(frozen=True)
class CurveOfPairs(Event):
    """The largest D_a(P || Q) of any neighbour, at every order: it composes like any curve."""

    seen: SeenVotes

    @property
    def adjacency(self) -> Adjacency:  # type: ignore[override]  # as the release
        return self.seen.adjacency

    def _curve(self, orders: FloatArray) -> FloatArray:
        pairs = self.seen._pairs()
        spend(TERM * pairs.losses[0].size * orders.size, WHAT)
        finite, curve = np.isfinite(orders), np.full_like(orders, pairs.largest_losses()[0])
        found = np.empty(int(finite.sum()))
        # terms of E_Q rise with Q and with the loss away from 0
        losses = pairs.losses[0] + np.copysign(pairs.loss_errors[0], pairs.losses[0])
        log_q = pairs.log_masses[1] + pairs.mass_errors[1]
        fill_largest_divergences(orders[finite], log_q, losses, found)
        curve[finite] = np.minimum(found * (1 + 1e-11), curve[finite])
        return curve


@Kernel
def fill_largest_divergences(orders: FloatArray, log_q: FloatArray, losses: FloatArray, curve: FloatArray) -> None:
    """Fill the largest D_a of the pairs in rows, from log Q and log P/Q."""
    for i in range(orders.size):
        b = orders[i] - 1.0
        largest = -math.inf
        for row in range(len(losses)):
            total = -math.inf
            for j in range(losses.shape[1]):
                if log_q[row, j] > -math.inf:
                    u = losses[row, j]
                    total = logaddexp(total, log_mean_term(b, log_q[row, j] + u, log_q[row, j], u))
            largest = max(largest, total)
        curve[i] = divergence_from_log_mean(b, largest)


class WorstNeighbour(Event):
    """The largest profiles of any neighbour as those of one release: polygons just above them.

    In the direction of a run the votes that were cast come first. Losses beyond which less than exp(log_lost) is left
    count as infinite.
    """

    seen: SeenVotes
    polygons: list[Polygon]
    lost: float
    _profile_error: float = 1e-12  # of interpolation

    def __init__(self, seen: SeenVotes, direction: Direction, log_lost: float) -> None:
        cuts = [cut(each, log_lost) for each in polygons_of(*seen._noise(), seen.votes)]
        self.__dict__.update(
            adjacency=seen.adjacency,
            seen=seen,
            polygons=as_directed([polygon for polygon, _ in cuts], direction),
            lost=max(lost for _, lost in cuts),
            _largest_finite_loss=max(polygon.largest for polygon, _ in cuts),
        )

    def __repr__(self) -> str:
        return f"<worst neighbour of {self.seen!r}>"

    def _curve(self, orders: FloatArray) -> FloatArray:
        """The largest loss; no other order is asked for."""
        return np.where(np.isinf(orders), math.inf if self.lost > 0.0 else self._largest_finite_loss, math.nan)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        log_lost = math.log(self.lost) if self.lost > 0.0 else -math.inf
        remove, add = (np.logaddexp(polygon.log_value(epsilons), log_lost) for polygon in self.polygons)
        return np.minimum(remove, 0.0), np.minimum(add, 0.0)


@dataclass(frozen=True)
class OneNeighbour(Event):
    """The pair of one neighbour, rounded down; with the votes that were cast first in both directions of a run."""

    seen: SeenVotes
    neighbour: int
    direction: Direction = DIRECTIONS[0]

    @property
    def adjacency(self) -> Adjacency:  # type: ignore[override]  # as the release
        return self.seen.adjacency

    def aim(self, delta: float | None, epsilon: float | None) -> OneNeighbour:
        """The neighbour by which one vote costs most at a delta, or else at an epsilon."""
        pairs = self.seen._pairs()
        cast = Pairs(*(part[:1] for part in pairs))
        low, high = 0.0 if epsilon is None else epsilon, float(pairs.largest_losses()[0])
        for _ in range(HALVINGS if delta is not None else 0):
            middle = (low + high) / 2
            above = delta is not None and cast.log_heights(np.array([middle]), -1)[0].max() > math.log(delta)
            low, high = (middle, high) if above else (low, middle)
        return replace(self, neighbour=int(np.argmax(cast.log_heights(np.array([low]), -1)[0, :, 0])))

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        """Nothing where no loss is seen."""
        seen = float(self._log_profile(np.zeros(1))[0][0]) > log_lost
        return [(replace(self, direction=direction), 1)] if seen else []

    def _profile_work(self) -> float:
        return 40.0 * self._rows().losses.size

    def _rows(self) -> Pairs:
        return Pairs(*(part[:, self.neighbour : self.neighbour + 1] for part in self.seen._pairs()))

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.seen._pairs().curve(self.neighbour, orders)

    def _profile_knots(self) -> Sequence[float]:
        return sorted({abs(loss) for loss in self._rows().losses[0, 0].tolist()} - {0.0})

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        first, second = self._rows().log_heights(epsilons, -1)[:, 0]
        remove, add = as_directed([first, second], self.direction)
        return remove, add


def as_directed(both: list[T], direction: Direction) -> list[T]:
    """What belongs to (P, Q) and to (Q, P), in the order of a profile's directions, where P comes first in one."""
    return both if direction == DIRECTIONS[0] else both[::-1]


class Polygon(NamedTuple):
    """Losses from 0 on, and the logs of a function of which the chords over e^loss are above a convex one."""

    losses: FloatArray
    logs: FloatArray

    @property
    def largest(self) -> float:
        """The largest loss, 0 where all is lost."""
        return float(self.losses[-1]) if self.logs[0] > -math.inf else 0.0

    def log_value(self, epsilons: FloatArray) -> FloatArray:
        k = np.clip(np.searchsorted(self.losses, epsilons, side="right"), 1, self.losses.size - 1)
        before, after = self.losses[k - 1], self.losses[k]
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            # (e^epsilon - e^before)/(e^after - e^before), which does not overflow
            share = np.exp(np.minimum(epsilons - after, 0.0)) * np.expm1(before - epsilons) / np.expm1(before - after)
            share = np.clip(share, 0.0, 1.0)
            found: FloatArray = np.logaddexp(self.logs[k - 1] + np.log1p(-share), self.logs[k] + np.log(share))
        return np.minimum(found, 0.0)


@remember(WHAT, 4096)
def polygons_of(noise: str, scale: float, votes: tuple[float, ...]) -> list[Polygon]:
    """Polygons through the largest profiles, of (P, Q) and of (Q, P), which have one value at 0.

    They have corners at the losses of those neighbours that are the worst somewhere.
    """
    pairs = pairs_of(noise, scale, votes)
    spend(20.0 * pairs.losses.size * 4 * COARSE, WHAT)
    found = []
    for way, largest in enumerate(pairs.largest_losses().tolist()):
        half = Pairs(*(part[way : way + 1] for part in pairs))
        coarse = largest * np.arange(COARSE) / COARSE
        worst = np.unique(half.log_heights(coarse, 1)[0].argmax(axis=0))
        losses = np.concatenate([half.losses[0, worst].ravel(), coarse[1:]])
        places = [0.0]
        for loss in np.unique(losses[losses < largest]).tolist():
            if loss > places[-1] + APART * largest:
                places.append(loss)
        logs = half.log_heights(np.array(places), 1)[0].max(axis=0)
        kept = np.isfinite(logs)
        kept[0] = True
        found.append(Polygon(np.append(np.array(places)[kept], largest), np.append(logs[kept], -math.inf)))
    found[0].logs[0] = found[1].logs[0] = max(found[0].logs[0], found[1].logs[0])
    return found


def cut(polygon: Polygon, log_lost: float) -> tuple[Polygon, float]:
    """The same less what it has where it first is below exp(log_lost), and that, rounded up: what may be lost."""
    end = int(np.argmax(polygon.logs <= log_lost))
    log_end = float(polygon.logs[end])
    if log_end == -math.inf:
        return polygon, 0.0
    lost = max(math.exp(log_end) * (1 + 1e-12), LEAST)
    if end == 0:
        return Polygon(np.array([0.0, 1.0]), np.full(2, -math.inf)), lost
    with np.errstate(divide="ignore"):
        less = polygon.logs[: end + 1] + np.log(-np.expm1(log_end - polygon.logs[: end + 1]))
    return Polygon(polygon.losses[: end + 1], less), lost
