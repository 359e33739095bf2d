"""How much shuffling hides one report of a few randomized bits in a small crowd: a race for the place of the report.

Notation as in `accountant.events.shuffled_bits`: P0 and P1 are the report of the user whose input changes, R_1, ...,
R_(n-1) those of the others. G is any distribution, r_j = G/R_j at user j's report the rate of j's clock, and k > 0
that of the changed user's. Whoever's clock rings first changes places with the changed user: the observer is shown all
reports by name, after this exchange, and the time x of the ring. The shuffled reports are a function of this. With
independent v_j from R_j and a spare report s from G, Y_j = (P0 - u P1)/R_j at v_j, Y_0 = (P0 - u P1)/G at s and S the
sum of all r_j(v_j), the hockey-stick divergence of what is shown is the integral over x of

    e^(-k x) E e^(-x S) (k Y_0 + sum_j e^(x (r_j(v_j) - r_j(s))) Y_j)_+.

Nobody is given away, as in slots, but G should be near all R_j. If times come from few values x_l with
B sum_l w_l e^(-x_l B) <= 1 for B = k + S, the integral is a sum over l, and with the rest of the probability everything
may be told, which costs the local profile.

Given s, the sum has independent terms: with theta > 0 that depends on what s has in common with both inputs,

    E (X)_+ <= 1/pi int_0^inf E_s e^(theta k Y_0) prod_j |g_j(s, theta + i w)|/(theta^2 + w^2) dw,
    g_j(s, z) = E_v e^(-x r_j(v)) exp(z e^(x (r_j(v) - r_j(s))) Y_j(v)),

and by Hoelder's inequality the mean of the product is at most the largest, over kinds of users, of the mean of the
power |g_j|^(n-1).

G is uniform in the d bits in which the two inputs of the changed user differ, and there is a report of both elsewhere.
Where R_j differs from both inputs in m bits, from the first alone in k and from the second alone in i = d - k, rates
and values depend on how many of each were flipped. A bit of m more may be shown for user j, and a bit in which the two
inputs differ for everybody, so that only m = b - max(k, i) counts, and of odd d only d = b. Proofs:
notebooks/mathematics.md, Shuffled bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.events.race_kernels import fill_powers_at_ends, find_theta, log_mean_power, spread_of
from accountant.events.randomized_response import bernoulli_log_profile
from accountant.events.shuffled_inputs import Facts
from accountant.events.shuffled_sums import log_chords, place_nodes
from accountant.numerics.exponential_sums import sum_exponentials
from accountant.numerics.kernel import FloatArray
from accountant.numerics.special import log_binomial_pmf
from accountant.patience import spend

__all__ = ["LEAST_RACED", "RACED_BITS", "RACED_USERS", "log_race_delta"]

BoolArray = NDArray[np.bool_]

RACED_BITS, RACED_USERS = 8, 10**6
"""Most bits and users for which a race is computed: its work grows with the sixth power of the bits."""

LEAST_RACED = -50.0
"""Log of deltas below which no race is run."""

SHARE = 3e-3
"""Of what is expected, about: what times that are left out may add."""

SMALL = 6.0
"""Log of how much less than what is expected a time, or a spare report, may add for a rougher bound."""

SMALLER = 1.0
"""Log of how much less than expected a bound is before it is asked for again, by what it is."""

BESIDE = 2.0
"""The same for kinds beside the one for which thetas are good."""

CLOSE = 3.0
"""Log of how far below the worst kind, by the rougher bound, one is that may be the worst by the finer one."""

CLOCKS = 1.0, 3.0
"""Rates of the changed user's clock that are tried, over the mean rate at spare reports; any is valid."""

SEGMENTS = np.array([[0.0, 0.25, 14.0], [3.5, 0.7, 10.0], [10.5, 2.0, 15.0], [40.5, 4.0, 15.0]])
"""Start, distance and number of the nodes w, in units of one over the sum's deviation."""

PLACE = 6e4
"""Operations of a time and a number of bits that agree."""

PAIR, FINE = 60.0, 8.0
"""Operations that a pair of a report and a spare one takes, roughly; how many times as many it takes else."""

WHAT = "bounds on shuffled bits"

SLACK = 1e-8
"""Added to the logarithm for rounding."""


class Kind(NamedTuple):
    """One other user: reports with their probabilities, rates and logs of P0 and P1 over theirs.

    Then the same of spare reports by how many of the d bits agree with the first input: probabilities and rates.
    """

    masses: FloatArray
    rates: FloatArray
    log_first: FloatArray
    log_second: FloatArray
    spares: list[tuple[FloatArray, FloatArray]]


class Race(NamedTuple):
    """One question: users of these kinds beside a changed one whose inputs differ in so many bits, at u = e^point."""

    kinds: list[Kind]
    values: list[FloatArray]
    own: FloatArray  # Y_0, by bits that agree with the first input
    others: float
    log_known: float  # of the local profile
    expected: float
    work: float  # at one time


class Bound(NamedTuple):
    """Log of a bound, and what of it each kind would reach, if all others were of that kind."""

    total: float
    kinds: FloatArray


class Place(NamedTuple):
    """A time, its weight, the rate of the changed user's clock, and how many bits of the spare report agree with P0."""

    x: float
    log_weight: float
    clock: float
    agree: int


def log_race_delta(epsilon: float, facts: Facts, users: int, point: float, expected: float) -> float:
    """Log of an upper bound on H(e^point), point >= 0, of one changed report beside users - 1 others, at least two.

    `expected` is about what it may be: bounds are fine enough for that, and for less if they turn out to be less.
    """
    found = largest_of(epsilon, facts, users, point, expected)
    for _ in range(4):
        if not LEAST_RACED < found < expected - SMALLER:
            break
        expected = max(found, LEAST_RACED)
        found = min(found, largest_of(epsilon, facts, users, point, expected))
    return found + SLACK


def largest_of(epsilon: float, facts: Facts, users: int, point: float, expected: float) -> float:
    """The largest bound of any number of bits in which the inputs of the changed user differ."""
    largest, clock = -math.inf, 0.0
    clocks: tuple[float, ...]
    for bits, numbers in families(facts):
        if point >= bits * epsilon:
            continue
        race = prepare(epsilon, bits, numbers, users, point, expected)
        clocks = (clock,)
        if not clock:
            middle = mean_rate(race.kinds)
            clocks = tuple(share * middle for share in CLOCKS)
        clock, rough = min(((each, bound(race, each)) for each in clocks), key=lambda each: each[1].total)
        if rough.total > largest:
            largest = max(largest, min(rough.total, bound(race, clock, rough.kinds).total))
    return largest


def families(facts: Facts) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
    """Numbers d of bits in which the changed inputs differ, and the kinds (m, k, d - k) of others."""
    bits, length = facts.bits, facts.length
    for d in range(bits, 0, -1):
        if length or d == bits or d % 2 == 0:
            room = length - d if length else bits
            yield d, [(min(bits - max(k, d - k), room), k, d - k) for k in range(d + 1)]


def prepare(
    epsilon: float, bits: int, numbers: list[tuple[int, int, int]], users: int, point: float, expected: float
) -> Race:
    """Values at u = e^point."""
    kinds = [kind_of(epsilon, *each) for each in numbers]
    values = [np.exp(each.log_first) * -np.expm1(each.log_second + point - each.log_first) for each in kinds]
    agree, log_even = np.arange(bits + 1.0), bits * math.log(0.5 * (1.0 + math.exp(-epsilon)))
    # P0/G and P1/G: a bit that agrees has t/(1+t) against 1/2, and else 1/(1+t)
    logs = -log_even - (bits - agree) * epsilon, -log_even - agree * epsilon
    own = np.exp(logs[0]) * -np.expm1(logs[1] + point - logs[0])
    known = float(bernoulli_log_profile(epsilon, bits, np.array([point]))[0]) + 1e-12
    pairs = sum(each.masses.size * sum(rates.size for _, rates in each.spares) for each in kinds)
    return Race(kinds, values, own, users - 1.0, known, min(expected, known), PAIR * pairs)


@lru_cache(maxsize=256)
def kind_of(epsilon: float, m: int, k: int, i: int) -> Kind:
    """A user whose input differs from both in m bits, from the first alone in k, from the second alone in i."""
    flipped, log_even = 1.0 / (1.0 + math.exp(epsilon)), (k + i) * math.log(0.5 * (1.0 + math.exp(-epsilon)))
    shared, first, second = (each.ravel() for each in np.indices((m + 1, k + 1, i + 1)))
    masses = probabilities(m, flipped)[shared] * probabilities(k, flipped)[first] * probabilities(i, flipped)[second]
    log_shared = (2.0 * shared - m) * epsilon
    return Kind(
        masses,
        np.exp(log_shared + log_even + (first + second) * epsilon),
        log_shared + (2.0 * first - k) * epsilon,
        log_shared + (2.0 * second - i) * epsilon,
        [spare_reports(epsilon, (m, k, i), agree) for agree in range(k + i + 1)],
    )


def spare_reports(epsilon: float, numbers: tuple[int, int, int], agree: int) -> tuple[FloatArray, FloatArray]:
    """Probabilities and rates of reports from G of which so many bits agree with the first input.

    The bits of m agree with that input with probability t/(1+t); equal rates are added up.
    """
    m, k, i = numbers
    shared, told = probabilities(m, 1.0 / (1.0 + math.exp(-epsilon))), dict[int, float]()
    for first in range(max(0, agree - i), min(k, agree) + 1):
        share = math.comb(k, first) * math.comb(i, agree - first) * 0.5 ** (k + i)
        for same in range(m + 1):
            power = 2 * same - m + i - agree + 2 * first
            told[power] = told.get(power, 0.0) + share * float(shared[same])
    log_even = (k + i) * math.log(0.5 * (1.0 + math.exp(-epsilon)))
    return np.array(list(told.values())), np.exp(log_even + epsilon * np.array(list(told), dtype=float))


def probabilities(number: int, chance: float) -> FloatArray:
    """Binomial probabilities, which add up to 1."""
    if number == 0:
        return np.ones(1)
    found = np.exp([log_binomial_pmf(float(number), float(count), chance) for count in range(number + 1)])
    return np.asarray(found / found.sum())


def mean_rate(kinds: list[Kind]) -> float:
    """The largest mean rate of the others' clocks at spare reports."""
    return max(float(each.masses @ each.rates**2) for each in kinds)


def bound(race: Race, clock: float, rough: FloatArray | None = None) -> Bound:
    """The bound, rougher or, by that, with thetas that are good for the worst kind and integrals where they count."""
    share = SHARE * math.exp(max(race.expected - race.log_known, LEAST_RACED))
    low = clock + race.others * min(float(each.rates.min()) for each in race.kinds)
    times = sum_exponentials(low, most_rates(race, clock, math.log(share)), share)
    told = math.log(times.short + share) + race.log_known
    found, starts = np.full(len(race.kinds), -math.inf), dict[int, float]()
    nearest = np.argsort(np.abs(np.log(times.places * race.others)))
    for x, weight in zip(times.places[nearest].tolist(), times.weights[nearest].tolist(), strict=True):
        log_weight = math.log(weight) - x * clock
        log_all = log_weight + log_chance(race, clock, x) + race.log_known
        if log_all < race.expected - SMALL:
            told = float(np.logaddexp(told, log_all))
            continue
        spend(race.own.size * PLACE + race.work * (1.0 if rough is None else FINE), WHAT)
        parts = np.full(len(race.kinds), -math.inf)
        for agree in range(race.own.size):
            place = Place(x, log_weight, clock, agree)
            theta, most = tilt(race, place, rough, starts.get(agree))
            starts[agree] = theta
            if rough is not None and race.expected - SMALL < float(most.max()) < math.inf:
                close = (rough > rough.max() - CLOSE) & (most > race.expected - SMALL)
                # what overflows, such as the spread of a value cut off, is not a number: the rougher bound stays
                most = np.fmin(most, log_integrals(race, place, theta, most, close))
            parts = np.logaddexp(parts, most)
        if float(parts.max()) <= log_all:
            found = np.logaddexp(found, parts)
        else:
            told = float(np.logaddexp(told, log_all))
    return Bound(float(np.logaddexp(told, found.max())), found)


def most_rates(race: Race, clock: float, log_share: float) -> float:
    """A sum of all rates that is exceeded with no more than that probability, by Chernoff's bound on every kind."""
    largest = max(float(each.rates.max()) for each in race.kinds)
    powers = np.geomspace(0.01, 30.0, 25) / largest
    logs = [np.log1p(np.expm1(power * each.rates) @ each.masses) for each in race.kinds for power in powers]
    logs = np.max(np.reshape(logs, (len(race.kinds), powers.size)), axis=0)
    return float(np.min((race.others * logs + powers * clock - log_share) / powers))


def log_chance(race: Race, clock: float, x: float) -> float:
    """Log of a bound on E (k + S) e^(-x S), what the weight of a time is multiplied by for its probability."""
    mean = max(1.0 + float(each.masses @ np.expm1(-x * each.rates)) for each in race.kinds)
    rate = max(float(each.masses @ (each.rates * np.exp(-x * each.rates))) for each in race.kinds)
    return (race.others - 1.0) * math.log(mean) + math.log(clock * mean + race.others * rate)


def tilt(race: Race, place: Place, before: FloatArray | None, start: float | None) -> tuple[float, FloatArray]:
    """A good theta for one kind, or, where that is bad for others, for the worst there, and logs of what all add.

    That is at most E_s e^(theta k Y_0) g^(n-1)/(2 theta) times the weight. `start` is one that is good nearby.
    """
    kind = len(race.kinds) // 2 if before is None else int(before.argmax())
    theta = start or 3.0 / math.sqrt(race.others * float(race.kinds[kind].masses @ race.values[kind] ** 2))
    own, seen = place.clock * float(race.own[place.agree]), set[int]()
    best = theta, np.full(len(race.kinds), math.inf)
    while kind not in seen and len(seen) < 3:
        seen.add(kind)
        theta = find_theta(theta, own, place.x, race.others, *reports(race, kind, place.agree))
        powers = [
            log_mean_power(theta, place.x, race.others, *reports(race, each, place.agree))
            for each in range(len(race.kinds))
        ]
        with np.errstate(invalid="ignore"):  # theta may be infinite: what is not a number is never the least
            rough = place.log_weight + theta * own + np.array(powers) - math.log(2.0 * theta)
        if rough.max() < best[1].max():
            best = theta, rough
        kind = int(rough.argmax())
        if before is not None and rough[kind] < race.expected - BESIDE:
            break
    return best


def reports(race: Race, kind: int, agree: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Of one kind, and the spare ones, as kernels take them."""
    one = race.kinds[kind]
    return one.masses, one.rates, race.values[kind], *one.spares[agree]


def log_integrals(race: Race, place: Place, theta: float, rough: FloatArray, close: BoolArray) -> FloatArray:
    """Logs of what kinds add, of some of them by the integral over w."""
    x, log_weight, clock, agree = place
    log_own = theta * clock * float(race.own[agree]) + log_weight
    masses, rates, values, spare_masses, spare_rates = reports(race, int(rough.argmax()), agree)
    spreads = [spread_of(theta, x, masses, rates, values, rate) for rate in spare_rates.tolist()]
    deviation = math.sqrt(race.others * float(np.average(spreads, weights=spare_masses)))
    if not 0.0 < deviation < math.inf:
        return rough
    nodes, segments = place_nodes(1.0 / deviation, SEGMENTS)
    found = rough.copy()
    for kind in np.flatnonzero(close).tolist():
        ends, top = np.empty((2, nodes.size - 1)), float(rough[kind]) + math.log(2.0 * theta)
        fill_powers_at_ends(theta, x, race.others, top - log_own, *reports(race, kind, agree), segments, ends)
        found[kind] = float(log_chords(theta, nodes, ends[0], ends[1])) + top
    return found
