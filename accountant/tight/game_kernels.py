"""Compiled loops of one step of the family game; `accountant.tight.screening_game` says what they compute."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray, Kernel

__all__ = ["ROUNDING", "IntArray", "play"]

IntArray = NDArray[np.int64]

TILE = 128
"""Neighbouring grid points that share one search for the best pair."""

ROUNDING = 1e-14
"""Relative; above what the weights (some ulp each) and the sums (at most 10 roundings) of one step may err."""


@Kernel
def fill_chords(
    old: FloatArray, at: int, law: FloatArray, down: int, up: int, growth: FloatArray, i: int, out: FloatArray
) -> None:
    """Values of one law at grid points i, i + 1, ..., of which old[at] is the first; `growth` is e^x - 1."""
    n = out.size
    below = old[at - down - 1 : at - down + n]
    above = old[at + up : at + up + n + 1]
    here = old[at : at + n]
    w0, w1, w2, w3, w4 = law[0], law[1], law[2], law[3], law[4]
    for t in range(n):
        out[t] = w0 * below[t] + w1 * below[t + 1] + w2 * here[t] + w3 * above[t] + w4 * above[t + 1]
    for t in range(min(n, down + 1 - i)):
        out[t] += law[5] * max(law[6] - law[7] * growth[i + t], 0.0)


@Kernel
def could_win(
    old: FloatArray,
    at: int,
    laws: FloatArray,
    shifts: IntArray,
    node: int,
    growth: FloatArray,
    i: int,
    best: FloatArray,
    slack: float,
) -> bool:
    """Whether a law gains more than 1 + slack times what the best so far gains, at one of four points."""
    down, up = shifts[node, 0], shifts[node, 1]
    for k in range(4):
        t = (k * (best.size - 1)) // 3
        c = at + t
        value = laws[node, 0] * old[c - down - 1] + laws[node, 1] * old[c - down] + laws[node, 2] * old[c]
        value += laws[node, 3] * old[c + up] + laws[node, 4] * old[c + up + 1]
        if i + t <= down:
            value += laws[node, 5] * max(laws[node, 6] - laws[node, 7] * growth[i + t], 0.0)
        if value - best[t] > slack * (best[t] - old[c]):
            return True
    return False


@Kernel
def raise_tile(
    old: FloatArray,
    at: int,
    laws: FloatArray,
    shifts: IntArray,
    growth: FloatArray,
    i: int,
    slack: float,
    best: FloatArray,
    policy: IntArray,
    trial: FloatArray,
    stack: IntArray,
) -> None:
    """Fill `best` with an upper bound on the largest chord over all pairs, `policy` with the pair that comes closest.

    Pairs are the leaves of a binary tree, node k over nodes 2k and 2k + 1. An inner node holds one law that
    dominates all pairs below it. It is either taken as if it were a pair or replaced by its two children: any
    choice between the two is certified.
    """
    leaves = laws.shape[0] // 2
    here = old[at : at + best.size]
    guess = policy[policy.size // 2]
    policy[:] = guess
    fill_chords(old, at, laws[guess], shifts[guess, 0], shifts[guess, 1], growth, i, best)
    stack[0], depth = 1, 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if node == guess:
            continue
        if node < leaves and could_win(old, at, laws, shifts, node, growth, i, best, slack):
            stack[depth], stack[depth + 1] = 2 * node, 2 * node + 1
            depth += 2
            continue
        fill_chords(old, at, laws[node], shifts[node, 0], shifts[node, 1], growth, i, trial)
        if node >= leaves:
            for t in range(best.size):
                wins = trial[t] > best[t]
                policy[t] = node if wins else policy[t]
                best[t] = trial[t] if wins else best[t]
            continue
        better = 0
        for t in range(best.size):
            better += trial[t] - best[t] > slack * (best[t] - here[t])
        if better > 0:
            stack[depth], stack[depth + 1] = 2 * node, 2 * node + 1
            depth += 2
            continue
        for t in range(best.size):
            best[t] = max(best[t], trial[t])


@Kernel
def extend_tests(
    old: FloatArray,
    base: int,
    outcomes: FloatArray,
    falls: FloatArray,
    shifts: IntArray,
    policy: IntArray,
    decay: FloatArray,
    step: float,
    slope_error: float,
    new: FloatArray,
) -> None:
    """The adversary plays `policy` once, then goes on with the tests that `old` holds.

    A test S at u = e^x_k is a row (value, P(S), P(not S), u Q(S), Q(not S)): masses that only ever add up, and a
    value P(S) - u Q(S), less 1 - u where x_k < 0, that is rounded down. As a line in u it stays below W
    everywhere, so it serves at other points too. After either outcome the adversary goes on with the better of
    the tests at the two grid points around it, or with the test that always says yes, or no.
    """
    for i in range(policy.size):
        node = policy[i]
        value, accepted, missed, slope, kept = 0.0, 0.0, 0.0, 0.0, 0.0
        for o in range(2):
            at = i + shifts[node, o]
            p, q = outcomes[node, o, 0], outcomes[node, o, 1]
            height, c, side = 0.0, 0, 0
            for k in range(2):
                # e^off - 1, where off is how far the outcome lies from the grid point
                bend = outcomes[node, o, 2 + k]
                if bend == math.inf:
                    continue
                change = bend * (decay[-at - k] * old[base + at + k, 4] if at + k < 0 else -old[base + at + k, 3])
                # slopes below 1e-300 may have underflowed
                trial = old[base + at + k, 0] + change - slope_error * abs(change) - 1e-300 * abs(bend)
                if at + k == 0 and bend < 0.0:
                    trial += bend * (1.0 + slope_error)  # from W to V
                if trial > height:
                    height, c, side = trial, base + at + k, k
            if height > 0.0:
                value += p * height
                accepted += p * old[c, 1]
                missed += p * old[c, 2]
                slope += outcomes[node, o, 4 + side] * old[c, 3]
                kept += q * old[c, 4]
            elif at < 0:  # W >= 1 - u
                accepted += p
                slope += outcomes[node, o, 5] * decay[-at - 1]
            else:  # W >= 0
                missed += p
                kept += q
        gap = falls[node] - i * step
        if gap > 0.0:
            value -= outcomes[node, 0, 0] * math.expm1(-gap)  # where 1 - u > 0, W is V and that
        if not value > 0.0:
            value, accepted, missed, slope, kept = 0.0, 0.0, 1.0, 0.0, 1.0
        c = base + i
        new[c, 0], new[c, 1], new[c, 2], new[c, 3], new[c, 4] = value * (1.0 - ROUNDING), accepted, missed, slope, kept


@Kernel
def mirror(
    upper: FloatArray, tests: FloatArray, base: int, known: int, wanted: int, decay: FloatArray, half: int
) -> None:
    """Give one half its stretch left of x = 0, from the other half, and its values beyond the known window.

    Beyond the window the upper bound keeps the value at the edge, as V falls on either side of 0, and the lower
    bound the test that always says no.
    """
    end = min(base + wanted + base, upper.shape[1])
    upper[half, base + known + 1 : end] = upper[half, base + known]
    for k in range(1, base + 1):
        upper[half, base - k] = decay[k] * upper[1 - half, base + min(k, known)]
        test, row = tests[1 - half, base + k], tests[half, base - k]
        # the complement of the other half's test, with P and Q exchanged
        row[0], row[1], row[2] = decay[k] * test[0], test[4], decay[k] * test[3]
        row[3], row[4] = decay[k] * test[2], test[1]


@Kernel
def play(
    upper: FloatArray,
    tests: FloatArray,
    windows: IntArray,
    laws: FloatArray,
    shifts: IntArray,
    outcomes: FloatArray,
    falls: FloatArray,
    test_shifts: IntArray,
    decay: FloatArray,
    growth: FloatArray,
    base: int,
    step: float,
    slack: float,
) -> int:
    """Play one step for each entry of `windows` but the first; return which of the two buffers holds the end.

    Leading axes are (buffer, half) for `upper` and `tests`, (half, node or pair) for the tables. `windows` are the
    numbers of grid points that each step reckons with; it never falls.
    """
    leaves = outcomes.shape[1]
    policy = np.full((2, growth.size), leaves)
    trial = np.empty(TILE)
    stack = np.empty(64, np.int64)
    slope_error = windows.size * ROUNDING
    now = 0
    for j in range(1, windows.size):
        count = windows[j] + 1
        for half in range(2):
            mirror(upper[now], tests[now], base, windows[j - 1], windows[j], decay, half)
        for half in range(2):
            old, new = upper[now, half], upper[1 - now, half]
            for i in range(0, count, TILE):
                n = min(TILE, count - i)
                best, best_pairs = new[base + i : base + i + n], policy[half, i : i + n]
                raise_tile(
                    old, base + i, laws[half], shifts[half], growth, i, slack, best, best_pairs, trial[:n], stack
                )
            extend_tests(
                tests[now, half],
                base,
                outcomes[half],
                falls[half],
                test_shifts[half],
                policy[half, :count] - leaves,
                decay,
                step,
                slope_error,
                tests[1 - now, half],
            )
        now = 1 - now
    return now
