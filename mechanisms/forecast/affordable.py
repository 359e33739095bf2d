"""How many queries a budget pays for, with the noise as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import accountant as ac
from mechanisms.labelling import Labeller
from mechanisms.validation import check_count

__all__ = ["affordable_queries"]


def affordable_queries(
    labeller: Labeller, epsilon: float, delta: float, most: int = 10**6, conversion: ac.Conversion = "improved"
) -> int:
    """The most queries that a labeller can be asked within (epsilon, delta); nothing is spent.

    Screening and votes have the labeller's noise. At most its `max_labels` queries are answered; without, all of them
    may be. Ind-KNN answers every query within its budget, and reverse k-NN pays for rounds, whatever their queries.

    Parameters
    ----------
    labeller : PrivateKNN, GNMax or LNMax
        Need not be fitted.
    epsilon, delta : float
    most : int
        The search ends there; [0, 1e12].
    conversion : {"improved", "classic", "optimal"}
        As for `accountant.epsilon`, whose Rényi route gives the prices.

    Returns
    -------
    int
        0 if one query costs too much.

    Raises
    ------
    accountant.ParameterError
        The labeller is another object, or a number is out of range.
    """
    if not isinstance(labeller, Labeller):
        raise ac.ParameterError(f"labeller = {ac.shorten(labeller)}; accepted: PrivateKNN, GNMax or LNMax")
    if not isinstance(epsilon, int | float) or not epsilon > 0:
        raise ac.ParameterError(f"epsilon = {ac.shorten(epsilon)}; accepted: above 0")
    highest = check_count("most", most, 0)
    plan = labeller._plan_of()

    def fits(count: int) -> bool:
        answers = count if plan.max_labels is None else plan.max_labels
        run: Any = replace(plan, max_labels=answers).most(count)
        return bool(ac.epsilon(run, delta, method="renyi", conversion=conversion).epsilon <= epsilon)

    low, high = 0, min(1, highest)
    while high > low and fits(high):
        low, high = high, min(2 * high, highest)
    # `low` fits; `high` does not, or is the most, which fits
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
