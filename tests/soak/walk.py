"""A walk over all registered events: no price is known, but prices must agree with one another, and come soon."""

from __future__ import annotations

import math
import random
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

import accountant as ac
from tests.soak.walk_events import draw_run, kinds

R = TypeVar("R")

SAME = 1e-9
"""By what share prices of routes that do not round outward may be apart."""

LATE = 1.2
"""Times the patience that a price may take until it is noted."""

RISKS = 0.1
"""How often attack risks are asked for, too."""

CALIBRATED = "sigma", "scale", "epsilon", "mu"
"""Parameters that are searched for."""


@dataclass
class Asked:
    """Asks for prices of one run, and notes those that took longer than they may."""

    patience: float
    late: list[str] = field(default_factory=list)

    def __call__(self, ask: Callable[..., R], *args: Any, **options: Any) -> R | None:
        """What it answers; None where the library refuses, in one line."""
        options["patience"] = self.patience
        since = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                return ask(*args, **options)
        except ac.AccountantError as error:
            if "\n" in str(error):
                raise ValueError(f"more than one line: {error}") from None
            return None
        finally:
            took = time.process_time() - since
            if took > LATE * self.patience:
                told = {key: value for key, value in options.items() if key != "patience"}
                self.late.append(f"{took:.1f} s, {ask.__name__} {args[1:]!r} {told!r}")


def is_wrong(found: ac.Guarantee, price: float) -> bool:
    """Whether what is said of a price, epsilon or delta, makes no sense by itself."""
    in_range = 0.0 <= found.epsilon < math.inf and 0.0 <= found.delta <= 1.0
    return not in_range or not 0.0 <= (found.lower or 0.0) <= price


def check_epsilon(run: ac.Composition, delta: float, dice: random.Random, ask: Asked) -> Iterator[str]:
    """By both routes, at two tolerances, and back."""
    width = dice.choice((0.1, 0.03, 0.01))
    found = ask(ac.epsilon, run, delta, tolerance=width)
    if found is None:
        return
    if is_wrong(found, found.epsilon):
        yield f"{found!r}"
    bound = ask(ac.epsilon, run, delta, method="renyi")
    if bound is not None and not found.epsilon <= bound.epsilon * (1 + SAME):
        yield f"epsilon = {found.epsilon!r} at delta = {delta!r}, by the Rényi route {bound.epsilon!r}"
    method = dice.choice(("tight", "auto"))
    again = ask(ac.epsilon, run, delta, method=method, tolerance=dice.choice((1.0, 0.3, 0.05, 0.01, 1e-3)))
    if again is not None and not max(again.lower or 0.0, found.lower or 0.0) <= min(again.epsilon, found.epsilon):
        yield f"{found!r} and {again!r} do not overlap"
    for end, low in ((found.epsilon, False), (found.lower or 0.0, True)):
        back = ask(ac.delta, run, end, tolerance=width) if end <= 1e300 else None
        if back is not None and low and end > 0.0 and not back.delta >= delta * (1 - SAME):
            yield f"lower end {end!r} at delta = {delta!r}, where delta is at most {back.delta!r}"
        if back is not None and not low and not (back.lower or 0.0) <= delta * (1 + SAME):
            yield f"epsilon = {end!r} at delta = {delta!r}, where delta is at least {back.lower!r}"


def draw_epsilons(run: ac.Composition, dice: random.Random) -> list[float]:
    """Two epsilons, of the order of the loss."""
    mean, end = (float(value) for value in run.renyi([1.0, math.inf]))
    size = min(end, mean + 5 * math.sqrt(2 * mean), 1e100)
    size = size if 0.0 < size < math.inf else 5.0
    return sorted(dice.choice((dice.random(), dice.random() ** 4, 0.0)) * size for _ in range(2))


def check_delta(run: ac.Composition, epsilons: list[float], dice: random.Random, ask: Asked) -> Iterator[str]:
    """At two epsilons, by both routes, and as a curve."""
    width, method = dice.choice((0.1, 0.03, 0.01)), dice.choice(("auto", "auto", "tight"))
    found = [ask(ac.delta, run, epsilon, tolerance=width, method=method) for epsilon in epsilons]
    for epsilon, one in zip(epsilons, found, strict=True):
        bound = ask(ac.delta, run, epsilon, method="renyi") if method == "auto" else None
        if one is not None and is_wrong(one, one.delta):
            yield f"{one!r}"
        if one is not None and bound is not None and not one.delta <= bound.delta * (1 + 1e-6):
            yield f"delta = {one.delta!r} at epsilon = {epsilon!r}, by the Rényi route {bound.delta!r}"
    first, second = found
    if first is not None and second is not None and not (second.lower or 0.0) <= first.delta:
        yield f"delta falls from {first!r} to {second!r}"
    curve = ask(ac.curve, run, epsilons, tolerance=width)
    if curve is not None and not (curve.lower <= curve.upper).all():
        yield f"{curve!r}"
    for i, one in enumerate(found):
        if curve is None or one is None:
            continue
        if not max(curve.lower[i], one.lower or 0.0) <= min(curve.upper[i], one.delta) * (1 + SAME):
            yield f"{curve!r} and {one!r} do not overlap"


def check_calibration(run: ac.Composition, delta: float, dice: random.Random, ask: Asked) -> Iterator[str]:
    """The noise of the first release, for what the run costs times a factor."""
    event, count = next(iter(run))
    plain, rate = event.unsampled, event.sampling_rate
    names = [name for name in CALIBRATED if isinstance(getattr(plain, name, None), float)]
    if not names:
        yield from check_epsilon(run, delta, dice, ask)
        return
    rest = ac.Composition(entry for entry in run if entry[0] is not event)

    def make(value: float) -> ac.Composition:
        changed = replace(plain, **{names[0]: value})  # type: ignore[type-var]
        return count * (ac.PoissonSubsampled(changed, rate) if rate < 1.0 else changed) + rest

    goal, method = 10 ** dice.uniform(-1, 1.3), dice.choice(("auto", "auto", "tight"))
    value = ask(ac.calibrate, make, goal, delta, method=method, tolerance=0.03)
    if value is None:
        return
    found = ask(ac.epsilon, make(value), delta, method="auto", tolerance=0.03)
    if found is not None and not (found.lower or 0.0) <= goal * (1 + SAME):
        yield f"calibrated {names[0]} = {value!r} for {goal!r}: {found!r}"


def check_sweep(run: ac.Composition, delta: float, dice: random.Random, ask: Asked) -> Iterator[str]:
    """Two deltas in one call are as good as two calls."""
    found: Any = ask(ac.sweep, lambda n: n * run, {"n": [1]}, delta=delta, method="tight", tolerance=0.03, errors="nan")
    if found is None:
        return
    alone = ask(ac.epsilon, run, delta, method="tight", tolerance=0.03)
    if alone is not None and not np.isclose(found["epsilon"][0], alone.epsilon, rtol=1e-6, atol=0.0):
        yield f"{found!r} in a sweep, {alone!r} alone"


def check_risk(run: ac.Composition, dice: random.Random, ask: Asked) -> Iterator[str]:
    """The advantage of attackers is delta at epsilon 0, and bounds what they find among the records."""
    share = 10 ** dice.uniform(-9, -0.1)
    gain = ask(ac.advantage, run)
    at_zero = ask(ac.delta, run, 0.0)
    if gain and not 0.0 <= gain.lower <= gain.upper <= 1.0:
        yield f"{gain!r}"
    if gain is None:
        return
    if at_zero and not max(gain.lower, at_zero.lower or 0.0) <= min(gain.upper, at_zero.delta) * (1 + SAME):
        yield f"{gain!r} and {at_zero!r} do not overlap"
    found = ask(ac.true_positive_rate, run, share)
    if found is not None and not 0.0 <= float(found.lower) <= float(found.upper) <= 1.0:
        yield f"{found!r}"
    if found is not None and not float(found.lower) <= (share + gain.upper) * (1 + SAME):
        yield f"{found!r} at a false-positive rate of {share!r}, with {gain!r}"
    risk = ask(ac.bayes_risk, run)
    if risk and not max(risk.lower, (1 - gain.upper) / 2) <= min(risk.upper, (1 - gain.lower) / 2) * (1 + SAME):
        yield f"{risk!r} with {gain!r}"


def check_walk(dice: random.Random, *, fine: bool, late: list[str]) -> Iterator[str]:
    """What does not hold of a random run; `late` gets what took too long."""
    run = draw_run(dice, dice.choice(kinds()))
    ask = Asked(5.0 if fine else 0.3)
    delta = dice.choice((10 ** dice.uniform(-12, -0.3), 10 ** dice.uniform(-8, -3), 10 ** dice.uniform(-300, -12)))
    task = dice.random()
    if task < 0.55:
        found = check_epsilon(run, delta, dice, ask)
    elif task < 0.8:
        found = check_delta(run, draw_epsilons(run, dice), dice, ask)
    elif task < 0.95:
        found = check_calibration(run, delta, dice, ask)
    else:
        found = check_sweep(run, delta, dice, ask)
    yield from (f"{run!r}: {what}" for what in found)
    if dice.random() < RISKS:
        yield from (f"{run!r}: {what}" for what in check_risk(run, dice, ask))
    late += [f"{run!r}: {what}" for what in ask.late]
