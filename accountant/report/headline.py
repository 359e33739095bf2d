"""The top of the page: the guarantee in words that may be quoted, and what it lets an attacker do."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from accountant.adjacency import Adjacency
from accountant.attack import Attack, ask
from accountant.errors import AccountantError
from accountant.events.composition import Composition
from accountant.guarantee import Guarantee, format_up
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.plan import Plan

__all__ = ["AttackFigures", "attack_figures", "attack_tolerance", "floor_percent", "statement"]

FALSE_ALARMS = (0.001, 0.01, 0.1)
"""False-positive rates at which the page says what an attacker detects."""

FAMILIES_TOLERANCE = 0.05
"""Of attacker's figures where families of pairs are played: the page rounds them to a tenth of a percent."""


class AttackFigures(NamedTuple):
    """What an attacker can do, in rows of a name and words; one row with the reason where there are no figures."""

    rows: list[tuple[str, str]]
    tight: bool


def statement(plan: Plan, price: Guarantee) -> str:
    """The guarantee as a sentence to quote."""
    if not plan.composition.releases:
        return "Nothing is released: whoever sees the results learns nothing about the private data."
    factor = f"e^{format_up(price.epsilon)}"
    if price.epsilon < 700:
        above = math.inf if price.epsilon > 0.0 else 1.0
        factor = format_up(math.nextafter(math.exp(price.epsilon), above), 4)
    if plan.composition.adjacency is Adjacency.REPLACE:
        change = "if any one record had another content"
    else:
        change = "if any one record were left out of the private data, or one more were in it"
    rest = f", plus a probability of {format_up(price.delta)}" if price.delta else ""
    return (
        f"Every set of possible results is at most {factor} times as likely as it would be {change}{rest}. "
        "This holds in both directions, and whatever else an observer knows."
    )


def attack_figures(run: Composition, tolerance: float) -> AttackFigures:
    """Upper ends on what any attacker reaches who asks whether a record took part; tight where it can be."""
    try:
        ((_, rates), guess), how = ask(run, _answer, "worst", "auto", attack_tolerance(run, tolerance))
    except AccountantError as error:
        return AttackFigures([("an attacker", f"no figures: {error}")], False)
    right = math.nextafter((1 + guess.upper) / 2, 1.0) if guess.upper > 0.0 else 0.5
    found = ", ".join(
        f"{ceil_percent(rate)} at {100 * alarms:g} % false alarms"
        for alarms, rate in zip(FALSE_ALARMS, rates.tolist(), strict=True)
    )
    what = "one content of a record" if run.adjacency is Adjacency.REPLACE else "a record that took part"
    return AttackFigures(
        [
            (f"an attacker detects {what}, at most", found),
            (
                "a guess between two equally likely cases is right, at most",
                f"{ceil_percent(right)} of the time",
            ),
        ],
        how.method == "tight",
    )


def attack_tolerance(run: Composition, tolerance: float) -> float:
    """Width of the intervals of an attacker on the page: with screenings a coarse one, for which games are short."""
    return max(tolerance, FAMILIES_TOLERANCE) if any(event.family for event, _ in run) else tolerance


def _answer(attack: Attack) -> tuple[tuple[FloatArray, FloatArray], Interval]:
    """Rates at all false alarms, and the advantage, of one computation."""
    return attack.rates(np.array(FALSE_ALARMS)), attack.advantage()


def ceil_percent(share: float) -> str:
    """A percentage to one decimal, rounded up: it stays an upper bound."""
    return f"{min(math.ceil(1000 * _as_written(share)) / 10, 100.0):g} %"


def floor_percent(share: float) -> str:
    """A percentage to one decimal, rounded down."""
    return f"{math.floor(1000 * _as_written(share)) / 10:g} %"


def _as_written(share: float) -> Decimal:
    """The shortest decimal that is this float: a share of 0.1 is a tenth."""
    return Decimal(repr(float(share)))
