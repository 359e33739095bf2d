"""How much shuffling hides one report of a few randomized bits in a small crowd: a race for the place of the report.

Notation as in `accountant.events.shuffled_bits`: P0 and P1 are the report of the user whose input changes, R_1, ...,
R_(n-1) those of the others. G is any distribution, c_j > 0 user j's speed, r_j = c_j G/R_j at the report the rate of
j's clock, and k > 0 that of the changed user's. Whoever's clock rings first changes places with the changed user: the
observer is shown all reports by name, after this exchange, and the time x of the ring. The shuffled reports are a
function of this. With independent v_j from R_j and a spare report s from G, Y_j = c_j (P0 - u P1)/R_j at v_j,
Y_0 = (P0 - u P1)/G at s and S the sum of all r_j(v_j), the hockey-stick divergence of what is shown is the integral
over x of

    e^(-k x) E e^(-x S) (k Y_0 + sum_j e^(x (r_j(v_j) - r_j(s))) Y_j)_+.

Nobody is given away, as in slots, but G should be near all R_j. If times come from few values x_l with
B sum_l w_l e^(-x_l B) <= 1 for B = k + S, the integral is a sum over l, and with the rest of the probability everything
may be told, which costs the local profile.

Given s, the sum has independent terms: with theta > 0 that depends on what s has in common with both inputs,

    E (X)_+ <= 1/pi int_0^inf E_s e^(theta k Y_0) prod_j |g_j(s, theta + i w)|/(theta^2 + w^2) dw,
    g_j(s, z) = E_v e^(-x r_j(v)) exp(z e^(x (r_j(v) - r_j(s))) Y_j(v)),

and by Hoelder's inequality the mean of the product is at most the largest, over kinds of users, of the mean of the
power |g_j|^(n-1).

Which G, which speeds, and the kinds of users that count: `accountant.events.race_crowds`. Proofs:
notebooks/mathematics.md, Shuffled bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accountant.events.race_crowds import Crowd, crowd_of, families
from accountant.events.race_kernels import COUNTS, NEAREST, POWERS, fill_powers_at_ends, find_deviation
from accountant.events.race_thetas import Reports, Spares, fill_thetas
from accountant.events.randomized_response import bernoulli_log_profile
from accountant.events.shuffled_inputs import Facts
from accountant.events.shuffled_sums import log_chords
from accountant.numerics.exponential_sums import sum_exponentials
from accountant.numerics.kernel import FloatArray
from accountant.patience import remember, spend

__all__ = ["LEAST_RACED", "RACED_BITS", "RACED_USERS", "log_race_delta"]


RACED_BITS, RACED_USERS = 16, 10**6
"""Most bits and users for which a race is computed: its work grows with the sixth power of the bits."""

LEAST_RACED = -50.0
"""Log of deltas below which no race is run."""

SHARE = 3e-3
"""Of what is expected, about: what times that are left out may add."""

SMALL = 6.0
"""Log of how much less than what is expected a time, or a spare report, may add for a rougher bound."""

SMALLER, ROUNDS = 1.0, 5
"""Log of how far a bound is from what was expected before it is asked for again, by what it is; how often at most."""

BESIDE = 2.0
"""Log of how much less than expected the kinds add together, at a time, for no better theta to be sought."""

USUAL, GAIN = 1.5, 2.0
"""Logs of what the finer bound gains, about, and of more than that where it counts."""

LITTLE = 6.0
"""Log of how much less than all cells those are that keep the rougher bound."""

STEPS = 2.0, 0.5, math.sqrt(2.0), math.sqrt(0.5)
"""Ratios of rates of the changed user's clock that lead, from the mean rate at spare reports on, to better ones."""

SLOWER = 0.1, -0.1
"""Steps, over epsilon, of how much slower others' clocks are by every bit that differs from the first input."""

FALLEN = 4.0
"""Log of how much less than expected a bound is before a clock is sought again."""

ANCHORS = 48
"""In so many parts of epsilon0 one clock serves all points."""

BETTER = 0.02
"""Log of how much less a bound is, at least, for a step to be taken; any clock is valid."""

NODES = NEAREST * np.cumsum(np.concatenate([[0.0], np.repeat(np.cumprod(np.array(POWERS, dtype=float)), COUNTS)]))
"""Places w, in units of one over the sum's deviation."""

LEAST_SPREAD = 1e-100
"""Theta times a deviation below which no phase differs from another: an integral says nothing more."""

PLACE, REPORT = 8e3, 200.0
"""Operations of a time and a number of bits that agree, and of a time and a report."""

CELL, PAIR = 8e4, 50.0
"""The same of an integral over w: once, and for every pair of a report and a spare one."""

TIMES = 12.0
"""How many a bound takes, about."""

MOST_SEEN, SEEN = 250.0, 100.0
"""Clocks that are tried in a search, about: for inputs that differ in most bits, and in each number of fewer."""

WHAT = "bounds on shuffled bits"

ROUNDING = 2e-15
"""Of the local epsilon: what differences of logarithms of likelihood ratios, each of three terms, may be off by."""

SLACK = 1e-8
"""Added to the logarithm for rounding."""


class Clocks(NamedTuple):
    """A rate of the changed user's clock over the mean rate at spare reports, and how much slower others' clocks are.

    With the log of about what H may be where these are good: bounds are fine enough for that.
    """

    share: float = 1.0
    slower: float = 0.0
    log_delta: float = 0.0


class Race(NamedTuple):
    """One question: users of these kinds beside a changed one whose inputs differ in so many bits, at u = e^point."""

    crowd: Crowd
    values: FloatArray  # of all reports
    own: FloatArray  # Y_0, by bits that agree with the first input
    others: float
    log_known: float  # of the local profile
    expected: float
    work: float  # at one time, of the rougher bound


class Cells(NamedTuple):
    """Logs of what is added at times, for numbers of bits of a spare report that agree, if all others are of one kind.

    Thetas are the same for all kinds. The clock, and what other times add at most, too.
    """

    clock: float
    log_told: float
    places: FloatArray
    log_times: FloatArray
    log_alls: FloatArray  # of times, if everything is told at them
    log_thetas: FloatArray  # by times and numbers
    log_adds: FloatArray  # by times, numbers and kinds


def log_race_delta(epsilon: float, facts: Facts, users: int, point: float) -> float:
    """Log of an upper bound on H(e^point), point >= 0, of one changed report beside users - 1 others, at least two."""
    place = ANCHORS * point / (facts.bits * epsilon)
    anchors = [min(int(place) + k, ANCHORS - 1) for k in range(2)]
    near = [min(clocks_near(epsilon, facts, users, anchor, 0).log_delta, 0.0) for anchor in anchors]
    log_delta, found = near[0] + (place - int(place)) * (near[1] - near[0]) - USUAL, math.inf
    for _ in range(ROUNDS):
        expected = max(log_delta, LEAST_RACED)
        log_delta = largest_of(epsilon, facts, users, point, expected)
        found = min(found, log_delta)
        if found <= LEAST_RACED or abs(log_delta - expected) < SMALLER:
            break
    return found + SLACK


def largest_of(epsilon: float, facts: Facts, users: int, point: float, expected: float) -> float:
    """The largest bound of any number of bits in which the inputs of the changed user differ.

    `expected` is the log of about what H may be: bounds are fine enough for that.
    """
    anchor, largest = min(round(ANCHORS * point / (facts.bits * epsilon)), ANCHORS - 1), -math.inf
    for family, (bits, numbers) in enumerate(families(facts)):
        if point >= bits * epsilon:
            continue
        # those of the family before often do
        for own in range(max(family - 1, 0), family + 1):
            near = clocks_near(epsilon, facts, users, anchor, own)._replace(log_delta=expected)
            race = prepare(epsilon, numbers, users, point, near)
            cells = find_cells(race, near.share * mean_rate(race))
            # no report costs more than it does alone
            if min(race.log_known, log_total(cells)) <= largest:
                break
        else:
            # a bound that is not a number is none
            largest = max(largest, float(np.fmin(log_total(lower_cells(race, cells, largest)), race.log_known)))
    return largest


@remember("clocks of users of a few bits", 1024)
def clocks_near(epsilon: float, facts: Facts, users: int, anchor: int, family: int) -> Clocks:
    """Good clocks; any are valid.

    They are found at points of a grid, for inputs that differ in most bits from those at the point before on, and for
    others from those of one bit more on.
    """
    bits, numbers = list(families(facts))[family]
    point = anchor / ANCHORS * facts.bits * epsilon
    if family:
        near = clocks_near(epsilon, facts, users, anchor, family - 1)
    else:
        near = clocks_near(epsilon, facts, users, anchor - 1, family) if anchor else Clocks()
    if point >= bits * epsilon:
        return near
    steps = [(step, 0.0) for step in (STEPS if anchor == 0 else STEPS[2:])] + [(1.0, step) for step in SLOWER]
    for _ in range(ROUNDS):
        expected = near.log_delta
        near = near._replace(log_delta=rough_bound(epsilon, numbers, users, point, near))
        for ratio, slower in steps:
            while True:
                tried = Clocks(near.share * ratio, max(near.slower + slower, 0.0), expected)
                if tried == near._replace(log_delta=expected):
                    break
                found = rough_bound(epsilon, numbers, users, point, tried)
                if not found < near.log_delta - BETTER:
                    break
                near = tried._replace(log_delta=found)
        if not LEAST_RACED < near.log_delta < expected - FALLEN:
            break
    return near


def rough_bound(epsilon: float, numbers: list[tuple[int, int, int]], users: int, point: float, near: Clocks) -> float:
    """Log of the rougher bound with these clocks; one that is not a number is none."""
    race = prepare(epsilon, numbers, users, point, near)
    found = log_total(find_cells(race, near.share * mean_rate(race)))
    return math.inf if math.isnan(found) else found


def work_of(epsilon: float, facts: Facts, users: int) -> tuple[float, float]:
    """About what the clocks of all points take, and the bound at one."""
    races = [prepare(epsilon, numbers, users, 0.0, Clocks()) for _, numbers in families(facts)]
    most, numbers, works = races[0], races[0].own.size, sum(race.work for race in races)
    pairs = float(most.crowd.starts[-1]) * most.crowd.spare_masses.size / numbers**3
    cells = TIMES * (works + most.work) + TIMES * numbers * (CELL + 2.0 * PAIR * pairs)
    return TIMES * (MOST_SEEN * most.work + SEEN * (works - most.work)), 2.0 * cells


def prepare(epsilon: float, numbers: list[tuple[int, int, int]], users: int, point: float, near: Clocks) -> Race:
    """Values at u = e^point, or at a u that is less by what rounding may make of it; `near` has no rate here."""
    bits = numbers[0][1] + numbers[0][2]
    crowd = crowd_of(epsilon, tuple(numbers), near.slower * epsilon)
    known = float(bernoulli_log_profile(epsilon, bits, np.array([point]))[0]) + 1e-12
    point -= ROUNDING * bits * epsilon
    values = crowd.speeds * np.exp(crowd.log_first) * -np.expm1(crowd.log_second + point - crowd.log_first)
    agree, log_even = np.arange(bits + 1.0), bits * math.log(0.5 * (1.0 + math.exp(-epsilon)))
    # P0/G and P1/G: a bit that agrees has t/(1+t) against 1/2, and else 1/(1+t)
    logs = -log_even - (bits - agree) * epsilon, -log_even - agree * epsilon
    own = np.exp(logs[0]) * -np.expm1(logs[1] + point - logs[0])
    work = PLACE * own.size + REPORT * values.size
    return Race(crowd, values, own, users - 1.0, known, min(near.log_delta, known), work)


def mean_rate(race: Race) -> float:
    """The largest mean rate of the others' clocks at spare reports."""
    crowd = race.crowd
    return float(np.add.reduceat(crowd.masses * crowd.rates**2, crowd.starts[:-1]).max())


def find_cells(race: Race, clock: float, log_weights: FloatArray | None = None) -> Cells:
    """Rougher bounds, with thetas that are good for the weighted sum of what all kinds add."""
    share = SHARE * math.exp(max(race.expected - race.log_known, LEAST_RACED))
    low = clock + race.others * float(race.crowd.rates.min())
    times = sum_exponentials(low, most_rates(race, clock, math.log(share)), share)
    log_times = np.log(times.weights) - times.places * clock
    log_alls = log_times + log_chances(race, clock, times.places) + race.log_known
    is_small = log_alls < race.expected - SMALL
    told = float(np.logaddexp.reduce(log_alls[is_small], initial=math.log(times.short + share) + race.log_known))
    nearest = np.argsort(np.abs(np.log(times.places * race.others)))
    nearest = nearest[~is_small[nearest]]
    log_thetas = np.empty((nearest.size, race.own.size))
    log_adds = np.empty((*log_thetas.shape, race.crowd.starts.size - 1))
    places, log_times, log_alls = times.places[nearest], log_times[nearest], log_alls[nearest]
    cells = Cells(clock, told, places, log_times, log_alls, log_thetas, log_adds)
    fill_cells(race, cells, np.zeros(log_adds.shape[2]) if log_weights is None else log_weights)
    return cells


def fill_cells(race: Race, cells: Cells, log_weights: FloatArray) -> None:
    """Fill thetas, and what all kinds add: at most E_s e^(theta k Y_0) g^(n-1)/(2 theta) times the weight."""
    crowd = race.crowd
    enough = race.expected - BESIDE
    reports = crowd.masses, crowd.rates, race.values, crowd.starts
    spares = crowd.spare_masses, crowd.spare_rates, crowd.spare_starts
    log_thetas = np.full(race.own.size, first_theta(race))
    spend(race.work * cells.places.size, WHAT)
    for t, (x, weight) in enumerate(zip(cells.places.tolist(), cells.log_times.tolist(), strict=True)):
        own, adds = cells.clock * race.own, cells.log_adds[t]
        fill_thetas(x, race.others, own, log_weights, enough - weight, reports, spares, log_thetas, adds)
        adds += weight
        cells.log_thetas[t] = log_thetas


def log_total(cells: Cells) -> float:
    """The bound: at every time all kinds add what they do, or everything is told, and all others are of one kind."""
    by_times = np.logaddexp.reduce(cells.log_adds, axis=1)
    are_told = ~(np.max(by_times, axis=1) <= cells.log_alls)
    told = np.logaddexp.reduce(cells.log_alls[are_told], initial=cells.log_told)
    kinds = np.logaddexp.reduce(by_times[~are_told], axis=0, initial=-math.inf)
    return float(np.logaddexp(told, kinds.max()))


def lower_cells(race: Race, cells: Cells, enough: float) -> Cells:
    """The same with thetas for the worst kinds, and integrals where they count, until the bound is low enough."""
    by_kinds = np.logaddexp.reduce(cells.log_adds, axis=(0, 1))
    if math.isfinite(by_kinds.max()):
        again = find_cells(race, cells.clock, by_kinds - by_kinds.max())
        cells = min(cells, again, key=log_total)
    by_times = np.max(np.logaddexp.reduce(cells.log_adds, axis=1), axis=1)
    kept = by_times < cells.log_alls + GAIN
    log_told = float(np.logaddexp.reduce(cells.log_alls[~kept], initial=cells.log_told))
    cells = Cells(cells.clock, log_told, *(each[kept] for each in cells[2:]))
    for kind in np.argsort(-np.logaddexp.reduce(cells.log_adds, axis=(0, 1))).tolist():
        found = lower_kind(race, cells, kind, enough)
        enough = max(enough, found)
    return cells


def lower_kind(race: Race, cells: Cells, kind: int, enough: float) -> float:
    """Lower what one kind adds, the most first, until it is low enough or the rest little; the bound for it alone."""
    adds = cells.log_adds[:, :, kind]
    order = np.argsort(-adds, axis=None)
    left = np.logaddexp.accumulate(adds.ravel()[order[::-1]])[::-1]
    for at, rest in zip(order.tolist(), left.tolist(), strict=True):
        found = float(np.logaddexp.reduce(adds, axis=None, initial=cells.log_told))
        if found <= enough or rest < found - LITTLE:
            break
        lower_cell(race, cells, (*divmod(at, race.own.size), kind))
    return float(np.logaddexp.reduce(adds, axis=None, initial=cells.log_told))


def lower_cell(race: Race, cells: Cells, place: tuple[int, int, int]) -> None:
    """Replace what is added, at a time, for a number that agree, of one kind, by what the integral over w says."""
    time, agree, kind = place
    theta, x, before = math.exp(cells.log_thetas[time, agree]), float(cells.places[time]), float(cells.log_adds[place])
    one, spares = pick(race, kind, agree)
    spend(CELL + PAIR * one[0].size * spares[0].size, WHAT)
    deviation = find_deviation(theta, x, race.others, one, spares)
    if not LEAST_SPREAD < theta * deviation < math.inf:
        return
    log_scale = before + math.log(2.0 * theta)
    log_own = theta * cells.clock * float(race.own[agree]) + float(cells.log_times[time])
    ends = np.empty((2, NODES.size - 1))
    fill_powers_at_ends(theta, x, race.others, log_scale - log_own, one, spares, NEAREST / deviation, ends)
    # what overflows is not a number: the rougher bound stays
    found = log_scale + float(log_chords(theta, NODES / deviation, ends[0], ends[1]))
    cells.log_adds[place] = np.fmin(before, found)


def most_rates(race: Race, clock: float, log_share: float) -> float:
    """A sum of all rates that is exceeded with no more than that probability, by Chernoff's bound on every kind."""
    crowd = race.crowd
    powers = np.geomspace(0.01, 30.0, 25) / float(crowd.rates.max())
    means = np.add.reduceat(np.expm1(powers[:, None] * crowd.rates) * crowd.masses, crowd.starts[:-1], axis=1)
    return float(np.min((race.others * np.log1p(np.max(means, axis=1)) + powers * clock - log_share) / powers))


def log_chances(race: Race, clock: float, places: FloatArray) -> FloatArray:
    """Logs of bounds on E (k + S) e^(-x S), what the weight of a time is multiplied by for its probability."""
    crowd = race.crowd
    exponents = -places[:, None] * crowd.rates
    less = np.max(np.add.reduceat(np.expm1(exponents) * crowd.masses, crowd.starts[:-1], axis=1), axis=1)
    means = np.max(np.add.reduceat(np.exp(exponents) * crowd.masses, crowd.starts[:-1], axis=1), axis=1)
    rates = np.max(np.add.reduceat(np.exp(exponents) * crowd.masses * crowd.rates, crowd.starts[:-1], axis=1), axis=1)
    log_means = np.where(less > -0.5, np.log1p(np.maximum(less, -0.5)), np.log(means))
    found: FloatArray = (race.others - 1.0) * log_means + np.log(clock * means + race.others * rates)
    return found


def first_theta(race: Race) -> float:
    """Log of a theta to begin with: three over the deviation of the sum, at time 0, of the kind in the middle."""
    squares = np.add.reduceat(race.crowd.masses * race.values**2, race.crowd.starts[:-1])
    return math.log(3.0) - 0.5 * math.log(race.others * float(squares[squares.size // 2]))


def pick(race: Race, kind: int, agree: int) -> tuple[Reports, Spares]:
    """Of one kind, and the spare ones, as kernels take them."""
    crowd = race.crowd
    some = slice(*crowd.starts[kind : kind + 2].tolist())
    each = kind * race.own.size + agree
    beside = slice(*crowd.spare_starts[each : each + 2].tolist())
    return (
        (crowd.masses[some], crowd.rates[some], race.values[some]),
        (crowd.spare_masses[beside], crowd.spare_rates[beside]),
    )
