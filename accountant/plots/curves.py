"""Plots of privacy costs. Every function draws on the given axes, or on new ones, and returns them.

Titles and labels state the adjacency, delta and conversion for which a number holds. Upper bounds are rounded up,
lower bounds down. Needs matplotlib: ``pip install 'knn-accountant[plots]'``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from accountant.attack import ask
from accountant.delta_curve import curve
from accountant.errors import NoGuarantee, real
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.guarantee import Guarantee, format_up
from accountant.numerics.kernel import FloatArray
from accountant.plots.findings import METHODS, Line, Run
from accountant.plots.papers import MADE_UP_VOTES, screening_costs
from accountant.plots.prices import epsilon_against_parameter, epsilon_against_releases
from accountant.plots.runs import mark_label, name_runs
from accountant.plots.spending import shares, spent_budgets
from accountant.plots.style import (
    GREY,
    adjacency_of,
    canvas,
    count_lines,
    headline,
    label_lines,
    log_scale,
    save,
    style,
    write_legend,
)
from accountant.plots.worst_pairs import worst_pairs
from accountant.price import delta as compute_delta
from accountant.price import epsilon
from accountant.renyi.conversion import check_conversion
from accountant.tight.trade_off import envelope, supporting_lines

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

    Raises
    ------
    NoGuarantee
        All curves are infinite at all orders.
    """
    runs, rule = name_runs(run, "Rényi curve"), check_conversion(conversion)
    prices: dict[str, Guarantee] = {}
    if delta is not None:
        point = real("delta", delta, 0.0, 1.0, open_low=True, open_high=True)
        for name, each in runs.items():
            with suppress(NoGuarantee):  # its curve is infinite at every order
                prices[name] = epsilon(each, point, method="renyi", conversion=rule)
    best = [price.order for price in prices.values() if price.order is not None and math.isfinite(price.order)]
    if orders is None:
        last = 20 * (max(best) - 1) if best else 1000.0
        orders = 1 + np.geomspace(min([0.05, *(b - 1 for b in best)]), last, 121)
    at = np.asarray(orders, dtype=float)
    curves = {name: each.renyi(at) for name, each in runs.items()}
    if all(np.isinf(values).all() for values in curves.values()):
        raise NoGuarantee("every Rényi curve is infinite at all orders; accepted: a run that has a finite one")
    with canvas(ax) as axes:
        says = adjacency_of([each.adjacency for each in runs.values()])
        if delta is not None:
            says += f"; marked: the order that sets epsilon at delta = {format_up(delta)} ({METHODS[rule]})"
        headline(axes, _best_order(runs, None if delta is None else prices), says)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for name, each in runs.items():
            values = curves[name]
            look = style(count_lines(axes))
            label = mark_label(axes, name, each)
            price = prices.get(name)
            if price is None and delta is not None:
                label += ": no finite bound"
            if price is not None:
                label += f": epsilon {format_up(price.epsilon)}"
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


def _best_order(runs: Mapping[str, Composition], prices: Mapping[str, Guarantee] | None) -> str:
    """The finding: the order that sets epsilon of the first run; without prices, its divergence at order 2."""
    name, run = next(iter(runs.items()))
    of = "" if len(runs) == 1 else f" of {name}"
    if prices is None:
        return f"Rényi curve{of}: at most {format_up(float(run.renyi(2.0)))} nats at order 2"
    price = prices.get(name)
    if price is None:
        return f"The Rényi curve{of} gives no finite epsilon"
    at = "its limit" if price.order is None or math.isinf(price.order) else f"order {price.order:.4g}"
    return f"The Rényi curve{of} gives epsilon {format_up(price.epsilon)} at {at}"


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
        ends = next(iter(found.values())).votes[[0, -1]].tolist()
        where = "every order" if ends[0] == ends[1] else f"low orders, {ends[1]} at high ones"
        title = f"Noisy screening costs most at {ends[0]} votes at {where}"
        headline(axes, title, f"{says}; of all neighbouring counts, either direction")
        axes.set_xscale("log")
        for name, pairs in found.items():
            label = mark_label(axes, name, 1 * events[name])
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
    runs = name_runs(run, "")
    rule = check_conversion(conversion)
    lines: list[_TradeOffLine] = []
    for name, each in runs.items():
        at = np.asarray(epsilons, dtype=float) if epsilons is not None else _default_epsilons(each)
        if method == "tight" and len(runs) == 1 and _has_profile(each):
            profile = each.profile(np.concatenate([-at, at]))
            directions = {"null hypothesis: absent": profile.remove, "null hypothesis: present": profile.add}
            if not np.allclose(profile.remove, profile.add, rtol=0, atol=1e-6):
                for direction, deltas in directions.items():
                    corners = envelope(np.concatenate([-at, at]), 1.0 - deltas)
                    lines.append(_TradeOffLine(direction, *corners, each))
                continue
        if method == "tight" and not each.data_dependent and any(event.family for event in each.entries):
            # the game of screenings is then that of an attacker's figures, and is remembered
            deltas, _ = ask(each, lambda attack, at=at: attack.deltas(at), "worst", method, tolerance)  # type: ignore[misc]
        else:
            deltas = curve(each, at, method=method, conversion=rule, tolerance=tolerance).upper
        lines.append(_TradeOffLine(name, *envelope(*supporting_lines(at, deltas)), each))
    how = "tight" if method == "tight" else METHODS[rule] if method == "renyi" else "the cheapest route"
    with canvas(ax, (5.2, 5.0)) as axes:
        says = adjacency_of([each.adjacency for each in runs.values()])
        headline(axes, _least_miss(lines), f"{says}; {how}; a lower bound: no test errs less")
        axes.plot([0, 1], [1, 0], color=GREY, linestyle=(0, (1, 2)), linewidth=1.0)
        axes.annotate("no information", (0.62, 0.38), (4, 4), textcoords="offset points", color=GREY)
        for line in lines:
            look = {**style(count_lines(axes)), "marker": ""}
            axes.plot(line.first, line.second, **look, label=mark_label(axes, line.name or "this run", line.run))
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.set_xlabel("type I error")
        axes.set_ylabel("type II error, at least")
        if len(lines) > 1 or lines[0].run.data_dependent:
            write_legend(axes, axes.get_lines()[-len(lines) :])
        return axes


def _has_profile(run: Composition) -> bool:
    """Whether it is a single release whose profile is known at every epsilon."""
    between = any(event.between_bounds for event in run.entries)
    return run.releases == 1 and not run.data_dependent and not between


def _least_miss(lines: list[_TradeOffLine]) -> str:
    """The finding: what an attacker misses who may be wrong about 5 % of those who are absent."""
    least = min(float(np.interp(0.05, line.first, line.second)) for line in lines)
    return f"At {0.05:.0%} false alarms every attacker misses at least {math.floor(1000 * least) / 1000:.1%}"


def _default_epsilons(run: Composition) -> FloatArray:
    """Epsilons from 0 to where delta is too small to see, and the pure-DP limit, where delta is 0."""
    # a single release has a closed form, so many points cost little
    points, unseen = (241, 1e-6) if run.releases == 1 else (41, 1e-3)
    pure = float(run.renyi(math.inf))
    found = [*np.linspace(0.0, _farthest(run, unseen), points).tolist(), pure]
    return np.unique([point for point in found if point < 1e300])


def _farthest(run: Composition, unseen: float) -> float:
    """Epsilon where no more than that is left of delta, beside the losses that are infinite."""
    with suppress(NoGuarantee):
        return epsilon(run, unseen, method="renyi").epsilon
    infinite = compute_delta(run, 1e300).delta
    return epsilon(run, infinite + unseen * (1 - infinite)).epsilon
