"""Private-kNN: noisy votes of the nearest neighbours within Poisson samples (Zhu et al. 2020, section 3)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.arrays import Singles
from mechanisms.budgets.journal import Journal
from mechanisms.exclusive import exclusive
from mechanisms.frames import Vocabulary, read_labels, read_records
from mechanisms.labelling import Labeller, Labelling, least_noise
from mechanisms.neighbours.euclidean import Neighbours
from mechanisms.noise.sampling import RecordSampler
from mechanisms.noise.source import as_randomness
from mechanisms.phases import phase
from mechanisms.shards import ShardedRecords, is_sharded, shard_records
from mechanisms.shards.nearest import NearestVotes
from mechanisms.validation import (
    check_count,
    check_fitted,
    check_positive,
    check_rate,
    name_as,
    nominal_count,
)
from mechanisms.voting import check_sets, clip_votes, clipped_sensitivity, noisy_label_set, tally

__all__ = ["PrivateKNN", "ThinSampleWarning"]

SPREAD = 1.25
"""How far advice stays from the edge: numbers of sampled records vary, and classes are not equally large."""


class ThinSampleWarning(UserWarning):
    """A sample has too few records for the neighbours or votes that are asked for; nothing has been spent."""


class PrivateKNN(Labeller):
    """Labels public queries by the noisy votes of private nearest neighbours.

    Each query takes two steps. Screening: the k nearest neighbours in a fresh Poisson sample of the private records
    vote, and the query passes if the noisy plurality reaches the threshold. Answer: if it passes, the neighbours in a
    second fresh sample vote, and the class of the largest noisy count is released. The guarantee is for each private
    record, under add-remove adjacency.

    Parameters
    ----------
    n_neighbors : int
        k, at most the number of records.
    sampling_rate : float
        Probability with which a record joins a sample; (0, 1].
    screening_sigma : float or None
        Noise of the screening, in votes; None switches screening off.
    threshold : float or None
        Votes needed to pass; None is 0.6 k.
    vote_sigma : float
        Noise on every class's count, in votes.
    max_labels : int or None
        Most queries that will be answered. The run stops there, which fixes the guarantee beforehand. None answers all
        queries that pass; then the price is known only afterwards (an odometer reading).
    clip : float or None
        For label sets (y of shape (n, c), zeros and ones; no screening): the L1 norm to which a vote is clipped.
    n_classes : int or None
        Number of classes; None takes it from the labels, which reveals the largest label that occurs.
    rng : Generator, int or None
        None draws from the operating system's cryptographic source: use it for real releases.
    n_queries : int or None
        Most queries that will be asked, over all calls of `label`; more are refused. `max_labels` then holds for all
        calls together, too, and one guarantee, fixed before the first call, covers them all. None sets no limit: every
        call adds its own price.
    n_records : int or None
        Public number of private records, from which `fit` tells whether samples are large enough (`ThinSampleWarning`).
        None takes their number rounded to two digits, which the warning then reveals to whoever sees it.
    classes : sequence of str or None
        Public names of the classes; labels are then given, and given back, by name ("" where a query is not answered).
        None takes labels as numbers.

    Attributes
    ----------
    spent_ : accountant.Composition
        All that this object has ever released, recorded before each release; another `fit` does not reset it.
    """

    def __init__(
        self,
        n_neighbors: int = 300,
        sampling_rate: float = 0.15,
        screening_sigma: float | None = 75.0,
        threshold: float | None = None,
        vote_sigma: float = 25.0,
        max_labels: int | None = None,
        clip: float | None = None,
        n_classes: int | None = None,
        rng: Any = None,
        n_queries: int | None = None,
        n_records: int | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.sampling_rate = sampling_rate
        self.screening_sigma = screening_sigma
        self.threshold = threshold
        self.vote_sigma = vote_sigma
        self.max_labels = max_labels
        self.clip = clip
        self.n_classes = n_classes
        self.rng = rng
        self.n_queries = n_queries
        self.n_records = n_records
        self.classes = classes

    @classmethod
    def for_budget(
        cls,
        epsilon: float,
        delta: float,
        n_queries: int,
        max_labels: int,
        n_neighbors: int = 300,
        sampling_rate: float = 0.15,
        screening_ratio: float | None = 3.0,
        conversion: ac.Conversion | None = None,
        **parameters: Any,
    ) -> Self:
        """The estimator with the least noise that keeps `n_queries` queries within (epsilon, delta).

        Parameters
        ----------
        epsilon, delta : float
            The guarantee, fixed before the first query.
        n_queries, max_labels : int
            Most queries that will be asked, and answered, over all calls of `label`; more are refused.
        screening_ratio : float or None
            Screening noise over vote noise (3 to 4 in the papers); None switches screening off.
        conversion : {"improved", "classic", "optimal"}, optional
            Plan by the Rényi route with this conversion, which takes no time and about 7 % more noise; None: by the
            certified price, as `guarantee` without a conversion, in a second or two.
        **parameters
            As for the constructor.

        Raises
        ------
        accountant.CalibrationError
            No noise is enough.
        """
        check_count("n_queries", n_queries, 1)
        check_count("max_labels", max_labels, 1, n_queries)

        def at(sigma: float):  # type: ignore[no-untyped-def]  # -> Self, which an inner function cannot say
            screening = None if screening_ratio is None else screening_ratio * sigma
            return cls(
                n_neighbors=n_neighbors,
                sampling_rate=sampling_rate,
                screening_sigma=screening,
                vote_sigma=sigma,
                max_labels=max_labels,
                n_queries=n_queries,
                **parameters,
            )

        start = n_neighbors / 10
        sigma = least_noise(lambda sigma: at(sigma).planned(n_queries), epsilon, delta, start, conversion=conversion)
        calibrated: Self = at(sigma)
        return calibrated

    # --- events of the releases ------------------------------------------------------------------------

    @property
    def screening_event(self) -> ac.Event | None:
        """The screening of one query; None where it is off."""
        if self.screening_sigma is None or self.clip is not None:
            return None
        k = check_count("n_neighbors", self.n_neighbors, 1)
        with name_as("sigma", "screening_sigma"):
            screening = ac.NoisyScreening(self.screening_sigma, self._passing, k)
        return ac.PoissonSubsampled(screening, check_rate(self.sampling_rate))

    @property
    def _passing(self) -> float:
        """Votes that pass screening."""
        return 0.6 * self.n_neighbors if self.threshold is None else self.threshold

    @property
    def vote_event(self) -> ac.Event:
        """The release of one label, or of one label set."""
        with name_as("sigma", "vote_sigma"):
            if self.clip is None:
                vote: ac.Event = ac.GNMax(self.vote_sigma)
            else:
                vote = ac.Gaussian(self.vote_sigma, clipped_sensitivity(self.clip))
        return ac.PoissonSubsampled(vote, check_rate(self.sampling_rate))

    def warn_if_thin(self, n_classes: int, n_records: int | None = None) -> None:
        """Warn, once, if samples are too small for the neighbours or the threshold; from public numbers alone.

        Parameters
        ----------
        n_classes : int
        n_records : int or None
            A public number of private records; None is the parameter `n_records`.
        """
        records = check_count("n_records", self.n_records if n_records is None else n_records, 1)
        threshold = None if self.screening_event is None else self._passing
        said = _describe_thin(self.n_neighbors, threshold, records, self.sampling_rate, n_classes)
        if said is not None and self.threshold is None and threshold is not None:
            share = math.floor(records * self.sampling_rate / n_classes)
            said += f", or n_neighbors of at most {share}" if share else ""
        if said is not None and said != self._warned:
            self._warned = said
            warnings.warn(said, ThinSampleWarning, stacklevel=4)  # past `fit` and its turn

    # --- use -------------------------------------------------------------------------------------------

    @exclusive
    def fit(self, X: object, y: object) -> Self:
        """Keep the private records. Nothing is released; too small samples are warned of (`ThinSampleWarning`).

        Records that do not fit one machine stay where they are: workers of Dask read their partitions, here to check
        them, and once more for many queries at a time. Labels do not depend on how the records are cut.

        Parameters
        ----------
        X : array of shape (n, d), or a data frame of pandas, polars or pyarrow; or a dask array or data frame, or the
            path of Parquet files: a directory, a pattern or an address
        y : array of shape (n,), labels 0..c-1, or names among `classes`; or with `clip` of shape (n, c), zeros and
            ones; of a dask collection one that is cut alike, of Parquet files the name of their column of labels

        Raises
        ------
        accountant.ParameterError
            An array or a parameter is not as described.
        """
        # a twin, whose parameters no other thread changes
        now = self.unused()
        k = check_count("n_neighbors", now.n_neighbors, 1)
        check_rate(now.sampling_rate)
        if now.clip is not None:
            check_positive("clip", now.clip)
            if now.classes is not None:
                raise ac.ParameterError(
                    f"classes with clip = {now.clip}; accepted: label sets of zeros and ones, no names"
                )
        held = _hold_shards(X, y, now) if is_sharded(X) else _hold(X, y, now)
        if k > held.size:
            raise ac.ParameterError(f"n_neighbors = {k}; accepted: at most the {held.size} records")
        self.warn_if_thin(held.n_classes, nominal_count(held.size) if now.n_records is None else now.n_records)
        with phase("indexing the private records"):
            neighbours = Neighbours(held.records)
        plan = now._plan_of(n_neighbors=k, n_classes=held.n_classes, clip=now.clip)
        self._begin(plan, as_randomness(now.rng), *held.private)
        self._labels, self._sets, self._shards = held.votes, now.clip is not None, held.shards
        self._neighbours, self._k, self.n_classes_, self._width = neighbours, k, held.n_classes, held.width
        self._clip, self._vocabulary = now.clip, held.names
        self._fitted = True
        return self

    @exclusive
    def label(
        self, queries: object, journal: Journal | None = None, progress: Callable[[int], object] | None = None
    ) -> Labelling:
        """Label public queries, in order.

        Every charge is added to `spent_` before its draw, so that an interrupted run has never released more.

        Parameters
        ----------
        queries : array of shape (m, d), or a data frame, whose columns are matched by name
        journal : Journal, optional
            Makes the run durable: charges are on disk before their draws. An interrupted run continues where it
            stopped; a finished run returns its labels again, at no cost. A query whose draw was lost with the process
            stays unanswered, unless a seed can repeat the draw.
        progress : callable, optional
            Called with the number of queries done, after each.

        Returns
        -------
        Labelling

        Raises
        ------
        accountant.ParameterError
            `queries` is not as described, there are more of them than the plan allows (`PlanExceeded`), or `fit` was
            not called; nothing has been spent.
        """
        check_fitted(self._fitted, "label(queries)")
        points = self._vocabulary.read_queries(queries, self._width)
        shape = (len(points), self.n_classes_) if self._sets else (len(points),)
        asks = self._ask_shards(points) if self._shards is not None else self._ask_here(points)
        return self._run(asks, np.full(shape, -1, np.int64), points, journal, progress)

    def _ask_here(self, points: Singles) -> Iterator[Callable[[ac.Event], Any]]:
        """What counts the votes of each query, from records in memory."""
        sampler = RecordSampler.from_source(self._source)
        for i, products in self._neighbours.batches(points):
            yield partial(self._count_votes, sampler, i, points[i], products)

    def _ask_shards(self, points: Singles) -> Iterator[Callable[[ac.Event], Any]]:
        """What counts the votes of each query, from partitions, which are asked about many queries at once."""
        sampler, plan, shards = RecordSampler.from_source(self._source), self._plan, self._shards
        assert shards is not None
        rates = [(self._column(event), event.sampling_rate) for event in (plan.screening, plan.vote) if event]
        nearest = NearestVotes(shards, points, sampler, rates, self._k, self._clip)
        for i in range(len(points)):
            yield partial(self._count_found, nearest, i)

    def _count_found(self, nearest: NearestVotes, number: int, event: ac.Event) -> Any:
        return self._count(nearest.of(number, self._column(event)))

    def _count_votes(
        self, sampler: RecordSampler, number: int, query: Singles, products: Singles, event: ac.Event
    ) -> Any:
        """Votes of the nearest neighbours in a fresh sample, drawn at the rate that the event prices."""
        sample = sampler.draw(len(products), event.sampling_rate, number, self._column(event))
        return self._count(self._labels[self._neighbours.find_nearest(query, products, sample, self._k)])

    def _earlier_private(self) -> tuple[NDArray[Any], ...]:
        return self._private if self._shards is None else (self._shards.digest_by_partition(),)

    def _column(self, event: ac.Event) -> int:
        """Which of a record's two draws for a query decides whether it is in the sample of this release."""
        return int(event == self._plan.vote)

    def _count(self, labels: NDArray[Any]) -> Any:
        return labels.sum(axis=0) if self._sets else tally(labels, self.n_classes_)

    def _release(self, vote: ac.Event, votes: Any) -> Any:
        if self._sets:
            return noisy_label_set(vote, votes, self._k / 2, self._source)
        return super()._release(vote, votes)


def _describe_thin(k: int, threshold: float | None, records: int, rate: float, n_classes: int) -> str | None:
    """Why few queries would be answered, or all alike, and what would be better; None if samples are large enough.

    At best all sampled records of a class vote for it: with classes equally large, a query can expect no more votes.
    """
    sample = records * rate
    share = sample / n_classes
    about = f"of {records} records, sampled at rate {rate:g}, about {sample:.4g} vote"
    if threshold is not None and threshold > share:
        better = [f"threshold of at most {share / SPREAD:.3g}"]
        if SPREAD * threshold * n_classes <= records:
            better.append(f"sampling_rate of at least {SPREAD * threshold * n_classes / records:.3g}")
        return (
            f"n_neighbors = {k}, threshold = {threshold:.4g}: {about}, {share:.4g} of each of {n_classes} classes, so "
            f"that few queries pass the screening; would pass: {', '.join(better)}"
        )
    if k > sample:
        return f"n_neighbors = {k}: {about}, all of them on every query; accepted without a warning: up to {sample:.4g}"
    return None


@dataclass(frozen=True, eq=False)
class _Held:
    """Private records as `fit` got them: in memory, or in partitions."""

    size: int
    width: int
    n_classes: int
    names: Vocabulary
    private: tuple[NDArray[Any], ...]
    """What a journal knows the records by."""
    records: Any = None
    votes: Any = None
    shards: ShardedRecords | None = None


def _hold(X: object, y: object, now: PrivateKNN) -> _Held:
    """Records in memory."""
    records, names = read_records(X, now.classes)
    if now.clip is None:
        labels, classes = read_labels(y, len(records), now.n_classes, names.classes)
        return _Held(len(records), records.shape[1], classes, names, (records, labels), records, labels)
    sets = check_sets(y, len(records), now.clip)
    votes = clip_votes(sets, now.clip)
    return _Held(len(records), records.shape[1], sets.shape[1], names, (records, sets), records, votes)


def _hold_shards(X: object, y: object, now: PrivateKNN) -> _Held:
    """Records in partitions."""
    found = shard_records(X, y, now.classes, now.n_classes, sets=now.clip is not None)
    none = np.empty((0, found.width), np.float32)
    return _Held(len(found), found.width, found.n_classes, found.names, (found.digest,), none, shards=found)
