"""What both kinds of labelling experiment share: checked data, one run only, and its outcome."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.datasets import Dataset
from mechanisms.exclusive import Exclusive, UsageError
from mechanisms.experiment.outcome import Diagnostics, Outcome, compare_labels, score, score_trained
from mechanisms.shards.dataset import PartitionedDataset
from mechanisms.students.network import NetworkStudent, Student
from mechanisms.validation import check_count, nominal_count

__all__ = ["MOST_ROUNDS", "BaseExperiment"]

MOST_ROUNDS = 1000
"""Each trains a student and writes every answer to the disk, in tenths of a second: more are a mistake, and days."""


class BaseExperiment(Exclusive, ABC):
    """Everything that is fixed before the first release: the data, the mechanism with its noise, and the price.

    Parameters
    ----------
    setting : Setting or ReverseSetting
    private : Dataset or PartitionedDataset
        With labels, one for each record.
    public : Dataset
        Labels, if any, are used for diagnostics only.
    test : Dataset or None
        Used for diagnostics only.
    n_classes : int or None
        A public number. None takes it from the format of the private records; if the format does not fix it, from the
        largest label of all three, which is then released without being paid for.
    nominal : int or None
        Public number of private records, from which all defaults follow. None rounds their number to two digits, which
        then is public.

    Raises
    ------
    accountant.AccountantError
        Data and setting do not go together, or no noise meets the target. Nothing has been spent.

    Attributes
    ----------
    n_classes, nominal : int
    make_student : callable
        Makes a student that has learnt nothing.
    noise : float
        Calibrated noise; see `Outcome`.
    planned : accountant.Composition
        The most that the run can spend.
    guarantee : accountant.Guarantee

    Notes
    -----
    All attributes are the same for neighbouring private records if `n_classes` and `nominal` are given.
    """

    setting: Any
    noise: float
    planned: ac.Composition
    guarantee: ac.Guarantee

    def __init__(
        self,
        setting: Any,
        private: Dataset | PartitionedDataset,
        public: Dataset,
        test: Dataset | None = None,
        n_classes: int | None = None,
        nominal: int | None = None,
    ) -> None:
        self.setting, self.private, self.public, self.test = setting, private, public, test
        self.n_classes = _check_classes((private, public, test), n_classes, self._takes_sets)
        widths = {each.width for each in (private, public, test) if each is not None}
        if len(widths) > 1:
            raise ac.ParameterError(f"records of {sorted(widths)} columns; accepted: the same for all data")
        self.nominal = self._count_records(nominal)
        self.make_student: Callable[[], Student] = NetworkStudent
        self._plan()
        self._claim()  # a copy would run once more under the same guarantee

    @property
    def _takes_sets(self) -> bool:
        """Whether records have label sets instead of labels."""
        return False

    @property
    @abstractmethod
    def asked(self) -> int:
        """Queries of all rounds together; 0 where nothing is asked."""

    def describe_votes(self) -> str:
        """Who votes about a query, and how many votes pass, in a few words; empty where nothing is voted on."""
        return ""

    @abstractmethod
    def _plan(self) -> None:
        """Fix the mechanism, its noise, `planned` and `guarantee`."""

    def _count_records(self, nominal: int | None) -> int:
        """The number of private records that the plan may depend on."""
        return nominal_count(len(self.private)) if nominal is None else check_count("nominal", nominal, 1)

    @property
    def _labels(self) -> Any:
        """Of the private records; of those in partitions, what their columns are for."""
        labels = self.private.labels
        assert labels is not None  # checked by the constructor
        return labels

    def _begin(self) -> None:
        """Refuse a second run, which would release again under the same guarantee."""
        if "_begun" in self.__dict__:
            name = type(self).__name__
            raise UsageError(f"{name}.run was called before; accepted: a new {name}, with a guarantee of its own")
        self._begun = True

    def _report(
        self,
        labels: NDArray[np.int64],
        predictions: NDArray[np.int64],
        spent: ac.Composition,
        queries: tuple[int, int],
        diagnostics: Diagnostics | None,
    ) -> Outcome:
        """The outcome; `queries` were asked and answered."""
        fixed = self.guarantee, self.planned
        return Outcome(labels, predictions, *queries, *fixed, spent, self.noise, diagnostics)

    def _diagnose(
        self,
        labels: NDArray[np.int64],
        predict: Callable[[Any], NDArray[np.int64]],
        noiseless: Callable[[], Student] | None = None,
        bytes_per_client: float | None = None,
    ) -> Diagnostics:
        """Compare labels and the student's predictions with the truth; `noiseless` trains a student for comparison."""
        private = self.private
        return Diagnostics(
            label_accuracy=compare_labels(labels, self.public),
            student_accuracy=score(self.test, predict),
            nonprivate_accuracy=score_trained(
                self.test, lambda: self.make_student().fit(private.features, private.labels)
            ),
            noiseless_accuracy=None if noiseless is None else score_trained(self.test, noiseless),
            bytes_per_client=bytes_per_client,
        )


def _check_classes(
    parts: tuple[Dataset | PartitionedDataset, Dataset, Dataset | None], n_classes: int | None, sets: bool
) -> int:
    """The number of classes: as given, as the format fixes it, or the largest label plus 1; of sets their width.

    Raises
    ------
    accountant.ParameterError
        Private records have no labels, some records have label sets and others not, or a label lies outside the
        classes.
    """
    private = parts[0]
    if isinstance(private, PartitionedDataset):
        return check_count("classes", n_classes, 2)  # labels are held against it where they are read
    known = [each.labels for each in (private, *parts[1:]) if each is not None and each.labels is not None]
    if private.labels is None or any(labels.ndim != (2 if sets else 1) for labels in known):
        accepted = "label sets for each record" if sets else "one label for each record (label sets: with clip)"
        raise ac.ParameterError(f"{private.name}: accepted: {accepted}")
    if sets:
        widths = {labels.shape[1] for labels in known}
        if len(widths) > 1 or n_classes not in (None, private.labels.shape[1]):
            accepted = f"{private.labels.shape[1]} labels in all sets"
            raise ac.ParameterError(f"classes = {n_classes}, sets of {sorted(widths)}; accepted: {accepted}")
        return int(private.labels.shape[1])
    if n_classes is None:
        return max(private.classes or 0, *(int(labels.max()) + 1 for labels in known))
    return check_count("classes", n_classes, int(private.labels.max()) + 1)
