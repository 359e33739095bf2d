"""Upper values of games at grid points are lowered to the largest convex function below them."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from accountant.tight.hulls import hull_of, hull_of_both, lower_to_hull


@given(seed=st.integers(0, 10**6), points=st.integers(1, 40), step=st.sampled_from([1e-3, 0.1, 2.0]))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_hulls_are_the_largest_convex_functions_below(seed, points, step):
    dice = random.Random(seed)
    values = np.array(sorted((dice.random() ** 4 for _ in range(points)), reverse=True))
    found, u = hull_of(values, step), [mp.exp(mp.mpf(step) * k) for k in range(points)]
    for k in range(points):
        lines = [
            float(values[a] + (mp.mpf(values[b]) - values[a]) * (u[k] - u[a]) / (u[b] - u[a]))
            for a in range(k)
            for b in range(k + 1, points)
        ]
        assert found[k] == pytest.approx(min([values[k], *lines]), rel=1e-9, abs=1e-15)
        assert found[k] <= values[k]


def draw_values(dice, points, step, rough):
    """Values in both directions of a mixture of pairs, and what is added to each."""
    places, total = np.arange(points), np.zeros((2, points))
    for _ in range(3):
        up, down = dice.uniform(0.1, 1.2) * points * step, dice.uniform(0.1, 1.2) * points * step
        peak = float(np.expm1(-up) * np.expm1(-down) / -np.expm1(-(up + down)))
        for way, end in enumerate((up, down)):
            total[way] += peak * np.maximum(-np.expm1(step * places - end) / -np.expm1(-end), 0.0) / 3
    noise = np.array([[1 + rough * dice.random() for _ in places] for _ in range(2)])
    return total, total * noise


@given(
    seed=st.integers(0, 10**6),
    points=st.integers(1, 14),
    step=st.sampled_from([1e-4, 0.1, 2.0, 60.0]),
    rough=st.sampled_from([0.0, 1e-9, 0.01, 3.0]),
)
@settings(deadline=None, derandomize=True, max_examples=120)
def test_hulls_of_both_directions_are_the_largest_convex_functions_below(seed, points, step, rough):
    """Against all chords of W, in high precision; and no smaller than the convex function it was made from."""
    true, values = draw_values(random.Random(seed), points, step, rough)
    found = hull_of_both(values, step)
    with mp.workdps(800):
        u = {k: mp.exp(mp.mpf(step) * k) for k in range(1 - points, points)}
        whole = {k: mp.mpf(values[0, k]) if k >= 0 else 1 - u[k] + u[k] * mp.mpf(values[1, -k]) for k in u}
        whole[0] = mp.mpf(min(values[:, 0]))
        for k in u:
            chords = [
                whole[a] + (whole[b] - whole[a]) * (u[k] - u[a]) / (u[b] - u[a]) for a in u if a < k for b in u if b > k
            ]
            least = min([whole[k], *chords])
            for way in range(2):
                if (k >= 0) if way == 0 else (k <= 0):
                    wanted = least if way == 0 else least / u[k] + 1 - 1 / u[k]
                    assert found[way, abs(k)] == pytest.approx(float(wanted), rel=1e-9, abs=1e-290)
    assert (found <= values).all()
    assert (true <= lower_to_hull(values, step)).all()


def test_values_that_are_convex_stay():
    true, values = draw_values(random.Random(3), 400, 0.01, 0.0)
    assert np.allclose(hull_of_both(values, 0.01), true, rtol=1e-13, atol=0.0)


def test_what_is_the_same_in_both_directions_stays_so():
    """Of such games one direction is priced: half of the work."""
    _, values = draw_values(random.Random(5), 200, 0.02, 0.01)
    same = np.array([values[0], values[0]])
    found = lower_to_hull(same, 0.02)
    assert (found[0] == found[1]).all()
    assert (found >= hull_of_both(same, 0.02)).all()
    assert found == pytest.approx(hull_of_both(same, 0.02), rel=1e-11)
