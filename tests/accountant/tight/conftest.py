"""What tests of the tight route share."""

import pytest

from accountant.tight import loss_composition
from tests.cases import count_calls


@pytest.fixture
def grids(monkeypatch):
    """How often a grid is chosen."""
    return count_calls(monkeypatch, loss_composition, "settle_on_grids")
