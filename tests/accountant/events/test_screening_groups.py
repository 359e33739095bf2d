"""Groups of records in noisy screenings, against the bits that moved counts show, in high precision."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import accountant as ac
from accountant.events import screening_groups
from accountant.events.screening_groups import ScreeningGroup
from accountant.patience import tally_work

CASES = [(2.0, 6.0, 10, 0, 3), (0.5, 4.0, 9, 2, 2), (5.0, 1.0, 4, 0, 9), (3.0, -10.0, 8, 0, 4)]
"""Sigma, threshold, largest and smallest count, records."""


def chance(sigma, threshold, count):
    return mp.ncdf((mpf(count) - mpf(threshold)) / mpf(sigma))


def bits(case, rate):
    """Probabilities of passing, with and without the records, for every count, up and down."""
    sigma, threshold, high, low, records = case
    with mp.workdps(50):
        shares = [
            mp.binomial(records, j) * mpf(rate) ** j * (1 - mpf(rate)) ** (records - j) for j in range(records + 1)
        ]
        for t in range(low, high + 1):
            for sign in (1, -1):
                moved = [min(max(t + sign * j, low), high) for j in range(records + 1)]
                mixed = mp.fsum(b * chance(sigma, threshold, m) for b, m in zip(shares, moved, strict=True))
                yield mixed, chance(sigma, threshold, t)


def divergence(p, q, order):
    return mp.log(p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)) / (order - 1)


def gain(p, q, epsilon):
    grown = mp.exp(mpf(epsilon))
    return max(p - grown * q, 0) + max((1 - p) - grown * (1 - q), 0)


@pytest.mark.parametrize("rate", [1.0, 0.3, 1e-3])
@pytest.mark.parametrize("case", CASES)
def test_groups_are_the_worst_of_all_counts(case, rate):
    sigma, threshold, high, low, records = case
    screening = ac.NoisyScreening(sigma, threshold, high, low)
    group = ac.Group(screening if rate == 1.0 else ac.PoissonSubsampled(screening, rate), records)
    with mp.workdps(50):
        pairs = list(bits(case, rate))
        for order in (1.5, 4.0, 40.0):
            exact = max(max(divergence(p, q, mpf(order)), divergence(q, p, mpf(order))) for p, q in pairs)
            assert float(group.renyi(order)) == pytest.approx(float(exact), rel=1e-9)
        limit = max(abs(mp.log(each)) for p, q in pairs for each in (p / q, (1 - p) / (1 - q)))
        assert float(group.renyi(math.inf)) == pytest.approx(float(limit), rel=1e-9)
        for epsilon in (0.0, 0.05, 0.8):
            found = group.profile(epsilon)
            remove, add = (
                float(max(gain(*pair, epsilon) for pair in each)) for each in (pairs, [x[::-1] for x in pairs])
            )
            assert float(found.remove) == pytest.approx(remove, rel=1e-9, abs=1e-300)
            assert float(found.add) == pytest.approx(add, rel=1e-9, abs=1e-300)


def test_no_moves_of_the_count_cost_more():
    """Every record may move the count by -1, 0 or 1, whoever else joins."""
    rng = np.random.default_rng(3)
    sigma, threshold, high, records, rate = 1.5, 4.0, 9, 3, 0.4
    group = ac.Group(ac.PoissonSubsampled(ac.NoisyScreening(sigma, threshold, high), rate), records)
    for _ in range(40):
        t, moves = int(rng.integers(0, high + 1)), rng.integers(-1, 2, records)
        q, p = chance(sigma, threshold, t), mpf(0)
        for joined in np.ndindex(*(2,) * records):
            weight = math.prod(rate if bit else 1 - rate for bit in joined)
            p += weight * chance(sigma, threshold, min(max(t + int(moves @ np.array(joined)), 0), high))
        for epsilon in (0.0, 0.3, 1.0):
            assert gain(p, q, epsilon) <= float(group.profile(epsilon).remove) + 1e-12
            assert gain(q, p, epsilon) <= float(group.profile(epsilon).add) + 1e-12


def test_one_record_is_the_screening_and_more_records_cost_more():
    for event in (ac.NoisyScreening(20, 40, 80), ac.PoissonSubsampled(ac.NoisyScreening(20, 40, 80), 0.2)):
        costs = [ac.epsilon(100 * ac.Group(event, size), 1e-5, method="renyi").epsilon for size in (1, 2, 5)]
        assert costs == sorted(costs)
        assert costs[0] == ac.epsilon(100 * event, 1e-5, method="renyi").epsilon
    # the noisy count itself moves five times as far
    screening, noise = (ac.Group(each, 5) for each in (ac.NoisyScreening(20, 40, 80), ac.Gaussian(20.0)))
    assert (screening.renyi([1.0, 3.0, 50.0]) <= noise.renyi([1.0, 3.0, 50.0])).all()


def test_limits_and_refusals():
    wide = ac.NoisyScreening(20, 40, 80)
    assert (
        ac.Group(wide, 80).renyi([1.0, 5.0, math.inf]).tolist() == ac.Group(wide, 999).renyi([1, 5, math.inf]).tolist()
    )
    with pytest.raises(ac.ParameterError, match="counts times records up to"):
        ac.Group(ac.PoissonSubsampled(ac.NoisyScreening(20, 40, 10**6), 0.5), 500)
    several = ac.epsilon(3 * ac.Group(wide, 2), 1e-5, method="tight")
    assert 0.99 * several.epsilon <= several.lower
    assert several.epsilon < ac.epsilon(3 * ac.Group(wide, 2), 1e-5, method="renyi").epsilon
    alone = ac.epsilon(ac.Group(wide, 2), 1e-5, method="tight")
    assert alone.lower <= alone.epsilon <= ac.epsilon(ac.Group(wide, 2), 1e-5, method="renyi").epsilon * (1 + 1e-12)


@pytest.mark.parametrize("move", [1, 2, 7, 33, 70])
@pytest.mark.parametrize(("sigma", "threshold"), [(0.05, 11.3), (1.0, 30.0), (6.0, -8.0), (6.0, 80.0), (60.0, 20.0)])
def test_where_all_join_the_worst_count_is_that_of_all(sigma, threshold, move):
    """Against the arrays of all pairs: gains at every count, moved as far as it goes, both ways."""
    group = ScreeningGroup(sigma, threshold, 3, 36, move, 1.0)
    pairs = group._pairs()
    epsilons = np.concatenate([[0.0], np.geomspace(1e-4, 300.0, 40)])
    for found, whole in zip(group._log_profile(epsilons), (pairs, pairs.reversed()), strict=True):
        exact = whole.log_profile(epsilons)
        seen = exact > -700.0
        assert found[seen] == pytest.approx(exact[seen], rel=1e-12, abs=1e-13)
        assert (found[~seen] <= -700.0).all()
    limit = float(np.max(np.abs([pairs.ratio_pass, pairs.ratio_fail])))
    assert float(group.renyi(math.inf)) == pytest.approx(limit, rel=1e-12)


def test_groups_in_a_screening_of_many_counts_have_a_price_without_their_pairs(monkeypatch):
    group = ac.Group(ac.NoisyScreening(85.0, 210.0, 10**7), 2)
    # far from both ends counts are all that matter: the same at 10^3 of them
    few = ac.epsilon(ac.Group(ac.NoisyScreening(85.0, 210.0, 1000), 2), 1e-5, method="tight")
    monkeypatch.setattr(screening_groups, "group_pairs", lambda *_: pytest.fail("all pairs were made"))
    with tally_work() as tally:
        found = ac.epsilon(group, 1e-5, method="tight")
    assert found.epsilon == pytest.approx(few.epsilon, rel=1e-9)
    assert tally[0] < 0.05e9
