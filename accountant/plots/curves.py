"""Plots of privacy costs. Every function draws on the given axes, or on new ones, and returns them.

Titles and labels state the adjacency, delta and conversion for which a number holds. Upper bounds are rounded up,
lower bounds down. Needs matplotlib: ``pip install 'knn-accountant[plots]'``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from accountant.errors import ParameterError, integer, real, shorten
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.guarantee import Guarantee, format_up
from accountant.numerics.kernel import FloatArray
from accountant.plan import Plan
from accountant.plots.papers import MADE_UP_VOTES, screening_costs
from accountant.plots.prices import METHODS, Line, epsilon_against_parameter, epsilon_against_releases
from accountant.plots.style import (
    GREY,
    adjacency_of,
    canvas,
    count_lines,
    headline,
    label_lines,
    log_scale,
    mark_private,
    plain,
    save,
    style,
)
from accountant.plots.trade_off import envelope, supporting_lines
from accountant.plots.worst_pairs import worst_pairs
from accountant.price import curve, epsilon
from accountant.renyi.conversion import check_conversion
from accountant.summary import shares_of
from accountant.terminal import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "MADE_UP_VOTES",
    "METHODS",
    "Line",
    "curve_against_order",
    "epsilon_against_parameter",
    "epsilon_against_releases",
    "save",
    "screening_costs",
    "shares",
    "spent_budgets",
    "trade_off",
    "worst_pair",
]

Run: TypeAlias = Event | Composition

BARS = 12
"""Largest number of bars in `shares`; further releases share the last bar."""


def _name_runs(run: Run | Mapping[str, Run], name: str) -> dict[str, Composition]:
    """The runs by name; a single run gets `name`."""
    runs = dict(run) if isinstance(run, Mapping) else {name: run}
    for each in runs.values():
        if not isinstance(each, Event | Composition):
            raise ParameterError(f"run = {shorten(each)}; accepted: an event, or a composition")
    if not runs:
        raise ParameterError(f"run = {shorten(run)}; accepted: one or more")
    return {name: 1 * each if isinstance(each, Event) else each for name, each in runs.items()}


def _mark_label(ax: Axes, name: str, run: Composition, most: int = 36) -> str:
    """The name, shortened; with a star, explained below the axes, if the run's cost is private."""
    if run.data_dependent:
        mark_private(ax)
    return plain(name, most) + (" *" if run.data_dependent else "")


# --- curves --------------------------------------------------------------------------------------------


def curve_against_order(
    run: Run | Mapping[str, Run],
    *,
    orders: ArrayLike | None = None,
    delta: float | None = None,
    conversion: str = "improved",
    ax: Axes | None = None,
) -> Axes:
    """Rényi curves against the order; with a delta, each marked at the order that sets its epsilon.

    Parameters
    ----------
    run : Event or Composition, or mapping from names to them
    orders : array_like, optional
        In [1, inf); infinite values of a curve are not drawn.
    delta : float, optional
        In (0, 1).
    conversion : {"improved", "classic", "optimal"}
        Conversion to epsilon for which the marked order is best.
    ax : Axes, optional
    """
    runs, rule = _name_runs(run, "Rényi curve"), check_conversion(conversion)
    prices: dict[str, Guarantee] = {}
    if delta is not None:
        point = real("delta", delta, 0.0, 1.0, open_low=True, open_high=True)
        prices = {name: epsilon(each, point, conversion=rule) for name, each in runs.items()}
    best = [price.order for price in prices.values() if price.order is not None and math.isfinite(price.order)]
    if orders is None:
        last = 20 * (max(best) - 1) if best else 1000.0
        orders = 1 + np.geomspace(min([0.05, *(b - 1 for b in best)]), last, 121)
    at = np.asarray(orders, dtype=float)
    with canvas(ax) as axes:
        says = adjacency_of([each.adjacency for each in runs.values()])
        if delta is not None:
            says += f"; marked: the order that sets epsilon at delta = {format_up(delta)} ({METHODS[rule]})"
        headline(axes, "Rényi curve", says)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for name, each in runs.items():
            values = each.renyi(at)
            look = style(count_lines(axes))
            label = _mark_label(axes, name, each)
            price = prices.get(name)
            if price is not None:
                label += f": epsilon {format_up(price.epsilon, 3)}"
                if price.order is not None and math.isfinite(price.order):
                    axes.plot([price.order], each.renyi([price.order]), **{**look, "linestyle": ""}, markersize=7)
            # a logarithmic axis cannot show 0 or infinity
            axes.plot(at, np.where((values > 0) & np.isfinite(values), values, np.nan), **{**look, "marker": ""})
            axes.get_lines()[-1].set_label(label)
        axes.margins(x=0.0)
        log_scale(axes.xaxis)
        log_scale(axes.yaxis)
        axes.set_xlabel("order")
        axes.set_ylabel("Rényi divergence, at most (nats)")
        label_lines(axes)
        return axes


def worst_pair(
    screening: Event | Mapping[str, Event], *, orders: ArrayLike | None = None, ax: Axes | None = None
) -> Axes:
    """The vote count at which noisy screening costs most, against the Rényi order.

    Where several counts cost the same, the smallest is shown.

    Parameters
    ----------
    screening : Event, or mapping from names to events
        Noisy screenings, Poisson-subsampled or not.
    orders : array_like, optional
        In [1, inf).
    ax : Axes, optional

    Raises
    ------
    ParameterError
        An event is not a noisy screening.
    """
    events = dict(screening) if isinstance(screening, Mapping) else {"worst count": screening}
    at = 1 + np.geomspace(0.01, 1000, 241) if orders is None else np.asarray(orders, dtype=float)
    found = {name: worst_pairs(event, at) for name, event in events.items()}
    with canvas(ax) as axes:
        says = adjacency_of([event.adjacency for event in events.values()])
        headline(axes, "Where noisy screening costs most", f"{says}; of all neighbouring counts, either direction")
        axes.set_xscale("log")
        for name, pairs in found.items():
            label = _mark_label(axes, name, 1 * events[name])
            axes.plot(at, pairs.votes, **{**style(count_lines(axes)), "marker": ""}, drawstyle="steps-mid", label=label)
        for threshold in sorted({pairs.threshold for pairs in found.values()}):
            axes.axhline(threshold, color=GREY, linestyle=(0, (1, 2)), linewidth=1.0)
            axes.annotate(f"threshold {threshold:g}", (0.02, threshold), (0, 3), xycoords=("axes fraction", "data"),
                          textcoords="offset points", color=GREY)  # fmt: skip
        axes.margins(x=0.0, y=0.1)
        log_scale(axes.xaxis)
        axes.set_xlabel("order")
        axes.set_ylabel("votes without the individual")
        label_lines(axes)
        return axes


class _TradeOffLine(NamedTuple):
    """Corners of a trade-off function: errors of the first and of the second kind (type I, type II)."""

    name: str
    first: FloatArray
    second: FloatArray
    run: Composition


def trade_off(
    run: Run | Mapping[str, Run],
    *,
    epsilons: ArrayLike | None = None,
    method: str = "tight",
    conversion: str = "improved",
    tolerance: float = 0.02,
    ax: Axes | None = None,
) -> Axes:
    """Trade-off functions (f-DP): least type II error of any test of one neighbour against the other, by type I error.

    Lower bound at type I error a: ``f(a) = max over e of max(0, 1 - delta(e) - exp(e) a, exp(-e) (1 - delta(e) - a))``
    (Dong, Roth & Su 2022, Prop. 6), over finitely many epsilons e and with an upper bound on delta(e). The line is this
    maximum itself, not an interpolation. It holds for both directions (remove and add); of a single release whose
    directions differ, each is drawn.

    Parameters
    ----------
    run : Event or Composition, or mapping from names to them
    epsilons : array_like, optional
        At least 0: the points e at which delta is computed.
    method, conversion, tolerance
        As for `curve`.
    ax : Axes, optional

    Raises
    ------
    ProfileUnavailable, ToleranceUnreachable
        The tight route cannot price the run; ``method="renyi"`` can.
    """
    runs = _name_runs(run, "")
    rule = check_conversion(conversion)
    lines: list[_TradeOffLine] = []
    for name, each in runs.items():
        at = np.asarray(epsilons, dtype=float) if epsilons is not None else _default_epsilons(each)
        if method == "tight" and len(runs) == 1 and each.releases == 1 and not each.data_dependent:
            profile = each.profile(np.concatenate([-at, at]))
            directions = {"null hypothesis: absent": profile.remove, "null hypothesis: present": profile.add}
            if not np.allclose(profile.remove, profile.add, rtol=0, atol=1e-6):
                for direction, deltas in directions.items():
                    corners = envelope(np.concatenate([-at, at]), 1.0 - deltas)
                    lines.append(_TradeOffLine(direction, *corners, each))
                continue
        found = curve(each, at, method=method, conversion=rule, tolerance=tolerance)
        lines.append(_TradeOffLine(name, *envelope(*supporting_lines(found.epsilons, found.upper)), each))
    how = "tight" if method == "tight" else METHODS[rule] if method == "renyi" else "the cheapest route"
    with canvas(ax, (5.2, 5.0)) as axes:
        says = adjacency_of([each.adjacency for each in runs.values()])
        headline(axes, "Trade-off function", f"{says}; {how}; a lower bound: no test errs less")
        axes.plot([0, 1], [1, 0], color=GREY, linestyle=(0, (1, 2)), linewidth=1.0)
        axes.annotate("no information", (0.62, 0.38), (4, 4), textcoords="offset points", color=GREY)
        for line in lines:
            look = {**style(count_lines(axes)), "marker": ""}
            axes.plot(line.first, line.second, **look, label=_mark_label(axes, line.name or "this run", line.run))
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.set_xlabel("type I error")
        axes.set_ylabel("type II error, at least")
        if len(lines) > 1 or lines[0].run.data_dependent:
            axes.legend(frameon=False, loc="upper right", handlelength=4)
        return axes


def _default_epsilons(run: Composition) -> FloatArray:
    """Epsilons from 0 to where delta is too small to see, and the pure-DP limit, where delta is 0."""
    # a single release has a closed form, so many points cost little
    points, unseen = (241, 1e-6) if run.releases == 1 else (41, 1e-3)
    pure = float(run.renyi(math.inf))
    found = [*np.linspace(0.0, epsilon(run, unseen).epsilon, points).tolist(), pure]
    return np.unique([point for point in found if point < 1e300])


# --- shares and budgets --------------------------------------------------------------------------------


def shares(
    run: Plan | Run,
    *,
    delta: float | None = None,
    conversion: str = "improved",
    ax: Axes | None = None,
) -> Axes:
    """Share of each release in the Rényi curve at the order that sets epsilon.

    Parameters
    ----------
    run : Plan, Event or Composition
        Releases of a plan, or events. The twelve costliest have bars of their own, the others share one.
    delta : float, optional
        In [0, 1); default: the plan's.
    conversion : {"improved", "classic", "optimal"}
    ax : Axes, optional
    """
    if isinstance(run, Plan):
        parts = [(release.name, release.composition) for release in run.releases]
        delta = run.delta if delta is None else delta
    else:
        parts = [(short(event), count * event) for event, count in _name_runs(run, "")[""]]
    if delta is None or not parts:
        raise ParameterError(f"delta = {delta}, {len(parts)} releases; accepted: delta in [0, 1), at least one release")
    whole = sum((part for _, part in parts), Composition())
    price = epsilon(whole, delta, conversion=check_conversion(conversion))
    found = sorted(zip(shares_of([part for _, part in parts], price), parts, strict=True), key=lambda each: -each[0])
    names = [name for _, (name, _) in found[:BARS]]
    widths = [share for share, _ in found[:BARS]]
    if len(found) > BARS:
        names.append(f"{len(found) - BARS} others")
        widths.append(math.fsum(share for share, _ in found[BARS:]))
    order = "the pure-DP limit" if price.order is None or math.isinf(price.order) else f"order {price.order:.4g}"
    says = (
        f"{adjacency_of([whole.adjacency])}; at {order}, which sets epsilon = {format_up(price.epsilon, 4)} at "
        f"delta = {format_up(price.delta)} ({METHODS[price.conversion or 'improved']})"
    )
    with canvas(ax, (7.6, 1.5 + 0.46 * len(names))) as axes:
        headline(axes, "Shares of the privacy cost", says)
        places = np.arange(len(names))
        bars = axes.barh(places, widths, color=style(0)["color"], height=0.4)
        axes.bar_label(bars, [f"{share:.1%}" for share in widths], padding=4)
        for place, name in zip(places.tolist(), names, strict=True):
            label = _mark_label(axes, name, whole, 90)
            axes.annotate(label, (0.0, place - 0.2), (0, 2), textcoords="offset points", va="bottom")
        axes.set_yticks([])
        axes.set_ylim(-0.65, len(names) - 0.6)
        axes.invert_yaxis()
        axes.set_xlim(0.0, 1.12 * max(widths) or 1.0)
        axes.xaxis.set_major_formatter("{x:.0%}")
        axes.set_xlabel("share of the Rényi curve")
        return axes


def spent_budgets(spent: ArrayLike, budget: float = 1.0, *, bins: int = 20, ax: Axes | None = None) -> Axes:
    """Histogram of the shares of their budgets that records have spent. Private: `save` refuses it by default.

    Parameters
    ----------
    spent : array_like
        One amount per record, in [0, budget], in the unit of the budget.
    budget : float
        Budget of every record, above 0.
    bins : int
    ax : Axes, optional

    Raises
    ------
    ParameterError
        An amount is outside [0, budget].
    """
    whole = real("budget", budget, 0.0, math.inf, open_low=True, open_high=True)
    amounts = np.asarray(spent, dtype=float).ravel()
    bad = amounts[~((amounts >= 0) & (amounts <= whole * (1 + 1e-9)))]
    if bad.size or not amounts.size:
        raise ParameterError(f"spent = {bad[0] if bad.size else 'nothing'}; accepted: numbers in [0, {whole:g}]")
    counts, edges = np.histogram(np.minimum(amounts / whole, 1.0), integer("bins", bins, 1, 1000), (0.0, 1.0))
    with canvas(ax) as axes:
        headline(axes, "Spent budgets of records *", f"{amounts.size:,} records, each with a budget of {whole:.6g}")
        axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color=style(0)["color"], edgecolor="white", lw=0.8)
        axes.grid(False, axis="x")
        axes.set_xlim(0.0, 1.0)
        axes.xaxis.set_major_formatter("{x:.0%}")
        axes.set_xlabel("share of the budget that is spent")
        axes.set_ylabel("records")
        mark_private(axes)
        return axes
