"""What tests of stores share."""

import pytest

from mechanisms.budgets import backends
from tests.mechanisms.children import WAIT


@pytest.fixture(autouse=True)
def _wait_long(monkeypatch):
    monkeypatch.setattr(backends, "STORE_WAIT", WAIT)
