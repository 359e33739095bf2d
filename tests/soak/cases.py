"""Random runs whose price is known, one for every number: what is asked of them, and what must hold."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import mpmath as mp

import accountant as ac
from tests.soak.beside_bounds import draw_beside_bounds
from tests.soak.exact import FewOutcomes, compose, delta_of, gaussian_delta, outcomes, play, renyi_of, sampled_delta

DIGITS = 60
TOLERANCES = (0.3, 0.1, 0.1, 0.03)
FINE = (0.01, 0.001)
CONVERSIONS = ("improved", "classic", "optimal")
ROUTES_APART = 1e-9
"""By what share "auto" may say more than the Rényi route."""

PATIENCE = (0.05, 0.5, 5.0)
"""Seconds that "auto" gets, the first where no narrow intervals are asked for.

Where they are too few, it says what it certified less narrowly, or the Rényi price."""

REFUSALS = (ac.ToleranceUnreachable, ac.ProfileUnavailable, ac.NoGuarantee)


class Case(NamedTuple):
    """A run, its delta at an epsilon, and roughly how large its epsilons are."""

    run: ac.Composition
    true: Callable[[float], mp.mpf]
    scale: float
    renyi: bool = True
    least: float = 1e-12
    """The smallest delta that is asked for."""
    exact: bool = True
    """Whether `true` is delta itself, and not a bound from below."""
    methods: tuple[str, ...] = ("tight", "tight", "tight", "auto")
    """What is asked, where it is not the Rényi route."""


class Violation(NamedTuple):
    """What does not hold, in words that let it be seen again."""

    kind: str
    number: int
    what: str

    def __str__(self) -> str:
        again = f"python -m tests.soak --kind '{self.kind}' --only {self.number}"
        return f"VIOLATION {self.kind} {self.number}: {self.what}; again by: {again}"


# --- random runs --------------------------------------------------------------------------------------------


def draw_outcomes(dice: random.Random) -> ac.Event:
    """Few outcomes with whole weights, of any size, sampled or not."""
    size, largest = dice.randint(2, 4), dice.choice((3, 10, 1000, 10**6))
    event = FewOutcomes(*(tuple(dice.randint(1, largest) for _ in range(size)) for _ in "pq"))
    event = replace(event, told=sum(event.p) % 2 == 1)
    return ac.PoissonSubsampled(event, dice.choice((0.5, 0.1, 1e-3, dice.random()))) if dice.random() < 0.4 else event


def draw_finite(dice: random.Random) -> Case:
    masses = None
    while masses is None:
        kinds = [(draw_outcomes(dice), dice.randint(1, 6)) for _ in range(dice.choice((1, 1, 1, 2)))]
        run = ac.Composition(kinds)
        masses = compose(run)
    return Case(run, delta_of(masses), float(run.renyi(math.inf)))


def draw_gaussians(dice: random.Random) -> Case:
    """Sums of Gaussian releases: a closed form."""
    size = 10 ** dice.uniform(-3, 6)
    parts = [(size * dice.uniform(0.5, 2.0), 10 ** dice.uniform(-1, 1), dice.randint(1, 10**4)) for _ in range(3)]
    parts = parts[: dice.randint(1, 3)]
    run = ac.Composition((ac.Gaussian(sigma, moved), count) for sigma, moved, count in parts)
    with mp.workdps(2 * DIGITS):
        square = mp.fsum(count * (mp.mpf(moved) / mp.mpf(sigma)) ** 2 for sigma, moved, count in parts)

    def true(epsilon: float) -> mp.mpf:
        with mp.workdps(2 * DIGITS):
            return gaussian_delta(square, mp.mpf(epsilon))

    mu = math.sqrt(float(square))
    return Case(run, true, mu * mu / 2 + 5 * mu, least=1e-30)


def laplace_profile(t: mp.mpf, epsilon: mp.mpf) -> mp.mpf:
    return max(mp.mpf(0), -mp.expm1((epsilon - t) / 2))


def draw_one_release(dice: random.Random) -> Case:
    """One release with a profile in closed form, sampled or not."""
    scale = 10 ** dice.uniform(-1, 3)
    rate = dice.choice((1.0, 0.5, 10 ** dice.uniform(-6, 0)))
    if dice.random() < 0.5:
        event: ac.Event = ac.Laplace(scale)
        profile = partial(laplace_profile, 1 / mp.mpf(scale))
        with mp.workdps(DIGITS):
            profile = partial(laplace_profile, 1 / mp.mpf(scale))
    else:
        event = ac.Gaussian(scale)
        with mp.workdps(DIGITS):
            profile = partial(gaussian_delta, 1 / mp.mpf(scale) ** 2)
    run = 1 * (event if rate == 1.0 else ac.PoissonSubsampled(event, rate))
    true = partial(sampled_delta, profile, rate) if rate < 1.0 else lambda epsilon: profile(mp.mpf(epsilon))
    size = 1 / scale + (5 * rate / scale if isinstance(event, ac.Gaussian) else 0.0)
    return Case(run, true, min(size, 1 / scale + 5.0))


def draw_bits(dice: random.Random) -> Case:
    """Bits of randomized response at one epsilon, perhaps with a chance of failure: a binomial sum."""
    epsilon, bits, count = 10 ** dice.uniform(-4, 1), dice.randint(1, 6), dice.randint(1, 12)
    failure = dice.choice((0.0, 10 ** dice.uniform(-12, -3))) if bits == 1 else 0.0
    bit: ac.Event = ac.RandomizedResponse(epsilon, bits)
    if bits == 1 and failure:
        bit = ac.ApproximateDP(epsilon, failure)
    elif bits == 1:
        bit = dice.choice((ac.PureDP(epsilon), ac.DiscreteLaplace(1.0, 1), bit))
    step = mp.mpf(1) if isinstance(bit, ac.DiscreteLaplace) else mp.mpf(epsilon)
    many = bits * count
    with mp.workdps(DIGITS):
        likely = 1 / (1 + mp.exp(-step))
        kept = (1 - mp.mpf(failure)) ** count
        chances = [mp.binomial(many, k) * likely ** (many - k) * (1 - likely) ** k for k in range(many + 1)]

    def true(epsilon: float) -> mp.mpf:
        e = mp.mpf(epsilon)
        gains = (p * -mp.expm1(e - (many - 2 * k) * step) for k, p in enumerate(chances) if (many - 2 * k) * step > e)
        return 1 - kept + kept * mp.fsum(gains)

    return Case(count * bit, true, float(many * step), not failure, least=max(1e-12, 2 * count * failure))


def draw_screening(dice: random.Random) -> ac.Event:
    votes = dice.randint(1, 3)
    low = dice.randint(0, votes - 1) if dice.random() < 0.3 else 0
    event = ac.NoisyScreening(10 ** dice.uniform(-0.3, 1.5), dice.uniform(-1.0, votes + 1.0), votes, low)
    return ac.PoissonSubsampled(event, dice.uniform(0.01, 0.99)) if dice.random() < 0.5 else event


def draw_game(dice: random.Random) -> Case:
    """Screenings of one kind."""
    run = dice.randint(1, 3) * draw_screening(dice)
    return Case(run, partial(play, run), float(run.renyi(math.inf)), least=1e-6)


def draw_mixed_game(dice: random.Random) -> Case:
    """Screenings of up to three kinds, or of some with a release of few outcomes, in any order; up to six of them."""
    kinds: list[tuple[ac.Event, int]] = [(draw_screening(dice), dice.randint(1, 2)) for _ in range(dice.randint(1, 3))]
    if len(kinds) == 1 or dice.random() < 0.3:
        weights = tuple(dice.randint(1, 9) for _ in range(2))
        kinds = [*kinds[:2], (FewOutcomes(weights, weights[::-1]), 1)]
    run = ac.Composition(kinds)
    return Case(run, partial(play, run), float(run.renyi(math.inf)), least=1e-4)


def draw_by_auto(dice: random.Random) -> Case:
    """What only "auto" prices in all cases: few outcomes, infinite losses of one side, and bounds from above."""
    run, true, exact, lost = draw_beside_bounds(dice, draw_outcomes)
    scale = sum(count * float(event.renyi(2.0)) for event, count in run if lost == 0.0) or 8.0
    return Case(run, true, min(scale, 8.0), False, max(1e-12, 2 * lost), exact, ("auto",))


# --- what must hold -----------------------------------------------------------------------------------------


def broken_epsilon(case: Case, delta: float, **options: Any) -> str | None:
    found = ac.epsilon(case.run, delta, **options)
    above = case.true(found.epsilon)
    if not above <= delta:
        return f"epsilon = {found.epsilon!r} at delta = {delta!r}, where delta is {mp.nstr(above, 17)}"
    low = found.lower if case.exact else None
    if low is not None and low > 0.0 and not (below := case.true(low)) >= delta:
        return f"lower end {low!r} at delta = {delta!r}, where delta is {mp.nstr(below, 17)}"
    if options["method"] == "auto" and found.epsilon > (known := by_renyi(ac.epsilon, case, delta)) * (
        1 + ROUTES_APART
    ):
        return f"epsilon = {found.epsilon!r} at delta = {delta!r}, by the Rényi route {known!r}"
    return None


def by_renyi(ask: Callable[..., ac.Guarantee], case: Case, point: float) -> float:
    """The price of the Rényi route, infinite where it has none."""
    try:
        found = ask(case.run, point, method="renyi")
    except ac.NoGuarantee:
        return math.inf
    return found.epsilon if ask is ac.epsilon else found.delta


def broken_delta(case: Case, epsilon: float, **options: Any) -> str | None:
    found, true = ac.delta(case.run, epsilon, **options), case.true(epsilon)
    if not true <= found.delta:
        return f"delta = {found.delta!r} at epsilon = {epsilon!r}, which is {mp.nstr(true, 17)}"
    if case.exact and found.lower is not None and not found.lower <= true:
        return f"lower end {found.lower!r} of delta at epsilon = {epsilon!r}, which is {mp.nstr(true, 17)}"
    if options["method"] == "auto" and found.delta > (known := by_renyi(ac.delta, case, epsilon)) * (1 + ROUTES_APART):
        return f"delta = {found.delta!r} at epsilon = {epsilon!r}, by the Rényi route {known!r}"
    return None


def broken_curve(case: Case, dice: random.Random) -> str | None:
    """The Rényi curve of a run of few outcomes, against the sum of those of its releases by their definition."""
    order = 1 + 10 ** dice.uniform(-3, 3)
    true = mp.fsum(count * renyi_of(outcomes(event), order) for event, count in case.run)
    found = float(case.run.renyi(order))
    if not abs(found - true) <= 1e-11 * true + mp.mpf("1e-25"):
        return f"curve {found!r} at order {order!r}, which is {mp.nstr(true, 17)}"
    return None


def check_case(case: Case, dice: random.Random, *, curve: bool, fine: bool) -> Iterator[str]:
    """What does not hold; refusals are raised. `fine`: some narrow intervals, and near the end: both take long."""
    options: dict[str, Any] = {"method": "renyi" if dice.random() < 0.2 and case.renyi else dice.choice(case.methods)}
    if options["method"] == "auto":
        options["patience"] = dice.choice(PATIENCE if fine else PATIENCE[:1])
    options["tolerance"] = dice.choice(FINE if dice.random() < 0.05 and fine else TOLERANCES)
    # "auto" is held to the price of the default conversion
    options["conversion"] = dice.choice(CONVERSIONS if options["method"] != "auto" else CONVERSIONS[:1])
    # deltas are asked where epsilon is of the order of the loss, epsilons at deltas of any order
    if dice.random() < 0.5:
        broken = broken_epsilon(case, 10 ** dice.uniform(math.log10(case.least), -0.3), **options)
    else:
        share = dice.choice((0.0, dice.random(), dice.random() ** 4)) * (1.0 if fine else 0.6)
        broken = broken_delta(case, share * case.scale, **options)
    if broken:
        yield f"{case.run!r}, {options}: {broken}"
    if curve and (broken := broken_curve(case, dice)):
        yield f"{case.run!r}: {broken}"
