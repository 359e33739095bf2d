"""Epsilon against the number of releases, or against a parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from accountant.errors import ParameterError, integer, shorten
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.guarantee import Guarantee, format_up
from accountant.plots.findings import (
    METHODS,
    Line,
    Maker,
    PricedLine,
    Run,
    price_by_parameter,
    price_in_words,
    price_of_releases,
)
from accountant.plots.style import (
    adjacency_of,
    canvas,
    count_lines,
    headline,
    label_lines,
    log_scale,
    mark_private,
    plain,
    style,
)
from accountant.price import epsilon
from accountant.renyi.conversion import check_conversion

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["METHODS", "Line", "epsilon_against_parameter", "epsilon_against_releases"]

POINTS = {"tight": 8}
"""Number of points of a line where the caller gives only the last one; 32 for methods not named here."""


def epsilon_against_releases(
    run: Run | Maker | Sequence[Line],
    releases: int | Sequence[int],
    *,
    delta: float,
    methods: Sequence[str] = tuple(METHODS),
    tolerance: float = 0.02,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Epsilon at a delta against the number of releases, by several methods or of several runs.

    Markers show where tight intervals were computed; between points the lines only guide the eye.

    Parameters
    ----------
    run : Event, Composition, callable, or sequence of Line
        An event is released n times. Of a composition, n releases are taken in proportion to its counts, each
        count rounded up; at ``run.releases`` it is the run itself. A callable makes the run of n releases.
    releases : int, or sequence of int
        Numbers of releases n >= 1; one number for points up to it.
    delta : float
        In [0, 1).
    methods : sequence of str
        From `METHODS`, for a single run.
    tolerance : float
        Width of tight intervals, as for `epsilon`.
    title : str, optional
        Default: what the plot shows, such as the price of all releases.
    ax : Axes, optional

    Raises
    ------
    ParameterError, AdjacencyMismatch, NoGuarantee, ProfileUnavailable, ToleranceUnreachable
        As `epsilon`, at any of the points.
    """
    many = isinstance(releases, Sequence | np.ndarray)
    given = [integer("releases", n, 1, 10**15) for n in (releases if many else [releases])]  # type: ignore[union-attr]
    if not given:
        raise ParameterError(f"releases = {shorten(releases)}; accepted: one or more whole numbers, each at least 1")

    def points_of(method: str) -> list[float]:
        if many:
            return sorted({float(n) for n in given})
        # epsilon grows about as the square root of n, so the points are equally spaced in that
        parts = np.linspace(0.0, 1.0, POINTS.get(method, 32) + 1)[1:] ** 2
        return sorted({float(max(math.ceil(given[0] * part), 1)) for part in parts.tolist()})

    lines = _lines(run, methods)
    makers = [line._replace(run=_repeat(line.run)) for line in lines]
    with canvas(ax) as axes:
        priced = _price_lines(makers, points_of, delta, tolerance)
        _draw_prices(axes, priced, title or price_of_releases(priced), delta, ends=True)
        axes.set_xlim(left=0.0)
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("releases")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        label_lines(axes)
        return axes


def epsilon_against_parameter(
    make: Maker | Sequence[Line],
    values: ArrayLike,
    *,
    delta: float,
    name: str = "parameter",
    methods: Sequence[str] = ("improved",),
    tolerance: float = 0.02,
    ax: Axes | None = None,
) -> Axes:
    """Epsilon at a delta against one parameter of a run.

    Parameters
    ----------
    make : callable, or sequence of Line
        From a value to a run, as for `calibrate`.
    values : array_like
        Values of the parameter; the axis is logarithmic if the largest is over 30 times the smallest.
    name : str
        Name of the parameter.
    delta, methods, tolerance, ax
        As for `epsilon_against_releases`; so are the errors.
    """
    points = np.unique(np.asarray(values, dtype=float))
    if points.size == 0 or not np.isfinite(points).all():
        raise ParameterError(f"values = {shorten(values)}; accepted: one or more finite numbers")
    lines = _lines(make, methods)
    for line in lines:
        if not callable(line.run):
            raise ParameterError(f"make = {shorten(line.run)}; accepted: a function from a value of {name} to a run")
    with canvas(ax) as axes:
        priced = _price_lines(lines, lambda method: points.tolist(), delta, tolerance)
        _draw_prices(axes, priced, price_by_parameter(priced, name), delta)
        axes.set_xlabel(plain(name))
        axes.set_ylim(bottom=0.0)
        if 0 < 30 * points[0] < points[-1]:
            axes.set_xscale("log")
            log_scale(axes.xaxis)
        heights = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.get_lines()])
        if 0 < 30 * heights.min() < heights.max():
            axes.set_yscale("log")
            axes.autoscale(axis="y")
            log_scale(axes.yaxis)
        label_lines(axes)
        return axes


def _lines(run: Run | Maker | Sequence[Line], methods: Sequence[str]) -> list[Line]:
    lines = list(run) if isinstance(run, Sequence) else [Line("", run, method) for method in methods]
    if not lines or not all(isinstance(line, Line) for line in lines):
        raise ParameterError(f"lines = {shorten(run)}, methods = {shorten(methods)}; accepted: one or more")
    for line in lines:
        if line.method not in METHODS:
            raise ParameterError(f"method = {line.method!r}; accepted: {', '.join(METHODS)}")
    return lines


def _repeat(run: Run | Maker) -> Maker:
    """A function from n to the run of n releases."""
    if isinstance(run, Event):
        return lambda n: int(n) * run
    if isinstance(run, Composition):
        entries, whole = list(run), max(run.releases, 1)
        return lambda n: Composition((event, -(-count * int(n) // whole)) for event, count in entries)
    if callable(run):
        return lambda n: run(int(n))
    raise ParameterError(f"run = {shorten(run)}; accepted: an event, a composition, or a function of n")


def _price_lines(
    lines: Sequence[Line], points_of: Callable[[str], list[float]], delta: float, tolerance: float
) -> list[PricedLine]:
    """Price every line at the points of its method."""
    priced = []
    for line in lines:
        points, make = points_of(line.method), line.run
        if not callable(make):
            raise ParameterError(f"run = {shorten(make)}; accepted: a function")
        prices = [_price(make(point), delta, line.method, tolerance) for point in points]
        priced.append(PricedLine(line, points, prices))
    return priced


def _draw_prices(ax: Axes, priced: Sequence[PricedLine], title: str, delta: float, *, ends: bool = False) -> None:
    """Draw epsilon at `delta` against the points; with `ends`, labels contain the last value of their line."""
    lines = [each.line for each in priced]
    common = lines[0].method if all(line.label for line in lines) else None
    how = "" if common is None else f"; {METHODS[common]}"
    how += " unless marked" if any(line.method != common for line in lines) and common else ""
    adjacency = adjacency_of([price.adjacency for each in priced for price in each.prices])
    headline(ax, title, f"{adjacency}; delta = {format_up(delta)}{how}")
    # a tight line is what the eye should meet: the first look, which is solid, and wider
    drawn, ranks = count_lines(ax), sorted(range(len(lines)), key=lambda i: lines[i].method != "tight")
    for number, (line, points, prices) in enumerate(priced):
        look = style(drawn + ranks.index(number))
        label = plain(line.label or METHODS[line.method])
        label += f", {METHODS[line.method]}" if line.label and line.method != common else ""
        if any(price.data_dependent for price in prices):
            label += " *"
            mark_private(ax)
        upper = [price.epsilon for price in prices]
        tight = line.method == "tight"
        if ends:
            label += f": {price_in_words(prices[-1])}"
        marker = look["marker"] if tight or len(points) == 1 else ""
        weight = {"linewidth": 2.6, "zorder": 3.0} if tight else {}
        ax.plot(points, upper, **{**look, "marker": marker, **weight}, label=label)
        if tight:
            lower = [price.lower or 0.0 for price in prices]
            ax.fill_between(points, lower, upper, color=look["color"], alpha=0.25, lw=0)
    ax.margins(x=0.0)
    ax.set_ylabel("epsilon, at most")


def _price(run: Run, delta: float, method: str, tolerance: float) -> Guarantee:
    if method == "tight":
        return epsilon(run, delta, method="tight", tolerance=tolerance)
    return epsilon(run, delta, method="renyi", conversion=check_conversion(method))
