"""What an attacker can tell about one record, drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.guarantee import format_up
from accountant.numerics.kernel import FloatArray
from accountant.patience import PATIENCE
from accountant.plots.style import GREY, adjacency_of, canvas, count_lines, headline, plain, style
from accountant.risk import true_positive_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["attack_risk"]

POINTS = 61
"""False-positive rates at which a line is computed."""


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
    rates = np.geomspace(fpr_floor, 1.0, POINTS)
    way: Any = {"direction": direction, "method": method, "tolerance": tolerance, "patience": patience}
    found = {name: true_positive_rate(each, rates, **way) for name, each in runs.items()}
    with canvas(ax, (6.4, 4.6)) as axes:
        says = adjacency_of([each.adjacency for each in runs.values()])
        routes = " and ".join(sorted({each.method for each in found.values()}))
        headline(axes, _finding(next(iter(found.values())).upper, rates), f"{says}; {routes}; direction: {direction}")
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


def _finding(upper: FloatArray, rates: FloatArray) -> str:
    at = int(np.argmin(np.abs(np.log(rates / 1e-3)))) if rates[0] < 1e-3 else 0
    return f"{100 * rates[at]:.2g} % false alarms: at most {format_up(100 * float(upper[at]), 2)} % of members found"
