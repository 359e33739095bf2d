"""Rates per record: each group's price against its definition, and the guarantee for all as the largest rate's."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import accountant as ac

ORDERS = np.array([1.0, 1.5, 4.0, 30.0, math.inf])
RATES = (0.3, 0.02, 0.0)
EVENT = ac.HeterogeneousPoisson(ac.Gaussian(1.2), RATES)


@pytest.mark.each_run(1)
@pytest.mark.parametrize("group", range(3))
@pytest.mark.parametrize("epsilon", [0.05, 0.4])
def test_each_group_pays_the_integral_at_its_rate(group, epsilon):
    with mp.workdps(40):
        rate, sigma = mp.mpf(RATES[group]), mp.mpf(1.2)

        def density(x, mean):
            return mp.npdf(x, mean, sigma)

        def mixture(x):
            return (1 - rate) * density(x, 0) + rate * density(x, 1)

        def excess(p, q):
            # losses are monotone in x: the integrand is smooth but for one place, which is a knot
            ratio = (mp.exp(epsilon) - 1 + rate) / rate if p is mixture else None
            other = (mp.exp(-mp.mpf(epsilon)) - 1 + rate) / rate if p is not mixture else None
            level = ratio if p is mixture else other
            if level <= 0:
                return mp.mpf(0)
            knot = sigma**2 * mp.log(level) + mp.mpf(1) / 2
            ends = [knot, knot + 3, knot + 8, 40] if p is mixture else [-40, knot - 8, knot - 3, knot]
            return mp.quad(lambda x: p(x) - mp.exp(epsilon) * q(x), ends)

        plain = lambda x: density(x, 0)  # noqa: E731
        exact = (excess(mixture, plain), excess(plain, mixture)) if rate else (mp.mpf(0), mp.mpf(0))
    found = EVENT.of_group(group).profile(epsilon)
    assert float(found.remove) == pytest.approx(float(exact[0]), rel=1e-9, abs=1e-300)
    assert float(found.add) == pytest.approx(float(exact[1]), rel=1e-9, abs=1e-300)
    one = ac.epsilons_by_group(EVENT, max(float(exact[0]), 1e-9), method="tight")[group].epsilon
    assert one <= epsilon + 1e-9 or exact[0] == 0
    assert float(EVENT.profile(epsilon).remove) >= float(exact[0]) * (1 - 1e-12)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 8), min_size=2, max_size=3), st.fractions(1, 5, max_denominator=7))
def test_others_rates_add_nothing(eighths, factor):
    """All samples of a few records, enumerated: the noisy parity of their number."""
    rates = [Fraction(each, 8) for each in eighths]
    keep = Fraction(3, 4)

    def law(members):
        outcome = {0: Fraction(0), 1: Fraction(0)}
        for joined in itertools.product((0, 1), repeat=len(members)):
            chance = math.prod(rates[i] if j else 1 - rates[i] for i, j in zip(members, joined, strict=True))
            parity = sum(joined) % 2
            outcome[parity] += chance * keep
            outcome[1 - parity] += chance * (1 - keep)
        return outcome

    everybody = list(range(len(rates)))
    event = ac.HeterogeneousPoisson(ac.PureDP(math.log(3)), tuple(map(float, rates)))
    point = math.log(factor)
    for i in everybody:
        p, q = law(everybody), law([j for j in everybody if j != i])
        bound, all_bound = event.of_group(i).profile(point), event.profile(point)
        for first, second, name in ((p, q, "remove"), (q, p, "add")):
            exact = float(sum(max(first[o] - factor * second[o], Fraction(0)) for o in first))
            assert exact <= float(getattr(bound, name)) + 1e-12
            assert float(getattr(bound, name)) <= float(getattr(all_bound, name)) + 1e-12
    if all(each == 0 for each in rates[1:]):  # then the bound is reached
        p, q = law(everybody), law(everybody[1:])
        exact = float(sum(max(p[o] - factor * q[o], Fraction(0)) for o in p))
        assert exact == pytest.approx(float(event.of_group(0).profile(point).remove), abs=1e-12)


BASES = [ac.Gaussian(0.8), ac.Laplace(1.5), ac.NoisyScreening(20.0, 30, 50), ac.ClippedSum(1.0, adjacency="replace")]


@pytest.mark.each_run(2)
@pytest.mark.parametrize("base", BASES, ids=repr)
def test_everybody_pays_at_most_the_largest_rate(base):
    event = ac.HeterogeneousPoisson(base, (0.001, 0.2, 0.05))
    largest = ac.PoissonSubsampled(base, 0.2)
    assert (event.renyi(ORDERS) == largest.renyi(ORDERS)).all()
    assert (event.profile([0.0, 0.3]).remove == largest.profile([0.0, 0.3]).remove).all()
    prices = [each.epsilon for each in ac.epsilons_by_group(20 * event, 1e-5, method="auto")]
    whole = ac.epsilon(20 * event, 1e-5, method="auto")
    assert whole == ac.epsilon(20 * largest, 1e-5, method="auto")
    assert prices[0] < prices[2] < prices[1] == whole.epsilon


def test_both_limits():
    base = ac.Gaussian(1.0)
    alone, certain = ac.HeterogeneousPoisson(base, [0.1]), ac.HeterogeneousPoisson(base, [1, 0.0])
    assert (alone.renyi(ORDERS) == ac.PoissonSubsampled(base, 0.1).renyi(ORDERS)).all()
    assert (certain.renyi(ORDERS) == base.renyi(ORDERS)).all()
    whole, nothing = ac.epsilons_by_group(7 * certain, 1e-6, method="tight")
    assert whole.epsilon == ac.epsilon(7 * base, 1e-6, method="tight").epsilon
    assert nothing.epsilon == 0.0


def test_runs_with_other_releases():
    first, second = (ac.HeterogeneousPoisson(ac.Gaussian(sigma), (0.01, 0.1)) for sigma in (1.0, 2.0))
    run = 100 * first + 50 * second + 2 * ac.Gaussian(8.0)
    found = ac.epsilons_by_group(run, 1e-5, tolerance=0.02, method="tight")
    for rate, price in zip((0.01, 0.1), found, strict=True):
        parts = 100 * ac.PoissonSubsampled(ac.Gaussian(1.0), rate) + 50 * ac.PoissonSubsampled(ac.Gaussian(2.0), rate)
        assert price == ac.epsilon(parts + 2 * ac.Gaussian(8.0), 1e-5, tolerance=0.02, method="tight")
    assert found[1] == ac.epsilon(run, 1e-5, tolerance=0.02, method="tight")


def test_individuals_with_several_records():
    """Thinned: at most the price of as many records at the largest rate."""
    largest = ac.Group(ac.PoissonSubsampled(ac.Gaussian(1.2), 0.3), 3)
    assert (ac.Group(EVENT, 3).renyi(ORDERS[:-1]) == largest.renyi(ORDERS[:-1])).all()
    for size in (1, 2):
        fewer = ac.Group(ac.PoissonSubsampled(ac.Gaussian(1.2), 0.3), size)
        assert (fewer.renyi(ORDERS[:-1]) <= largest.renyi(ORDERS[:-1])).all()


def test_plans(tmp_path):
    run = 3 * EVENT + ac.Gaussian(2.0)
    (tmp_path / "plan.toml").write_text(run.to_toml(delta=1e-5))
    assert ac.load_plan(tmp_path / "plan.toml").run == run


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ac.HeterogeneousPoisson(3, (0.1,)), ac.ParameterError, "event = 3; accepted: an event"),
        (lambda: ac.HeterogeneousPoisson(ac.Gaussian(1.0), ()), ac.ParameterError, r"rates = \(\); accepted: 1 to"),
        (lambda: ac.HeterogeneousPoisson(ac.Gaussian(1.0), (0.1, 1.5)), ac.ParameterError, "rates = 1.5"),
        (lambda: ac.HeterogeneousPoisson(ac.Gaussian(1.0), (1e-20,)), ac.ParameterError, r"\[1e-15, 1\]"),
        (
            lambda: ac.HeterogeneousPoisson(ac.PoissonSubsampled(ac.Gaussian(1.0), 0.1), (0.1,)),
            ac.SubsamplingError,
            "is sampled; accepted: the event within",
        ),
        (
            lambda: ac.HeterogeneousPoisson(ac.Gaussian(1.0, adjacency="replace"), (0.1,)),
            ac.SubsamplingError,
            "has no price",
        ),
        (lambda: ac.PoissonSubsampled(EVENT, 0.1), ac.SubsamplingError, "has drawn its own sample"),
        (lambda: ac.HeterogeneousPoisson(EVENT, (0.1,)), ac.SubsamplingError, "has drawn its own sample"),
        (lambda: ac.Group(ac.HeterogeneousPoisson(ac.Laplace(1.0), (0.1,)), 2), ac.ParameterError, "no proven price"),
        (lambda: EVENT.of_group(3), ac.ParameterError, "group = 3"),
        (lambda: ac.epsilons_by_group(ac.Gaussian(1.0), 1e-5), ac.ParameterError, "run with no event with groups"),
        (lambda: ac.epsilons_by_group(3, 1e-5), ac.ParameterError, "run = 3; accepted"),
        (
            lambda: ac.epsilons_by_group(EVENT + ac.HeterogeneousPoisson(ac.Gaussian(1.0), (0.1,)), 1e-5),
            ac.ParameterError,
            "events of 1 and 3 groups",
        ),
    ],
)
def test_refusals(make, error, words):
    with pytest.raises(error, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)
