"""What tests of mechanisms share: what was priced or calibrated once in a process is not priced again.

Prices are functions of what is asked for, and tests of them stand in `tests/accountant`.
"""

from functools import lru_cache

import pytest

import accountant as ac
from mechanisms.federation import trust_models

PRICES = lru_cache(maxsize=None, typed=True)(ac.epsilon)
BUDGET_FOR = staticmethod(lru_cache(maxsize=None, typed=True)(ac.IndividualFilter.budget_for))
CALIBRATE, CALIBRATED = ac.calibrate, {}


def price(*asked, **route):
    try:
        hash((asked, *route.values()))
    except TypeError:  # to be refused
        return PRICES.__wrapped__(*asked, **route)
    return PRICES(*asked, **route)


def run_at(make, value):
    """The run for one value; if there is none, why."""
    try:
        return make(value)
    except ac.AccountantError as error:
        return str(error)


def calibrate(make, *target, start=1.0, **route):
    """As the library does; families of runs are the same if they are so at three values."""
    runs = tuple(run_at(make, start * factor) for factor in (0.5, 1, 2))
    key = (runs, target, start, tuple(sorted(route.items())))
    try:
        hash(key)
    except TypeError:
        return CALIBRATE(make, *target, start=start, **route)
    if key not in CALIBRATED:
        CALIBRATED[key] = CALIBRATE(make, *target, start=start, **route)
    return CALIBRATED[key]


@pytest.fixture(autouse=True)
def _price_once(monkeypatch):
    monkeypatch.setattr(ac, "epsilon", price)
    monkeypatch.setattr(ac, "calibrate", calibrate)
    monkeypatch.setattr(ac.IndividualFilter, "budget_for", BUDGET_FOR)


@pytest.fixture
def one_choice(monkeypatch):
    """Randomizers of shuffled reports are chosen for one epsilon, and not again for what that one allows.

    Their noise is a little more, and found in a quarter of the time.
    """
    monkeypatch.setattr(trust_models, "MOST_CHOICES", 1)
