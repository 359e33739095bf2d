"""Groups: against the definition, with all of the individual's records at once; nothing unproven has a price."""

import math
from itertools import product

import numpy as np
import pytest
from mpmath import mp, mpf

import accountant as ac
from accountant.cli import main

EPSILONS = [-1.0, 0.0, 0.2, 1.1]
PLAIN = [
    (ac.Gaussian(2.0, 0.5), ac.Gaussian(2.0, 1.5)),
    (ac.GaussianDP(0.3), ac.GaussianDP(0.9)),
    (ac.GNMax(4.0), ac.Gaussian(4.0, 3 * 2**0.5)),
    (ac.ClippedSum(5.0, 2.0, "replace"), ac.Gaussian(5.0, 12.0, "replace")),
    (ac.Laplace(3.0, 0.5, 2), ac.Laplace(3.0, 1.5, 2)),
    (ac.LNMax(7.0), ac.Laplace(7.0, 3.0, 2)),
    (ac.DiscreteLaplace(3.0, 2), ac.DiscreteLaplace(3.0, 6)),
    (ac.DiscreteGaussian(3.0, 2), ac.DiscreteGaussian(3.0, 6)),
    (ac.RandomizedResponse(0.4, 2), ac.RandomizedResponse(0.4, 6)),
    (ac.PoissonSubsampled(ac.Gaussian(2.0), 1.0), ac.Gaussian(2.0, 3.0)),
]


@pytest.mark.parametrize(("event", "same"), PLAIN, ids=repr)
def test_entries_move_three_times_as_far(event, same):
    group = ac.Group(event, 3)
    assert group.renyi([1.0, 4.0]) == pytest.approx(same.renyi([1.0, 4.0]), rel=1e-14)
    assert group.profile(EPSILONS).worst == pytest.approx(same.profile(EPSILONS).worst, rel=1e-12)
    assert group.adjacency is same.adjacency
    ours, theirs = (ac.epsilon(5 * each, 1e-6, method="tight").epsilon for each in (group, same))
    assert ours == pytest.approx(theirs, rel=1e-9)
    assert ac.Group(event, 1).renyi(3.0) == event.renyi(3.0)


def test_curves_alone():
    assert ac.Group(ac.ZeroConcentratedDP(0.1), 3).renyi(5.0) == pytest.approx(4.5)
    selection = ac.Group(ac.ExponentialMechanism(0.2), 4)
    assert selection.renyi([2.0, math.inf]).tolist() == ac.ExponentialMechanism(0.8).renyi([2.0, math.inf]).tolist()
    assert selection.family


# --- chains --------------------------------------------------------------------------------------------


def steps(a, epsilon, delta, count):
    """The largest true-positive rates of a chain, one step after another."""
    for _ in range(count):
        a = np.minimum(1, np.minimum(delta + np.exp(epsilon) * a, 1 - np.exp(-epsilon) * (1 - delta - a)))
    return a


@pytest.mark.parametrize(
    ("epsilon", "delta", "size"), [(0.3, 1e-3, 4), (0.1, 0.1, 6), (1.0, 0.2, 3), (0.01, 0.05, 12), (0.5, 0.0, 3)]
)
def test_chains_are_trade_off_functions_applied_again_and_again(epsilon, delta, size):
    group = ac.Group(ac.ApproximateDP(epsilon, delta), size)
    rates = np.unique(np.concatenate([np.linspace(0, 1, 400_001), np.geomspace(1e-14, 1, 20_001)]))
    reached = steps(rates, epsilon, delta, size)
    for e in (0.0, 0.5 * epsilon, 1.7 * epsilon, (size - 0.5) * epsilon):
        exact = float(np.max(reached - math.exp(e) * rates))  # from below, as the corners are between the rates
        found = group.profile(e)
        assert float(found.remove) == float(found.add)
        assert exact * (1 - 1e-9) <= float(found.worst) <= exact + 5e-5
    told = float(steps(np.zeros(1), epsilon, delta, size)[0])
    assert float(group.profile(60.0).worst) == pytest.approx(told, rel=1e-12, abs=1e-300)
    if delta:
        assert ac.delta(4 * group, 50.0, method="tight").delta == pytest.approx(1 - (1 - told) ** 4, rel=1e-9)


def test_pure_dp_is_cheaper_than_its_multiple_and_noise_on_a_count_reaches_it():
    for kind in (ac.PureDP, ac.PermuteAndFlip):
        group = ac.Group(kind(0.5), 4)
        assert group.renyi(3.0) < 0.95 * ac.PureDP(2.0).renyi(3.0)
        assert group.profile(EPSILONS).worst == pytest.approx(
            ac.DiscreteLaplace(2.0, 4).profile(EPSILONS).worst, rel=1e-12
        )
    assert float(ac.Group(ac.PureDP(0.5), 4).renyi(math.inf)) == pytest.approx(2.0)


def test_a_chain_that_hides_nothing_is_refused():
    for epsilon, delta, most in ((0.1, 0.3, 3), (0.1, 1 - 1e-6, 1), (1e-3, 0.01, 97)):
        with pytest.raises(ac.ParameterError, match=rf"nothing hides the ends of .*; accepted: \[1, {most}\]$"):
            ac.Group(ac.ApproximateDP(epsilon, delta), 500)
        with pytest.raises(ac.ParameterError, match="nothing hides the ends"):
            ac.Group(ac.ApproximateDP(epsilon, delta), most + 1)
        assert ac.Group(ac.ApproximateDP(epsilon, delta), most).profile(9.0).worst < 1.0


# --- Poisson samples -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "rate"), [(2, 0.1), (3, 0.5), (5, 0.01)])
def test_sampled_gaussian_groups_are_binomial_mixtures(size, rate):
    group = ac.Group(ac.PoissonSubsampled(ac.Gaussian(1.5), rate), size)
    shares = [math.comb(size, j) * rate**j * (1 - rate) ** (size - j) for j in range(size + 1)]
    mixture = ac.MixtureOfGaussians(1.5, range(size + 1), shares)
    assert group.renyi([1.0, 2.0, 9.0]) == pytest.approx(mixture.renyi([1.0, 2.0, 9.0]), rel=1e-12)
    for half in ("remove", "add"):
        ours, theirs = (getattr(each.profile(EPSILONS), half) for each in (group, mixture))
        assert ours == pytest.approx(theirs, rel=1e-11, abs=1e-300)


def test_a_sampled_group_costs_less_than_a_group_that_is_sampled_as_one_and_more_than_one_record():
    rate, size = 0.05, 4
    one, group = (
        ac.PoissonSubsampled(ac.Gaussian(3.0), rate),
        ac.Group(ac.PoissonSubsampled(ac.Gaussian(3.0), rate), size),
    )
    whole = ac.PoissonSubsampled(ac.Gaussian(3.0, size), 1 - (1 - rate) ** size)
    prices = [ac.epsilon(300 * each, 1e-6, method="tight").epsilon for each in (one, group, whole)]
    assert prices == sorted(prices)
    assert prices[1] < 0.8 * prices[2]


def geometric(shift, t, span):
    p = mp.exp(-mpf(t))
    return [(1 - p) / (1 + p) * p ** abs(x - shift) for x in range(-span, span + 1)]


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("event", "step", "t"),
    [(ac.PureDP(0.7), 1, 0.7), (ac.PermuteAndFlip(0.7), 1, 0.7), (ac.DiscreteLaplace(2.0, 3), 3, 0.5)],
)
def test_sampled_pure_groups_are_binomial_mixtures_of_noise_on_a_count(event, step, t):
    size, rate, span = 4, 0.2, 400
    group = ac.Group(ac.PoissonSubsampled(event, rate), size)
    q = geometric(0, t, span)
    shares = [mp.binomial(size, j) * mpf(rate) ** j * (1 - mpf(rate)) ** (size - j) for j in range(size + 1)]
    moved = [geometric(step * j, t, span) for j in range(size + 1)]
    p = [mp.fsum(b * law[i] for b, law in zip(shares, moved, strict=True)) for i in range(len(q))]
    for epsilon in (0.0, 0.1, 0.6):
        for first, second, found in ((p, q, group.profile(epsilon).remove), (q, p, group.profile(epsilon).add)):
            exact = mp.fsum(max(a - mp.exp(mpf(epsilon)) * b, mpf(0)) for a, b in zip(first, second, strict=True))
            assert float(found) == pytest.approx(float(exact), rel=1e-11, abs=1e-300)
    for order in (1.5, 6.0):
        exact = max(
            mp.log(mp.fsum(a ** mpf(order) * b ** (1 - mpf(order)) for a, b in zip(first, second, strict=True)))
            for first, second in ((p, q), (q, p))
        )
        assert float(group.renyi(order)) == pytest.approx(float(exact) / (order - 1), rel=1e-11)


def test_no_chain_of_private_neighbours_costs_more_than_a_sampled_group():
    """Random mechanisms with three outcomes and two records: each is epsilon-DP, and both are sampled."""
    rng, epsilon, rate = np.random.default_rng(3), 0.8, 0.3
    group = ac.Group(ac.PoissonSubsampled(ac.PureDP(epsilon), rate), 2)
    checked = 0
    while checked < 60:
        laws = np.exp(rng.uniform(-epsilon, epsilon, (4, 3)))
        laws /= laws.sum(axis=1, keepdims=True)
        neither, first, second, both = laws
        losses = [np.abs(np.log(a / b)).max() for a, b in product((first, second), (neither, both))]
        if max(losses) > epsilon:
            continue
        checked += 1
        p = (1 - rate) ** 2 * neither + rate * (1 - rate) * (first + second) + rate**2 * both
        for e in (0.0, 0.2, 0.5):
            bound = group.profile(e)
            assert np.maximum(p - math.exp(e) * neither, 0).sum() <= float(bound.remove) + 1e-12
            assert np.maximum(neither - math.exp(e) * p, 0).sum() <= float(bound.add) + 1e-12


# --- refusals and plans --------------------------------------------------------------------------------

UNPROVEN = [
    ac.DataDependentScreening(20, 40, 30),
    ac.Shuffled(2.0, 100),
    ac.Collision(1.0, 2, 8),
    ac.MixtureOfGaussians(1.0, (0.0, 1.0), (0.5, 0.5)),
    ac.PoissonSubsampled(ac.ClippedSum(1.0, adjacency="replace"), 0.1),
    ac.PoissonSubsampled(ac.Laplace(1.0), 0.1),
    ac.PoissonSubsampled(ac.RandomizedResponse(1.0), 0.1),
    ac.DataDependentGNMax(40.0, (200.0, 40.0)),
]


@pytest.mark.parametrize("event", UNPROVEN, ids=repr)
def test_what_is_not_proven_is_refused(event):
    with pytest.raises(ac.ParameterError, match=r"has no proven price for a group; accepted: "):
        ac.Group(event, 2)


def test_a_subclass_with_another_curve_is_refused():
    class Other(ac.Gaussian):
        def _curve(self, orders):
            return 2 * super()._curve(orders)

    with pytest.raises(ac.ParameterError, match="no proven price"):
        ac.Group(Other(1.0), 2)


@pytest.mark.parametrize(("event", "size"), [(ac.Gaussian(1.0), 0), (ac.Gaussian(1.0), 1.5), (3, 2), ("gaussian", 2)])
def test_bad_parameters(event, size):
    with pytest.raises(ac.ParameterError, match="accepted: "):
        ac.Group(event, size)


def test_groups_come_after_sampling_and_once():
    group = ac.Group(ac.Gaussian(1.0), 2)
    with pytest.raises(ac.SubsamplingError, match=r"ac\.Group\(ac\.PoissonSubsampled\(event, rate\), size\)"):
        ac.PoissonSubsampled(group, 0.1)
    with pytest.raises(ac.ParameterError, match="one Group"):
        ac.Group(group, 2)
    with pytest.raises(ac.ParameterError, match="one Group"):
        ac.Group(ac.Group(ac.Gaussian(1.0), 1), 2)  # a plan has one group size
    with pytest.raises(ac.ParameterError, match=r"accepted: \[1, 1000\]"):
        ac.Group(ac.PoissonSubsampled(ac.Gaussian(1.0), 0.1), 1001)


def test_plans_have_a_group_size(tmp_path):
    group = ac.Group(ac.PoissonSubsampled(ac.Gaussian(2.0), 0.1), 3)
    path = tmp_path / "plan.toml"
    path.write_text((20 * group + 3 * ac.Group(ac.PureDP(0.1), 2)).to_toml(delta=1e-5))
    plan = ac.load_plan(path)
    assert plan.run == 20 * group + 3 * ac.Group(ac.PureDP(0.1), 2)
    assert "group_size = 3" in path.read_text()
    assert ac.composition_from_tables(ac.composition_to_tables(plan.run)) == plan.run
    assert "nobody holds more than 3 records" in group.caveats()


def test_what_commands_and_peers_say_of_a_sampled_group(tmp_path, capsys):
    path = tmp_path / "plan.toml"
    line = 'event = "gaussian"\nsigma = 2.0\nsampling_rate = 0.05\ngroup_size = 3\ncount = 100\n'
    path.write_text(f"delta = 1e-5\n[[release]]\n{line}")
    assert main(["epsilon", str(path)]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "nobody holds more than 3 records" in words
    assert "every record joins at rate 0.05 by itself" in words
    peer = pytest.importorskip("accountant.interop.dp_accounting", exc_type=ImportError)
    pytest.importorskip("dp_accounting")
    # each record is drawn by itself: a Poisson sample of one sum of sensitivity 3 would be another event
    with pytest.raises(ac.ParameterError, match="no DpEvent"):
        peer.to_dp_event(1 * ac.Group(ac.PoissonSubsampled(ac.Gaussian(2.0), 0.1), 3))
    described = peer.to_dp_event(1 * ac.ZeroConcentratedDP(0.1, xi=0.2))
    assert (described.rho, described.xi) == (0.1, 0.2)
    assert peer.from_dp_event(described) == 1 * ac.ZeroConcentratedDP(0.1, xi=0.2)
