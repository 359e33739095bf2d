"""Figures of papers, drawn again with prices by further routes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from accountant.errors import integer
from accountant.events.composition import Composition
from accountant.events.gaussian import Gaussian
from accountant.events.screening import DataDependentScreening, NoisyScreening
from accountant.events.subsampled import PoissonSubsampled
from accountant.plots.findings import Line
from accountant.plots.prices import epsilon_against_releases

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MADE_UP_VOTES", "screening_costs"]

MADE_UP_VOTES = (210, 150, 300, 180, 120, 240, 150, 270, 180, 210, 90, 240, 150, 270, 180, 120)
"""Largest vote counts of 16 queries with up to 300 votes; made up, hence public."""


def screening_costs(
    *,
    sigma: float = 85.0,
    threshold: float = 210.0,
    max_votes: int = 300,
    rate: float = 0.25,
    releases: int = 8192,
    delta: float = 1e-5,
    pluralities: Sequence[int] = MADE_UP_VOTES,
    tolerance: float = 0.02,
    ax: Axes | None = None,
) -> Axes:
    """Six prices of noisy screenings against their number: the five of Zhu et al. 2020, Fig. 5, and the tight price.

    The five are by the Rényi route with the classic conversion, as printed there: as the Gaussian mechanism, as
    screening, both of them Poisson-subsampled, and as screening priced at the votes that were cast.

    Parameters
    ----------
    sigma, threshold, max_votes
        As for `NoisyScreening`.
    rate : float
        Sampling rate.
    releases : int
    delta : float
    pluralities : sequence of int
        The votes that were cast, in order, repeated as needed. The paper prints none; its authors' repository lists a
        file of them, ``privacy_analysis/knn_num_neighbor_300_figure_knn_voting.npy``.
    tolerance : float
        Width of tight intervals, relative to their upper ends.
    ax : Axes, optional
    """
    said = "made-up votes" if pluralities is MADE_UP_VOTES else "votes that were cast"
    screening, gaussian = NoisyScreening(sigma, threshold, max_votes), Gaussian(sigma)
    votes = [integer("pluralities", count, 0, 10**12) for count in pluralities]

    def cast(n: float) -> Composition:
        rounds, rest = divmod(int(n), len(votes))
        counts = Counter(votes * min(rounds, 1))
        first = Counter(votes[:rest])
        return Composition(
            (DataDependentScreening(sigma, threshold, count), rounds * counts[count] + first[count])
            for count in counts | first
        )

    lines = [
        Line("Gaussian", gaussian, "classic"),
        Line("subsampled Gaussian", PoissonSubsampled(gaussian, rate), "classic"),
        Line("screening", screening, "classic"),
        Line(f"screening, at {said}", cast, "classic"),
        Line("subsampled screening", PoissonSubsampled(screening, rate), "classic"),
        Line("subsampled screening", PoissonSubsampled(screening, rate), "tight"),
    ]
    return epsilon_against_releases(lines, releases, delta=delta, tolerance=tolerance, ax=ax)
