"""Laplace noise on counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, ClassVar, NamedTuple, Self

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import ProfileUnavailable
from accountant.events.answers import LARGEST_ROW, AdditiveNoise, Lattice, Row, laplace_row
from accountant.events.curve import StandardForm
from accountant.events.event import BatchedEvent, Event
from accountant.events.generic_subsampling import generic_subsampled_curve
from accountant.events.parameters import NoiseScale, Range, Scale
from accountant.events.registry import register
from accountant.events.subsampling import SAMPLED_ORDER
from accountant.numerics.exact import times_up
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.quadrature import gauss_legendre

__all__ = ["Laplace"]

SAMPLED_COORDINATES = 16
"""Coordinates up to which sampling is priced exactly; beyond, by the generic bound."""

PROFILE_COORDINATES = 64
"""Coordinates up to which the profile is computed; its cost grows with their cube."""

PLACE, NODE, TERM, CALL, ROUND = 60.0, 80.0, 5.0, 2e5, 1.2e4
"""Operations (see `accountant.patience`) of a value of the profile: by coordinate, by node of a quadrature, and by node
and two coordinates; of a call of it, and of that by coordinate."""


@register("laplace")
@dataclass(frozen=True)
class Laplace(BatchedEvent):
    """Laplace mechanism: `coordinates` entries that each move by `sensitivity`, plus Laplace noise on every one.

    Rényi curve ``m/(a-1) * log( a/(2a-1) exp((a-1)t) + (a-1)/(2a-1) exp(-a t) )`` with
    ``t = sensitivity/scale`` and ``m = coordinates`` (Mironov 2017, Prop. 6 and additivity); pure DP at ``m t``.
    The profile is the exact one of the product of m Laplace pairs, computed for at most 64 coordinates (the tight route
    composes more of them). The Rényi curve under Poisson subsampling is exact for at most 16; beyond, the generic
    bound stands. The tight route prices samples of up to about 1e8 by their joint distribution.

    Parameters
    ----------
    scale : float
        Scale b of the noise (its standard deviation is b sqrt 2), in the units of the entries; [1e-50, 1e50].
    sensitivity : float
        How far each entry moves between neighbouring inputs; [1e-50, 1e50].
    coordinates : int
        How many entries move; [1, 1e12]. Sharper than one entry that moves by the L1 distance.
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    scale: NoiseScale
    sensitivity: Scale = 1.0
    coordinates: Annotated[int, Range(1, 1e12, usual=(1, 6))] = 1
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    _coordinate_field: ClassVar[str | None] = "coordinates"

    def _standard_form(self) -> StandardForm:
        return StandardForm("laplace", self.sensitivity, inverse=True, copies=self.coordinates)

    @classmethod
    def examples(cls) -> tuple[Laplace, ...]:
        return cls(2.0), cls(3.0, coordinates=3)

    @property
    def additive_noise(self) -> AdditiveNoise:
        return AdditiveNoise("laplace", self.scale)

    def _group(self, size: int) -> Event:
        return Laplace(self.scale, times_up(size, self.sensitivity), self.coordinates, self.adjacency)

    def _largest_loss(self) -> Fraction:
        (above, below), (scale, unit) = self.sensitivity.as_integer_ratio(), self.scale.as_integer_ratio()
        return Fraction(self.coordinates * above * unit, below * scale)

    def _row(self, rate: float = 1.0) -> Row | None:
        return laplace_row(self.shift, self.coordinates) if rate == 1.0 and self.shift <= LARGEST_ROW else None

    @property
    def shift(self) -> float:
        """Sensitivity in units of the scale: the pure-DP epsilon of one coordinate."""
        return self.sensitivity / self.scale

    @classmethod
    def _gathered(cls, events: Sequence[Self]) -> FloatArray:
        return np.array([(event.shift, float(event.coordinates)) for event in events])

    @classmethod
    def _curves(cls, gathered: FloatArray, orders: FloatArray) -> FloatArray:
        curves = np.empty((len(gathered), orders.size))
        laplace_curves(gathered, orders, curves)
        return curves

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.coordinates > PROFILE_COORDINATES:
            raise ProfileUnavailable(
                f"Laplace with coordinates = {self.coordinates} has no computed profile; accepted: "
                f"[1, {PROFILE_COORDINATES}], or its curve, renyi(orders)"
            )
        both = laplace_log_profile(self.shift, self.coordinates, epsilons)
        return both, both

    def _profile_work(self) -> float:
        if self.coordinates == 1:
            return super()._profile_work()
        m = min(self.coordinates, PROFILE_COORDINATES)
        return PLACE * self.coordinates + _nodes(m, min(self.shift, FAR)) * (NODE + TERM * m * (m + 1) / 2)

    def _call_work(self) -> float:
        return 0.0 if self.coordinates == 1 else CALL + ROUND * min(self.coordinates, PROFILE_COORDINATES)

    @property
    def _block(self) -> int:
        return PROFILE_COORDINATES

    def _lattice(self, added: float, sign: int) -> Lattice | None:
        return laplace_lattice(self.shift, added, sign) if self.coordinates > SAMPLED_COORDINATES else None

    @property
    def _chords(self) -> bool:  # type: ignore[override]
        return self.coordinates > SAMPLED_COORDINATES

    @property
    def _summed(self) -> bool:  # type: ignore[override]
        return self.coordinates > PROFILE_COORDINATES

    def _curve_work(self, rate: float = 1.0) -> float:
        return SAMPLED_ORDER if 0.0 < rate < 1.0 else 0.0

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        if self._chords:
            return generic_subsampled_curve(self, rate, orders)
        return super()._subsampled_curve(rate, orders)

    def _profile_knots(self) -> Sequence[float]:
        m = self.coordinates
        return [self.shift * (m - 2 * i) for i in range(m // 2 + 1)]


@Kernel
def laplace_divergence(a: float, t: float) -> float:
    """D_a of Laplace(0, 1) from Laplace(t, 1), 1 <= a <= inf (Mironov 2017, Prop. 6), without cancellation."""
    b = a - 1.0
    if a == math.inf:
        return t
    if b * t > 1.0:
        return t + math.log((a + b * math.exp(-(a + b) * t)) / (a + b)) / b
    if a * t < 1.0:
        # (e^{b D} - 1)/(a b t^2) = sum_{n>=2} c_n/n!,  c_2 = 1,  c_n = b t c_{n-1} + (-a t)^{n-2}
        c = 1.0
        power = 1.0
        factorial = 2.0
        total = 0.5
        for n in range(3, 40):
            power *= -a * t
            c = b * t * c + power
            factorial *= n
            total += c / factorial
        mean = a * t * t * total
    elif b > 0.0:
        # of a expm1(b t) + b expm1(-a t), divided by b
        mean = (a * (math.expm1(b * t) / b) + math.expm1(-a * t)) / (a + b)
    else:
        mean = t + math.expm1(-t)
    return min(math.log1p(b * mean) / b, t) if b > 0.0 else mean


@Kernel
def laplace_curves(rows: FloatArray, orders: FloatArray, curves: FloatArray) -> None:
    """Fill `curves`, one row for every (shift, coordinates)."""
    for i in range(rows.shape[0]):
        for j in range(orders.size):
            curves[i, j] = rows[i, 1] * laplace_divergence(orders[j], rows[i, 0])


MOST_CELLS = 4096
"""Cells into which the losses of one coordinate are divided, at most."""


def laplace_lattice(t: float, added: float, sign: int) -> Lattice:
    """Losses of a shift t on a lattice; they have about so much more (sign 1) or less (-1) variance.

    The loss is t - 2w, w = 0 or t or between with density e^-w/2 under P and e^-(t-w)/2 under Q. In a cell of losses of
    width h the masses of P and Q have the ratio e^m, m being its middle: as one outcome it is at m, below what it was.
    Above stand, with the same masses of P and Q, outcomes at both ends: 1/(1 + e^(-h/2)) of P's at the upper one.
    """
    inside = -math.expm1(-t) / 2
    cells = int(min(max(math.ceil(2 * t / math.sqrt(6 * added / inside)), 1), MOST_CELLS))
    half = t / cells
    masses = math.log(-math.expm1(-half) / 2) - half * np.arange(cells)
    ends = math.log(0.5), math.log(0.5) - t
    if sign < 0:
        logs = np.full(2 * cells + 1, -math.inf)
        logs[0], logs[-1], logs[1::2] = *ends, masses
        return Lattice(logs[::-1].copy(), half)
    up, down = (masses - np.logaddexp(0.0, side * half) for side in (-1, 1))
    logs = np.logaddexp(np.append(up, ends[1]), np.append(ends[0], down))
    return Lattice(logs[::-1].copy(), 2 * half)


# --- profile -------------------------------------------------------------------------------------------


def laplace_log_profile(t: float, m: int, epsilons: FloatArray) -> FloatArray:
    """Log of the profile of m coordinates of shift t at epsilons >= 0.

    One coordinate's privacy loss is t - 2 min(X, t), X = 0 or standard exponential with equal chance: under
    the first distribution its half-deficit has measure e^-w (delta_0 + U[0,t] + delta_t)(dw)/2. So with
    nu the m-fold convolution of delta_0 + U[0,t] + delta_t and w* = (m t - e)/2,

        H_e = 2^-m Int_{w < w*} e^-w (1 - e^{-2 (w* - w)}) nu(dw),

    a sum of non-negative terms. Between multiples of t the density of nu is a polynomial with
    non-negative Bernstein coefficients (`_density`).
    """
    with np.errstate(divide="ignore", over="ignore"):
        if m == 1:
            # 1 - e^{(e-t)/2}: the two halves of the density integrate in closed form
            log_mass: FloatArray = np.log(-np.expm1(np.minimum((epsilons - t) / 2, 0.0)))
            return log_mass
        ends = np.maximum((m * t - epsilons) / 2, 0.0)
        t = min(t, FAR)  # what lies beyond has mass below e^-FAR
        chunks = np.array_split(ends, math.ceil(ends.size * m / 4096)) if ends.size else [ends]
        result: FloatArray = np.log(np.concatenate([_mass_below(t, m, w) for w in chunks]))
        return result


def _mass_below(t: float, m: int, w: FloatArray) -> FloatArray:
    """2^-m Int_{x < w} e^-x (1 - e^{-2(w-x)}) nu(dx), for an array of w >= 0.

    Over a whole cell that ends at r, e^-x (1 - e^{-2(w-x)}) is (1 - e^{-2(w-r)}) even(x) + (1 + e^{-2(w-r)}) odd(x)
    by the addition theorem of sinh, with even and odd = e^-x (1 +- e^{-2(r-x)})/2 integrated once.
    """
    table = _table(m, t)
    places = np.arange(m + 1) * t
    below = places <= w[:, None]
    lost = -np.expm1(-2 * np.where(below, w[:, None] - places, 0.0))
    # an atom at each place, and the whole cell that ends there
    terms = lost * (table.atoms + table.even) + (2 - lost) * table.odd
    mass = np.sum(np.where(below, terms, 0.0), axis=1)
    last = np.minimum(np.sum(below, axis=1) - 1, m - 1)  # w / t may be rounded into the next cell
    start = places[last]
    reach = np.clip(w - start, 0.0, table.reach)[:, None]
    x = reach * table.unit
    part = _bernstein(table.density[last], np.minimum(x / t, 1.0)) * np.exp(-(start[:, None] + x))
    part *= -np.expm1(-2 * np.maximum(w[:, None] - start[:, None] - x, 0.0))
    total: FloatArray = mass + part @ table.weights * reach[:, 0]
    return total


FAR = 800.0
"""A shift at which e^-t has underflowed: coordinates with larger ones differ only in where their profile ends."""


class _Table(NamedTuple):
    density: FloatArray  # Bernstein coefficients by cell
    atoms: FloatArray  # e^-x weighted masses at the multiples of t
    even: FloatArray  # integrals over the cell that ends at each multiple of t
    odd: FloatArray
    reach: float  # how far into a cell there is mass
    unit: FloatArray  # quadrature on [0, 1]
    weights: FloatArray


def _reach(m: int, t: float) -> float:
    """How far into a long cell there is mass: at most that of a gamma distribution of shape m."""
    return min(t, m + 12 * math.sqrt(m) + 45.0)


def _nodes(m: int, t: float) -> int:
    """Nodes of the quadrature in a cell."""
    return 14 + m // 2 + math.ceil(0.6 * _reach(m, t))


@lru_cache(maxsize=32)
def _table(m: int, t: float) -> _Table:
    density = _density(m, t)
    reach = _reach(m, t)
    unit, weights = gauss_legendre(_nodes(m, t))
    places = np.arange(m + 1) * t
    atoms = np.array([math.comb(m, i) * 0.5**m for i in range(m + 1)]) * np.exp(-places)
    x = places[:m, None] + reach * unit
    mass = _bernstein(density, np.broadcast_to(reach / t * unit, x.shape)) * np.exp(-x) * weights * reach
    back = -2 * (places[1:, None] - x)
    even = np.concatenate([[0.0], np.sum(mass * (1 + np.exp(back)), axis=1) / 2])
    odd = np.concatenate([[0.0], np.sum(mass * -np.expm1(back), axis=1) / 2])
    return _Table(density, atoms, even, odd, reach, unit, weights)


def _density(m: int, t: float) -> FloatArray:
    """Bernstein coefficients, one row per cell [i t, (i+1) t], of the density of nu times 2^-m.

    Convolving with (delta_0 + delta_t + U[0,t])/2 shifts, adds, and integrates over a sliding window; in the
    Bernstein basis an integral is a running mean of coefficients, so that only non-negative numbers are added.
    """
    rows = np.zeros((m, 1))
    atoms = np.zeros(m + 1)
    atoms[0] = 1.0
    for degree in range(m):
        zero = np.zeros((m, 1))
        rising = np.concatenate([zero, np.cumsum(rows, axis=1)], axis=1)
        falling = np.concatenate([np.cumsum(rows[:, ::-1], axis=1)[:, ::-1], zero], axis=1)
        k = np.arange(degree + 2) / (degree + 1)
        copies = np.concatenate([rows[:, :1], rows, rows[:, -1:]], axis=1)
        raised = k * copies[:, :-1] + (1 - k) * copies[:, 1:]
        following = raised + t / (degree + 1) * rising
        following[1:] += raised[:-1] + t / (degree + 1) * falling[:-1]
        following += atoms[:m, None]  # an atom at i t spreads evenly over cell i
        rows = following / 2
        atoms[1:] += atoms[:-1]
        atoms /= 2
    return rows


def _bernstein(coefficients: FloatArray, x: FloatArray) -> FloatArray:
    """De Casteljau's algorithm: polynomials given row by row, at x of shape (rows, points) in [0, 1]."""
    values = np.repeat(coefficients[:, :, None], x.shape[1], axis=2)
    x = x[:, None, :]
    while values.shape[1] > 1:
        values = (1 - x) * values[:, :-1] + x * values[:, 1:]
    result: FloatArray = values[:, 0]
    return result
