"""Curves and profiles where logarithms of probabilities are huge and would cancel, against 60 digits and more."""

import math

import mpmath as mp
import numpy as np
import pytest

import accountant as ac
from accountant.events import discrete_gaussian
from accountant.events.subsampling import renyi_from_profile
from accountant.numerics.exact import CURVE_ROUNDING

sampled = ac.PoissonSubsampled


def divergence(p, q, order):
    """The larger of D_a(P||Q) and D_a(Q||P) of finite distributions."""
    a = mp.mpf(order)
    both = ((p, q), (q, p))
    if a == 1:
        return max(mp.fsum(x * mp.log(x / y) for x, y in zip(*pair, strict=True)) for pair in both)
    return max(mp.log(mp.fsum(x**a * y ** (1 - a) for x, y in zip(*pair, strict=True))) / (a - 1) for pair in both)


def mixed(rate, p, q):
    return [(1 - mp.mpf(rate)) * y + mp.mpf(rate) * x for x, y in zip(p, q, strict=True)]


def bits(epsilon, count):
    likely = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
    other = mp.exp(-mp.mpf(epsilon)) * likely
    p = [mp.binomial(count, k) * likely**k * other ** (count - k) for k in range(count + 1)]
    return p, p[::-1]


def discrete_laplace(scale, moved):
    t = 1 / mp.mpf(scale)
    inner = 1 - mp.exp(-t)
    p = [mp.exp(-i * t) / (1 + mp.exp(-t)) * (1 if i in (0, moved) else inner) for i in range(moved + 1)]
    return p, p[::-1]


def answers(epsilon, categories):
    likely = 1 / (1 + (categories - 1) * mp.exp(-mp.mpf(epsilon)))
    other = mp.exp(-mp.mpf(epsilon)) * likely
    return [likely, other, (categories - 2) * other], [other, likely, (categories - 2) * other]


def screenings(sigma, threshold, votes, rate):
    def passed(t):
        x = (t - mp.mpf(threshold)) / mp.mpf(sigma)
        return [mp.ncdf(x), mp.ncdf(-x)]

    for t in range(votes):
        low, high = passed(t), passed(t + 1)
        yield mixed(rate, high, low), low
        yield mixed(rate, low, high), high


@pytest.mark.parametrize(
    ("event", "pair", "order"),
    [
        (sampled(ac.DiscreteLaplace(1e-50), 1e-15), ("dl", 1e-50, 1, 1e-15), 1.0),
        (sampled(ac.DiscreteLaplace(1e-10, 5), 1e-9), ("dl", 1e-10, 5, 1e-9), 1.0),
        (sampled(ac.DiscreteLaplace(1e-5), 1e-9), ("dl", 1e-5, 1, 1e-9), 1.0000005),
        (sampled(ac.DiscreteLaplace(0.01, 7), 0.999), ("dl", 0.01, 7, 0.999), 1.0),
        (
            sampled(ac.RandomizedResponse(1e4, 40), 9.857410089781481e-06),
            ("bits", 1e4, 40, 9.857410089781481e-06),
            1.000003985574356,
        ),
        (sampled(ac.RandomizedResponse(1e6, 2), 1e-9), ("bits", 1e6, 2, 1e-9), 1.00001),
        (ac.PureDP(1e6), ("bits", 1e6, 1, 1), 1.0000040229004348),
        (ac.PureDP(1e6), ("bits", 1e6, 1, 1), 1.0),
        (ac.KaryRandomizedResponse(1e6, 5), ("kary", 1e6, 5, 1), 1.0000010001),
        (sampled(ac.KaryRandomizedResponse(1e5, 5, "add-remove"), 1e-4), ("kary", 1e5, 5, 1e-4), 1.0),
    ],
    ids=repr,
)
def test_finite_pairs_of_huge_losses(event, pair, order):
    kind, size, count, rate = pair
    with mp.workdps(60):
        p, q = {"dl": discrete_laplace, "bits": bits, "kary": answers}[kind](size, count)
        true = divergence(mixed(rate, p, q), q, order)
        assert abs(mp.mpf(float(event.renyi(order))) / true - 1) < 2e-14


@pytest.mark.parametrize("order", [1.0, 1.000001, 1.5])
@pytest.mark.parametrize(
    ("sigma", "threshold", "rate"), [(1e-3, 20.0, 1.0), (1e-6, 20.0, 1.0), (1e-3, 20.2, 0.01), (0.03, 3.3, 0.999)]
)
def test_screenings_with_next_to_no_noise(sigma, threshold, rate, order):
    event = sampled(ac.NoisyScreening(sigma, threshold, 40), rate)
    with mp.workdps(60):
        pairs = list(screenings(sigma, threshold, 40, rate))
        true = max(divergence(p, q, order) for p, q in pairs)
        assert abs(mp.mpf(float(event.renyi(order))) / true - 1) < 2e-14
        for epsilon in (0.0, 0.001, 1.0):
            gains = [
                max(mp.fsum(max(x - mp.exp(epsilon) * y, 0) for x, y in zip(*each, strict=True)) for each in each_way)
                for each_way in (pairs, [(q, p) for p, q in pairs])
            ]
            found = event.profile(epsilon)
            for value, gain in zip((found.remove, found.add), gains, strict=True):
                assert abs(float(value) - gain) <= 1e-13 * gain


def gaussian_delta(mu, epsilon):
    """Of N(mu, 1) against N(0, 1) (Balle & Wang 2018, Thm 8)."""
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [
        *[(1e10, 4.99999999e19), (1e10, 4.9999999999e19), (1e10, 5e19), (1e15, 4.99999999999999e29)],
        *[(1e6, 499999000000.0), (1e3, 493000.0), (31.0, 470.0), (29.0, 400.0), (13.0, 12.5), (4.0, 0.5), (1e50, 1.0)],
    ],
)
def test_gaussian_profile_at_any_mu(mu, epsilon):
    with mp.workdps(120):
        true = gaussian_delta(mp.mpf(mu), mp.mpf(epsilon))
        assert abs(mp.mpf(float(ac.GaussianDP(mu).profile(epsilon).remove)) / true - 1) < 2e-14


@pytest.mark.parametrize("mu", [1e4, 1e10, 1e20, 1e28])
def test_certified_epsilon_of_a_huge_mu(mu):
    found = ac.epsilon(ac.GaussianDP(mu), 1e-5, method="tight")
    with mp.workdps(120):
        m = mp.mpf(mu)
        assert gaussian_delta(m, mp.mpf(found.lower)) >= 1e-5
        assert gaussian_delta(m, mp.mpf(found.epsilon)) <= 1e-5
    assert found.epsilon <= found.lower * (1 + 1e-11)


def test_optimal_conversion_of_a_huge_curve():
    mu, delta = 4574627.4, 1.4e-11
    found = ac.epsilon(ac.GaussianDP(mu), delta, conversion="optimal")
    b = mp.mpf(found.order) - 1

    def gap(epsilon, z):
        """D_a of two-point distributions with p - e^epsilon q = delta."""
        p = delta + (1 - mp.mpf(delta)) / (1 + mp.exp(-z))
        log_q = mp.log(p - delta) - epsilon  # 1 - q is 1 to a million million digits
        return mp.log(mp.exp((1 + b) * mp.log(p) - b * log_q) + (1 - p) ** (1 + b)) / b

    def least(epsilon):
        low, high = mp.mpf(-40), mp.mpf(40)
        for _ in range(70):
            left, right = (2 * low + high) / 3, (low + 2 * high) / 3
            low, high = (low, right) if gap(epsilon, left) < gap(epsilon, right) else (left, high)
        return gap(epsilon, low)

    with mp.workdps(60):
        curve = (1 + b) * mp.mpf(mu) ** 2 / 2 * (1 + mp.mpf(CURVE_ROUNDING))
        assert least(mp.mpf(found.epsilon) * (1 + mp.mpf(1e-13))) >= curve
        assert least(mp.mpf(found.epsilon) * (1 - mp.mpf(1e-12))) < curve


def test_data_dependent_votes_keep_their_logarithms():
    for event, order, value in (
        (ac.DataDependentGNMax(2.922556390977444, (200, 40)), 38.5, 8.6515e-22),
        (ac.DataDependentLNMax(0.20969899665551842, (200, 40)), 75.0, 3.63e-25),
    ):
        assert float(event.renyi(order)) == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("event", [ac.NoisyScreening(2.0, 30, 50), ac.ExponentialMechanism(1.0)], ids=repr)
def test_families_have_no_curve_from_their_profile(event):
    with pytest.raises(ac.ProfileUnavailable, match=r"family of pairs.*accepted: its own curve"):
        renyi_from_profile(event, 2.0)
    assert math.isfinite(event.renyi(2.0))


def laplace_delta(epsilon, scale, sensitivity=1.0):
    """One coordinate: 1 - e^((e - t)/2) below its largest loss t."""
    t = mp.mpf(sensitivity) / mp.mpf(scale)
    return max(mp.mpf(0), -mp.expm1((mp.mpf(epsilon) - t) / 2))


@pytest.mark.parametrize("method", ["renyi", "tight", "auto"])
@pytest.mark.parametrize("scale", [3.0, 7.0, 10.0, 0.3, 1e-3 / 3, 49.0, 1e10, 2.0])
def test_the_largest_loss_is_rounded_up(scale, method):
    """Where 1/scale is rounded down there is still something to lose at the float."""
    event, nearest = ac.Laplace(scale), 1.0 / scale
    with mp.workdps(60):
        for epsilon in (nearest, math.nextafter(nearest, 0.0), math.nextafter(nearest, math.inf)):
            assert ac.delta(event, epsilon, method=method).delta >= laplace_delta(epsilon, scale)
        whole = ac.epsilon(event, 0.0, method=method).epsilon
        assert laplace_delta(whole, scale) == 0
        assert ac.delta(event, whole, method=method).delta == 0.0
        assert whole <= math.nextafter(nearest, math.inf)


@pytest.mark.parametrize("method", ["renyi", "tight"])
@pytest.mark.parametrize(
    ("run", "exact"),
    [
        (10 * ac.RandomizedResponse(0.1574707224676682, 2), 20 * mp.mpf(0.1574707224676682)),
        (3 * ac.Laplace(3.0), mp.mpf(1)),
        (10 * ac.PureDP(0.1) + 3 * ac.PureDP(0.3), 10 * mp.mpf(0.1) + 3 * mp.mpf(0.3)),
        (7 * ac.DiscreteLaplace(7.0, 3), mp.mpf(3)),
        (3 * ac.KaryRandomizedResponse(0.1, 4), 3 * mp.mpf(0.1)),
        (1 * ac.PoissonSubsampled(ac.RandomizedResponse(0.1), 0.3), "mixture"),
    ],
    ids=repr,
)
def test_pure_runs_are_rounded_up(run, exact, method):
    with mp.workdps(60):
        if exact == "mixture":
            down = mp.log(1 + mp.mpf(0.3) * mp.expm1(-mp.mpf(0.1)))
            exact = max(mp.log(1 + mp.mpf(0.3) * mp.expm1(mp.mpf(0.1))), -down)
        found = ac.epsilon(run, 0.0, method=method).epsilon
        assert exact <= found <= exact * (1 + mp.mpf(2) ** -49)


def test_no_delta_is_left_at_a_tiny_one():
    """Ten times two bits: where all 20 are true the loss is the largest."""
    bit = mp.mpf(0.1574707224676682)
    found = ac.epsilon(10 * ac.RandomizedResponse(0.1574707224676682, 2), 1e-30, method="tight")
    with mp.workdps(60):
        likely = 1 / (1 + mp.exp(-bit))
        assert likely**20 * max(mp.mpf(0), 1 - mp.exp(mp.mpf(found.epsilon) - 20 * bit)) <= 1e-30


@pytest.mark.parametrize("delta", [2.2324759523583982e-08, 1e-5, 1e-10])
@pytest.mark.parametrize("bit", [6.815089227024995, 4.421792219425643, 0.7])
def test_optimal_conversion_near_the_largest_loss(bit, delta):
    """At orders of 1e7 the pairs it looks at differ by less than rounding almost everywhere."""
    found = ac.epsilon(2 * ac.RandomizedResponse(bit, 5), delta, conversion="optimal").epsilon
    with mp.workdps(60):
        e = mp.mpf(found) * (1 + mp.mpf(1e-14))
        p, q = bits(bit, 10)
        assert mp.fsum(max(x - mp.exp(e) * y, 0) for x, y in zip(p, q, strict=True)) <= delta


def test_mixtures_far_apart_have_no_profile():
    """The place where two components are equally likely would have to be known to more digits than a float has."""
    parts = ((0.0, 1.0, 2.0), (0.7, 0.2, 0.1))
    with pytest.raises(ac.ProfileUnavailable, match=r"standard deviations apart.*accepted: \[0, 10000\]"):
        ac.MixtureOfGaussians(1e-4, *parts).profile(0.0)
    for epsilon in (0.0, 1e-3, 0.2):
        found = ac.MixtureOfGaussians(1e-3, *parts).profile(epsilon)  # with the record it is elsewhere, or not at all
        assert float(found.remove) == pytest.approx(0.3, rel=1e-9)
        assert float(found.add) == pytest.approx(1 - 0.7 * math.exp(epsilon), rel=1e-9)


def sampled_laplace(shift, rate, order):
    """The curve of a sampled coordinate from the law of its loss: t, -t or between, w = (t - loss)/2 of e^-w."""
    t, g, a = mp.mpf(shift), mp.mpf(rate), mp.mpf(order)
    steps = [min(t, 1) / max(1, a) * 2**k for k in range(80)]
    near = [step for step in steps if step < t / 2]
    places = sorted({mp.mpf(0), *near, t / 2, *(t - step for step in near), t})

    def mean(f):
        return (f(t) * mp.exp(-t) + f(-t) + mp.quad(lambda w: f(t - 2 * w) * mp.exp(w - t), places)) / 2

    def ratio(loss):
        return 1 - g + g * mp.exp(loss)

    if a == 1:
        return max(mean(lambda u: ratio(u) * mp.log(ratio(u))), mean(lambda u: -mp.log(ratio(u))))
    forward = mean(lambda u: ratio(u) ** a - 1 - a * (ratio(u) - 1))
    backward = mean(lambda u: ratio(u) ** (1 - a) - 1 - (1 - a) * (ratio(u) - 1))
    return max(mp.log1p(forward), mp.log1p(backward)) / (a - 1)


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("shift", "rate", "above_one"),
    [
        (13945895.0, 1e-12, 7.17e-8),
        (195745.0, 0.5, 7.5e-5),
        (1e8, 0.01, 1e-8),
        (1e3, 1 - 2**-53, 0.01),
        (40.0, 0.3, 0.0),
    ],
)
def test_samples_of_huge_laplace_losses(shift, rate, above_one):
    found = float(sampled(ac.Laplace(1.0, shift), rate).renyi(1 + above_one))
    with mp.workdps(50):
        assert abs(found / sampled_laplace(shift, rate, 1 + above_one) - 1) < 2e-14


def test_samples_of_the_largest_losses_cost_no_less_than_they_lose():
    event = sampled(ac.Laplace(1e-50, 1e50), 0.5)
    found = [ac.epsilon(event, 1e-5, method=method) for method in ("renyi", "tight")]
    for each in found:
        assert 1e100 * (1 - 1e-13) <= each.epsilon <= 1e100 * (1 + 1e-13)


@pytest.mark.parametrize("rate", [1e-15, 1e-13, 1e-9, 0.5, 1.0])
@pytest.mark.parametrize("sigma", [1e10, 1e40, 1e50])
def test_mixtures_at_any_noise(sigma, rate):
    """Lengths s far below 1: delta(0) is the rate times the mean of 2 Phi(s/2) - 1, where P/Q is 1 at about s/2."""
    event = ac.MixtureOfGaussians(sigma, (0.0, 1.0, 2.0), (0.6, 0.3, 0.1))
    found = (sampled(event, rate) if rate < 1.0 else event).profile(0.0)
    with mp.workdps(120):
        true = mp.mpf(rate) * mp.mpf("0.5") / mp.mpf(sigma) / mp.sqrt(2 * mp.pi)
        assert abs(mp.mpf(float(found.remove)) / true - 1) < 1e-13
        assert abs(mp.mpf(float(found.add)) / true - 1) < 1e-13


@pytest.mark.parametrize("kind", [ac.Laplace, ac.DiscreteLaplace])
@pytest.mark.parametrize("scale", [1e-50, 1e-20, 1e-15])
@pytest.mark.parametrize("count", [10**6, 10**12])
def test_coordinates_of_huge_losses_are_refused_at_once(kind, scale, count):
    event = sampled(kind(scale, 1, count), 0.5)
    with pytest.raises(ac.ToleranceUnreachable, match=r"accepted: "):
        ac.epsilon(event, 1e-5, method="tight")
    found = ac.epsilon(event, 1e-5)
    assert found.method == "renyi"
    assert found.epsilon == pytest.approx(count / scale, rel=1e-6)


def test_groups_of_tiny_failures():
    """Two steps of (0, d)-DP: delta is 2 d, which is none of the 60 digits of 1."""
    group = ac.Group(ac.ApproximateDP(0.0, 1e-300), 2)
    assert group.profile([0.0, 1.0]).worst.tolist() == pytest.approx([2e-300] * 2, rel=1e-13)


def test_what_hardly_any_count_keeps():
    """Without users' messages 1 - e^(-1/scale) of a rising count is told for certain: what is kept is no 0."""
    event = ac.ShuffledCounts(0.01, 0.0, 1e-12)
    assert event._log_finite() == pytest.approx(-100.0, rel=1e-12)
    with pytest.raises(ac.NoGuarantee, match="accepted: "):
        ac.epsilon(event, 1e-5)


@pytest.mark.parametrize("deviations", [9.9e3, 1.01e4, 5e4, 1e5])
def test_discrete_gaussian_far_out_against_its_sum(deviations):
    """Where the logarithms of density and profile are too large to be subtracted, their ratio is known."""
    sigma, shift = 1e6, 3
    h = shift / sigma**2
    v = np.array([deviations * sigma + 0.25, deviations * sigma + 0.9])
    found = discrete_gaussian._from_gaussian(sigma**2, h, shift, (v + shift / 2) * h)
    v = (v + shift / 2) * h / h - shift / 2
    assert np.abs(found - discrete_gaussian._far_out(sigma**2, h, v)).max() <= 1e-15 * deviations**2


@pytest.mark.parametrize("sigma", [1e20, 2e48, 2e49])
def test_discrete_gaussian_of_much_noise_is_the_gaussian_at_all_losses(sigma):
    event, epsilons = ac.DiscreteGaussian(sigma, 3, 2048), np.geomspace(1e-60, 100.0, 500)
    found = event._log_profile(epsilons)[0]
    gaussian = ac.Gaussian(sigma, 3 * 2048**0.5)._log_profile(epsilons)[0]
    near = gaussian > -1e12
    assert np.isfinite(found).all()
    assert (np.diff(found) <= 0.0).all()
    assert np.allclose(found[near], gaussian[near], rtol=1e-13, atol=1e-13)
    tried = ac.Selection(ac.DiscreteGaussian(sigma, 3), ac.Geometric(171.0))
    assert 0.0 <= float(tried.renyi(2.0)) < 1e-9
