"""What a forecast says of one setting, and of all that were compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import accountant as ac
from mechanisms.individual_knn import IndividualKNN
from mechanisms.pate import GNMax, LNMax
from mechanisms.private_knn import PrivateKNN
from mechanisms.reverse_knn import ReverseKNN

__all__ = ["ASSUMPTIONS", "Forecast", "Proposal"]

ASSUMPTIONS = (
    "public points and private records are independent draws of one distribution, and public labels are right",
    "queries are public points of that distribution, too",
    "the number of private records is the one that was given",
)
"""What every forecast takes for granted. The guarantee holds whether or not it is true."""

ROUNDS_ASSUMPTION = "of several rounds one is forecast, as if a student's features were as good as the given ones"

ESTIMATORS: dict[str, Any] = {
    "private-knn": PrivateKNN,
    "ind-knn": IndividualKNN,
    "reverse-knn": ReverseKNN,
    "gnmax": GNMax,
    "lnmax": LNMax,
}


@dataclass(frozen=True, eq=False)
class Forecast:
    """What one setting is expected to bring, and its price.

    Attributes
    ----------
    mechanism : {"private-knn", "ind-knn", "reverse-knn", "gnmax", "lnmax"}
    parameters : dict
        Of the estimator.
    queries : int
        Points that are asked about.
    answers : float
        Expected number of answered queries.
    accuracy : float
        Expected share of right labels among the answers.
    reach : float
        Expected share of right labels if every public point takes the label of the nearest answered query: what number
        and quality of answers are worth together, and a cautious guess of a student's accuracy. From votes alone
        (`plan_votes`): right answers as a share of the largest number of queries.
    epsilon, delta : float
        The price, fixed before a run.
    support : float
        Public points that stand for the records which decide one answer; below about 10 the forecast is rough. From
        votes alone: the number of rows of votes.
    rounds : int
        Rounds that ask so many queries each, all within the price. `answers`, `accuracy` and `reach` are of one round,
        in the features that were given.
    """

    mechanism: str
    parameters: dict[str, Any]
    queries: int
    answers: float
    accuracy: float
    reach: float
    epsilon: float
    delta: float
    support: float
    rounds: int = 1

    def estimator(self, **more: Any) -> Any:
        """The mechanism with these parameters, and others such as `rng`."""
        return ESTIMATORS[self.mechanism](**{**self.parameters, **more})


@dataclass(frozen=True, eq=False)
class Proposal:
    """All settings that were compared, the best first; nothing was spent.

    Attributes
    ----------
    forecasts : tuple of Forecast
        By falling `reach`.
    assumptions : tuple of str
    """

    forecasts: tuple[Forecast, ...]
    assumptions: tuple[str, ...] = field(default=ASSUMPTIONS)

    def __post_init__(self) -> None:
        if not self.forecasts:
            raise ac.ParameterError("0 settings meet the target; accepted: a larger epsilon, or other values to try")

    @property
    def best(self) -> Forecast:
        """The setting of largest `reach`."""
        return self.forecasts[0]

    def by(self, parameter: str) -> tuple[Forecast, ...]:
        """The best setting for each value of a parameter (or "queries", "rounds"), in the order of these values."""
        found: dict[Any, Forecast] = {}
        for each in self.forecasts:
            own = parameter in ("queries", "rounds")
            value = getattr(each, parameter) if own else each.parameters.get(parameter)
            found.setdefault(value, each)
        return tuple(found[value] for value in sorted(found, key=lambda value: (value is not None, value)))
