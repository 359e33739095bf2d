"""The results of a labelling experiment: what was paid for, and separately what only the operator may see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.datasets import Dataset

__all__ = ["Diagnostics", "Outcome", "compare_labels", "score", "score_trained"]


@dataclass(frozen=True)
class Diagnostics:
    """Accuracies that were not paid for: the operator alone may see them; never publish or store them with results.

    They depend on private records, or on test records that no guarantee covers. Each is None where the truth is not
    known.

    Attributes
    ----------
    label_accuracy : float or None
        Share of released labels that agree with the public points' own labels.
    student_accuracy : float or None
        Of the student, on the test records.
    nonprivate_accuracy : float or None
        On the test records, of a student trained on the private records with their true labels.
    noiseless_accuracy : float or None
        On the test records, of a student trained on labels from the same counts without noise (reverse k-NN only).
    bytes_per_client : float or None
        Sent by a client, on average, over all rounds (reverse k-NN only).
    """

    label_accuracy: float | None = None
    student_accuracy: float | None = None
    nonprivate_accuracy: float | None = None
    noiseless_accuracy: float | None = None
    bytes_per_client: float | None = None


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an experiment released. All but `diagnostics` was paid for, or is public.

    Attributes
    ----------
    labels : int array of shape (m,)
        Released label of every public point, -1 where there is none.
    predictions : int array of shape (m,)
        The student's label of every public point, at no further cost.
    asked, answered : int
        Queries of all rounds.
    guarantee : accountant.Guarantee
        Fixed before the first release.
    planned, spent : accountant.Composition
        The most that could be spent, and what was.
    noise : float
        Calibrated noise of a vote (of a step, in units of the clip, for NoisySGD).
    diagnostics : Diagnostics or None
        Not paid for: for the operator alone. None unless asked for.
    """

    labels: NDArray[np.int64]
    predictions: NDArray[np.int64]
    asked: int
    answered: int
    guarantee: ac.Guarantee
    planned: ac.Composition
    spent: ac.Composition
    noise: float
    diagnostics: Diagnostics | None = None


def compare_labels(labels: NDArray[np.int64], public: Dataset) -> float | None:
    """Share of released labels that are right; None if there are none, or if the truth is not known."""
    chosen = labels >= 0
    if public.labels is None or not chosen.any():
        return None
    return float(np.mean(labels[chosen] == public.labels[chosen]))


def score(test: Dataset | None, predict: Callable[[Any], NDArray[np.int64]]) -> float | None:
    """Share of test records that `predict` labels rightly; None without labelled test records."""
    if test is None or test.labels is None:
        return None
    return float(np.mean(predict(test.features) == test.labels))


def score_trained(test: Dataset | None, train: Callable[[], Any]) -> float | None:
    """Accuracy on the test records of a student that is trained for comparison; None if the training fails.

    An exception here must not lose the results, which have been paid for.
    """
    if test is None or test.labels is None:
        return None
    try:
        predict = train().predict
    except Exception:
        return None
    return score(test, predict)
