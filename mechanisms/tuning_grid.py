"""The settings of a tuning: a grid, the mechanism of each of its points, and what that costs at most."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np

import accountant as ac
from mechanisms.individual_knn import IndividualKNN
from mechanisms.individual_votes import worth_of_budget
from mechanisms.noise.source import Randomness
from mechanisms.private_knn import PrivateKNN
from mechanisms.reverse_knn import ReverseKNN
from mechanisms.validation import check_count, check_positive

__all__ = ["Model", "combine", "make_model", "most_spent", "noises_of", "prepare", "renew"]

Model: TypeAlias = PrivateKNN | IndividualKNN | ReverseKNN

MOST_SETTINGS = 1000

SHARE = 0.95
"""Largest share of the public number of records that may be neighbours: that number is right to 5 %."""


def combine(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All combinations of a grid's values.

    Raises
    ------
    accountant.ParameterError
        A name has no values, or there are more than 1000 settings.
    """
    if not isinstance(grid, Mapping):
        raise ac.ParameterError(f"grid = {ac.shorten(grid)}; accepted: a mapping from names to values")
    for name, values in grid.items():
        if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray) or len(values) == 0:
            raise ac.ParameterError(f"grid: {name} = {ac.shorten(values)}; accepted: a list of one value or more")
    if math.prod(len(values) for values in grid.values()) > MOST_SETTINGS:
        raise ac.ParameterError(f"a grid of more than {MOST_SETTINGS} settings; accepted: fewer")
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def make_model(make: Callable[..., Model], setting: dict[str, Any]) -> Model:
    """The mechanism of a setting; its `make` is the user's."""
    try:
        inspect.signature(make).bind(**setting)
    except TypeError as error:
        names = [name for name in inspect.signature(make).parameters if name not in ("rng", "n_classes", "store")]
        raise ac.ParameterError(f"grid of {', '.join(setting)}: {error}; accepted: among {', '.join(names)}") from None
    model: object = make(**setting)
    if not isinstance(model, Model):
        accepted = "a PrivateKNN, IndividualKNN or ReverseKNN"
        raise ac.ParameterError(f"make gave {ac.shorten(model)}; accepted: {accepted}")
    return model


def prepare(model: Model, setting: dict[str, Any], queries: int, records: int) -> None:
    """Fix what must be public, and refuse what depends on private records."""
    refused = {"n_classes": model.n_classes is None, "classes": model.classes is not None}
    if isinstance(model, PrivateKNN):
        refused["clip"] = model.clip is not None
        labels = queries if model.max_labels is None else check_count("max_labels", model.max_labels, 1)
        model.max_labels = min(labels, queries)
        model.n_queries, model.n_records = None, records
        most = max(int(SHARE * records), 1)
        if check_count("n_neighbors", model.n_neighbors, 1) > most:
            accepted = f"at most {most}, {SHARE:.0%} of the public number of records"
            raise ac.ParameterError(f"n_neighbors = {model.n_neighbors} in {setting}; accepted: {accepted}")
    elif isinstance(model, IndividualKNN):
        refused["store"] = model.store is not None
    else:
        check_count("n_queries", model.n_queries, 1, queries)
    for name, wrong in refused.items():
        if wrong:
            accepted = "a public number" if name == "n_classes" else "None"
            raise ac.ParameterError(f"{name} = {ac.shorten(getattr(model, name))} in tuning; accepted: {accepted}")


def most_spent(model: Model, queries: int, records: int, classes: int) -> ac.Composition:
    """The most that one labelling of the public points can spend, once all parameters are checked that `fit` is not."""
    if isinstance(model, PrivateKNN):
        planned = model.planned(queries)
        assert planned is not None  # `prepare` limits the labels
        return planned
    if isinstance(model, IndividualKNN):
        return 1 * worth_of_budget(check_positive("budget", model.budget))
    release = model.course(model.planned(records, classes)).release
    spent: ac.Composition = release.rounds * release.event
    return spent


def noises_of(model: Model, records: int, classes: int) -> list[ac.Event]:
    """Noise that a labelling draws and that could be too wide for exact draws."""
    if isinstance(model, PrivateKNN):
        return [event for event in (model.screening_event, model.vote_event) if event is not None]
    if isinstance(model, IndividualKNN):
        return [ac.Gaussian(model.count_sigma)]
    if isinstance(model, ReverseKNN) and model.model == "central":
        return [model.planned(records, classes).event]
    return []


def renew(model: Any, source: Randomness) -> Any:
    """The mechanism as it is before its first use, drawing from `source`."""
    return type(model)(**{**model.get_params(), "rng": source})
