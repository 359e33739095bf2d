"""What tests of the command share."""

from functools import cache

import pytest

from accountant.cli import listings

PRICES = cache(listings.epsilon)


@pytest.fixture(autouse=True)
def _price_listed_plans_once(monkeypatch):
    """Several tests list all built-in plans, each in another form."""
    monkeypatch.setattr(listings, "epsilon", PRICES)
