"""Compiled loops that bound one step of a game from above: what the best of many pairs gains at every grid point.

A game asks for the best pair at every grid point. Of a family's stretches (`accountant.tight.stretches`) so many are
kept that each gains hardly more than the best pair: together they are a *cover* of the family. Neighbouring points
share a cover, and it hardly changes with the steps that are left, so that it is looked for now and then.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray, Kernel

__all__ = [
    "CHORD",
    "EARLY",
    "PACE",
    "STEP_ROUNDING",
    "TILE",
    "Choices",
    "Covers",
    "IntArray",
    "Lattice",
    "make_covers",
    "memory_of_covers",
    "raise_window",
    "record",
]

IntArray = NDArray[np.int64]

TILE = 128
"""Neighbouring grid points that share a cover."""

NEAR = 0.5
"""Share of what a step may give away up to which stretches may gain more than the best pair."""

LEAST_KEPT, MOST_KEPT = 256, 4e6
"""Anchors that every cover has room for, and all of them together if they need more: while few steps are left all pairs
may be wanted, in windows that are still short."""

SPARE_ANCHORS, DEEPEST = 4, 64
"""Anchors that two stretches may need, and stretches that are looked at later."""

EARLY, PLACES = 40, 4
"""While fewer steps are left neighbouring points want different pairs, and all are looked at; later so many."""

EARLY_KEPT, KEPT_FOR, LONGEST_KEPT = 20.0, 32, 32
"""Up to so many steps covers are looked for anew at each; later they are kept for a share of the steps, up to some."""

PACE = 0.0
"""Where several kinds are played covers are looked for in every state: the one before may have far fewer steps left."""

STEP_ROUNDING = 1e-14
"""Relative; above what the weights (some ulp each) and the sums (at most 10 roundings) of one step may err."""


def record(*names: str) -> np.dtype[np.void]:
    """Records of floats."""
    # scalars of such arrays have attributes where numba is told not to compile, too
    return np.dtype((np.record, [(name, np.float64) for name in names]))


CHORD = record("below", "below_next", "here", "above", "above_next", "gap", "gap_start", "gap_slope")
"""A pair's chord: weights of five grid points, and of its gap (gap_start - gap_slope (e^x - 1))_+ to 1 - u."""


class Choices(NamedTuple):
    """Families that the adversary chooses from: of each of their anchors the chord and its shifts, by direction.

    `ends` are the anchors at the ends of each stretch, `own` those of each pair, of one family after the other, whose
    first stretch and first pair are in `starts`.
    """

    chords: NDArray[np.void]
    shifts: IntArray
    ends: IntArray
    own: IntArray
    starts: IntArray


class Covers(NamedTuple):
    """The anchors, and how many, that are looked at for each family, direction and tile, and a pair that is good."""

    anchors: NDArray[np.int32]
    sizes: IntArray
    guesses: IntArray


def make_covers(choices: Choices, points: int) -> Covers:
    """None that is known yet, of windows of up to so many grid points."""
    shape, pairs = (len(choices.starts) - 1, 2, -(-points // TILE)), np.diff(choices.starts[:, 1])
    guesses = np.zeros(shape, np.int64)
    guesses[:] = (pairs // 2)[:, None, None]
    most = int(room_for(guesses.size, int(np.max(pairs))))
    return Covers(np.zeros((*shape, most), np.int32), np.zeros(shape, np.int64), guesses)


def room_for(covers: float, pairs: int) -> float:
    """Anchors for which so many covers have room each."""
    return min(max(MOST_KEPT / covers, LEAST_KEPT), 2 * pairs + SPARE_ANCHORS)


def memory_of_covers(families: int, points: float, pairs: int) -> float:
    """Bytes of covers in windows of so many grid points."""
    covers = families * 2 * (points / TILE + 1)
    return covers * (4 * room_for(covers, pairs) + 16)


class Lattice(NamedTuple):
    """Grid points x_k = k step, at index base + k; `decay` is e^-x_k, `growth` e^x_k - 1."""

    base: int
    step: float
    decay: FloatArray
    growth: FloatArray

    def size(self, last: int) -> int:
        """Length of arrays that hold grid points up to `last`, and what shifts reach beyond."""
        return self.base + last + 1 + self.base


@Kernel
def fill_chords(
    old: FloatArray, at: int, chord: Any, down: int, up: int, growth: FloatArray, i: int, out: FloatArray
) -> None:
    """Values of one chord at grid points i, i + 1, ..., of which old[at] is the first; `growth` is e^x - 1."""
    n = out.size
    below = old[at - down - 1 : at - down + n]
    above = old[at + up : at + up + n + 1]
    here = old[at : at + n]
    w0, w1, w2, w3, w4 = chord.below, chord.below_next, chord.here, chord.above, chord.above_next
    for t in range(n):
        out[t] = w0 * below[t] + w1 * below[t + 1] + w2 * here[t] + w3 * above[t] + w4 * above[t + 1]
    for t in range(min(n, down + 1 - i)):
        out[t] += chord.gap * max(chord.gap_start - chord.gap_slope * growth[i + t], 0.0)


@Kernel
def value_at(
    old: FloatArray, at: int, chords: NDArray[np.void], shifts: IntArray, anchor: int, growth: FloatArray, i: int
) -> float:
    """The value of an anchor's chord at grid point i, which is old[at]."""
    chord, down, up = chords[anchor], shifts[anchor, 0], shifts[anchor, 1]
    value: float = chord.below * old[at - down - 1] + chord.below_next * old[at - down] + chord.here * old[at]
    value += chord.above * old[at + up] + chord.above_next * old[at + up + 1]
    if i <= down:
        value += chord.gap * max(chord.gap_start - chord.gap_slope * growth[i], 0.0)
    return value


@Kernel
def improve(
    old: FloatArray,
    at: int,
    chords: NDArray[np.void],
    shifts: IntArray,
    anchor: int,
    growth: FloatArray,
    points: tuple[int, int, bool],
    pair: int,
    best: FloatArray,
    picks: IntArray,
    trial: FloatArray,
) -> None:
    """Take a pair, of which that is the anchor, where it is better than the best so far."""
    i, n, everywhere = points
    if everywhere:
        fill_chords(old, at, chords[anchor], shifts[anchor, 0], shifts[anchor, 1], growth, i, trial)
        for t in range(n):
            if trial[t] > best[t]:
                best[t], picks[t] = trial[t], pair
        return
    for k in range(PLACES):
        t = (k * (n - 1)) // (PLACES - 1)
        value = value_at(old, at + t, chords, shifts, anchor, growth, i + t)
        if value > best[t]:
            best[t], picks[t] = value, pair


@Kernel
def may_win(
    old: FloatArray,
    new: FloatArray,
    at: int,
    chords: NDArray[np.void],
    shifts: IntArray,
    ends: tuple[int, int],
    growth: FloatArray,
    points: tuple[int, int, bool],
    slack: float,
    best: FloatArray,
    trials: FloatArray,
) -> bool:
    """Whether a stretch gains more than 1 + slack times what the best pair does, and more than `new`."""
    (i, n, everywhere), (one, other) = points, ends
    for k in range(PLACES):
        t = (k * (n - 1)) // (PLACES - 1)
        c = at + t
        value = max(
            value_at(old, c, chords, shifts, one, growth, i + t), value_at(old, c, chords, shifts, other, growth, i + t)
        )
        if value > new[c] and value - best[t] > slack * (best[t] - old[c]):
            return True
    if not everywhere:
        return False
    here, known, first, last = old[at : at + n], new[at : at + n], trials[0, :n], trials[1, :n]
    fill_chords(old, at, chords[one], shifts[one, 0], shifts[one, 1], growth, i, first)
    fill_chords(old, at, chords[other], shifts[other, 0], shifts[other, 1], growth, i, last)
    winning = 0
    for t in range(n):
        value = first[t] if first[t] > last[t] else last[t]
        winning += (value > known[t]) & (value - best[t] > slack * (best[t] - here[t]))
    return winning > 0


@Kernel
def find_cover(
    old: FloatArray,
    new: FloatArray,
    at: int,
    choices: Choices,
    way: int,
    family: int,
    growth: FloatArray,
    points: tuple[int, int, bool],
    slack: float,
    guess: int,
    cover: NDArray[np.int32],
    picks: IntArray,
    trials: FloatArray,
) -> tuple[int, int]:
    """Fill `cover` with anchors above the family; return how many there are, and a pair that is good.

    `points` are the first grid point, how many there are, and whether all of them are looked at, or `PLACES`; `picks`
    gets the best pair at each. A stretch is taken where it gains hardly more than the best pair at these, or no more
    than `new` has already, by other families; any choice is certified.
    """
    n = points[1]
    chords, shifts, ends = choices.chords[way], choices.shifts[way], choices.ends[choices.starts[family, 0] :]
    own = choices.own[choices.starts[family, 1] : choices.starts[family + 1, 1]]
    best, trial = trials[2, :n], trials[0, :n]
    for t in range(n):
        best[t], picks[t] = -1.0, guess
    for pair in (guess, 0, own.size - 1):
        improve(old, at, chords, shifts, own[pair], growth, points, pair, best, picks, trial)
    stack = np.empty((DEEPEST, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = 1, 0, own.size - 1
    depth, size, last_end = 1, 0, -1
    while depth > 0:
        depth -= 1
        stretch, first, last = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        one, other = ends[stretch, 0], ends[stretch, 1]
        room = last - first > 1 and size + 2 * depth + SPARE_ANCHORS <= cover.size
        if room and may_win(old, new, at, chords, shifts, (one, other), growth, points, NEAR * slack, best, trials):
            middle = (first + last) // 2
            improve(old, at, chords, shifts, own[middle], growth, points, middle, best, picks, trial)
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = 2 * stretch + 1, middle, last
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = 2 * stretch, first, middle
            depth += 2
            continue
        if one == other:
            cover[size] = one
            size, last_end = size + 1, -1
            continue
        # where two stretches meet, the larger of two anchors at the same pair is above both; it has the larger number
        if last_end >= 0:
            cover[size - 1] = max(last_end, one)
        else:
            cover[size] = one
            size += 1
        cover[size] = other
        size, last_end = size + 1, other
    return size, picks[((PLACES // 2) * (n - 1)) // (PLACES - 1)]


@Kernel
def raise_by_two(
    old: FloatArray, at: int, a: Any, a_shifts: IntArray, b: Any, b_shifts: IntArray, now: FloatArray, out: FloatArray
) -> None:
    """The largest of `now` and of two chords that have no gap here, at grid points of which old[at] is the first."""
    n = now.size
    here = old[at : at + n]
    a_below, b_below = (
        old[at - a_shifts[0] - 1 : at - a_shifts[0] + n],
        old[at - b_shifts[0] - 1 : at - b_shifts[0] + n],
    )
    a_above, b_above = (
        old[at + a_shifts[1] : at + a_shifts[1] + n + 1],
        old[at + b_shifts[1] : at + b_shifts[1] + n + 1],
    )
    a0, a1, a2, a3, a4 = a.below, a.below_next, a.here, a.above, a.above_next
    b0, b1, b2, b3, b4 = b.below, b.below_next, b.here, b.above, b.above_next
    for t in range(n):
        one = a0 * a_below[t] + a1 * a_below[t + 1] + a2 * here[t] + a3 * a_above[t] + a4 * a_above[t + 1]
        other = b0 * b_below[t] + b1 * b_below[t + 1] + b2 * here[t] + b3 * b_above[t] + b4 * b_above[t + 1]
        larger = one if one > other else other
        out[t] = now[t] if now[t] > larger else larger


@Kernel
def raise_tile(
    old: FloatArray,
    new: FloatArray,
    at: int,
    chords: NDArray[np.void],
    shifts: IntArray,
    growth: FloatArray,
    i: int,
    n: int,
    cover: NDArray[np.int32],
    trials: FloatArray,
) -> None:
    """Raise `new` at n grid points from i on, of which new[at] is the first, to the largest chord of a cover."""
    # what is raised goes to another array, by turns: a loop that raises its own array is compiled to slow masked stores
    now, larger, trial = trials[0, :n], trials[1, :n], trials[2, :n]
    for t in range(n):  # an assignment of whole arrays takes a second to compile
        now[t] = new[at + t]
    k = 0
    while k < cover.size:
        a, b = cover[k], cover[min(k + 1, cover.size - 1)]
        if i > shifts[a, 0] and i > shifts[b, 0]:
            raise_by_two(old, at, chords[a], shifts[a], chords[b], shifts[b], now, larger)
            k += 2
        else:
            fill_chords(old, at, chords[a], shifts[a, 0], shifts[a, 1], growth, i, trial)
            for t in range(n):
                larger[t] = now[t] if now[t] > trial[t] else trial[t]
            k += 1
        now, larger = larger, now
    for t in range(n):
        new[at + t] = now[t]


@Kernel
def raise_window(
    old: FloatArray,
    new: FloatArray,
    choices: Choices,
    family: int,
    covers: Covers,
    policy: IntArray,
    lattice: Lattice,
    known: int,
    turn: tuple[int, float, float],
    slack: float,
) -> None:
    """Raise the values `new`, by direction and grid point, up to `known`, to those of one more step before `old`.

    `turn` is a number that rises by one from step to step, and how many steps are left, about: covers change with
    these, and are looked for again at some of them. `policy` gets the best pairs, where it is not empty.
    """
    base, (tick, steps, pace) = lattice.base, turn
    everywhere = steps < EARLY
    period = min(1 + int(pace * max(steps - EARLY_KEPT, 0.0) / KEPT_FOR), LONGEST_KEPT)
    trials, picks = np.empty((3, TILE)), np.empty(TILE, np.int64)
    for way in range(2):
        for tile in range(known // TILE + 1):
            i = tile * TILE
            n = min(TILE, known + 1 - i)
            cover = covers.anchors[family, way, tile]
            if covers.sizes[family, way, tile] == 0 or (tick + tile) % period == 0:
                points, guess = (i, n, everywhere), covers.guesses[family, way, tile]
                # which family is best changes from step to step, so that a cover that is kept is one of its own
                elsewhere = new[way] if period == 1 else old[way]
                covers.sizes[family, way, tile], covers.guesses[family, way, tile] = find_cover(
                    old[way],
                    elsewhere,
                    base + i,
                    choices,
                    way,
                    family,
                    lattice.growth,
                    points,
                    slack,
                    guess,
                    cover,
                    picks,
                    trials,
                )
                if policy.shape[1] > 0:
                    for t in range(min(TILE, policy.shape[1] - i)):
                        k = ((PLACES - 1) * t + n // 2) // max(n - 1, 1)  # the nearest place
                        place = (min(k, PLACES - 1) * (n - 1)) // (PLACES - 1)
                        policy[way, i + t] = picks[min(t, n - 1) if everywhere else place]
            chords, shifts, size = choices.chords[way], choices.shifts[way], covers.sizes[family, way, tile]
            raise_tile(old[way], new[way], base + i, chords, shifts, lattice.growth, i, n, cover[:size], trials)
