"""Ind-KNN: private prediction in which each record pays only for the answers it took part in (Zhu et al. 2023)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self, cast

import numpy as np

import accountant as ac
from mechanisms.arrays import Booleans, Floats, Integers, Singles
from mechanisms.budgets.budget_store import BudgetStore
from mechanisms.budgets.identifiers import check_ids
from mechanisms.budgets.partition_budgets import PartitionBudgets
from mechanisms.budgets.prediction_run import PredictionRun
from mechanisms.budgets.record_budgets import KnownRecords, check_source
from mechanisms.estimator import Parameters
from mechanisms.exclusive import Exclusive, exclusive
from mechanisms.frames import read_labels
from mechanisms.individual_votes import VOTE_GRAIN, Prices
from mechanisms.individuals import read_individuals
from mechanisms.neighbours.kernels import similarity_of
from mechanisms.neighbours.records import Answered, grow
from mechanisms.noise.source import check_noise, noise_of
from mechanisms.paying import Noise, PayingPartitions
from mechanisms.shards.similar import ShardedSimilar
from mechanisms.validation import check_count, check_fitted, check_positive, name_as

__all__ = ["BudgetStore", "IndividualKNN"]

VOTE = ac.Gaussian(1.0)
"""Release of the votes, which are in units of their noise."""

NOISE_MARGIN = 2.0**-44
"""Relative margin of the counts' noise, so that charges, which are rounded up, fit the planned number of queries."""

SHARED_PARAMETERS = ("kernel", "budget", "threshold", "count_sigma", "vote_sigma", "bandwidth", "min_count")
"""Parameters that all processes that share a store must have in common."""


class IndividualKNN(Exclusive, Parameters):
    """Answers label queries by the noisy, kernel-weighted votes of similar private records (Zhu et al. 2023, Alg. 3).

    Let s1 be `count_sigma`, s2 `vote_sigma`, B `budget`, and z what a record has left of its budget. A record is active
    while z covers another count, ``z >= 1/(2 s1^2)``. It is selected if it is active and its kernel with the query
    reaches `threshold`. Two values are released for a query: the noisy number of selected records,
    ``K = max(count + N(0, s1^2), min_count)``, and the label ``argmax(votes + N(0, s2^2 K))``, where a selected record
    gives its label the vote ``f = min(kernel, s2 sqrt(2 K z))``. They cost it ``1/(2 s1^2)`` and ``f^2/(2 s2^2 K)``,
    charged before anything is drawn. A record that is not selected pays nothing.

    However many queries there are, the whole interaction is (a, B a)-RDP for every order a, and mu-GDP with
    mu^2/2 = B (`accountant.IndividualFilter`), under add-remove adjacency.

    What an object has spent stays spent: after another `fit` an identifier goes on with what it had left.
    Threads take turns. Another process, a copy or a pickle of a fitted object is refused (`UsageError`).

    Parameters
    ----------
    budget : float
        B, for every record, in nats.
    threshold : float
        Least kernel at which a record is selected; [0, 1].
    count_sigma, vote_sigma : float
        s1, the noise of the number of selected records, and s2, the noise of the votes in units of sqrt(K).
    kernel : {"cosine", "rbf"}
        Inner product of directions, or ``exp(-|x - q|^2 / bandwidth^2)``. Do not centre features by a private mean.
    bandwidth : float
        nu, for "rbf". The default is e^0.75, hence nu^2 = e^1.5, which the thresholds that the paper prints agree with
        (and its authors' code); the paper says nu = e^1.5.
    min_count : float
        Least value of K.
    n_classes : int or None
        Number of classes; None takes it from the labels at `fit`, which tells the largest label that occurs.
    hashing : (int, int) or None
        L tables and b bits: only records that share a bucket with the query in some table can be selected.
    reuse : bool or int
        Whether answered queries join the records with their labels, public and free; a number keeps the last ones.
    store : BudgetStore or None
        Makes spent budgets durable and shares them between processes: charges are committed before an answer is
        returned. Records need identifiers, and noise comes from the system.
    rng : Generator, int or None
        None draws from the operating system's cryptographic source: use it for real releases. With a store only None is
        accepted, since noise that is repeated after a restart protects nothing.
    classes : sequence of str or None
        Public names of the classes; labels are then given, and given back, by name. None takes labels as numbers.

    Attributes
    ----------
    labels_ : int array, or text if the classes have names
        Labels of the last `predict`, also after an error; -1, or "", for queries that it did not reach.
    counts_ : float array
        K for each of these queries, or nan; released, like the labels.
    kept_ : int
        How many of the labels an earlier start of the same run had left in the store; where partitions pay, without
        those of its last batch, of which it is private how many were paid for.
    ids_ : list of str
        Identifiers of the records. Private: never publish them. If partitions pay, the store is asked: it must be open.
    budgets_ : float array
        What each record has left, likewise and in the same order. It depends on private data: never publish it.
    """

    def __init__(
        self,
        budget: float,
        threshold: float,
        count_sigma: float,
        vote_sigma: float,
        kernel: str = "cosine",
        bandwidth: float = math.exp(0.75),
        min_count: float = 30.0,
        n_classes: int | None = None,
        hashing: tuple[int, int] | None = None,
        reuse: bool | int = False,
        store: BudgetStore | None = None,
        rng: Any = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self.budget, self.threshold, self.count_sigma, self.vote_sigma = budget, threshold, count_sigma, vote_sigma
        self.kernel, self.bandwidth, self.min_count, self.n_classes = kernel, bandwidth, min_count, n_classes
        self.hashing, self.reuse, self.store, self.rng, self.classes = hashing, reuse, store, rng, classes

    @classmethod
    def for_budget(
        cls,
        epsilon: float,
        delta: float,
        n_queries: int,
        threshold: float,
        vote_sigma: float,
        conversion: ac.FilterConversion = "gdp",
        count_share: float = 3.0,
        **parameters: Any,
    ) -> Self:
        """The estimator whose whole interaction is (epsilon, delta)-DP, with the counts' noise chosen for `n_queries`.

        Parameters
        ----------
        epsilon, delta : float
        n_queries : int
            T, the planned number of queries; more may be asked.
        conversion : {"gdp", "renyi"}
            How the target becomes a budget B.
        count_share : float
            Counts of T queries would take this multiple of the budget from a record that all of them select:
            ``s1 = sqrt(T / (2 B count_share))``. The default 3 is that of the paper, sqrt(T/(6 B)): such a record
            retires after T/3 queries, and a record that every 30th query selects spends a tenth of its budget on
            counts. Choose it smaller where the same records are selected again and again.
        **parameters
            As for the constructor.

        Raises
        ------
        accountant.AccountantError
            A value is out of range, or no budget meets the target.
        """
        queries = check_count("n_queries", n_queries, 1)
        share = check_positive("count_share", count_share)
        budget = ac.IndividualFilter.budget_for(epsilon, delta, conversion)
        sigma = math.sqrt(queries / (2 * budget * share)) * (1 + NOISE_MARGIN)
        return cls(budget, threshold, count_sigma=sigma, vote_sigma=vote_sigma, **parameters)

    def guarantee(self, delta: float, conversion: ac.FilterConversion = "gdp") -> ac.Guarantee:
        """The guarantee for the whole interaction, whatever is asked; see `accountant.IndividualFilter`."""
        return ac.IndividualFilter(getattr(self, "_filter", self).budget).guarantee(delta, conversion)

    # --- records ---------------------------------------------------------------------------------------

    @exclusive
    def fit(self, X: object, y: object, ids: Iterable[object] | str | None = None) -> Self:
        """Begin a new interaction with these private records. Nothing is released.

        Parameters
        ----------
        X : array of shape (n, d), or a data frame of pandas, polars or pyarrow; or a dask array or data frame, or the
            path of Parquet files, whose partitions Dask's workers read for many queries at a time (`hashing`: None)
        y : array of shape (n,), labels 0..c-1, or names among `classes`; of a dask collection one that is cut alike,
            of Parquet files the name of their column of labels
        ids : iterable of str or int, name of Parquet's column, "digest" or None
            One identifier for each record, all different. A record resumes what it has spent under its identifier, in
            the store or in this object. "digest" makes a keyed digest of features and label the identifier, and numbers
            equal records. Then the order of records does not matter; but a record that changes in one bit gets a new
            budget, and the guarantee covers equal records that come and go together as one. None numbers the records
            from 0; it is refused with a store, and once the object has answered queries: then these numbers identify.

        Raises
        ------
        accountant.ParameterError
            An array or a parameter is not as described; or the object has answered queries, and identifiers are
            missing, or budget, store or kind of identifiers are not those of before.
        """
        given = read_individuals(X, y, ids, self.n_classes, self.classes, self.store)
        kernel = similarity_of(self.kernel, self.threshold, self.bandwidth)
        budgets = ac.IndividualFilter(self.budget)
        with name_as("sigma", "count_sigma"):
            count_event, min_count = ac.Gaussian(self.count_sigma), check_positive("min_count", self.min_count)
        vote_sigma, answered = check_positive("vote_sigma", self.vote_sigma), Answered(kernel, given.width, self.reuse)
        source = check_source(self.rng, self.store)
        check_noise(count_event, source)
        people = given.budgets(budgets, self.store, getattr(self, "_people", None))
        keys = people.names(given.ids, given.features, given.labels)
        hashing = given.hash(self.hashing, source)
        people.settle({"mechanism": type(self).__name__, **{name: getattr(self, name) for name in SHARED_PARAMETERS}})
        known = people.find(keys)
        self._source, self._filter, self._people, self._count_event = source, budgets, people, count_event
        count_units = int(budgets.units(1 / (2 * count_event.sigma**2)))
        self._prices = Prices(budgets.budget, count_units, vote_sigma, min_count, given.n_classes)
        self._records, rows = given.hold(kernel)
        self._hashing, self._answered, self._entered, self._behind = hashing, answered, dict[str, int](), False
        self._labels, self.n_classes_ = given.labels, given.n_classes
        self._vocabulary, self._numbers, self.counts_ = given.names, np.empty(0, np.int64), np.empty(0)
        self._enter(np.arange(len(rows)), rows, given.labels, known)
        self._paying = None
        if isinstance(people, PartitionBudgets):
            similar = cast(ShardedSimilar, self._records)
            self._paying = PayingPartitions(similar, self._prices, people.address, self._draw, answered)
        return self

    @exclusive
    def add(self, ids: Iterable[object] | str, X: object, y: object) -> Self:
        """Add private records, with identifiers as at `fit`. A record that was removed resumes the budget it had left.

        Raises
        ------
        accountant.ParameterError
            An array is not as described, or an identifier is in use or of another kind than at `fit`; nothing was
            added.
        """
        check_fitted(hasattr(self, "_filter"), "add(ids, X, y)")
        if isinstance(self._records, ShardedSimilar):
            raise ac.ParameterError("add to records in partitions; accepted: fit of all of them, with identifiers")
        features = self._vocabulary.read_queries(X, self._records.width, "X")
        labels, _ = read_labels(y, len(features), self.n_classes_, self._vocabulary.classes)
        names = self._people.names(ids, features, labels)
        known = self._people.find(names)
        rows = self._records.kernel.prepare(features)
        self._enter(self._records.insert(rows), rows, labels, known)
        return self

    @exclusive
    def remove(self, ids: Iterable[object]) -> Self:
        """Forget the features and labels of records; what they have spent is remembered for ever.

        Raises
        ------
        accountant.ParameterError
            There is no record of an identifier; nothing was removed.
        """
        check_fitted(hasattr(self, "_filter"), "remove(ids)")
        self._records.free(self._people.leave(check_ids(ids)))
        return self

    @property
    def labels_(self) -> Any:
        check_fitted(hasattr(self, "_filter"), "labels_")
        return self._vocabulary.spell(self._numbers.copy())

    @property
    def ids_(self) -> list[str]:
        check_fitted(hasattr(self, "_filter"), "ids_")
        return self._people.ids()

    @property
    def budgets_(self) -> Floats:
        check_fitted(hasattr(self, "_filter"), "budgets_")
        self._catch_up()
        return self._filter.nats(self._people.left())

    def _enter(self, slots: Integers, rows: Singles, labels: Integers, known: KnownRecords) -> None:
        """Enter the records of these slots, with what they have spent before."""
        self._people.make_room(slots)
        if self._hashing is not None:
            self._hashing.insert(slots, rows)
        self._labels = grow(self._labels, int(slots.max(initial=-1)) + 1)
        self._labels[slots] = labels
        self._people.enter(slots, known)

    # --- answers ---------------------------------------------------------------------------------------

    @exclusive
    def predict(self, queries: object, progress: Callable[[int], object] | None = None, run: str | None = None) -> Any:
        """Labels for public queries, in order, each with the budgets that the queries before it have left.

        Parameters
        ----------
        queries : array of shape (m, d), or a data frame, whose columns are matched by name
        progress : callable, optional
            Called with the number of queries done, after each.
        run : str, optional
            Name under which the store keeps the answers, in the transaction that charges for them. Calling the same run
            again, in this process or another, returns these answers at no cost and goes on with the rest.

        Raises
        ------
        accountant.ParameterError
            `queries` or `run` is not as described, or `fit` was not called; nothing has been spent.
        StoreError
            The run was begun with other queries, classes, hashing or reuse; nothing has been spent.
        UsageError
            The object belongs to another process, or `progress` called one of its methods.
        """
        check_fitted(hasattr(self, "_filter"), "predict(queries)")
        points = self._records.kernel.prepare(self._vocabulary.read_queries(queries, self._records.width))
        self._catch_up()  # a commit may have failed
        hashing = self._hashing and [self._hashing.tables, self._hashing.bits]
        classes, store = self._vocabulary.classes or self.n_classes_, self._paying or self._people
        about = {"classes": classes, "hashing": hashing, "reuse": self._answered.most}
        durable = PredictionRun(store.store, run, points, about)
        self.kept_ = durable.kept if self._paying is None else durable.kept_together
        self._numbers, self.counts_ = np.full(len(points), -1), np.full(len(points), np.nan)
        for some in durable.batches(len(points)):
            found = self._predict_batch(points[some], some.start, durable, progress)
            self._numbers[some], self.counts_[some], error = found
            if error is not None:
                raise error
        self._catch_up()
        return self.labels_

    def _catch_up(self) -> None:
        """Read budgets from the store again, if others may have charged them."""
        if self._behind:
            self._people.read_again()
            self._behind = False

    def _predict_batch(
        self, points: Singles, first: int, run: PredictionRun, progress: Callable[[int], object] | None
    ) -> tuple[Integers, Floats, BaseException | None]:
        """Labels and counts of some queries, committed together, and the error that stopped the batch, if any."""
        stopped, told = None, np.zeros(len(points), bool)
        try:
            with run.batch():
                labels, counts = run.read_answers(first, first + len(points))
                known, entered = labels >= 0, self._entered.get(run.name, 0) - first
                answer = self._answer_missing(points, labels, counts, entered)
                if self._paying:
                    self._people.released = self._behind = True
                    answer = self._paying.answer_missing(points, labels, counts, entered, (run.name, first))
                try:
                    for i in answer:
                        told[i] = True
                        self._entered[run.name] = max(first + i + 1, self._entered.get(run.name, 0))
                        if progress is not None:
                            progress(first + i + 1)
                except BaseException as error:
                    stopped = error
                if not known.all() and not self._paying:
                    run.keep(first, labels, counts)
        except BaseException:
            # the commit may have failed: answers that are not paid for must not influence later ones
            self._answered.clear()
            self._entered, self._behind = {}, True
            raise
        told |= stopped is None  # how many more partitions answered together is private
        return np.where(told, labels, -1), np.where(told, counts, np.nan), stopped

    def _answer_missing(self, points: Singles, labels: Integers, counts: Floats, entered: int) -> Iterator[int]:
        """Answer queries without a label; yields the position of every query once its label and count are there."""
        near = self._find_near(points[labels < 0])
        for i in range(len(points)):
            if labels[i] < 0:
                self._people.released = True
                labels[i], counts[i] = self._answer(*next(near))
            elif i >= entered:
                self._answered.remember(points[i], int(labels[i]))
            yield i

    def _find_near(self, points: Singles) -> Iterator[tuple[Singles, Integers]]:
        """Pairs (query, slots of records that it may select), in order."""
        if self._hashing is None or isinstance(self._records, ShardedSimilar):
            return self._records.near(points)
        return self._hashing.near(self._records, points)

    def _answer(self, query: Singles, near: Integers) -> tuple[int, float]:
        """Label and K of one query; every draw is charged first."""
        active = near[self._filter.left[near] >= self._prices.count_units]
        slots, kernels = self._records.select(query, active)
        counted = self._charge(slots, np.full(len(slots), self._prices.count_units))
        slots, kernels = slots[counted], kernels[counted]
        known, similar = self._answered.find_similar(query)
        noise = noise_of(self._count_event, self._source, 1)[0]
        count = max(float(len(slots) + len(known) + noise), self._prices.min_count)

        parts, units = self._prices.votes(kernels, self._filter.left[slots], count)
        voting = self._charge(slots, units)
        parts = np.concatenate([parts[voting], similar / self._prices.scale(count)])
        votes = self._prices.sum_votes(np.concatenate([self._labels[slots[voting]], known]), parts)
        label = int(np.argmax(votes + noise_of(VOTE, self._source, self.n_classes_, VOTE_GRAIN)))
        self._answered.remember(query, label)
        return label, count

    def _draw(self) -> Noise:
        """Noise for the next query of records that pay in their partitions."""
        count = noise_of(self._count_event, self._source, 1)[0]
        return Noise(count, noise_of(VOTE, self._source, self.n_classes_, VOTE_GRAIN))

    def _charge(self, slots: Integers, units: Integers) -> Booleans:
        """Charge records, in the store first, and return which of them could pay."""
        granted = self._people.charge(slots, units)
        self._filter.spend(slots[granted], units[granted])
        return granted
