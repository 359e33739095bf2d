"""One round of the shuffle model: n users' local reports in random order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Annotated

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, shorten
from accountant.events.answers import Alone
from accountant.events.blanket import NO_GAIN, USERS, local_epsilon
from accountant.events.collision import Collision
from accountant.events.event import Event
from accountant.events.parameters import Range
from accountant.events.randomized_response import PureDP, RandomizedResponse
from accountant.events.registry import register
from accountant.events.shuffled_below import BestAttack, OneAttack
from accountant.events.shuffled_inputs import Facts
from accountant.events.shuffled_prices import delta_of_round, epsilon_of_round
from accountant.events.shuffled_rounds import (
    RACES,
    fewer_searched,
    has_many_bits,
    log_round_delta,
    log_searched_delta,
    logs_alone,
    may_race_many,
    operations_for_words,
    work_ahead,
)
from accountant.events.shuffled_words import log_profile_of_words, points_of_words
from accountant.events.word_laws import AHEAD as COUNTED_AHEAD
from accountant.numerics.exact import CURVE_ROUNDING
from accountant.numerics.finite_curves import finite_curve
from accountant.numerics.kernel import FloatArray
from accountant.patience import fits, remember, spend, tally_work

__all__ = ["Shuffled"]

STEPS = 16
"""Points of the grid per standard deviation of the loss."""

EACH = 16
"""One of so many points of the grid tells what all take."""

FALL, FAR_FALL, FAR = 0.7, 2.0, -23.0
"""By how much the log of the profile falls between two races, about; and the same from a log of it on."""

FEWEST = 4
"""Parts between every `EACH`-th point, at least, within so many standard deviations, where rounds that compose need
them."""

TERM, VALUE = 20.0, 2e4
"""Operations (see `accountant.patience`) of a point of the grid, at an order of the curve; and of a value of the
profile that is on a grid, about."""

WHAT = "the profile of a round of shuffled bits"

SURELY = 0.3
"""Share of what all values take, by those that were counted first, that is never too much: some may not be needed."""

AHEAD = 0.5
"""Log of how much smaller the bound by a race is where no other is looked at."""

SLOW = 3
"""Standard deviations to which there are `FEWEST` parts."""

KINKS, FEWEST_HIDE = 64, 20.0
"""Bits up to which points of the grid are moved to where the profile of a report alone has its kinks; and users, times
e^-epsilon0, below which it matters: they hide little."""

LEAST = -695.0
"""Log of the smallest value of the profile that is used."""


@register("shuffled")
@dataclass(frozen=True)
class Shuffled(Event):
    """One round of the shuffle model: n users' reports of one local randomizer, in random order.

    Priced by the dominating pair of the variation-ratio reduction (Wang et al. 2023; proved for these randomizers in
    `accountant.events.blanket`), and where several bits are flipped by the smallest of the bounds of
    `accountant.events.shuffled_rounds`: one round at one epsilon or delta as `accountant.shuffled_epsilon` has it. What
    composes is put on a grid of losses from above ("connect the dots", Doroshenko et al. 2022); profile, Rényi curve
    and composition are exact for the pair on the grid. The pair does not depend on the other users' inputs, so rounds
    compose, also adaptively (Zhu, Dong & Wang 2022, Thm 10). Adjacency is REPLACE: one user's input changes.

    No round costs more than one report does alone. The lower end of a certified interval is that of inputs of all
    users, the others' being the same, whose shuffled reports are known (notebooks/mathematics.md, Prices from below).
    Of any randomizer, of a single randomized bit and of sets of one or two entries the two ends nearly meet; so they do
    of words of known `length` of few users (two bits up to 140, three up to 13, four up to 5), whose worst data are
    found, fewer where epsilon is small. Of more bits they are some percent apart where about 2 e^epsilon0 users of
    known `length` or 10 e^epsilon0 others take part. Of fewer users, whom shuffling hides little, they are up to 4 %
    apart of two bits, two fifths of four, four fifths of eight.

    In small crowds, of about 40 e^epsilon0 users and fewer, many bits take long: one round of 17 at most the five
    seconds that a price may take by default, of 24 about ten, of 32 half a minute. Without that `patience` the epsilon
    of log(1/delta) e^epsilon0 users and more is up to a tenth larger; of fewer, up to 16 bits are refused, and of more
    bits the upper end may be many times the lower. Rounds that compose, and Rényi curves, take several times as long,
    of 17 bits half a minute.

    In a round all users run the same randomizer once, and nothing but the reports' content reaches the observer: a hash
    function is either common to all or drawn afresh by each user and part of the report, not known by its user.

    Parameters
    ----------
    local : float, RandomizedResponse, Collision or PureDP
        Local randomizer; a float stands for any with that pure-DP epsilon, in nats, [0, 500]. The inputs of any two
        users of randomized response, not only of neighbours, differ in at most `bits` bits: words of 5 bits whose
        owners may change 2 have ``bits=5``.
    n : int
        Users; [1, 1e12].

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    local: float | Event
    n: Annotated[int, Range(1, USERS)]
    adjacency: Adjacency = field(default=Adjacency.REPLACE, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        end = local_epsilon(self.local)
        if end > NO_GAIN:
            raise ParameterError(f"local = {shorten(self.local)} is {end:g}-DP; accepted: at most {NO_GAIN:g}")
        if not isinstance(self.local, Event):
            object.__setattr__(self, "local", end)

    @property
    def _records(self) -> int:  # type: ignore[override]
        return self.n

    @classmethod
    def examples(cls) -> tuple[Shuffled, ...]:
        return cls(1.0, 1000), cls(Collision(1.0, 2, 8), 1000)

    def caveats(self) -> tuple[str, ...]:
        inner = self.local.caveats() if isinstance(self.local, Event) else ()
        if not isinstance(self.local, RandomizedResponse):
            return inner
        bits, ones, length = self.local.bits, self.local.ones, self.local.length
        known = [f"the inputs of any two users, not of neighbours alone, differ in at most {bits} bits"]
        known += [f"no input has more than {ones} ones"] if ones else []
        known += [f"reports have at most {length} bits"] if length else []
        return (*inner, *known)

    def _local_event(self) -> Event:
        return self.local if isinstance(self.local, Event) else PureDP(self.local, self.adjacency)

    def _certain(self, times: int = 1) -> Event:
        if self.n == 1 or local_epsilon(self.local) == 0.0:
            return self
        local = self._local_event()
        return BestAttack(local, self.n, self) if times == 0 else OneAttack(local, self.n, self, times)

    def _price_alone(self) -> Alone | None:
        if self.n == 1 or local_epsilon(self.local) == 0.0:
            return None
        return Alone(partial(epsilon_of_round, self.local, self.n), partial(delta_of_round, self.local, self.n))

    def _curve(self, orders: FloatArray) -> FloatArray:
        if self.n == 1:
            return self._local_event()._curve(orders)
        curve, finite = np.full_like(orders, local_epsilon(self.local)), np.isfinite(orders)
        if not finite.any():
            return curve
        losses, log_masses = pair_of(self.local, self.n)
        found = np.empty(int(finite.sum()))
        finite_curve(orders[finite], log_masses, log_masses[::-1].copy(), losses, found)
        curve[finite] = np.minimum(found, curve[finite])
        return curve

    def _largest_loss(self) -> Fraction | float:
        return local_epsilon(self.local) * (1 + CURVE_ROUNDING)

    def _curve_work(self, rate: float = 1.0) -> float:
        if self.n == 1:
            return self._local_event()._curve_work(rate)
        return super()._curve_work(rate) + TERM * pair_of(self.local, self.n)[0].size

    def _profile_work(self) -> float:
        if self.n == 1:
            return self._local_event()._profile_work()
        return VALUE

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.n == 1:
            return self._local_event()._log_profile(epsilons)
        losses, log_masses = pair_of(self.local, self.n)
        upper, log_p = losses[losses >= 0], (log_masses + losses)[losses >= 0]
        both = np.empty_like(epsilons)
        with np.errstate(divide="ignore"):
            for i, epsilon in enumerate(epsilons.tolist()):
                both[i] = np.logaddexp.reduce(log_p + np.log(-np.expm1(np.minimum(epsilon - upper, 0.0))))
        return both, both

    def _profile_knots(self) -> Sequence[float]:
        if self.n == 1:
            return self._local_event()._profile_knots()
        losses, _ = pair_of(self.local, self.n)
        return [float(loss) for loss in losses if loss > 0]


def pair_of(local: float | Event, users: int) -> tuple[FloatArray, FloatArray]:
    """The pair on the grid, by the worst data of words of all users or of fewer, where there is time for that."""
    if words := operations_for_words(local, users):
        return grid_pair(local, users, (users, words))
    return grid_pair(local, users, fewer_searched(local, users), may_race_many(local, users))


@remember("the profile of a round of shuffled bits", 64)
def grid_pair(
    local: float | Event, users: int, words: tuple[int, float] = (0, 0.0), many: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Losses log P/Q of the pair on a grid, rising and symmetric about 0, and the logs of Q's masses there.

    `words` are users of whom the worst data of words are found, all or fewer, and operations for that; with
    races of `many` bits, if told so.
    The profile is convex in u, so the polygon through its values is above it, and so is their convex envelope. A
    mass of Q is the change of slope at its u; on the other side of u = 1 the pair is its own mirror image.
    """
    if local_epsilon(local) == 0.0:
        return np.zeros(1), np.zeros(1)
    if words[0] == users:
        points, values = profile_of_words(local, *words)
    else:
        points, values = profile_of(local, users, many)
        if words[0] and fits((1.0 + 2.0 * COUNTED_AHEAD) * words[1]):  # what is counted is ahead of what is done
            values = np.fmin(
                values, [log_searched_delta(local, words[0], point, words[1]) for point in points.tolist()]
            )
    # the profile is convex and its own mirror image: at u = 1 it is below the chord from 1/u to u, for every u
    with np.errstate(invalid="ignore"):
        chords = np.log((np.expm1(points[1:]) + 2 * np.exp(values[1:])) / (np.exp(points[1:]) + 1))
    values[0] = min(values[0], float(np.nanmin(chords)))
    corners, slopes = [0], list[float]()
    for b in range(1, points.size):
        # what does not fall, or is cut off, is passed over: the polygon then runs straight to the next point
        if b < points.size - 1 and not LEAST < values[b] < values[corners[-1]] - 1e-8:
            continue
        while True:
            a = corners[-1]
            fall = math.log(-math.expm1(values[b] - values[a])) - math.log(math.expm1(points[b] - points[a]))
            slope = values[a] - points[a] + fall
            if not slopes or slope < slopes[-1]:
                break
            corners.pop(), slopes.pop()
        corners.append(b)
        slopes.append(slope)
    losses, log_slopes = points[corners], np.array(slopes)
    after = np.append(log_slopes[1:], -math.inf)
    with np.errstate(divide="ignore"):
        log_q = log_slopes + np.log(-np.expm1(after - log_slopes))
    losses = losses[1:]
    middle = -math.expm1(float(np.logaddexp.reduce(np.logaddexp(log_q, log_q + losses))))
    if not middle > -1e-9:
        raise ArithmeticError(f"the pair of {local!r} beside {users - 1} users has mass {middle:g} at loss 0")
    return (
        np.concatenate([-losses[::-1], [0.0], losses]),
        np.concatenate([(log_q + losses)[::-1], [math.log(middle) if middle > 0 else -math.inf], log_q]),
    )


def profile_of_words(local: float | Event, users: int, most: float) -> tuple[FloatArray, FloatArray]:
    """Points, and logs of the profile by the worst data of words of few users."""
    assert isinstance(local, RandomizedResponse)
    facts = Facts(local.bits, local.ones, local.length)
    points = points_of_words(local.epsilon, local.bits, users)
    values = np.minimum(log_profile_of_words(local.epsilon, facts, users, most), logs_alone(local, points))
    return np.append(points, local_epsilon(local)), np.append(values, -math.inf)


def profile_of(local: float | Event, users: int, many: bool) -> tuple[FloatArray, FloatArray]:
    """The same by the smallest of other bounds, with races of many bits if told so."""
    once, each = work_ahead(local, users) if many or not has_many_bits(local) else (0.0, 0.0)
    spend(once + RACES * each, WHAT)
    with tally_work():
        points = grid(local, users)
    return points, log_values(local, users, points, each > 0.0)


def log_values(local: float | Event, users: int, points: FloatArray, may_race: bool) -> FloatArray:
    """Logs of the profile; it falls, and from where it is at most `LEAST` its value there stands for the rest.

    What all take is counted before they are computed: as much for each as every `EACH`-th and the last, in the mean.
    Where a race is far ahead at these, some more are run between them, and what remains is not computed (nan).
    """
    values, gains, counted = np.full(points.size, math.nan), np.zeros(points.size), list[float]()
    races, last = np.zeros(points.size, dtype=bool), points.size - 1
    anchors = sorted({*range(0, points.size - 1, EACH), points.size - 2})
    for before, i in zip([0, *anchors], anchors, strict=False):
        with tally_work() as work:
            values[i] = without = log_round_delta(local, users, float(points[i]), race=False)
        counted.append(work[0])
        whole = float(np.mean(counted)) * points.size
        if not fits(SURELY * whole):
            spend(whole, WHAT)
        if may_race:
            with tally_work():
                values[i] = min(without, log_round_delta(local, users, float(points[i]), slots=False))
            gains[i : i + EACH] = without - values[i]
            races[places_between(values, before, i)] = True
        if values[i] <= LEAST:
            last = i + 1
            break
    ahead = np.minimum(gains, np.append(gains[EACH:], np.full(EACH, gains[last - 1]))[: gains.size]) > AHEAD
    plains = ~ahead[:last]
    always = 0.5 * float(np.mean(counted[:-1]) + np.mean(counted[1:])) if counted[1:] else counted[0]
    spend(always * int(plains.sum()), WHAT)
    with tally_work():
        for i in np.flatnonzero(np.isnan(values[:last]) & (plains | races[:last])).tolist():
            values[i] = log_round_delta(local, users, float(points[i]), race=bool(races[i]), slots=not ahead[i])
            if values[i] <= LEAST:
                last = i + 1
                break
    values[last:] = values[last - 1]
    values[-1] = -math.inf
    return values


def places_between(values: FloatArray, before: int, last: int) -> list[int]:
    """Where races are run between two points at which they are anyway: at more where the profile falls fast."""
    if last == before:
        return []
    fall = float(values[before] - values[last]) / (FALL if values[before] > FAR else FAR_FALL)
    number = max(math.ceil(min(fall, EACH)), FEWEST if before < SLOW * STEPS else 1)
    return sorted({before + (last - before) * part // number for part in range(1, number)} - {before})


def grid(local: float | Event, users: int) -> FloatArray:
    """Epsilons from 0 to the local one: fine where most of the loss is, ever coarser beyond."""
    end = local_epsilon(local)
    # total variation of two unit normal distributions at a small distance is 0.4 times the distance
    step = min(2.5 * math.exp(log_round_delta(local, users, 0.0, race=False)), end / 8) / STEPS
    points = [step * i for i in range(min(8 * STEPS, int(end / step)))]
    while points[-1] + step < end:
        points.append(points[-1] + step)
        step = max(step, 0.04 * points[-1])
    found = np.array([*points, end])
    if isinstance(local, RandomizedResponse) and local.bits <= KINKS and users * math.exp(-end) < FEWEST_HIDE:
        knots = np.array(sorted(knot for knot in local._profile_knots() if points[1] < knot < points[-1]))
        places = np.clip(np.searchsorted(found, knots), 1, found.size - 2)
        places -= (places > 1) & (knots - found[places - 1] < found[places] - knots)
        found[places] = knots
    return found
