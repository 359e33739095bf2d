"""What Flower's accountants compose, as events and as lines of plans; needs no Flower."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, integer, real, shorten
from accountant.events import ClippedSum, Gaussian
from accountant.events.event import Event
from accountant.events.subsampled import PoissonSubsampled

__all__ = ["event_of_flower", "tables_of_flower"]

POISSON, WITHOUT, PLAIN = "poisson", "without-replacement", "no-amplification"


def event_of_flower(sampling: str, relation: str, noise: float, sample: int, population: int) -> Event:
    """One release: the sum of clipped updates of sampled clients, with Gaussian noise.

    Parameters
    ----------
    sampling : {"poisson", "without-replacement", "no-amplification"}
        What was drawn without replacement is priced as if everybody had taken part.
    relation : {"add-or-remove-one", "replace-one"}
    noise : float
        Standard deviation of the noise in units of the clipping norm.
    sample, population : int
        Clients that take part (on average, if Poisson) and all clients.

    Raises
    ------
    ParameterError
        A value is not accepted.
    """
    count = integer("population_size", population, 1, 10**18)
    rate = integer("sample_size", sample, 1, count) / count
    if (sampling, relation) == (POISSON, "add-or-remove-one"):
        return PoissonSubsampled(Gaussian(noise), rate)
    if (sampling, relation) == (PLAIN, "add-or-remove-one"):
        return Gaussian(noise)
    if (sampling, relation) == (WITHOUT, "replace-one"):
        return ClippedSum(noise, adjacency=Adjacency.REPLACE)
    raise ParameterError(
        f"sampling {shorten(sampling)} with neighbours {shorten(relation)}; accepted: poisson or no-amplification with "
        "add-or-remove-one, without-replacement with replace-one"
    )


def tables_of_flower(state: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a plan, from the state of an accountant (schema version 1).

    Raises
    ------
    ParameterError
        The state is not of that form, or a number is out of range.
    """
    if state.get("schema_version") != 1:
        raise ParameterError(f"schema_version = {shorten(state.get('schema_version'))}; accepted: 1")
    try:
        config = state["config"]
        sampling, relation = config["sampling_method"], config["neighboring_relation"]
        delta = real("target_delta", config["target_delta"], 0.0, 1.0, open_high=True)
        if not isinstance(state["compositions"], list | tuple):
            raise TypeError(f"compositions = {shorten(state['compositions'])}")
        parts = [(entry["event"], entry["count"]) for entry in state["compositions"]]
        numbers = [(each["noise_multiplier"], each["sample_size"], each["population_size"]) for each, _ in parts]
        population = config["population_size"]
    except (KeyError, TypeError) as error:
        raise ParameterError(
            f"state is not that of an accountant ({error}); accepted: what state_dict() of a Flower accountant returns"
        ) from None
    lines = []
    for index, (values, (_, count)) in enumerate(zip(numbers, parts, strict=True), 1):
        if values[-1] != population:
            raise ParameterError(
                f"population_size = {shorten(values[-1])} of an event; accepted: {shorten(population)}, as in config"
            )
        event = event_of_flower(sampling, relation, *values)
        lines.append({"name": f"rounds-{index}", **event.to_table(), "count": count})
    adjacency = Adjacency.REPLACE if relation == "replace-one" else Adjacency.ADD_REMOVE
    return {"delta": delta, "adjacency": adjacency.value, "release": lines}
