"""A picture of a proposal: the best forecast by number of queries, or by what else was varied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mechanisms.forecast.proposal import Proposal
from mechanisms.validation import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_proposal"]

VARIED = {
    "private-knn": ("queries", "sampling_rate"),
    "ind-knn": ("vote_sigma", "threshold"),
    "reverse-knn": ("queries", "n_neighbors"),
}
"""What stands on the horizontal axis, and what every line has in common."""

NAMES = {
    "queries": "queries",
    "sampling_rate": "sampling rate",
    "vote_sigma": "noise of votes",
    "threshold": "threshold",
    "n_neighbors": "neighbours",
}

MARKERS = "os^DvPX*<>"


def draw_proposal(proposal: Proposal) -> Axes:
    """Expected right labels of all points (lines) and accuracy of the answers (dashed), in percent.

    Every point is the best setting for its value; other parameters are free.

    Raises
    ------
    accountant.MissingExtra
        matplotlib is not installed.
    """
    require("matplotlib", "plots")
    from matplotlib.figure import Figure

    axes = Figure(figsize=(7.6, 4.4), layout="constrained").subplots()
    best = proposal.best
    across, along = VARIED[best.mechanism]
    for number, line in enumerate(proposal.by(along)):
        value = line.parameters.get(along)
        same = Proposal(tuple(each for each in proposal.forecasts if each.parameters.get(along) == value))
        points = same.by(across)
        x = [each.queries if across == "queries" else each.parameters[across] for each in points]
        marker, label = MARKERS[number % len(MARKERS)], f"{NAMES[along]} {value:.3g}"
        (drawn,) = axes.plot(x, [100 * each.reach for each in points], marker=marker, label=label)
        accuracies = [100 * each.accuracy for each in points]
        axes.plot(x, accuracies, color=drawn.get_color(), linestyle="--", linewidth=0.9, alpha=0.6)
    axes.set_xscale("log")
    axes.set_xlabel(NAMES[across])
    axes.set_ylabel("expected right labels, percent")
    axes.set_title(f"{best.mechanism} at epsilon {best.epsilon:.3g}: all points (lines), answers (dashed)", loc="left")
    axes.grid(True, linewidth=0.4)
    axes.legend()
    return axes
