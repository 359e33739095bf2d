"""Measures below a polygon at their limits."""

import numpy as np

from accountant.tight.polygon import NOTHING, Grid, Polygon, lower_points


def test_a_first_outcome_beyond_floats_leaves_nothing():
    """Its untilted mass was e^800: the measure 0 is below, too."""
    rise = np.full(1, 0.3)
    polygon = Polygon(
        np.array([0.2, 0.3, 0.1, 0.1]),
        np.array([0.6, 0.4, 0.2, 0.1]),
        np.full(4, 1e-9),
        np.full(3, 1e-9),
        rise,
        0.0,
        0,
        0.0,
        0.0,
    )
    for log_unit, nothing in ((0.5, False), (800.0, True)):
        assert (lower_points(polygon, Grid(0.1, 1.0), log_unit).log_total == NOTHING) == nothing
