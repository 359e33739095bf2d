"""Moments of one event's tilted privacy loss, enclosed, from its privacy profile alone.

With v(l) = H(e^l) for l >= 0 and H(e^l) - (1 - e^l) for l < 0, H the profile of P against Q, and L = log P/Q under P,

    E e^{t L} = 1 + t (1 + t) V(t),   V(t) = int v(l) e^{t l} dl,

whose integrand is positive: relative errors of the profile remain relative errors of V, however small losses are and
however often the event is to be composed. Derivatives in t give all moments. Between grid points v lies below its chord
in u = e^l and above the chords next to it, continued. Proof: notebooks/mathematics.md, Very many releases.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accountant.adjacency import Direction
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.numerics.quadrature import gauss_legendre
from accountant.numerics.roots import Interval
from accountant.patience import spend
from accountant.tight.closed_forms import PLACES
from accountant.tight.loss_grid import log_values
from accountant.tight.polygon import ULP

__all__ = ["Moments", "log_peak", "loss_moments"]

ORDERS = 5
"""Moments up to the fourth."""

MOST_CELLS = 100_000
"""Cells into which losses are divided, at most."""

CELL = 3000.0
"""Operations (see `accountant.patience`) of a cell."""

ROUNDS = 60
"""Times that cells are divided, at most."""

NEGLIGIBLE = 45.0
"""Nats by which what lies beyond the grid is planned to be below the whole."""

MOST_NATS = 300.0
"""Of the logarithm of V, at most."""

UNDERFLOW = 1e-295
"""More than values that underflow come to."""

HIGHER = 1.2, 1.5, 2.0, 3.0, 5.0, 10.0
"""Higher tilts whose bounds are tried, as shares of the tilt."""

CURVE_MARGIN = 1e-10
"""More than the relative error of Rényi curves."""

FINER, KNOWN = (1.0, 1e-2, 1e-4, 1e-6), 1.02
"""Shares of the accuracy that are tried until both bounds on the variance have at most this ratio."""

NODES, WEIGHTS = gauss_legendre(8)

NARROWEST = 1e-6
"""Cells relative to their losses: where they are narrower, rounding is more than what chords are too much by."""

INTEGRATION = 1e-14
"""More than what eight nodes, and the sums over all cells, err by, relative to the largest value in every cell."""


class Moments(NamedTuple):
    """Of a loss L under its law tilted by e^{t L}: log E e^{t L}, mean, variance, and a bound on E |L - mean|^3."""

    log_mean: Interval
    mean: Interval
    variance: Interval
    third: float


class Ball(NamedTuple):
    """Numbers in middle - radius, ..., middle + radius."""

    middle: float
    radius: float

    def __add__(self, other: Ball) -> Ball:  # type: ignore[override]
        middle = self.middle + other.middle
        return Ball(middle, (self.radius + other.radius) * (1 + 4 * ULP) + ULP * abs(middle))

    def times(self, other: Ball) -> Ball:
        middle = self.middle * other.middle
        radius = self.radius * (abs(other.middle) + other.radius) + abs(self.middle) * other.radius
        return Ball(middle, radius * (1 + 4 * ULP) + ULP * abs(middle))

    def scaled(self, factor: float) -> Ball:
        """Times a factor that is right to 8 ulps."""
        return self.times(Ball(factor, 8 * ULP * abs(factor)))

    @property
    def ends(self) -> Interval:
        return Interval(self.middle - self.radius, self.middle + self.radius)


class Integrals(NamedTuple):
    """V and its derivatives, int l^j e^{t l} v(l) dl; and upper bounds on int |l|^j e^{t l} v(l) dl."""

    signed: list[Ball]
    sizes: list[float]


def log_peak(tilt: float) -> float:
    """log sup_x (1 - e^-x) e^{-t x} = t log t - (1+t) log(1+t): delta(eps) <= e^that M(t) e^{-t eps}."""
    return tilt * math.log(tilt) - (1 + tilt) * math.log1p(tilt)


def loss_moments(event: Event, direction: Direction, tilt: float, accuracy: float) -> Moments | None:
    """Moments of the loss tilted by e^{tilt L}, V to about `accuracy` of itself; None where they are not found.

    The event has a single dominating pair, whose profile is known.
    """
    grid = LossGrid(event, direction, tilt)
    if not grid.known:
        return None
    found: Moments | None = None
    # where nearly all have one loss it takes more to know the variance
    for share in FINER:
        integrals = grid.integrals(accuracy * share)
        if integrals is None:
            break
        better = moments_of(tilt, integrals)
        found = found if better is None else better
        if found is not None and found.variance.upper <= KNOWN * found.variance.lower:
            break
    return found


def moments_of(tilt: float, integrals: Integrals) -> Moments | None:
    """Moments from V and its derivatives: M^(j) = t (1+t) V^(j) + j (2t+1) V^(j-1) + j (j-1) V^(j-2), + 1 if j = 0."""
    rising = []
    for j in range(ORDERS):
        total = integrals.signed[j].scaled(tilt * (1 + tilt))
        if j > 0:
            total += integrals.signed[j - 1].scaled(j * (2 * tilt + 1))
        if j > 1:
            total += integrals.signed[j - 2].scaled(float(j * (j - 1)))
        rising.append(total)
    excess = rising[0]
    if not 0.0 <= excess.ends.lower <= excess.ends.upper < math.inf:
        return None
    low, high = excess.ends
    log_mean = Interval(math.log1p(low) * (1 - 8 * ULP), math.log1p(high) * (1 + 8 * ULP))
    share = 1 / (1 + excess.middle)
    kept = Ball(share, share * (excess.radius / (1 + low) + 8 * ULP))
    first, second, third, fourth = (each.times(kept) for each in rising[1:])
    square = first.times(first)
    variance = second + square.scaled(-1.0)
    # about its mean: m4 - 4 m m3 + 6 m^2 m2 - 3 m^4
    central = fourth + first.times(third).scaled(-4.0) + square.times(second).scaled(6.0)
    central += square.times(square).scaled(-3.0)
    if not (variance.ends.lower > 0.0 and 0.0 < central.ends.upper < math.inf):
        return None
    # E |X|^3 <= (E X^2 E X^4)^(1/2) (Cauchy and Schwarz), and |L - m|^3 <= (|L| + |m|)^3
    cauchy = math.sqrt(variance.ends.upper) * math.sqrt(central.ends.upper)
    sizes, mean = integrals.sizes, max(map(abs, first.ends))
    cubes = tilt * (1 + tilt) * sizes[3] + 3 * (2 * tilt + 1) * sizes[2] + 6 * sizes[1]
    size = second.ends.upper
    split = cubes * kept.ends.upper + 3 * mean * size + 3 * mean * mean * math.sqrt(size) + mean**3
    return Moments(log_mean, first.ends, variance.ends, min(cauchy, split) * (1 + 64 * ULP))


class LossGrid:
    """Losses between which v is enclosed, and log v there; `known` is whether a grid was found."""

    def __init__(self, event: Event, direction: Direction, tilt: float) -> None:
        self.event, self.direction, self.tilt = event, direction, tilt
        ladder = 2.0 ** np.arange(-130.0, 40.0, 0.5)
        self._spend(2 * ladder.size)
        logs = [self._values(sign * ladder) for sign in (-1.0, 1.0)]
        amounts = [each + sign * tilt * ladder + np.log(ladder) for sign, each in zip((-1.0, 1.0), logs, strict=True)]
        self.peak = max(float(np.max(each)) for each in amounts)
        self.typical = max(float(ladder[int(np.argmax(each))]) for each in amounts)
        self.beyond = np.zeros(ORDERS)
        self.known = abs(self.peak) < MOST_NATS
        if not self.known:
            return
        ends = self._ends(ladder, logs)
        self.known = max(ends) < math.inf
        if not self.known:
            return
        sides = [self._side(ladder, amount, end) for amount, end in zip(amounts, ends, strict=True)]
        self.losses = np.concatenate([-sides[0][::-1], [0.0], sides[1]])
        self.known = self.losses.size < MOST_CELLS
        if self.known:
            self._spend(self.losses.size)
            self.logs = self._values(self.losses)

    def _spend(self, values: int) -> None:
        spend(values * self.event._profile_work(), f"moments of {values} losses")

    def _values(self, losses: FloatArray) -> FloatArray:
        return log_values(self.event, self.direction, losses)

    def _ends(self, ladder: FloatArray, logs: list[FloatArray]) -> tuple[float, float]:
        """How far below and above 0 the grid reaches; and, into `beyond`, what V and its derivatives have there.

        Below, v(-l) e^l falls in l. Above, v(l) <= c(t') M(t') e^{-t' l} (Chernoff), whatever t' > t.
        """
        largest = float(self.event._largest_loss()) * (1 + 4 * ULP)
        below = logs[0] - self.tilt * ladder
        ends = [self._end(ladder, below, 1 + self.tilt, largest)]
        tilts = self.tilt * np.array(HIGHER)
        curve = self.event._curve(1 + tilts) * (1 + CURVE_MARGIN)
        best = (math.inf, ladder * 0.0, 1.0)
        for tilt, divergence in zip(tilts.tolist(), curve.tolist(), strict=True):
            if divergence < math.inf:
                above = tilt * divergence + log_peak(tilt) - (tilt - self.tilt) * ladder
                found = self._end(ladder, above, tilt - self.tilt, largest, False)
                best = min(best, (found, above, tilt - self.tilt), key=lambda each: each[0])
        ends.append(self._end(ladder, best[1], best[2], largest) if best[0] < largest else largest)
        # what underflows
        self.beyond += UNDERFLOW * max(1.0, *ends) ** np.arange(ORDERS) if max(ends) < math.inf else 0.0
        return ends[0], ends[1]

    def _end(self, ladder: FloatArray, logs: FloatArray, fall: float, largest: float, kept: bool = True) -> float:
        """Where what is beyond is small, if beyond l the integrand is at most e^{logs(l)} e^{-fall (x - l)}."""
        with np.errstate(over="ignore"):
            tails = logs - math.log(fall)
        far = np.maximum(np.log(ladder / self.typical), 0.0)
        small = np.flatnonzero(tails <= self.peak - NEGLIGIBLE - (ORDERS - 1) * far)
        if not small.size or ladder[small[0]] >= largest:
            return largest
        end, log_tail = float(ladder[small[0]]), float(tails[small[0]])
        if kept:  # int_l^inf x^j e^{-f (x-l)} dx = sum_i j!/(j-i)! l^(j-i) / f^(i+1)
            for j in range(ORDERS):
                parts = (math.perm(j, i) * end ** (j - i) / fall**i for i in range(j + 1))
                self.beyond[j] += math.exp(log_tail) * sum(parts)
        return end

    def _side(self, ladder: FloatArray, amounts: FloatArray, end: float) -> FloatArray:
        """Losses > 0 up to `end`, nowhere further apart than 1/(1+t): where to begin."""
        first = max(int(np.argmax(amounts)) - 12, 0)
        places = ladder[first:]
        gap = 1 / (1 + self.tilt)
        if end / gap > MOST_CELLS:
            return np.zeros(MOST_CELLS)
        places = places[places < min(gap, end / 1.1)]
        far = float(places[-1]) if places.size else 0.0
        return np.append(places, np.linspace(far, end, max(math.ceil((end - far) / gap), 1) + 1)[1:])

    def integrals(self, accuracy: float) -> Integrals | None:
        """V and its derivatives; None where they take too many cells."""
        for _ in range(ROUNDS):
            spend(CELL * self.losses.size, f"moments of {self.losses.size} losses")
            cells = Cells(self)
            shares = cells.shares()
            if float(shares.sum()) <= accuracy:
                break
            split = shares > max(float(shares.max()) / 64, accuracy / (4 * shares.size))
            if self.losses.size + int(split.sum()) > MOST_CELLS:
                return None
            left, right = self.losses[:-1][split], self.losses[1:][split]
            middle = (left + (right - left) / 2)[right - left > NARROWEST * np.maximum(np.abs(left), np.abs(right))]
            if not middle.size:
                break
            self._spend(middle.size)
            places = np.append(self.losses, middle)
            order = np.argsort(places)
            self.losses, self.logs = places[order], np.append(self.logs, self._values(middle))[order]
        return cells.integrals(self.beyond)


class Cells:
    """The cells between the losses of a grid: v, what it errs by, and how far it may lie below its chords."""

    def __init__(self, grid: LossGrid) -> None:
        self.tilt, x = grid.tilt, grid.losses
        self.left, self.size = x[:-1], np.diff(x)
        self.far = np.maximum(np.abs(x[:-1]), np.abs(x[1:]))
        v = np.exp(grid.logs + self.tilt * x)
        # everything in the units of the left end
        self.low, self.high = v[:-1], v[1:] * np.exp(-self.tilt * self.size)
        change = self.high - self.low
        grown = np.exp(self.tilt * self.size)
        self.width = np.expm1(self.size)
        ratio = np.exp(self.size[:-1]) * self.width[1:] / self.width[:-1]
        # of v at the points: its own error, and that of places
        slopes = np.abs(change) / self.size
        steep = np.append(slopes, 0.0) + np.append(0.0, slopes * grown)
        error = (grid.event._profile_error + 16 * ULP * (1 + np.minimum(np.abs(grid.logs), 2000.0))) * v
        error += (2 * PLACES * (1 + self.tilt)) * np.abs(x) * (steep + v)
        self.low_error, self.high_error = error[:-1], error[1:] * np.exp(-self.tilt * self.size)
        own = self.low_error + self.high_error
        # changes of slope at both ends, times the cell's width; H itself has the slope of v less 1 where l < 0
        before, after = change.copy(), -change
        before[1:] -= change[:-1] * grown[:-1] * ratio
        after[:-1] += change[1:] / (grown[:-1] * ratio)
        seam = int(np.searchsorted(x, 0.0))
        noise = [own.copy(), own.copy()]
        for changes, at in ((before, seam), (after, seam - 1)):
            unit = math.exp((1 + self.tilt) * self.left[at]) * self.width[at]
            changes[at] += unit
            noise[changes is after][at] += 8 * ULP * unit
        self.sag = meet(np.maximum(before, 0.0), np.maximum(after, 0.0))
        noise[0][1:] += own[:-1] * grown[:-1] * ratio
        noise[1][:-1] += own[1:] / (grown[:-1] * ratio)
        self.noisy_sag = meet(np.maximum(before, 0.0) + noise[0], np.maximum(after, 0.0) + noise[1])
        self.grown = grown

    def lost(self, sag: FloatArray, order: int) -> FloatArray:
        """At least the integral of what v is below its chords: a triangle in u, and du >= e^l dl."""
        return np.asarray(0.5 * sag * self.width * self.grown * self.far**order * (1 + 1e-12))

    def shares(self) -> FloatArray:
        """What the chords are too much by in each cell, relative to the whole: of V and of its second derivative."""
        shares = np.zeros_like(self.size)
        for order in (0, 2):
            whole = float(np.sum(self.chords(self.low, self.high, order, True)))
            shares += self.lost(self.sag, order) / max(whole, 1e-300)
        return shares

    def chords(self, low: FloatArray, high: FloatArray, order: int, size: bool = False) -> FloatArray:
        """Integrals of l^order, or its size, times chords in u with these ends, times e^{t l}."""
        total = np.zeros_like(self.size)
        for node, weight in zip(NODES.tolist(), WEIGHTS.tolist(), strict=True):
            x = node * self.size
            share = np.expm1(x) / self.width
            power = (np.abs(self.left + x) if size else self.left + x) ** order
            total += weight * power * np.exp(self.tilt * x) * ((1 - share) * low + share * high)
        return total * self.size

    def integrals(self, beyond: FloatArray) -> Integrals:
        """V and its derivatives, and bounds on the same with |l|."""
        found: list[Ball] = []
        sizes: list[float] = []
        for order in range(ORDERS):
            middle = math.fsum(self.chords(self.low, self.high, order).tolist())
            lost = self.lost(self.noisy_sag, order) / 2
            wrong = self.chords(self.low_error, self.high_error, order, True)
            most = np.maximum(self.low, self.high) * self.grown * self.size * self.far**order
            wrong += INTEGRATION * most + lost
            # where l < 0 odd powers make too much of too little
            sign = np.where((self.left < 0) & (order % 2 == 1), -1.0, 1.0)
            radius = math.fsum([*wrong.tolist(), float(beyond[order])])
            found.append(Ball(middle - math.fsum((sign * lost).tolist()), radius))
            sizes.append(math.fsum(self.chords(self.low, self.high, order, True).tolist()) + radius)
        return Integrals(found, sizes)


def meet(a: FloatArray, b: FloatArray) -> FloatArray:
    """a b/(a + b): how high the triangle under a chord is."""
    whole = a + b
    return np.divide(a * b, whole, out=np.zeros_like(whole), where=whole > 0)
