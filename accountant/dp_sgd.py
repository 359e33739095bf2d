"""DP-SGD from a training recipe: the run, its price, and the noise for a target."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from accountant.adjacency import Adjacency, as_adjacency
from accountant.errors import DeltaWarning, ParameterError, caution_of_delta, integer, is_one_of, real, shorten
from accountant.events.clipped_sum import ClippedSum
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.fixed_size import FixedSizeSampled
from accountant.events.gaussian import Gaussian
from accountant.events.subsampled import PoissonSubsampled
from accountant.guarantee import Guarantee
from accountant.plan_lines import steps_of
from accountant.price import epsilon as price
from accountant.samplers.random_allocation import RandomAllocation
from accountant.samplers.shuffled_epoch import ShuffledEpoch
from accountant.targets import calibrate

if TYPE_CHECKING:
    from accountant.plan import Plan

__all__ = ["SAMPLERS", "PrivateTraining", "dp_sgd"]

MOST = 10**15
"""Largest number of records."""

SAMPLERS = {
    "poisson": "each record joins each step on its own, in secret",
    "fixed-size": "each step draws {batch} distinct records anew, all such batches equally likely, in secret",
    "random-allocation": "each record joins one step of every {length} steps, drawn uniformly; which one stays secret",
    "shuffle": "each record is in one step of every {length} steps, in a random order, and no amplification is proven",
}
"""What is assumed of samplers."""

SHOWN = {
    "poisson": "Poisson sampling",
    "fixed-size": "batches of a fixed size",
    "random-allocation": "random allocation",
    "shuffle": "shuffled epochs",
}

STEPWISE = ("poisson", "fixed-size")
"""Samplers that draw every step by itself; the others draw an epoch."""

RELATIONS = {
    "random-allocation": Adjacency.ADD_REMOVE,
    "shuffle": Adjacency.REPLACE,
    "fixed-size": Adjacency.REPLACE,
}
"""The one adjacency under which a sampler is priced: a record that is taken out of a shuffle, or of what batches of a
fixed size are drawn from, changes all others' places."""


@dataclass(frozen=True)
class PrivateTraining:
    """A DP-SGD training and what it costs; made by `dp_sgd`.

    Attributes
    ----------
    records, batch : int
    phases : tuple of (float, int)
        Noise multiplier and number of steps of each phase, in order.
    planned : int
        Number of steps of the whole training; `steps` may be fewer, after a stop.
    delta : float
    adjacency : Adjacency
    sampler : {"poisson", "fixed-size", "random-allocation", "shuffle"}
    epochs : float or None
        Passes over the data of the planned steps, where the number of steps was made of these.
    guarantee : Guarantee
        The price of `run`: between certified ends where the tight route can say so.
    renyi : Guarantee
        Its price by the Rényi route, for comparison with programs that know no other.
    """

    records: int
    batch: int
    phases: tuple[tuple[float, int], ...]
    planned: int
    delta: float
    adjacency: Adjacency
    tolerance: float
    guarantee: Guarantee = field(compare=False)
    renyi: Guarantee = field(compare=False)
    sampler: str = "poisson"
    epochs: float | None = None

    @property
    def sigma(self) -> float:
        """The noise multiplier: standard deviation of the noise over the clipping norm.

        Raises
        ------
        ParameterError
            Phases have different ones.
        """
        found = {sigma for sigma, _ in self.phases}
        if len(found) > 1:
            raise ParameterError(f"sigma of {len(self.phases)} phases; accepted: .phases, which has that of each")
        return found.pop()

    @property
    def rate(self) -> float:
        """Probability with which a record joins a step: batch / records, or one of `epoch_steps`."""
        return self._recipe.rate

    @property
    def epoch_steps(self) -> int:
        """Steps of one epoch: records / batch, rounded down where each record joins exactly one of them."""
        return self._recipe.length

    @property
    def _recipe(self) -> Recipe:
        return Recipe(self.records, self.batch, self.adjacency, self.sampler)

    @property
    def assumption(self) -> str:
        """What the price assumes of the sampler."""
        told = SAMPLERS[self.sampler].format(batch=self.batch, length=self.epoch_steps)
        return f"{SHOWN[self.sampler]}: {told}"

    @property
    def steps(self) -> int:
        """Number of steps that `run` makes."""
        return sum(steps for _, steps in self.phases)

    @property
    def run(self) -> Composition:
        """What the training spends."""
        return self._recipe.run(self.phases)

    @property
    def plan(self) -> Plan:
        """The training as a plan; ``plan.to_toml()`` is what ``accountant dp-sgd --write`` writes."""
        from accountant.plan import Plan

        unit = "step" if self.sampler in STEPWISE else "epoch"
        lines = [
            {**step.to_table(), "name": f"phase {number}" if len(self.phases) > 1 else unit, "count": count}
            for number, (step, count) in enumerate(self._recipe.releases(self.phases), 1)
        ]
        for line in lines if self.sampler in STEPWISE else ():
            line.pop("sampling_rate", None)
            line |= {"records": self.records, "batch": self.batch}  # of which the rate is made
            if self.epochs is not None and len(lines) == 1 and self.steps == self.planned:  # of which the count is made
                line["epochs"] = int(self.epochs) if self.epochs.is_integer() else self.epochs
                del line["count"]
        usual = "" if self.sampler == "fixed-size" else " on average"
        text = f"DP-SGD: batches of {self.batch} of {self.records} records{usual}, {self._describe_steps()}"
        tables = {"description": text, "delta": self.delta, "adjacency": str(self.adjacency), "release": lines}
        return Plan.from_tables("dp-sgd", tables)

    def _describe_steps(self) -> str:
        passes = "" if self.epochs is None else f" ({self.epochs:g} epochs)"
        if self.steps == self.planned:
            return f"{self.steps} steps{passes}"
        return f"stopped after {self.steps} of {self.planned} steps{passes}"

    def stop_at(self, step: int) -> PrivateTraining:
        """The same training stopped after so many steps, at the price of those.

        This price holds if the step was fixed beforehand, or chosen without the private data and all that was made of
        them. After a look at the model, its loss or its accuracy on private data, the price of the whole plan stands.

        Raises
        ------
        ParameterError
            `step` is not an integer from 1 to the number of steps.
        """
        left, kept = integer("stop_at", step, 1, self.steps), []
        for sigma, steps in self.phases:
            kept += [(sigma, min(steps, left))] if left else []
            left -= min(steps, left)
        return self._with(tuple(kept), self.planned)

    def go_on(self, steps: int, sigma: float | None = None) -> PrivateTraining:
        """The same training continued for so many steps, with the noise of the last phase or another.

        Raises
        ------
        ParameterError
            A value is out of range.
        """
        more = (self.phases[-1][0] if sigma is None else sigma, integer("steps", steps, 1, MOST))
        return self._with((*self.phases, more), max(self.planned, self.steps + more[1]))

    def _with(self, phases: tuple[tuple[float, int], ...], planned: int) -> PrivateTraining:
        guarantee, renyi = _prices(self._recipe.run(phases), self.delta, self.tolerance)
        epochs = self.epochs if planned == self.planned else None
        return replace(self, phases=phases, planned=planned, guarantee=guarantee, renyi=renyi, epochs=epochs)

    def __str__(self) -> str:
        steps = ", ".join(f"{steps} steps of noise multiplier {sigma:.6g}" for sigma, steps in self.phases)
        return f"DP-SGD, {steps}, sampling rate {self.rate:.6g}: {self.guarantee}"

    def _repr_html_(self) -> str:
        from accountant.guarantee import html_table

        rows: list[tuple[str, Any]] = [
            ("noise multiplier", ", ".join(f"{sigma:.6g} for {steps:,} steps" for sigma, steps in self.phases)),
            ("sampling rate", f"{self.rate:.6g} ({self.batch} of {self.records:,}), {SHOWN[self.sampler]}"),
        ]
        return html_table([*rows, *self.guarantee.rows()])


def dp_sgd(
    records: int,
    batch: int,
    epochs: float | None = None,
    *,
    delta: float,
    sigma: float | None = None,
    epsilon: float | None = None,
    phases: Iterable[tuple[float, int]] | None = None,
    stop_at: int | None = None,
    sampler: str = "poisson",
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    tolerance: float = 0.01,
) -> PrivateTraining:
    """Price a DP-SGD training (Abadi et al. 2016), or find its noise for a target.

    Every step clips the gradient of each sampled record to a norm C, adds them up, and adds N(0, (sigma C)^2) to
    every entry.

    Parameters
    ----------
    records, batch : int
        Records in the data, and in a batch on average; the sampling rate is batch / records.
    epochs : float, optional
        Passes over the data: ceil(epochs * records / batch) steps. Not needed with `phases`.
    delta : float
        In (0, 1); well below 1 / records (`DeltaWarning` where it is not below).
    sigma : float
        Noise multiplier: standard deviation of the noise over the clipping norm C. Exactly one of `sigma`, `epsilon`
        and `phases` is given.
    epsilon : float
        Target of the whole training; the least noise that meets it is found.
    phases : sequence of (float, int)
        Noise multiplier and number of steps of each phase.
    stop_at : int, optional
        Price the first so many steps only, of a training whose noise was chosen for all; see `PrivateTraining.stop_at`
        for when that price holds.
    sampler : {"poisson", "fixed-size", "random-allocation", "shuffle"}
        Poisson sampling; for every step `batch` distinct records, drawn without replacement (`FixedSizeSampled`,
        replace adjacency: the sum of a batch with another record moves by twice the clipping norm); or every record
        in one step of each epoch of floor(records / batch) steps: each drawn uniformly by itself (`RandomAllocation`,
        add-remove adjacency), or all by one shuffle (`ShuffledEpoch`, replace adjacency).
    adjacency : Adjacency or str
        "add-remove", or "replace": neighbours differ in the content of one record, whose gradient may turn from one of
        norm C into the opposite one (notebooks/mathematics.md, Replacement in a Poisson sample).
    tolerance : float
        Largest width of the certified interval, relative to its upper end; [1e-6, 1].

    Returns
    -------
    PrivateTraining
        With `sigma`, `rate`, `steps`, `run` and `guarantee`.

    Raises
    ------
    ParameterError
        A value is out of range, or too few or too many are given.
    CalibrationError
        No noise meets the target.

    Examples
    --------
    >>> training = ac.dp_sgd(records=60_000, batch=256, epochs=20, epsilon=3.0, delta=1e-5)
    >>> stopped = training.stop_at(2000)       # what was spent until then
    >>> whole = stopped.go_on(1000, sigma=1.0)  # and after more steps, with other noise
    >>> ac.files.write_text("training.toml", whole.plan.to_toml())
    >>> ac.load_plan("training.toml").run == whole.run
    True
    """
    size = integer("records", records, 1, MOST)
    each = integer("batch", batch, 1, size)
    point = real("delta", delta, 0.0, 1.0, open_low=True, open_high=True)
    relation, width = as_adjacency(adjacency), real("tolerance", tolerance, 1e-6, 1.0)
    if not is_one_of(sampler, SAMPLERS):
        raise ParameterError(f"sampler = {shorten(sampler)}; accepted: {', '.join(SAMPLERS)}")
    recipe = Recipe(size, each, relation, sampler)
    steps = None if epochs is None else recipe.steps(epochs)
    given = {"sigma": sigma, "epsilon": epsilon, "phases": phases}
    if sum(value is not None for value in given.values()) != 1:
        stated = ", ".join(name for name, value in given.items() if value is not None) or "none"
        raise ParameterError(f"{stated} of sigma, epsilon and phases; accepted: exactly one of them")
    if phases is not None:
        parts = _check_phases(phases, steps)
    elif steps is None:
        raise ParameterError("epochs is missing; accepted: a positive number of passes over the data")
    elif sigma is not None:
        parts = ((sigma, steps),)
    else:
        assert epsilon is not None
        noise = calibrate(lambda noise: recipe.run(((noise, steps),)), epsilon, point, tolerance=width)
        parts = ((noise, steps),)
    count = sum(number for _, number in parts)
    run = recipe.run(parts)
    parts = tuple((float(noise), number) for noise, number in parts)
    passes = None if epochs is None else float(epochs)
    prices = _prices(run, point, width)
    if caution := caution_of_delta(point, size):
        warnings.warn(caution, DeltaWarning, stacklevel=2)
    whole = PrivateTraining(size, each, parts, count, point, relation, width, *prices, sampler, passes)
    return whole if stop_at is None else whole.stop_at(stop_at)


class Recipe(NamedTuple):
    """Who takes part in the steps of a training."""

    records: int
    batch: int
    adjacency: Adjacency
    sampler: str

    @property
    def length(self) -> int:
        return max(self.records // self.batch, 1)

    @property
    def rate(self) -> float:
        return self.batch / self.records if self.sampler in STEPWISE else 1 / self.length

    def steps(self, epochs: float) -> int:
        """Steps of so many passes over the data."""
        if self.sampler in STEPWISE:
            return steps_of(self.records, self.batch, epochs)
        return integer("epochs", epochs, 1, MOST) * self.length

    def releases(self, phases: tuple[tuple[float, int], ...]) -> list[tuple[Event, int]]:
        """Events and counts. A training that stops within an epoch has told no more than that epoch would have."""
        if self.sampler == "poisson":
            return [(_step(sigma, self.rate, self.adjacency), steps) for sigma, steps in phases]
        if self.adjacency is not RELATIONS[self.sampler]:
            raise ParameterError(
                f"{SHOWN[self.sampler]} under {self.adjacency} adjacency; accepted: {RELATIONS[self.sampler]}, under "
                "which there is a price"
            )
        if self.sampler == "fixed-size":
            return [
                (FixedSizeSampled(_full_step(sigma, self.adjacency), self.batch, self.records), steps)
                for sigma, steps in phases
            ]
        for _, steps in phases[:-1]:
            if steps % self.length:
                raise ParameterError(
                    f"a phase of {steps} steps; accepted: whole epochs of {self.length} steps before the last phase"
                )
        return [(self._epoch(sigma), ceil(steps / self.length)) for sigma, steps in phases]

    def _epoch(self, sigma: float) -> Event:
        """An epoch in which every record is in one step."""
        step = _full_step(sigma, self.adjacency)
        return (RandomAllocation if self.sampler == "random-allocation" else ShuffledEpoch)(step, self.length)

    def run(self, phases: tuple[tuple[float, int], ...]) -> Composition:
        """What phases spend."""
        return Composition(self.releases(phases))


def _step(sigma: float, rate: float, adjacency: Adjacency) -> Event:
    """One Poisson-sampled step."""
    return PoissonSubsampled(_full_step(sigma, adjacency), rate)


def _full_step(sigma: float, adjacency: Adjacency) -> Event:
    """One step of all records; the two events are the same under add-remove adjacency."""
    return Gaussian(sigma) if adjacency is Adjacency.ADD_REMOVE else ClippedSum(sigma, adjacency=adjacency)


def _prices(run: Composition, delta: float, tolerance: float) -> tuple[Guarantee, Guarantee]:
    """The price of a run by the sharpest route that can say it, and by the Rényi route."""
    return price(run, delta, tolerance=tolerance), price(run, delta, method="renyi")


def _check_phases(phases: Iterable[tuple[float, int]], steps: int | None) -> tuple[tuple[float, int], ...]:
    try:
        pairs = [(sigma, integer("steps", count, 1, MOST)) for sigma, count in phases]
    except (TypeError, ValueError) as error:
        if isinstance(error, ParameterError):
            raise
        raise ParameterError(f"phases = {shorten(phases)}; accepted: pairs (sigma, steps)") from None
    total = sum(count for _, count in pairs)
    if not pairs or (steps is not None and total != steps):
        accepted = "one phase or more" if steps is None else f"{steps}, or no epochs"
        raise ParameterError(f"phases of {total} steps in all; accepted: {accepted}")
    return tuple(pairs)
