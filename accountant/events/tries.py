"""How often a run is tried before the best one is kept: distributions of the number of tries K.

Each is known by its probability generating function f(s) = E s^K: the mean is f'(1), the probability of no try f(0).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from accountant.errors import ParameterError, real, shorten
from accountant.numerics.kernel import FloatArray

__all__ = ["Geometric", "NegativeBinomial", "Poisson", "Tries", "tries_from_table"]

LARGEST_MEAN = 1e12

LEAST_SHAPE = 1e-290
"""Shapes below it have the mean of shape 0, to a share of 1e-287."""


class Tries(ABC):
    """A distribution of the number of tries.

    Attributes
    ----------
    mean : float
    plan_name : str
        Its name in plans.
    """

    mean: float
    plan_name: ClassVar[str]
    plan_keys: ClassVar[tuple[str, ...]] = ("mean",)

    def to_table(self) -> dict[str, Any]:
        """What a plan says of it: ``{distribution = "geometric", mean = 40.0}``; `tries_from_table` reads it."""
        return {"distribution": self.plan_name, **{key: getattr(self, key) for key in self.plan_keys}}

    @property
    @abstractmethod
    def log_none(self) -> float:
        """Log of the probability of no try."""

    @abstractmethod
    def log_slope(self, missed: FloatArray) -> FloatArray:
        """log f'(1 - x) at x in [0, 1]; it falls in x."""

    @abstractmethod
    def turning_point(self, height: FloatArray, slope: FloatArray, b: FloatArray) -> FloatArray:
        """The only x at which (1+b) log f'(1 - x) - b log f'(1 - height - slope x) may turn, or any x if none."""


@dataclass(frozen=True)
class Poisson(Tries):
    """A Poisson number of tries, possibly none: f(s) = e^{mean (s - 1)} (Papernot & Steinke 2022, Thm 6).

    Parameters
    ----------
    mean : float
        (0, 1e12].

    Raises
    ------
    ParameterError
        `mean` is out of range.
    """

    mean: float
    plan_name: ClassVar[str] = "poisson"

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", real("mean", self.mean, 0.0, LARGEST_MEAN, open_low=True))

    @property
    def log_none(self) -> float:
        return -self.mean

    def log_slope(self, missed: FloatArray) -> FloatArray:
        slope: FloatArray = math.log(self.mean) - self.mean * missed
        return slope

    def turning_point(self, height: FloatArray, slope: FloatArray, b: FloatArray) -> FloatArray:
        return np.zeros(np.broadcast_shapes(height.shape, slope.shape, b.shape))  # linear in x


@dataclass(frozen=True)
class NegativeBinomial(Tries):
    """A negative binomial number of tries, given that there is one (Papernot & Steinke 2022, Def. 1).

    With g solved from the mean, f(s) = ((1 - (1-g) s)^-shape - 1)/(g^-shape - 1); its limit, shape 0, is the
    logarithmic distribution, shape 1 the geometric one. f'(1 - x) = mean (g/(g + (1-g) x))^{shape + 1}.

    Parameters
    ----------
    mean : float
        [1, 1e12]; 1 is one try.
    shape : float
        [0, 1e3]. The larger, the more even the number, and the higher the price.

    Raises
    ------
    ParameterError
        A parameter is out of range.
    """

    mean: float
    shape: float
    plan_name: ClassVar[str] = "negative-binomial"
    plan_keys: ClassVar[tuple[str, ...]] = ("mean", "shape")

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", real("mean", self.mean, 1.0, LARGEST_MEAN))
        object.__setattr__(self, "shape", real("shape", self.shape, 0.0, 1e3))

    @property
    def log_none(self) -> float:
        return -math.inf

    @cached_property
    def log_g(self) -> float:
        """Log of the parameter g in (0, 1]."""
        if self.mean == 1.0:
            return 0.0
        low, high = -800.0, 0.0
        while (middle := 0.5 * (low + high)) not in (low, high):
            low, high = (middle, high) if self._mean_at(middle) > self.mean else (low, middle)
        return high

    def _mean_at(self, log_g: float) -> float:
        """shape (1-g) / (g (1 - g^shape)); (1/g - 1)/log(1/g) at shape 0."""
        missed = -math.expm1(log_g)
        if missed == 0.0:
            return 1.0
        # the product of a shape next to nothing has no digits, and is no other than that of 0
        lost = -math.expm1(self.shape * log_g) / self.shape if self.shape > LEAST_SHAPE else -log_g
        return missed / lost * math.exp(min(-log_g, 700.0))

    def log_slope(self, missed: FloatArray) -> FloatArray:
        g, rest = math.exp(self.log_g), -math.expm1(self.log_g)
        slope: FloatArray = math.log(self.mean) + (1 + self.shape) * (self.log_g - np.log(g + rest * missed))
        return slope

    def turning_point(self, height: FloatArray, slope: FloatArray, b: FloatArray) -> FloatArray:
        # of b log(g + r (h + u x)) - (1+b) log(g + r x), r = 1 - g
        g, rest = math.exp(self.log_g), -math.expm1(self.log_g)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            point: FloatArray = (b * slope * g - (1 + b) * (g + rest * height)) / (rest * slope)
        return np.nan_to_num(point, nan=0.0, posinf=1.0, neginf=0.0)


@dataclass(frozen=True)
class Geometric(NegativeBinomial):
    """A geometric number of tries: after each, another one with probability 1 - 1/mean (Liu & Talwar 2019).

    Parameters
    ----------
    mean : float
        [1, 1e12].

    Raises
    ------
    ParameterError
        `mean` is out of range.
    """

    shape: float = 1.0
    plan_name: ClassVar[str] = "geometric"
    plan_keys: ClassVar[tuple[str, ...]] = ("mean",)

    def __init__(self, mean: float) -> None:
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "shape", 1.0)
        self.__post_init__()

    def __repr__(self) -> str:
        return f"Geometric(mean={self.mean!r})"


KINDS: dict[str, type[Tries]] = {kind.plan_name: kind for kind in (Poisson, NegativeBinomial, Geometric)}
"""Distributions by their names in plans."""


def tries_from_table(table: object) -> Tries:
    """The distribution that a table of a plan states, such as ``{distribution = "geometric", mean = 40}``.

    Raises
    ------
    ParameterError
        It is no such table, or a value is out of range.
    """
    name = table.get("distribution") if isinstance(table, Mapping) else None
    kind = KINDS.get(name) if isinstance(name, str) else None
    if not isinstance(table, Mapping) or kind is None or set(table) != {"distribution", *kind.plan_keys}:
        accepted = "; ".join(f"{each}: {', '.join(KINDS[each].plan_keys)}" for each in KINDS)
        raise ParameterError(f"{shorten(table)}; accepted: distribution, and what belongs to it ({accepted})")
    return kind(**{key: table[key] for key in kind.plan_keys})
