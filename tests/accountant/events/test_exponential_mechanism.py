"""Private selection: against the mechanisms themselves and the largest of all pairs, in high precision."""

import itertools
import math

import numpy as np
import pytest
from mpmath import mp, mpf

import accountant as ac


def worst(epsilon, value):
    """The largest of a quantity over pairs with losses t and t - epsilon: it has one peak, found by golden section."""
    epsilon = mpf(epsilon)
    low, high, golden = mpf(0), epsilon, (mp.sqrt(5) - 1) / 2

    def at(t):
        share = (mp.exp(-t) - mp.exp(-epsilon)) / (1 - mp.exp(-epsilon))
        return value([share * mp.exp(t), (1 - share) * mp.exp(t - epsilon)], [share, 1 - share])

    for _ in range(120):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if at(left) > at(right) else (left, high)
    return at(low)


def renyi(p, q, order):
    if order == 1:
        return mp.fsum(a * mp.log(a / b) for a, b in zip(p, q, strict=True))
    return mp.log(mp.fsum(a ** mpf(order) * b ** (1 - mpf(order)) for a, b in zip(p, q, strict=True))) / (order - 1)


def hockey_stick(p, q, epsilon):
    return mp.fsum(max(a - mp.exp(mpf(epsilon)) * b, mpf(0)) for a, b in zip(p, q, strict=True))


@pytest.mark.each_run(2)
@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 4.0, 40.0])
def test_curve_and_profile_are_those_of_the_worst_pair(epsilon):
    event = ac.ExponentialMechanism(epsilon)
    with mp.workdps(50):
        for order in (1, 1.01, 2, 30, 1e4):
            exact = worst(epsilon, lambda p, q, order=order: renyi(p, q, order))
            assert float(event.renyi(order)) == pytest.approx(float(exact), rel=1e-12)
        for share in (0.0, 0.2, 0.7, 0.99):
            exact = worst(epsilon, lambda p, q, share=share: hockey_stick(p, q, share * epsilon))
            assert float(event.profile(share * epsilon).worst) == pytest.approx(float(exact), rel=1e-11)


def exponential(scores, c):
    weights = [mp.exp(mpf(c) * mpf(score)) for score in scores]
    return [weight / mp.fsum(weights) for weight in weights]


def flip(scores, c):
    """Permute-and-flip from its definition: all orders in which the candidates may come."""
    taken = [mp.exp(mpf(c) * (mpf(score) - max(scores))) for score in scores]
    chances = [mpf(0)] * len(scores)
    for order in itertools.permutations(range(len(scores))):
        left = 1 / mpf(math.factorial(len(scores)))
        for candidate in order:
            chances[candidate] += left * taken[candidate]
            left *= 1 - taken[candidate]
    return chances


@pytest.mark.parametrize(("kind", "mechanism"), [(ac.ExponentialMechanism, exponential), (ac.PermuteAndFlip, flip)])
def test_no_mechanism_costs_more(kind, mechanism):
    rng = np.random.default_rng(1)
    for _ in range(60):
        c, scores = 10 ** rng.uniform(-1.5, 0.7), rng.choice([0.0, 0.3, 1.0, 2.0, 5.0], 4)
        moved = scores + rng.choice([-1.0, 0.0, 1.0], 4)
        event = kind(2 * c)
        p, q = mechanism(scores.tolist(), c), mechanism(moved.tolist(), c)
        for order in (1, 1.5, 6.0):
            assert renyi(p, q, order) <= float(event.renyi(order)) * (1 + 1e-12)
        for epsilon in (0.0, 0.4 * c, 1.5 * c):
            assert hockey_stick(p, q, epsilon) <= float(event.profile(epsilon).worst) * (1 + 1e-12) + 1e-300


def test_the_exponential_mechanism_reaches_its_price():
    # two candidates whose scores move against each other, at the worst t
    epsilon, order, c = 1.0, 3.0, 0.5
    best = max(renyi(exponential([x, 0], c), exponential([x - 1, 1], c), order) for x in np.linspace(-6, 6, 4001))
    assert float(best) == pytest.approx(float(ac.ExponentialMechanism(epsilon).renyi(order)), rel=1e-6)


def test_permute_and_flip_is_no_bounded_range_mechanism():
    """The curve of the exponential mechanism is below what two candidates whose order turns cost."""
    for epsilon in (0.1, 1.0, 3.0):
        p, q = flip([1, 0], epsilon / 2), flip([0, 1], epsilon / 2)
        lost = float(hockey_stick(p, q, 0))
        assert lost == pytest.approx(-math.expm1(-epsilon / 2), rel=1e-12)
        assert lost > 1.2 * float(ac.ExponentialMechanism(epsilon).profile(0.0).worst)
        assert 0.7 * math.tanh(epsilon / 2) < lost < math.tanh(epsilon / 2)
        assert renyi(p, q, 2.0) > float(ac.ExponentialMechanism(epsilon).renyi(2.0)) * 1.1


def test_cheaper_than_pure_dp_and_within_zcdp():
    orders = np.array([1.0, 2.0, 7.0, 100.0])
    for epsilon in (0.01, 1.0, 9.0):
        curve = ac.ExponentialMechanism(epsilon).renyi(orders)
        assert (curve < ac.PureDP(epsilon).renyi(orders)).all()
        assert (curve <= orders * epsilon**2 / 8 * (1 + 1e-12)).all()
    small = ac.ExponentialMechanism(1e-4).renyi([1.0, 3.0])
    assert small == pytest.approx(np.array([1.0, 3.0]) * 1e-8 / 8, rel=1e-6)
    assert float(ac.ExponentialMechanism(2.0).renyi(math.inf)) == 2.0
    assert (ac.ExponentialMechanism(0.0).renyi([1.0, math.inf]) == 0.0).all()


@pytest.mark.each_run(2)
@pytest.mark.parametrize(("epsilon", "rate"), [(2.0, 0.2), (0.01, 1e-4), (12.0, 0.6), (0.5, 0.999), (300.0, 0.5)])
def test_poisson_samples_cost_what_the_worst_of_their_pairs_does(epsilon, rate):
    sampled, g = ac.PoissonSubsampled(ac.ExponentialMechanism(epsilon), rate), mpf(rate)
    for order in (1.5, 4.0, 25.0, 1e5):

        def both(p, q, order=order):
            mixed = [g * a + (1 - g) * b for a, b in zip(p, q, strict=True)]
            return max(renyi(mixed, q, order), renyi(q, mixed, order))

        with mp.workdps(60):
            exact = float(worst(epsilon, both))
        assert float(sampled.renyi(order)) == pytest.approx(exact, rel=2e-11)
        assert exact < float(ac.ExponentialMechanism(epsilon).renyi(order))


def test_prices_of_compositions():
    for run in (ac.ExponentialMechanism(0.5), 200 * ac.ExponentialMechanism(0.05)):
        ours, pure = (ac.epsilon(each, 1e-6, method="auto").epsilon for each in (run, _pure(run)))
        assert ours < 0.999 * pure
    many = ac.epsilon(200 * ac.ExponentialMechanism(0.05), 1e-6, method="tight")
    assert 0.99 * many.epsilon <= many.lower
    assert many.epsilon < ac.epsilon(200 * ac.ExponentialMechanism(0.05), 1e-6, method="renyi").epsilon
    flips = ac.epsilon(30 * ac.PermuteAndFlip(0.1), 1e-6, method="tight")
    assert flips.epsilon == ac.epsilon(30 * ac.Laplace(10.0), 1e-6, method="tight").epsilon
    assert flips.epsilon < 0.985 * ac.epsilon(30 * ac.PureDP(0.1), 1e-6, method="tight").epsilon
    assert flips.lower > 0.98 * flips.epsilon


def test_two_candidates_reach_the_profile_of_permute_and_flip():
    for epsilon in (0.1, 1.0, 3.0):
        for share in (0.0, 0.3, 0.9):
            found = ac.delta(ac.PermuteAndFlip(epsilon), share * epsilon)
            assert found.delta == pytest.approx(-math.expm1((share - 1) * epsilon / 2), rel=1e-9)
            assert found.lower == pytest.approx(found.delta, rel=1e-9)
            lead = (1 - share) * epsilon / 2
            reached = hockey_stick(flip([lead, 0.0], 1.0), flip([0.0, epsilon - lead], 1.0), share * epsilon)
            assert float(reached) == pytest.approx(found.delta, rel=1e-9)


def _pure(run):
    return ac.PureDP(0.5) if isinstance(run, ac.Event) else 200 * ac.PureDP(0.05)


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 20.0, 1e3, 723466.5, 1e6])
def test_the_curve_rises_to_its_limit(epsilon):
    """What is lost of the limit at huge orders is in no float beside it; the curve was 0 there."""
    orders = np.geomspace(2.0, 1e30, 200)
    curve = ac.ExponentialMechanism(epsilon).renyi(orders)
    assert (curve[1:] >= curve[:-1] * (1 - 1e-13)).all()
    assert curve[-1] == pytest.approx(epsilon, rel=1e-12)
    for delta in (1e-5, 1e-100, 1e-300):
        found = ac.epsilon(ac.ExponentialMechanism(epsilon), delta, method="renyi").epsilon
        assert found == pytest.approx(ac.epsilon(ac.PureDP(epsilon), delta, method="renyi").epsilon, rel=0.9)
        assert epsilon < 1e3 or found == pytest.approx(epsilon, rel=1e-4)


@pytest.mark.parametrize("epsilon", [1e-40, 2 / 3e13, 1e-13, 1e-6, 9.9e-5, 1.1e-4, 1.0, 477.0, 1e6])
def test_far_orders_come_up_to_the_range(epsilon):
    """By the closed form; at orders of which 1/a is no digit of the range the best t is the range itself.

    Of tiny ranges the best t is no difference of logarithms, which lost it: the curve was 0 at an order of 1e15.
    """
    event = ac.ExponentialMechanism(epsilon)
    with mp.workdps(400):
        e = mpf(epsilon)
        for share in (1e-6, 0.09, 0.11, 1.0, 30.0, 66.0, 79.0, 81.0, 1e3, 1e9, 1e20):
            order = 1 + share / epsilon
            a = mpf(order)
            t = mp.log((a - 1) * -mp.expm1(-a * e) / (a * (mp.exp(-e) - mp.exp(-a * e))))
            true = t - mp.log(a * mp.expm1(-e) / mp.expm1(-a * e)) / (a - 1)
            assert float(event.renyi(order)) == pytest.approx(float(true), rel=1e-13)
    assert event.renyi(1e300) == epsilon


@pytest.mark.parametrize("rate", [1e-15, 1e-3, 0.5, 0.999])
@pytest.mark.parametrize("epsilon", [100.0, 477.0, 513.0, 631.0, 1e6])
def test_samples_of_wide_ranges(epsilon, rate):
    """Rising, convex times a - 1, within the limit, and near order 1 no more than the worst of many pairs."""
    event = ac.PoissonSubsampled(ac.ExponentialMechanism(epsilon), rate)
    orders = np.concatenate([[1.0], 1 + 10 ** np.linspace(-6, 4, 60), [1e7]])
    curve, limit = event.renyi(orders), float(event.renyi(math.inf))
    assert (curve[1:] >= curve[:-1] * (1 - 1e-12)).all()
    assert (curve <= limit * (1 + 1e-13)).all()
    heights = (orders - 1) * curve
    share = (orders[2:] - orders[1:-1]) / (orders[2:] - orders[:-2])
    assert (heights[1:-1] <= (share * heights[:-2] + (1 - share) * heights[2:]) * (1 + 1e-10)).all()


@pytest.mark.each_run(1)
@pytest.mark.parametrize("order", [1.0005, 1.002])
def test_a_sample_of_a_wide_range_near_order_one(order):
    """Towards Q nearly all pairs are as bad as each other, and P against Q decides."""
    epsilon, g, a = 477.0439866942685, mpf("0.5"), mpf(order)

    def value(p, q):
        mixed = [(1 - g) * y + g * x for x, y in zip(p, q, strict=True)]
        both = zip(mixed, q, strict=True), zip(q, mixed, strict=True)
        return max(mp.log(mp.fsum(x**a * y ** (1 - a) for x, y in pair)) / (a - 1) for pair in both)

    with mp.workdps(450):
        true = worst(epsilon, value)
    assert ac.PoissonSubsampled(ac.ExponentialMechanism(epsilon), 0.5).renyi(order) == pytest.approx(
        float(true), rel=1e-13
    )
