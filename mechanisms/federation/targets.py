"""Prices of rounds, as clients and shufflers compute them, and the target that all rounds together must keep."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import accountant as ac
from mechanisms.federation.messages import CorruptMessage, MessageError, UnsuitableMessage
from mechanisms.federation.protocols import LocalProtocol, SharesProtocol, protocol_for, report_in_crowd
from mechanisms.federation.round_setup import RoundSetup, RoundSize
from mechanisms.local_reports.noise_shares import SHARES_ROUTE
from mechanisms.validation import check_real

__all__ = ["DEFAULT_ROUTE", "RECEIVED", "Charge", "Target", "choose_route", "total_price"]

DEFAULT_ROUTE: dict[str, Any] = {"method": "auto", "tolerance": 1e-3, "patience": 60.0}
"""Arguments of `accountant.epsilon`; the same for calibration and for guarantees, of what a party plans itself.

Checks against a target have the receiver's own patience instead (`Target`)."""

RECEIVED = 10.0
"""Seconds of work for a price of what another party asks, unless the receiver says otherwise; rounds of a million users
take up to eight."""


@dataclass(frozen=True)
class Charge:
    """The reports of one record in one round, described so that a ledger can price them again at any time.

    It depends on the setup and the size of the crowd only, not on records.

    Parameters
    ----------
    protocol : str
    parameters : tuple of float
    queries, classes, neighbors, labels : int
        s, c, k and r of the setup.
    crowd : int
        Fewest users whose reports are shuffled together; 0 without a shuffler.
    """

    protocol: str
    parameters: tuple[float, ...]
    queries: int
    classes: int
    neighbors: int
    labels: int
    crowd: int = 0

    @classmethod
    def of(cls, setup: RoundSetup, crowd: int = 0) -> Charge:
        """The charge for one record under a setup."""
        return cls(setup.protocol, setup.parameters, *setup.shape, setup.n_neighbors, setup.n_labels, crowd)

    @property
    def event(self) -> ac.Event | ac.Composition:
        """What the reports cost.

        Raises
        ------
        MessageError
            The reports have no guarantee in that crowd, or the parameters are out of range.
        """
        return _event(self)

    def text(self) -> str:
        """The charge as JSON for a ledger; equal charges have equal texts."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def of_text(cls, text: str) -> Charge:
        """The charge with that text."""
        fields = json.loads(text)
        return cls(**{**fields, "parameters": tuple(fields["parameters"])})


@lru_cache(maxsize=256)
def _event(charge: Charge) -> ac.Event | ac.Composition:
    try:
        size = RoundSize(charge.queries, charge.classes, charge.neighbors, charge.labels)
    except ac.ParameterError as error:
        raise CorruptMessage(f"an impossible setup: {error}") from None
    protocol = protocol_for(charge.protocol, charge.parameters, size)
    if isinstance(protocol, SharesProtocol):
        if protocol.participants > charge.crowd:
            found = f"a setup for {protocol.participants} records"
            raise UnsuitableMessage(f"{found}; accepted: at most {charge.crowd}, the crowd")
        return protocol.event
    if not charge.crowd or not isinstance(protocol, LocalProtocol):
        return protocol.event
    try:
        return ac.Shuffled(report_in_crowd(protocol.randomizer), charge.crowd)
    except ac.AccountantError as error:
        raise UnsuitableMessage(f"a setup that cannot be priced: {error}") from None


@dataclass(frozen=True)
class Target:
    """Upper bound for what all rounds together may cost a record.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        In [0, 1). At 0 the epsilons of the rounds are added exactly, as fractions.
    patience : float
        Seconds of work that a check may take, counted as by `accountant.epsilon`; (0, inf]. What is checked was chosen
        by somebody else, who must not decide how long the receiver works.

    Raises
    ------
    accountant.ParameterError
        A value is out of range.
    """

    epsilon: float
    delta: float = 0.0
    patience: float = RECEIVED

    def __post_init__(self) -> None:
        finite = "a finite number above 0"
        epsilon = check_real("max_epsilon", self.epsilon, finite, lambda value: 0 < value < math.inf)
        delta = check_real("delta", self.delta, "[0, 1)", lambda value: 0 <= value < 1)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        patience = check_real("patience", self.patience, "(0, inf]", lambda value: value > 0)
        object.__setattr__(self, "patience", patience)

    def check(self, spent: ac.Composition) -> None:
        """Refuse a composition that costs more.

        Raises
        ------
        UnsuitableMessage
            It costs more, or has no price, or none within the patience.
        """
        try:
            total = total_price(spent, self.delta, self.patience)
        except MessageError:
            raise
        except ac.AccountantError as error:
            raise UnsuitableMessage(f"a setup that cannot be priced: {error}") from None
        if not total <= Fraction(self.epsilon):
            at = f" at delta = {self.delta:g}" if self.delta else ""
            raise UnsuitableMessage(
                f"a setup that brings a record's epsilon to {float(total):g}{at}; accepted: at most "
                f"max_epsilon = {self.epsilon:g}"
            )


def choose_route(spent: ac.Composition) -> dict[str, Any]:
    """Arguments of `accountant.epsilon` for the price of what was spent."""
    return SHARES_ROUTE if any(isinstance(event, ac.ShuffledCounts) for event, _ in spent) else DEFAULT_ROUTE


@lru_cache(maxsize=1024)
def total_price(spent: ac.Composition, delta: float, patience: float | None = None) -> Fraction:
    """The epsilon of a composition: at delta = 0 the exact sum of its events' epsilons.

    Seconds and errors as for `accountant.epsilon`; by default what the route has.
    """
    if not len(spent):
        return Fraction(0)
    if delta == 0:
        # a sum of doubles would accumulate rounding errors
        return sum((count * _pure_epsilon(event) for event, count in spent), Fraction(0))
    route = choose_route(spent) if patience is None else {**choose_route(spent), "patience": patience}
    found = ac.epsilon(spent, delta, **route).epsilon
    if not math.isfinite(found):
        raise ac.NoGuarantee(f"delta = {delta:g}: epsilon is {found:g}; accepted: what has a finite one")
    return Fraction(found)


@lru_cache(maxsize=1024)
def _pure_epsilon(event: ac.Event) -> Fraction:
    return Fraction(ac.epsilon(1 * event, 0.0, method="renyi").epsilon)
