"""Random allocation: brute force in rationals, integrals at high precision, and what is refused."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import accountant as ac
from accountant.patience import tally_work
from accountant.samplers import likelihoods
from accountant.samplers.allocation_curve import MOMENTS, NODES, whole_moments
from accountant.samplers.allocation_pairs import upper_pair
from accountant.samplers.likelihoods import Contraction, Spread, add_contractions, add_spreads
from accountant.samplers.score_laws import convolve
from tests.cases import audit_after

SAMPLED = ac.PoissonSubsampled(ac.Gaussian(1.0), 0.1)


@pytest.mark.parametrize(
    ("epochs", "steps"),
    [
        (1 * ac.RandomAllocation(ac.Gaussian(1.0), 10, 10), 10 * ac.Gaussian(1.0)),
        (1 * ac.RandomAllocation(ac.Laplace(3.0), 10**5, 10**5), 10**5 * ac.Laplace(3.0)),
        (10**25 * ac.RandomAllocation(ac.Gaussian(1e16), 10**5, 10**5), 10**30 * ac.Gaussian(1e16)),
        (
            2 * ac.RandomAllocation(SAMPLED, 5, 5) + 3 * ac.RandomAllocation(SAMPLED, 1) + 4 * ac.Laplace(9.0),
            13 * SAMPLED + 4 * ac.Laplace(9.0),
        ),
    ],
)
def test_an_epoch_of_all_steps_is_its_steps(epochs, steps):
    """It was priced between bounds: 17.81 to 17.95 for 17.857."""
    for method in ("auto", "tight"):
        assert ac.epsilon(epochs, 1e-5, method=method) == ac.epsilon(steps, 1e-5, method=method)
        assert ac.delta(epochs, 3.0, method=method) == ac.delta(steps, 3.0, method=method)
    assert ac.epsilon(epochs, 1e-5, method="renyi").epsilon == pytest.approx(
        ac.epsilon(steps, 1e-5, method="renyi").epsilon, rel=1e-12
    )
    rates = [ac.true_positive_rate(run, 1e-3) for run in (epochs, steps)]
    assert (rates[0].lower, rates[0].upper) == (rates[1].lower, rates[1].upper)
    curves = [ac.curve(run, [0.5, 2.0]) for run in (epochs, steps)]
    np.testing.assert_array_equal(curves[0].upper, curves[1].upper)
    np.testing.assert_array_equal(curves[0].lower, curves[1].lower)


def test_more_steps_than_a_run_may_count_are_left_in_their_epochs():
    epochs = 10**26 * ac.RandomAllocation(ac.Gaussian(1e18), 10**5, 10**5)
    known = ac.epsilon(ac.Gaussian(1e18 / math.sqrt(1e31)), 1e-5)
    assert known.epsilon <= ac.epsilon(epochs, 1e-5).epsilon <= 1.3 * known.epsilon


def outcomes(epsilon, steps, selected):
    """(P, Q) of every outcome of randomized responses in rationals: with the record in some steps, and without it."""
    odds = Fraction(math.exp(epsilon))
    p, q = odds / (1 + odds), 1 / (1 + odds)
    chosen = list(itertools.combinations(range(steps), selected))
    pairs = []
    for bits in itertools.product((0, 1), repeat=steps):
        mass = math.prod((q if bit else p for bit in bits), start=Fraction(1))
        ratio = sum(math.prod((p / q if bits[i] else q / p for i in some), start=Fraction(1)) for some in chosen)
        pairs.append((mass * ratio / len(chosen), mass))
    return pairs


@pytest.mark.each_run(2)
@pytest.mark.parametrize(
    ("steps", "selected"), [(1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (3, 2), (4, 2), (4, 3), (4, 4)]
)
@pytest.mark.parametrize("epsilon", audit_after(1, [4.0, 0.1, 1.0]))
def test_finite_pairs_by_all_outcomes(epsilon, steps, selected):
    pairs = outcomes(epsilon, steps, selected)
    run = 1 * ac.RandomAllocation(ac.PureDP(epsilon), steps, selected)
    for share in (0.0, 0.3, 0.7):
        u = Fraction(math.exp(share * epsilon))
        directions = [sum(max(p - u * q, 0) for p, q in pairs), sum(max(q - u * p, 0) for p, q in pairs)]
        truth = float(max(directions))
        found = ac.delta(run, share * epsilon, method="tight", tolerance=0.3)
        assert found.lower <= truth * (1 + 1e-12)
        assert found.delta >= truth * (1 - 1e-12)


def two_steps(sigma, epsilon):
    """Both directions of one of two Gaussian steps, by an integral over the first step's outcome."""
    mu, u = 1 / mpf(sigma), mp.exp(epsilon)

    def above(v):
        """E(X - v)_+ of one step."""
        if v <= 0:
            return 1 - v
        return mp.ncdf(mu / 2 - mp.log(v) / mu) - v * mp.ncdf(-mu / 2 - mp.log(v) / mu)

    def ratio(z):
        return mp.exp(mu * z - mu**2 / 2)

    cut = (mp.log(2 * u) + mu**2 / 2) / mu
    other = (mp.log(2 / u) + mu**2 / 2) / mu
    remove = mp.quad(lambda z: mp.npdf(z) * above(2 * u - ratio(z)) / 2, [-12, 0, cut, cut + 2, cut + 12])
    # E(v - X)_+ = v - 1 + E(X - v)_+
    add = mp.quad(
        lambda z: mp.npdf(z) * u / 2 * (2 / u - ratio(z) - 1 + above(2 / u - ratio(z))), [-14, other - 2, other]
    )
    return remove, add


@pytest.mark.each_run(2)
@pytest.mark.parametrize(("sigma", "epsilon"), [(1.0, 1.0), (0.5, 4.0), (3.0, 0.1)])
def test_two_gaussian_steps_by_an_integral(sigma, epsilon):
    with mp.workdps(25):
        remove, add = two_steps(sigma, epsilon)
    event = ac.RandomAllocation(ac.Gaussian(sigma), 2)
    found = ac.delta(event, epsilon, method="tight", tolerance=0.01)
    assert found.lower <= max(remove, add) <= found.delta <= 1.011 * found.lower
    profile = event.profile(epsilon)
    assert remove <= profile.remove <= 1.05 * remove
    assert add <= profile.add <= 1.05 * add


@pytest.mark.parametrize(
    ("steps", "sigma", "delta", "lower", "upper"),
    [
        (1000, 1.0, 1e-5, 0.138817, 0.138886),
        (100, 1.0, 1e-5, 0.620838, 0.621110),
        (100, 0.5, 1e-6, 6.393636, 6.394441),
        (10_000, 0.6, 1e-6, 0.527694, 0.528154),
        (1000, 2.0, 1e-8, 0.076788, 0.076872),
    ],
)
def test_intervals_overlap_with_those_of_another_computation(steps, sigma, delta, lower, upper):
    found = ac.epsilon(ac.RandomAllocation(ac.Gaussian(sigma), steps), delta, method="tight", tolerance=0.01)
    assert found.epsilon - found.lower <= 0.01 * found.epsilon
    assert max(found.lower, lower) <= min(found.epsilon, upper)


@pytest.mark.parametrize("event", [ac.Gaussian(1.0), ac.Laplace(1.0), ac.RandomizedResponse(1.0, 2)], ids=repr)
def test_one_step_is_the_event_and_all_steps_are_a_composition(event):
    one, whole = ac.RandomAllocation(event, 1), ac.RandomAllocation(event, 3, 3)
    orders = [1.0, 1.5, 7.0, math.inf]
    assert np.array_equal(one.renyi(orders), event.renyi(orders))
    assert whole.renyi(orders) == pytest.approx(3 * event.renyi(orders))
    prices = (ac.epsilon(each, 1e-3, method="tight", tolerance=1e-3) for each in (one, event, whole, 3 * event))
    for first, second in ((next(prices), next(prices)) for _ in range(2)):
        assert max(first.lower, second.lower) <= min(first.epsilon, second.epsilon)


@pytest.mark.parametrize("steps", [2, 7, 100])
@pytest.mark.parametrize("sigma", [0.7, 2.0])
def test_whole_moments_by_their_formulas(steps, sigma):
    """E X^2 and E X^3 of a mean of independent ratios with mean 1."""
    second, third = math.exp(1 / sigma**2), math.exp(3 / sigma**2)
    logs = whole_moments(ac.Gaussian(sigma), steps)
    t = steps
    assert logs.size == MOMENTS + 1
    assert math.exp(logs[2]) == pytest.approx((second + t - 1) / t, rel=1e-12)
    assert math.exp(logs[3]) == pytest.approx((third + 3 * (t - 1) * second + (t - 1) * (t - 2)) / t**2, rel=1e-12)
    curve = ac.RandomAllocation(ac.Gaussian(sigma), steps).renyi([2.0, 3.0])
    exact = np.array([logs[2], logs[3] / 2])
    assert (curve >= exact).all()
    assert curve == pytest.approx(exact, rel=2e-2)


@pytest.mark.parametrize("order", [1.3, 2.0, 2.5, 6.0])
def test_curve_of_two_steps_by_an_integral(order):
    """Both directions: the mean of two lognormal ratios, to a power."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    z, weights = 11 * nodes + 2.5, 11 * weights
    weights = weights * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    ratio = np.exp(z - 0.5)
    mean = np.add.outer(ratio, ratio) / 2
    exact = max(math.log(weights @ mean**power @ weights) for power in (order, 1 - order)) / (order - 1)
    found = float(ac.RandomAllocation(ac.Gaussian(1.0), 2).renyi(order))
    assert exact * (1 - 1e-6) <= found <= exact * 1.02


def test_curve_at_its_ends():
    event = ac.RandomAllocation(ac.Gaussian(1.0), 50)
    own = ac.Gaussian(1.0)
    ladder = np.array([1.0, 1 + 1e-12, 1.01, *NODES[5:20], 300.0, 1e5, 1e9, 1e15])
    curve = event.renyi(ladder)
    assert (np.diff(curve) >= -1e-12 * curve[1:]).all()
    assert (curve <= own.renyi(ladder) * (1 + 1e-3)).all()
    assert curve[0] <= 0.03
    bounded = ac.RandomAllocation(ac.Laplace(1.0), 50)
    assert bounded.renyi(math.inf) == 1.0
    assert bounded.renyi(1e9) == pytest.approx(1.0, rel=1e-3)


def test_epochs_compose_with_other_releases():
    epoch = ac.RandomAllocation(ac.Gaussian(1.0), 100)
    run = 10 * epoch + ac.Gaussian(5.0)
    found = ac.epsilon(run, 1e-6, method="tight", tolerance=0.01)
    assert 0 < found.lower <= found.epsilon <= found.lower * 1.011
    assert found.epsilon < ac.epsilon(run, 1e-6, method="renyi").epsilon
    assert found.lower > max(ac.epsilon(part, 1e-6, method="tight").lower for part in (10 * epoch, ac.Gaussian(5.0)))
    curve = [ac.delta(run, epsilon, method="tight", tolerance=0.05) for epsilon in (found.lower, found.epsilon)]
    assert curve[0].delta >= 1e-6 * (1 - 1e-9)
    assert curve[1].lower <= 1e-6 * (1 + 1e-9)


@pytest.mark.audit
@pytest.mark.parametrize(("steps", "selected"), audit_after(2, [(60, 7), (20, 19), (100, 10)]))
def test_several_steps_cost_more_than_one_and_less_than_all(steps, selected):
    run = 1 * ac.RandomAllocation(ac.Gaussian(2.0), steps, selected)
    found = ac.epsilon(run, 1e-5, method="tight", tolerance=0.02)
    one = ac.epsilon(ac.RandomAllocation(ac.Gaussian(2.0), steps), 1e-5, method="tight")
    everything = ac.epsilon(selected * ac.Gaussian(2.0), 1e-5, method="tight")
    assert one.lower < found.lower < found.epsilon < everything.epsilon
    assert found.epsilon <= 1.1 * found.lower


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("sigma", "steps", "selected", "times", "width"),
    [(1.0, 1000, 10, 1, 0.02), (1.0, 1000, 10, 5, 0.012), (2.0, 100, 10, 1, 0.017)],
)
def test_the_sum_of_losses_is_near_what_blocks_cost(sigma, steps, selected, times, width):
    """Rounded so finely that rounding does not add up over the steps."""
    run = times * ac.RandomAllocation(ac.Gaussian(sigma), steps, selected)
    found = ac.epsilon(run, 1e-5, method="tight")
    assert 0 < found.epsilon - found.lower <= width * found.epsilon


MASSES = st.lists(st.floats(0.0, 1.0), min_size=2, max_size=9).filter(lambda x: sum(x) > 0.1 and x[0] > 0 and x[-1] > 0)


@settings(max_examples=60, deadline=None)
@given(MASSES, MASSES, st.integers(-5, 5), st.integers(-5, 5), st.floats(0.05, 0.8), st.floats(0.0, 3.0))
def test_sums_are_bracketed_in_convex_order(a, b, first_a, first_b, step, where):
    """Means of both hockey sticks of the exact sum lie between those of its contraction and of its spread."""
    a, b = (np.array(each) / sum(each) for each in (a, b))
    places = [np.exp(step * (first + np.arange(each.size))) for first, each in ((first_a, a), (first_b, b))]
    sums, masses = np.add.outer(*places).ravel(), np.outer(a, b).ravel()
    above = add_spreads(Spread(a, first_a, 0.0, step), Spread(b, first_b, 0.0, step))
    below = add_contractions(
        Contraction(a, places[0], first_a, 0.0, step), Contraction(b, places[1], first_b, 0.0, step)
    )
    u = where * float(np.sum(sums * masses))
    for stick in (lambda x: np.maximum(x - u, 0.0), lambda x: np.maximum(1 - u * x, 0.0)):
        exact = float(masses @ stick(sums))
        assert float(above.masses @ stick(above.places)) >= exact * (1 - 1e-12) - 1e-14
        assert float(below.masses @ stick(below.places)) <= exact * (1 + 1e-12) + 1e-14


@settings(max_examples=30, deadline=None)
@given(MASSES, st.floats(0.0, 0.3), st.floats(0.0, 0.3), st.floats(0.0, 3.0), st.integers(1, 4))
def test_trimming_and_refining_keep_their_side(masses, low, high, where, times):
    masses = np.array(masses) / sum(masses)
    spread, u = Spread(masses, -3, 0.1, 0.5), where
    trimmed = spread.trim(low, high).refine(times)
    places = spread.places
    kept = Contraction(masses, places, -3, 0.1, 0.5).trim(low, high).refine(times)
    excess = float(masses @ np.maximum(places - u, 0.0))
    lack = float(masses @ np.maximum(u - places, 0.0))
    assert float(trimmed.masses @ np.maximum(trimmed.places - u, 0.0)) + trimmed.lost >= excess - 1e-14
    assert float(trimmed.masses @ np.maximum(u - trimmed.places, 0.0)) + trimmed.zero * u >= lack - 1e-14
    assert float(kept.masses @ np.maximum(kept.places - u, 0.0)) <= excess + 1e-14
    assert float(kept.masses @ np.maximum(u - kept.places, 0.0)) <= lack + 1e-14
    assert kept.masses.sum() == pytest.approx(1.0)


def test_plans_hold_the_event_within(tmp_path):
    run = 3 * ac.RandomAllocation(ac.Gaussian(1.1), 100, 2) + ac.RandomAllocation(
        ac.PoissonSubsampled(ac.Gaussian(2.0), 0.5), 10
    )
    path = tmp_path / "plan.toml"
    path.write_text(run.to_toml())
    assert ac.load_plan(path).run == run
    assert 'of = {event = "gaussian"' in path.read_text() or "[release.of]" in path.read_text()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ac.RandomAllocation(ac.Gaussian(1.0), 0), "steps = 0"),
        (lambda: ac.RandomAllocation(ac.Gaussian(1.0), 10, 11), r"selected = 11 of 10 steps; accepted: \[1, 10\]"),
        (lambda: ac.RandomAllocation(1.0, 10), "event = 1.0; accepted: an event"),
        (lambda: ac.RandomAllocation(ac.Gaussian(1.0, adjacency="replace"), 10), "replace adjacency"),
        (lambda: ac.RandomAllocation(ac.NoisyScreening(5.0, 10.0, 20), 10), "a family of pairs"),
        (lambda: ac.RandomAllocation(ac.ApproximateDP(1.0, 1e-5), 10), "losses that may be infinite"),
        (lambda: ac.RandomAllocation(ac.RandomAllocation(ac.Gaussian(1.0), 10), 10), "a whole epoch"),
        (lambda: ac.RandomAllocation(ac.ZeroConcentratedDP(0.1), 10), "Rényi"),
    ],
)
def test_what_has_no_price_is_refused(make, message):
    with pytest.raises(ac.AccountantError, match=message):
        make()


def test_samples_of_epochs_are_refused():
    with pytest.raises(ac.SubsamplingError, match="accepted"):
        ac.PoissonSubsampled(ac.RandomAllocation(ac.Gaussian(1.0), 10), 0.1)


@pytest.mark.audit
def test_hard_inputs_end():
    """Much and little noise, many steps, tiny deltas."""
    for event, steps, delta in (
        (ac.Gaussian(0.2), 3, 1e-9),
        (ac.Gaussian(50.0), 1000, 1e-6),
        (ac.Gaussian(1.0), 100_000, 1e-12),
        (ac.Laplace(0.3), 1000, 1e-10),
    ):
        run = 1 * ac.RandomAllocation(event, steps)
        found = ac.epsilon(run, delta, method="auto", tolerance=0.05)
        assert (
            0 <= (found.lower or 0.0) <= found.epsilon <= ac.epsilon(event, delta, method="tight").epsilon * (1 + 1e-3)
        )


@pytest.mark.parametrize("event", [ac.PureDP(0.0), ac.PoissonSubsampled(ac.Gaussian(1.0), 0.0)], ids=repr)
@pytest.mark.parametrize("selected", [1, 3])
def test_steps_that_tell_nothing_cost_nothing(event, selected):
    epoch = ac.RandomAllocation(event, 10, selected)
    assert (epoch.renyi([1.0, 2.0, math.inf]) == 0).all()
    assert epoch.profile(0.0).remove == epoch.profile(0.0).add == 0
    assert [ac.epsilon(epoch, 1e-6, method=method).epsilon for method in ("renyi", "tight")] == [0, 0]


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("event", "steps"), [(ac.Laplace(1e-3), 50), (ac.PureDP(500.0), 1000), (ac.Gaussian(0.01), 100)], ids=repr
)
def test_losses_beyond_the_grid_have_a_curve_and_no_tight_price(event, steps):
    epoch, orders = ac.RandomAllocation(event, steps), [1.0, 1.5, 2.0, 7.3, 1e4]
    curve, own = epoch.renyi(orders), event.renyi(orders)
    assert (curve <= own * 1.02).all()
    # P of the mean is above P / steps on one step
    assert curve[2] >= own[2] - math.log(steps) - 1e-9
    with pytest.raises(ac.ToleranceUnreachable, match=r"losses of one step are above 300 nats .* accepted"):
        ac.epsilon(epoch, 1e-6, method="tight")


@pytest.mark.parametrize(("sigma", "steps"), [(1e3, 10**6), (1e6, 1000), (30.0, 20)])
def test_curves_of_little_information(sigma, steps):
    """For ratios near 1 both directions cost a/2 times the variance of their mean, up to third moments."""
    orders = np.array([1.0, 1.5, 2.0, 2.5, 5.3])
    exact = orders / 2 * math.expm1(1 / sigma**2) / steps
    curve = ac.RandomAllocation(ac.Gaussian(sigma), steps).renyi(orders)
    assert (curve >= exact * (1 - 1e-2)).all()
    assert (curve <= exact * 1.05).all()


@pytest.mark.parametrize("steps", [3, 1000, 10**6])
def test_whole_moments_are_above_those_of_high_precision(steps):
    with mp.workdps(60):
        terms = [mp.exp(mpf(n) * (n - 1) / 8) / mp.factorial(n) for n in range(41)]  # Gaussian(2)
        power, result = terms, None
        for bit in range(steps.bit_length()):
            if steps >> bit & 1:
                result = power if result is None else product(result, power)
            power = product(power, power)
        exact = [mp.log(result[n] * mp.factorial(n) / mpf(steps) ** n) for n in range(41)]
    found = whole_moments(ac.Gaussian(2.0), steps)[:41]
    excess = np.array([float(each - truth) for each, truth in zip(found.tolist(), exact, strict=True)])
    assert (excess >= 0).all()
    assert (excess <= 1e-9).all()


def product(a, b):
    return [mp.fsum(a[i] * b[n - i] for i in range(n + 1)) for n in range(len(a))]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 2**20), min_size=2, max_size=16).filter(any),
    st.lists(st.integers(0, 2**20), min_size=2, max_size=16).filter(any),
    st.integers(0, 40),
    st.integers(1, 40),
)
def test_convolutions_err_by_no_more_than_their_bound(q, p, many, few):
    """Against integers: sixteen masses, modulo 16."""
    whole, factors, size = 2**25, (), 16
    exact = [1] + [0] * (size - 1)
    for factor, count in ((q, many), (p, few)):
        factor = factor + [0] * (size - len(factor))
        factors += (np.array(factor) / whole,)
        for _ in range(count):
            exact = [sum(exact[i] * factor[(n - i) % size] for i in range(size)) for n in range(size)]
    found, bound = convolve(factors[0], many, factors[1], few)
    total = whole ** (many + few)
    assert max(abs(Fraction(mass) - Fraction(value, total)) for mass, value in zip(found, exact, strict=True)) <= bound
    assert bound <= 1e-11


def test_pairs_from_above_have_at_least_one_of_both_distributions():
    for direction, rest in (("remove", "add"), ("add", "remove")):
        pair = upper_pair(ac.Gaussian(1.0), 1000, direction, 1e-3, -40.0)
        sums = math.fsum(pair._masses), math.fsum(pair._masses * pair._places)
        assert pair.infinite_mass(direction) <= 1e-15
        assert 0 < pair.infinite_mass(rest) <= 1e-8
        assert sums[0] + pair.infinite_mass("add") >= 1 - 1e-14
        assert sums[1] + pair.infinite_mass("remove") >= 1 - 1e-12


def test_products_of_small_masses_do_not_underflow(monkeypatch):
    """Products below the normal floats take fifty times as long as others; what is added up is the same."""
    products, convolve = [], likelihoods.convolve_spreads

    def look(a, b, *rest):
        products.append(float(a[a > 0].min() * b[b > 0].min()))
        convolve(a, b, *rest)

    monkeypatch.setattr(likelihoods, "convolve_spreads", look)
    masses = np.geomspace(1e-220, 0.5, 300)
    one = likelihoods.Spread(masses, -150, 0.0, 0.01, zero=1 - float(masses.sum()))
    found = likelihoods.add_spreads(one, one)
    assert products[0] > np.finfo(float).tiny
    monkeypatch.setattr(likelihoods, "LIFT", 1.0)
    plain = likelihoods.add_spreads(one, one)
    assert (found.masses[found.masses > 1e-290] == plain.masses[found.masses > 1e-290]).all()
    assert (found.zero, found.lost) == (plain.zero, plain.lost)


def test_an_epoch_of_one_step_is_that_step():
    """Its distance from nothing was not known: with next to none a grid of 8 million losses took 9 s."""
    for event in (ac.Gaussian(1.8e38), ac.Gaussian(2.0)):
        one, same = (ac.epsilon(2 * each, delta=1e-5) for each in (ac.RandomAllocation(event, steps=1), event))
        assert one.lower == pytest.approx(same.lower, rel=0.02)
        assert one.epsilon == pytest.approx(same.epsilon, rel=0.02)
    with tally_work() as work:
        ac.epsilon(2 * ac.RandomAllocation(ac.Gaussian(1.8e38), steps=1), delta=1e-5)
    assert work[0] < 1e7


@pytest.mark.audit
def test_losses_near_the_largest_of_two_steps():
    """26 epochs of two steps of Laplace noise, losses up to 121.8: the other step's ratio is nothing beside e^100.

    The loss of one is s - log 2 with probability 1/2, else less by twice an exponential variable: a sum of k of these
    is Gamma(k), k binomial.
    """
    run, epsilon = 26 * ac.RandomAllocation(ac.Laplace(scale=0.727, sensitivity=88.55), 2), 3143
    with mpmath.workdps(60):
        room = 26 * (mpmath.mpf(88.55) / mpmath.mpf(0.727) - mpmath.log(2)) - epsilon
        delta = -mpmath.expm1(-room) / mpmath.mpf(2) ** 26
        for k in range(1, 27):
            part = mpmath.quad(
                lambda y, k=k: y ** (k - 1) * mpmath.exp(-y) * -mpmath.expm1(2 * y - room), [0, room / 4, room / 2]
            )
            delta += mpmath.binomial(26, k) / mpmath.mpf(2) ** 26 * part / mpmath.factorial(k - 1)
    with pytest.raises(ac.ToleranceUnreachable) as refused:
        ac.delta(run, epsilon, method="tight")
    lower, upper = refused.value.found
    assert lower <= delta <= upper


def tiny(scale):
    """Votes beside random allocation that costs next to nothing, and these votes alone."""
    votes = 374 * ac.LNMax(4.8)
    return votes + 30 * ac.RandomAllocation(ac.Laplace(scale), 4857, 1), ac.epsilon(votes, 2e-6)


@pytest.mark.parametrize("scale", [1e20, 1e30])
def test_losses_that_are_too_small_for_a_grid_are_refused_by_name(scale):
    """Masses of one step were 1e300, and those of their sum no numbers."""
    run, alone = tiny(scale)
    with pytest.raises(ac.ToleranceUnreachable, match=r"losses of Laplace.* are too small for a grid"):
        ac.epsilon(run, 2e-6, method="tight")
    assert alone.lower <= ac.epsilon(run, 2e-6).epsilon <= 1.1 * alone.epsilon


@pytest.mark.parametrize("scale", [1e16, 1e50])
def test_tiny_losses_that_grids_hold_cost_next_to_nothing(scale):
    run, alone = tiny(scale)
    assert alone.lower <= ac.epsilon(run, 2e-6, method="tight").epsilon <= 1.001 * alone.epsilon
