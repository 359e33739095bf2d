"""What a labelling experiment gives: what was paid for, and apart from it what only its operator may see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.datasets import Dataset
from mechanisms.exclusive import Exclusive, UsageError

__all__ = ["Diagnostics", "Once", "Outcome", "accuracy_of", "accuracy_of_labels", "accuracy_on"]


@dataclass(frozen=True)
class Diagnostics:
    """Figures that were not paid for: for the operator's eyes only, never to be published or stored with results.

    They depend on private records, or on test records that nobody promised anything for. Each is None where the truth
    is not known.

    Attributes
    ----------
    label_accuracy : float or None
        Share of released labels that are the public points' own.
    student_accuracy : float or None
        Of the student, on the test records.
    nonprivate_accuracy : float or None
        On the test records, of a student that learnt the private records' true labels.
    noiseless_accuracy : float or None
        On the test records, of a student that learnt the same counts without noise (reverse k-NN alone).
    bytes_per_client : float or None
        Sent by a client, on average, over all rounds (reverse k-NN alone).
    """

    label_accuracy: float | None = None
    student_accuracy: float | None = None
    nonprivate_accuracy: float | None = None
    noiseless_accuracy: float | None = None
    bytes_per_client: float | None = None


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an experiment gave. All but `diagnostics` was paid for, or is public.

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
        Not paid for, for the operator alone; None unless it was asked for.
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


class Once(Exclusive):
    """An experiment: its guarantee covers one run, by one process."""

    def _begin(self) -> None:
        """Refuse another run, which would release again under the same guarantee."""
        if "_begun" in self.__dict__:
            name = type(self).__name__
            raise UsageError(f"{name}.run was called before; accepted: a new {name}, with a guarantee of its own")
        self._begun = True


def accuracy_of_labels(labels: NDArray[np.int64], public: Dataset) -> float | None:
    """Share of released labels that are right; None where there are none, or where the truth is not known."""
    chosen = labels >= 0
    if public.labels is None or not chosen.any():
        return None
    return float(np.mean(labels[chosen] == public.labels[chosen]))


def accuracy_on(test: Dataset | None, predict: Callable[[Any], NDArray[np.int64]]) -> float | None:
    """Share of test records that `predict` labels as they are; None without labelled test records."""
    if test is None or test.labels is None:
        return None
    return float(np.mean(predict(test.features) == test.labels))


def accuracy_of(test: Dataset | None, train: Callable[[], Any]) -> float | None:
    """Accuracy on the test records of a student that is trained for comparison; None where it cannot be trained.

    That one fails must not cost the results, which have been paid for.
    """
    if test is None or test.labels is None:
        return None
    try:
        predict = train().predict
    except Exception:
        return None
    return accuracy_on(test, predict)
