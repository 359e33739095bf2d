"""What an attacker is certain to learn from answers "above" and "below" a noisy threshold: streams that he could ask.

In rounds he asks many queries far below the threshold, which all move with it, and some probes, which move the other
way: on one input "below" to all of the former and "above" to a probe are likely, on the other less so. What he sees is
the round in which the first answer was "above", and to how many probes (notebooks/mathematics.md, Noisy comparisons).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.adjacency import Adjacency, Direction
from accountant.events.discrete_pair import DiscretePair
from accountant.events.event import Event
from accountant.events.from_below import FromBelow, pair_from_below
from accountant.numerics.kernel import FloatArray
from accountant.numerics.scipy_special import log_ndtr
from accountant.numerics.special import log_binomial_pmf
from accountant.patience import spend

__all__ = ["AttackedStream", "Stream", "bound_chances", "log_chances"]

ROUNDS, PROBES = 3, 16
"""Rounds of an attack, and probes of each, at most."""

MANY = 10_000
"""Queries that are asked of a stream without an end."""

NODES, COARSE = 8193, 401
"""Values of the threshold's noise at which chances are known: for the pair, and for the choice of what is asked."""

LOOKS, STARTS = 250, 3
"""Streams that are tried from each start."""

VALUE = 60.0
"""Operations (see `accountant.patience`) of a chance at a value of the noise."""

ROUNDING = 1e-11
"""More than the relative rounding of a chance."""

HIGHEST = 2.5
"""Standard deviations of the loss up to which an order is looked for, where several streams are attacked."""


class Stream(NamedTuple):
    """Noise on threshold and queries; lengths are in units of the sensitivity. `queries` is 0 for any number."""

    threshold_noise: str
    threshold_scale: float
    query_noise: str
    query_scale: float
    tops: int
    queries: int
    monotone: bool

    @property
    def size(self) -> float:
        """About the largest standard deviation of the loss."""
        moved = (1.0 if self.monotone else 2.0) / self.query_scale
        return math.hypot(1 / self.threshold_scale, moved)

    def rounds(self) -> tuple[int, int, int]:
        """Numbers of rounds, and of queries and probes in each."""
        most = self.queries or MANY
        probes = min(self.tops, PROBES, most)
        rounds = max(min(ROUNDS, most // (2 * probes)), 1)
        return rounds, most // rounds - probes, probes

    def ways(self) -> list[tuple[float, float]]:
        """How the queries far below, and the probes, move on the other input."""
        return [(1.0, 0.0), (0.0, -1.0)] if self.monotone else [(1.0, -1.0)]


def log_cdf(noise: str, x: FloatArray) -> FloatArray:
    """Of a standard normal value, or of Laplace(0, 1)."""
    if noise == "gaussian":
        return np.asarray(log_ndtr(x))
    tail = np.exp(-np.abs(x)) / 2
    return np.where(x < 0, -np.abs(x) - math.log(2.0), np.log1p(-tail))


def log_chances(stream: Stream, asked: Sequence[float], moves: tuple[float, float], noise: FloatArray) -> FloatArray:
    """Logs of density times chance of every outcome, in rows, at values of the threshold's noise.

    `asked` has the value of the queries far below and that of the probes, of each round. All rows are concave in the
    noise: those of powers of distribution functions, of what these lack of 1, and of products of such.
    """
    rounds, many, probes = stream.rounds()
    scaled = noise / stream.threshold_scale
    density = -scaled * scaled / 2 - 0.5 * math.log(2 * math.pi)
    if stream.threshold_noise != "gaussian":
        density = -np.abs(scaled) - math.log(2.0)
    before, rows = density - math.log(stream.threshold_scale), []
    with np.errstate(divide="ignore", under="ignore"):
        for i in range(rounds):
            below, probed = ((noise - asked[2 * i + j] - moves[j]) / stream.query_scale for j in range(2))
            if many:
                passed = many * log_cdf(stream.query_noise, below)
                few = math.log(many) + log_cdf(stream.query_noise, -below)
                rows.append(before + np.where(passed > -1e-12, few, np.log(-np.expm1(passed))))
                before = before + passed
            no, yes = log_cdf(stream.query_noise, probed), log_cdf(stream.query_noise, -probed)
            rows += [before + log_choose(probes, j) + j * yes + (probes - j) * no for j in range(1, probes + 1)]
            before = before + probes * no
    return np.array([*rows, before])


def log_choose(n: int, k: int) -> float:
    return log_binomial_pmf(float(n), float(k), 0.5) + n * math.log(2.0)


def bound_chances(logs: FloatArray, step: float) -> tuple[FloatArray, FloatArray]:
    """Bounds on integrals of functions with concave logs, known at nodes `step` apart, in rows.

    Below: chords of the logs. Above, from each node halfway to the next: the chord that ends there, continued; beyond
    the last nodes likewise.
    """
    rise = np.diff(logs, axis=1)
    start, end = logs[:, 1:], logs[:, :-1]
    with np.errstate(under="ignore", divide="ignore", over="ignore", invalid="ignore"):
        lower = step * np.sum(np.exp(end + log_share(rise)), axis=1)
        onward, back = np.exp(start + log_share(rise / 2)), np.exp(end + log_share(-rise / 2))
        inner = step / 2 * (np.sum(onward[:, :-1], axis=1) + np.sum(back[:, 1:], axis=1))
        # of the outer cells the halves that are left, at most all of them, and what is beyond
        outer = np.exp(logs[:, 1] + log_share(-rise[:, 1])) + np.exp(logs[:, -2] + log_share(rise[:, -2]))
        outer += np.exp(logs[:, 0]) / np.maximum(rise[:, 0], 0.0) + np.exp(logs[:, -1]) / np.maximum(-rise[:, -1], 0.0)
        # of what is no float and does not fall beyond nothing is known
        upper = np.nan_to_num(inner + step * outer, nan=1.0)
    return lower * (1 - ROUNDING), np.minimum(upper, 1.0) * (1 + ROUNDING) + 1e-300


def log_share(x: FloatArray) -> FloatArray:
    """Log of (e^x - 1)/x."""
    size = np.abs(x)
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        far = np.log(-np.expm1(-size)) - np.log(size) + np.maximum(x, 0.0)
    return np.where(size < 1e-8, x / 2, far)


UNTOLD = 1e3
"""Below the log of any delta: of streams that tell nothing at an epsilon the one is chosen whose losses are nearest."""


class Aim(NamedTuple):
    """What a stream is chosen for: epsilon at a delta, the divergence of an order above 1, or delta at an epsilon.

    Of the latter two `delta` says how much of the threshold's noise counts.
    """

    delta: float
    order: float | None
    epsilon: float | None = None

    def worth(self, p: FloatArray, q: FloatArray) -> float:
        with np.errstate(divide="ignore", over="ignore"):
            losses = np.log(p) - np.log(q)
            if self.epsilon is not None:
                told = float(np.sum(p * -np.expm1(np.minimum(self.epsilon - losses, 0.0))))
                return math.log(told) if told > 0.0 else float(np.max(losses)) - self.epsilon - UNTOLD
            if self.order is not None:
                top = float(np.max(self.order * losses + np.log(q)))
                return top + math.log(float(np.sum(np.exp(self.order * losses + np.log(q) - top))))
        falling = np.argsort(-losses)
        first, second = np.cumsum(p[falling]), np.cumsum(q[falling])
        enough = first > self.delta
        if not enough.any():
            return float(first[-1]) - 1.0
        return float(np.max(np.log(first[enough] - self.delta) - np.log(second[enough])))


def reach_of(stream: Stream, log_left: float) -> float:
    """Where less than exp(log_left) of the threshold's noise lies beyond, about."""
    left = max(-log_left, 1.0)
    return stream.threshold_scale * (math.sqrt(2 * left) if stream.threshold_noise == "gaussian" else left)


@lru_cache(maxsize=64)
def choose_stream(stream: Stream, aim: Aim) -> tuple[tuple[float, ...], tuple[float, float]]:
    """Values of the queries, and how they move, that serve an aim about best; any would be an attack."""
    from scipy.optimize import minimize

    rounds, many, probes = stream.rounds()
    spend(VALUE * COARSE * rounds * (probes + 2) * LOOKS * STARTS * 2 * len(stream.ways()), "the choice of a stream")
    noise = np.linspace(-1.0, 1.0, COARSE) * reach_of(stream, math.log(aim.delta) - 5.0)
    unit, best = noise[1] - noise[0], (math.inf, (0.0,) * (2 * rounds), stream.ways()[0])
    tail = math.sqrt(2 * math.log(max(many, 2)))
    if stream.query_noise != "gaussian":
        tail = math.log(max(many, 2))

    for moves in stream.ways():

        def lack(asked: FloatArray, moves: tuple[float, float] = moves) -> float:
            p, q = (
                np.exp(log_chances(stream, asked.tolist(), each, noise)).sum(axis=1) * unit + 1e-290
                for each in ((0.0, 0.0), moves)
            )
            return -aim.worth(p, q)

        for start in range(STARTS):
            height = stream.threshold_scale * (0.5 + 1.5 * start)
            asked = [
                at
                for i in range(rounds)
                for at in (
                    height - stream.query_scale * (tail - 0.3 * i),
                    height - stream.query_scale * (1.0 - 0.3 * i),
                )
            ]
            found = minimize(lack, asked, method="Nelder-Mead", options={"maxfev": LOOKS, "fatol": 1e-12})
            if found.fun < best[0]:
                best = float(found.fun), tuple(found.x.tolist()), moves
    return best[1], best[2]


@dataclass(frozen=True)
class AttackedStream(FromBelow):
    """A stream against whose answers an attacker compares; it is chosen for so many in a run.

    One by itself may be chosen for an epsilon at which delta is asked.
    """

    stream: Stream
    above: Event
    times: int = 1
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    epsilon: float | None = None

    def at_epsilon(self, epsilon: float) -> Event:
        """The stream that tells most at an epsilon."""
        return replace(self, epsilon=epsilon)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.above._curve(orders)

    @property
    def limit_reached(self) -> bool:  # type: ignore[override]
        """With Laplace noise, where so many answers "below" hold the threshold up that every "above" is far out."""
        plain = self.stream.threshold_noise == self.stream.query_noise == "laplace"
        held = self.stream.queries - self.stream.tops
        needed = self.stream.tops + self.stream.query_scale / self.stream.threshold_scale
        return plain and (self.stream.queries == 0 or held > needed)

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        return [(attack_pair(self.stream, self._aim(log_lost), direction), 1)]

    def _aim(self, log_lost: float) -> Aim:
        """A delta that is far above what may be lost; of several streams what they add to it."""
        log_delta = round(min(max(log_lost + BEYOND, LEAST), -0.5), 1)
        if self.times == 1:
            return Aim(math.exp(log_delta), None, self.epsilon)
        deep = math.sqrt(max(-2 * (log_delta + math.log(self.times)), 1.0) / self.times)
        return Aim(math.exp(log_delta), 1 + min(deep, HIGHEST) / self.stream.size)


LEAST = -700.0
"""Log of the smallest delta that a stream is chosen for."""

BEYOND = 16.0
"""Log of how much less than delta, for each release, is left out of a run."""


@lru_cache(maxsize=64)
def attack_pair(stream: Stream, aim: Aim, direction: Direction) -> DiscretePair:
    """The pair of answers to a stream that is likely and to one that is less so, from below in that direction."""
    asked, moves = choose_stream(stream, aim)
    noise = np.linspace(-1.0, 1.0, NODES) * reach_of(stream, math.log(aim.delta) - 20.0)
    step = float(noise[1] - noise[0])
    likely = bound_chances(log_chances(stream, asked, (0.0, 0.0), noise), step)[0]
    other = bound_chances(log_chances(stream, asked, moves, noise), step)[1]
    kept = likely > 1e-250
    likely, other = likely[kept], other[kept]
    return pair_from_below(likely, other, ROUNDING, direction)
