"""Strides: one pair that stands for so many ticks of a game wherever some ticks are left after them.

Let W_j be the game with j ticks left, whose steps take at most t. If D is a pair with W_j <= D * W_{j-m} + theta for t
numbers j in a row (* composes), that is true of all larger j, too: a run is k strides and what is left,
W_j <= D * ... * D * W_{j-km} + k theta (notebooks/mathematics.md, Strides). Any pair will do that is found large enough
at every grid point and beyond the last; the one of a few losses that costs least solves a linear programme.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.tight.cover_kernels import IntArray
from accountant.tight.hulls import hull_of_both, lower_to_hull
from accountant.tight.pairs import shares
from accountant.tight.screening_blocks import log_of_sum

__all__ = ["Stride", "cut_off", "find_stride", "stride_work"]

ULP = 2.0**-53

SPACING, DEVIATION = 0.7, 2.5
"""Losses of a stride are so many standard deviations of what is left after it apart, about: as many total variation
distances."""

FARTHER, FARTHEST = 0.02, 600.0
"""Far losses are so much of themselves apart, and none is larger."""

SAMPLES = 60
"""Grid points at which a stride is sought first, about; it is checked at all."""

NEGLIGIBLE = 1e-3
"""Share of what may be lost beyond which a stride has no losses."""

ROUNDS, SAMPLED = 3, 10
"""How often a stride is sought: where it is too small it is sought again, as large there as it must be; and at how many
numbers of ticks, in one direction, all samples are looked at."""

FEW, MORE = 8, (1.1, 2.0, 5.0, 20.0, 100.0)
"""Grid points at which it is found how much is to be added in the end, and over that, how much is; the next where that
is not enough."""

ROOM = 1e-6
"""Relative: by how much more is sought than is needed, as linear programmes are solved so nearly."""

ADDED, SOUGHT, LOSSES = 1.2, 3e7, 80
"""Operations (see `accountant.patience`) of a loss at a grid point, of seeking a stride, and about how many it has."""


class Stride(NamedTuple):
    """So `many` strides of `ticks` each, after which `least` are left or more; steps take up to `longest` of them.

    Each adds up to `lost` to delta. `b` is the order of the price, less 1.
    """

    many: int
    ticks: int
    least: int
    longest: int
    lost: float
    b: float

    @property
    def last(self) -> int:
        """Ticks of the game by which it is checked."""
        return self.least + self.ticks + self.longest - 1

    @property
    def enough(self) -> int:
        """Ticks that are enough for a stride whatever is checked, as no step is cut in two there."""
        return self.ticks + self.longest - 1

    @property
    def compared(self) -> range:
        """Ticks that are left after a stride where it is checked."""
        return range(self.least, self.least + self.longest)

    @property
    def kept(self) -> list[int]:
        """Ticks whose values are wanted."""
        return sorted({self.enough, *self.compared, *(each + self.ticks for each in self.compared)})


def stride_work(longest: int, cells: FloatArray) -> FloatArray:
    """Operations of looking for a stride by games that reach so far."""
    return np.asarray(ROUNDS * (SOUGHT + ADDED * LOSSES * 2 * longest * cells))


@Kernel
def outcomes_of(profile: FloatArray, step: float, right: FloatArray, left: FloatArray) -> bool:
    """Fill in the least that the probabilities at losses i step and -i step are; False if it is not convex at 0.

    Axes of all are (direction, i); `profile` is convex in u on both sides.
    """
    on, back = np.expm1(step), -np.expm1(-step)
    sure = 32 * 2.0**-53
    for d in range(2):
        value, other = profile[d], profile[1 - d]
        middle = (value[1] - value[0]) / on + 1 - (value[0] - np.exp(-step) * other[1]) / back
        error = sure * (1 + value[0] / back)
        if not middle >= -error:
            return False
        right[d, 0] = max(middle - error, 0.0)
        left[d, 0] = 0.0
        for i in range(1, value.size):
            after = (value[i] - value[i + 1]) / on if i + 1 < value.size else 0.0
            mass = (value[i - 1] - value[i]) / back - after - sure * value[i - 1] / back
            right[d, i] = max(mass, 0.0)
            left[1 - d, i] = right[d, i] * np.exp(-step * i) * (1 - sure * (1 + step * i))
    return True


@Kernel
def add_tents(right: FloatArray, left: FloatArray, tents: FloatArray, step: float) -> FloatArray:
    """What composing adds to a profile: the mean of tents moved by its losses."""
    last = tents.shape[1] - 1
    found = np.zeros((2, last + 1))
    whole = np.zeros(3 * last + 1)
    for d in range(2):
        for i in range(last + 1):
            whole[last + i] = tents[d, i]
        whole[2 * last :] = tents[d, last]
        for i in range(1, last + 1):
            whole[last - i] = np.exp(-step * i) * tents[1 - d, i]
        out = found[d]
        for i in range(last + 1):
            mass = right[d, i]
            if mass > 0.0:
                for k in range(out.size):
                    out[k] += mass * whole[last + k - i]
            mass = left[d, i]
            if mass > 0.0:
                for k in range(out.size):
                    out[k] += mass * whole[last + k + i]
    return found


def cut_off(values: FloatArray) -> tuple[FloatArray, float]:
    """The same less a constant, so that nothing is beyond the grid, and that constant."""
    edge = float(np.max(values[:, -1]))
    return np.maximum(values - edge, 0.0) * (1 + 4 * ULP), edge


class Short(NamedTuple):
    """Where a stride is too small: so many ticks are left after it, in one direction, at grid points, the worst first.

    What it is worth there, and what is needed.
    """

    ticks: int
    way: int
    at: IntArray
    found: FloatArray
    needed: FloatArray

    @property
    def missing(self) -> float:
        """The largest share that is missing."""
        return float(1 - self.found[0] / self.needed[0])


def find_stride(stride: Stride, values: dict[int, FloatArray], step: float) -> tuple[FloatArray, float]:
    """Upper values of a stride's pair, from those of `Stride.kept` ticks, and what a stride may add to delta.

    Axes of values are (direction, grid point); beyond the last of these the pair has none.
    """
    search = _Search(stride, values, step)
    enough, edge = cut_off(search.values[stride.enough])
    for _ in range(ROUNDS):
        sought = search.solve() if search.convex else None
        short = None if sought is None else search.find_short(sought)
        if sought is None or short is None:
            return enough, edge
        if not short:
            return sought, search.lost
        search.want_more(short)
    assert sought is not None
    assert short is not None
    for mixed in search.add_some(sought, enough, short):
        if search.find_short(mixed) == []:
            return mixed, search.lost
    return enough, edge


class _Search:
    """The search for a pair of a few losses that is large enough and costs least, about."""

    def __init__(self, stride: Stride, values: dict[int, FloatArray], step: float) -> None:
        self.stride, self.step = stride, step
        self.left = {ticks: hull_of_both(values[ticks], step) for ticks in stride.compared}
        values = self.values = {ticks: lower_to_hull(each, step) for ticks, each in values.items()}
        # beyond the grid a value is that at its end, and a stride leaves what is left as it is
        beyond = max(np.max(values[each + stride.ticks][:, -1] - self.left[each][:, -1]) for each in stride.compared)
        self.lost = stride.lost if beyond <= 0.0 else math.nextafter(stride.lost + float(beyond), math.inf)
        self.convex = all(outcomes_of(each, step, *np.zeros((2, *each.shape))) for each in self.left.values())
        first, end = stride.compared[0], values[stride.enough].shape[1] - 1
        self.apart = max(round(SPACING * DEVIATION * values[first][0, 0] / step), 1)
        up, down = (
            self.losses_up_to(min(int(np.sum(each > NEGLIGIBLE * self.lost)), end, int(FARTHEST / step)))
            for each in values[first + stride.ticks]
        )
        self.places = np.concatenate([-down[::-1], [0], up])
        self.losses = step * self.places
        self.rows = list[FloatArray]()
        self.samples = np.arange(0, end + 1, max(end // SAMPLES, 1))
        self.sampled = {(ticks, way) for ticks in (first, stride.compared[-1]) for way in range(2)}
        for ticks, way in self.sampled:
            self.want(ticks, way, self.samples)

    def losses_up_to(self, reach: int) -> IntArray:
        """In steps: as far apart as that may be, and farther where there would be many; the last is no nearer."""
        found = [self.apart]
        while found[-1] < reach:
            found.append(found[-1] + max(self.apart, int(FARTHER * found[-1])))
        end = self.values[self.stride.enough].shape[1] - 1
        return np.unique(np.minimum(found, max(end, 1)))

    def needed(self, ticks: int) -> FloatArray:
        """What a stride and so many ticks after it are worth at least, by direction and grid point."""
        return self.values[ticks + self.stride.ticks] - self.lost

    def want(self, ticks: int, way: int, at: IntArray) -> None:
        """Seek what is large enough there: a row says what each loss is worth, over what is needed."""
        needed, left = self.needed(ticks)[way], self.left[ticks]
        at = at[needed[at] > 0.0]
        sign, ratio = (1, 1.0) if way == 0 else (-1, np.exp(-self.losses))
        worth = _value_at(left[::sign], self.step, at[:, None] - sign * self.places) * ratio
        self.rows.append(worth / (needed[at, None] * (1 + ROOM)))

    def solve(self) -> FloatArray | None:
        """Values of the pair that costs least."""
        from scipy.optimize import linprog

        losses, b, worth = self.losses, self.stride.b, np.concatenate(self.rows)
        if not len(worth):  # all is less than what may be lost
            return np.zeros_like(self.values[self.stride.enough])
        # so that all unknowns are of the order of 1 where they are wanted most
        size = np.maximum(np.max(worth, axis=0), 1e-300)
        sums = np.stack([np.ones(losses.size), np.exp(-losses)]) / size
        costs = np.array([b * losses, -(b + 1) * losses]) - np.log(size)
        costs -= _log_moments(self.values[self.stride.enough], self.step, b)[:, None]
        logs = log_of_sum(costs.T)
        if not np.isfinite(logs).all():
            return None
        found = linprog(np.exp(logs - np.max(logs)), -worth / size, -np.ones(len(worth)), sums, np.ones(2))
        if not found.success:
            return None
        masses = np.maximum(found.x, 0.0) / size
        x = self.step * np.arange(self.values[self.stride.enough].shape[1])[:, None]
        sides = []
        for sign, each in ((1, masses), (-1, masses * np.exp(-losses))):
            some = sign * losses > 0
            sides.append(-np.expm1(np.minimum(x - sign * losses[some], 0.0)) @ each[some])
        if not min(side[0] for side in sides) > 0.0:  # no loss but 0 is wanted
            return np.zeros_like(self.values[self.stride.enough])
        # a total variation distance is the same in both directions, and something is left for a loss of 0
        peak = max(side[0] for side in sides) * (1 - ROOM / 10)
        return np.array([side * (peak / side[0]) for side in sides])

    def find_short(self, sought: FloatArray) -> list[Short] | None:
        """Where that is not large enough; None where it is no pair's profile."""
        profile, masses = self.take_apart(sought)
        if masses is None:
            return None
        short = list[Short]()
        for ticks, left in self.left.items():
            found = (profile + add_tents(*masses, left, self.step)) * (1 - 8 * ULP * profile.shape[1])
            needed = self.needed(ticks)
            for way in range(2):
                at = np.flatnonzero(~(needed[way] <= found[way]))
                if at.size:
                    at = at[np.argsort(found[way, at] / needed[way, at])]
                    short.append(Short(ticks, way, at, found[way, at], needed[way, at]))
        return short

    def want_more(self, short: Sequence[Short]) -> None:
        """Seek what is large enough there."""
        for each in sorted(short, key=lambda each: each.missing, reverse=True):
            at = each.at[:1]
            if (each.ticks, each.way) not in self.sampled and len(self.sampled) < SAMPLED:
                self.sampled.add((each.ticks, each.way))
                at = np.union1d(at, self.samples)
            self.want(each.ticks, each.way, at)

    def add_some(self, sought: FloatArray, enough: FloatArray, short: Sequence[Short]) -> Iterator[FloatArray]:
        """The same with more and more of what is enough, from about as much on as it takes where it is too small."""
        enough = np.array([self.thin_out(each) for each in enough])
        profile, masses = self.take_apart(enough)
        if masses is None:
            return
        most, places = 0.0, np.arange(profile.shape[1])
        for each in short:
            at, tents = each.at[:FEW, None], self.left[each.ticks][:: 1 - 2 * each.way]
            gained = profile[each.way, at[:, 0]] - each.found[:FEW]
            for sign, mass in zip((-1, 1), masses, strict=True):
                moved = at + sign * places
                hockey = -np.expm1(self.step * np.minimum(moved, 0))
                gained = gained + (_value_at(tents, self.step, moved) - hockey) @ mass[each.way]
            with np.errstate(divide="ignore"):
                most = max(most, float(np.max((each.needed - each.found)[:FEW] / np.maximum(gained, 0.0))))
        for more in MORE:
            share = min(most * more, 1.0)
            yield (1 - share) * sought + share * enough

    def thin_out(self, values: FloatArray) -> FloatArray:
        """A profile of few losses above one: the lines between its values at these."""
        corners = np.unique([0, *np.minimum(self.losses_up_to(values.size), values.size - 1), values.size - 1])
        place = np.arange(values.size)
        i = np.clip(np.searchsorted(corners, place, "right") - 1, 0, len(corners) - 2)
        below, above = corners[i], corners[i + 1]
        away: list[FloatArray] = [
            np.asarray(self.step * each) for each in (place - below, above - place, above - below)
        ]
        low, high = shares(*away)
        return np.asarray(low * values[below] + high * values[above])

    def take_apart(self, values: FloatArray) -> tuple[FloatArray, tuple[FloatArray, FloatArray] | None]:
        """The convex profile below, and its probabilities at losses on both sides of 0."""
        profile = hull_of_both(values, self.step)
        right, left = np.zeros_like(profile), np.zeros_like(profile)
        return profile, (right, left) if outcomes_of(profile, self.step, right, left) else None


def _log_moments(profile: FloatArray, step: float, b: float) -> FloatArray:
    """About the logs of the means of e^(b loss), in both directions."""
    x = step * np.arange(profile.shape[1])
    with np.errstate(divide="ignore"):
        logs = np.log(profile)
    logs[:, 0] -= math.log(2)
    up, down = (log_of_sum(logs + weight) for weight in (b * x, -(b + 1) * x))
    return np.logaddexp(0.0, math.log(b * (b + 1) * step) + np.logaddexp(up, down[::-1]))


def _value_at(values: FloatArray, step: float, at: IntArray) -> FloatArray:
    """A profile at grid points on both sides of 0."""
    last = values.shape[1] - 1
    right, left = values[0, np.clip(at, 0, last)], values[1, np.clip(-at, 0, last)]
    fallen = step * np.minimum(at, 0)
    return np.asarray(np.where(at >= 0, right, np.exp(fallen) * left - np.expm1(fallen)))
