"""Very many releases: moments of tilted losses and prices against their definitions in high precision."""

import math
from itertools import pairwise

import mpmath as mp
import pytest

import accountant as ac
from accountant.adjacency import DIRECTIONS
from accountant.events.composition import Composition
from accountant.tight import normal_limit
from accountant.tight.directed_run import Question
from accountant.tight.loss_composition import settle_on_grids
from accountant.tight.loss_moments import loss_moments
from accountant.tight.normal_limit import NormalLimit, approach_normal

REMOVE, ADD = DIRECTIONS
ANY_WIDTH = 1.0


# --- moments ---------------------------------------------------------------------------------------------


def finite_pair(losses, masses):
    """E f(L) under P, of finitely many losses."""
    return lambda f: mp.fsum(p * f(loss) for loss, p in zip(losses, masses, strict=True))


def bit(epsilon, rate=1.0, turned=False):
    """One bit of randomized response against its complement, in a Poisson sample: P = (1-g) Q + g P."""
    epsilon, rate = mp.mpf(epsilon), mp.mpf(rate)
    q = [1 / (1 + mp.exp(epsilon)), 1 / (1 + mp.exp(-epsilon))]
    p = [(1 - rate) * mine + rate * other for mine, other in zip(q, q[::-1], strict=True)]
    losses = [mp.log(mine / other) for mine, other in zip(p, q, strict=True)]
    return finite_pair([-loss for loss in losses], q) if turned else finite_pair(losses, p)


def noise(log_q, log_p, ends, rate=1.0, turned=False):
    """Additive noise in a Poisson sample, by the densities with and without the record."""
    rate = mp.mpf(rate)

    def expected(f):
        def integrand(y):
            q, p = mp.exp(log_q(y)), mp.exp(log_p(y))
            mixed = q + rate * (p - q)
            loss = mp.log1p(rate * mp.expm1(log_p(y) - log_q(y)))
            return q * f(-loss) if turned else mixed * f(loss)

        return mp.quad(integrand, ends, method="gauss-legendre", maxdegree=5)

    return expected


def laplace(scale, rate=1.0, turned=False):
    t = 1 / mp.mpf(scale)
    ends = [-150, -60, -20, -5, 0, t / 2, t, t + 5, t + 20, t + 60, t + 150]
    half = mp.log(2)
    return noise(lambda y: -abs(y) - half, lambda y: -abs(y - t) - half, ends, rate, turned)


def gaussian(sigma, rate=1.0, turned=False):
    mu = 1 / mp.mpf(sigma)
    ends = mp.linspace(-12, 24, 19)
    log_root = mp.log(2 * mp.pi) / 2
    return noise(lambda y: -y * y / 2 - log_root, lambda y: -((y - mu) ** 2) / 2 - log_root, ends, rate, turned)


def sampled(event, rate):
    return ac.PoissonSubsampled(event, rate)


MOMENTS = [
    (ac.RandomizedResponse(1.0), REMOVE, 0.3, lambda: bit(1.0)),
    (ac.RandomizedResponse(1e-15), REMOVE, 5.0, lambda: bit(1e-15)),
    (ac.RandomizedResponse(12.0), REMOVE, 1e-7, lambda: bit(12.0)),
    (sampled(ac.RandomizedResponse(2.0), 1e-3), REMOVE, 12.0, lambda: bit(2.0, 1e-3)),
    (sampled(ac.RandomizedResponse(2.0), 1e-3), ADD, 12.0, lambda: bit(2.0, 1e-3, True)),
    (ac.Laplace(1.0), REMOVE, 1e-7, lambda: laplace(1.0)),
    (ac.Laplace(0.25), REMOVE, 1.5, lambda: laplace(0.25)),
    (ac.Laplace(1e9), REMOVE, 5.0, lambda: laplace(1e9)),
    (sampled(ac.Laplace(1.0), 1e-9), REMOVE, 5.0, lambda: laplace(1.0, 1e-9)),
    (sampled(ac.Laplace(0.5), 0.2), ADD, 2.0, lambda: laplace(0.5, 0.2, True)),
    (sampled(ac.Gaussian(1.0), 1e-9), REMOVE, 5.0, lambda: gaussian(1.0, 1e-9)),
    (sampled(ac.Gaussian(1.0), 0.1), ADD, 3.0, lambda: gaussian(1.0, 0.1, True)),
    (ac.Gaussian(1.0), REMOVE, 2.0, lambda: gaussian(1.0)),
]


@pytest.mark.each_run(3)
@pytest.mark.parametrize(("event", "direction", "tilt", "make"), MOMENTS, ids=[f"{m[0]} {m[1]}" for m in MOMENTS])
def test_moments_hold_those_of_the_definition(event, direction, tilt, make):
    found = loss_moments(event, direction, tilt, 1e-5)
    with mp.workdps(45):
        t, expected = mp.mpf(tilt), make()
        whole = expected(lambda loss: mp.exp(t * loss))
        mean = expected(lambda loss: loss * mp.exp(t * loss)) / whole
        variance = expected(lambda loss: (loss - mean) ** 2 * mp.exp(t * loss)) / whole
        # the integrals' own error, where the integrand has a kink
        third = expected(lambda loss: abs(loss - mean) ** 3 * mp.exp(t * loss)) / whole * (1 - mp.mpf("1e-4"))
        for name, (low, high), value in (
            ("log mean", found.log_mean, mp.log(whole)),
            ("mean", found.mean, mean),
            ("variance", found.variance, variance),
        ):
            assert low <= value <= high, name
            assert high - low <= 5e-3 * value, name
        assert third <= found.third <= 2 * third


def test_moments_are_as_narrow_as_was_asked():
    widths = []
    for accuracy in (1e-3, 1e-5, 1e-7):
        low, high = loss_moments(ac.Laplace(1.0), REMOVE, 0.5, accuracy).log_mean
        widths.append((high - low) / high)
    assert widths[0] > 10 * widths[1] > 100 * widths[2]


def test_a_loss_that_may_be_infinite_has_no_moments():
    assert loss_moments(ac.ApproximateDP(1.0, 1e-3), REMOVE, 1.0, 1e-5) is None


# --- bounds on delta -------------------------------------------------------------------------------------


def binomial_delta(n, bit_epsilon, epsilon):
    """delta of n bits, each told truly with probability 1/(1 + e^-e): the sum over the numbers of true bits."""
    each, epsilon = mp.mpf(bit_epsilon), mp.mpf(epsilon)
    p = 1 / (1 + mp.exp(-each))
    first = int(mp.floor((epsilon / each + n) / 2)) + 1
    log_pmf = mp.loggamma(n + 1) - mp.loggamma(first + 1) - mp.loggamma(n - first + 1)
    pmf = mp.exp(log_pmf + first * mp.log(p) + (n - first) * mp.log(1 - p))
    total, k = mp.mpf(0), first
    while k <= n:
        term = pmf * -mp.expm1(epsilon - (2 * k - n) * each)
        total += term
        if 2 * k > n + 2 and term < total * mp.mpf("1e-18") and k > first + 10:
            break
        pmf *= (n - k) * p / ((k + 1) * (1 - p))
        k += 1
    return total


BITS = [(1000, 0.1), (1000, 1.0), (10_000, 0.02), (100_000, 0.003), (1_000_000, 0.001)]


@pytest.mark.each_run(3)
@pytest.mark.parametrize(("n", "bit_epsilon"), BITS)
def test_bounds_hold_binomials(n, bit_epsilon):
    run = n * ac.RandomizedResponse(bit_epsilon)
    middle, spread = n * bit_epsilon * math.tanh(bit_epsilon / 2), math.sqrt(n) * bit_epsilon
    with mp.workdps(30):
        for z in (-1.0, 0.5, 2.0, 5.0):
            epsilon = max(middle + z * spread, 0.0)
            exact = binomial_delta(n, bit_epsilon, epsilon)
            tilt = ac.epsilon(run, delta=float(exact), method="renyi", conversion="improved").order - 1
            for share in (0.3, 1.0, 2.0):
                low, high = NormalLimit(run, REMOVE, share * tilt, 1e-7).log_bounds(epsilon)
                assert low <= mp.log(exact) <= high, (z, share)
            low, high = NormalLimit(run, REMOVE, tilt, 1e-7).log_bounds(epsilon)
            assert high - low < 30 * 5 / math.sqrt(n), z


@pytest.mark.parametrize("delta", [0.1, 1e-6, 1e-40])
def test_epsilons_hold_binomials(delta):
    n, bit_epsilon = 100_000, 0.004
    run = n * ac.RandomizedResponse(bit_epsilon)
    found = approach(run, Question(delta, 0.0, ANY_WIDTH))
    with mp.workdps(30):
        assert binomial_delta(n, bit_epsilon, found.lower) >= delta >= binomial_delta(n, bit_epsilon, found.upper)
    assert found.upper - found.lower < 0.03 * found.upper


def test_without_the_distance_from_the_normal_law_bounds_are_wrong():
    n, bit_epsilon = 1000, 0.5
    limit = NormalLimit(n * ac.RandomizedResponse(bit_epsilon), REMOVE, 0.3, 1e-7)
    limit.log_error = -1e3
    with mp.workdps(30):
        wrong = 0
        for epsilon in (110.0, 125.0, 140.0):
            low, high = limit.log_bounds(epsilon)
            wrong += not low <= mp.log(binomial_delta(n, bit_epsilon, epsilon)) <= high
    assert wrong == 3


def approach(run, question, many=1):
    """`approach_normal`, of fewer releases too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normal_limit, "MANY", many)
        return approach_normal(run, question)


RUNS = [
    20_000 * ac.KaryRandomizedResponse(0.02, 7),
    20_000 * sampled(ac.Laplace(3.0), 0.01),
    30_000 * sampled(ac.RandomizedResponse(2.0), 0.003),
    10_000 * ac.Laplace(40.0) + 5000 * ac.RandomizedResponse(0.02) + 2 * ac.Gaussian(3.0),
]


@pytest.mark.each_run(2)
@pytest.mark.parametrize("run", RUNS, ids=str)
def test_intervals_meet_those_of_grids(run):
    for delta, epsilon in ((1e-7, 0.0), (None, 2.0)):
        ours = approach(run, Question(delta, epsilon, ANY_WIDTH))
        grid = settle_on_grids(run, Question(delta, epsilon, 5e-3), None, DIRECTIONS)
        assert ours.lower <= grid.upper
        assert grid.lower <= ours.upper
        assert ours.upper - ours.lower < 0.25 * ours.upper


# --- prices ----------------------------------------------------------------------------------------------

MANY_RUNS = [
    (ac.RandomizedResponse, 1.0),
    (lambda e: ac.Laplace(1 / e), 1.0),
    (lambda e: ac.KaryRandomizedResponse(e, 2), 1.0),
]


@pytest.mark.parametrize("n", [10**8, 10**10, 10**15, 10**30])
@pytest.mark.parametrize(("make", "mu"), MANY_RUNS)
def test_tiny_losses_cost_what_gaussian_noise_does(n, make, mu):
    # n losses of +-e, e = n^-1/2, are N(1/2, 1) in the limit; Laplace losses of scale 1/e too
    run = n * make(mu / math.sqrt(n))
    found, limit = ac.epsilon(run, delta=1e-6, method="tight"), ac.epsilon(ac.Gaussian(1.0), delta=1e-6)
    assert found.lower - 1e-4 <= limit.epsilon <= found.epsilon + 1e-4
    assert found.epsilon - found.lower <= 1e-3 * found.epsilon
    assert found.epsilon <= ac.epsilon(run, delta=1e-6, method="renyi").epsilon
    assert ac.epsilon(run, delta=1e-6).method == "tight"
    log_delta = math.log(ac.delta(ac.Gaussian(1.0), epsilon=3.0).delta)
    bounds = ac.delta(run, epsilon=3.0, method="tight")
    assert math.log(bounds.lower) - 1e-3 <= log_delta <= math.log(bounds.delta) + 1e-3


@pytest.mark.audit
@pytest.mark.parametrize("inner", [ac.Laplace(1.0), ac.Gaussian(1.0), ac.RandomizedResponse(1.0)], ids=str)
def test_tiny_samples_cost_what_their_variance_does(inner):
    # the losses of n samples at the rate c n^-1/2 are N(mu^2/2, mu^2) in the limit, mu^2 = c^2 chi^2(P, Q)
    chi = math.sqrt(math.expm1(float(inner.renyi(2.0))))
    for n in (10**12, 10**15, 10**30):
        run = n * sampled(inner, 1 / math.sqrt(n))
        found, limit = ac.epsilon(run, delta=1e-5, method="tight"), ac.epsilon(ac.Gaussian(1 / chi), delta=1e-5)
        assert found.lower * (1 - 1e-4) <= limit.epsilon <= found.epsilon * (1 + 1e-4)
        assert found.epsilon - found.lower <= 1e-3 * found.epsilon
        assert found.epsilon <= ac.epsilon(run, delta=1e-5, method="renyi").epsilon


@pytest.mark.parametrize("each", [1.0, 12.0])
@pytest.mark.parametrize("n", [10**10, 10**20, 10**30])
def test_large_losses_cost_their_mean(n, each):
    found = ac.epsilon(n * ac.RandomizedResponse(each), delta=1e-6, method="tight")
    with mp.workdps(40):
        # Chernoff's bound above and Chebyshev's below are within 40 deviations of the mean
        mean, spread = n * each * mp.tanh(mp.mpf(each) / 2), 40 * each * mp.sqrt(n)
        assert found.epsilon >= mean * (1 - mp.mpf("1e-11")) - spread
        assert found.lower <= mean * (1 + mp.mpf("1e-11")) + spread
    assert found.epsilon - found.lower <= 1e-3 * found.epsilon


@pytest.mark.audit
def test_prices_are_monotone():
    each = ac.RandomizedResponse(1e-6)
    counts = [10**11, 10**12, 10**13, 10**14]
    intervals = [ac.epsilon(n * each, delta=1e-8, method="tight") for n in counts]
    assert all(few.epsilon < many.lower for few, many in pairwise(intervals))
    run = 10**12 * sampled(ac.Laplace(1.0), 1e-6)
    deltas = [ac.delta(run, epsilon=epsilon, method="tight") for epsilon in (0.0, 0.5, 2.0, 8.0, 30.0)]
    assert all(less.lower > more.delta > 0.0 for less, more in pairwise(deltas))
    epsilons = [ac.epsilon(run, delta=delta, method="tight") for delta in (0.5, 1e-3, 1e-30, 1e-200)]
    assert all(less.epsilon <= more.lower for less, more in pairwise(epsilons))


def test_more_releases_are_never_cheaper_where_the_way_changes():
    each = ac.RandomizedResponse(1e-3)
    few, many = (ac.epsilon(n * each, delta=1e-6, method="tight") for n in (999_000, 1_001_000))
    assert few.lower < many.epsilon
    assert many.epsilon - few.epsilon < 0.01 * many.epsilon


def test_normal_noise_is_exact_beside_others():
    few = 3 * ac.Gaussian(1.0)
    run = few + 10**8 * ac.RandomizedResponse(1e-6)
    limit = NormalLimit(Composition(run), REMOVE, 2.0, 1e-7)
    with_noise, without = limit.log_error, NormalLimit(10**8 * ac.RandomizedResponse(1e-6), REMOVE, 2.0, 1e-7).log_error
    assert with_noise == pytest.approx(without, abs=1e-6)
    found = ac.epsilon(run, delta=1e-6, method="tight")
    mu = math.sqrt(3 + 1e-4)
    assert found.lower - 1e-5 <= ac.epsilon(ac.Gaussian(1 / mu), delta=1e-6).epsilon <= found.epsilon + 1e-5


def test_other_runs_are_left_to_others():
    question = Question(1e-6, 0.0, 1e-3)
    assert approach(999 * ac.RandomizedResponse(0.01), question, many=1000) is None
    assert approach(100 * ac.RandomizedResponse(0.01), question) is None  # wider than was asked
    assert approach(10**7 * ac.ExponentialMechanism(1e-4), question) is None  # a family
    assert approach(10**7 * ac.RandomizedResponse(1e-3), Question(1e-6, 0.0, 1e-6)) is None
