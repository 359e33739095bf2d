"""True-positive rates, advantage, Bayes risk, precision and mu against closed forms and definitions."""

import math
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

import accountant as ac
from accountant.attack import sum_of_scores
from accountant.tight.trade_off import ProfileTradeOff, both_signs

RATES = np.array([1e-300, 1e-12, 1e-8, 1e-5, 1e-3, 0.05, 0.3, 0.5, 0.9])
SAMPLED = ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01)


def assert_certified(found, truth, rtol):
    """The interval holds the truth, up to the truth's own rounding, and is narrow."""
    assert (found.lower <= truth * (1 + 1e-11)).all()
    assert (truth <= found.upper * (1 + 1e-11)).all()
    np.testing.assert_allclose(found.lower, truth, rtol=rtol)
    np.testing.assert_allclose(found.upper, truth, rtol=rtol)


# --- closed forms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [1e-6, 0.01, 0.5, 1.0, 5.0, 30.0])
def test_gaussian(mu):
    assert_certified(ac.true_positive_rate(ac.GaussianDP(mu), RATES), ndtr(mu + ndtri(RATES)), 1e-7)
    assert_certified(ac.advantage(ac.GaussianDP(mu)), np.array(math.erf(mu / math.sqrt(8))), 1e-7)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 3.0])
def test_laplace(epsilon):
    grown, shrunk = math.exp(epsilon), math.exp(-epsilon)
    truth = [grown * a if a < shrunk / 2 else 1 - shrunk / (4 * a) if a < 0.5 else 1 - shrunk * (1 - a) for a in RATES]
    assert_certified(ac.true_positive_rate(ac.Laplace(1 / epsilon), RATES), np.array(truth), 1e-7)


def likelihood_ratio_test(p, q, rate):
    """Neyman and Pearson: the largest P(S) of a randomised S with Q(S) = rate."""
    power = left = Fraction(0)
    left = Fraction(rate)
    for mass, null in sorted(zip(p, q, strict=True), key=lambda pair: -pair[0] / pair[1] if pair[1] else -math.inf):
        share = min(Fraction(1), left / null) if null else Fraction(1)
        power, left = power + share * mass, left - share * null
    return power


@pytest.mark.parametrize(("epsilon", "bits"), [(0.3, 1), (2.0, 1), (1.0, 3)])
def test_randomized_response_by_brute_force(epsilon, bits):
    yes = Fraction(math.exp(epsilon) / (1 + math.exp(epsilon)))
    run = bits * ac.PureDP(epsilon)
    outcomes = list(product((0, 1), repeat=bits))
    p = [math.prod(yes if bit else 1 - yes for bit in outcome) for outcome in outcomes]
    truth = np.array([float(likelihood_ratio_test(p, p[::-1], rate)) for rate in RATES])
    assert_certified(ac.true_positive_rate(run, RATES), truth, 1e-6)


TABLE = [
    (0.5, 0.5, 1e-8, 7.5966e-5),
    (0.5, 0.5, 1e-6, 1.474885e-3),
    (0.5, 0.5, 1e-4, 2.145284e-2),
    (0.5, 0.5, 1e-2, 0.1910403),
    (0.1, 1.0, 1e-8, 2.084e-7),
    (0.1, 1.0, 1e-6, 9.6218e-6),
    (0.01, 1.0, 1e-8, 2.984e-8),
]
"""Rate, sigma, false-positive rate, and the exact true-positive rate in the worse direction, as printed elsewhere."""


@pytest.mark.parametrize(("rate", "sigma", "fpr", "printed"), TABLE)
def test_one_sampled_step_in_the_worse_direction(rate, sigma, fpr, printed):
    found = ac.true_positive_rate(ac.PoissonSubsampled(ac.Gaussian(sigma), rate), fpr)
    assert float(found.upper) == pytest.approx(printed, rel=3e-4)
    assert found.upper / found.lower - 1 < 1e-6


def sampled_gaussian(rate, sigma, fpr, remove):
    """The exact rate at 40 digits: the likelihood ratio rises in the one coordinate."""
    with mp.workdps(40):
        q, moved, a = mp.mpf(rate), 1 / mp.mpf(sigma), mp.mpf(fpr)

        def mixture_above(x):
            return (1 - q) * mp.ncdf(-x) + q * mp.ncdf(moved - x)

        def mixture_below(x):
            return (1 - q) * mp.ncdf(x) + q * mp.ncdf(x - moved)

        if remove:
            x = mp.mpf(-float(ndtri(fpr)))
            x = mp.findroot(lambda x: mp.log(mp.ncdf(-x) / a), x)
            return float(mixture_above(x))
        x = mp.findroot(lambda x: mp.log(mixture_below(x) / a), mp.mpf(float(ndtri(fpr))))
        return float(mp.ncdf(x))


@pytest.mark.each_run(1)
@pytest.mark.parametrize("remove", [True, False])
def test_random_sampled_steps_at_forty_digits(remove):
    rng = np.random.default_rng(5)
    for _ in range(20):
        rate, sigma = float(rng.uniform(0.001, 0.9)), float(rng.uniform(0.4, 4.0))
        rates = 10.0 ** rng.uniform(-12, -0.3, 5)
        found = ac.true_positive_rate(
            ac.PoissonSubsampled(ac.Gaussian(sigma), rate), rates, direction="remove" if remove else "add"
        )
        assert_certified(found, np.array([sampled_gaussian(rate, sigma, a, remove) for a in rates]), 1e-6)


# --- composed runs ---------------------------------------------------------------------------------------


def test_composed_losses_against_a_closed_form(monkeypatch):
    """Ten Gaussians by their measures on a grid: the closed form is switched off."""
    monkeypatch.setattr("accountant.tight.route.closed_form", lambda run, slow=False: None)
    run = 10 * ac.Gaussian(4.0)
    rates = np.geomspace(1e-12, 0.9, 9)
    found = ac.true_positive_rate(run, rates, tolerance=1e-3)
    assert found.source == "privacy-loss distribution"
    assert_certified(found, ndtr(math.sqrt(10) / 4 + ndtri(rates)), 1e-3)
    mu = ac.gaussian_dp(run, 1e-6, tolerance=1e-3)
    assert mu.lower <= math.sqrt(10) / 4 <= mu.upper
    assert mu.upper - mu.lower < 2e-3


def test_ten_thousand_sampled_steps():
    run = 10_000 * SAMPLED
    found = ac.true_positive_rate(run, [1e-6, 1e-4, 1e-3, 1e-2])
    np.testing.assert_allclose(found.upper, [3.174e-4, 8.307e-3, 3.801e-2, 0.15395], rtol=1e-3)
    assert (found.upper <= found.lower * 1.01).all()
    mu = ac.gaussian_dp(run, 1e-12)
    assert mu.lower <= 1.36824 <= mu.upper
    assert "at least 1e-12" in mu.source


def binomial_pair(events, count):
    """Both distributions of `count` copies of an event with finitely many outcomes, as rationals."""
    p, q = events
    for _ in range(count - 1):
        p, q = ([a * b for a in old for b in new] for old, new in ((p, events[0]), (q, events[1])))
    return p, q


def test_sampled_randomized_response_by_brute_force():
    yes = Fraction(math.exp(1.0) / (1 + math.exp(1.0)))
    rate = Fraction(0.25)
    without = [yes, 1 - yes]
    present = [rate * (1 - yes) + (1 - rate) * yes, rate * yes + (1 - rate) * (1 - yes)]
    run = 5 * ac.PoissonSubsampled(ac.PureDP(1.0), 0.25)
    rates = [1e-10, 1e-3, 0.1, 0.4]
    for direction, pair in (("remove", (present, without)), ("add", (without, present))):
        p, q = binomial_pair(pair, 5)
        truth = np.array([float(likelihood_ratio_test(p, q, a)) for a in rates])
        assert_certified(ac.true_positive_rate(run, rates, direction=direction), truth, 1e-2)


@pytest.mark.audit
def test_screenings_alone_and_after_other_events():
    """Two of them with a coarse tolerance: more only repeat what these do."""
    screenings = 2 * ac.PoissonSubsampled(ac.NoisyScreening(5, 10, 12), 0.25)
    rates = np.array([1e-6, 1e-3, 0.1])
    alone = ac.true_positive_rate(screenings, rates, tolerance=0.3)
    both = ac.true_positive_rate(screenings + ac.Gaussian(4.0), rates, tolerance=0.3)
    bound = ac.true_positive_rate(screenings + ac.Gaussian(4.0), rates, method="renyi")
    assert alone.method == both.method == "tight"
    assert bound.method == "renyi"
    assert (alone.lower <= both.upper).all()
    assert (both.upper <= bound.upper * 1.02).all()
    assert (alone.upper <= alone.lower * 1.3).all()
    assert (both.upper <= both.lower * 1.5).all()


@pytest.mark.audit
def test_too_many_screenings_are_bounded_by_the_renyi_route():
    run = 10**9 * ac.NoisyScreening(1e6, 10, 12) + ac.Gaussian(20.0)
    assert ac.advantage(run).method == "renyi"
    # their price is found by blocks
    found = ac.epsilon(run, 1e-5, method="auto")
    assert 0.99 * found.epsilon < found.lower <= found.epsilon < ac.epsilon(run, 1e-5, method="renyi").epsilon
    with pytest.raises(ac.OutOfPatience, match=r"a grid of \d+ losses would take about .* patience = 5; accepted: "):
        ac.advantage(run, method="tight")
    # and so is their attacker, by who waits
    near = ac.advantage(run, method="tight", patience=30.0)
    assert 0.99 * near.upper < near.lower <= near.upper < 0.8 * ac.advantage(run).upper


def test_infinite_losses():
    run = 3 * ac.ShuffledCounts.examples()[0]
    found = ac.true_positive_rate(run, [0.0, 1e-9, 1e-3, 0.5, 1.0])
    delta = ac.delta(run, 1e6, method="tight")
    assert found.lower[0] <= delta.epsilon if delta.delta == 0 else found.upper[0] >= delta.lower
    assert (np.diff(found.upper) >= 0).all()
    assert found.upper[-1] == 1.0


def test_losses_that_are_infinite_with_a_known_probability():
    """k releases that give all away with probability d: whoever is not lost is guessed at, T(a) = min(1, lost + a)."""
    for count, delta in ((100, 1e-5), (3, 0.3)):
        lost = -math.expm1(count * math.log1p(-delta))
        rates = np.append(RATES, [0.0, 1 - lost / 2, 1.0])
        truth = np.minimum(lost + rates, 1.0)
        assert_certified(ac.true_positive_rate(count * ac.ApproximateDP(0.0, delta), rates), truth, 1e-6)


@pytest.mark.parametrize("rate", [5e-324, 1e-320, 1e-310])
def test_rates_near_the_smallest_number(rate):
    """Products that underflow are rounded by more than their digits; the lower end is below the truth for all that."""
    with mp.workdps(30):
        for epsilon in (1.0, 0.5):
            low, high = ac.true_positive_rate(ac.PureDP(epsilon), rate)
            assert mp.mpf(float(low)) <= mp.mpf(rate) * mp.exp(epsilon) <= mp.mpf(float(high))


# --- the certificate itself ------------------------------------------------------------------------------


def two_point_profile(p, q):
    """Bounds on the log of the profile of Bernoulli(p) against Bernoulli(q)."""

    def log_bounds(x):
        u = np.exp(np.minimum(x, 700.0))
        exact = np.maximum.reduce([1 - u, p - u * q, (1 - p) - u * (1 - q), np.zeros_like(u)])
        with np.errstate(divide="ignore"):
            return np.log(exact * (1 - 1e-9)), np.log(np.minimum(exact * (1 + 1e-9), 1.0))

    return log_bounds


@given(st.floats(0.001, 0.999), st.floats(0.001, 0.999), st.floats(1e-9, 0.999))
def test_any_two_point_pair(p, q, rate):
    """Exact by hand; the bounds are told to err by 1e-9, and may not trust themselves more."""
    lower, upper = ProfileTradeOff(two_point_profile(p, q)).rates(np.array([rate]))
    truth = float(likelihood_ratio_test([Fraction(p), 1 - Fraction(p)], [Fraction(q), 1 - Fraction(q)], rate))
    assert lower[0] <= truth * (1 + 1e-12)
    assert truth <= upper[0] * (1 + 1e-12)
    assert upper[0] <= lower[0] * (1 + 1e-5)


def test_segments_lie_above():
    side = ProfileTradeOff(two_point_profile(0.7, 0.2))
    ends, rates = side.segments(1e-6, 0.5)
    truth = [float(likelihood_ratio_test([0.7, 0.3], [0.2, 0.8], a)) for a in ends]
    assert (rates >= np.array(truth) * (1 - 1e-12)).all()
    assert ends.min() == 1e-6
    assert ends.max() == 0.5


def test_both_signs():
    x = np.array([-2.0, -1e-9, 0.0, 3.0])
    event = ac.PoissonSubsampled(ac.Gaussian(0.8), 0.2)
    remove, add = event._log_profile(np.abs(x))
    np.testing.assert_allclose(np.exp(both_signs(x, remove, add)), event.profile(x).remove, rtol=1e-12)


# --- what holds for every run ----------------------------------------------------------------------------

RUNS = {
    "sampled": 50 * SAMPLED,
    "one step": ac.PoissonSubsampled(ac.Gaussian(0.6), 0.3),
    "laplace": 4 * ac.Laplace(3.0),
    "bits": ac.RandomizedResponse(1.0, 3),
    "renyi only": ac.ZeroConcentratedDP(0.1),
    "replace": 5 * ac.Gaussian(2.0, adjacency=ac.Adjacency.REPLACE),
}


@pytest.mark.each_run(1)
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_concave_rising_above_guessing_and_consistent(run):
    rates = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, 25)])
    found = ac.true_positive_rate(run, rates)
    assert found.lower.shape == rates.shape
    assert (found.lower >= rates).all()
    assert (found.lower <= found.upper).all()
    assert (np.diff(found.upper) >= -1e-15).all()
    low, high = ac.advantage(run)
    assert (found.lower - rates <= high + 1e-12).all()
    if found.method == "tight":
        assert np.max(found.upper - rates) >= low * 0.7
    for one, other in zip(ac.bayes_risk(run, 0.5), ((1 - high) / 2, (1 - low) / 2), strict=True):
        assert one == pytest.approx(other, rel=1e-2)
    worst = np.maximum(*(ac.true_positive_rate(run, rates, direction=way).upper for way in ("remove", "add")))
    assert (found.lower <= worst * (1 + 1e-12)).all()
    mu = ac.gaussian_dp(run, 1e-6)
    inside = (rates >= 1e-6) & (1 - found.upper >= 1e-6)
    assert (sum_of_scores(rates[inside], found.lower[inside]) <= mu.upper * (1 + 1e-9) + 1e-9).all()


def test_under_replace_there_is_one_direction():
    run = RUNS["replace"]
    ends = [ac.true_positive_rate(run, [1e-3, 0.1], direction=way).upper for way in ("worst", "remove", "add")]
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])


def test_precision_is_bayes_rule():
    rates, share = np.array([0.0, 1e-6, 0.1]), 0.02
    tpr = ac.true_positive_rate(ac.GaussianDP(1.0), rates)
    found = ac.precision(ac.GaussianDP(1.0), rates, share)
    truth = share * tpr.upper[1:] / (share * tpr.upper[1:] + (1 - share) * rates[1:])
    np.testing.assert_allclose(found.upper[1:], truth, rtol=1e-12)
    assert found.upper[0] == pytest.approx(share, rel=1e-14)
    np.testing.assert_array_equal(ac.posterior(ac.GaussianDP(1.0), rates, share).upper, found.upper)


@pytest.mark.parametrize("prior", [0.01, 0.3, 0.9])
def test_bayes_risk_of_a_gaussian(prior):
    """The best attacker compares the likelihood ratio with the odds against membership."""
    cut = math.log((1 - prior) / prior) + 0.5
    truth = prior * ndtr(cut - 1) + (1 - prior) * ndtr(-cut)
    low, high = ac.bayes_risk(ac.GaussianDP(1.0), prior, direction="remove")
    assert low <= truth * (1 + 1e-12)
    assert truth <= high * (1 + 1e-12)
    assert low == pytest.approx(truth, rel=1e-8)


@pytest.mark.parametrize("prior", [1e-300, 1e-15, 0.999, 1 - 1e-12, 1 - 2**-53])
def test_bayes_risk_of_who_is_almost_sure(prior):
    """The truth between the ends to all digits: of prior (1 - H), 1 - H is as small as the odds against."""
    with mp.workdps(50):
        exact = mp.mpf(prior)
        odds = mp.log(1 - exact) - mp.log(exact)
        truth = exact * mp.ncdf(odds + 0.5 - 1) + (1 - exact) * mp.ncdf(-odds - 0.5)
        for direction in ("remove", "add"):
            low, high = ac.bayes_risk(ac.GaussianDP(1.0), prior, direction=direction)
            assert low * (1 - 1e-15) <= truth <= high * (1 + 1e-15)


def test_bayes_risk_by_direction_of_who_is_almost_sure():
    """Who believes in membership with p meets what who believes in absence with 1 - p meets in the other direction."""
    for prior in (0.3, 0.8):
        remove = ac.bayes_risk(SAMPLED, prior, direction="remove")
        add = ac.bayes_risk(SAMPLED, 1 - prior, direction="add")
        assert remove.lower == pytest.approx(add.lower, rel=1e-12)
        worst = ac.bayes_risk(SAMPLED, prior)
        assert worst.upper <= remove.upper


def test_mu_without_and_with_sampling():
    assert tuple(ac.gaussian_dp(4 * ac.Gaussian(2.0))) == pytest.approx((1.0, 1.0), rel=1e-14)
    assert tuple(ac.gaussian_dp(ac.Gaussian(1e-3))) == pytest.approx((1000.0, 1000.0), rel=1e-14)
    step = ac.PoissonSubsampled(ac.Gaussian(0.5), 0.5)
    found = [ac.gaussian_dp(step, floor) for floor in (1e-2, 1e-9, 1e-12)]
    for floor, mu in zip((1e-2, 1e-9, 1e-12), found, strict=True):
        exact = ndtri(sampled_gaussian(0.5, 0.5, floor, remove=True)) - ndtri(floor)
        assert mu.lower <= exact * (1 + 1e-9)
        assert exact <= mu.upper * (1 + 1e-9)
        assert mu.upper - mu.lower < 1e-6
    assert found[0].upper < found[1].lower < found[2].lower < 2.0


@pytest.mark.parametrize("floor", [0.1, 0.2, 0.3])
@pytest.mark.parametrize("count", [2, 3])
def test_mu_of_composed_collisions_within_the_patience(count, floor):
    """Half of the buckets are hit: these are bits of randomized response. At the floor few false negatives are left."""
    event, wrong = ac.Collision(2.51, 4, 8), 1 / (1 + math.exp(2.51))
    p, q = np.ones(1), np.ones(1)
    for _ in range(count):
        each = np.array([1 - wrong, wrong])
        p, q = np.outer(p, each).ravel(), np.outer(q, each[::-1]).ravel()
    order = np.argsort(q / p)
    fprs, tprs = (np.append(0.0, np.cumsum(part[order])) for part in (q, p))
    places = np.linspace(floor, 0.5, 40001)
    rates = np.interp(places, fprs, tprs)
    kept = (1 - rates >= floor) | (places == floor)
    truth = np.max(sum_of_scores(places[kept], rates[kept]))
    found = ac.gaussian_dp(count * event, floor)
    assert found.method == "tight"
    assert found.lower - 1e-4 <= truth <= found.upper * (1 + 1e-9)
    assert found.upper - found.lower <= 0.01 * found.upper


def test_nothing_is_released():
    for run in (ac.Composition(), ac.PureDP(0.0), ac.GaussianDP(0.0)):
        np.testing.assert_array_equal(ac.true_positive_rate(run, RATES).upper, RATES)
        assert tuple(ac.advantage(run)) == tuple(ac.gaussian_dp(run)) == (0.0, 0.0)
        assert tuple(ac.bayes_risk(run, 0.2)) == (0.2, 0.2)


def test_everything_is_released():
    found = ac.true_positive_rate(ac.GaussianDP(1e4), [1e-12, 0.5])
    assert (found.upper == 1.0).all()
    assert (found.lower > 1 - 1e-9).all()


def test_a_single_rate_and_any_shape():
    assert ac.true_positive_rate(ac.GaussianDP(1.0), 0.1).upper.shape == ()
    assert ac.true_positive_rate(ac.GaussianDP(1.0), [[0.1, 0.01]]).upper.shape == (1, 2)
    assert ac.true_positive_rate(ac.GaussianDP(1.0), []).upper.shape == (0,)


# --- refusals and calibration ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ac.true_positive_rate(ac.Gaussian(1.0), [0.1, -0.1]), "fpr = -0.1"),
        (lambda: ac.true_positive_rate(ac.Gaussian(1.0), math.nan), "fpr = nan"),
        (lambda: ac.true_positive_rate(ac.Gaussian(1.0), 0.1, direction="up"), "direction = 'up'"),
        (lambda: ac.advantage(ac.Gaussian(1.0), method="best"), "method = 'best'"),
        (lambda: ac.bayes_risk(ac.Gaussian(1.0), 1.0), "prior = 1"),
        (lambda: ac.precision(ac.Gaussian(1.0), 0.1, 0.0), "base_rate = 0"),
        (lambda: ac.gaussian_dp(ac.Gaussian(1.0), 0.5), "fpr_floor = 0.5"),
        (lambda: ac.advantage(3), "run = 3"),
        (lambda: ac.calibrate(ac.Gaussian, target="mu"), "value = None"),
        (lambda: ac.calibrate(ac.Gaussian, target="risk", value=1.0), "target = 'risk'"),
        (lambda: ac.calibrate(ac.Gaussian, 1.0, 1e-5, target="mu", value=1.0), "epsilon = 1.0 has no meaning"),
        (lambda: ac.calibrate(ac.Gaussian, target="tpr", value=0.1, fpr=0.2), "fpr = 0.2"),
        (lambda: ac.calibrate(ac.Gaussian, 1.0), "delta = None"),
    ],
)
def test_refusals(call, says):
    with pytest.raises(ac.ParameterError, match=says):
        call()


@pytest.mark.parametrize(
    ("count", "event", "how", "best"),
    [
        (100, ac.RandomizedResponse, {"value": 1.0}, 0.09977153),
        (
            30,
            ac.RandomizedResponse,
            {"value": 0.1105, "fpr_floor": 2.7e-6, "tolerance": 1e-3, "patience": 1.0},
            0.0200090,
        ),
        (3, ac.ReportNoisyMax, {"value": 0.2946585775873704, "tolerance": 1e-3, "patience": 4.0}, 8.93841),
    ],
)
def test_one_route_prices_all_values_of_a_search(count, event, how, best):
    """Values priced by one route and others by the other leap: they were refused as not monotone, or far off."""
    found = ac.calibrate(lambda x: count * event(x), target="mu", **how)
    floor, width = how.get("fpr_floor", 1e-9), how.get("tolerance", 0.01)
    assert ac.gaussian_dp(count * event(found), floor, tolerance=width, patience=60.0).upper <= how["value"]
    assert found == pytest.approx(best, rel=0.2)


def test_private_costs_are_refused():
    with pytest.raises(ac.DataDependentError):
        ac.advantage(ac.DataDependentGNMax(20.0, [30, 2]))


def test_tight_is_refused_where_it_is_not_to_be_had():
    with pytest.raises(ac.ProfileUnavailable):
        ac.advantage(ac.ZeroConcentratedDP(0.1), method="tight")


@pytest.mark.parametrize(
    ("target", "truth"),
    [
        ({"target": "mu", "value": 0.5}, 2.0),
        ({"target": "tpr", "value": 0.1, "fpr": 0.01}, 1 / (ndtri(0.1) - ndtri(0.01))),
        ({"target": "advantage", "value": 0.2}, 0.5 / ndtri(0.6)),
    ],
)
def test_calibrate(target, truth):
    found = ac.calibrate(ac.Gaussian, **target)
    assert truth * (1 - 1e-9) <= found <= truth * (1 + 2e-5)
