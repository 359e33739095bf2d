"""What is read off an event or a composition: its Rényi curve, checked, and its privacy profile."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from accountant.errors import EventError, ParameterError, ProfileUnavailable, shorten
from accountant.numerics.kernel import FloatArray

__all__ = ["Profile", "StandardForm", "as_reals", "check_orders", "evaluate_curve", "refusal_of_profile"]


FAR = 1e12
"""Order from which on a curve is compared with its limit at order inf."""


class StandardForm(NamedTuple):
    """A Rényi curve of a standard family, whose strength is a multiple of the noise parameter or of its inverse.

    Attributes
    ----------
    family : str
        "gaussian": N(mu, 1) against N(0, 1), strength mu. "concentrated": rho times the order, strength rho.
        "laplace": one coordinate with Laplace noise that moves by t scales, strength t. "pure": one bit of randomized
        response, strength its epsilon.
    factor : float
        The strength is factor * noise parameter.
    inverse : bool
        The strength is factor / noise parameter instead.
    copies : int
        Number of coordinates or bits.
    """

    family: Literal["gaussian", "concentrated", "laplace", "pure"]
    factor: float
    inverse: bool
    copies: int = 1


@dataclass(frozen=True, eq=False)
class Profile:
    """Privacy profile: hockey-stick divergences H_e(P||Q) = sup_S P(S) - e^e Q(S), one per epsilon.

    Attributes
    ----------
    remove : array
        Upper bound on H_e(with || without), where "with" holds one individual more.
    add : array
        Upper bound on H_e(without || with).

    Under REPLACE the two directions are the same array.
    """

    remove: FloatArray
    add: FloatArray

    @property
    def worst(self) -> FloatArray:
        """The larger direction at every epsilon: delta(epsilon)."""
        return np.maximum(self.remove, self.add)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.worst, dtype=dtype)


def as_reals(name: str, values: ArrayLike, range_of_each: str = "") -> FloatArray:
    """`values` as an array of floats, or ParameterError; as in parameters truth values, text and decimals are none."""
    try:
        array = np.asarray(values)
        plain = array.dtype.kind in "iuf" and not isinstance(values, list | tuple)
        if array.dtype.kind not in "iufO" or not (plain or all(map(_is_real, np.asarray(values, dtype=object).flat))):
            raise TypeError
        return array.astype(float)
    except (TypeError, ValueError, OverflowError):
        accepted = "a real number, or an array of them" + (f", in {range_of_each}" if range_of_each else "")
        raise ParameterError(f"{name} = {shorten(values)}; accepted: {accepted}") from None


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def check_orders(orders: ArrayLike) -> FloatArray:
    """Orders as floats, or ParameterError if one is nan or below 1."""
    points = as_reals("order", orders, "[1, inf]")
    bad = points[~(points >= 1)]
    if bad.size:
        raise ParameterError(f"order = {bad.flat[0]:g} is out of range; accepted: [1, inf]")
    return points


def evaluate_curve(thing: Any, orders: ArrayLike) -> FloatArray:
    """Check orders, evaluate `_curve` on a flat array, restore the shape, and refuse nan."""
    points = check_orders(orders)
    far = (points.ravel() >= FAR) & np.isfinite(points.ravel())
    with np.errstate(over="ignore", invalid="ignore"):
        curve: FloatArray = np.asarray(thing._curve(points.ravel()), dtype=float)
        if far.any() and curve.shape == far.shape:
            # the divergence rises with the order, and products of an order may have left the range of floats
            curve = np.where(far, np.fmin(curve, thing._curve(np.array([math.inf]))), curve)
    if curve.shape != (points.size,):
        raise EventError(f"the Rényi curve of {thing!r} has shape {curve.shape} for {points.size} orders")
    if np.isnan(curve).any():
        order = float(points.ravel()[np.isnan(curve)][0])
        raise EventError(f"the Rényi curve of {thing!r} is not a number at order {order!r}")
    return curve.reshape(points.shape)


def refusal_of_profile(name: str) -> ProfileUnavailable:
    """What an event without a profile says."""
    said = f"{name} is known by a Rényi bound only; it has no privacy profile"
    return ProfileUnavailable(f"{said}; accepted: its curve, renyi(orders)")
