"""Zero-concentrated differential privacy as an event."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.answers import Row, linear_row
from accountant.events.curve import StandardForm
from accountant.events.event import Event
from accountant.events.gaussian import GaussianDP
from accountant.events.parameters import Range
from accountant.events.registry import register
from accountant.numerics.exact import SPARE, times_up
from accountant.numerics.kernel import FloatArray

__all__ = ["ZeroConcentratedDP"]

LEAST_MU, MOST_MU = 1e-50, 1e50
"""Of Gaussian noise."""


@register("zero-concentrated-dp")
@dataclass(frozen=True)
class ZeroConcentratedDP(Event):
    """(xi, rho)-zCDP: Rényi curve ``xi + rho * a`` (Bun & Steinke 2016, Def. 1.1). It has no privacy profile.

    Parameters
    ----------
    rho : float
        Privacy parameter in nats; [0, 1e100].
    xi : float
        What is added at every order, in nats; [0, 1e100]. With 0 it is rho-zCDP.
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    rho: Annotated[float, Range(0.0, 1e100, noise=True, usual=(1e-8, 10.0))]
    xi: Annotated[float, Range(0.0, 1e100)] = 0.0
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _standard_form(self) -> StandardForm | None:
        return StandardForm("concentrated", 1.0, inverse=False) if self.xi == 0.0 else None

    @classmethod
    def examples(cls) -> tuple[ZeroConcentratedDP, ...]:
        return (cls(0.1),)

    def _group(self, size: int) -> Event:
        # Bun & Steinke 2016, Prop. 1.9
        harmonic = math.fsum(1 / i for i in range(1, size + 1)) if self.xi > 0.0 else 0.0
        xi = size * harmonic * self.xi * SPARE
        return ZeroConcentratedDP(times_up(size * size, self.rho), xi, self.adjacency)

    def _certain(self, times: int = 1) -> Event:
        # rho-zCDP may be Gaussian noise, whose curve is a rho (Bun & Steinke 2016, Prop. 1.6)
        mu = math.sqrt(2 * self.rho) * (1 - 1e-15)
        return GaussianDP(mu, self.adjacency) if LEAST_MU <= mu <= MOST_MU else self

    def _row(self, rate: float = 1.0) -> Row | None:
        return linear_row(self.rho) if rate == 1.0 and self.xi == 0.0 else None

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.rho * orders + self.xi if self.rho > 0 else np.full_like(orders, self.xi)
