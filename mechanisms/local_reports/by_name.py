"""The randomizers of the local model, by name."""

from __future__ import annotations

import accountant as ac
from mechanisms.local_reports.collision import CollisionReports
from mechanisms.local_reports.randomized_response import RandomizedBits
from mechanisms.local_reports.randomizer import LocalRandomizer
from mechanisms.local_reports.separation import SeparationReports
from mechanisms.validation import check_count

__all__ = ["local_randomizer"]

RANDOMIZER_NAMES = ("randomized-response", "collision", "separation", "best")


def local_randomizer(
    name: str,
    *,
    queries: int,
    classes: int,
    epsilon: float,
    neighbours: int = 1,
    label_ones: int = 1,
) -> LocalRandomizer:
    """The randomizer of that name for records that report their label for their nearest queries.

    Parameters
    ----------
    name : str
        "randomized-response", "collision", "separation", or "best": the one of the three with the smallest
        variance averaged over the entries, which depends on no data.
    queries, classes : int
        s and the number of classes; an entry is ``query * classes + class``.
    epsilon : float
        Pure-DP parameter of one report, in nats.
    neighbours, label_ones : int
        k and r: how many queries a record answers, and how many ones its label has; exactly, not at most.

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
            f"randomizer = 'concatenation'; accepted: {', '.join(RANDOMIZER_NAMES)}. One report on queries and labels "
            "side by side carries no information on their product: if both are true, the product of its two estimates "
            "has mean -(1/l)/(p-1/l), not 1"
        )
    if name not in RANDOMIZER_NAMES:
        raise ac.ParameterError(f"randomizer = {name!r}; accepted: {', '.join(RANDOMIZER_NAMES)}")
    if name == "randomized-response":
        return RandomizedBits(domain, nonzeros, epsilon)
    if name == "collision":
        return CollisionReports(domain, nonzeros, epsilon)
    separation = SeparationReports(queries, classes, neighbours, label_ones, epsilon)
    if name == "separation":
        return separation
    choices: list[LocalRandomizer] = [
        RandomizedBits(domain, nonzeros, epsilon),
        CollisionReports(domain, nonzeros, epsilon),
        separation,
    ]
    return min(choices, key=lambda randomizer: randomizer.mean_variance)
