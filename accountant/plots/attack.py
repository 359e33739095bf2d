"""What an attacker can tell about one record, drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.guarantee import format_down, format_up
from accountant.numerics.kernel import FloatArray
from accountant.patience import PATIENCE
from accountant.plots.style import GREY, adjacency_of, canvas, count_lines, headline, plain, style
from accountant.risk import true_positive_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["attack_risk"]

POINTS = 61
"""False-positive rates at which a line is computed."""

SAID = 1e-3
"""False-positive rate of the title, where the axis reaches down to it."""


def attack_risk(
    run: Event | Composition | Mapping[str, Event | Composition],
    *,
    fpr_floor: float = 1e-9,
    direction: str = "worst",
    method: str = "auto",
    tolerance: float = 0.01,
    patience: float = PATIENCE,
    ax: Axes | None = None,
) -> Axes:
    """True-positive rate of the best attack by its false-positive rate, both on logarithmic axes.

    The line is the upper end, the band reaches down to the lower end.

    Parameters
    ----------
    run : Event or Composition, or mapping from names to them
    fpr_floor : float
        Where the axis begins, (0, 0.1].
    direction, method, tolerance, patience
        As for `accountant.true_positive_rate`.
    ax : Axes, optional
    """
    runs = dict(run) if isinstance(run, Mapping) else {"": run}
    said = max(SAID, fpr_floor)
    rates = np.union1d(np.geomspace(fpr_floor, 1.0, POINTS), [said])
    way: Any = {"direction": direction, "method": method, "tolerance": tolerance, "patience": patience}
    found = {name: true_positive_rate(each, rates, **way) for name, each in runs.items()}
    with canvas(ax, (6.4, 4.6)) as axes:
        says = adjacency_of([each.adjacency for each in runs.values()])
        routes = " and ".join(sorted({each.method for each in found.values()}))
        finding = _finding(said, rates, next(iter(found.values())).upper)
        headline(axes, finding, f"{says}; {routes}; direction: {direction}")
        axes.plot(rates, rates, color=GREY, linestyle=(0, (1, 2)), linewidth=1.0)
        axes.annotate("guessing", (rates[20], rates[20]), (6, -10), textcoords="offset points", color=GREY)
        for name, each in found.items():
            look = {**style(count_lines(axes)), "marker": ""}
            axes.plot(rates, each.upper, **look, label=plain(name or "this run"))
            if each.method == "tight":
                axes.fill_between(rates, each.lower, each.upper, color=look["color"], alpha=0.25, linewidth=0)
        axes.set(xscale="log", yscale="log", xlim=(fpr_floor, 1.0), ylim=(fpr_floor, 1.0))
        axes.set_xlabel("false-positive rate: outsiders taken for members")
        axes.set_ylabel("true-positive rate: members recognised")
        if len(found) > 1:
            axes.legend(frameon=False, loc="lower right", handlelength=4)
        return axes


def _finding(rate: float, rates: FloatArray, upper: FloatArray) -> str:
    """The bound at one of the rates, which is rounded down: a bound at a rate holds at all smaller ones."""
    most = float(upper[np.searchsorted(rates, rate)])
    return f"{format_down(100 * rate, 2)} % false alarms: at most {format_up(100 * most, 2)} % of members found"
