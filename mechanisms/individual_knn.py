"""Ind-KNN: private prediction in which every record pays for the answers it took part in (ind-knn, Alg. 3 and 4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.budgets.budget_store import BudgetStore
from mechanisms.budgets.identifiers import check_ids
from mechanisms.budgets.prediction_run import PredictionRun
from mechanisms.budgets.record_budgets import KnownRecords, RecordBudgets, check_source
from mechanisms.estimator import Parameters
from mechanisms.exclusive import Exclusive, exclusive
from mechanisms.neighbours.hashing import as_hashing
from mechanisms.neighbours.kernels import Answered, Features, Floats, Records, Slots, as_kernel, grown
from mechanisms.noise.source import noise_of
from mechanisms.validation import check_count, check_features, check_labels, check_positive, check_queries

__all__ = ["BudgetStore", "IndividualKNN"]

VOTE = ac.Gaussian(1.0)
"""The release of votes, which are in units of its noise."""

GRAIN = 2.0**-36
"""Parts are multiples of it: sums below 2^17 are exact in any order, those of up to 10^10 s2^2 selected records."""

ROUNDING = 2.0**-50
"""Relative error allowed for in a part that takes all that a record has left."""

HAIR = 2.0**-44
"""By so much more noise than planned, a charge rounded up still fits into the budget as often as planned."""

SETTLED = ("kernel", "budget", "threshold", "count_sigma", "vote_sigma", "bandwidth", "min_count")
"""What processes that share a store must have in common."""

TOGETHER = 128
"""Most queries whose charges are committed together."""


class IndividualKNN(Exclusive, Parameters):
    """Answers label queries by the noisy, kernel-weighted votes of similar private records.

    A record is active while its budget covers another count, ``z >= 1/(2 s1^2)``, and selected if it is active and
    its kernel with the query reaches the threshold. Released are the number of selected records,
    ``K = max(count + N(0, s1^2), K_min)``, and ``argmax(votes + N(0, s2^2 K))``, a record's vote for its label being
    ``f = min(kernel, s2 sqrt(2 K z))``. They cost a selected record ``1/(2 s1^2)`` and ``f^2/(2 s2^2 K)``, taken
    before anything is drawn; a record that was not selected pays nothing. The whole interaction is (a, B a)-RDP and
    mu-GDP with mu^2/2 = B (`accountant.IndividualFilter`) under add-remove adjacency, however many queries there are.

    What an object has answered is spent for good: `fit` it again, and an identifier goes on with what it had left.
    Threads take turns; another process, a copy or a pickle of an object that was fitted is refused (`UsageError`).

    Parameters
    ----------
    budget : float
        B, for every record, in nats.
    threshold : float
        Least kernel at which a record is selected; [0, 1].
    count_sigma, vote_sigma : float
        s1, the noise of the number of neighbours, and s2, the noise of the votes in units of sqrt(K).
    kernel : {"cosine", "rbf"}
        Inner product of directions, or ``exp(-|x - q|^2 / bandwidth^2)``. Do not centre features by a private mean.
    bandwidth : float
        nu, for "rbf". The paper's e^1.5 on features of unit length, as by then everything lies within 2 of
        everything else, gives kernels above 0.82: a threshold up to that selects every record.
    min_count : float
        K_min.
    n_classes : int or None
        Number of classes; None takes it from the labels at `fit`, which tells the largest label that occurs.
    hashing : (int, int) or None
        L tables and b bits: only records that share a bucket with the query in some table are looked at.
    reuse : bool or int
        Whether answered queries join the records, with the labels they got. They are public and pay nothing. A number
        is the most that are kept, the latest.
    store : BudgetStore or None
        Makes spent budgets durable, and shared between processes: charges are committed before an answer is
        returned. Records need identifiers, and noise comes from the system.
    rng : Generator, int or None
        None draws from the operating system's cryptographic source: use it for real releases. With a store nothing
        else is accepted, since noise that is drawn again after a restart hides nothing.

    Attributes
    ----------
    labels_ : int array
        Labels of the last `predict`, -1 for queries that it has not come to: after an error too, what was answered
        and paid for is here.
    counts_ : float array
        K for each of them, or nan; released, like the labels.
    kept_ : int
        How many of them were kept in the store by an earlier start of the same run.
    ids_ : list of str
        Identifiers of the records. For the operator's eyes only.
    budgets_ : float array
        What each of them has left, in the same order. It depends on private data: for the operator's eyes only.
    """

    def __init__(
        self,
        budget: float,
        threshold: float,
        count_sigma: float,
        vote_sigma: float,
        kernel: str = "cosine",
        bandwidth: float = math.exp(1.5),
        min_count: float = 30.0,
        n_classes: int | None = None,
        hashing: tuple[int, int] | None = None,
        reuse: bool | int = False,
        store: BudgetStore | None = None,
        rng: Any = None,
    ) -> None:
        self.budget = budget
        self.threshold = threshold
        self.count_sigma = count_sigma
        self.vote_sigma = vote_sigma
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.min_count = min_count
        self.n_classes = n_classes
        self.hashing = hashing
        self.reuse = reuse
        self.store = store
        self.rng = rng

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
        """The estimator whose whole interaction is (epsilon, delta)-DP, its counts' noise fit for so many queries.

        Parameters
        ----------
        epsilon, delta : float
        n_queries : int
            T, how many queries are planned; more may be asked.
        conversion : {"gdp", "renyi"}
            How the target becomes a budget.
        count_share : float
            Share of the budget that T counts would take from a record that every query selects:
            ``s1 = sqrt(T / (2 B count_share))``. The default is the paper's sqrt(T/(6 B)): such a record is gone after
            T/3 queries, and one that every 30th query selects spends a tenth on counts. Smaller where the same
            records are selected over and over.
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
        sigma = math.sqrt(queries / (2 * budget * share)) * (1 + HAIR)
        return cls(budget, threshold, count_sigma=sigma, vote_sigma=vote_sigma, **parameters)

    def guarantee(self, delta: float, conversion: ac.FilterConversion = "gdp") -> ac.Guarantee:
        """The guarantee for the whole interaction, whatever is asked; as for `accountant.IndividualFilter`."""
        return ac.IndividualFilter(getattr(self, "_filter", self).budget).guarantee(delta, conversion)

    # --- records ---------------------------------------------------------------------------------------

    @exclusive
    def fit(self, X: object, y: object, ids: Iterable[object] | str | None = None) -> Self:
        """Begin a new interaction with these private records. Nothing is released.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,), labels 0..c-1
        ids : iterable of str or int, "digest" or None
            What the records are called, once each: they resume what they have spent under that name, in the store or
            in this object. "digest" calls every record by a keyed digest of its features and label; equal records are
            told apart by their number. The order does not matter, but whoever changes in one bit has a new budget, and
            of records that equal one another the guarantee covers those that come and go together. None numbers the
            records from 0; it is refused with a store, and once the object has answered queries.

        Raises
        ------
        accountant.ParameterError
            An array or a parameter is not as described; or the object has answered queries, and there are no
            identifiers, or others of budget, store and kind of identifiers than before.
        """
        features = check_features(X)
        labels, classes = check_labels(y, len(features), self.n_classes)
        kernel = as_kernel(self.kernel, self.threshold, self.bandwidth)
        budgets = ac.IndividualFilter(self.budget)
        count_event, vote_sigma = ac.Gaussian(self.count_sigma), check_positive("vote_sigma", self.vote_sigma)
        min_count = check_positive("min_count", self.min_count)
        answered = Answered(kernel, features.shape[1], self.reuse)
        source = check_source(self.rng, self.store)
        people = RecordBudgets(budgets, self.store, ids, getattr(self, "_people", None))
        names = people.names(ids, features, labels)
        hashing = as_hashing(self.hashing, features.shape[1], source)
        people.settle({"mechanism": type(self).__name__, **{name: getattr(self, name) for name in SETTLED}})
        known = people.known(names)
        self._source, self._filter, self._people = source, budgets, people
        self._count_event, self._vote_sigma, self._min_count = count_event, vote_sigma, min_count
        self._count_units = int(budgets.units(1 / (2 * count_event.sigma**2)))
        rows = kernel.prepared(features)
        self._records, self._hashing, self._answered = Records(kernel, rows), hashing, answered
        self._labels = np.empty(0, np.int64)
        self._entered: dict[str, int] = {}
        self._behind = False
        self.n_classes_ = classes
        self.labels_, self.counts_ = np.empty(0, np.int64), np.empty(0)
        self._enter(np.arange(len(rows)), rows, labels, known)
        return self

    @exclusive
    def add(self, ids: Iterable[object] | str, X: object, y: object) -> Self:
        """More private records, called as at `fit`. One that was there before resumes the budget it had left.

        Raises
        ------
        accountant.ParameterError
            An array is not as described, or an identifier is there already or of another kind than at `fit`; nothing
            was added.
        """
        self._check_fitted("add")
        features = check_features(X)
        if features.shape[1] != self._records.width:
            raise ac.ParameterError(f"X has {features.shape[1]} columns; accepted: {self._records.width}, as at fit")
        labels, _ = check_labels(y, len(features), self.n_classes_)
        names = self._people.names(ids, features, labels)
        known = self._people.known(names)
        rows = self._records.kernel.prepared(features)
        self._enter(self._records.insert(rows), rows, labels, known)
        return self

    @exclusive
    def remove(self, ids: Iterable[object]) -> Self:
        """Forget the features and labels of records; what they have spent stays known for ever.

        Raises
        ------
        accountant.ParameterError
            An identifier is not there; nothing was removed.
        """
        self._check_fitted("remove")
        self._records.free(self._people.leave(check_ids(ids)))
        return self

    @property
    def ids_(self) -> list[str]:
        self._check_fitted("ids_")
        return list(self._people.slots)

    @property
    def budgets_(self) -> Floats:
        self._check_fitted("budgets_")
        return self._filter.remaining[list(self._people.slots.values())]

    def _enter(self, slots: Slots, rows: Features, labels: NDArray[np.int64], known: KnownRecords) -> None:
        """Records that are in these slots, with what they have spent before."""
        self._people.make_room(slots)
        if self._hashing is not None:
            self._hashing.insert(slots, rows)
        self._labels = grown(self._labels, self._records.size)
        self._labels[slots] = labels
        self._people.enter(slots, known)

    # --- answers ---------------------------------------------------------------------------------------

    @exclusive
    def predict(
        self, queries: object, progress: Callable[[int], object] | None = None, run: str | None = None
    ) -> NDArray[np.int64]:
        """Labels for public queries, one after the other, each with what the ones before it have left.

        Parameters
        ----------
        queries : array of shape (m, d)
        progress : callable, optional
            Called with the number of queries done, after each.
        run : str, optional
            Name under which the store keeps the answers, in the transaction that charges for them. The same run again,
            after the process was killed or in another one, returns them at no cost, and goes on with the rest.

        Raises
        ------
        accountant.ParameterError
            `queries` or `run` is not as described, or `fit` was not called; nothing has been spent.
        StoreError
            The run was begun with other queries, classes, hashing or reuse; nothing has been spent.
        UsageError
            The object belongs to another process, or `progress` called it.
        """
        self._check_fitted("predict")
        points = self._records.kernel.prepared(check_queries(queries, self._records.width))
        if self._behind:  # a commit failed
            self._people.read_again()
            self._behind = False
        hashing = self._hashing and [self._hashing.tables, self._hashing.bits]
        about = {"classes": self.n_classes_, "hashing": hashing, "reuse": self._answered.most}
        durable = PredictionRun(self._people.store, run, points, about)
        self.kept_ = durable.kept
        self.labels_, self.counts_ = np.full(len(points), -1), np.full(len(points), np.nan)
        for first in range(0, len(points), TOGETHER):
            some = slice(first, first + TOGETHER)
            self.labels_[some], self.counts_[some], error = self._together(points[some], first, durable, progress)
            if error is not None:
                raise error
        return self.labels_.copy()

    def _together(
        self, points: Features, first: int, run: PredictionRun, progress: Callable[[int], object] | None
    ) -> tuple[NDArray[np.int64], Floats, BaseException | None]:
        """Labels and counts of some queries, committed together; with an error, those that came before it."""
        stopped = None
        try:
            with run.batch():
                labels, counts = run.known(first, first + len(points))
                known = labels >= 0
                try:
                    for i in self._asked(points, labels, counts, self._entered.get(run.name, 0) - first):
                        self._entered[run.name] = max(first + i + 1, self._entered.get(run.name, 0))
                        if progress is not None:
                            progress(first + i + 1)
                except BaseException as error:
                    stopped = error
                if not known.all():
                    run.keep(first, labels, counts)
        except BaseException:
            # these answers are not paid for, perhaps, and must not enter later ones
            self._answered.clear()
            self._entered, self._behind = {}, True
            raise
        return labels, counts, stopped

    def _asked(self, points: Features, labels: NDArray[np.int64], counts: Floats, entered: int) -> Iterator[int]:
        """Every query, once its label and count are there; those that have a label already are not asked."""
        near = self._near(points[labels < 0])
        for i in range(len(points)):
            if labels[i] < 0:
                self._people.released = True
                labels[i], counts[i] = self._answer(*next(near))
            elif i >= entered:
                self._answered.remember(points[i], int(labels[i]))
            yield i

    def _near(self, points: Features) -> Iterator[tuple[Features, Slots]]:
        """(query, slots in which it may find records to select), in order."""
        if self._hashing is None:
            for query, products in self._records.batches(points):
                yield query, self._records.near(query, products)
        else:
            for query, codes in zip(points, self._hashing.codes(points), strict=True):
                yield query, self._hashing.candidates(codes)

    def _answer(self, query: Features, near: Slots) -> tuple[int, float]:
        """The label and K; whatever is drawn has been paid for."""
        active = near[self._filter.left[near] >= self._count_units]
        slots, kernels = self._records.selected(query, active)
        counted = self._paid(slots, np.full(len(slots), self._count_units))
        slots, kernels = slots[counted], kernels[counted]
        known, similar = self._answered.similar(query)
        noise = noise_of(self._count_event, self._source, 1)[0]
        count = max(float(len(slots) + len(known) + noise), self._min_count)

        # votes in units of their noise: then the noise is always the same, and a part f costs f^2/2
        scale = self._vote_sigma * math.sqrt(count)
        left = self._filter.left[slots]
        with np.errstate(over="ignore"):  # a warning would tell that some record is near
            parts, price = kernels / scale, self._filter.units((kernels / scale) ** 2 / 2)
        most = np.sqrt(2 * self._filter.nats(left)) * (1 - ROUNDING)
        parts = np.where(price <= left, parts, most)
        voting = self._paid(slots, np.minimum(price, left))
        parts = np.concatenate([parts[voting], similar / scale])
        voters = np.concatenate([self._labels[slots[voting]], known])
        # exact whatever the order: no record changes by its presence how the others' parts round
        votes = np.bincount(voters, np.floor(parts / GRAIN) * GRAIN, self.n_classes_)
        label = int(np.argmax(votes + noise_of(VOTE, self._source, self.n_classes_, GRAIN)))
        self._answered.remember(query, label)
        return label, count

    def _paid(self, slots: Slots, units: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Charge records, first in the store; which of them have paid."""
        granted = self._people.granted(slots, units)
        self._filter.spend(slots[granted], units[granted])
        return granted

    # --- checks ----------------------------------------------------------------------------------------

    def _check_fitted(self, name: str) -> None:
        if not hasattr(self, "_filter"):
            raise ac.ParameterError(f"{name} before fit; accepted: fit(X, y) first")
