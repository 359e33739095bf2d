"""Compiled loops of one step of the family game; `accountant.tight.screening_game` says what they compute."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray, Kernel

__all__ = [
    "CHORD",
    "LOST",
    "OUTCOME",
    "STEP_ROUNDING",
    "TEST",
    "UNSURE",
    "GamePairs",
    "IntArray",
    "Lattice",
    "extend_left",
    "play",
    "play_step",
    "take_better",
]

IntArray = NDArray[np.int64]

TILE = 128
"""Neighbouring grid points that share one search for the best pair."""

TRIALS = 5
"""Arrays of so many values that a search needs."""

STEP_ROUNDING = 1e-14
"""Relative; above what the weights (some ulp each) and the sums (at most 10 roundings) of one step may err."""


def record(*names: str) -> np.dtype[np.void]:
    """Records of floats."""
    # scalars of such arrays have attributes where numba is told not to compile, too
    return np.dtype((np.record, [(name, np.float64) for name in names]))


CHORD = record("below", "below_next", "here", "above", "above_next", "gap", "gap_start", "gap_slope")
"""A pair's chord: weights of five grid points, and of its gap (gap_start - gap_slope (e^x - 1))_+ to 1 - u."""

OUTCOME = record("p", "q", "bend_lower", "bend_upper", "slope_lower", "slope_upper")
"""One outcome of a pair: its probabilities under P and Q; e^off - 1 and p e^off, where off is how far it lies from the
grid point below it, and from the one above."""

TEST = record("value", "accepted", "missed", "slope", "kept")
"""A test S at u: a lower bound on P(S) - u Q(S), then P(S), P(not S), u Q(S), or Q(S) where x < 0, and Q(not S)."""

LOST = 1e-306
"""More than products of one step that are below 1e-307 lose, all together: `missed` and `slope` are raised by it."""

UNSURE = 1e-297
"""More than P(S) and Q(not S) may be wrong by after 1e8 steps, besides their relative errors."""


class GamePairs(NamedTuple):
    """The pairs that the adversary chooses from; the first axis is the direction, the second the node or pair.

    `chords` and `shifts` of all nodes of the tree are for upper bounds; `outcomes`, `test_shifts` and `falls` (the
    log-ratios of the first outcome) of its leaves are for tests.
    """

    chords: NDArray[np.void]
    shifts: IntArray
    outcomes: NDArray[np.void]
    test_shifts: IntArray
    falls: FloatArray


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
def could_win(
    old: FloatArray,
    at: int,
    chords: NDArray[np.void],
    shifts: IntArray,
    node: int,
    growth: FloatArray,
    i: int,
    best: FloatArray,
    slack: float,
) -> bool:
    """Whether a chord gains more than 1 + slack times what the best so far gains, at one of four points."""
    chord, down, up = chords[node], shifts[node, 0], shifts[node, 1]
    for k in range(4):
        t = (k * (best.size - 1)) // 3
        c = at + t
        value = chord.below * old[c - down - 1] + chord.below_next * old[c - down] + chord.here * old[c]
        value += chord.above * old[c + up] + chord.above_next * old[c + up + 1]
        if i + t <= down:
            value += chord.gap * max(chord.gap_start - chord.gap_slope * growth[i + t], 0.0)
        if value - best[t] > slack * (best[t] - old[c]):
            return True
    return False


@Kernel
def take_larger(one: FloatArray, other: FloatArray, out: FloatArray) -> None:
    """The larger of two values at each place, in an array of its own."""
    for t in range(out.size):
        out[t] = one[t] if one[t] > other[t] else other[t]


@Kernel
def raise_tile(
    old: FloatArray,
    at: int,
    chords: NDArray[np.void],
    shifts: IntArray,
    growth: FloatArray,
    i: int,
    slack: float,
    best: FloatArray,
    policy: IntArray,
    trials: FloatArray,
    stack: IntArray,
) -> None:
    """Fill `best` with an upper bound on the largest chord over all pairs, `policy` with the pair that comes closest.

    Pairs are the leaves of a binary tree, node k over nodes 2k and 2k + 1. An inner node holds one chord that
    dominates all pairs below it. It is either taken as if it were a pair or replaced by its two children: any
    choice between the two is certified. It is taken where it gains hardly more than the best pair, which inner nodes
    that were taken before do not raise: else what they gain would add up.
    """
    n = best.size
    trial = trials[0, :n]
    # what is raised goes to other arrays, by turns: a loop that raises its own array is compiled to slow masked stores
    played, raised = trials[1, :n], trials[2, :n]
    found, larger = trials[3, :n], trials[4, :n]
    leaves = chords.shape[0] // 2
    here = old[at : at + n]
    middle = n // 2
    guess = policy[middle]
    policy[:] = guess
    fill_chords(old, at, chords[guess], shifts[guess, 0], shifts[guess, 1], growth, i, played)
    for t in range(n):  # an assignment of whole arrays takes a second to compile
        found[t] = played[t]
    stack[0], depth = 1, 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if node == guess:
            continue
        if node < leaves and could_win(old, at, chords, shifts, node, growth, i, played, slack):
            stack[depth], stack[depth + 1] = 2 * node, 2 * node + 1
            depth += 2
            continue
        fill_chords(old, at, chords[node], shifts[node, 0], shifts[node, 1], growth, i, trial)
        winning = 0
        for t in range(n):
            winning += trial[t] > played[t]
        if winning == 0:  # what was found is no less than what is played
            continue
        if node >= leaves:
            for t in range(n):
                if trial[t] > played[t]:
                    policy[t] = node
            take_larger(trial, played, raised)
            played, raised = raised, played
        else:
            better = 0
            for t in range(n):
                better += trial[t] - played[t] > slack * (played[t] - here[t])
            if better > 0:
                stack[depth], stack[depth + 1] = 2 * node, 2 * node + 1
                depth += 2
                continue
        take_larger(trial, found, larger)
        found, larger = larger, found
    for t in range(n):
        best[t] = found[t]


@Kernel
def extend_tests(
    old: NDArray[np.void],
    new: NDArray[np.void],
    policy: IntArray,
    outcomes: NDArray[np.void],
    shifts: IntArray,
    falls: FloatArray,
    lattice: Lattice,
    reach: int,
    slope_error: float,
) -> None:
    """The adversary plays `policy` once, then goes on with the tests that `old` holds up to `reach` on either side.

    A test at u = e^x_k is a record TEST: masses that only ever add up, and a value P(S) - u Q(S), less 1 - u where
    x_k < 0, that is rounded down. As a line in u it stays below W everywhere, so it serves at other points too. After
    either outcome the adversary goes on with the better of the tests at the two grid points around it, or with the
    test that always says yes, or no.

    Products underflow on coarse grids, and a later step may move what was lost by e^600: P(not S) and u Q(S) are
    rounded up and the value pays for it (notebooks/mathematics.md, Screening game).
    """
    base, decay = lattice.base, lattice.decay
    for i in range(policy.size):
        node = policy[i] - outcomes.shape[0]  # its number among the leaves
        value, accepted, missed, slope, kept = 0.0, 0.0, 0.0, 0.0, 0.0
        for o in range(2):
            at = i + shifts[node, o]
            outcome = outcomes[node, o]
            height, c, tilted = 0.0, 0, 0.0
            for k in range(2):
                bend = outcome.bend_lower if k == 0 else outcome.bend_upper
                if bend == math.inf or abs(at + k) > reach:
                    continue
                test = old[base + at + k]
                change = bend * (decay[-at - k] * test.kept if at + k < 0 else -test.slope)
                trial = test.value + change - slope_error * abs(change) - UNSURE * abs(bend)
                if at + k == 0 and bend < 0.0:
                    trial += bend * (1.0 + slope_error)  # from W to V
                if trial > height:
                    height, c, tilted = trial, base + at + k, outcome.slope_lower if k == 0 else outcome.slope_upper
            if height > 0.0:
                value += outcome.p * height
                accepted += outcome.p * old[c].accepted
                missed += outcome.p * old[c].missed
                slope += (tilted if at >= 0 else tilted * decay[base - c]) * old[c].slope
                kept += outcome.q * old[c].kept
            elif at < 0:  # W >= 1 - u
                accepted += outcome.p
                slope += outcome.slope_upper * decay[-at - 1]
            else:  # W >= 0
                missed += outcome.p
                kept += outcome.q
        gap = falls[node] - i * lattice.step
        if gap > 0.0:
            value -= outcomes[node, 0].p * math.expm1(-gap)  # W = V + (1 - u)_+
        value, missed, slope = value - 2.0 * LOST, missed + LOST, slope + LOST
        if not value > 0.0:
            value, accepted, missed, slope, kept = 0.0, 0.0, 1.0, 0.0, 1.0
        found = new[base + i]
        found.value, found.accepted, found.missed = value * (1.0 - STEP_ROUNDING), accepted, missed
        found.slope, found.kept = slope, kept


@Kernel
def extend_left(
    upper: FloatArray, tests: NDArray[np.void], lattice: Lattice, known: int, wanted: int, direction: int
) -> None:
    """Give one direction its values left of x = 0, from the other direction, and its values beyond the known window.

    Beyond the window the upper bound keeps the value at the edge, as V falls on either side of 0; there are no tests.
    """
    base, decay, other = lattice.base, lattice.decay, 1 - direction
    end = min(base + wanted + base, upper.shape[1])
    upper[direction, base + known + 1 : end] = upper[direction, base + known]
    for k in range(1, base + 1):
        upper[direction, base - k] = decay[k] * upper[other, base + min(k, known)]
    for k in range(1, min(base, known) + 1):
        test, own = tests[other, base + k], tests[direction, base - k]
        # the complement of the other direction's test, with P and Q exchanged; Q(S) for the slope, as u may underflow
        own.value, own.accepted, own.missed = decay[k] * test.value, test.kept, decay[k] * test.slope
        own.slope, own.kept = test.missed, test.accepted


@Kernel
def play_step(
    old: FloatArray,
    old_tests: NDArray[np.void],
    new: FloatArray,
    new_tests: NDArray[np.void],
    policy: IntArray,
    pairs: GamePairs,
    lattice: Lattice,
    reach: int,
    count: int,
    slope_error: float,
    slack: float,
) -> None:
    """One more step before what is left: fill the first `count` grid points of both directions.

    `old` was extended by `extend_left`, from the grid points up to `reach`. `policy` has the leaf that is played at
    each grid point; it may hold those of another step.
    """
    base = lattice.base
    trials = np.empty((TRIALS, TILE))
    stack = np.empty(64, np.int64)
    for d in range(2):
        chords, shifts = pairs.chords[d], pairs.shifts[d]
        for i in range(0, count, TILE):
            n = min(TILE, count - i)
            best, best_pairs = new[d, base + i : base + i + n], policy[d, i : i + n]
            raise_tile(old[d], base + i, chords, shifts, lattice.growth, i, slack, best, best_pairs, trials, stack)
        extend_tests(
            old_tests[d],
            new_tests[d],
            policy[d, :count],
            pairs.outcomes[d],
            pairs.test_shifts[d],
            pairs.falls[d],
            lattice,
            reach,
            slope_error,
        )


@Kernel
def play(
    upper: FloatArray,
    tests: NDArray[np.void],
    windows: IntArray,
    ends: IntArray,
    pairs: GamePairs,
    lattice: Lattice,
    slack: float,
) -> int:
    """Play one step for each entry of `windows` but the first; return which of the two buffers holds the end.

    Axes of `upper` and `tests` are (buffer, direction, grid point). `windows` are the numbers of grid points that each
    step takes into account; they never fall. From the grid points `ends` on nothing is left to win after each step.
    """
    policy = np.full((2, lattice.growth.size), pairs.outcomes.shape[1])
    slope_error = windows.size * STEP_ROUNDING
    now = 0
    for j in range(1, windows.size):
        for d in range(2):
            extend_left(upper[now], tests[now], lattice, windows[j - 1], windows[j], d)
        after, reach, count = 1 - now, windows[j - 1], windows[j] + 1
        old, new = (upper[now], tests[now]), (upper[after], tests[after])
        play_step(old[0], old[1], new[0], new[1], policy, pairs, lattice, reach, count, slope_error, slack)
        for d in range(2):
            for k in range(lattice.base + ends[j], lattice.base + count):
                upper[after, d, k] = 0.0
        now = after
    return now


@Kernel
def take_better(upper: FloatArray, tests: NDArray[np.void], others: FloatArray, other_tests: NDArray[np.void]) -> None:
    """Keep the larger of two upper bounds, and of two tests the better one: what may choose has both."""
    for d in range(upper.shape[0]):
        for i in range(upper.shape[1]):
            upper[d, i] = max(upper[d, i], others[d, i])
            if other_tests[d, i].value > tests[d, i].value:
                tests[d, i] = other_tests[d, i]
