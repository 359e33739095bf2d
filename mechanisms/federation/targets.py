"""What a client or a shuffler lets its records spend: prices of single rounds, and the target that all stay within."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import accountant as ac
from mechanisms.federation.messages import MessageError, UnsuitableMessage
from mechanisms.federation.protocols import SharesProtocol, as_one_event, protocol_for
from mechanisms.federation.round_setup import RoundSetup
from mechanisms.local_reports.noise_shares import SHARES_ROUTE
from mechanisms.validation import check_real

__all__ = ["ROUTE", "Charge", "Target", "route_of", "total_price"]

ROUTE: dict[str, Any] = {"method": "auto", "tolerance": 1e-3}
"""To the price of a run; the same for calibration, for the guarantee, and for what a target allows."""


@dataclass(frozen=True)
class Charge:
    """One round's reports of one record, described so that their event can be made again at any time.

    It is a function of the setup and of the crowd alone: it knows nothing of records.

    Parameters
    ----------
    protocol : str
    parameters : tuple of float
    queries, classes, neighbors, labels : int
        s, c, k and r of the setup.
    crowd : int
        Fewest users whose reports are shuffled together; 0 for a report that is seen by itself.
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
        """What a setup asks for."""
        return cls(setup.protocol, setup.parameters, *setup.shape, setup.n_neighbors, setup.n_labels, crowd)

    @property
    def event(self) -> ac.Event | ac.Composition:
        """What the reports cost.

        Raises
        ------
        MessageError
            The reports protect nothing in that crowd, or the parameters cannot be.
        """
        return _event(self)

    def text(self) -> str:
        """The charge as a ledger holds it; the same charge has the same text."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def of_text(cls, text: str) -> Charge:
        """The charge that a ledger holds."""
        fields = json.loads(text)
        return cls(**{**fields, "parameters": tuple(fields["parameters"])})


@lru_cache(maxsize=256)
def _event(charge: Charge) -> ac.Event | ac.Composition:
    shape = charge.queries, charge.classes
    protocol = protocol_for(charge.protocol, charge.parameters, shape, charge.neighbors, charge.labels)
    if isinstance(protocol, SharesProtocol):
        if protocol.participants > charge.crowd:
            found = f"a setup for {protocol.participants} records"
            raise UnsuitableMessage(f"{found}; accepted: at most {charge.crowd}, the crowd")
        return protocol.event
    if not charge.crowd:
        return protocol.event
    try:
        return ac.Shuffled(as_one_event(protocol.event), charge.crowd)
    except ac.AccountantError as error:
        raise UnsuitableMessage(f"a setup that cannot be priced: {error}") from None


@dataclass(frozen=True)
class Target:
    """Most that all rounds together may cost a record.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        [0, 1). At 0 the epsilons of the rounds are added up exactly, as fractions.

    Raises
    ------
    accountant.ParameterError
        A value is out of range.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        finite = "a finite number above 0"
        epsilon = check_real("max_epsilon", self.epsilon, finite, lambda value: 0 < value < math.inf)
        delta = check_real("delta", self.delta, "[0, 1)", lambda value: 0 <= value < 1)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    def check(self, spent: ac.Composition) -> None:
        """Refuse what costs more.

        Raises
        ------
        UnsuitableMessage
            It does, or has no price.
        """
        try:
            total = total_price(spent, self.delta)
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


def route_of(spent: ac.Composition) -> dict[str, Any]:
    """To the price of what was spent, with arguments of `accountant.epsilon`."""
    return SHARES_ROUTE if any(isinstance(event, ac.ShuffledCounts) for event, _ in spent) else ROUTE


@lru_cache(maxsize=1024)
def total_price(spent: ac.Composition, delta: float) -> Fraction:
    """The epsilon of a composition: at delta = 0 the exact sum of its events' epsilons.

    Errors as for `accountant.epsilon`.
    """
    if not len(spent):
        return Fraction(0)
    if delta == 0:
        # a sum of doubles would drift
        return sum((count * _pure(event) for event, count in spent), Fraction(0))
    found = ac.epsilon(spent, delta, **route_of(spent)).epsilon
    if not math.isfinite(found):
        raise ac.NoGuarantee(f"delta = {delta:g}: epsilon is {found:g}; accepted: what has a finite one")
    return Fraction(found)


@lru_cache(maxsize=1024)
def _pure(event: ac.Event) -> Fraction:
    return Fraction(ac.epsilon(1 * event, 0.0).epsilon)
