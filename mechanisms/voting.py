"""What is released of votes: a screening bit, the winner, or a set of labels; each with the noise of its event."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import accountant as ac
from mechanisms.arrays import Floats, Integers
from mechanisms.noise.source import Randomness, noise_of
from mechanisms.validation import check_positive, check_real

__all__ = [
    "check_sets",
    "clip_votes",
    "clipped_sensitivity",
    "noisy_argmax",
    "noisy_label_set",
    "passes_screening",
    "tally",
]


def tally(labels: Integers, n_classes: int) -> Integers:
    """Votes for each class."""
    return np.bincount(labels, minlength=n_classes)


def passes_screening(event: ac.Event, counts: Integers, source: Randomness) -> bool:
    """One bit: whether the plurality plus noise reaches the threshold; noise and threshold are those of `event`."""
    screening = event.unsampled
    if not isinstance(screening, ac.NoisyScreening):
        raise ac.ParameterError(f"event = {event!r}; accepted: NoisyScreening, sampled or not")
    return bool(counts.max(initial=0) + noise_of(event, source, 1)[0] >= screening.threshold)


def noisy_argmax(event: ac.Event, counts: Integers | Floats, source: Randomness) -> int:
    """The class with the largest noisy count."""
    return int(np.argmax(counts + noise_of(event, source, len(counts))))


def noisy_label_set(event: ac.Event, counts: Floats, bar: float, source: Randomness) -> Integers:
    """One bit for each class: whether its noisy count exceeds `bar`."""
    return (counts + noise_of(event, source, len(counts)) > bar).astype(np.int64)


def check_sets(y: object, n: int, clip: float) -> Integers:
    """Label sets (n, c) of zeros and ones.

    Raises
    ------
    accountant.ParameterError
    """
    sets = np.asarray(y)
    if sets.ndim != 2 or len(sets) != n or sets.shape[1] == 0:
        raise ac.ParameterError(f"y has shape {sets.shape}; accepted with clip: ({n}, c)")
    if not np.isin(sets, (0, 1)).all():
        # Zhu et al. 2020, Thm 13, needs votes of zeros and ones: for others the clipped difference can be larger
        raise ac.ParameterError("y holds values other than 0 and 1; accepted with clip: binary label sets")
    check_positive("clip", clip)
    return sets.astype(np.int64)


def clip_votes(labels: Integers, clip: float) -> Floats:
    """Binary label vectors, one a row, scaled down to an L1 norm of at most `clip` (Zhu et al. 2020, App. D).

    Two such votes differ by at most sqrt(2 clip) in L2 norm, because their entries lie in [0, 1].
    """
    sizes = np.maximum(labels.sum(axis=1, keepdims=True), 1)
    votes: Floats = labels * np.minimum(clip / sizes, 1.0)
    return votes


def clipped_sensitivity(clip: float) -> float:
    """L2 sensitivity of a sum of clipped votes (see `clip_votes`) when one neighbour takes the place of another.

    Rounded up, so that no price is that of a smaller one.
    """
    most = check_real("clip", clip, "above 0, at most 1e99", lambda number: 0 < number <= 1e99)
    return ac.root_up(2 * Fraction(most))
