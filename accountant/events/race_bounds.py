"""Bounds of a race (`accountant.events.shuffled_race`) with given clocks: rougher ones, and integrals where they count.

At every time, and for what a spare report has in common with both inputs of the changed user, there is one theta for
all kinds of others. Notation as there; proofs: notebooks/mathematics.md, Shuffled bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accountant.events.race_crowds import Crowd, Family, crowd_of, log_own
from accountant.events.race_kernels import COUNTS, NEAREST, POWERS, fill_powers_at_ends, find_deviation, log_chord
from accountant.events.race_thetas import Reports, Spares, fill_thetas
from accountant.events.race_threes import Threes, crowd_of_threes, log_own_threes
from accountant.events.race_words import Words, crowd_of_words, log_own_words
from accountant.events.randomized_response import log_one_report
from accountant.numerics.exponential_sums import sum_exponentials
from accountant.numerics.kernel import FloatArray
from accountant.patience import spend

__all__ = [
    "CELL",
    "LEAST_RACED",
    "PAIR",
    "Cells",
    "Clocks",
    "Race",
    "find_cells",
    "log_total",
    "lower_cells",
    "mean_rate",
    "prepare",
    "work_at",
]

LEAST_RACED = -50.0
"""Log of deltas below which no race is run."""

SHARE = 3e-3
"""Of what is expected, about: what times that are left out may add."""

SMALL = 6.0
"""Log of how much less than what is expected a time, or a spare report, may add for a rougher bound."""

BESIDE = 2.0
"""Log of how much less than expected the kinds add together, at a time, for no better theta to be sought."""

GAIN = 2.0
"""Log of more than what the finer bound gains where it counts."""

LITTLE = 6.0
"""Log of how much less than all cells those are that keep the rougher bound."""

NODES = NEAREST * np.cumsum(np.concatenate([[0.0], np.repeat(np.cumprod(np.array(POWERS, dtype=float)), COUNTS)]))
"""Places w, in units of one over the sum's deviation."""

LEAST_SPREAD = 1e-100
"""Theta times a deviation below which no phase differs from another: an integral says nothing more."""

PLACE, REPORT, SPARE, FEW_KINDS = 8e3, 200.0, 300.0, 5
"""Operations of a time and what a spare report may have in common with both inputs, of a time and a report, and of a
time, a spare report and a kind beyond a few."""

HIDDEN, FEW_USERS, FEWER, EASY = 0.05, 60.0, 1.2, 0.03
"""Users over the largest ratio of likelihoods, or over that number, from which on thetas that are good for one kind are
soon good for all: of more the last is less, as a power of their number, down to a share."""

CELL, PAIR = 8e4, 50.0
"""The same of an integral over w: once, and for every pair of a report and a spare one."""

WHAT = "bounds on shuffled bits"

ROUNDING = 2e-15
"""Of the local epsilon: what differences of logarithms of likelihood ratios, each of three terms, may be off by."""


class Clocks(NamedTuple):
    """A rate of the changed user's clock over the mean rate at spare reports, and how much slower others' clocks are.

    How narrow G is, too, as `log_words` has it, both over epsilon. With the log of about what H may be where these are
    good: bounds are fine enough for that. Odds in G, as `Threes` has them, over epsilon, and how much others' own G is
    like their reports.
    """

    share: float = 1.0
    slower: float = 0.0
    narrow: float = 0.0
    log_delta: float = 0.0
    odds: float = 0.0
    like: float = 0.0


class Race(NamedTuple):
    """One question: users of these kinds beside a changed one whose inputs differ in so many bits, at u = e^point."""

    crowd: Crowd
    values: FloatArray  # of all reports
    own: FloatArray  # Y_0, by what a report has in common with both inputs
    others: float
    log_known: float  # of the local profile
    expected: float
    work: float  # at one time, of the rougher bound


class Cells(NamedTuple):
    """Logs of what is added at times, by what a spare report has in common with both inputs, if others are of one kind.

    Thetas are the same for all kinds. The clock, and what other times add at most, too.
    """

    clock: float
    log_told: float
    places: FloatArray
    log_times: FloatArray
    log_alls: FloatArray  # of times, if everything is told at them
    log_thetas: FloatArray  # by times and numbers
    log_adds: FloatArray  # by times, numbers and kinds


def prepare(epsilon: float, family: Family | Words | Threes, users: int, point: float, near: Clocks) -> Race:
    """Values at u = e^point, or at a u that is less by what rounding may make of it; `near` has no rate here."""
    slower, narrow = near.slower * epsilon, near.narrow * epsilon
    if isinstance(family, Words):
        others = users - 1 if family.mirrored else 0
        crowd, own_logs = (
            crowd_of_words(epsilon, family, others, slower, narrow),
            log_own_words(epsilon, family, narrow),
        )
    elif isinstance(family, Threes):
        crowd = crowd_of_threes(epsilon, family, slower, (near.narrow, near.odds, near.like))
        own_logs = log_own_threes(epsilon, family, near.narrow, near.odds)
    else:
        crowd, own_logs = crowd_of(epsilon, family, slower, narrow), log_own(epsilon, family, narrow)
    known = log_one_report(epsilon, family.bits, point)
    point -= ROUNDING * family.bits * epsilon
    values = crowd.speeds * np.exp(crowd.log_first) * -np.expm1(crowd.log_second + point - crowd.log_first)
    log_first, log_second = own_logs
    own = np.exp(log_first) * -np.expm1(log_second + point - log_first)
    sizes = own.size, values.size, crowd.spare_masses.size, crowd.starts.size - 1
    work = work_at(sizes, users, float(crowd.log_first.max()))
    return Race(crowd, values, own, users - 1.0, known, min(near.log_delta, known), work)


def work_at(sizes: tuple[int, int, int, int], users: int, log_ratio: float) -> float:
    """Operations of the rougher bound at a time, of what is told, reports, spare ones and kinds.

    Beside the log of the largest ratio of likelihoods.
    """
    told, reports, spares, kinds = sizes
    hiding = users * min(math.exp(-log_ratio), 1.0 / FEW_USERS)
    share = max(math.exp(FEWER * math.log(HIDDEN / max(hiding, HIDDEN))), EASY)
    return PLACE * told + REPORT * reports + share * SPARE * spares * max(kinds - FEW_KINDS, 0)


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
    log_thetas = np.full(race.own.size, first_theta(race))
    spend(race.work * cells.places.size, WHAT)
    for t, (x, weight) in enumerate(zip(cells.places.tolist(), cells.log_times.tolist(), strict=True)):
        own, adds = cells.clock * race.own, cells.log_adds[t]
        spares = crowd.spare_masses, crowd.spare_rates + crowd.spare_lacks / x, crowd.spare_starts
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
    one, spares = pick(race, kind, agree, x)
    spend(CELL + PAIR * one[0].size * spares[0].size, WHAT)
    deviation = find_deviation(theta, x, race.others, one, spares)
    if not LEAST_SPREAD < theta * deviation < math.inf:
        return
    log_scale = before + math.log(2.0 * theta)
    log_own = theta * cells.clock * float(race.own[agree]) + float(cells.log_times[time])
    ends = np.empty((2, NODES.size - 1))
    fill_powers_at_ends(theta, x, race.others, log_scale - log_own, one, spares, NEAREST / deviation, ends)
    # what overflows is not a number: the rougher bound stays
    found = log_scale + log_chord(theta, NODES / deviation, ends)
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


def pick(race: Race, kind: int, agree: int, x: float) -> tuple[Reports, Spares]:
    """Of one kind, and the spare ones, as kernels take them."""
    crowd = race.crowd
    some = slice(*crowd.starts[kind : kind + 2].tolist())
    each = kind * race.own.size + agree
    beside = slice(*crowd.spare_starts[each : each + 2].tolist())
    return (
        (crowd.masses[some], crowd.rates[some], race.values[some]),
        (crowd.spare_masses[beside], crowd.spare_rates[beside] + crowd.spare_lacks[beside] / x),
    )
