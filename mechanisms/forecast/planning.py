"""Which setting to run: forecasts over a grid of settings at one guarantee, from public points alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

import accountant as ac
from mechanisms.federation.client import MODELS
from mechanisms.federation.trust_models import NOISES
from mechanisms.forecast.individual_knn import IndividualKNNGrid, forecast_individual_knn
from mechanisms.forecast.private_knn import PrivateKNNGrid, forecast_private_knn
from mechanisms.forecast.proposal import ASSUMPTIONS, ROUNDS_ASSUMPTION, Forecast, Proposal
from mechanisms.forecast.reverse_knn import ReverseKNNGrid, forecast_reverse_knn
from mechanisms.forecast.sample import PublicSample
from mechanisms.phases import phase
from mechanisms.validation import check_count, check_positive, check_rate, check_real

__all__ = ["PLANNED", "default_delta", "plan_labelling"]

GRIDS: dict[str, Any] = {"private-knn": PrivateKNNGrid, "ind-knn": IndividualKNNGrid, "reverse-knn": ReverseKNNGrid}
FORECASTS: dict[str, Any] = {
    "private-knn": forecast_private_knn,
    "ind-knn": forecast_individual_knn,
    "reverse-knn": forecast_reverse_knn,
}
PLANNED = tuple(GRIDS)
"""Mechanisms that `plan_labelling` knows."""

NAMED: dict[str, tuple[str, ...]] = {
    "noise": tuple(NOISES),
    "kernel": ("cosine", "rbf"),
    "model": tuple(MODELS),
    "randomizer": ("collision", "randomized-response", "best"),
}
"""Values that are names."""

MOST_QUERIES = 6
"""Most default numbers of queries."""


def plan_labelling(
    mechanism: str,
    X: object,
    y: object,
    *,
    epsilon: float,
    n_records: int,
    delta: float | None = None,
    n_classes: int | None = None,
    seed: int = 0,
    **values: Any,
) -> Proposal:
    """What settings of a mechanism will bring at one guarantee, the best first; nothing is spent.

    Labelled public points stand for the private records: they vote for each other, and the chances of the noise are
    exact (`answer_probability`, `pass_probability`). Whatever the forecast is worth, the guarantee holds.

    Parameters
    ----------
    mechanism : {"private-knn", "ind-knn", "reverse-knn"}
    X : array of shape (m, d)
        Public points, in the features that the mechanism will use; at least 20. Of more than 4000 a random choice.
    y : array of shape (m,)
        Their labels, 0..c-1, which must be public, too.
    epsilon : float
        The guarantee, which every setting keeps.
    n_records : int
        A public number of private records.
    delta : float or None
        None: 0 for reverse k-NN, else the largest power of ten that is at most a tenth of one over `n_records`.
    n_classes : int or None
        None takes it from `y`.
    seed : int
        Of the draws of public points.
    **values
        What to compare, one value or several of each: `queries`, `n_neighbors` and `sampling_rate`, `screening_ratio`,
        `threshold`, `max_labels` (both as shares), `rounds` for Private-kNN; `threshold`, `vote_sigma`, `count_share`,
        `kernel` for Ind-KNN; `n_neighbors`, `noise`, `adjacency`, `model`, `randomizer` for reverse k-NN, of which the
        default is the central model. Other defaults are in `mechanisms.forecast`.

    Returns
    -------
    Proposal

    Raises
    ------
    accountant.ParameterError
        A value is not as described, or no setting meets the target.
    """
    if mechanism not in PLANNED:
        raise ac.ParameterError(f"mechanism = {mechanism!r}; accepted: {', '.join(PLANNED)}")
    sample = PublicSample.of(X, y, n_classes, n_records, seed)
    check_positive("epsilon", epsilon)
    delta = default_delta(mechanism, n_records) if delta is None else delta
    least = "[0, 1)" if mechanism == "reverse-knn" else "(0, 1)"
    check_real("delta", delta, least, lambda value: value < 1 and (value > 0 or (value == 0 and least[0] == "[")))
    grid = _make_grid(mechanism, sample, values)
    with phase("comparing settings by public points"):
        found: Iterator[Forecast] = FORECASTS[mechanism](sample, grid, epsilon, delta)
        forecasts = tuple(sorted(found, key=lambda each: (-each.reach, each.queries)))
    several = any(each.rounds > 1 for each in forecasts)
    return Proposal(forecasts, (*ASSUMPTIONS, ROUNDS_ASSUMPTION) if several else ASSUMPTIONS)


def default_delta(mechanism: str, n_records: int) -> float:
    """0 for reverse k-NN; else the largest power of ten that is at most a tenth of one over the number of records."""
    return 0.0 if mechanism == "reverse-knn" else float(f"1e-{math.ceil(math.log10(n_records)) + 1}")


def _make_grid(mechanism: str, sample: PublicSample, values: dict[str, Any]) -> Any:
    """The grid of a mechanism with checked values; one value stands for a tuple of one."""
    kind = GRIDS[mechanism]
    names = [field.name for field in fields(kind)]
    unknown = sorted(set(values) - set(names))
    if unknown:
        raise ac.ParameterError(f"{unknown[0]} = {ac.shorten(values[unknown[0]])}; accepted: {', '.join(names)}")
    given = {}
    for name, value in values.items():
        if value is None:
            continue
        single = name in ("conversion", "adjacency")
        given[name] = value if single else tuple(_check(mechanism, name, each, sample) for each in _several(value))
        if given[name] == ():
            raise ac.ParameterError(f"{name} = {value!r}; accepted: at least one value")
    return kind(**{"queries": _default_queries(mechanism, sample), **given})


def _several(value: Any) -> Iterable[Any]:
    return value if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) else (value,)


def _check(mechanism: str, name: str, value: Any, sample: PublicSample) -> Any:
    """One checked value of a grid."""
    if name == "queries":
        # Ind-KNN asks one after the other, and a public point may stand for several
        return check_count(name, value, 1, 10**6 if mechanism == "ind-knn" else len(sample))
    if name == "rounds":
        return check_count(name, value, 1, 1000)
    if name == "n_neighbors":
        return check_count(name, value, 1, sample.n_records)
    if name == "sampling_rate":
        return check_rate(value)
    if name == "screening_ratio":
        return None if value is None else check_positive(name, value)
    if name in ("threshold", "max_labels"):
        return check_real(name, value, "(0, 1], a share", lambda number: 0 < number <= 1)
    if name in NAMED:
        accepted = NAMED[name]
        if value not in accepted:
            raise ac.ParameterError(f"{name} = {value!r}; accepted: {', '.join(accepted)}")
        return value
    return check_positive(name, value)


def _default_queries(mechanism: str, sample: PublicSample) -> tuple[int, ...]:
    """Numbers of queries, each twice the one before: from about one for each class to half of the points."""
    m, least = len(sample), math.ceil(1.2 * sample.n_classes)
    if mechanism == "ind-knn":
        return (m,)
    return tuple(min(least * 2**i, m) for i in range(MOST_QUERIES) if i == 0 or least * 2**i <= m // 2)
