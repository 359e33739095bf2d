"""Events of the reference files, built from their entries."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import accountant as ac

HERE = Path(__file__).parent


def load(name: str) -> dict[str, list[dict[str, Any]]]:
    values: dict[str, list[dict[str, Any]]] = json.loads((HERE / f"{name}.json").read_text())
    return values


def _screening(entry: dict[str, Any]) -> ac.Event:
    return ac.NoisyScreening(
        float(entry["sigma"]), float(entry["threshold"]), entry["highest"], min_votes=entry["lowest"]
    )


def _gaussian(entry: dict[str, Any]) -> ac.Event:
    return ac.Gaussian(float(entry["sigma"]), float(entry.get("sensitivity", 1)))


def _laplace(entry: dict[str, Any]) -> ac.Event:
    return ac.Laplace(float(entry["scale"]), float(entry.get("sensitivity", 1)), entry.get("coordinates", 1))


def _response(entry: dict[str, Any]) -> ac.Event:
    # where "epsilon" is the argument of a profile, the parameter is called "local_epsilon"
    return ac.RandomizedResponse(_local(entry), entry.get("bits", 1))


def _local(entry: dict[str, Any]) -> float:
    return float(entry.get("local_epsilon", entry["epsilon"]))


def _sampled(make: Callable[[dict[str, Any]], ac.Event]) -> Callable[[dict[str, Any]], ac.Event]:
    return lambda entry: ac.PoissonSubsampled(make(entry), float(entry["rate"]))


MAKE: dict[str, Callable[[dict[str, Any]], ac.Event]] = {
    "gaussian": _gaussian,
    "laplace": _laplace,
    "randomized_response": _response,
    "pure_dp": lambda entry: ac.PureDP(float(entry["epsilon"])),
    "screening": _screening,
    "collision": lambda entry: ac.Collision(
        float(entry.get("local_epsilon", entry["epsilon"])), entry["nonzeros"], entry["buckets"]
    ),
    "poisson_gaussian": _sampled(_gaussian),
    "poisson_screening": _sampled(_screening),
    "poisson_laplace": _sampled(_laplace),
    "poisson_laplace_exact": _sampled(_laplace),
    "poisson_laplace_generic_bound": _sampled(_laplace),
    "poisson_randomized_response": _sampled(_response),
    "kary_response": lambda entry: ac.KaryRandomizedResponse(_local(entry), entry["categories"], "add-remove"),
    "approximate_dp": lambda entry: ac.ApproximateDP(_local(entry), float(entry["told"])),
    "poisson_approximate_dp": _sampled(lambda entry: ac.ApproximateDP(_local(entry), float(entry["told"]))),
    "exponential_mechanism": lambda entry: ac.ExponentialMechanism(_local(entry)),
    "poisson_exponential_mechanism": _sampled(lambda entry: ac.ExponentialMechanism(_local(entry))),
    "poisson_gaussian_group": lambda entry: ac.Group(_sampled(_gaussian)(entry), entry["size"]),
    "poisson_zcdp_generic": _sampled(lambda entry: ac.ZeroConcentratedDP(float(entry["rho"]))),
    "gnmax_data_dependent": lambda entry: ac.DataDependentGNMax(float(entry["sigma"]), entry["votes"]),
    "lnmax_data_dependent": lambda entry: ac.DataDependentLNMax(float(entry["scale"]), entry["votes"]),
    "screening_data_dependent": lambda entry: ac.DataDependentScreening(
        float(entry["sigma"]), float(entry["threshold"]), entry["count"]
    ),
}
