"""Random releases of all registered events, over all that their parameters may be."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

import accountant as ac
from accountant.events.parameters import Parameter, parameters_of
from accountant.events.registry import event_kinds
from accountant.events.tries import Geometric, Poisson, Tries

TRIES = 20
"""Draws of parameters until some go together; then the event is an example."""

FAR = 0.2
"""How often a parameter is drawn from all of its range, not from where people use it; how often it is an end of one."""

OF_SIZE = (1.0, 1e3)
"""Where numbers without a stated range for people are drawn from, as far as that is in their range."""

COMMON = ac.Gaussian, ac.ClippedSum, ac.Laplace, ac.DiscreteGaussian, ac.PureDP, ac.RandomizedResponse
"""What other events are mostly made of."""


def kinds() -> list[type[ac.Event]]:
    """The registered classes of the library."""
    return [kind for kind in event_kinds().values() if kind.__module__.startswith("accountant.")]


# --- parameters ---------------------------------------------------------------------------------------------


def draw_between(dice: random.Random, low: float, high: float) -> float:
    """Log-uniform where both are above 0; else of either sign, or 0."""
    if low > 0.0:
        return min(max(10 ** dice.uniform(math.log10(low), math.log10(high)), low), high)
    if low < 0.0 and dice.random() < 0.5:
        return -draw_between(dice, 1e-3, -low)
    return dice.choice((0.0, draw_between(dice, 1e-9 * high, high), dice.uniform(0.0, high))) if high > 0.0 else 0.0


def draw_number(dice: random.Random, parameter: Parameter) -> float:
    """A default, a usual value, any value or an end of the range."""
    if parameter.default is not None and dice.random() < 0.5:
        return parameter.default  # type: ignore[return-value]
    assert parameter.range is not None
    low, high, usual = parameter.range.low, parameter.range.high, parameter.usual
    if dice.random() < FAR / 4:
        value = dice.choice((low, high, 0.0 if parameter.range.zero else low))
    elif dice.random() < FAR:
        value = draw_between(dice, low, high)
    else:
        value = draw_between(dice, *(usual or (max(low, min(OF_SIZE[0], high / 2)), min(high, OF_SIZE[1]))))
    return round(value) if parameter.whole else float(value)


def draw_numbers(dice: random.Random, most: int, low: float, high: float) -> tuple[float, ...]:
    return tuple(draw_between(dice, low, high) for _ in range(dice.randint(1, most)))


def draw_votes(dice: random.Random) -> tuple[float, ...]:
    classes, most = dice.choice((2, 3, 10, 100)), dice.choice((3, 300, 10**5))
    return tuple(float(dice.randint(0, most) if dice.random() < 0.7 else 0) for _ in range(classes))


def draw_tries(dice: random.Random) -> Tries:
    return dice.choice((Poisson, Geometric))(1 + 10 ** dice.uniform(-1, 3))


def draw_local(dice: random.Random) -> float | ac.Event:
    """What users of a shuffler run."""
    kind = dice.choice((ac.RandomizedResponse, ac.RandomizedResponse, ac.Collision, ac.PureDP, None))
    return 10 ** dice.uniform(-3, 1) if kind is None else draw_of(dice, kind)


def draw_inner(dice: random.Random, outer: type[ac.Event]) -> ac.Event:
    """What another event is made of, under the adjacency that its examples have."""
    others = [kind for kind in kinds() if "event" not in {each.name for each in parameters_of(kind)}]
    event = draw_of(dice, dice.choice(COMMON if dice.random() < 0.7 else others))
    within = getattr(dice.choice(outer.examples()), "event", event)
    return under(event, getattr(within, "adjacency", event.adjacency))


def under(event: ac.Event, adjacency: ac.Adjacency) -> ac.Event:
    """The same numbers under another adjacency, where its class has a choice."""
    free = any(field.name == "adjacency" and field.init for field in fields(event))  # type: ignore[arg-type]
    return replace(event, adjacency=adjacency) if free else event  # type: ignore[type-var]


SPECIAL: dict[str, Callable[[random.Random], Any]] = {
    "votes": draw_votes,
    "local": draw_local,
    "strategy": lambda dice: draw_numbers(dice, 8, 0.01, 1.0),
    "rates": lambda dice: draw_numbers(dice, 50, 1e-8, 1.0),
    "tries": draw_tries,
}
"""Parameters that are no numbers, by name."""


def draw_together(dice: random.Random, kind: type[ac.Event]) -> dict[str, Any]:
    """Parameters that only mean something together."""
    if kind is ac.MixtureOfGaussians:
        shifts = draw_numbers(dice, 6, 1e-3, 30.0)
        shares = [dice.random() ** dice.choice((1, 8)) + 1e-12 for _ in shifts]
        return {"sensitivities": shifts, "probabilities": tuple(share / math.fsum(shares) for share in shares)}
    if kind is ac.ProfilePoints:
        epsilons = sorted(draw_numbers(dice, 5, 1e-3, 10.0))
        deltas = sorted((10 ** dice.uniform(-15, -0.5) for _ in epsilons), reverse=True)
        return {"epsilons": tuple(epsilons), "deltas": (*deltas[:-1], dice.choice((0.0, deltas[-1])))}
    return {}


# --- events and runs ----------------------------------------------------------------------------------------


def draw_parameter(dice: random.Random, kind: type[ac.Event], parameter: Parameter) -> Any:
    if parameter.range is not None:
        return draw_number(dice, parameter)
    if parameter.name in SPECIAL:
        return SPECIAL[parameter.name](dice)
    if parameter.name == "event":
        return draw_inner(dice, kind)
    hint = get_type_hints(kind, include_extras=True)[parameter.name]
    return dice.choice((True, False)) if hint is bool else dice.choice(get_args(hint))


def draw_of(dice: random.Random, kind: type[ac.Event]) -> ac.Event:
    """An event of a class; an example where no parameters went together."""
    for _ in range(TRIES):
        given = draw_together(dice, kind)
        try:
            given |= {
                each.name: draw_parameter(dice, kind, each) for each in parameters_of(kind) if each.name not in given
            }
            return under(kind(**given), dice.choice(tuple(ac.Adjacency)))
        except (ac.ParameterError, ac.SubsamplingError, ac.ProfileUnavailable, ac.DataDependentError):
            continue
    return dice.choice(kind.examples())


def draw_count(dice: random.Random) -> int:
    return dice.choice((1, 1, 2, dice.randint(2, 50), round(10 ** dice.uniform(0, 4)), round(10 ** dice.uniform(0, 9))))


def draw_release(dice: random.Random, kind: type[ac.Event]) -> ac.Event:
    """An event of a class, sampled or in groups where it can be."""
    event = draw_of(dice, kind)
    if dice.random() < 0.3:
        try:
            return ac.PoissonSubsampled(event, dice.choice((0.5, 10 ** dice.uniform(-6, 0), 10 ** dice.uniform(-3, 0))))
        except (ac.SubsamplingError, ac.ParameterError):
            return event
    return event


def draw_run(dice: random.Random, kind: type[ac.Event]) -> ac.Composition:
    """Releases of a class, alone or beside others under the same adjacency."""
    first = draw_release(dice, kind)
    entries = [(first, draw_count(dice))]
    while dice.random() < 0.35:
        other = draw_release(dice, dice.choice(kinds()))
        if other.adjacency is first.adjacency:
            entries.append((other, draw_count(dice)))
    return ac.Composition(entries)
