"""Where the privacy goes: shares of releases, and budgets that records have spent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from accountant.errors import NoGuarantee, ParameterError, integer, real
from accountant.events.composition import Composition
from accountant.guarantee import Guarantee, format_up
from accountant.plan import Plan
from accountant.plots.findings import METHODS, Run
from accountant.plots.runs import mark_label, name_runs
from accountant.plots.style import adjacency_of, canvas, headline, mark_private, style
from accountant.price import epsilon
from accountant.renyi.conversion import check_conversion
from accountant.summary import shares_of
from accountant.terminal import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["shares", "spent_budgets"]

BARS = 12
"""Largest number of bars in `shares`; further releases share the last bar."""


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
        parts = [(short(event), count * event) for event, count in name_runs(run, "")[""]]
    if delta is None or not parts:
        raise ParameterError(f"delta = {delta}, {len(parts)} releases; accepted: delta in [0, 1), at least one release")
    whole = sum((part for _, part in parts), Composition())
    try:
        price = epsilon(whole, delta, method="renyi", conversion=check_conversion(conversion))
    except NoGuarantee:  # the curve is infinite
        price = epsilon(whole, delta)
    found = sorted(zip(shares_of([part for _, part in parts], price), parts, strict=True), key=lambda each: -each[0])
    names = [name for _, (name, _) in found[:BARS]]
    widths = [share for share, _ in found[:BARS]]
    if len(found) > BARS:
        names.append(f"{len(found) - BARS} others")
        widths.append(math.fsum(share for share, _ in found[BARS:]))
    says = f"{adjacency_of([whole.adjacency])}; {_which_order(price)}"
    with canvas(ax, (7.6, 1.5 + 0.46 * len(names))) as axes:
        headline(axes, _costliest(names[0], widths[0], len(parts)), says)
        places = np.arange(len(names))
        bars = axes.barh(places, widths, color=style(0)["color"], height=0.4)
        axes.bar_label(bars, [f"{share:.1%}" for share in widths], padding=4)
        for place, name in zip(places.tolist(), names, strict=True):
            label = mark_label(axes, name, whole, 90)
            axes.annotate(label, (0.0, place - 0.2), (0, 2), textcoords="offset points", va="bottom")
        axes.set_yticks([])
        axes.set_ylim(-0.65, len(names) - 0.6)
        axes.invert_yaxis()
        axes.set_xlim(0.0, 1.12 * max(widths) or 1.0)
        axes.xaxis.set_major_formatter("{x:.0%}")
        axes.set_xlabel("share of the Rényi curve")
        return axes


def _which_order(price: Guarantee) -> str:
    """Where the shares are those of the curve, and the price."""
    known = f"epsilon = {format_up(price.epsilon)} at delta = {format_up(price.delta)}"
    if price.method == "tight":
        return f"infinite Rényi curves share alike; {known} (tight)"
    order = "the pure-DP limit" if price.order is None or math.isinf(price.order) else f"order {price.order:.4g}"
    return f"at {order}, which sets {known} ({METHODS[price.conversion or 'improved']})"


def _costliest(name: str, share: float, number: int) -> str:
    """The finding: which release takes most."""
    if share == 0.0:
        return "Shares of the privacy cost: nothing is spent"
    return "One release takes all of the cost" if number == 1 else f"{name} takes {share:.1%} of the privacy cost"


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
        middle = float(np.median(amounts)) / whole
        says = f"{amounts.size:,} records, each with a budget of {whole:.6g}"
        headline(axes, f"The median record has spent {middle:.0%} of its budget *", says)
        axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color=style(0)["color"], edgecolor="white", lw=0.8)
        axes.grid(False, axis="x")
        axes.set_xlim(0.0, 1.0)
        axes.xaxis.set_major_formatter("{x:.0%}")
        axes.set_xlabel("share of the budget that is spent")
        axes.set_ylabel("records")
        mark_private(axes)
        return axes
