"""Votes and what is released of them: a screening bit, a winner, a set of labels."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.noise.source import Floats, Randomness, noise_of

__all__ = ["clipped_votes", "noisy_argmax", "noisy_label_set", "passes_screening", "tally"]


def tally(labels: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    """Votes for each class."""
    return np.bincount(labels, minlength=n_classes)


def passes_screening(event: ac.Event, counts: NDArray[np.int64], source: Randomness) -> bool:
    """One bit: whether the plurality plus noise reaches the threshold, both as `event` prices them."""
    screening = event.event if isinstance(event, ac.PoissonSubsampled) else event
    if not isinstance(screening, ac.NoisyScreening):
        raise ac.ParameterError(f"event = {event!r}; accepted: NoisyScreening, sampled or not")
    return bool(counts.max(initial=0) + noise_of(event, source, 1)[0] >= screening.threshold)


def noisy_argmax(event: ac.Event, counts: NDArray[np.int64] | Floats, source: Randomness) -> int:
    """The class with the largest noisy count."""
    return int(np.argmax(counts + noise_of(event, source, len(counts))))


def noisy_label_set(event: ac.Event, counts: Floats, bar: float, source: Randomness) -> NDArray[np.int64]:
    """One bit for each class: whether its noisy count is above `bar`."""
    return (counts + noise_of(event, source, len(counts)) > bar).astype(np.int64)


def clipped_votes(labels: NDArray[np.int64], clip: float) -> Floats:
    """Binary label vectors, one a row, scaled down to an L1 norm of at most `clip` (private-knn, App. D).

    Two such votes differ by at most sqrt(2 clip) in L2 norm, because entries lie in [0, 1] and are not negative.
    """
    sizes = np.maximum(labels.sum(axis=1, keepdims=True), 1)
    votes: Floats = labels * np.minimum(clip / sizes, 1.0)
    return votes


def clipped_sensitivity(clip: float) -> float:
    """L2-sensitivity of a sum of `clipped_votes` when one neighbour is swapped for another."""
    return math.sqrt(2 * clip)
