"""Ind-KNN: private prediction in which every record pays for the answers it took part in (ind-knn, Alg. 3 and 4)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.hashing import as_hashing
from mechanisms.kernels import Answered, Features, Floats, Records, Slots, as_kernel, grown
from mechanisms.noise import as_randomness, noise_of
from mechanisms.parameters import Parameters
from mechanisms.validation import (
    checked_count,
    checked_features,
    checked_labels,
    checked_positive,
    checked_queries,
    shown,
)

__all__ = ["BudgetStore", "IndividualKNN"]

VOTE = ac.Gaussian(1.0)
"""The release of votes, which are in units of its noise."""

GRAIN = 2.0**-36
"""Parts are multiples of it: sums below 2^17 are exact in any order, those of up to 10^10 s2^2 selected records."""

ROUNDING = 2.0**-50
"""Relative error allowed for in a part that takes all that a record has left."""

HAIR = 2.0**-44
"""By so much more noise than planned, a charge rounded up still fits into the budget as often as planned."""


TOGETHER = 128
"""Most queries whose charges are committed together."""


class BudgetStore(Protocol):
    """Where spent budgets outlive the process, as in `mechanisms.budgets`.

    If it has a context manager `batch`, charges within are committed at its end.
    """

    def settle(self, settings: dict[str, Any]) -> None:
        """Fix the settings for ever, or refuse others than those that were fixed."""
        ...

    def positions(self, ids: Sequence[object]) -> Slots:
        """Where each identifier is, for good; new ones are entered."""
        ...

    def spent(self, positions: Slots) -> Slots:
        """Units that have been spent so far."""
        ...

    def charge(self, positions: Slots, units: Slots, cap: int) -> NDArray[np.bool_]:
        """Add units, durably, where the total stays within the cap; tells where."""
        ...


class IndividualKNN(Parameters):
    """Answers label queries by the noisy, kernel-weighted votes of similar private records.

    A record is active while its budget covers another count, ``z >= 1/(2 s1^2)``, and selected if it is active and
    its kernel with the query reaches the threshold. Released are the number of selected records,
    ``K = max(count + N(0, s1^2), K_min)``, and ``argmax(votes + N(0, s2^2 K))``, a record's vote for its label being
    ``f = min(kernel, s2 sqrt(2 K z))``. They cost a selected record ``1/(2 s1^2)`` and ``f^2/(2 s2^2 K)``, taken
    before anything is drawn; a record that was not selected pays nothing. The whole interaction is (a, B a)-RDP and
    mu-GDP with mu^2/2 = B (`accountant.IndividualFilter`) under add-remove adjacency, however many queries there are.

    Not for several threads at once. A pickled or deep copy has budgets of its own: with it, records pay twice.

    Parameters
    ----------
    budget : float
        B, for every record, in nats.
    threshold : float
        Least kernel at which a record is selected; [0, 1].
    count_sigma, vote_sigma : float
        s1, the noise of the number of neighbours, and s2, the noise of the votes in units of sqrt(K).
    kernel : {"cosine", "rbf"}
        Inner product of directions, or ``exp(-|x - q|^2 / bandwidth^2)``. Features must not depend on private data:
        do not centre them by a private mean.
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
        returned.
    rng : Generator, int or None
        None draws from the operating system's cryptographic source: use it for real releases.

    Attributes
    ----------
    counts_ : float array
        K for each query of the last `predict`; released, like the labels.
    ids_ : list of str
        Identifiers of the records.
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
            The guarantee.
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
        queries = checked_count("n_queries", n_queries, 1)
        share = checked_positive("count_share", count_share)
        budget = ac.IndividualFilter.budget_for(epsilon, delta, conversion)
        sigma = math.sqrt(queries / (2 * budget * share)) * (1 + HAIR)
        return cls(budget, threshold, count_sigma=sigma, vote_sigma=vote_sigma, **parameters)

    def guarantee(self, delta: float, conversion: ac.FilterConversion = "gdp") -> ac.Guarantee:
        """The guarantee for the whole interaction, whatever is asked; as for `accountant.IndividualFilter`."""
        return ac.IndividualFilter(getattr(self, "_filter", self).budget).guarantee(delta, conversion)

    # --- records ---------------------------------------------------------------------------------------

    def fit(self, X: object, y: object, ids: Iterable[object] | None = None) -> Self:
        """Begin a new interaction with these private records. Nothing is released.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,), labels 0..c-1
        ids : iterable of str or int, optional
            What the records are called, once each; None numbers them from 0. With a store they resume what they have
            spent there, without one their budgets are whole.

        Raises
        ------
        accountant.ParameterError
            An array or a parameter is not as described.
        """
        features = checked_features(X)
        labels, classes = checked_labels(y, len(features), self.n_classes)
        names = _checked_ids(range(len(features)) if ids is None else ids, len(features))
        kernel = as_kernel(self.kernel, self.threshold, self.bandwidth)
        budgets = ac.IndividualFilter(self.budget)
        count_event, vote_sigma = ac.Gaussian(self.count_sigma), checked_positive("vote_sigma", self.vote_sigma)
        min_count = checked_positive("min_count", self.min_count)
        answered = Answered(kernel, features.shape[1], self.reuse)
        source = as_randomness(self.rng)
        hashing = as_hashing(self.hashing, features.shape[1], source)
        if self.store is not None:
            self.store.settle(self._settings(budgets))
        self._source, self._filter, self._budgets_store = source, budgets, self.store
        self._count_event, self._vote_sigma, self._min_count = count_event, vote_sigma, min_count
        self._count_units = int(budgets.units(1 / (2 * count_event.sigma**2)))
        rows = kernel.prepared(features)
        self._records, self._hashing, self._answered = Records(kernel, rows), hashing, answered
        self._labels, self._positions = np.empty(0, np.int64), np.empty(0, np.int64)
        self._slots: dict[str, int] = {}
        self._gone: dict[str, int] = {}
        self.n_classes_ = classes
        self.counts_: Floats = np.empty(0)
        self._enter(names, np.arange(len(rows)), rows, labels)
        return self

    def add(self, ids: Iterable[object], X: object, y: object) -> Self:
        """More private records. One that was there before resumes the budget it had left.

        Raises
        ------
        accountant.ParameterError
            An array is not as described, or an identifier is there already; nothing was added.
        """
        self._check_fitted("add")
        features = checked_features(X)
        if features.shape[1] != self._records.width:
            raise ac.ParameterError(f"X has {features.shape[1]} columns; accepted: {self._records.width}, as at fit")
        labels, _ = checked_labels(y, len(features), self.n_classes_)
        names = _checked_ids(ids, len(features))
        for name in names:
            if name in self._slots:
                raise ac.ParameterError(f"ids holds {shown(name)}, which is there; accepted: new ones, or removed ones")
        rows = self._records.kernel.prepared(features)
        self._enter(names, self._records.insert(rows), rows, labels)
        return self

    def remove(self, ids: Iterable[object]) -> Self:
        """Forget the features and labels of records; what they have spent stays known for ever.

        Raises
        ------
        accountant.ParameterError
            An identifier is not there; nothing was removed.
        """
        self._check_fitted("remove")
        names = _checked_ids(ids)
        for name in names:
            if name not in self._slots:
                raise ac.ParameterError(f"ids holds {shown(name)}, which is not there; accepted: those in ids_")
        slots = np.array([self._slots[name] for name in names], np.int64)
        self._gone.update(zip(names, (self._filter.UNITS - self._filter.left[slots]).tolist(), strict=True))
        self._filter.retire(slots)
        for name in names:
            del self._slots[name]
        self._records.free(slots)
        return self

    @property
    def ids_(self) -> list[str]:
        self._check_fitted("ids_")
        return list(self._slots)

    @property
    def budgets_(self) -> Floats:
        self._check_fitted("budgets_")
        return self._filter.remaining[list(self._slots.values())]

    def _enter(self, names: list[str], slots: Slots, rows: Features, labels: NDArray[np.int64]) -> None:
        """Records that are in these slots, with what they have spent before."""
        store = self._budgets_store
        if store is None:
            positions, spent = slots, np.array([self._gone.get(name, 0) for name in names], np.int64)
        else:
            positions = store.positions(names)
            spent = store.spent(positions)
        self._filter.admit(slots, self._filter.UNITS)  # nothing to spend while they come in
        if self._hashing is not None:
            self._hashing.insert(slots, rows)
        size = self._records.size
        self._labels, self._positions = grown(self._labels, size), grown(self._positions, size)
        self._labels[slots], self._positions[slots] = labels, positions
        self._slots.update(zip(names, slots.tolist(), strict=True))
        self._filter.admit(slots, np.minimum(spent, self._filter.UNITS))

    # --- answers ---------------------------------------------------------------------------------------

    def predict(self, queries: object, progress: Callable[[int], object] | None = None) -> NDArray[np.int64]:
        """Labels for public queries, one after the other, each with what the ones before it have left.

        Parameters
        ----------
        queries : array of shape (m, d)
        progress : callable, optional
            Called with the number of queries done, after each.

        Raises
        ------
        accountant.ParameterError
            `queries` is not as described, or `fit` was not called; nothing has been spent.
        """
        self._check_fitted("predict")
        points = self._records.kernel.prepared(checked_queries(queries, self._records.width))
        labels, counts = np.empty(len(points), np.int64), np.empty(len(points))
        for first in range(0, len(points), TOGETHER):
            with self._durable():
                for i, (query, near) in enumerate(self._near(points[first : first + TOGETHER]), first):
                    labels[i], counts[i] = self._answer(query, near)
                    if progress is not None:
                        progress(i + 1)
        self.counts_ = counts
        return labels

    @contextmanager
    def _durable(self) -> Iterator[None]:
        """One transaction of the store for several queries: committed at the end and, for what was drawn, on errors."""
        stopped = None
        try:
            with getattr(self._budgets_store, "batch", nullcontext)():
                try:
                    yield
                except BaseException as error:
                    stopped = error
        except BaseException:
            self._answered.clear()  # these answers are not paid for, perhaps, and must not enter later ones
            raise
        if stopped is not None:
            raise stopped

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
        parts = kernels / scale
        price = self._filter.units(parts**2 / 2)
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
        granted = np.ones(len(slots), bool)
        if self._budgets_store is not None and len(slots):
            granted = self._budgets_store.charge(self._positions[slots], units, self._filter.UNITS)
            refused = slots[~granted]
            if len(refused):  # another process has charged them meanwhile
                spent = self._budgets_store.spent(self._positions[refused])
                self._filter.admit(refused, np.minimum(spent, self._filter.UNITS))
        self._filter.spend(slots[granted], units[granted])
        return granted

    # --- checks ----------------------------------------------------------------------------------------

    def _settings(self, budgets: ac.IndividualFilter) -> dict[str, Any]:
        """What processes that share a store must have in common."""
        names = ("budget", "threshold", "count_sigma", "vote_sigma", "bandwidth", "min_count")
        return {
            "mechanism": type(self).__name__,
            "units": budgets.UNITS,
            "kernel": self.kernel,
            **{name: float(getattr(self, name)) for name in names},
        }

    def _check_fitted(self, name: str) -> None:
        if not hasattr(self, "_filter"):
            raise ac.ParameterError(f"{name} before fit; accepted: fit(X, y) first")


def _checked_ids(ids: Iterable[object], n: int | None = None) -> list[str]:
    """Identifiers as text, each once."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise ac.ParameterError(f"ids = {shown(ids)}; accepted: a list of str or int")
    listed = list(ids)
    for name in listed:
        if isinstance(name, bool) or not isinstance(name, str | int | np.integer):
            raise ac.ParameterError(f"ids holds {shown(name)}; accepted: str or int")
    names = [str(name) for name in listed]
    if n is not None and len(names) != n:
        raise ac.ParameterError(f"ids holds {len(names)} identifiers; accepted: {n}, one for each record")
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise ac.ParameterError(f"ids holds {shown(twice)} twice; accepted: every identifier once")
    return names
