"""The registry of deployments (github.com/opendp/deployments-registry-data): records from plans, and their prices.

A record is a file in YAML that follows the registry's `deployments-schema.yaml`: who released what, under which variant
of differential privacy, at which privacy loss, and how it was accounted for.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from accountant.adjacency import Adjacency
from accountant.errors import MissingExtra, PlanError, real, shorten
from accountant.events.composition import Composition
from accountant.events.zero_concentrated import ZeroConcentratedDP
from accountant.guarantee import Guarantee, format_up
from accountant.plain_text import is_plain
from accountant.plan import Plan
from accountant.summary import parameters_in_words

__all__ = ["Repriced", "import_yaml", "make_record", "reprice"]

OPEN = "to be stated by the curator"
"""What stands where only the curator knows."""

NEIGHBOURS = {
    Adjacency.ADD_REMOVE: "Adjacent data sets differ by one {unit} that is in one of them only.",
    Adjacency.REPLACE: "Adjacent data sets have the same size and differ in one {unit}.",
}


class Repriced(NamedTuple):
    """What a record states, and epsilon at the same delta for its rho.

    `stated` is None where the record has no epsilon.
    """

    name: str
    rho: float
    delta: float
    stated: float | None
    price: Guarantee


FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
"""A float of YAML 1.2; one without a point, such as 1e-7, is text to readers of YAML 1.1."""


def import_yaml() -> Any:
    """The package that reads and writes YAML.

    Raises
    ------
    MissingExtra
        It is not installed.
    """
    try:
        import yaml
    except ImportError:
        raise MissingExtra("PyYAML is not installed; accepted: pip install 'knn-accountant[registry]'") from None
    return yaml


def make_record(plan: Plan, price: Guarantee, known: Mapping[str, str]) -> dict[str, Any]:
    """A draft of a record, complete in what the plan says.

    Parameters
    ----------
    plan : Plan
    price : Guarantee
        Of the plan.
    known : mapping
        What the curator states: any of "name", "curator", "sector", "use", "description", "region", "unit", "model"
        and "date".

    Returns
    -------
    dict
        Plain values, in the order of the schema. What only the curator knows says so.
    """
    name = known.get("name", plan.name)
    deployment = {
        "basic": _basic(plan, known, name),
        **_loss(plan, price, known.get("unit", "record")),
        "deployment_model": {
            "model_name": known.get("model", "Central"),
            "actors": OPEN,
            "release_type": "One release",
            "data_source_type": "Static",
            "access_type": "Non-interactive",
        },
        "accounting": {
            "post_processing": OPEN,
            "composition": f"All {plan.composition.releases} releases are composed, adaptively: {price}.",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": OPEN,
            "mechanisms": _releases(plan),
            "justification": OPEN,
        },
        "administrative": {"sources": OPEN, "registry_authors": [known.get("curator", OPEN)]},
    }
    slug = "-".join(re.findall("[a-z0-9]+", name.lower()))
    return {"url_slug": slug or "deployment", "status": "Draft", "tier": 2, "deployment": deployment}


def _basic(plan: Plan, known: Mapping[str, str], name: str) -> dict[str, Any]:
    return {
        "name": name,
        "data_curators": [
            {"data_curator_name": known.get("curator", OPEN), "data_curator_type": known.get("sector", "Industry")}
        ],
        "intended_use": known.get("use", OPEN),
        "data_product_type": "Summary statistics",
        "data_product_region": known.get("region", OPEN),
        "description": known.get("description", plan.description or OPEN),
        "publication_date": known.get("date", datetime.date.today().isoformat()),
        "data_product_sector": "Technology",
    }


def _loss(plan: Plan, price: Guarantee, unit: str) -> dict[str, Any]:
    """Variant and privacy loss; what is rounded is rounded up."""
    rho = find_rho(plan.composition)
    parameters = {"epsilon": price.epsilon, "delta": price.delta, **({} if rho is None else {"rho": rho})}
    variant = "Pure DP" if price.delta == 0.0 else "Zero-concentrated DP" if rho is not None else "Approximate DP"
    return {
        "dp_variant": {"variant_name": variant, "data_domain": OPEN, "unprotected_quantities": OPEN},
        "privacy_loss": {
            "privacy_unit": f"{unit[:1].upper()}{unit[1:]}-level",
            "privacy_unit_details": NEIGHBOURS[plan.composition.adjacency or Adjacency.ADD_REMOVE].format(unit=unit),
            "privacy_parameters": {key: float(format_up(value)) for key, value in parameters.items()},
            "privacy_parameters_details": f"{price}.",
        },
    }


def _releases(plan: Plan) -> str:
    """A line for each release of the plan."""
    lines = []
    for release, line in zip(plan.releases, plan.tables["release"], strict=True):
        sampled = release.event.unsampled is not release.event
        sample = f", each on a Poisson sample at rate {release.event.sampling_rate:g}" if sampled else ""
        words = parameters_in_words(line)
        lines.append(f"- {release.name}: {line['event']} ({words}), {release.count} times{sample}")
    return "\n".join(lines)


def find_rho(run: Composition) -> float | None:
    """The rho of a run whose Rényi curve is a straight line through 0; None of any other."""
    rows = [(event._row(), count) for event, count in run]
    if not rows or any(row is None or row.kind != 0.0 for row, _ in rows):
        return None
    return math.fsum(count * row.slope for row, count in rows if row is not None) * (1 + 4e-16)


def reprice(record: Mapping[str, Any], delta: float | None = None) -> list[Repriced]:
    """Epsilon for the rho that a record states, at the delta that it states, or another.

    Parameters
    ----------
    record : mapping
        A record of any version of the schema.
    delta : float, optional
        In (0, 1); without it the record's own.

    Returns
    -------
    list of Repriced
        One, or none where no rho is stated.

    Raises
    ------
    PlanError
        It is no record, or states no delta and none is given.
    """
    try:
        deployment = record["deployment"]
        loss = deployment.get("privacy_loss", {}).get("privacy_parameters", {})
        basic = deployment.get("basic", deployment.get("product", deployment))
        name = str(basic.get("name", basic.get("short_name", "deployment")))
        name = "".join(each if is_plain(each) else " " for each in name)
        rho, own, epsilon = (_number(loss.get(key)) for key in ("rho", "delta", "epsilon"))
    except (KeyError, TypeError, AttributeError):
        raise PlanError(f"{shorten(record)} is not a record; accepted: a mapping with the key deployment") from None
    if rho is None:
        return []
    at = own if delta is None else delta
    if at is None:
        raise PlanError(f"{name}: states a rho and no delta; accepted: --delta, such as 1e-10")
    rho, point = real("rho", rho, 0.0, 1e100), real("delta", at, 0.0, 1.0, open_low=True, open_high=True)
    from accountant.price import epsilon as price

    found = price(ZeroConcentratedDP(rho), point, method="renyi", conversion="optimal")
    stated = None if epsilon is None else real("epsilon", epsilon, 0.0, 1e300)
    return [Repriced(name, rho, point, stated, found)]


def _number(value: object) -> object:
    return float(value) if isinstance(value, str) and FLOAT.fullmatch(value) else value
