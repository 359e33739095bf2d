"""dp_accounting: its events as runs, runs as its events, an accountant for it, and loss distributions that it reads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from accountant.errors import NoGuarantee, ParameterError, integer, real, shorten
from accountant.events.composition import MAX_COUNT, Composition
from accountant.events.curve import as_reals
from accountant.events.event import Event
from accountant.guarantee import Guarantee
from accountant.interop.described_events import describe
from accountant.interop.dp_events import Refused, translate
from accountant.interop.loss_distributions import grid_losses
from accountant.interop.peers import import_peer, narrow_epsilon, price_delta, price_epsilon
from accountant.risk import gaussian_dp, true_positive_rate

privacy_accountant = import_peer("dp_accounting.privacy_accountant", "dp_accounting")

__all__ = ["Accountant", "UnsupportedDpEvent", "from_dp_event", "to_dp_event", "to_privacy_loss_distribution"]

NeighboringRelation = privacy_accountant.NeighboringRelation


class UnsupportedDpEvent(ParameterError, privacy_accountant.UnsupportedEventError):  # type: ignore[misc, name-defined]  # is Any
    """A DpEvent that has no price here, or a run that no DpEvent describes."""


def from_dp_event(event: Any, neighboring_relation: Any = None) -> Composition:
    """The run that a `DpEvent` describes.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        Sampled, composed, or neither.
    neighboring_relation : dp_accounting.NeighboringRelation, optional
        ADD_OR_REMOVE_ONE by default. The noise multiplier of a Gaussian event is that of values of norm 1: under
        REPLACE_ONE their sum moves by 2. Runs under REPLACE_SPECIAL have the adjacency ADD_REMOVE, whose pairs of
        distributions theirs are.

    Returns
    -------
    Composition

    Raises
    ------
    UnsupportedDpEvent
        The event, or one inside it, has no price here; it is a `ParameterError` and an `UnsupportedEventError`.
    NoGuarantee
        It is not private, such as noise of scale 0.
    ParameterError
        A number in it is out of range.
    """
    relation = _relation(neighboring_relation)
    try:
        found = translate(event, relation)
    except Refused as refused:
        raise UnsupportedDpEvent(f"{shorten(refused.event)}: {refused.message}") from None
    if found.exposed:
        raise NoGuarantee(f"{shorten(event)} is not private: no run of finite cost describes it")
    return found.run


def to_dp_event(run: Event | Composition) -> Any:
    """The `DpEvent` that describes a run.

    Under the relation that the run's adjacency is (REPLACE_ONE for REPLACE, else ADD_OR_REMOVE_ONE), `from_dp_event`
    makes a run of the same price of it.

    Raises
    ------
    UnsupportedDpEvent
        No DpEvent has the pair of distributions of one of its events.
    """
    try:
        return describe(1 * run if isinstance(run, Event) else run)
    except ParameterError as error:
        raise UnsupportedDpEvent(str(error)) from None


class Accountant(privacy_accountant.PrivacyAccountant):  # type: ignore[misc, name-defined]  # is Any
    """A `dp_accounting.PrivacyAccountant` whose prices are certified, and tight where events have a privacy profile.

    Takes the place of `PLDAccountant` and `RdpAccountant`: events that have no price here are refused, as there, by
    `supports` and `compose`; noise of scale 0 costs an infinite epsilon.

    Parameters
    ----------
    neighboring_relation : dp_accounting.NeighboringRelation, optional
        ADD_OR_REMOVE_ONE by default.
    tolerance : float, optional
        Relative width of the certified interval of epsilon, [1e-6, 1]; of delta a hundred times as much for more than
        100 releases. By default 2e-6 for up to 2000 releases of one kind, 1e-5 for up to 20000, 1e-4 for up to 100000,
        1e-3 beyond; wider where it cannot be reached.

    Attributes
    ----------
    run : Composition
        What has been composed, as far as it is private.

    Examples
    --------
    >>> from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    >>> from accountant.interop.dp_accounting import Accountant
    >>> step = PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0))
    >>> Accountant().compose(step, 10_000).get_epsilon(1e-5)  # doctest: +SKIP
    """

    def __init__(self, neighboring_relation: Any = None, tolerance: float | None = None) -> None:
        super().__init__(_relation(neighboring_relation))
        self.tolerance = None if tolerance is None else real("tolerance", tolerance, 1e-6, 1.0)
        self.run = Composition()
        self._exposed = False

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        times = integer("count", count, 0, MAX_COUNT)
        try:
            found = translate(event, self.neighboring_relation)
        except Refused as refused:
            return self.CompositionErrorDetails(invalid_event=refused.event, error_message=refused.message)
        spent = times * found.run  # refuses a product of counts before the ledger holds it
        if do_compose and times > 0:
            self.run = self.run + spent
            self._exposed |= found.exposed
        return None

    def get_epsilon(self, target_delta: float) -> float:
        """An upper bound on epsilon at a delta in [0, 1]; inf where no epsilon is enough."""
        point = real("delta", target_delta, 0.0, 1.0)
        return math.inf if self._exposed else price_epsilon(self.run, point, self.tolerance)

    def get_delta(self, target_epsilon: float) -> float:
        """An upper bound on delta at an epsilon in [0, inf]."""
        point = real("epsilon", target_epsilon, 0.0, math.inf)
        return 1.0 if self._exposed else price_delta(self.run, point, self.tolerance)

    def get_true_positive_rates(self, false_positive_rates: Any, deltas: Any = None) -> Any:
        """An upper bound on any attacker's true-positive rate at each false-positive rate, in the worse direction.

        Parameters
        ----------
        false_positive_rates : float or array_like
            In [0, 1].
        deltas : array_like, optional
            Taken for the sake of `PLDAccountant`, which reads as many points of the profile; here all of it is read.

        Returns
        -------
        float or ndarray
            As `false_positive_rates` is.
        """
        rates = as_reals("false_positive_rates", false_positive_rates)
        known = Composition() if self._exposed else self.run  # refuses rates out of range in any case
        found = true_positive_rate(known, rates, tolerance=self._risk_tolerance).upper
        if self._exposed:
            found = np.ones_like(rates)
        return float(found) if np.ndim(false_positive_rates) == 0 else found

    def get_gdp_parameter_estimate(self, false_positive_rates: Any = None, deltas: Any = None) -> float:
        """The least mu of which the run is mu-Gaussian-DP wherever both error rates are at least a floor.

        An upper bound, where that of `PLDAccountant` is an estimate.

        Parameters
        ----------
        false_positive_rates : array_like, optional
            The least of them is the floor, [1e-30, 0.5); 1e-12 by default.
        deltas : array_like, optional
            As for `get_true_positive_rates`.
        """
        rates = as_reals("false_positive_rates", 1e-12 if false_positive_rates is None else false_positive_rates)
        if rates.size == 0:
            raise ParameterError("false_positive_rates = []; accepted: one rate or more, in [1e-30, 0.5)")
        floor = real("false_positive_rates", float(np.min(rates)), 1e-30, 0.5, open_high=True)
        return math.inf if self._exposed else gaussian_dp(self.run, floor, tolerance=self._risk_tolerance).upper

    @property
    def _risk_tolerance(self) -> float:
        return 1e-4 if self.tolerance is None else self.tolerance

    def guarantee(self, target_delta: float) -> Guarantee:
        """Epsilon with its certified lower end, and how it was found.

        Raises
        ------
        NoGuarantee
            No epsilon is enough.
        ParameterError
            `target_delta` is not in [0, 1).
        """
        if self._exposed:
            raise NoGuarantee("what was composed is not private: no epsilon is enough")
        return narrow_epsilon(self.run, real("delta", target_delta, 0.0, 1.0, open_high=True), self.tolerance)


def _relation(given: Any) -> Any:
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE if given is None else given
    if not isinstance(relation, NeighboringRelation):
        names = ", ".join(f"NeighboringRelation.{each.name}" for each in NeighboringRelation)
        raise ParameterError(f"neighboring_relation = {shorten(given)}; accepted: {names}")
    return relation


def to_privacy_loss_distribution(
    run: Event | Composition,
    *,
    pessimistic: bool = True,
    value_discretization_interval: float | None = None,
    tolerance: float = 1e-4,
) -> Any:
    """The whole run as a `PrivacyLossDistribution`, for dp_accounting and for programs that read its objects.

    Its deltas and epsilons bound the run's: from above if `pessimistic`, else from below. So do those of its
    compositions with others of the same interval, as far as they are computed without rounding.

    Parameters
    ----------
    run : Event or Composition
    pessimistic : bool
        Whether the losses dominate the run's, or are dominated by them.
    value_discretization_interval : float, optional
        Distance of losses; 1e-4 by default, for runs with losses above 52 so much more that 2**20 points are enough.
    tolerance : float
        Relative width of epsilon at deltas from 0.5 to 1e-18 that grids are chosen for, [1e-6, 1].

    Returns
    -------
    dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution

    Raises
    ------
    ParameterError
        A number is out of range, or the losses take too many points.
    ProfileUnavailable
        An event is known by a Rényi bound only, and the distribution is to be optimistic.
    DataDependentError
        The run's cost is itself a function of private data.
    """
    pmfs = import_peer("dp_accounting.pld.pld_pmf", "dp_accounting")
    distributions = import_peer("dp_accounting.pld.privacy_loss_distribution", "dp_accounting")
    found = grid_losses(
        1 * run if isinstance(run, Event) else run,
        above=pessimistic,
        step=value_discretization_interval,
        tolerance=real("tolerance", tolerance, 1e-6, 1.0),
    )
    return distributions.PrivacyLossDistribution(
        *(
            pmfs.DensePLDPmf(each.step, each.first, each.probabilities, each.infinite, pessimistic_estimate=pessimistic)
            for each in found
        )
    )
