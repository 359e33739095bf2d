"""Sums of many independent likelihood ratios on a lattice, by Fourier transforms.

A `Spread` or `Contraction` of one ratio X moves to the points h k, k = 0, 1, ..., on its side in convex order
(`accountant.samplers.likelihoods`). The sum of t of them has a power of its characteristic function. As X - 1 is small
next to the sum's deviation, log E e^{i w X} is computed without cancellation, from E(e^{i w (X - c)} - 1) with c the
lattice point next to the mean, wherever the power counts; that makes its error independent of t. Chernoff's bound on
the same masses says how much lies outside of the transform's window.

Large ratios are rare: with a of X the part up to some place and b the part beyond it, the sum is that of
(t choose j) a^{*(t-j)} * b^{*j} over j = 0, 1, 2, ..., of which few count; b stays on its grid of logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.lattice_powers import norm, transform_error
from accountant.patience import spend
from accountant.samplers.likelihoods import Contraction, Ratios, Spread, Sum, add_contractions, add_spreads
from accountant.tight.polygon import ULP

__all__ = ["sum_on_lattice"]

WHAT = "sums of likelihood ratios"
"""What is counted."""

MOST_POINTS = 2**20
"""Longest transform: tens of milliseconds."""

MOST_WAVES = 2**19
"""Most products of frequencies and masses: some hundredths of a second."""

BEGUN, POINT, OUTCOME = 7e5, 20.0, 50.0
"""Operations (see `accountant.patience`) of a sum, of each point of one of its transforms, and of each outcome."""

BLOCK = 64
"""Terms that are summed before their sums are."""

JUMPS = 3e-4
"""Large ratios that a sum is to have on average."""

MOST_JUMPS = 6

MOST_OUTCOMES = 2**20
"""Outcomes of sums with one jump, twice as many as there may be; a fourth of them for each jump more."""

DEPTH = 12.0
"""Nats below what may be lost at which powers of the characteristic function are left out."""

ROOM = 4.0
"""Nats by which what lies outside of the window is less than what may be lost."""

CHERNOFF = np.geomspace(0.05, 60.0, 40)
"""Powers of Chernoff's bound, in units of 1/deviation."""


def sum_on_lattice(one: Spread | Contraction, count: int, step: float, log_lost: float, removed: bool) -> Ratios | None:
    """The sum of `count` independent copies; None if that takes too much, or errs by more than exp(log_lost).

    Parameters
    ----------
    one : Spread or Contraction
        Of mean 1, about.
    count : int
    step : float
        Of the lattice.
    log_lost : float
        Log of what E(S - u)_+ and E(1 - u S)_+ may be off by, the first relative to `count`.
    removed : bool
        Whether the first is what counts, else the second.
    """
    small: Spread | Contraction
    jumps: Sequence[Spread | Contraction] | None
    if isinstance(one, Spread):
        small, jumps, left_out = _split(one, count, log_lost - ROOM, add_spreads)
    else:
        small, jumps, left_out = _split(one, count, log_lost - ROOM, add_contractions)
    masses, index, risen = _settle(small, step, removed)
    centre = round(float(np.sum(masses * index) / masses.sum()))
    if jumps is None or centre < 1:
        return None
    powers = _sum_small(masses, index - centre, count, len(jumps), log_lost)
    if powers is None:
        return None
    found, places, excess, shortage = _join(powers, jumps, count, centre, step)
    if not math.log(max(excess, shortage)) <= log_lost:
        return None
    spend(OUTCOME * places.size, WHAT)
    inside = places > 0
    zero, lost = float(found[~inside].sum()), count * (excess * step * centre + risen)
    if isinstance(one, Spread):
        # of a sum with more jumps the mean is lost, or, on the other side, all
        zero, lost = zero + shortage + left_out, lost + count * (one.lost + left_out)
    else:
        zero, lost = zero - shortage, -lost
    order = np.argsort(places[inside], kind="stable")
    rounding = 8 * ULP * (1 + MOST_JUMPS)
    error = count * one.error + rounding + sum(jump.error for jump in jumps)
    moved = max([one.moved, *(jump.moved for jump in jumps)]) + rounding
    return Ratios(found[inside][order], places[inside][order], zero, lost, error, moved)


def _join(
    powers: Powers, jumps: Sequence[Spread | Contraction], count: int, centre: int, step: float
) -> tuple[FloatArray, FloatArray, float, float]:
    """Masses and places of sums with 0, 1, ... jumps, and what both kinds of hockey sticks may be off by.

    The first relative to the sum's mean. What lies outside of the window is wrapped into it: what is lost above counts
    where it was, what is lost below where it went.
    """
    window, error = powers.window, powers.error
    total, parts, excess, shortage = count * centre, [], 0.0, 0.0
    for j, found in enumerate(powers.found):
        numbers = (count - j) * centre + window.start + np.arange(window.size, dtype=float)
        chance, jumped = 1.0, 0.0
        if j == 0:
            parts.append((found, step * numbers))
        else:
            jump = replace(jumps[j - 1], masses=math.comb(count, j) * jumps[j - 1].masses)
            chance, jumped = float(jump.masses.sum()), float(np.sum(jump.masses * jump.places)) / (step * total)
            parts.append(_add_jumps(found, numbers, step, jump, 2 * 4 ** (j - 1)))
        last = max(float(numbers[-1]) / total, 1.0)
        excess += (chance + jumped) * (window.above + window.below * last)
        excess += error * (chance * norm(numbers) / total + jumped * math.sqrt(window.size))
        shortage += chance * (window.above + window.below + error * math.sqrt(window.size))
    masses, places = (np.concatenate(each) for each in zip(*parts, strict=True))
    return masses, places, excess, shortage


def _split(
    one: Sum, count: int, log_left: float, add: Callable[[Sum, Sum], Sum]
) -> tuple[Sum, list[Sum] | None, float]:
    """The part of `one` up to some place; sums of 1, 2, ... of the part beyond; and what more of those amount to.

    With p = Q(X > v) and P(X > v) = m, the mean of a sum with more than j jumps, relative to that of all, is at most
    P(N >= j + 1) + m P(N >= j), N of count trials with chance p, and P(N >= j) <= (count p)^j / j!.
    """
    tails = np.append(np.cumsum(one.masses[::-1])[::-1], 0.0)
    cut = int(np.searchsorted(-tails, -JUMPS / count))
    if cut >= one.masses.size - 1 or not tails[cut] > 0:
        return one, [], 0.0
    small, jump = replace(one.part(0, cut), zero=one.zero), one.part(cut, one.masses.size)
    often, mean, left = count * float(tails[cut]), float(np.sum(jump.masses * jump.places)), math.inf
    jumps: list[Sum] = []
    while len(jumps) < MOST_JUMPS:
        jumps.append(add(jumps[-1], jump) if jumps else jump)
        j = len(jumps)
        left = often**j / math.factorial(j) * (often / (j + 1) + mean) * (1 + 1e-9)
        if math.log(left + 1e-300) <= log_left:
            return small, jumps, left
    return small, None, left


def _add_jumps(
    found: FloatArray, numbers: FloatArray, step: float, jump: Spread | Contraction, coarser: int
) -> tuple[FloatArray, FloatArray]:
    """Masses and places of sums with these jumps.

    The sum of the others is on a lattice `coarser` times as coarse as the grid of the least jump, as it counts seldom;
    coarser still where there would be too many.
    """
    some = np.flatnonzero(found > 0)
    first, last = int(some[0]), int(some[-1]) + 1
    few = math.ceil((last - first) * jump.masses.size * coarser / MOST_OUTCOMES)
    many = max(math.floor(coarser * float(jump.places[0]) * jump.step / step), few, 1)
    length = math.ceil((last - first) / many) * many
    masses = np.zeros(length)
    masses[: last - first] = found[first:last]
    blocks = masses.reshape(-1, many)
    share = np.arange(many) / many
    if isinstance(jump, Spread):
        coarse = np.zeros(blocks.shape[0] + 1)
        coarse[:-1], places = blocks @ (1 - share), numbers[first] + many * np.arange(blocks.shape[0] + 1.0)
        coarse[1:] += blocks @ share
    else:
        coarse = blocks.sum(axis=1)
        within = blocks @ np.arange(float(many)) / np.maximum(coarse, 1e-300)
        places = numbers[first] + many * np.arange(float(blocks.shape[0])) + within
    good, jumped = coarse > 0, jump.masses > 0
    products = np.outer(coarse[good], jump.masses[jumped])
    return products.ravel(), np.add.outer(step * places[good], jump.places[jumped]).ravel()


@Kernel
def settle_below(masses: FloatArray, places: FloatArray, step: float, removed: bool, index: FloatArray) -> float:
    """Move every mass to a lattice point so that no mean of (X - u)_+ rises; gives by how much the mean of X rises.

    E(X - u)_+ is the largest of lines, of which two meet at every mass m. Where they meet by s later, the line that
    comes after falls by m s more than the line before. Every mass moves as far down as its line after may rise, but not
    below the mass before. A mean that rises lowers E(1 - u X)_+, too; if E(X - u)_+ is what counts (`removed`) the last
    mass moves further down instead.
    """
    fallen, rounding, last = 0.0, 0.0, 0.0
    for j in range(masses.size):
        if masses[j] > 0.0:
            rounding += 16.0 * 2.0**-52 * masses[j] * (places[j] + step)
            goal = (places[j] - max(fallen - rounding, 0.0) / masses[j]) / step
            last = max(math.floor(goal) if removed and j == masses.size - 1 else math.ceil(goal), last)
            fallen = max(fallen + masses[j] * (last * step - places[j]), 0.0)
        index[j] = last
    return fallen + rounding


def _settle(one: Spread | Contraction, step: float, removed: bool) -> tuple[FloatArray, FloatArray, float]:
    """Masses on the lattice, their indices, and what the mean may have risen by without raising a bound."""
    if isinstance(one, Contraction):
        index = np.empty_like(one.places)
        risen = settle_below(one.masses, one.places, step, removed, index)
        masses = one.masses
    else:
        cells = one.places / step
        low = np.floor(cells)
        share, risen = cells - low, 0.0
        masses = np.concatenate([one.masses * (1 - share), one.masses * share])
        index = np.concatenate([low, low + 1])
    places, at = np.unique(np.append(index, 0.0), return_inverse=True)
    merged = np.bincount(at, np.append(masses, one.zero)).astype(float)
    some = merged > 0
    return merged[some], places[some], risen


class Window(NamedTuple):
    """Which sums of lags a transform holds, and bounds on the others.

    `above` bounds the share of the sum's mean, `below` the probability, of what lies outside there.
    """

    start: int
    size: int
    above: float
    below: float


class Powers(NamedTuple):
    """Distributions of sums of count - j lags, j = 0, 1, ..., on one window, and a bound on the 2-norm of errors."""

    found: list[FloatArray]
    window: Window
    error: float


def _sum_small(masses: FloatArray, lags: FloatArray, count: int, jumps: int, log_lost: float) -> Powers | None:
    """The distributions of sums of count - j lags, j = 0, ..., `jumps`, if their transforms are not too long."""
    from scipy.fft import irfft, rfft

    window = _find_window(masses, lags, count, jumps, log_lost - ROOM)
    if window is None or window.size > MOST_POINTS:
        return None
    size = window.size
    spend(BEGUN + POINT * size * (jumps + 2), WHAT)
    folded = np.bincount(np.mod(lags, size).astype(int), masses, size).astype(float)
    rough = np.abs(rfft(folded)) + transform_error(size) * math.sqrt(size) * norm(folded)
    with np.errstate(under="ignore"):
        logs = (count - jumps) * np.log(np.minimum(rough, 1.0))
        weak = np.exp(logs)
    strong = np.flatnonzero(logs > log_lost - DEPTH)
    if not 0 < strong.size * masses.size <= MOST_WAVES:
        return None
    base, found, error = _log_transform(masses, lags, strong, size), [], 0.0
    for j in range(jumps + 1):
        spectrum, errors = np.zeros(rough.size, dtype=complex), weak.copy()
        spectrum[strong], errors[strong] = base.power(count - j)
        law = irfft(spectrum, size)
        error = max(error, math.sqrt(2 / size) * norm(errors) * (1 + 1e-9) + transform_error(size) * norm(law))
        found.append(np.maximum(np.roll(law, -window.start), 0.0))
    return Powers(found, window, error)


def _find_window(masses: FloatArray, lags: FloatArray, count: int, jumps: int, log_outside: float) -> Window | None:
    """The window outside of which is no more than exp(log_outside), about; None if there is none.

    P(S >= b) <= E e^{r (S - b)}; E[S; S >= b] is at most b times as much if r b >= 1. Both also bound sums of fewer
    lags, whose mean is nearer than one point for each.
    """
    from scipy.fft import next_fast_len

    shares = masses / float(masses.sum())
    mean = float(np.sum(shares * lags))
    deviation = math.sqrt(count * float(np.sum(shares * (lags - mean) ** 2)) + 1.0)
    total = count * (mean - float(lags.min()))
    if total < 1:
        return None
    ends, logs = [], []
    for sign in (1.0, -1.0):
        reach = float(np.max(sign * (lags - mean)))
        rates = np.concatenate([CHERNOFF / deviation, np.geomspace(1.0, 60.0, 40) / max(reach, 1.0)])
        rates = rates[rates * total >= 1]
        with np.errstate(over="ignore"):
            cumulants = np.log(np.exp(np.outer(sign * rates, lags - mean)) @ shares)
        cumulants = count * (cumulants + ULP * (8 * masses.size + 64))
        end = 0.0
        for _ in range(3):
            end = float(np.min((cumulants - log_outside + math.log1p(end / total)) / rates, initial=math.inf))
        if not end < math.inf:
            return None
        ends.append(math.ceil(end) + 1)
        logs.append(float(np.min(cumulants - rates * end)) + math.log1p(end / total))
    start = math.floor(count * mean) - ends[1] - jumps
    points = math.ceil(count * mean) + ends[0] + jumps - start
    if points > 2 * MOST_POINTS:
        return None
    size = 2 * int(next_fast_len(max(math.ceil(points / 2), 32), real=True))
    return Window(start, size, math.exp(logs[0]), math.exp(logs[1]))


class LogTransform(NamedTuple):
    """Logs and angles of sum_j m_j e^{-i w r_j} at some w, and bounds on their errors."""

    logs: FloatArray
    angles: FloatArray
    errors: FloatArray

    def power(self, count: int) -> tuple[NDArray[np.complex128], FloatArray]:
        """The power, and a bound on its error."""
        with np.errstate(under="ignore"):
            modulus = np.exp(count * self.logs)
        return modulus * np.exp(1j * count * self.angles), modulus * np.expm1(np.minimum(count * self.errors, 100.0))


def _log_transform(masses: FloatArray, lags: FloatArray, frequencies: NDArray[np.int64], size: int) -> LogTransform:
    """At w = 2 pi f / size. With z = sum_j m_j (e^{-i w r_j} - 1) the log is that of the whole mass and log(1 + z').

    What z errs by is a few roundings of the sum of the terms' absolute values.
    """
    turns = np.mod(np.outer(frequencies, lags), size)
    turns = np.where(2 * turns > size, turns - size, turns) * (2 * math.pi / size)
    whole = float(masses.sum())
    sines = np.sin(turns) * masses
    real, imaginary = -2 * _sum_rows(np.sin(turns / 2) ** 2 * masses) / whole, -_sum_rows(sines) / whole
    error = ULP * (BLOCK + masses.size / BLOCK + 16) * (_sum_rows(np.abs(sines)) / whole - real)
    logs = 0.5 * np.log1p(np.maximum(2 * real + real**2 + imaginary**2, 1e-12 - 1))
    angles = np.arctan2(imaginary, 1 + real)
    errors = 1.1 * error / np.exp(logs) + 8 * ULP * (np.abs(angles) + np.abs(logs) + abs(math.log(whole)))
    return LogTransform(logs + math.log(whole), angles, errors)


def _sum_rows(terms: FloatArray) -> FloatArray:
    """Sums of rows, in whatever order: of blocks, then of these; at most BLOCK + size / BLOCK + 1 roundings."""
    rest = -terms.shape[1] % BLOCK
    return np.asarray(np.pad(terms, ((0, 0), (0, rest))).reshape(terms.shape[0], -1, BLOCK).sum(axis=2).sum(axis=1))
