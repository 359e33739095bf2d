"""One small plot of each kind. `python -m tests.pictures` writes the baseline images; look at them before you commit.

Text is removed from the images, so that another version of a font changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import accountant as ac
from accountant import plots
from accountant.plots import papers

BASELINE = Path(__file__).parent / "baseline"

SAMPLED = ac.PoissonSubsampled(ac.DiscreteGaussian(2.0), 0.3)
SCREENING = ac.NoisyScreening(10, 20, 30)
SPENT = 0.5 * np.sin(np.arange(200.0)) ** 2

PICTURES: dict[str, Callable[[Axes | None], Axes]] = {
    "order": lambda ax: plots.curve_against_order(
        {"Gaussian": 10 * ac.Gaussian(5.0), "Laplace": ac.Laplace(2.0)}, delta=1e-5, ax=ax
    ),
    "releases": lambda ax: plots.epsilon_against_releases(
        SAMPLED, [1, 5, 10, 20, 30, 40], delta=1e-5, tolerance=0.2, ax=ax
    ),
    "parameter": lambda ax: plots.epsilon_against_parameter(
        lambda sigma: 10 * ac.Gaussian(sigma),
        np.geomspace(1, 50, 9),
        delta=1e-5,
        name="sigma",
        methods=("classic", "improved"),
        ax=ax,
    ),
    "worst-pair": lambda ax: plots.worst_pair(
        {"all records": SCREENING, "a quarter": ac.PoissonSubsampled(SCREENING, 0.25)}, ax=ax
    ),
    "trade-off": lambda ax: plots.trade_off(ac.PoissonSubsampled(ac.Gaussian(0.5), 0.3), ax=ax),
    "shares": lambda ax: plots.shares(5 * ac.Gaussian(5.0) + 7 * ac.Laplace(20.0) + ac.GNMax(6.0), delta=1e-5, ax=ax),
    "budgets": lambda ax: plots.spent_budgets(SPENT, 0.5, ax=ax),
    "screening-costs": lambda ax: papers.screening_costs(
        sigma=10, threshold=20, max_votes=30, pluralities=[12, 24], releases=32, tolerance=0.2, ax=ax
    ),
}


def draw(name: str) -> Axes:
    """Draw a picture on axes at a fixed place."""
    return PICTURES[name](Figure(figsize=(4, 3), dpi=80).add_axes((0.1, 0.1, 0.8, 0.8)))


def write_bare(ax: Axes, path: Path) -> None:
    """Write the picture without its text, axes and grid."""
    for text in list(ax.texts):
        text.remove()
    if ax.get_legend() is not None:
        ax.get_legend().remove()
    ax.set_title("", loc="left")
    ax.set_axis_off()
    ax.figure.savefig(path)


if __name__ == "__main__":
    for name in PICTURES:
        write_bare(draw(name), BASELINE / f"{name}.png")
