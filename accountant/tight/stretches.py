"""Pairs of a family in stretches that a mixture of two anchors dominates, by which a game looks past most of them.

The profile of a two-point pair is a tent over u, and a tent below a mixture of two others has the smaller step on every
convex W that falls. Neighbours of a family differ little, so that all pairs between two of them lie below mixtures of
these two, made larger by the square of how far apart they are (notebooks/mathematics.md, Screening game).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.tight.cover_kernels import Choices, IntArray
from accountant.tight.pairs import Pairs, chord_tables, longest_shift, share_of_peak

__all__ = ["Stretches", "choices_of", "cut_in_stretches"]

FIRST, RATIO, LEVELS, MOST = 0.125, 3.0, 9, 0.1
"""By how much log-ratios of anchors are larger: this share of what a step may give away, and so many times more at
each of so many levels, up to so much; at level 0 they are not."""

SURE = 1e-11
"""Relative: more than tents err by."""

LEAST_PEAK = 1e-300
"""Total variation distances that are smaller may have underflowed."""


class Stretches(NamedTuple):
    """A family's pairs in a line, cut in two again and again, and the anchors between which each stretch lies.

    Stretch 1 is the whole line, and stretch k is cut into 2k and 2k + 1 at the pair in its middle. `ends` are the
    anchors at its first and its last pair, or, twice, one that dominates it by itself. Anchors happen with a
    probability `share`, otherwise nothing does. `own` has the anchor of each pair by itself.
    """

    anchors: Pairs
    share: FloatArray
    ends: IntArray
    own: IntArray

    def limit(self, step: float, last: int) -> int:
        """The longest shift, in steps."""
        return longest_shift(float(np.max(self.anchors)), step, last)


def choices_of(families: Sequence[Stretches], step: float, limit: int, last: int) -> Choices:
    """All families on a grid: shifts of at most `limit` steps, and weights, for windows of at most `last` steps."""
    tables = [chord_tables(each.anchors.both_ways(), each.share, step, limit, last) for each in families]
    firsts = np.cumsum([0, *(each.share.size for each in families)])
    return Choices(
        np.concatenate([chords for chords, _ in tables], axis=1),
        np.concatenate([shifts for _, shifts in tables], axis=1),
        np.concatenate([each.ends + first for each, first in zip(families, firsts, strict=False)]),
        np.concatenate([each.own + first for each, first in zip(families, firsts, strict=False)]),
        np.cumsum([(0, 0), *((len(each.ends), each.own.size) for each in families)], axis=0),
    )


def cut_in_stretches(pairs: Pairs, share: FloatArray, slack: float) -> Stretches:
    """A family's pairs in a line, each with a probability `share`, for steps that may give away about that share."""
    count = pairs.up.size
    peaks = np.maximum(share * pairs.variation(), LEAST_PEAK)
    growths = np.concatenate([[0.0], FIRST * slack * RATIO ** np.arange(LEVELS)])
    growths = growths[growths <= MOST]
    ends = halve(count)
    levels, corners = np.zeros(len(ends), np.int64), np.zeros((3, len(ends)))
    size_anchors(np.stack(pairs), share, peaks, growths, ends, levels, corners)
    between = np.flatnonzero((levels < growths.size) & (ends[:, 1] >= 0))
    keys = ends[between] * growths.size + levels[between, None]
    own = np.arange(count) * growths.size
    known, number = np.unique(np.concatenate([own, keys.ravel()]), return_inverse=True)
    leaf, level = np.divmod(known, growths.size)
    alone = np.flatnonzero(levels == growths.size)
    above = corners[:, alone]
    larger = [each[leaf] * (1 + growths[level]) for each in pairs]
    anchors = Pairs(*(np.concatenate(both) for both in zip(larger, above[:2], strict=True)))
    shares = np.concatenate([share[leaf], share_of_peak(Pairs(*above[:2]), above[2])])
    found = np.zeros_like(ends)
    found[between] = number[count:].reshape(-1, 2)
    found[alone] = known.size + np.arange(alone.size)[:, None]
    return Stretches(anchors, shares, found, number[:count])


@Kernel
def halve(count: int) -> IntArray:
    """The first and the last pair of each stretch; -1 where there is none."""
    size = 2
    while size < 2 * (count - 1):
        size *= 2
    ends = np.full((size, 2), -1)
    ends[1, 0], ends[1, 1] = 0, count - 1
    for k in range(2, size):
        first, last = ends[k // 2, 0], ends[k // 2, 1]
        if last - first > 1:
            middle = (first + last) // 2
            ends[k, 0], ends[k, 1] = (middle, last) if k % 2 else (first, middle)
    return ends


@Kernel
def size_anchors(
    pairs: FloatArray,
    share: FloatArray,
    peaks: FloatArray,
    growths: FloatArray,
    ends: IntArray,
    levels: IntArray,
    corners: FloatArray,
) -> None:
    """Fill the least level of each stretch; above all of them, and corners are for what needs more than the largest.

    `corners` are the largest log-ratios and the largest total variation distance of its pairs.
    """
    for k in range(len(ends) - 1, 0, -1):
        first, last = ends[k, 0], ends[k, 1]
        if last < 0:
            continue
        halved = last - first > 1
        for c in range(2):
            corners[c, k] = max(pairs[c, first], pairs[c, last])
        corners[2, k] = max(peaks[first], peaks[last])
        if halved:
            levels[k] = max(levels[2 * k], levels[2 * k + 1])
            for c in range(3):
                corners[c, k] = max(corners[c, 2 * k], corners[c, 2 * k + 1])
        i = first + 1
        while i < last and levels[k] < growths.size:
            larger = 1 + growths[levels[k]]
            a, b = pairs[0, first] * larger, pairs[1, first] * larger
            c, d = pairs[0, last] * larger, pairs[1, last] * larger
            one, other = share[first] * variation(a, b), share[last] * variation(c, d)
            while i < last and lies_below(pairs[0, i], pairs[1, i], peaks[i], a, b, one, c, d, other):
                i += 1
            if i < last:  # what lay below smaller anchors lies below larger ones
                levels[k] += 1


@Kernel
def variation(up: float, down: float) -> float:
    """Total variation distance of a pair."""
    both = -math.expm1(-(up + down))
    return math.expm1(-up) * math.expm1(-down) / both if both > 0.0 else 0.0


@Kernel
def lies_below(
    up: float, down: float, peak: float, a: float, b: float, one: float, c: float, d: float, other: float
) -> bool:
    """Whether a tent of that peak lies below a mixture of the tents over [e^-b, e^a] and [e^-d, e^c]."""
    # r is the share of the latter; on either side of u = 1 a tent is a line, and others are convex
    least, most = 0.0, 1.0
    for place in range(5):
        x = 0.0 if place == 0 else a if place == 1 else c if place == 2 else -b if place == 3 else -d
        if not -down < x < up:
            continue
        wanted = tent_at(x, up, down, peak) * (1.0 + SURE)
        here, there = tent_at(x, a, b, one) * (1.0 - SURE), tent_at(x, c, d, other) * (1.0 - SURE)
        if there > here:
            least = max(least, (wanted - here) / (there - here))
        elif there < here:
            most = min(most, (here - wanted) / (here - there))
        elif wanted > here:
            return False
    return least * (1.0 + SURE) <= most


@Kernel
def tent_at(x: float, up: float, down: float, peak: float) -> float:
    """The profile H(u) - (1 - u)_+ of such a pair at u = e^x."""
    if not -down < x < up:
        return 0.0
    if x >= 0.0:
        return peak * math.expm1(x - up) / math.expm1(-up)
    return peak * math.exp(x) * math.expm1(-(x + down)) / math.expm1(-down)
