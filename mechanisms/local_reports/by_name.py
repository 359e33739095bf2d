"""The randomizers of the local model, by name."""

from __future__ import annotations

import accountant as ac
from mechanisms.local_reports.collision import CollisionReports
from mechanisms.local_reports.randomized_response import RandomizedBits
from mechanisms.local_reports.randomizer import Estimate, LocalRandomizer, MalformedReport
from mechanisms.local_reports.separation import SeparationReports
from mechanisms.validation import check_count

__all__ = [
    "CollisionReports",
    "Estimate",
    "LocalRandomizer",
    "MalformedReport",
    "RandomizedBits",
    "SeparationReports",
    "local_randomizer",
]

NAMES = ("randomized-response", "collision", "separation", "best")


def local_randomizer(
    name: str,
    *,
    queries: int,
    classes: int,
    epsilon: float,
    neighbours: int = 1,
    label_ones: int = 1,
    buckets: int | None = None,
) -> LocalRandomizer:
    """The randomizer of that name for records that give their label to their nearest queries.

    Parameters
    ----------
    name : str
        "randomized-response", "collision", "separation", or "best": whichever of the three has the smallest variance,
        averaged over the entries, which depends on no data.
    queries, classes : int
        s and the number of classes; an entry is ``query * classes + class``.
    epsilon : float
        Pure-DP parameter of one report, in nats.
    neighbours, label_ones : int
        k and r: how many queries a record answers, and how many ones its label has; exactly, not at most.
    buckets : int, optional
        For "collision" only: the number of buckets instead of the one of smallest variance.

    Raises
    ------
    accountant.ParameterError
        A value is out of range, or the name is "concatenation".
    """
    queries, classes = check_count("queries", queries, 1), check_count("classes", classes, 1)
    neighbours = check_count("neighbours", neighbours, 1, queries)
    label_ones = check_count("label_ones", label_ones, 1, classes)
    domain, nonzeros = queries * classes, neighbours * label_ones
    if name == "concatenation":
        raise ac.ParameterError(
            f"mechanism = 'concatenation'; accepted: {', '.join(NAMES)}. One report on queries and labels side by side "
            "carries no information on their product: where both are true, the product of its two estimates has mean "
            "-(1/l)/(p-1/l), not 1"
        )
    if name not in NAMES:
        raise ac.ParameterError(f"mechanism = {name!r}; accepted: {', '.join(NAMES)}")
    if buckets is not None and name != "collision":
        raise ac.ParameterError(f"buckets = {buckets} with mechanism = {name!r}; accepted: None, or 'collision'")
    if name == "randomized-response":
        return RandomizedBits(domain, nonzeros, epsilon)
    if name == "collision":
        return CollisionReports(domain, nonzeros, epsilon, buckets)
    separation = SeparationReports(queries, classes, neighbours, label_ones, epsilon)
    if name == "separation":
        return separation
    flat: list[LocalRandomizer] = [
        RandomizedBits(domain, nonzeros, epsilon),
        CollisionReports(domain, nonzeros, epsilon),
        separation,
    ]
    return min(flat, key=lambda randomizer: randomizer.mean_variance)
