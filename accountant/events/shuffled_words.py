"""How much shuffling hides one word of randomized bits among few users, all words being inputs: the worst of all data.

Shuffled reports are told by how many there are of every word (`accountant.events.word_laws`), inputs of the others as
well, of which the worst are found by boxes (`accountant.events.word_boxes`). The changed user's may be taken for 0...0
and 0...01...1 with d ones, as flipping a bit of all inputs flips it in all reports, and bits may be exchanged: H(u) is
the largest sum of the positive parts of P0 - u P1, for any d and inputs of the others.
"""

from __future__ import annotations

import math
from bisect import bisect_right

import numpy as np

from accountant.events.shuffled_inputs import Facts
from accountant.events.word_boxes import Worst, worst_numbers
from accountant.events.word_laws import Laws, cells_of, reports_of_words, slack_of, work_of_box
from accountant.numerics.kernel import FloatArray
from accountant.patience import remember, spend

__all__ = [
    "ROOM",
    "log_between",
    "log_profile_of_words",
    "log_words_delta",
    "may_enumerate",
    "may_search",
    "points_of_words",
    "work_of_point",
    "work_of_words",
    "worst_words",
]

MOST_BITS = 4
"""Bits of a word, at most."""

MOST_CELLS, MOST_PLACES = 7_000_000, 600_000
"""Numbers of reports times those of inputs up to which a single point is looked at by itself, and of reports up to
which there is a profile."""

STEPS = 480
"""Parts of the local epsilon, at whose ends the profile is known."""

NEAR = 2e-3, 5e-3
"""Share of an epsilon, and of the profile, up to which boxes are divided; the larger counts."""

NEARLY = 1e-12
"""Share of the profile where a single point is looked at."""

FEWEST = 250.0
BOXES = {2: (0.4, 8.0, 0.5), 3: (110.0, 70.0, 0.2), 4: (600.0, 100.0, 0.18)}
"""How many boxes there are, about, beside some for each user; as many more over the square of the epsilon of one bit;
and which share of what numbers of all others take is that of the least numbers of a box."""

ROOM = 2.5
"""Boxes, at most, for each that is expected."""

WHAT = "bounds on shuffled bits"


def may_search(facts: Facts, users: int) -> bool:
    """Whether all words may be inputs, or those of few ones, and there are few enough of them and of users."""
    if not 1 < facts.bits == facts.length <= MOST_BITS or not 1 < users < MOST_PLACES:
        return False
    return cells_of(2**facts.bits, users) <= MOST_PLACES


def may_enumerate(facts: Facts, users: int) -> bool:
    """The same, and so few that single points are looked at by themselves."""
    return may_search(facts, users) and cells_of(2**facts.bits, users) ** 2 <= MOST_CELLS


def work_of_words(epsilon: float, facts: Facts, users: int) -> float:
    """About how many operations the profile takes."""
    each, more, share = BOXES[facts.bits]
    words = 2**facts.bits
    boxes = FEWEST + users * (each + more / max(epsilon, 1e-9) ** 2)
    boxes = min(boxes, 2.0 * facts.bits * cells_of(words, users - 1))
    return boxes * share * work_of_box(words, users)


def work_of_point(facts: Facts, users: int) -> float:
    """About how many operations a single point takes."""
    each, _, share = BOXES[facts.bits]
    return (FEWEST + each * users) * share * work_of_box(2**facts.bits, users)


def points_of_words(epsilon: float, bits: int, users: int) -> FloatArray:
    """Epsilons from 0 on at which the profile is known; the local one would be next, where it is 0.

    The fewer users, the more it is a polygon, whose corners should be near them.
    """
    return np.linspace(0.0, epsilon * bits, STEPS * max(16 // users, 1), endpoint=False)


@remember(WHAT, 16)
def profile_of_words(epsilon: float, bits: int, users: int, most: float) -> Worst:
    """Bounds on the profile at `points_of_words`; about `most` operations are done, at most."""
    points = points_of_words(epsilon, bits, users)
    return worst_numbers(Laws(reports_of_words(epsilon, bits), users, count), points, NEAR, most)


def log_profile_of_words(epsilon: float, facts: Facts, users: int, most: float) -> FloatArray:
    """Logs of the profile at `points_of_words`, rounded up."""
    return profile_of_words(epsilon, facts.bits, users, most).above


def log_between(epsilon: float, facts: Facts, users: int, most: float, point: float) -> float:
    """Log of H(e^point), point >= 0, by that profile: it is convex in u, so below its chords."""
    end = epsilon * facts.bits
    if point >= end:
        return -math.inf
    points, logs = points_of_words(epsilon, facts.bits, users), log_profile_of_words(epsilon, facts, users, most)
    left = bisect_right(points, point) - 1
    low, high = float(points[left]), float(points[left + 1]) if left + 1 < points.size else end
    share = math.expm1(point - low) / math.expm1(high - low)
    right = math.exp(float(logs[left + 1])) if left + 1 < points.size else 0.0
    return math.log((1.0 - share) * math.exp(float(logs[left])) + share * right) + 1e-13


def log_words_delta(epsilon: float, facts: Facts, users: int, point: float) -> float:
    """Log of H(e^point), point >= 0, of one changed report beside users - 1 others with any inputs, rounded up."""
    laws = Laws(reports_of_words(epsilon, facts.bits), users, count)
    return float(worst_numbers(laws, np.array([point]), (0.0, NEARLY), math.inf).above[0])


def worst_words(
    epsilon: float, facts: Facts, users: int, points: tuple[float, ...], most: float
) -> list[tuple[FloatArray, FloatArray]]:
    """Laws of reports of the changed user's two inputs and the others' that cost most at some epsilons.

    The first are rounded down, the second up.
    """
    profile, places = profile_of_words(epsilon, facts.bits, users, most), points_of_words(epsilon, facts.bits, users)
    laws = Laws(reports_of_words(epsilon, facts.bits), users, count)
    found = dict.fromkeys(profile.data[int(np.abs(places - point).argmin())] for point in points)
    slack, pairs = slack_of(laws.words, users), list[tuple[FloatArray, FloatArray]]()
    for ones, numbers in found:
        first, second = laws.both(numbers, ones, -slack)[:, 1:].copy()
        pairs.append((first, second))
    return pairs


def count(operations: float) -> None:
    """Count work before it is done."""
    spend(operations, WHAT)
