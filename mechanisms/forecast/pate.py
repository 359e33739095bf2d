"""Forecasts of PATE from votes that are public or assumed: right answers, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import accountant as ac
from mechanisms.arrays import Floats, Integers
from mechanisms.datasets.dataset import MAX_CLASSES
from mechanisms.forecast.proposal import ESTIMATORS, Forecast, Proposal
from mechanisms.forecast.screenings import Screening, combine_screenings
from mechanisms.labelling import least_noise
from mechanisms.pate import GNMax, LNMax
from mechanisms.validation import check_count, check_labels, check_positive, check_real
from mechanisms.vote_chances import answer_probability, expected_answers, pass_probability

__all__ = ["VOTE_ASSUMPTIONS", "PateGrid", "gap_votes", "plan_votes"]

VOTE_ASSUMPTIONS = (
    "teachers will vote as the given votes say, which are public or assumed",
    "the queries are like those of the given votes",
    "where no right labels are given, the plurality of the teachers is right",
)
"""What a forecast from votes takes for granted."""

MOST_VOTES = 10**7

KINDS = ("gnmax", "lnmax")


@dataclass(frozen=True)
class PateGrid:
    """Values to compare.

    Parameters
    ----------
    queries : tuple of int
    mechanism : tuple of str
        "gnmax" and "lnmax".
    screening_ratio : tuple of float or None
        Noise of the screening over that of a vote (its standard deviation, or scale); None is no screening.
    threshold : tuple of float
        Votes that pass the screening, as shares of the teachers.
    max_labels : tuple of float
        With screening, most answers as shares of the queries.
    """

    queries: tuple[int, ...]
    mechanism: tuple[str, ...] = ("gnmax", "lnmax")
    screening_ratio: tuple[float | None, ...] = (None, 3.0)
    threshold: tuple[float, ...] = (0.5, 0.6)
    max_labels: tuple[float, ...] = (0.5,)

    def screenings(self, queries: int) -> Iterator[Screening]:
        """As `combine_screenings`."""
        return combine_screenings(self.screening_ratio, self.threshold, self.max_labels, queries)


def gap_votes(gaps: Sequence[int], n_teachers: int, n_classes: int) -> Integers:
    """Votes of teachers of which the plurality leads every other class by a gap, as nearly as whole votes can.

    The votes that are not the lead are shared evenly; with ``n_teachers - gap`` not divisible by the classes the first
    classes after the plurality get one less than the gap says.

    Raises
    ------
    accountant.ParameterError
        A gap is no whole number in 0..n_teachers, or the classes are fewer than 2 or more than 32768.
    """
    teachers, classes = check_count("n_teachers", n_teachers, 1), check_count("n_classes", n_classes, 2, MAX_CLASSES)
    rows = np.empty((len(gaps), classes), np.int64)
    for row, gap in zip(rows, gaps, strict=True):
        lead = check_count("gap", gap, 0, teachers)
        each, left = divmod(teachers - lead, classes)
        row[:] = each
        row[1 : 1 + left] += 1
        row[0] += lead
    return rows


def plan_votes(
    votes: object,
    *,
    epsilon: float,
    delta: float,
    labels: object = None,
    queries: int | Sequence[int] = (100, 300, 1000),
    mechanism: str | Sequence[str] = ("gnmax", "lnmax"),
    least_accuracy: float = 0.9,
    **values: Any,
) -> Proposal:
    """What settings of PATE will bring at one guarantee, from votes of the teachers; nothing is spent.

    Each row of `votes` is a kind of query, and all are equally frequent. The chances of the noise are exact
    (`answer_probability`, `pass_probability`, `expected_answers`), and so is the price, which is fixed before a run.
    Do not give private votes: what is returned would be private.

    Parameters
    ----------
    votes : array of shape (m, c)
        Votes for each class, of teachers trained on public records, of an earlier run that is public, or assumed
        (`gap_votes`). Rows have the same sum, the number of teachers.
    epsilon, delta : float
        The guarantee, which every setting keeps.
    labels : int array of shape (m,), optional
        The right labels; None takes the plurality for right.
    queries : int or sequence of int
        Numbers of queries to compare.
    mechanism : str or sequence of str
        "gnmax", "lnmax" or both.
    least_accuracy : float
        Share of right answers that is good enough.
    **values
        `screening_ratio`, `threshold`, `max_labels` as for Private-kNN in `plan_labelling`, `threshold` as a share of
        the teachers.

    Returns
    -------
    Proposal
        First the settings that are accurate enough, by falling `reach`: the expected number of right answers as a share
        of the largest number of queries. Then the others, the most accurate first.

    Raises
    ------
    accountant.ParameterError
        A value is not as described, or no setting meets the target.
    """
    table, teachers = _read_votes(votes)
    right = table.argmax(axis=1) if labels is None else check_labels(labels, len(table), table.shape[1])[0]
    epsilon = check_positive("epsilon", epsilon)
    enough = check_real("least_accuracy", least_accuracy, "[0, 1]", lambda value: 0 <= value <= 1)
    delta = check_real("delta", delta, "(0, 1)", lambda value: 0 < value < 1)
    grid = _make_grid(queries, mechanism, values)
    votes_seen = _Votes(table, right, teachers, max(grid.queries))
    found = [
        forecast
        for name, count in product(grid.mechanism, grid.queries)
        for screening in grid.screenings(count)
        if (forecast := votes_seen.forecast(name, count, screening, (epsilon, delta))) is not None
    ]

    def rank(each: Forecast) -> tuple[bool, float, int]:
        good = each.accuracy >= enough
        return not good, -(each.reach if good else each.accuracy), each.queries

    return Proposal(tuple(sorted(found, key=rank)), VOTE_ASSUMPTIONS)


@dataclass(frozen=True, eq=False)
class _Votes:
    """Votes with their right labels, and what settings make of them."""

    table: Floats
    labels: Integers
    teachers: int
    most: int

    def forecast(
        self, name: str, queries: int, screening: tuple[float | None, float | None, int], target: tuple[float, float]
    ) -> Forecast | None:
        """The setting with the least noise that meets the target; None if none does."""
        epsilon, delta = target
        ratio, share, answers_most = screening
        model: dict[str, Any] = {
            "n_teachers": self.teachers,
            "n_classes": self.table.shape[1],
            "max_labels": answers_most,
        }
        model["threshold"] = None if share is None else share * self.teachers

        def at(noise: float) -> GNMax | LNMax:
            scale = {"sigma" if name == "gnmax" else "scale": noise}
            found: GNMax | LNMax = ESTIMATORS[name](
                **model, **scale, screening_sigma=None if ratio is None else ratio * noise
            )
            return found

        route: dict[str, Any] = {"method": "renyi" if ratio else "auto", "conversion": "improved", "tolerance": 1e-3}
        try:
            noise = least_noise(lambda value: at(value).planned(queries), epsilon, delta, self.teachers / 10, **route)
        except ac.CalibrationError:
            return None
        labeller = at(noise)
        event, planned = labeller.screening_event, labeller.planned(queries)
        assert planned is not None  # the settings limit the labels
        passes = np.ones(len(self.table)) if event is None else pass_probability(event, self.table)
        answers = expected_answers(np.full(queries, passes.mean()), answers_most)
        right = float(passes @ answer_probability(labeller.vote_event, self.table, self.labels))
        accuracy = right / max(float(passes.sum()), 1e-300)
        price = ac.epsilon(planned, delta, **route).epsilon
        kept = {key: value for key, value in labeller.get_params().items() if value is not None}
        reach = accuracy * answers / self.most
        return Forecast(name, kept, queries, answers, accuracy, reach, price, delta, float(len(self.table)))


def _read_votes(votes: object) -> tuple[Floats, int]:
    """Votes as a table, and the number of teachers."""
    try:
        table = np.asarray(votes, dtype=np.float64)
    except (TypeError, ValueError):
        raise ac.ParameterError(f"votes = {ac.shorten(votes)}; accepted: numbers") from None
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] < 2:
        raise ac.ParameterError(f"votes have shape {table.shape}; accepted: (m, c), a number for each class")
    if not ((table >= 0) & (table <= MOST_VOTES) & (table == np.floor(table))).all():
        raise ac.ParameterError(f"votes are not all whole numbers in range; accepted: 0..{MOST_VOTES}")
    sums = table.sum(axis=1)
    if not (sums == sums[0]).all() or sums[0] < 1:
        found = f"from {sums.min():g} to {sums.max():g}"
        raise ac.ParameterError(f"votes of a query add up to {found}; accepted: the number of teachers in all rows")
    return table, int(sums[0])


def _make_grid(queries: Any, mechanism: Any, values: dict[str, Any]) -> PateGrid:
    """The values to compare, checked; one value stands for a tuple of one."""
    names = ("screening_ratio", "threshold", "max_labels")
    unknown = sorted(set(values) - set(names))
    if unknown:
        raise ac.ParameterError(f"{unknown[0]} = {ac.shorten(values[unknown[0]])}; accepted: {', '.join(names)}")
    counts = tuple(check_count("queries", value, 1, 10**6) for value in _several(queries))
    kinds = _several(mechanism)
    for value in kinds:
        if value not in KINDS:
            raise ac.ParameterError(f"mechanism = {value!r}; accepted: {', '.join(KINDS)}")
    given: dict[str, Any] = {}
    for name, value in values.items():
        if name == "screening_ratio":
            given[name] = tuple(None if each is None else check_positive(name, each) for each in _several(value))
        else:
            given[name] = tuple(
                check_real(name, each, "(0, 1], a share", lambda number: 0 < number <= 1) for each in _several(value)
            )
    for name, found in {"queries": counts, "mechanism": kinds, **given}.items():
        if not found:
            raise ac.ParameterError(f"{name} = (); accepted: at least one value")
    return PateGrid(counts, kinds, **given)


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) else (value,)
