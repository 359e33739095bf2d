"""No price is short, not by a rounding: near its largest loss delta falls by all its size within a few ulps."""

import math
import random
from collections import defaultdict
from fractions import Fraction

import mpmath as mp
import pytest

import accountant as ac
from tests.soak.exact import screening_pairs

DIGITS = 50


def bits(epsilon, count):
    """(P, Q) by the number of bits that point the other way."""
    a = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
    weights = [(mp.binomial(count, k), k) for k in range(count + 1)]
    return [(w * a ** (count - k) * (1 - a) ** k, w * a**k * (1 - a) ** (count - k)) for w, k in weights]


def lattice(scale, moved):
    """(P, Q) of two-sided geometric noise at 0 and at `moved`, its ends summed."""
    r = mp.exp(-1 / mp.mpf(scale))
    inside = [((1 - r) / (1 + r) * r**x, (1 - r) / (1 + r) * r ** (moved - x)) for x in range(1, moved)]
    return [(1 / (1 + r), r**moved / (1 + r)), *inside, (r**moved / (1 + r), 1 / (1 + r))]


def product(first, second):
    """The pair of both releases, its outcomes of one ratio summed."""
    sums = defaultdict(lambda: [mp.mpf(0), mp.mpf(0)])
    for a, b in first:
        for c, d in second:
            each = sums[mp.nstr(a * c / (b * d), DIGITS - 10)]
            each[0] += a * c
            each[1] += b * d
    return [tuple(each) for each in sums.values()]


def draw_event(dice):
    digits = dice.randint(2, 16)

    def number(low, high):
        return float(f"{10 ** dice.uniform(low, high):.{digits}g}")

    kind, size = dice.choice(("bits", "lattice", "pure")), dice.randint(1, 3)
    if kind == "lattice":
        event, pairs = ac.DiscreteLaplace(scale := number(-0.3, 2), size), lattice(scale, size)
    elif kind == "bits":
        event, pairs = ac.RandomizedResponse(epsilon := number(-3, 0.7), size), bits(epsilon, size)
    else:
        event, pairs = ac.PureDP(epsilon := number(-3, 0.7)), bits(epsilon, 1)
    if dice.random() < 0.4:
        event, rate = ac.PoissonSubsampled(event, share := number(-3, -0.01)), mp.mpf(share)
        pairs = [((1 - rate) * b + rate * a, b) for a, b in pairs]
    return event, pairs


def delta_of(pairs, epsilon):
    u = mp.exp(mp.mpf(epsilon))
    up, down = ([x - u * y for x, y in side if x > u * y] for side in (pairs, [(b, a) for a, b in pairs]))
    return max(mp.fsum(up), mp.fsum(down))


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.audit) for seed in range(4, 40))])
def test_no_price_of_a_finite_run_is_short(seed):
    """Their deltas by sums over all outcomes in 50 digits, at deltas far below that of the largest loss, too."""
    dice = random.Random(seed)
    with mp.workdps(DIGITS):
        run, whole = ac.Composition(), [(mp.mpf(1), mp.mpf(1))]
        for _ in range(dice.choice((1, 2, 2))):
            event, pairs = draw_event(dice)
            for _ in range(dice.randint(1, 3)):
                run, whole = run + event, product(whole, pairs)
        largest = max(max(mp.log(a / b), mp.log(b / a)) for a, b in whole)
        rarest = min(min(pair) for pair in whole)
        assert mp.mpf(ac.epsilon(run, 0.0, method="renyi").epsilon) >= largest * (1 - mp.mpf("1e-45"))
        routes = [{}, {"method": "renyi"}, {"conversion": "classic"}] + [{"conversion": "optimal"}] * (seed % 4 == 3)
        for share in (1.0, 1e-4, 1e-12):
            delta = min(float(rarest) * share * dice.uniform(0.5, 1.0), 0.9)
            for options in routes:
                found = ac.epsilon(run, delta, tolerance=1e-4, **options)
                assert delta_of(whole, found.epsilon) <= delta, (run, delta, options)
                epsilon = float(largest) * (1 - share * dice.random())
                found = ac.delta(run, epsilon, tolerance=1e-4, **options)
                assert delta_of(whole, epsilon) <= found.delta, (run, epsilon, options)


def test_the_limit_of_a_curve_is_not_below_the_largest_loss():
    """Ratios of normal tails err by more than an ulp; what is sampled at a small rate by more."""
    dice = random.Random(8)
    for _ in range(25):
        votes = dice.randint(1, 4)
        event = ac.NoisyScreening(10 ** dice.uniform(-0.5, 2), dice.uniform(-3.0, votes + 3.0), votes)
        if dice.random() < 0.7:
            event = ac.PoissonSubsampled(event, 10 ** dice.uniform(-3, -0.01))
        with mp.workdps(DIGITS):
            true = max(abs(mp.log(a / b)) for pair in screening_pairs(event) for a, b in pair)
            assert true <= ac.epsilon(event, 0.0).epsilon <= true * (1 + mp.mpf("3e-12"))


@pytest.mark.parametrize("kind", ["laplace", "discrete laplace", "bits", "trees"])
def test_the_limit_of_a_sample_is_rounded_up(kind):
    """Of losses that are quotients and products, which the curve gets rounded: far losses, and rates as small."""
    rng = random.Random(kind)
    for _ in range(60):
        scale, count = rng.uniform(0.5, 3.0), rng.randint(2, 9)
        with mp.workdps(DIGITS):
            if kind == "laplace":
                sensitivity = rng.uniform(0.5, 4.0)
                event, loss = ac.Laplace(scale, sensitivity, count), count * mp.mpf(sensitivity) / mp.mpf(scale)
            elif kind == "discrete laplace":
                event, loss = ac.DiscreteLaplace(scale, count), count / mp.mpf(scale)
            elif kind == "bits":
                event, loss = ac.RandomizedResponse(scale, count), count * mp.mpf(scale)
            else:
                event = ac.TreeAggregation(scale, 2**count, "laplace")
                loss = (count + 1) / mp.mpf(scale)
            rate = math.exp(-float(loss) + rng.uniform(-4, 2))
            rate = min(max(rate, 1e-14), 0.9)
            exact = mp.log1p(rate * mp.expm1(loss))
            found = ac.epsilon(ac.PoissonSubsampled(event, rate), 0.0).epsilon
            assert exact <= mp.mpf(found) <= exact * (1 + mp.mpf(2) ** -48)


def test_deltas_with_infinite_losses_are_rounded_outward():
    """Beyond all finite losses delta is 1 - (1 - d)(1 - d'), a rational number."""
    rng = random.Random(0)
    for _ in range(200):
        first, second = rng.uniform(1e-6, 0.3), 10.0 ** rng.uniform(-12, -1)
        run = ac.ApproximateDP(0.7, first) + ac.ApproximateDP(1.1, second) + ac.PureDP(0.3)
        exact = 1 - (1 - Fraction(first)) * (1 - Fraction(second))
        beyond, inside = ac.delta(run, 2.2), ac.delta(run, 1.9)
        assert Fraction(beyond.lower) <= exact <= Fraction(beyond.delta)
        assert beyond.delta <= float(exact) * (1 + 1e-14)
        assert Fraction(inside.delta) > exact
