"""The family game against its definition: brute force, exact binomials, Rényi, and the spec's reference values."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant.tight.cover_kernels import STEP_ROUNDING
from accountant.tight.game_setup import Asked
from accountant.tight.game_value import PlayedGame
from accountant.tight.pairs import Family, Pairs
from accountant.tight.screening_families import _solve, solve_game
from accountant.tight.screening_game import Windows, play_steps

DIRECTIONS = ["remove", "add"]


def screening(rate=1.0, sigma=85.0, threshold=210.0, k=300, **more):
    event = ac.NoisyScreening(sigma, threshold, k, **more)
    return event if rate == 1.0 else ac.PoissonSubsampled(event, rate)


def pairs_of(event, direction):
    """(P, Q) of every count and neighbour from their definition, as lists of (p, q) over the two outcomes."""
    plain, rate = event.unsampled, event.sampling_rate

    def passed(t):
        return mp.ncdf((t - mp.mpf(plain.threshold)) / plain.sigma), mp.ncdf(
            -(t - mp.mpf(plain.threshold)) / plain.sigma
        )

    low, high = plain.min_votes, plain.max_votes
    pairs = []
    for t, other in [(t, t + 1) for t in range(low, high)] + [(t + 1, t) for t in range(low, high)]:
        without, moved = passed(t), passed(other)
        present = [(1 - mp.mpf(rate)) * a + mp.mpf(rate) * b for a, b in zip(without, moved, strict=True)]
        pairs.append(list(zip(present, without, strict=True)))
    return pairs if direction == "remove" else [[(q, p) for p, q in pair] for pair in pairs]


def brute_force(pairs, steps, u):
    """W_steps(u) by its recursion."""
    if steps == 0:
        return max(1 - u, mp.mpf(0))
    return max(mp.fsum(p * brute_force(pairs, steps - 1, u * q / p) for p, q in pair if p > 0) for pair in pairs)


def check_against_brute_force(event, steps, direction, fractions, **options):
    tail = solve_game([(event, steps)], direction, **options)
    pairs = pairs_of(event, direction)
    end = max(mp.log(p / q) for pair in pairs for p, q in pair if p > 0)
    x = np.array([float(end) * steps * f for f in fractions])
    upper, lower = tail.log_upper(x), tail.log_lower(x)
    assert (lower <= upper).all()
    for i, point in enumerate(x.tolist()):
        true = brute_force(pairs, steps, mp.exp(point))
        # of 60 digits, the sums below 1 keep 40 for certain
        log_true = float(mp.log(true)) if true > 0 else -math.inf
        slip = 1e-15 * abs(log_true) + 1e-40 if true > 0 else 0.0
        assert lower[i] <= log_true + slip, (event, steps, direction, point)
        assert upper[i] >= log_true - slip, (event, steps, direction, point)
    return tail


@pytest.mark.each_run(1)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("event", "steps"),
    [
        (screening(sigma=1.0, threshold=1.0, k=1), 6),
        (screening(sigma=1.5, threshold=2.0, k=2), 4),
        (screening(rate=0.3, sigma=1.0, threshold=1.5, k=3), 3),
        (screening(rate=0.25, sigma=2.0, threshold=0.0, k=4), 3),  # threshold at the lower edge
        (screening(sigma=0.7, threshold=5.0, k=5, min_votes=2), 3),  # and at the upper one
        (screening(rate=0.9, sigma=0.1, threshold=1.0, k=2), 3),  # all but certain outcomes, enormous losses
        (screening(sigma=1e6, threshold=1.0, k=2), 3),  # nearly no loss at all
        (screening(sigma=3.0, threshold=40.0, k=5), 2),  # a threshold that no count comes near
    ],
)
def test_brute_force(event, steps, direction):
    with mp.workdps(60):
        check_against_brute_force(event, steps, direction, [-0.7, -0.1, 0.0, 0.05, 0.21, 0.4, 0.6, 0.83, 0.97, 1.01])


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    sigma=st.floats(-0.5, 2.0).map(lambda e: 10.0**e),
    k=st.integers(1, 4),
    threshold=st.floats(-1.0, 6.0),
    rate=st.one_of(st.just(1.0), st.floats(1e-3, 0.999)),
    steps=st.integers(1, 3),
    direction=st.sampled_from(DIRECTIONS),
    x=st.floats(-1.0, 1.0),
)
def test_random_small_families(sigma, k, threshold, rate, steps, direction, x):
    with mp.workdps(60):
        event = screening(rate, sigma, threshold, k)
        check_against_brute_force(event, steps, direction, [x, x / 10, x / 100], delta=1e-4, tolerance=0.05)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_one_pair_repeated_is_the_binomial(direction):
    """k = 1: passing at count 0 or 1. One pair, and its mirror image, that differ only when sampled."""
    event, steps = screening(sigma=20.0, threshold=0.5, k=1), 400  # symmetric: both pairs have the same loss
    tail = solve_game([(event, steps)], direction)
    with mp.workdps(40):
        p, q = mp.ncdf(mp.mpf(1) / 40), mp.ncdf(-mp.mpf(1) / 40)
        for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
            true = mp.fsum(
                mp.binomial(steps, j) * max(p**j * q ** (steps - j) - mp.exp(epsilon) * q**j * p ** (steps - j), 0)
                for j in range(steps + 1)
            )
            bounds = tail.delta(epsilon)
            assert bounds.lower <= true <= bounds.upper
            assert bounds.upper - bounds.lower <= 0.1 * true


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("steps", [1, 7, 300])
def test_bounds_bracket_and_lie_below_renyi(steps, direction):
    event = screening(0.25)
    tail = solve_game([(event, steps)], direction)
    for delta in (1e-3, 1e-5, 1e-8, 1e-12, 1e-50, 1e-200):
        bounds = tail.epsilon(delta)
        assert 0.0 <= bounds.lower <= bounds.upper <= 1.002 * ac.epsilon(steps * event, delta, method="renyi").epsilon
    reference = tail.epsilon(1e-5)
    assert reference.upper - reference.lower <= 0.01 * max(reference.upper, 0.0024 * math.sqrt(steps))
    x = np.concatenate([[-np.inf, np.inf], np.linspace(-2, 2, 4001)])
    upper, lower = tail.log_upper(x), tail.log_lower(x)
    assert (lower <= upper).all()
    assert (upper <= 0.0).all()
    with np.errstate(divide="ignore"):
        assert (upper >= np.log(np.maximum(-np.expm1(x), 0.0)) - 1e-12).all()
    assert upper[0] == 0.0
    assert upper[1] == -math.inf


def test_epsilon_and_delta_are_inverse_within_the_bounds():
    tail = solve_game([(screening(0.25), 200)], "remove")
    for delta in (1e-2, 1e-5, 1e-9):
        low, high = tail.epsilon(delta)
        assert tail.delta(high).upper <= delta * (1 + 1e-9)
        assert tail.delta(low).lower >= delta * (1 - 1e-9)


def test_more_steps_cost_more():
    epsilons = [solve_game([(screening(0.25), n)], "add").epsilon(1e-5) for n in (50, 100, 200, 400)]
    for fewer, more in itertools.pairwise(epsilons):
        assert fewer.upper < more.lower


def test_adaptive_choice_costs_no_less_than_any_single_count():
    steps, delta = 500, 1e-5
    worst = 0.0
    for t in (180, 205, 209, 215, 240):
        single = ac.PoissonSubsampled(ac.NoisyScreening(85.0, 210.0, t + 1, min_votes=t), 0.25)
        worst = max(worst, solve_game([(single, steps)], "remove", tolerance=0.005).epsilon(delta).lower)
    assert worst <= solve_game([(screening(0.25), steps)], "remove").epsilon(delta).upper


@pytest.mark.parametrize(
    ("rate", "steps", "single", "most"),
    # single: the worst single count, exactly, which the adaptive one is at least
    [pytest.param(0.25, 8192, 0.7749, 0.783, marks=pytest.mark.audit), (1.0, 8192, 3.6275, 3.66)],
)
def test_reference_values(rate, steps, single, most):
    bounds = [solve_game([(screening(rate), steps)], direction).epsilon(1e-5) for direction in DIRECTIONS]
    assert max(b.upper for b in bounds) <= most
    assert max(b.upper for b in bounds) >= single
    assert max(b.lower for b in bounds) >= 0.99 * single


def test_sampling_at_rate_one_and_zero():
    plain, nothing = screening(), ac.PoissonSubsampled(ac.NoisyScreening(85.0, 210.0, 300), 0.0)
    sure = ac.PoissonSubsampled(plain, 1.0)
    assert solve_game([(plain, 50)], "add").epsilon(1e-5) == solve_game([(sure, 50)], "add").epsilon(1e-5)
    for entries in ([], [(nothing, 10)], [(plain, 0)]):
        tail = solve_game(entries, "remove")
        assert tail.epsilon(1e-5) == (0.0, 0.0)
        assert tail.delta(0.0) == (0.0, 0.0)
        assert tail.delta(-1.0) == pytest.approx((-math.expm1(-1.0),) * 2)
    mixed = solve_game([(plain, 50), (nothing, 10)], "add")
    assert mixed.epsilon(1e-5) == solve_game([(plain, 50)], "add").epsilon(1e-5)


@pytest.mark.parametrize(
    "event",
    [
        screening(sigma=1e-6, threshold=1.0, k=2),  # one outcome is certain, the loss 1e11
        screening(0.5, sigma=1e-3, threshold=2.0, k=3),
        screening(sigma=1e12, threshold=1.0, k=3),
        screening(sigma=1.0, threshold=1e6, k=3),
        screening(1e-15, sigma=1.0, threshold=2.0, k=3),
        screening(sigma=20_000.0, threshold=5e5, k=1_000_000),
    ],
)
def test_extreme_parameters(event):
    for direction in DIRECTIONS:
        tail = solve_game([(event, 5)], direction, tolerance=0.1)
        bounds = tail.epsilon(1e-5)
        assert 0.0 <= bounds.lower <= bounds.upper <= float(5 * event.renyi(math.inf)) * (1 + 1e-10)
        x = np.linspace(-1.5, 1.5, 301) * max(bounds.upper, 1e-12)
        assert (tail.log_lower(x) <= tail.log_upper(x)).all()


@pytest.mark.each_run(2)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("event", "near", "steps", "delta"),
    [
        (screening(sigma=1e3, threshold=5e4, k=10**5), (40_000, 60_000), 10, 1e-6),
        (screening(0.27, sigma=545.5, threshold=348_100.0, k=2_199_261), (343_100, 353_100), 82, 2.3e-11),
        (screening(0.02, sigma=75.0, threshold=8139.0, k=111_502), (7400, 8900), 200, 1e-250),
    ],
)
def test_counts_far_from_the_threshold_do_not_widen_the_price(event, near, steps, delta, direction):
    plain = event.unsampled
    fewer = screening(event.sampling_rate, plain.sigma, plain.threshold, near[1], min_votes=near[0])
    low, high = solve_game([(event, steps)], direction, delta=delta).epsilon(delta)
    of_fewer = solve_game([(fewer, steps)], direction, delta=delta).epsilon(delta)
    assert 0.99 * high <= low <= high
    # an adversary may keep to counts near the threshold
    assert of_fewer.lower <= high
    one = solve_game([(event, 1)], direction, delta=delta)
    x = np.array([0.0, 0.3, 0.6]) * one.epsilon(delta).upper
    known = event._log_profile(x)[DIRECTIONS.index(direction)]
    assert (one.log_lower(x) <= known + 1e-11 * (1 + np.abs(known))).all()
    assert (one.log_upper(x) >= known - 1e-11 * (1 + np.abs(known))).all()


def test_losses_that_are_rare_and_large_have_short_blocks():
    """Next to no count fails: blocks on grids as fine as the variance says took a minute."""
    run = 782 * screening(0.112, sigma=16.85, threshold=-96.34, k=4518)
    price = ac.epsilon(run, 1.4e-9, method="tight")
    assert 0.99 * price.epsilon <= price.lower <= price.epsilon


@pytest.mark.parametrize(
    ("entries", "direction", "options", "message"),
    [
        ([(ac.Gaussian(1.0), 1)], "add", {}, "noisy screenings"),
        ([(ac.PoissonSubsampled(ac.Gaussian(1.0), 0.5), 1)], "add", {}, "noisy screenings"),
        ([(screening(), 1)], "up", {}, "remove, add"),
        ([(screening(), 1)], "add", {"delta": 0.0}, "delta = 0"),
        ([(screening(), 1)], "add", {"tolerance": 2.0}, "tolerance = 2"),
    ],
)
def test_refusals(entries, direction, options, message):
    with pytest.raises(ac.ParameterError, match=message):
        solve_game(entries, direction, **options)


def test_too_fine_a_grid_is_refused():
    with pytest.raises(ac.ToleranceUnreachable, match="too fine a grid for 1000000000"):
        solve_game([(screening(), 10**9)], "add")


def test_nan_is_refused():
    with pytest.raises(ac.ParameterError, match="nan"):
        solve_game([(screening(), 1)], "add").log_upper([0.0, math.nan])


def exact_delta(up, down, steps, epsilon):
    """Of one pair, again and again: a binomial number of losses `up`."""
    p = -mp.expm1(-down) / -mp.expm1(-(up + down))
    total = mp.mpf(0)
    for ups in range(steps + 1):
        loss = ups * up - (steps - ups) * down
        if loss > epsilon:
            total += mp.binomial(steps, ups) * p**ups * (1 - p) ** (steps - ups) * -mp.expm1(epsilon - loss)
    return total


@pytest.mark.each_run(6)
@pytest.mark.parametrize("step", [64.0, 250.0, 375.0, 590.0])
@pytest.mark.parametrize(("up", "down"), [(2000.0, 1e-3), (1777.7, 0.2), (1e-3, 2000.0)])
def test_slopes_that_underflow_claim_nothing(up, down, step):
    """Moved by e^step at a time, a slope that was lost would have come back: tests went on beyond the largest loss."""
    steps, pair = 9, Pairs(np.array([up]), np.array([down]))
    ends = np.ceil(np.arange(steps + 1) * max(up, down) / step).astype(np.int64) + 1
    upper, tests = play_steps(Family(pair, pair), Windows(ends, ends), step, 1e-3)
    end = steps * max(up, down)
    game = PlayedGame(step, upper, tests, (steps + 1) * STEP_ROUNDING, np.ones(1), np.full(1, math.inf), 2 * end)
    points = np.linspace(0.0, 1.1 * end, 111)
    with mp.workdps(60):
        for way, both in enumerate(((up, down), (down, up))):
            for x, low in zip(points.tolist(), game.log_lower(way, points).tolist(), strict=True):
                exact = exact_delta(*(mp.mpf(each) for each in both), steps, mp.mpf(x))
                assert mp.exp(low) <= exact * (1 + mp.mpf(10) ** -9), x
            for delta in (1e-3, 1e-5, 1e-9, 1e-20, 1e-200):
                least = game.least_epsilon(way, delta)
                exact = exact_delta(*(mp.mpf(each) for each in both), steps, mp.mpf(least))
                assert least == 0.0 or exact * (1 + mp.mpf(10) ** -9) >= delta


def test_no_grid_claims_more_than_the_largest_loss():
    """On finer ones than the first a lower end was 7959043, and the largest loss is 7958132."""
    run, delta, played = 11 * ac.ExponentialMechanism(723466.5938152629, ac.Adjacency.REPLACE), 2.292e-05, []
    with pytest.raises(ac.ToleranceUnreachable):
        _solve(Asked(run, delta), 0.01, played)
    assert len(played) > 5
    for game in played:
        for way in range(2):
            assert game.least_epsilon(way, delta) <= game.greatest_epsilon(way, delta)
