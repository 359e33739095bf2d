"""How much shuffling hides one report of many randomized bits: a bound on its hockey-stick divergences.

n users flip each bit of theirs with odds 1 : t, t = e^epsilon; any two inputs differ in at most b bits. P0 and P1 are
the report of the user whose input changes, R_1, ..., R_(n-1) those of the others, at whatever inputs. All proofs are in
notebooks/mathematics.md, Shuffled bits.

Slots. Every R_i draws, with probability g, from one distribution that is common to all. Go through the users in random
order, up to the first that does: the changed user's report takes its place, its own report tells nothing, and those
before it, whose number J is geometric, are told. The M = n - J reports of the rest may be shown in order, which says
more than the shuffled ones, and it is any one of them that was replaced. Hence, with D the local profile,

    H(u) <= E_J min(1/M E (Y_1 + ... + Y_M)_+, D(u)) + P(J = n) D(u),

with independent Y_i = (P0 - u P1)/R_i at R_i's report.

g = e^(-b epsilon) suits all, and e^(-c epsilon) inputs with at most c ones; where inputs differ in at most two bits, or
there are two others, g = (2/(1+t))^b, with M = n - 1 - J; one other has g = 1. `accountant.events.shuffled_inputs` has
these, and what the length of a report adds.

Kinds. Where R_i differs from both P0 and P1 in m bits, from P0 alone in k and from P1 alone in i,
Y = W_m (A_k - u B_i), three products of m, k and i independent ratios of mean 1. It grows in convex order with each
number, and when a bit of m becomes one of k and one of i. As i + k <= b, m + k <= b and m + i <= b, only the kinds
k = b - i, m = min(i, k), i = 0, ..., b, count, in any mixture, and m = (b + 1)/2, k = i = (b - 1)/2 where b is odd. In
reports of B < b + [b/2] bits also m + k + i <= B, and more kinds count, but smaller ones.

Fourier. With any theta > 0, v >= 0 (a normal variable Z of variance v only adds, by Jensen)

    E (Y_1 + ... + Y_M + Z)_+
        <= 1/pi int_0^inf e^(v (theta^2 - w^2)/2) max over kinds |phi(theta + i w)|^M/(theta^2 + w^2) dw.

In small crowds, where slots would give nearly all users away, the smaller of this bound and of that of a race
(`accountant.events.shuffled_race`) is taken (`accountant.events.shuffled_rounds`).

|phi| is computed at nodes (`accountant.events.shuffled_sums`), or, which is quicker and near where the sum is nearly
normal, |phi(theta + i w)|^2 <= phi(theta)^2 (1 - V w^2 + (mu4 + 3 V^2) w^4/12), V and mu4 being central moments of Y
tilted by e^(theta Y): it is E cos(w (Y - Y')), and cos x <= 1 - x^2/2 + x^4/24.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.events.randomized_response import log_one_report
from accountant.events.shuffled_inputs import MANY, Facts, common_share
from accountant.events.shuffled_lattice import fill_moments
from accountant.events.shuffled_sums import DAMPING, log_sums_between_nodes
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.roots import LOGARITHM, narrow
from accountant.numerics.scipy_special import erfcx
from accountant.numerics.special import log_binomial_pmf
from accountant.patience import spend

__all__ = ["SLACK", "Slots", "groups", "log_sums_of", "slots_of"]

NODES = np.concatenate([np.arange(0.0, 10.0, 0.02), np.geomspace(10.0, 1e7, 200)])
"""Frequencies, in units of one over the sum's deviation, between which the integral is bounded."""

MISSED = np.concatenate([np.arange(0.05, 12.0, 0.05), np.geomspace(12.0, 700.0, 40)])
"""Logs, less their sign, of the probabilities that J is beyond the ends of its blocks."""

MATTERS = 12.0
"""Log of how much less than all others a block of slots may add for its bound to be a rougher one."""

FEW = 20.0
"""Slots below which larger thetas are tried: by how much each time."""

LARGER = (1.5, 2.5, 4.0)

NEARLY_NORMAL = 600.0
"""Effective number of slots from which the bound by four moments is as good as that between nodes."""

FARTHEST = -760.0
"""Log of E e^(theta S) below which no better theta is sought: the probability that nobody hides is larger."""

NEAR = 1e-3
"""How near theta comes to the best one, relative: the bound is the larger by about the square."""

LARGEST_EXPONENT = 150.0
"""Largest theta times what either product may add to Y."""

WHAT = "bounds on shuffled bits"

TILT, TILT_KIND = 2e5, 35.0
"""Operations that the thetas of a block take: once, and for each kind and bit."""

SUM, SUM_KIND = 8e4, 700.0
"""The same of a bound by moments, for each kind."""

BETWEEN, BETWEEN_KIND = 2e5, 170.0
"""The same of a bound between nodes, for each kind and bit."""

SLACK = 1e-8
"""Added to the logarithm for rounding."""


class Products(NamedTuple):
    """Values less 1 of a product of j independent ratios, for j = 0, ..., b, in rows, and their probabilities."""

    excess: FloatArray
    masses: FloatArray


@lru_cache(maxsize=16)
def products(epsilon: float, bits: int) -> Products:
    """A ratio is t with probability 1/(1+t) and else 1/t."""
    excess, masses = np.zeros((bits + 1, bits + 1)), np.zeros((bits + 1, bits + 1))
    fill_products(epsilon, excess, masses)
    return Products(excess, masses)


@Kernel
def fill_products(epsilon: float, excess: FloatArray, masses: FloatArray) -> None:
    """Fill both: of j bits that are compared, l are flipped."""
    flipped = 1.0 / (1.0 + math.exp(epsilon))
    for j in range(excess.shape[0]):
        total = 0.0
        for l in range(j + 1):  # noqa: E741
            excess[j, l] = math.expm1((2 * l - j) * epsilon)
            masses[j, l] = math.exp(log_binomial_pmf(float(j), float(l), flipped)) if j > 0 else 1.0
            total += masses[j, l]
        for l in range(j + 1):  # noqa: E741
            masses[j, l] /= total


class Slots(NamedTuple):
    """Blocks of numbers of slots: the fewest of each, its probability; and that of no slot at all."""

    fewest: FloatArray
    masses: FloatArray
    none: float


@lru_cache(maxsize=32)
def slots(epsilon: float, facts: Facts, users: int) -> Slots:
    """M = most - J, J geometric: P(J = j) = g (1 - g)^j, j < most. One other user has but one input: g = 1."""
    if users == 2:
        return Slots(np.array([2.0]), np.ones(1), 0.0)
    return slots_of(*common_share(epsilon, facts, users))


def slots_of(log_share: float, most: int) -> Slots:
    """Where every user but the changed one comes from what all have in common with that probability."""
    log_missed = math.log1p(-math.exp(log_share)) if log_share < -1 else math.log(-math.expm1(log_share))
    ends = np.append(0.0, np.unique(np.minimum(np.ceil(-MISSED / log_missed), most)))
    beyond = np.exp(ends * log_missed)
    return Slots(most - ends[1:] + 1, -np.diff(beyond), float(beyond[-1]))


def log_sums_of(numbers: FloatArray, epsilon: float, facts: Facts, users: int, point: float) -> float:
    """Log of an upper bound on H(e^point), point >= 0, beside others of any of these kinds (m, k, i), in rows."""
    bits, hidden, ratios = facts.bits, slots(epsilon, facts, users), products(epsilon, facts.bits)
    away = math.expm1(point)
    # the ratios' means are 1 but for rounding
    away -= 4.0 * (1.0 + away) * (float(np.max(np.abs(np.sum(ratios.excess * ratios.masses, axis=1)))) + bits * 1e-15)
    weights = np.log(hidden.masses / hidden.fewest)
    # no report costs more than one whose place is known
    known = log_one_report(epsilon, bits, point)
    logs = known + np.log(hidden.fewest)
    with np.errstate(divide="ignore"):
        total = none = known + float(np.log(hidden.none))
    parts = groups(hidden)
    chosen: list[list[tuple[float, FloatArray]]] = []
    near = 0.0
    for some in parts:
        if float(np.logaddexp.reduce(logs[some] + weights[some])) < total - MATTERS:
            chosen.append([])
            continue
        spend(TILT + TILT_KIND * bits * len(numbers), WHAT)
        tried = tilts(ratios, numbers, away, float(hidden.fewest[some][0]), near)
        near = tried[0][0] if tried else 0.0
        spend(len(tried) * (SUM + SUM_KIND * len(numbers)), WHAT)
        found = [log_sums(theta, moments, hidden.fewest[some]) for theta, moments in tried]
        logs[some] = np.min([logs[some], *found], axis=0)
        chosen.append(tried)
        total = float(np.logaddexp(total, np.logaddexp.reduce(logs[some] + weights[some])))
    for some, tried in zip(parts, chosen, strict=True):
        if not float(np.max(logs[some] + weights[some])) > total - MATTERS:
            continue
        some = slice(some.start, some.start + int(np.sum(hidden.fewest[some] >= 2.0)))  # fewest come last
        fewest = hidden.fewest[some]
        if not fewest.size:
            continue
        for theta, moments in tried if bits <= MANY else tried[:1]:
            if effective(moments, float(fewest[0])) < NEARLY_NORMAL * (1.0 if bits <= MANY else 0.1):
                spend(BETWEEN + BETWEEN_KIND * bits * len(numbers), WHAT)
                between = log_sums_between_nodes(theta, away, ratios, numbers, moments, fewest)
                logs[some] = np.minimum(logs[some], between)
    return float(np.logaddexp.reduce(np.append(logs + weights, none))) + SLACK


def effective(moments: FloatArray, slots: float) -> float:
    """How many slots there are for each that one of the heaviest tails makes a normal sum of."""
    square = moments[:, 2] ** 2
    most = moments[:, 3] + 3.0 * square
    return slots * float(np.min(np.divide(square, most, out=np.zeros_like(most), where=most > 0.0)))


def tilts(
    ratios: Products, numbers: FloatArray, away: float, slots: float, near: float
) -> list[tuple[float, FloatArray]]:
    """Good thetas for the middle kind, the worst of sums that are nearly normal, and for the worst; and moments.

    Larger ones, too, for few slots, whose sum is far from normal. Those for slightly more slots are near `near`.
    """
    kind, seen, tried = int(log_variances(ratios, numbers).argmax()), set[int](), []
    both = int(numbers[numbers[:, 2] > 0, 0].max(initial=0))
    while kind not in seen and len(seen) < 3:
        seen.add(kind)
        theta = near = tilt(ratios, numbers[kind], away, slots, both, near)
        for factor in (1.0, *LARGER) if slots < FEW and len(seen) == 1 else (1.0,):
            found = np.empty((len(numbers), 4))
            fill_moments(factor * theta, away, *ratios, numbers, found)
            if np.isfinite(found).all() and found[:, 2].max() > 0:
                tried.append((factor * theta, found))
        kind = int(np.argmax(tried[0][1][:, 0])) if tried else kind
    return tried


def log_variances(ratios: Products, numbers: FloatArray) -> FloatArray:
    """Logs of the variances l^m (l^k + l^i - 2) of Y at u = 1, l = t - 1 + 1/t being a ratio's mean square."""
    growth = math.log1p(float(ratios.masses[1] @ ratios.excess[1] ** 2)) if len(ratios.excess) > 1 else 0.0
    m, k, i = numbers.T
    with np.errstate(divide="ignore"):
        found: FloatArray = m * growth + np.log(np.expm1(k * growth) + np.expm1(i * growth))
    return found


def groups(hidden: Slots) -> list[slice]:
    """Blocks that share a theta: numbers of slots within a fifth, or too improbable to matter."""
    starts = [0]
    for block, (number, mass) in enumerate(zip(hidden.fewest.tolist(), hidden.masses.tolist(), strict=True)):
        if number <= hidden.fewest[starts[-1]] / 1.2 and mass > 1e-25:
            starts.append(block)
    return [slice(start, stop) for start, stop in zip(starts, [*starts[1:], hidden.fewest.size], strict=True)]


def tilt(ratios: Products, kind: FloatArray, away: float, slots: float, both: int, near: float = 0.0) -> float:
    """A good theta: for a normal sum S of deviation d the best has E S e^(theta S)/E e^(theta S) = d (h(x) + 1/x - x).

    x = theta d, and h is the normal distribution's hazard rate. Any theta is valid. `near` is one near
    it, or 0.
    """
    found = np.empty((1, 4))
    # W (A - u) is at most t^b, and W u (1 - B) at most t^m u, m <= `both` where B is not 1
    most = LARGEST_EXPONENT / (
        1.0 + max(float(ratios.excess[-1, -1]), (1.0 + away) * (1.0 + float(ratios.excess[both, both])))
    )

    def short(theta: float) -> float:
        """How much larger, in deviations, the mean should be; no more than a little where theta is too large anyway."""
        fill_moments(theta, away, *ratios, kind[None], found)
        deviation = math.sqrt(slots * float(found[0, 2]))
        if not (0.0 < deviation < math.inf and slots * float(found[0, 0]) > FARTHEST):
            return -1.0
        x = theta * deviation
        hazard = math.sqrt(2 / math.pi) / float(erfcx(x / math.sqrt(2)))
        return hazard + 1 / x - x - slots * float(found[0, 1]) / deviation

    if near == 0.0:
        fill_moments(0.0, away, *ratios, kind[None], found)
        near, factor = 1.0 / math.sqrt(slots * float(found[0, 2])), 4.0
    else:
        factor = 1.2
    low = high = min(near, most)
    while high < most and short(high) > 0.0:
        low, high, factor = high, min(factor * high, most), min(factor**2, 4.0)
    while short(low) <= 0.0:
        low, high, factor = low / factor, low, min(factor**2, 4.0)
    return high if high == most and short(high) > 0.0 else narrow(short, (low, high), LOGARITHM, fine=NEAR)[1]


def log_sums(theta: float, found: FloatArray, slots: FloatArray) -> FloatArray:
    """Logs of bounds on E (Y_1 + ... + Y_M)_+ by the moments at theta, for numbers M of slots.

    Between two nodes each kind's bound on phi is taken at the first; 1/(theta^2 + w^2) is integrated.
    """
    log_mean, _, variance, fourth = found.T
    # rounding must not make the fourth moment smaller than the variance's square
    fourth = (np.maximum(fourth, variance**2) + 3.0 * variance**2) / 12.0
    ends = np.sqrt(np.divide(variance, 2.0 * fourth, out=np.zeros_like(variance), where=fourth > 0))
    last = float(ends.max())
    if not 0.0 < last < math.inf:
        return np.full(slots.size, math.inf)
    unit = 1.0 / math.sqrt(float(slots[0] * variance.max()))
    nodes = np.append(NODES[NODES * unit < last] * unit, last)
    top = float(log_mean.max())
    largest = np.empty(nodes.size - 1)
    fill_largest(np.expm1(2.0 * (log_mean - top)), variance, fourth, ends, nodes, largest)
    largest = 0.5 * np.log1p(largest)
    inner = np.exp(slots[:, None] * largest) @ np.diff(np.arctan(nodes / theta))
    beyond = math.atan(theta / last)
    damped = [np.log(inner + beyond * math.exp(-damping)) + damping * (theta / last) ** 2 for damping in DAMPING]
    logs: FloatArray = np.min(damped, axis=0) + slots * top - math.log(math.pi * theta)
    return logs


@Kernel
def fill_largest(
    less: FloatArray, variance: FloatArray, fourth: FloatArray, ends: FloatArray, nodes: FloatArray, largest: FloatArray
) -> None:
    """Fill the largest bound of any kind on |phi|^2 between two nodes, over the largest phi(theta)^2, less 1."""
    largest[:] = -1.0
    for kind in range(less.size):
        for node in range(largest.size):
            if nodes[node + 1] > ends[kind]:  # beyond its end the bound of a kind is 1
                for after in range(node, largest.size):
                    largest[after] = max(largest[after], less[kind])
                break
            square = nodes[node] ** 2
            fall = (fourth[kind] * square - variance[kind]) * square
            largest[node] = max(largest[node], less[kind] + fall * (1.0 + less[kind]))
