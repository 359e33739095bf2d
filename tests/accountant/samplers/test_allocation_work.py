"""Work of sums of likelihood ratios: it is known before it is done, and is little where one large ratio decides."""

import math
from dataclasses import replace

import numpy as np
import pytest

import accountant as ac
from accountant.patience import allow_work, fits, tally_work
from accountant.samplers.allocation_pairs import REHEARSED, Rehearsal, add_copies, bracket_step, rehearse
from accountant.samplers.likelihoods import Spread, add_contractions, add_spreads


@pytest.mark.audit
def test_where_one_large_ratio_decides_its_grid_is_fine_enough():
    """On a grid of 1/8 the interval stayed wider than a hundredth however fine the sum's grid was."""
    epoch = ac.RandomAllocation(ac.Gaussian(0.5), 10**6)
    with tally_work() as tally:
        found = ac.epsilon(epoch, 1e-10, method="tight", patience=1.0)
    assert found.epsilon - found.lower <= 0.01 * found.epsilon
    assert found.epsilon < 0.9518  # the smallest upper end on that grid
    assert tally[0] < 0.3e9  # of which most is counted for each addition, beside its products


@pytest.mark.parametrize(
    ("event", "steps", "side"),
    [(ac.Gaussian(0.5), 10**6, 0), (ac.Gaussian(0.5), 10**6, 1), (ac.Laplace(0.3), 10**4, 1)],
)
def test_a_rehearsal_tells_what_sums_take(event, steps, side):
    one, add = bracket_step(event, "remove", 0.02, -39.0)[side], (add_spreads, add_contractions)[side]

    def step(size):
        return 5e-4 * math.sqrt(steps / size)

    rehearsal = rehearse(one, steps, step, -39.0, add, 1000.0)
    with tally_work() as tally:
        add_copies(one, steps, step, -39.0, add)
    assert rehearsal.taken < 2 * REHEARSED < 0.25 * tally[0]
    assert rehearsal.work == pytest.approx(tally[0], rel=0.05)
    with allow_work(0.4 * tally[0] / 1e9):
        with pytest.raises(ac.OutOfPatience, match="sums of likelihood ratios would take about"):
            add_copies(one, steps, step, -39.0, add)
        assert fits(0.399 * tally[0])  # none of it was done


def test_a_rehearsal_of_hardly_any_masses_ends():
    """On much coarser grids next to nothing is added up; what is done beside it is not taken for less than that."""
    one = Spread(np.array([0.5, 0.5]), -1, 0.0, 0.1)
    rehearsal = Rehearsal(0.1, lambda size: 0.05, add_spreads, 100.0)
    for other in (one, replace(one, step=0.01), replace(one, step=0.001)):
        rehearsal.add(one, other)
        assert 0.0 <= rehearsal.taken < 1e6
        assert rehearsal.work >= 2e5
    found = rehearse(one, 10**6, lambda size: 1e-4, -39.0, add_spreads, 1e4)
    assert found.work > 0.0


def test_a_rehearsal_tells_of_sums_that_are_too_long():
    one = bracket_step(ac.Gaussian(0.5), "remove", 0.02, -39.0)[0]
    with allow_work(1.0):
        with pytest.raises(ac.OutOfPatience, match=r"ratios would take about .* s, patience = 1; accepted: "):
            add_copies(one, 10**6, lambda size: 1e-5 * math.sqrt(10**6 / size), -39.0, add_spreads)
        assert fits(0.999e9)


def test_the_losses_of_one_step_are_counted():
    """Many cells of a profile that takes long were not: the allocation of noisy trees took twice the patience."""
    tree = ac.TreeAggregation(377.57, 165244256200994, noise="laplace")
    asked = tree, "remove", 1e-5, -40.0
    with allow_work(0.01), pytest.raises(ac.OutOfPatience, match="the losses of one step reach would take about"):
        bracket_step(*asked)
    with allow_work(1.0), pytest.raises(ac.OutOfPatience, match=r"the losses of one step in \d+ cells would take"):
        bracket_step(*asked)
    found = []
    for _ in range(2):  # the second time it is kept
        with tally_work() as tally:
            bracket_step(tree, "remove", 1e-3, -40.0)
        found.append(tally[0])
    assert found[0] == found[1] > 1000 * tree._profile_work()


def test_values_of_laplace_profiles_grow_with_the_cube_of_coordinates():
    work = [ac.Laplace(1.0, coordinates=m)._profile_work() for m in (1, 32, 64)]
    assert work[0] < 3000.0
    assert 4 * work[1] < work[2] < 8 * work[1]
    assert ac.Laplace(1.0, coordinates=500)._profile_work() >= work[2]
