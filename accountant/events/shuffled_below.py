"""What one round of shuffled reports costs at least: the sum of all reports' scores, for some inputs of all users.

Every report has a whole number for its score, which an attacker chooses; the sum of all scores modulo some number is a
function of the shuffled reports. Its distribution is known but for rounding where the others all have one input, by a
discrete Fourier transform. With the score (P0 - u P1)/R, R being the others' report, rounded to a grid, what it tells
at e^epsilon = u is what all reports do, but for the grid (Balle et al. 2019, Lemma 5.3). Proofs:
notebooks/mathematics.md, Prices from below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.adjacency import DIRECTIONS, Adjacency, Direction
from accountant.events.discrete_pair import DiscretePair
from accountant.events.event import Event
from accountant.events.from_below import FromBelow, pair_from_below
from accountant.events.race_thetas import IntArray
from accountant.events.randomized_response import PureDP, RandomizedResponse
from accountant.events.shuffled_attacks import FEW_USERS, ULP, Attack, attacks_on, worst_bits
from accountant.events.shuffled_crowds import MANY_USERS, log_normal_delta
from accountant.events.shuffled_inputs import Facts
from accountant.events.shuffled_rounds import operations_for_words
from accountant.events.shuffled_words import worst_words
from accountant.numerics.kernel import FloatArray
from accountant.patience import fits, keep, remember, spend

__all__ = ["BestAttack", "OneAttack", "pairs_below"]

WIDE = 20.0
"""Points of a transform for each standard deviation of the sum of scores: it is seldom taken for another."""

WIDER, FEW = (1.0, 4.0), 4000
"""How many times as many are tried of so few users: scores of unlikely reports are large, and few others hide them."""

LEFT = 2.0
"""For how many times what those take there must be patience."""

SPENT = 0.8
"""Share of the patience that is left that sums may take: what they tell is priced, too."""

FINE = 4.0
"""Standard deviations of one score, in units of the grid, where there is room."""

LEAST_POINTS, MOST_POINTS = 2**14, 2**18
"""Points of a transform."""

MOST_SCORES = 400
"""Different scores, at most; with more the grid is coarser."""

MOST_OUTCOMES = 4096
"""Outcomes that are told apart, at most."""

ROUNDING = 1e-12
"""Relative, of sums of outcomes."""

LARGEST_SHARE = 0.01
"""Relative error of probabilities from which on nothing is known."""

TERM, TRANSFORM = 16.0, 120.0
"""Operations (see `accountant.patience`) of a point for each score, and of the transforms."""

DELTAS, SHARES = (1e-2, 1e-4, 1e-6, 1e-9, 1e-12), (1.0, 0.8)
"""Deltas at whose epsilons scores are best, and at such shares of these."""

AIMED = 1.3, 1.15, 1.0, 0.9, 0.8, 0.6, 0.0
"""Shares of a given epsilon at which they are."""

CROWD = 40_000
"""Users from which on sums are nearly normal, and scores that are best at one epsilon nearly so at any."""

AIMS = 1e-1, 1e-6
"""Deltas that inputs in a run are chosen for."""

MOMENT = 2e8
"""Operations that are not counted: what has taken all its patience from above has a lower end, too."""

WHAT = "an attack on shuffled reports"


@dataclass(frozen=True)
class BestAttack(Event):
    """A single round whose inputs an attacker chooses for each epsilon."""

    local: Event
    users: int
    above: Event
    aim: float | None = None
    adjacency: Adjacency = field(default=Adjacency.REPLACE, init=False, repr=False)

    def at_epsilon(self, epsilon: float) -> BestAttack:
        """The same with inputs and scores that are best about this epsilon."""
        return replace(self, aim=epsilon)

    def _largest_loss(self) -> Fraction | float:
        return self.above._largest_loss()

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.above._curve(orders)

    def _profile_work(self) -> float:
        return 1e4

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        most = np.full(epsilons.shape, -math.inf)
        for pair in self._pairs():
            most = np.maximum(most, pair._log_profile(epsilons)[0] - 2 * ROUNDING)
        if self.users >= MANY_USERS:
            for attack in attacks_on(self.local):
                most = np.maximum(most, log_normal_delta(attack, self.users, epsilons))
        return most, most

    def _pairs(self) -> list[DiscretePair]:
        """All attacks' pairs, made once; what they take is counted whenever they are asked for."""
        words = operations_for_words(self.local, self.users)
        if self.aim is None:
            points = points_of(self.local, self.users, self.above)
        else:
            points = tuple(sorted({share * self.aim for share in AIMED}))
        pairs = pairs_below(self.local, self.users, points, words)
        made: tuple[tuple[ScorePair, ...], list[DiscretePair]] | None = self.__dict__.get("_directed")
        if made is None or made[0] is not pairs:
            made = pairs, [pair.directed(DIRECTIONS[0]) for pair in pairs]
            object.__setattr__(self, "_directed", made)
        return made[1]


@dataclass(frozen=True)
class OneAttack(FromBelow):
    """A round in a run of `times`, with the inputs that cost most there, about."""

    local: Event
    users: int
    above: Event
    times: int = 1
    adjacency: Adjacency = field(default=Adjacency.REPLACE, init=False, repr=False)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.above._curve(orders)

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        points = points_of(self.local, self.users, self.above)
        words = operations_for_words(self.local, self.users)
        return [(costliest(tried_on(self.local, self.users, points, words), self.times, direction), 1)]


class ScorePair(NamedTuple):
    """Probabilities of some outcomes: no more than with the first input, and no less than with the second."""

    likely: FloatArray
    other: FloatArray

    def directed(self, direction: Direction) -> DiscretePair:
        """The pair from below; for the other direction the individual's two inputs are exchanged."""
        return pair_from_below(self.likely, self.other, ROUNDING, direction)


def points_of(local: Event, users: int, above: Event) -> tuple[float, ...]:
    """Epsilons of which one is near any that may be asked: those at some deltas, and somewhat smaller ones; and 0."""
    return points_with(above, operations_for_words(local, users))


@remember(WHAT, 64)
def points_with(above: Event, words: float) -> tuple[float, ...]:
    """The same by the profile, with the worst data of words by so many operations."""
    epsilons = float(above._largest_loss()) * np.geomspace(1e-6, 1.0, 1000)
    logs = above._log_profile(epsilons)[0]
    at = [float(epsilons[np.count_nonzero(logs > math.log(delta))]) for delta in DELTAS if logs[-1] < math.log(delta)]
    return tuple(sorted({share * each for each in at for share in SHARES} | {0.0}))


class Tried(NamedTuple):
    """A round, the epsilons at which scores are best, operations for the worst words if any, and how many sums."""

    local: Event
    users: int
    points: tuple[float, ...]
    words: float
    sums: int


def pairs_below(local: Event, users: int, points: tuple[float, ...], words: float = 0.0) -> tuple[ScorePair, ...]:
    """What some attacks on a round tell, whose scores are best at these epsilons, and with the worst words if known."""
    return pairs_of(tried_on(local, users, points, words))


def tried_on(local: Event, users: int, points: tuple[float, ...], words: float) -> Tried:
    """What is tried is the same throughout a price: as many sums as there is patience for when it is asked first."""
    made = (tried_on, local, users, points)
    return Tried(local, users, points, words, keep(made, lambda: sums_that_fit(local, users, points)))


def sums_of(local: Event, users: int, points: tuple[float, ...]) -> list[tuple[Attack, float, float]]:
    """Attacks, the epsilons at which their scores are best, and how wide the grid is; what counts most comes first."""
    middle = len(points) // 2
    some = sorted(points, key=lambda point: abs(points.index(point) - middle)) if users < CROWD else [points[middle]]
    attacks = attacks_on(local)
    aimed = [(attack, point) for point in some for attack in attacks if not (attack.is_line and point != some[0])]
    return [(*each, WIDE * wider) for wider in (WIDER if users <= FEW else WIDER[:1]) for each in aimed]


def size_for(users: int) -> int:
    """Points of a transform."""
    return min(max(1 << math.ceil(math.log2(WIDE * FINE * math.sqrt(users))), LEAST_POINTS), MOST_POINTS)


def work_of(attack: Attack, size: int) -> float:
    """Operations of one attack's sums."""
    return size * (TERM * min(attack.others.size, MOST_SCORES) + TRANSFORM)


def sums_that_fit(local: Event, users: int, points: tuple[float, ...]) -> int:
    """How many there is patience for; of the wider ones all or none, and what is left is more than they take."""
    works = np.cumsum(works_of(local, users, points))
    few = works.size // len(WIDER) if users <= FEW else works.size
    if few < works.size and fits(LEFT * float(works[-1]) - MOMENT):
        return works.size
    return sum(fits(max(work - MOMENT, 0.0) / SPENT) for work in works[:few].tolist())


@lru_cache(maxsize=16)
def works_of(local: Event, users: int, points: tuple[float, ...]) -> tuple[float, ...]:
    """Operations of the sums of all attacks."""
    return tuple(work_of(attack, size_for(users)) for attack, _, _ in sums_of(local, users, points))


@remember(WHAT, 16)
def pairs_of(tried: Tried) -> tuple[ScorePair, ...]:
    """The same of what is tried."""
    local, users, points, words, sums = tried
    found, moment, size = list[ScorePair](), MOMENT, size_for(users)
    for attack, point, wide in sums_of(local, users, points)[:sums]:
        work = work_of(attack, size)
        spend(max(work - moment, 0.0), WHAT)
        moment = max(moment - work, 0.0)
        pair = pair_of_sums(attack, users, point, size, wide)
        if pair is not None:
            found.append(pair)
    if isinstance(local, RandomizedResponse):
        facts = Facts(local.bits, local.ones, local.length)
        if words:
            worst = worst_words(local.epsilon, facts, users, points, words)
            found += [pair for laws in worst if (pair := told_apart(*laws, 0.0, ROUNDING)) is not None]
        if local.bits == 1 and users <= FEW_USERS:
            several = worst_bits(local.epsilon, users, points)
            found += [pair for laws in several if (pair := told_apart(*laws, 0.0, ROUNDING)) is not None]
    return tuple(found)


@remember(WHAT, 16)
def costliest(tried: Tried, times: int, direction: Direction) -> Event:
    """The pair of which so many releases cost most, about: the largest product of costs at some deltas."""
    pairs = pairs_of(tried)
    if not pairs:
        return PureDP(0.0, Adjacency.REPLACE)
    return max(pairs, key=lambda pair: math.prod(about_costs(pair, times))).directed(direction)


def about_costs(pair: ScorePair, times: int) -> list[float]:
    """About what so many releases cost at those deltas, by the Rényi bound at some orders."""
    losses = np.log(pair.likely) - np.log(pair.other)
    orders = np.geomspace(1e-2, 1e3, 16)
    curve = np.logaddexp.reduce(np.log(pair.likely) + orders[:, None] * losses, axis=1) / orders
    return [max(float(np.min(times * curve - math.log(delta) / orders)), 0.0) for delta in AIMS]


def pair_of_sums(attack: Attack, users: int, point: float, size: int, wide: float = WIDE) -> ScorePair | None:
    """What the sum of all scores tells on a grid of `size` points, that many deviations wide; None where nothing."""
    first, second, others, accuracy, _ = attack
    kept = others > 0.0
    first, second, others = first[kept], second[kept], others[kept]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        values = math.exp(-point) * (first / others) - second / others
        values /= np.abs(values).max()
        if not np.isfinite(values).all():
            return None
    scores = rounded_scores(values, others, users, size, wide)
    if scores is None:
        return None
    places: IntArray = np.unique(scores)
    of_class = np.searchsorted(places, scores)
    accuracy += float(np.bincount(of_class).max()) * ULP
    laws = [np.asarray(np.bincount(of_class, law), dtype=np.float64) for law in (first, second, others)]
    sums, error = law_of_sums(places, laws[2], users - 1, size)
    both = np.zeros((2, size))
    for place, p, q in zip(places.tolist(), laws[0].tolist(), laws[1].tolist(), strict=True):
        moved = np.roll(sums, place)
        both[0] += p * moved
        both[1] += q * moved
    heaviest = float(laws[2].max()) * (1 - accuracy)
    share = users * (accuracy / heaviest + 2 * ULP) + (places.size + 2) * ULP
    error *= 1 + ROUNDING
    return told_apart(both[0], both[1], error, share) if share < LARGEST_SHARE else None


def rounded_scores(
    values: FloatArray, others: FloatArray, users: int, size: int, wide: float = WIDE
) -> IntArray | None:
    """The values on a grid on which the sum of `users` has a deviation of size/wide; far ones are cut off."""
    mean = float(others @ values)
    with np.errstate(under="ignore"):
        deviation = math.sqrt(float(others @ (values - mean) ** 2))
    if not 0.0 < deviation < math.inf:
        return None
    step = deviation * math.sqrt(users) * wide / size
    while True:
        scores = np.clip(np.rint((values - mean) / step), -size // 2, size // 2).astype(np.int64)
        different = np.unique(scores).size
        if different <= MOST_SCORES:
            return scores if different > 1 else None
        step *= 2.0


def law_of_sums(places: IntArray, masses: FloatArray, count: int, size: int) -> tuple[FloatArray, float]:
    """Probabilities of the sum of `count` independent scores modulo `size`, and what each of them may be off by.

    The transform phi of one score, with the heaviest at 0, is 1 + the sum of masses times e^(i w score) - 1, in which
    nothing cancels: phi is off by `off`, at most, and its power by count off (|phi| + off)^(count - 1).
    """
    heaviest = int(np.argmax(masses))
    frequencies = np.arange(size // 2 + 1)
    change, absolute = np.zeros(frequencies.size, dtype=complex), np.zeros(frequencies.size)
    for place, mass in zip((places - places[heaviest]).tolist(), masses.tolist(), strict=True):
        half = (frequencies * place) % size * (math.pi / size)
        sine = np.sin(half)
        change -= mass * (2.0 * sine * sine + 1j * np.sin(2.0 * half))
        absolute += 2.0 * mass * np.abs(sine)
    off = (places.size + 16.0) * ULP * absolute
    less = change.real * (2.0 + change.real) + change.imag**2
    length, angle = np.abs(1.0 + change), np.arctan2(change.imag, 1.0 + change.real)
    seen = length > 0.0
    # next to 0 phi is as it was added up: its square would lose half of the digits
    near, far = 0.5 * np.log1p(np.where(less > -0.5, less, 0.0)), np.log(np.where(seen, length, 1.0))
    log_length = np.where(less > -0.5, near, far)
    with np.errstate(under="ignore"):
        power = np.where(seen, np.exp(count * log_length + 1j * count * angle), 0.0)
        errors = count * off * (length + off) ** (count - 1.0)
        own = np.abs(power) * 8.0 * ULP * (2.0 + count * (np.abs(log_length) + np.abs(angle)))
        errors += np.where(seen, own, (length + off) ** float(count))
    error = 2.0 * float(np.sum(errors)) / size
    # of a transform of this length 16 log2(size) roundings of the 2-norm, as elsewhere
    error += 16.0 * math.log2(size) * ULP * math.sqrt(2.0 * float(np.sum(np.abs(power) ** 2))) / size
    moved = count * int(places[heaviest]) % size
    return np.roll(np.fft.irfft(power, size), moved), error


def told_apart(first: FloatArray, second: FloatArray, error: float, share: float) -> ScorePair | None:
    """The pair of these probabilities, which may be off by `error` and relatively by `share`.

    Unlikely ones are left out. Where there are many, those that are next to each other in their ratio are one.
    """
    likely, other = first * (1.0 - share) - error, np.maximum(second, 0.0) * (1.0 + share) + error
    good = (likely > error) & (likely > 1e-290) & (other > 1e-290)
    likely, other = likely[good], other[good]
    if not likely.size:
        return None
    if not float(likely.sum()) <= 1.0 + ROUNDING:
        raise ArithmeticError(f"outcomes of an attack on shuffled reports have probability {float(likely.sum())!r}")
    order = np.argsort(likely / other, kind="stable")
    ends = np.linspace(0, order.size, min(order.size, MOST_OUTCOMES) + 1).astype(np.int64)[:-1]
    return ScorePair(*(np.add.reduceat(each[order], ends) for each in (likely, other)))
