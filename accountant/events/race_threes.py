"""The others in a race for the place of a report (`accountant.events.shuffled_race`) where inputs differ in three bits.

Any two inputs differ in three bits or fewer. What users whose reports are far from each other have in common is little,
but not all users are there at once. Where the changed user's inputs differ in three bits, D, another's has one bit
outside D, at most. Either there is one such bit for all; or two of these are different, and all inputs that have such
bits are, in D, one word or next to it. Where they differ in two bits, another's has up to two bits outside, and those
that have two have one bit in common, or they are the three pairs of three bits.

A user has a G of one's own, too, between that of all and the report: rates spread less then.

For each of these G is another: what is likely of the inputs that there may be. Bits outside D that only some user's
input has may be another's for every user: G has them from the changed user's report.

Proofs: notebooks/mathematics.md, Shuffled bits.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.events.race_crowds import Crowd, Family
from accountant.events.race_thetas import IntArray
from accountant.events.race_words import counts
from accountant.events.shuffled_inputs import Facts
from accountant.numerics.kernel import FloatArray

__all__ = ["Threes", "crowd_of_threes", "log_own_threes", "threes_of"]


FEWEST_HIDE, FEW_HIDE, LEAST_LOCAL = 0.04, 7.0, 1.5
"""Users, times e^-epsilon0, from which and up to which less is known without it, and the epsilon0 from which on:
elsewhere any others hide nearly as much, or nobody does."""


class Tilt(NamedTuple):
    """Log of the odds of a one in G, over epsilon, of a bit: a number, and multiples of `narrow` and of `odds`."""

    fixed: float
    narrow: float = 0.0
    odds: float = 0.0


OWN = Tilt(-1.0)
"""A bit of one user's alone: as in the report of the changed user."""


class Threes(NamedTuple):
    """Inputs of the changed user and those of others, as binary numbers, and what G is like.

    Bits beyond the tilts are those of one user alone. G has a further factor e^(-epsilon narrow |h - d/2|) where it is
    `bent`, h being how many of the d bits in which the changed inputs differ are set; and one whose log, over epsilon,
    `lifts` has for every h, where the next bit is set. The last two are where a search for a good G begins.
    """

    length: int
    first: int
    second: int
    others: tuple[int, ...]
    tilts: tuple[Tilt, ...]
    bent: float = 0.0
    lifts: tuple[float, ...] = ()
    narrow: float = 0.0
    odds: float = 0.0

    @property
    def bits(self) -> int:
        """How many bits the inputs of the changed user differ in."""
        return (self.first ^ self.second).bit_count()


ONE_BIT = Threes(
    4, 0, 0b111, (0, 0b111, 0b0001, 0b0011, 0b1001, 0b1011), (Tilt(0.3), Tilt(0.3), Tilt(0.3), Tilt(0.0, 0.0, 1.0)),
    1.0, (0.0, -0.1, -0.3, -0.6), 0.3, 0.0,
)  # fmt: skip
"""Three bits differ, and one for all is outside."""

NEAR_ONE = Threes(
    4, 0, 0b111, (0, 0b111, 0b0010, 0b1001, 0b1011), (Tilt(0.0, 1.0), Tilt(0.0, 0.0, -1.0), Tilt(0.0, 0.0, -1.0)),
    narrow=1.3, odds=0.1,
)  # fmt: skip
NEAR_TWO = Threes(
    4, 0, 0b111, (0, 0b111, 0b0101, 0b1001, 0b1011), (Tilt(0.0, 0.0, 1.0), Tilt(0.0, 0.0, 1.0), Tilt(0.0, -1.0)),
    narrow=0.4, odds=0.7,
)  # fmt: skip
"""The same with bits of some users' own, of inputs that are, among these three bits, near 001 or near 011."""

STAR = Threes(
    4, 0, 0b11, (0b1000, 0b0100, 0b1001, 0b1101, 0b1011, 0b0111), (Tilt(0.0), Tilt(0.0), Tilt(0.0, 0.0, 1.0)),
    1.0, (), 0.3, -0.25,
)  # fmt: skip
"""Two bits differ, and inputs with two bits outside have one of these in common."""

PAIRS = Threes(
    6, 0, 0b11, (0, 0b11, 0b01101, 0b00101, 0b100001),
    (Tilt(0.5, 1.0), Tilt(-0.5, -1.0), Tilt(0.0, 0.0, 1.0), Tilt(0.0, 0.0, 1.0), Tilt(0.0, 0.0, 1.0)),
    narrow=0.4, odds=-0.4,
)  # fmt: skip
"""The same where these are the three pairs of three bits: all then have the same one of the two bits that differ."""


ONE_DIFFERS = Family(1, ((2, 0, 1), (2, 1, 0)))
"""A single bit differs."""


def threes_of(epsilon: float, facts: Facts, users: int) -> tuple[Threes | Family, ...]:
    """What inputs may be, if it is known of inputs only that they differ in three bits, and little hides them."""
    hide = users * math.exp(-3.0 * epsilon)
    if facts != Facts(3) or 3.0 * epsilon < LEAST_LOCAL or not FEWEST_HIDE <= hide <= FEW_HIDE:
        return ()
    return ONE_BIT, ONE_DIFFERS, NEAR_ONE, NEAR_TWO, STAR, PAIRS


class Layout(NamedTuple):
    """Of a family: reports that are alike for a kind of others, one after the other, in the order of `Crowd`.

    `seen` are numbers of the words of bits that may be set in any input, by which of them the changed user's own
    reports tell apart: distances from both its inputs, and what log G is made of, over epsilon: a number, and multiples
    of `narrow` and of `odds`. Then, for each kind: how many reports are alike, which of these they belong to, how far
    they are from the user's input in bits that are seen and in others, and how many of the others are set.
    """

    seen: FloatArray
    parts: FloatArray
    number: FloatArray
    place: IntArray
    away: FloatArray
    away_alone: FloatArray
    ones_alone: FloatArray
    differing: FloatArray
    starts: IntArray
    spare_starts: IntArray


@lru_cache(maxsize=16)
def layout_of(family: Threes) -> Layout:
    """No matter what G is like."""
    bits = len(family.tilts)
    words = np.arange(1 << bits)
    differ = family.first ^ family.second
    d, agree = differ.bit_count(), counts(words & differ)
    set_bits = words >> np.arange(bits)[:, None] & 1
    fixed, narrow, odds = np.array(family.tilts).T @ set_bits
    narrow = narrow - family.bent * np.abs(agree - 0.5 * d)
    if family.lifts:
        fixed = fixed + np.array(family.lifts)[agree] * (words >> d & 1)
    told = np.stack([counts(words ^ family.first), counts(words ^ family.second), fixed, narrow, odds], axis=1)
    parts, place, seen = np.unique(np.round(told, 9), axis=0, return_inverse=True, return_counts=True)
    place = place.ravel()
    longer = np.arange(1 << family.length)
    here, alone = longer & words[-1], longer >> bits
    columns, sizes, ends = [], [], [0]
    for word in family.others:
        away, apart = counts(here ^ (word & words[-1])), counts(alone ^ (word >> bits))
        alike, number = np.unique(
            np.stack([place[here], away, apart, counts(alone)], axis=1), axis=0, return_counts=True
        )
        k = ((word ^ family.first) & differ).bit_count()
        columns.append(np.column_stack([number, alike, np.full(number.size, k)]))
        sizes.append(np.bincount(alike[:, 0], minlength=len(parts)))
        ends.append(ends[-1] + number.size)
    number, places, away, apart, ones, differing = np.concatenate(columns).T
    return Layout(
        seen.astype(float), parts, number.astype(float), places, away.astype(float), apart.astype(float),
        ones.astype(float), differing.astype(float), np.array(ends), np.cumsum([0, *np.concatenate(sizes).tolist()]),
    )  # fmt: skip


def log_common(epsilon: float, layout: Layout, narrow: float, odds: float) -> FloatArray:
    """Logs of G of a word of bits that are seen, by what the changed user's own reports tell apart."""
    logs = epsilon * (layout.parts[:, 2] + narrow * layout.parts[:, 3] + odds * layout.parts[:, 4])
    return np.asarray(logs - np.logaddexp.reduce(logs + np.log(layout.seen)))


def log_own_threes(epsilon: float, family: Threes, narrow: float, odds: float) -> tuple[FloatArray, FloatArray]:
    """Logs of P0/G and P1/G, by what the changed user's own reports tell apart; the last two are over epsilon."""
    layout = layout_of(family)
    log_unflipped = -len(family.tilts) * math.log1p(math.exp(-epsilon)) - log_common(epsilon, layout, narrow, odds)
    return log_unflipped - epsilon * layout.parts[:, 0], log_unflipped - epsilon * layout.parts[:, 1]


@lru_cache(maxsize=256)
def crowd_of_threes(epsilon: float, family: Threes, slower: float, near: tuple[float, float, float]) -> Crowd:
    """Others with these inputs, and clocks of speeds e^(-k slower), k bits differing from the first input alone.

    `near` are `narrow` and `odds`, over epsilon, and the share of the log of a user's own report in that of the user's
    own G, of bits that are seen. All have the same of others.
    """
    narrow, odds, like = near
    layout, log_kept = layout_of(family), math.log1p(math.exp(-epsilon))
    log_seen = log_common(epsilon, layout, narrow, odds)[layout.place]
    log_lacks = like * (log_seen + epsilon * layout.away + len(family.tilts) * log_kept)
    log_g = log_seen - epsilon * layout.ones_alone - (family.length - len(family.tilts)) * log_kept
    log_report = -epsilon * (layout.away + layout.away_alone) - family.length * log_kept
    masses = layout.number * np.exp(log_report)
    masses /= np.repeat(np.add.reduceat(masses, layout.starts[:-1]), np.diff(layout.starts))
    speeds = np.exp(-slower * layout.differing)
    rates = speeds * np.exp(log_g - log_lacks - log_report)
    first, second = layout.parts[layout.place, :2].T + layout.ones_alone
    away = layout.away + layout.away_alone
    return Crowd(
        masses, rates, speeds, epsilon * (away - first), epsilon * (away - second), layout.starts,
        layout.number * np.exp(log_g), rates, layout.spare_starts, log_lacks,
    )  # fmt: skip
