"""What tests of the command share."""

import pytest

from mechanisms.students.network import NetworkStudent


@pytest.fixture(autouse=True)
def quick_students(monkeypatch):
    """Fewer passes over the points than by default; how well students learn is tested where they are."""
    hidden, n_neighbors, clamping, _, seed = NetworkStudent.__init__.__defaults__
    monkeypatch.setattr(NetworkStudent.__init__, "__defaults__", (hidden, n_neighbors, clamping, 30, seed))
