"""What tests of the tight route share."""

import pytest

from accountant.tight import loss_composition


@pytest.fixture
def grids(monkeypatch):
    """How often a grid is chosen."""
    made, plain = [], loss_composition.settle_on_grids

    def settle(*args):
        made.append(args)
        return plain(*args)

    monkeypatch.setattr(loss_composition, "settle_on_grids", settle)
    return made
