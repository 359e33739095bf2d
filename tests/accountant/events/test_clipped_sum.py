"""Clipped sums under replacement: the pair against its definition, and its domination over angles and norms."""

from __future__ import annotations

import math
from itertools import product

import mpmath as mp
import numpy as np
import pytest

import accountant as ac
from accountant.events.clipped_sum import WIDEST_SEARCH, sampled_replacement_log_profile
from accountant.testing import check_event
from tests.cases import audit_after

REPLACE = ac.Adjacency.REPLACE
CASES = [(0.9, 0.004), (2.0, 0.3), (0.1, 0.01), (5.0, 0.001), (1.0, 0.9)]


def sampled(u: float, rate: float) -> ac.PoissonSubsampled:
    return ac.PoissonSubsampled(ac.ClippedSum(1.0, u, REPLACE), rate)


def densities(u: float, rate: float):
    """The two densities of the pair."""
    rate, u = mp.mpf(rate), mp.mpf(u)
    return [lambda x, s=sign: (1 - rate) * mp.npdf(x) + rate * mp.npdf(x, s * u, 1) for sign in (1, -1)]


@pytest.mark.each_run(3)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("losses", audit_after(2, [0.0, 0.5, 0.01, 3.0]))
def test_profile_by_its_definition(case, losses):
    """H = P(x > t) - e^epsilon Q(x > t), where the logarithm of the ratio passes epsilon at t."""
    u, rate = case
    epsilon = losses * u
    with mp.workdps(250):
        p, q = densities(u, rate)
        low, high = mp.mpf(0), mp.mpf(60)
        for _ in range(450):
            middle = (low + high) / 2
            low, high = (middle, high) if p(middle) < mp.exp(epsilon) * q(middle) else (low, middle)

        def tail(x):
            return mp.erfc(x / mp.sqrt(2)) / 2

        alone = (1 - mp.mpf(rate)) * tail(low)
        p_tail, q_tail = (alone + mp.mpf(rate) * tail(low - sign * mp.mpf(u)) for sign in (1, -1))
        exact = mp.log(p_tail - mp.exp(epsilon) * q_tail)
        found = sampled(u, rate)._log_profile(np.array([epsilon]))
        for direction in found:
            assert abs(mp.expm1(mp.mpf(float(direction[0])) - exact)) < 2e-13 + 4e-16 * abs(exact)


@pytest.mark.parametrize("case", audit_after(1, [(case,) for case in CASES]))
def test_curve_by_its_definition(case):
    u, rate = case
    with mp.workdps(25):
        p, q = densities(u, rate)
        places = [-40 - 3 * u, -8, -3, 0, 3, 8, *range(14, int(17 * u) + 40, 6)]
        kl = mp.quad(lambda x: p(x) * mp.log(p(x) / q(x)), places)
        assert float(sampled(u, rate).renyi(1.0)) == pytest.approx(float(kl), rel=1e-11)
        for order in (1.5, 8.0):
            mean = mp.quad(lambda x, a=order: p(x) ** a * q(x) ** (1 - a), places)
            assert float(sampled(u, rate).renyi(order)) == pytest.approx(float(mp.log(mean) / (order - 1)), rel=1e-11)


def test_curve_where_it_is_not_integrated():
    """Far orders are bounded by other curves, which are no jump: the parts that they leave out weigh nothing there."""
    u, rate = 20.0, 0.01
    event, far = sampled(u, rate), WIDEST_SEARCH / (2 * u)
    below, above = event.renyi([far * 0.999, far * 1.001]).tolist()
    assert below < above == pytest.approx(below, rel=0.01)
    assert (event.renyi([1e9, math.inf]) <= [2e9 * u * u, math.inf]).all()


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_limits_of_the_rate(rate):
    event = ac.ClippedSum(2.0, 1.5, REPLACE)
    expected = [0.0, 0.0] if rate == 0.0 else ac.Gaussian(2.0, 3.0, REPLACE).renyi([1.5, 2.0])
    assert ac.PoissonSubsampled(event, rate).renyi([1.5, 2.0]) == pytest.approx(expected)
    near = ac.PoissonSubsampled(event, 1e-12 if rate == 0.0 else 1 - 1e-12)
    assert near.renyi([1.5, 2.0]) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_add_remove_is_the_gaussian_mechanism():
    ours, known = ac.ClippedSum(2.0, 1.5), ac.Gaussian(2.0, 1.5)
    for rate in (1.0, 0.1):
        mine, other = (1000 * ac.PoissonSubsampled(each, rate) for each in (ours, known))
        for method in ("renyi", "tight"):
            assert ac.epsilon(mine, 1e-5, method=method).epsilon == ac.epsilon(other, 1e-5, method=method).epsilon


GRID = 1e-4
"""Error of sums over the grid."""


def hockey_stick(first: np.ndarray, second: np.ndarray, rate: float, factor: float) -> float:
    """H of (1-q) N(0) + q N(first) against the same with `second`, in the plane, on a grid."""
    x, y = np.meshgrid(*2 * [np.linspace(-7.5, 7.5, 301)])

    def density(centre):
        return np.exp(-((x - centre[0]) ** 2 + (y - centre[1]) ** 2) / 2)

    gap = (1 - rate) * (1 - factor) * density((0, 0)) + rate * density(first) - factor * rate * density(second)
    return float(np.maximum(gap, 0).sum() * 0.05**2 / (2 * math.pi))


@pytest.mark.each_run(5)
@pytest.mark.parametrize("rate", [0.05, 0.7, 1.0])
@pytest.mark.parametrize("epsilon", [-0.3, 0.02, 0.4])
def test_opposite_vectors_of_full_norm_are_the_worst_pair(rate, epsilon):
    """No vectors of norm at most u are further apart at any angle; and a larger angle or norm is never nearer."""
    u, factor = 1.2, math.exp(epsilon)
    logs = sampled_replacement_log_profile(u, rate if rate < 1 else 1 - 1e-13, np.array([abs(epsilon)]))
    worst = math.exp(float(logs[0]))
    if epsilon < 0:  # H_{-e} = 1 - e^-e + e^-e H_e of the pair, which is symmetric
        worst = -math.expm1(epsilon) + factor * worst
    found = {}
    for one, two, angle in product((0.0, 0.6, 1.2), (0.0, 0.6, 1.2), (0.0, 0.9, 1.8, math.pi)):
        second = np.array([math.cos(angle), math.sin(angle)]) * two
        found[one, two, angle] = hockey_stick(np.array([one, 0.0]), second, rate, factor)
    assert max(found.values()) <= worst + GRID
    assert found[1.2, 1.2, math.pi] == pytest.approx(worst, abs=GRID)
    for (one, two, angle), value in found.items():
        assert value <= found[one, two, math.pi] + GRID
        assert found[one, two, math.pi] <= found[1.2, two, math.pi] + GRID, angle


def test_price_of_dp_sgd_under_replacement():
    """A program that discretises the same pair gives 4.21806 for this run (dp-accounting 0.6, default grid)."""
    run = 4688 * ac.PoissonSubsampled(ac.ClippedSum(0.76, adjacency="replace"), 256 / 60_000)
    tight = ac.epsilon(run, 1e-5, method="tight", tolerance=1e-3)
    assert tight.lower <= 4.21806 <= tight.epsilon * 1.0005
    assert tight.epsilon < ac.epsilon(run, 1e-5, method="renyi").epsilon < 1.2 * tight.epsilon
    assert tight.adjacency is REPLACE


@pytest.mark.audit
@pytest.mark.parametrize("event", [ac.ClippedSum(0.02, 1.0, REPLACE), ac.ClippedSum(1e4, 1.0, REPLACE)])
@pytest.mark.parametrize("rate", audit_after(1, [0.9, 1e-6]))
def test_laws_at_extremes(event, rate):
    check_event(ac.PoissonSubsampled(event, rate), max_examples=5)


def test_a_distance_alone_is_refused_and_the_way_out_named():
    with pytest.raises(ac.SubsamplingError, match=r"ClippedSum.*dp-sgd") as caught:
        ac.PoissonSubsampled(ac.Gaussian(0.76, adjacency="replace"), 0.1)
    assert "\n" not in str(caught.value)


def test_adjacency_as_a_string():
    assert ac.Gaussian(0.76, adjacency="replace") == ac.Gaussian(0.76, adjacency=REPLACE)
    assert ac.PureDP(1.0, adjacency="add-remove").adjacency is ac.Adjacency.ADD_REMOVE
    with pytest.raises(ac.ParameterError, match='accepted: "add-remove" or "replace"'):
        ac.Gaussian(0.76, adjacency="swap")
