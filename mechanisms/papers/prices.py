"""What a row of a table or figure costs, or says, by computation alone: no data is needed."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import accountant as ac
from mechanisms.datasets.dataset import name_errors
from mechanisms.individual_knn import IndividualKNN
from mechanisms.local_reports import local_randomizer
from mechanisms.papers.item import ItemError

__all__ = ["PRICES", "compute_price", "digest_votes"]

Numbers = dict[str, float]

MADE_UP_VOTES = ac.plots.MADE_UP_VOTES

ACCEPTED_VOTES = "a .npy file of counts (m, classes), of labels of neighbours (m, k), or of pluralities (m,)"


def compute_price(table: Mapping[str, Any], votes: str | None = None) -> Numbers:
    """The numbers of a price, by quantity.

    Parameters
    ----------
    table : mapping
        ``kind``, one of `PRICES`, and its parameters.
    votes : str or None
        A file with the votes that were cast, for "votes".

    Raises
    ------
    ItemError
        The kind is unknown.
    """
    given = dict(table)
    kind = given.pop("kind", "event")
    if kind not in PRICES:
        raise ItemError(f"price.kind = {kind!r}; accepted: {', '.join(PRICES)}")
    if kind == "votes":
        given["votes"] = votes
    return PRICES[kind](**given)


def _price_plan(plan: str, conversion: ac.Conversion = "classic") -> Numbers:
    """A plan that comes with the package."""
    chosen = ac.load_plan(plan, own=False)
    assert chosen.delta is not None  # built-in plans have one
    return {"epsilon": ac.epsilon(chosen.composition, chosen.delta, conversion=conversion).epsilon}


def _price_event(releases: Any, delta: float, queries: int = 0, conversion: ac.Conversion = "classic") -> Numbers:
    """Releases as in a plan; those without ``count`` are made `queries` times."""
    tables = [{"count": queries, **release} for release in releases]
    run = ac.composition_from_tables(tables)
    return {"epsilon": ac.epsilon(run, delta, conversion=conversion).epsilon}


def _price_votes(
    sigma: float, threshold: float, queries: int, delta: float, classes: int = 10, votes: str | None = None
) -> Numbers:
    """Screenings at the votes that were cast: those of a file, or made-up ones."""
    cast = MADE_UP_VOTES if votes is None else _read_votes(votes, classes)
    counts = Counter(cast[i % len(cast)] for i in range(queries))
    run = ac.Composition((ac.DataDependentScreening(sigma, threshold, count), n) for count, n in counts.items())
    return {"epsilon": ac.epsilon(run, delta, conversion="classic").epsilon}


def digest_votes(path: str) -> str:
    """What tells the votes in a file from others, whatever its name and time of change.

    Raises
    ------
    mechanisms.datasets.DataError
        It cannot be read.
    """
    with name_errors(path, ACCEPTED_VOTES):
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _read_votes(path: str, classes: int) -> tuple[int, ...]:
    """The plurality of each query: from counts (m, c), labels of neighbours (m, k), or pluralities (m,)."""
    with name_errors(path, ACCEPTED_VOTES), open(path, "rb") as stream:
        table = np.load(stream, allow_pickle=False)
        if (
            not isinstance(table, np.ndarray)
            or table.ndim not in (1, 2)
            or table.dtype.kind not in "iuf"
            or not table.size
        ):
            raise ValueError("holds something else")
        if not np.isfinite(table).all() or (table < 0).any() or (table != np.floor(table)).any():
            raise ValueError("holds other numbers than whole ones from 0 on")
        if table.ndim == 2 and table.shape[1] != classes:
            if table.max() >= classes:
                raise ValueError(f"holds the label {table.max():g}, of {classes} classes")
            table = np.stack([np.bincount(row, minlength=classes) for row in table.astype(np.int64)])
    highest = table.max(axis=1) if table.ndim == 2 else table
    return tuple(int(each) for each in highest)


def _price_filter(
    epsilon: float, delta: float, queries: int, conversion: ac.FilterConversion = "renyi", share: float = 3.0
) -> Numbers:
    """Ind-KNN's budget for a target, and the noise of its counts."""
    model = IndividualKNN.for_budget(epsilon, delta, queries, 0.5, 1.0, conversion, share)
    return {
        "budget": model.budget,
        "count_sigma": model.count_sigma,
        "epsilon": model.guarantee(delta, conversion).epsilon,
    }


def _price_training(
    epsilon: float, delta: float, rate: str, steps: int, trainings: int, conversion: ac.Conversion = "classic"
) -> Numbers:
    """Noise for one training that costs `epsilon`, then the price of `trainings` of them; `rate` as "256/50000"."""
    batch, records = map(int, rate.split("/"))
    event_rate = batch / records

    def make(sigma: float) -> ac.Composition:
        return steps * ac.PoissonSubsampled(ac.Gaussian(sigma), event_rate)

    sigma = ac.calibrate(make, epsilon, delta, conversion=conversion)
    return {"epsilon": ac.epsilon(trainings * make(sigma), delta, conversion=conversion).epsilon, "noise": sigma}


def _price_curve(release: Mapping[str, Any], order: float, plurality: int | None = None) -> Numbers:
    """Rényi divergence of one release at an order; of a screening, where one plurality is fixed."""
    table = dict(release)
    if plurality is not None:  # of two neighbouring counts the larger is `plurality` + 1
        table |= {"max_votes": plurality + 1, "min_votes": plurality}
    run = ac.composition_from_tables([{"count": 1, **table}])
    return {"divergence": float(run.renyi(order))}


def _price_plurality(release: Mapping[str, Any], plurality: int, queries: int, delta: float) -> Numbers:
    """Many screenings whose plurality is always the same, or one more."""
    table = {**release, "max_votes": plurality + 1, "min_votes": plurality, "count": queries}
    run = ac.composition_from_tables([table])
    return {"epsilon": ac.epsilon(run, delta, conversion="classic").epsilon}


def _price_report(mechanism: str, epsilon: float, reports: int = 1, **sizes: int) -> Numbers:
    """Error of the counts from local reports: their variance, averaged over the entries, and the deviation.

    `sizes` are those of `local_randomizer`: queries, classes, neighbours and label_ones.
    """
    variance = reports * local_randomizer(mechanism, epsilon=epsilon, **sizes).mean_variance
    return {"variance": variance, "deviation": math.sqrt(variance)}


def _price_radial(cosine: float, square: float = math.exp(1.5)) -> Numbers:
    """The RBF kernel of unit vectors at a cosine; `square` is nu^2."""
    return {"threshold": math.exp(-(2 - 2 * cosine) / square)}


def _price_laplace(epsilon: float, neighbours: int = 1, label_ones: int = 1) -> Numbers:
    """Central reverse k-NN: the price of Laplace noise of scale 2 k r / epsilon on 2 k r counts, and its deviation."""
    moved = 2 * neighbours * label_ones
    event = ac.Laplace(moved / epsilon, coordinates=moved, adjacency=ac.Adjacency.REPLACE)
    return {"epsilon": ac.epsilon(event, 0.0, method="renyi").epsilon, "deviation": math.sqrt(2) * moved / epsilon}


PRICES: dict[str, Callable[..., Numbers]] = {
    "plan": _price_plan,
    "event": _price_event,
    "votes": _price_votes,
    "filter": _price_filter,
    "training": _price_training,
    "curve": _price_curve,
    "plurality": _price_plurality,
    "report": _price_report,
    "radial": _price_radial,
    "laplace": _price_laplace,
}
"""What can be computed without data, by the name that files of items use."""
