"""Budgets and readings of runs that choose their releases on the way, by what was released before."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from accountant.adjacency import Adjacency
from accountant.errors import (
    CalibrationError,
    NoGuarantee,
    ParameterError,
    integer,
    is_one_of,
    real,
    shorten,
)
from accountant.events.composition import MAX_COUNT, Composition
from accountant.events.event import Event
from accountant.events.gaussian import GaussianDP
from accountant.filters.individual import BudgetExceeded, IndividualFilter
from accountant.filters.mixture import filter_mixture, odometer_mixture, single_order
from accountant.filters.run import Run
from accountant.filters.spending import Charge, Released, is_nothing
from accountant.guarantee import Guarantee
from accountant.price import epsilon as price

__all__ = ["Filter", "Odometer"]

FilterKind: TypeAlias = Literal["auto", "renyi", "gdp"]

SHARES = {"auto": 0.75, "renyi": 0.0, "gdp": 1.0}
"""Part of delta that a filter keeps for Gaussian releases alone; kind "auto" only if its first release is one."""


class Filter(Run):
    """A budget (epsilon, delta) for releases that are chosen one by one, each by what came out of those before.

    `spend` is called before a release is made. It refuses what does not fit, and everything that it lets pass is
    (epsilon, delta)-DP together, however the releases were chosen and whenever the run stops: a guarantee that is
    fixed before the first release. A release costs the same time whatever was released before.

    A run may go on while one of three conditions holds (proofs: notebooks/mathematics.md, Filters and odometers).

    * The pure-DP limits add up to at most epsilon, to the nearest float: ten releases of 0.1 fit 1, by half of the last
      digit too much, and `guarantee` then says the next float above.
    * The losses that fit the running sums S(a) of the Rényi curves fit the budget under fixed weights w(a) of orders:
      (1 - e^{eps-L})_+ <= delta sum_a w(a) e^{(a-1)(L - S(a))} for all L. One order alone is the Rényi filter of
      Feldman & Zrnic 2021, Thm 4.3, and Lécuyer 2021. That the best order is chosen afterwards is not proven to be
      private, and not done.
    * All releases are mu-GDP, and the squares of mu add up to at most that of the budget (Smith & Thakurta 2022).

    The second and third share delta: if the first release is mu-GDP the third has 3/4 of it, otherwise nothing.

    Parameters
    ----------
    epsilon : float
        In nats; (0, 1e6].
    delta : float
        In [0, 1); with 0 only the first condition counts.
    kind : {"auto", "renyi", "gdp"}
        "renyi": the second condition has all of delta. "gdp": the third has, and other releases are refused.
    order : float, optional
        One Rényi order instead of several, with kind "renyi"; (1, 1e9]. Nothing is lost to other orders where it is
        the best one of the run, such as ``ac.epsilon(expected_run, delta, method="renyi").order``; private data must
        not choose it.
    failures : float
        Part of delta kept for releases that tell everything with some probability, such as `ApproximateDP`; in
        [0, delta). They are refused where it is 0.
    path : str or Path, optional
        A file that keeps what was spent, on disk before `spend` returns: a filter that is made again from it, in any
        process, goes on where it was. Forked children may then spend, too; without a file they are refused, and so are
        copies, as neither would know what the other one spends.
    wait : float
        Seconds to wait for other processes that use the file; [0, 86400].

    Raises
    ------
    ParameterError
        A value is out of range.
    FilterError
        The file is of another kind or of a filter with other settings, is damaged, or older than one that was here; or
        a copy, or a forked child of a filter without a file, would spend.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        kind: FilterKind = "auto",
        order: float | None = None,
        failures: float = 0.0,
        path: str | Path | None = None,
        wait: float = 10.0,
    ) -> None:
        self.epsilon = real("epsilon", epsilon, 0.0, 1e6, open_low=True)
        self.delta = real("delta", delta, 0.0, 1.0, open_high=True)
        self.failures = real("failures", failures, 0.0, max(self.delta, 5e-324), open_high=True)
        if not is_one_of(kind, ("auto", "renyi", "gdp")):
            raise ParameterError(f"kind = {shorten(kind)}; accepted: auto, renyi, gdp")
        if self.delta == 0.0 and kind != "auto":
            raise ParameterError(f"delta = 0 with kind = {kind!r}; accepted: delta in (0, 1), or kind = 'auto'")
        if order is not None and kind != "renyi":
            raise ParameterError(f"order = {shorten(order)} with kind = {kind!r}; accepted: with kind = 'renyi'")
        self.kind = kind
        self._left = self.delta - self.failures
        if order is not None:
            mixture = single_order(real("order", order, 1.0, 1e9, open_low=True))
        else:
            mixture = filter_mixture(self.epsilon, math.log(self._left) if self._left > 0.0 else -math.inf)
        self._margin = 0.0
        self._squares: dict[float, float] = {}
        about: dict[str, object] = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "kind": kind,
            "failures": self.failures,
        }
        super().__init__(mixture, path, real("wait", wait, 0.0, 86400.0), about)

    def spend(self, event: Event | Composition, count: int = 1) -> None:
        """Pay for a release, or for `count` of them, before it is made; all of it or, on an error, nothing.

        Parameters
        ----------
        event : Event or Composition
        count : int

        Raises
        ------
        BudgetExceeded
            It does not fit. What fits may still be spent.
        ParameterError
            It is no event, or one that the filter's kind cannot count, or it would have happened more than 1e30 times.
        DataDependentError
            Its cost depends on private data.
        AdjacencyMismatch
            Its adjacency is not that of the releases before.
        """
        times = integer("count", count, 0, MAX_COUNT)
        charge = self._charge(event)
        if is_nothing(event, times):
            return
        with self._turn():
            after, rise = self._next(event, charge, times)
            margin = self._margin_after(after, rise)
            if margin is None:
                raise BudgetExceeded(
                    f"{times} x {shorten(event)} does not fit; accepted: releases within what is left of "
                    f"epsilon = {self.epsilon:g}, delta = {self.delta:g}"
                )
            self._record(after, self._counts_after(event, times))
            self._margin = margin

    def covers(self, event: Event | Composition, count: int = 1) -> bool:
        """Whether `spend` would let it pass now; errors as for `spend`, without `BudgetExceeded`."""
        times = integer("count", count, 0, MAX_COUNT)
        charge = self._charge(event)
        if is_nothing(event, times):
            return True
        with self._turn():
            if self._margin_after(*self._next(event, charge, times)) is None:
                return False
            self._counts_after(event, times)  # refuses what the run could not say
            return True

    def guarantee(self, delta: float | None = None) -> Guarantee:
        """The guarantee for the whole run, past and future, whatever is chosen.

        Its epsilon is the filter's; or the next float above, once pure-DP limits add up to more than the filter's.

        Parameters
        ----------
        delta : float, optional
            Default: the filter's own. Others must be larger, but with kind "gdp", which is priced exactly at every one.

        Raises
        ------
        ParameterError
            `delta` is out of range.
        """
        point = self.delta if delta is None else real("delta", delta, 0.0, 1.0, open_high=True)
        if self.kind == "gdp" and self.failures == 0.0 and point > 0.0:
            found = price(GaussianDP(math.sqrt(self._square_budget(1.0))), point, method="tight")
            most = min(found.epsilon, self.epsilon if point >= self.delta else math.inf)  # next to delta = 1
            return replace(found, epsilon=most, adjacency=self.adjacency, source="Gaussian DP filter")
        if point < self.delta:
            raise ParameterError(f"delta = {point:g}; accepted: [{self.delta:g}, 1), for which the filter was made")
        sources = {"auto": "fully adaptive filter", "renyi": "fully adaptive Rényi filter"}
        source = sources.get(self.kind, "Gaussian DP filter")
        return _guarantee(self._epsilon_above(), point, self.adjacency, source, odometer=False)

    def _epsilon_above(self) -> float:
        """The filter's epsilon, or what pure-DP limits add up to that are that number to the nearest float."""
        with self._turn():
            spent = self._state.spent
        if not spent.pure_epsilon <= self.epsilon < spent.pure_epsilon_above:
            return self.epsilon
        return max(self.epsilon, min(spent.pure_epsilon_above, self.run._largest_loss()))  # of thirds it is exact

    def _charge(self, release: Event | Composition) -> Charge:
        charge = super()._charge(release)
        if charge.failure > 0.0 and self.failures == 0.0:
            raise ParameterError(
                f"{shorten(release)} may lose infinitely much; accepted: events with a finite Rényi curve, or a filter "
                "with failures=..., a part of delta for such events"
            )
        if self.kind == "gdp" and charge.square == math.inf and charge.failure == 0.0 and release.adjacency:
            raise ParameterError(
                f"{shorten(release)} is not Gaussian DP; accepted: Gaussian, GaussianDP, or another kind of filter"
            )
        return charge

    def _margin_after(self, after: Released, rise: float) -> float | None:
        """None where the run must not go on; else by how much the log of the mixture's delta may rise unchecked."""
        spent = after.spent
        if spent.failure > self.failures:
            return None
        share = SHARES[self.kind] if self.kind != "auto" or after.gaussian else 0.0
        if spent.pure_epsilon <= self.epsilon or spent.square <= self._square_budget(share):
            return 0.0
        if self._left == 0.0 or share == 1.0:
            return None
        margin = 0.0 if self._stored else self._margin - rise
        if margin > 0.0:
            return margin
        own = self._left * (1 - share)
        if own == 0.0:  # of the smallest floats there is no fourth part
            return None
        margin = math.log(own) - self._mixture.log_share(spent.curve, self.epsilon)
        return margin if margin >= 0.0 else None

    def _square_budget(self, share: float) -> float:
        """The square of mu that fits a share of delta."""
        if share == 0.0 or self._left == 0.0:
            return 0.0
        if share not in self._squares:
            try:
                self._squares[share] = 2 * IndividualFilter.budget_for(self.epsilon, self._left * share)
            except CalibrationError:  # nothing but what costs nothing is within so small a budget
                self._squares[share] = 0.0
        return self._squares[share]


class Odometer(Run):
    """What a run has cost that chooses its releases on the way and has no budget.

    `guarantee` holds at the time at which it is asked for even if what came out decided when that is: for every
    stopping time with reading eps, every pair of neighbours P, Q and every set S of outcomes,

        P(S and eps <= x) <= e^x Q(S) + delta   for every x,

    which is what a `Filter` of that size says, for filters of all sizes at once (Rogers et al. 2016 define odometers;
    proof: notebooks/mathematics.md, Filters and odometers). It costs more than `reading`, which holds for a run that
    was fixed in advance only.

    Parameters
    ----------
    order : float, optional
        One Rényi order instead of a mixture of many, such as the best order of a run like this; private data must not
        choose it. (1, 1e9].
    path : str or Path, optional
        A file that keeps what was spent, as for `Filter`.
    wait : float
        Seconds to wait for other processes that use the file; [0, 86400].

    Raises
    ------
    ParameterError
        A value is out of range.
    FilterError
        The file is of another kind or of an odometer with other settings, is damaged, or older than one that was here.
    """

    def __init__(self, *, order: float | None = None, path: str | Path | None = None, wait: float = 10.0) -> None:
        known = odometer_mixture() if order is None else single_order(real("order", order, 1.0, 1e9, open_low=True))
        super().__init__(known, path, real("wait", wait, 0.0, 86400.0), {"kind": "odometer"})

    def spend(self, event: Event | Composition, count: int = 1) -> None:
        """Record a release, or `count` of them, before it is made; parameters and errors as for `Filter.spend`."""
        times = integer("count", count, 0, MAX_COUNT)
        charge = self._charge(event)
        if charge.failure > 0.0:
            raise ParameterError(
                f"{shorten(event)} may lose infinitely much; accepted: events with a finite Rényi curve"
            )
        if is_nothing(event, times):
            return
        with self._turn():
            after, _ = self._next(event, charge, times)
            self._record(after, self._counts_after(event, times))

    def guarantee(self, delta: float) -> Guarantee:
        """The guarantee for the releases so far, valid also where they decided when it is asked for.

        Parameters
        ----------
        delta : float
            In [0, 1), chosen in advance.

        Raises
        ------
        ParameterError
            `delta` is out of range.
        NoGuarantee
            No finite epsilon holds.
        """
        point = real("delta", delta, 0.0, 1.0, open_high=True)
        with self._turn():
            spent, adjacency = self._state.spent, self._state.adjacency
        found = spent.pure_epsilon_above
        if point > 0.0 and adjacency is not None:
            found = min(found, self._mixture.epsilon(spent.curve, math.log(point)))
        if found == math.inf:
            raise NoGuarantee(f"no finite epsilon at delta = {point:g}; accepted: a larger delta")
        return _guarantee(found, point, adjacency, "fully adaptive odometer", odometer=True)


def _guarantee(epsilon: float, delta: float, adjacency: Adjacency | None, source: str, *, odometer: bool) -> Guarantee:
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        method="renyi",
        conversion=None,
        order=None,
        source=source,
        odometer=odometer,
    )
