"""The profile of a screening at the worst count, and pairs of blocks of counts, against all counts in 50 digits."""

import math
import random

import numpy as np
import pytest
from mpmath import mp, mpf

import accountant as ac
from accountant.events import screening_pairs
from accountant.events.screening_pairs import Screening
from accountant.tight.screening_families import solve_game
from tests.cases import audit_after


def bits(event, rate):
    """((p, 1 - p), (q, 1 - q)) with and without the individual, of every count and neighbour."""
    passed = {
        t: (
            mp.ncdf((t - mpf(event.threshold)) / mpf(event.sigma)),
            mp.ncdf((mpf(event.threshold) - t) / mpf(event.sigma)),
        )
        for t in range(event.min_votes, event.max_votes + 1)
    }
    for t in range(event.min_votes, event.max_votes):
        for without, moved in ((t, t + 1), (t + 1, t)):
            q = passed[without]
            yield tuple((1 - mpf(rate)) * a + mpf(rate) * b for a, b in zip(q, passed[moved], strict=True)), q


def profile(event, rate, epsilon, backward):
    u, best = mp.exp(mpf(epsilon)), mpf(0)
    for p, q in bits(event, rate):
        over, under = (q, p) if backward else (p, q)
        best = max([best, *(a - u * b for a, b in zip(over, under, strict=True))])
    return best


def draw(dice):
    low = dice.choice((0, 0, dice.randint(0, 30)))
    event = ac.NoisyScreening(10 ** dice.uniform(-1, 4), dice.uniform(-40.0, 90.0), low + dice.randint(1, 50), low)
    return event, dice.choice((1.0, 0.5, 0.999, 10 ** dice.uniform(-9, 0)))


@pytest.mark.each_run(10)
@pytest.mark.parametrize("seed", audit_after(20, range(60)))
def test_profile_is_that_of_the_worst_of_all_counts(seed):
    dice = random.Random(seed)
    event, rate = draw(dice)
    limit = float(ac.PoissonSubsampled(event, rate).renyi(math.inf))
    points = [
        0.0,
        limit * dice.random(),
        limit * dice.random() ** 8,
        limit * (1 - 10 ** dice.uniform(-6, -1)),
        2 * limit,
    ]
    run = event if rate == 1.0 else ac.PoissonSubsampled(event, rate)
    found = run._log_profile(np.array(points))
    with mp.workdps(60):
        for way in (0, 1):
            for point, log in zip(points, found[way].tolist(), strict=True):
                true = profile(event, rate, point, way == 1)
                if log == -math.inf:
                    assert true < mpf(10) ** -300 or point >= limit * (1 - 1e-9)
                else:
                    # next to the largest loss epsilon is cancelled
                    slip = 1e-14 * abs(log) + 1e-11 + 2**-48 * point / max(abs(limit - point), 1e-300)
                    assert abs(log - mp.log(true)) <= slip, (event, rate, point, way)


def test_ends_of_the_counts_and_of_the_noise():
    for event in (
        ac.NoisyScreening(1e-6, 1e12, 10**7),
        ac.NoisyScreening(1e12, -1e12, 10**7),
        ac.NoisyScreening(1e12, 1e12, 1),
        ac.DataDependentScreening(85.0, 1e12, 10**12),
    ):
        forward, backward = event._log_profile(np.array([0.0, 1e-12, 1.0, 1e300]))
        assert (forward == backward).all()
        assert (forward[1:] <= forward[:-1]).all()
        assert not np.isnan(forward).any()


def test_a_screening_of_many_counts_has_a_price():
    """Of as many counts as there may be, far from the threshold but for some: as with those alone."""
    many, some = ac.NoisyScreening(20.0, 5e6, 10**7), ac.NoisyScreening(20.0, 5e2, 10**3)
    found, known = (ac.epsilon(event, 1e-8, method="tight") for event in (many, some))
    assert found.epsilon == pytest.approx(known.epsilon, rel=1e-9)
    assert found.lower == pytest.approx(known.lower, rel=1e-9)


@pytest.mark.parametrize("rate", [1.0, 0.3])
@pytest.mark.parametrize(("most", "near"), [(8, 40.0), (8, 1.5), (40, 0.7)])
def test_pairs_of_blocks_are_above_all_pairs(most, near, rate, monkeypatch):
    """Every pair is below that of its block in both losses, and what is played is one of them; in 50 digits."""
    monkeypatch.setattr(screening_pairs, "MOST", most)
    monkeypatch.setattr(screening_pairs, "NEAR", near)
    screening_pairs._block_choices.cache_clear()
    event = ac.NoisyScreening(9.0, 31.3, 70, 3)
    choices = Screening(9.0, 31.3, 3, 70).choices(rate)
    screening_pairs._block_choices.cache_clear()
    assert choices.up.size < 2 * (event.max_votes - event.min_votes)
    with mp.workdps(50):
        losses = [sorted(mp.log(a / b) for a, b in zip(*pair, strict=True)) for pair in bits(event, rate)]
    ups, downs = np.array([float(high) for _, high in losses]), np.array([float(-low) for low, _ in losses])
    for up, down in zip(ups, downs, strict=True):
        assert ((choices.up >= up * (1 - 1e-12)) & (choices.down >= down * (1 - 1e-12))).any()
    for up, down in zip(*choices.played, strict=True):
        assert (np.isclose(ups, up, rtol=1e-11) & np.isclose(downs, down, rtol=1e-11)).any()


@pytest.mark.parametrize("rate", [1.0, 0.2])
def test_a_game_of_blocks_holds_that_of_all_counts(rate, monkeypatch):
    event = ac.NoisyScreening(300.0, 700.0, 1500)
    run = 5 * (event if rate == 1.0 else ac.PoissonSubsampled(event, rate))
    exact = [solve_game(run, way, delta=1e-4, tolerance=0.01) for way in ("remove", "add")]
    monkeypatch.setattr(screening_pairs, "MOST", 1000)
    # games are kept by their run
    screening_pairs._block_choices.cache_clear()
    other = 5 * (event if rate == 1.0 else ac.PoissonSubsampled(event, rate))
    blocks = [solve_game(other, way, delta=1.00001e-4, tolerance=0.01) for way in ("remove", "add")]
    screening_pairs._block_choices.cache_clear()
    points = np.linspace(0.0, 0.01 * rate, 9)
    for one, several in zip(exact, blocks, strict=True):
        assert (several.log_upper(points) >= one.log_lower(points)).all()
        assert (several.log_lower(points) <= one.log_upper(points)).all()
        assert (several.log_upper(points) <= one.log_upper(points) + 0.1).all()
