import copy
import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

import accountant as ac

pytest.importorskip("dp_accounting")

import dp_accounting as dpa
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution
from scipy.stats import norm

from accountant.events.truncated_poisson import price_of_parts
from accountant.interop.dp_accounting import (
    Accountant,
    UnsupportedDpEvent,
    from_dp_event,
    to_dp_event,
    to_privacy_loss_distribution,
)
from accountant.interop.loss_distributions import grid_losses, profile_above
from tests.cases import audit_after

ADD, REPLACE, SPECIAL = dpa.NeighboringRelation


def gaussian_delta(mu, epsilon):
    """Balle & Wang 2018, Thm 8, written down again."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def test_events_become_runs():
    step = dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.5))
    tree = dpa.ComposedDpEvent(
        [
            dpa.SelfComposedDpEvent(step, 1000),
            dpa.NoOpDpEvent(),
            dpa.LaplaceDpEvent(2.0),
            dpa.SelfComposedDpEvent(dpa.ComposedDpEvent([step, dpa.ZCDpEvent(0.1)]), 3),
        ]
    )
    sampled = ac.PoissonSubsampled(ac.Gaussian(1.5), 0.01)
    assert from_dp_event(tree) == 1003 * sampled + ac.Laplace(2.0) + 3 * ac.ZeroConcentratedDP(0.1)


def test_replacement_moves_a_sum_by_two():
    """Of values of norm 1: dp_accounting's Rényi route says 1 (its issue 378), its other route 2."""
    run = from_dp_event(dpa.GaussianDpEvent(1.0), REPLACE)
    assert ac.delta(run, 1.0, method="tight").delta == pytest.approx(gaussian_delta(2.0, 1.0), rel=1e-9)
    sampled = from_dp_event(dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(1.0)), REPLACE)
    assert sampled == 1 * ac.PoissonSubsampled(ac.ClippedSum(1.0, adjacency="replace"), 0.1)


def test_releases_on_one_sample_are_one_event():
    """Their noises add up as precisions; two samples of their own would cost another amount."""
    inner = dpa.ComposedDpEvent([dpa.GaussianDpEvent(2.0), dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(3.0), 4)])
    ((event, count),) = from_dp_event(dpa.PoissonSampledDpEvent(0.2, inner))
    assert count == 1
    assert event.rate == 0.2
    assert event.event.sigma == pytest.approx((1 / 4 + 4 / 9) ** -0.5, rel=1e-14)
    ((replaced, _),) = from_dp_event(dpa.PoissonSampledDpEvent(0.2, inner), REPLACE)
    assert replaced.event.sigma == pytest.approx((1 / 4 + 4 / 9) ** -0.5, rel=1e-14)
    laplace = dpa.PoissonSampledDpEvent(0.2, dpa.SelfComposedDpEvent(dpa.LaplaceDpEvent(2.0), 3))
    assert from_dp_event(laplace) == 1 * ac.PoissonSubsampled(ac.Laplace(2.0, coordinates=3), 0.2)


@pytest.mark.parametrize("sigma", [0.7, 2.0, 3.3, 8.83])
def test_several_gaussians_are_rounded_to_the_costlier_side(sigma):
    """As exact rationals: of trees, and of several releases on one sample."""
    for steps in range(1, 9):
        ((event, _),) = from_dp_event(dpa.SingleEpochTreeAggregationDpEvent(sigma, 2**steps), SPECIAL)
        assert Fraction(event.sensitivity) ** 2 >= steps + 1
        assert event.sensitivity <= math.sqrt(steps + 1) * (1 + 2**-52)
        inner = dpa.ComposedDpEvent(
            [dpa.GaussianDpEvent(sigma), dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(3), steps)]
        )
        square = 1 / Fraction(sigma) ** 2 + Fraction(steps, 9)
        for relation in (dpa.NeighboringRelation.ADD_OR_REMOVE_ONE, REPLACE):
            ((sampled, _),) = from_dp_event(dpa.PoissonSampledDpEvent(0.2, inner), relation)
            assert 1 / Fraction(sampled.event.sigma) ** 2 >= square
            assert 1 / Fraction(math.nextafter(sampled.event.sigma, math.inf)) ** 2 < square


@pytest.mark.parametrize("inner", [dpa.GaussianDpEvent(2.0), dpa.RandomizedResponseDpEvent(0.5, 2)])
def test_samples_of_a_fixed_size(inner):
    (event,) = from_dp_event(inner, REPLACE).entries
    known = {
        dpa.SampledWithReplacementDpEvent(100, 10, inner): ac.SampledWithReplacement(event, 10, 100),
        dpa.SampledWithReplacementDpEvent(10, 100, inner): ac.SampledWithReplacement(event, 100, 10),
        dpa.SampledWithoutReplacementDpEvent(100, 10, inner): ac.FixedSizeSampled(event, 10, 100),
    }
    for sampled, ours in known.items():
        assert from_dp_event(sampled, REPLACE) == 1 * ours
    assert from_dp_event(dpa.SampledWithReplacementDpEvent(100, 0, inner), REPLACE).releases == 0
    composed = dpa.ComposedDpEvent([dpa.GaussianDpEvent(1.0), dpa.RandomizedResponseDpEvent(0.5, 2)])
    with pytest.raises(UnsupportedDpEvent, match="with replacement have a price for a single release only"):
        from_dp_event(dpa.SampledWithReplacementDpEvent(100, 10, composed), REPLACE)


def test_tree_is_gaussian_noise_on_every_level():
    """Kairouz et al. 2021, App. D: of 1600 steps 11 nodes see a record."""
    event = dpa.SingleEpochTreeAggregationDpEvent(8.83, [1600, 100])
    run = from_dp_event(event, SPECIAL)
    assert ac.epsilon(run, 1e-6, method="tight").epsilon < 2.04
    assert float(run.renyi(2.0)) == pytest.approx(11 * 2 / (2 * 8.83**2), rel=1e-12)


@pytest.mark.parametrize(
    ("event", "relation"),
    [
        (dpa.PoissonSampledDpEvent(0.1, dpa.ComposedDpEvent([dpa.GaussianDpEvent(1), dpa.LaplaceDpEvent(1)])), ADD),
        (dpa.PoissonSampledDpEvent(0.1, dpa.SelfComposedDpEvent(dpa.ZCDpEvent(0.1), 2)), ADD),
        (dpa.PoissonSampledDpEvent(0.1, dpa.ZCDpEvent(0.1)), SPECIAL),
        (dpa.SampledWithReplacementDpEvent(100, 10, dpa.GaussianDpEvent(1.0)), ADD),
        (dpa.RandomizedResponseDpEvent(0.5, 2), ADD),
        (dpa.LaplaceDpEvent(1.0), REPLACE),
        (dpa.UnsupportedDpEvent(), ADD),
        (dpa.ComposedDpEvent(None), ADD),
        (dpa.ComposedDpEvent("events"), ADD),
        (dp_event.MixtureOfGaussiansDpEvent(1.0, None, None), ADD),
        (dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [1.0]), ADD),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_price_is_refused(event, relation):
    with pytest.raises(UnsupportedDpEvent):
        from_dp_event(event, relation)
    accountant = Accountant(relation)
    assert not accountant.supports(event)
    with pytest.raises(dpa.UnsupportedEventError):
        accountant.compose(event)
    assert accountant.run.releases == 0
    assert isinstance(accountant.ledger, dpa.NoOpDpEvent)


@pytest.mark.parametrize(
    "event",
    [
        dpa.GaussianDpEvent(-1.0),
        dpa.GaussianDpEvent(math.nan),
        dpa.PoissonSampledDpEvent(1.1, dpa.GaussianDpEvent(1.0)),
        dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(math.nan)),
        dpa.ZCDpEvent(math.nan),
        dpa.SingleEpochTreeAggregationDpEvent(1.0, -3),
        dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(1.0), -1),
    ],
    ids=str,
)
def test_bad_numbers_are_refused_before_anything_is_recorded(event):
    accountant = Accountant(SPECIAL)
    with pytest.raises(ValueError, match="accepted"):
        accountant.compose(event)
    assert accountant.run.releases == 0
    assert isinstance(accountant.ledger, dpa.NoOpDpEvent)


@pytest.mark.parametrize(("times", "count"), [(1, 10**31), (10**20, 10**20), (1, -1)])
def test_counts_that_are_refused_are_in_no_ledger(times, count):
    accountant = Accountant()
    with pytest.raises(ac.ParameterError, match=r"count = .* accepted"):
        accountant.compose(dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(1e3), times), count)
    assert accountant.run.releases == 0
    assert isinstance(accountant.ledger, dpa.NoOpDpEvent)


@pytest.mark.parametrize("event", [dpa.GaussianDpEvent(1.0), dpa.NonPrivateDpEvent()])
def test_questions_out_of_range_are_refused_whatever_was_composed(event):
    accountant = Accountant().compose(event)
    for value in (math.nan, -1, None, "x"):
        with pytest.raises(ac.ParameterError, match=r"delta = .* accepted: \[0, 1\]"):
            accountant.get_epsilon(value)
        with pytest.raises(ac.ParameterError, match=r"epsilon = .* accepted: \[0, inf\]"):
            accountant.get_delta(value)
    for rates in ([], math.nan, [0.1, 0.7, "x"]):
        with pytest.raises(ac.ParameterError, match=r"false_positive_rates = .* accepted"):
            accountant.get_gdp_parameter_estimate(rates)
    with pytest.raises(ac.ParameterError, match=r"= 2.* accepted: \[0, 1\]"):
        accountant.get_true_positive_rates(2.0)


@pytest.mark.parametrize("shape", [math.nan, -3.0])
@pytest.mark.parametrize("mean", [1.0, 2.0])
def test_shapes_out_of_range_are_refused_also_of_one_repetition(mean, shape):
    with pytest.raises(ac.ParameterError, match=r"Shape = .* accepted: \[0, inf\]"):
        from_dp_event(dp_event.RepeatAndSelectDpEvent(dpa.GaussianDpEvent(1.0), mean, shape))


def test_discrete_noise_that_is_too_small_is_refused_by_what_was_given():
    with pytest.raises(ac.ParameterError, match=r"Noise parameter = 1e\+50 .* accepted: \[0, 9.99e\+49\]"):
        from_dp_event(dp_event.DiscreteLaplaceDpEvent(1e50, 1))
    assert from_dp_event(dp_event.DiscreteLaplaceDpEvent(9.99e49, 1)).releases == 1


@pytest.mark.parametrize(
    "event",
    [
        dpa.ComposedDpEvent(dpa.GaussianDpEvent(1.0) for _ in range(3)),
        dpa.SelfComposedDpEvent(dpa.ComposedDpEvent(iter([dpa.GaussianDpEvent(1.0)])), 3),
        dp_event.MixtureOfGaussiansDpEvent(1.0, iter([1.0]), [1.0]),
        dp_event.MixtureOfGaussiansDpEvent(1.0, [1.0], iter([1.0])),
    ],
    ids=["events", "nested events", "sensitivities", "probabilities"],
)
def test_parts_that_can_be_read_once_only_are_refused(event):
    """dp_accounting looks at an event before it composes it: then nothing would be left to compose."""
    with pytest.raises(dpa.UnsupportedEventError, match="list"):
        Accountant().compose(event)


def test_a_mixture_of_nothing_is_refused():
    with pytest.raises(ac.ParameterError, match="accepted"):
        Accountant().compose(dp_event.MixtureOfGaussiansDpEvent(1.0, [], []))


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 1e-50, 3e-50])
def test_noise_beyond_what_has_a_price_is_taken_for_less(rate):
    """Its scale does not fit into a float; less noise costs more."""
    ((event, _),) = from_dp_event(dp_event.DiscreteLaplaceDpEvent(rate, 1))
    assert Fraction(event.scale) <= min(1 / Fraction(rate), Fraction(10) ** 50)
    assert event.scale >= 3e49 * (1 - 1e-15)
    assert Accountant().compose(dp_event.DiscreteLaplaceDpEvent(rate, 1)).get_epsilon(0.0) <= 1e-48


def test_accountants_of_many_steps_can_be_copied():
    accountant = Accountant()
    for _ in range(3000):
        accountant.compose(dpa.GaussianDpEvent(80.0))
    assert copy.deepcopy(accountant).get_epsilon(1e-5) == accountant.get_epsilon(1e-5) > 0


@pytest.mark.parametrize("event", [dpa.NonPrivateDpEvent(), dpa.GaussianDpEvent(0.0)], ids=str)
def test_what_is_not_private_is_no_run(event):
    with pytest.raises(ac.NoGuarantee):
        from_dp_event(event)
    with pytest.raises(ac.NoGuarantee):
        Accountant().compose(event).guarantee(1e-5)
    assert Accountant().compose(event).get_epsilon(0.5) == math.inf


ROUND_TRIPS = [
    100 * ac.PoissonSubsampled(ac.Gaussian(1.3), 0.02) + 2 * ac.Gaussian(5.0, 2.0),
    ac.PoissonSubsampled(ac.Laplace(2.0, coordinates=3), 0.2) + 4 * ac.Laplace(3.0) + ac.GaussianDP(0.2),
    ac.DiscreteLaplace(4.0, 2) + 2 * ac.ZeroConcentratedDP(0.02),
    3 * ac.PoissonSubsampled(ac.ClippedSum(1.5, 2.0, "replace"), 0.1) + ac.Gaussian(3.0, adjacency="replace"),
    2 * ac.RandomizedResponse(0.7, bits=2, adjacency="replace") + ac.PureDP(0.1, adjacency="replace"),
    ac.MixtureOfGaussians(2.0, (0.0, 1.0), (0.5, 0.5)) + ac.ZeroConcentratedDP(0.1, xi=0.2),
    2 * ac.KaryRandomizedResponse(0.8, 7),
    3 * ac.TruncatedPoissonGaussian(2.0, 0.1, 100, 12, clip=1.6),
    ac.TruncatedPoissonGaussian(2.0, 0.1, 100, 12, adjacency="replace") + ac.Gaussian(3.0, adjacency="replace"),
    ac.Composition(),
]


@pytest.mark.parametrize("run", ROUND_TRIPS, ids=str)
def test_runs_become_events_of_the_same_price(run):
    relation = REPLACE if run.adjacency is ac.Adjacency.REPLACE else ADD
    event = to_dp_event(run)
    again = from_dp_event(dpa.DpEvent.from_named_tuple(event.to_named_tuple()), relation)
    orders = [1.0, 1.5, 4.0, 60.0]
    assert np.allclose(again.renyi(orders), run.renyi(orders), rtol=1e-12)
    assert again.releases >= run.releases


def draw_describable(rng):
    value, other = (float(10 ** rng.uniform(-3, 3)) for _ in range(2))
    return (
        ac.Gaussian(value, other),
        ac.GNMax(value),
        ac.ClippedSum(value, other, "replace"),
        ac.Laplace(value, other),
        ac.DiscreteLaplace(value, 3),
        ac.RandomizedResponse(value / 10, adjacency="replace"),
        ac.KaryRandomizedResponse(value / 10, 5),
        ac.PureDP(float(10 ** rng.uniform(-9, -3)), adjacency="replace"),
    )


def test_no_conversion_makes_a_run_cost_less():
    rng = np.random.default_rng(4)
    for run in (1 * event for _ in range(40) for event in draw_describable(rng)):
        again = from_dp_event(to_dp_event(run), REPLACE if run.adjacency is ac.Adjacency.REPLACE else ADD)
        assert again._largest_loss() >= run._largest_loss()
        if run._largest_loss() == math.inf:
            found, least = (next(iter(each.entries))._summand().size for each in (again, run))
            assert found >= least


def test_exported_gaussian_noise_is_the_most_that_costs_no_less():
    rng = np.random.default_rng(5)
    for sigma, size in 10 ** rng.uniform(-3, 3, (200, 2)):
        exact = Fraction(sigma) / Fraction(size)
        runs = ac.Gaussian(sigma, size), ac.Gaussian(sigma, size, "replace"), ac.ClippedSum(sigma, size, "replace")
        for event, moved in zip(runs, (1, 2, 1), strict=True):
            noise = to_dp_event(1 * event).noise_multiplier
            assert Fraction(noise) <= moved * exact < Fraction(math.nextafter(noise, math.inf))
    assert to_dp_event(1 * ac.GaussianDP(0.3)).noise_multiplier == math.nextafter(1 / 0.3, 0.0) < 1 / Fraction(0.3)
    # of a mu that is rounded itself
    noise = to_dp_event(1 * ac.GNMax(1.7)).noise_multiplier
    assert 2 * Fraction(noise) ** 2 < Fraction(1.7) ** 2 < 2 * Fraction(noise * (1 + 1e-14)) ** 2


@pytest.mark.parametrize("epsilon", [3.3e-27, 2.6e-16, 1e-12])
def test_responses_too_near_to_noise_are_refused(epsilon):
    """Their noise would be rounded to 1, which is free: ten to the 30 of 1.1e-16 cost 0.378 at delta 1e-5."""
    for event in (ac.PureDP(epsilon, adjacency="replace"), ac.KaryRandomizedResponse(epsilon, 9)):
        with pytest.raises(UnsupportedDpEvent, match="accepted: a larger one"):
            to_dp_event(10**30 * event)
    assert from_dp_event(to_dp_event(ac.PureDP(0.0, adjacency="replace")), REPLACE) == ac.Composition()


@pytest.mark.parametrize("noise", [5e-324, 1e-300, 1e-17, 0.1, 0.5, 1 - 2.0**-53])
def test_the_epsilon_of_a_response_is_rounded_up(noise):
    mpmath = pytest.importorskip("mpmath")
    for buckets in (2, 7, 10**9):
        found = from_dp_event(dpa.RandomizedResponseDpEvent(noise, buckets), REPLACE)._largest_loss()
        with mpmath.workdps(60):
            exact = mpmath.log1p(buckets * (1 - mpmath.mpf(noise)) / mpmath.mpf(noise))
            assert exact <= found <= exact * (1 + mpmath.mpf(2) ** -49)


@pytest.mark.parametrize(
    "event", [ac.NoisyScreening(85, 210, 300), ac.PureDP(1.0), ac.Laplace(1.0, adjacency="replace")]
)
def test_runs_that_no_event_describes_are_refused(event):
    with pytest.raises(UnsupportedDpEvent, match="accepted"):
        to_dp_event(3 * event)


def test_calibration_of_dp_accounting_takes_the_accountant():
    """As jax_privacy calls it: a callable that makes a fresh accountant."""
    sigma = dpa.calibrate_dp_mechanism(
        functools.partial(Accountant, tolerance=1e-3),
        lambda value: dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(value)), 1000),
        1.0,
        1e-5,
        dpa.ExplicitBracketInterval(0.7, 3.0),
        tol=1e-3,
    )
    assert ac.epsilon(1000 * ac.PoissonSubsampled(ac.Gaussian(sigma), 0.01), 1e-5, method="tight").lower <= 1.0
    ours = ac.calibrate(
        lambda value: 1000 * ac.PoissonSubsampled(ac.Gaussian(value), 0.01), 1.0, 1e-5, method="tight", tolerance=1e-3
    )
    assert sigma == pytest.approx(ours, abs=2e-3)


def test_ten_thousand_steps_cost_less_than_by_either_accountant_of_theirs():
    event = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0)), 10_000)
    ours = Accountant().compose(event)
    peers = [dpa.pld.PLDAccountant(), dpa.rdp.RdpAccountant()]
    bounds = [peer.compose(event).get_epsilon(1e-5) for peer in peers]
    guarantee = ours.guarantee(1e-5)
    assert guarantee.lower <= 6.18771238997 <= ours.get_epsilon(1e-5) <= min(bounds)


def test_tail_where_theirs_reports_too_little():
    """Pure DP of 0.1, a thousand times, at delta 1e-14: 28.447532 (a binomial sum); theirs says 28.19."""
    event = dpa.SelfComposedDpEvent(dpa.RandomizedResponseDpEvent(2 / (1 + math.exp(0.1)), 2), 1000)
    assert Accountant(REPLACE).compose(event).get_epsilon(1e-14) == pytest.approx(28.447532, abs=1e-6)


# --- loss distributions ---------------------------------------------------------------------------------

EXPORTED = [
    1 * ac.Gaussian(1.0),
    1 * ac.Laplace(1.0),
    10 * ac.Laplace(2.0) + 3 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.2),
    20 * ac.PoissonSubsampled(ac.ClippedSum(1.0, adjacency="replace"), 0.1),
]


@pytest.mark.each_run(1)
@pytest.mark.parametrize("run", audit_after(3, EXPORTED), ids=str)
def test_loss_distributions_bracket_the_run(run):
    above, below = (to_privacy_loss_distribution(run, pessimistic=side, tolerance=1e-3) for side in (True, False))
    for delta in (1e-2, 1e-6, 1e-12):
        found = ac.epsilon(run, delta, method="tight", tolerance=1e-4)
        assert below.get_epsilon_for_delta(delta) <= found.epsilon
        # their sums round by a few 1e-16
        assert above.get_epsilon_for_delta(delta) >= found.lower * (1 - 1e-10)
        width = above.get_epsilon_for_delta(delta) - below.get_epsilon_for_delta(delta)
        assert width <= 2e-3 * found.epsilon + 3e-4
    found = ac.delta(run, 0.5, method="tight", tolerance=1e-3)
    assert below.get_delta_for_epsilon(0.5) <= found.delta
    assert above.get_delta_for_epsilon(0.5) >= found.lower


def test_exported_masses_add_up_where_much_is_at_the_least_loss():
    """Two Laplace releases lose -2 with probability e^-2/4: the line from 1 at u = 0 passes below bounds there."""
    above, below = (to_privacy_loss_distribution(2 * ac.Laplace(1.0), pessimistic=side) for side in (True, False))
    assert float(above._pmf_remove._probs.sum()) + above._pmf_remove._infinity_mass == pytest.approx(1.0, abs=1e-10)
    for epsilon in (0.0, 0.5, 1.9):
        found = ac.delta(2 * ac.Laplace(1.0), epsilon, method="tight", tolerance=1e-4)
        assert below.get_delta_for_epsilon(epsilon) <= found.delta
        assert found.lower <= above.get_delta_for_epsilon(epsilon) <= found.delta * (1 + 1e-4)
    twenty = above.self_compose(20).get_epsilon_for_delta(1e-4)
    known = ac.epsilon(40 * ac.Laplace(1.0), 1e-4, method="tight")
    assert known.lower <= twenty <= known.epsilon * (1 + 1e-3)


def test_exported_losses_end_at_the_largest_one():
    run = 2 * ac.DiscreteLaplace(2.9) + 2 * ac.Laplace(2.0)
    end = 2 / 2.9 + 1.0
    delta = profile_above(run)
    assert delta(end + 2e-4) == delta(20.0) == 0.0
    assert delta(end - 1e-3) > 0.0
    above = to_privacy_loss_distribution(run)
    assert end * 0.9 < above.get_epsilon_for_delta(1e-12) <= above.get_epsilon_for_delta(0.0) <= end + 2e-4


@pytest.mark.audit
def test_directions_of_loss_distributions_are_theirs():
    """One sampled Gaussian: removing and adding a record have other profiles, which theirs knows too."""
    run = 1 * ac.PoissonSubsampled(ac.Gaussian(0.8), 0.3)
    ours = to_privacy_loss_distribution(run, tolerance=1e-3)
    theirs = privacy_loss_distribution.from_gaussian_mechanism(0.8, sampling_prob=0.3)
    for mine, other in ((ours._pmf_remove, theirs._pmf_remove), (ours._pmf_add, theirs._pmf_add)):
        for epsilon in (-0.2, 0.0, 0.1, 0.3):
            assert mine.get_delta_for_epsilon(epsilon) == pytest.approx(other.get_delta_for_epsilon(epsilon), rel=1e-6)


def test_exported_distributions_compose():
    run = 30 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.1)
    half = to_privacy_loss_distribution(15 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.1))
    whole = ac.epsilon(run, 1e-5, method="tight", tolerance=1e-4)
    both = half.compose(half).get_epsilon_for_delta(1e-5)
    assert whole.lower <= both <= whole.epsilon * 1.002


def test_different_exported_distributions_compose():
    """Their steps are the same to the last bit, as dp_accounting asks, and its own."""
    epsilons = (1.5970838426342755, 3.0, 0.7)
    each = [to_privacy_loss_distribution(ac.RandomizedResponse(one)) for one in epsilons]
    both = each[0].compose(each[1]).compose(each[2])
    found = both.compose(privacy_loss_distribution.from_gaussian_mechanism(1.0)).get_epsilon_for_delta(1e-5)
    run = sum((ac.RandomizedResponse(one) for one in epsilons), ac.Composition()) + ac.Gaussian(1.0)
    whole = ac.epsilon(run, 1e-5, method="tight", tolerance=1e-4)
    assert whole.lower <= found <= whole.epsilon * 1.002


@pytest.mark.parametrize(
    ("epsilon", "count", "step"), [(3.0, 1, 1e-6), (1.5970838426342755, 2, 2e-6), (10.0, 1, None), (2.0, 5, 1e-4)]
)
def test_exported_losses_are_above_the_run_next_to_the_largest_one(epsilon, count, step):
    """By their definition, at 40 digits: a step that is an ulp off moves the millionth loss by as much as delta."""
    with mp.workdps(40):
        p = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
        outcomes = [(mp.binomial(count, k), p**k * (1 - p) ** (count - k)) for k in range(count + 1)]
        for found in grid_losses(count * ac.RandomizedResponse(epsilon), above=True, step=step):
            assert found.step == (step or 1e-4)
            places = np.flatnonzero(found.probabilities).tolist()
            losses = [(found.first + j) * mp.mpf(found.step) for j in places]
            masses = [mp.mpf(float(found.probabilities[j])) for j in places]
            for share in (1 - 1e-9, 1 - 1e-7, 1 - 1e-5, 0.99, 0.5, 0.0):
                at = mp.mpf(epsilon) * count * share
                above = found.infinite + sum(
                    mass * (1 - mp.exp(at - loss)) for loss, mass in zip(losses, masses, strict=True) if loss > at
                )
                exact = sum(
                    many * max(one - mp.exp(at) * other, 0)
                    for (many, one), (_, other) in zip(outcomes, outcomes[::-1], strict=True)
                )
                assert above >= exact


def outcomes_of_approximate(epsilon, delta, rate):
    """(P, Q) of each outcome, P a mixture at the rate."""
    p = 1 / (1 + math.exp(-epsilon))
    plain = [
        (delta, 0.0),
        (0.0, delta),
        ((1 - delta) * p, (1 - delta) * (1 - p)),
        ((1 - delta) * (1 - p), (1 - delta) * p),
    ]
    return [(rate * first + (1 - rate) * second, second) for first, second in plain]


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_losses_that_may_be_infinite_are_exported(rate):
    event = ac.PoissonSubsampled(ac.ApproximateDP(0.7, 0.01), rate)
    one = outcomes_of_approximate(0.7, 0.01, rate)
    pairs = [(a * c * e, b * d * f) for (a, b), (c, d), (e, f) in itertools.product(one, repeat=3)]
    above, below = (to_privacy_loss_distribution(3 * event, pessimistic=each) for each in (True, False))
    for epsilon in (0.0, 0.1, 0.6, 1.3, 3.0):
        exact = max(
            math.fsum(max(p - math.exp(epsilon) * q, 0.0) for p, q in each)
            for each in (pairs, [(q, p) for p, q in pairs])
        )
        high, low = (each.get_delta_for_epsilon(epsilon) for each in (above, below))
        assert exact * (1 - 1e-12) <= high <= exact * (1 + 1e-4)
        assert exact * (1 - 1e-2) <= low <= exact * (1 + 1e-12)


def test_costs_that_depend_on_private_data_are_not_exported():
    for run in (
        ac.DataDependentGNMax(40.0, (200.0, 40.0)),
        2 * ac.DataDependentLNMax(2.0, (3.0, 1.0)) + ac.Gaussian(2.0),
    ):
        with pytest.raises(ac.DataDependentError, match="depends on private data"):
            to_privacy_loss_distribution(run)
        with pytest.raises(UnsupportedDpEvent):
            to_dp_event(run)


def test_rényi_bounds_export_from_above_only():
    run = 10 * ac.ZeroConcentratedDP(0.05)
    above = to_privacy_loss_distribution(run)
    assert above.get_epsilon_for_delta(1e-6) == pytest.approx(ac.epsilon(run, 1e-6).epsilon, rel=2e-3)
    assert above.get_epsilon_for_delta(1e-6) >= ac.epsilon(run, 1e-6, conversion="optimal").epsilon
    with pytest.raises(ac.ProfileUnavailable):
        to_privacy_loss_distribution(run, pessimistic=False)


def test_grids_that_are_too_large_are_refused():
    with pytest.raises(ac.ParameterError, match="accepted"):
        to_privacy_loss_distribution(ac.Gaussian(1.0), value_discretization_interval=1e-8)
    with pytest.raises(ac.ParameterError, match="at most 690"):
        to_privacy_loss_distribution(10_000 * ac.Laplace(0.5))
    for step in (-1.0, 0.0, math.nan, "x"):
        with pytest.raises(ac.ParameterError, match=r"value_discretization_interval = .* accepted"):
            to_privacy_loss_distribution(ac.Composition(), value_discretization_interval=step)
    nothing = to_privacy_loss_distribution(ac.Composition())
    assert nothing.get_epsilon_for_delta(1e-9) == 0.0


# --- events against their definitions --------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "buckets", "relation"), [(0.3, 5, REPLACE), (0.3, 5, SPECIAL), (0.2, 2, SPECIAL)])
def test_responses_have_the_pairs_of_their_definition(noise, buckets, relation):
    """Sums over all answers of (P - e^eps Q)_+ and of P^a Q^(1-a), in 40 digits."""
    mpmath = pytest.importorskip("mpmath")
    run = from_dp_event(dpa.RandomizedResponseDpEvent(noise, buckets), relation)
    with mpmath.workdps(40):
        low = mpmath.mpf(noise) / buckets
        first = [1 - mpmath.mpf(noise) + low] + [low] * (buckets - 1)
        second = [mpmath.mpf(1) / buckets] * buckets if relation is SPECIAL else [low, first[0], *first[2:]]
        pairs = [(first, second), (second, first)]
        for epsilon in (0.0, 0.4, 1.3):
            both = [sum(max(p - mpmath.exp(epsilon) * q, 0) for p, q in zip(*pair, strict=True)) for pair in pairs]
            found = run.profile(epsilon)
            assert max(found.remove, found.add) == pytest.approx(float(max(both)), rel=1e-12)
        for order in (1.5, 7.0):
            sums = [sum(p**order * q ** (1 - order) for p, q in zip(*pair, strict=True)) for pair in pairs]
            exact = mpmath.log(max(sums)) / (order - 1)
            assert float(run.renyi(order)) == pytest.approx(float(exact), rel=1e-12)


def test_one_integer_costs_more_than_several_that_move_as_far():
    """Why a discrete Laplace event of an L1 sensitivity is one integer that moves by all of it."""
    for epsilon in (0.0, 0.3, 0.8, 1.3):
        one, three = ac.DiscreteLaplace(2.0, 3), ac.DiscreteLaplace(2.0, coordinates=3)
        assert one.profile(epsilon).remove >= ac.delta(three, epsilon, method="tight").delta


@pytest.mark.parametrize(
    ("event", "run"),
    [
        (dpa.ZCDpEvent(0.1, 0.2), ac.ZeroConcentratedDP(0.1, xi=0.2)),
        (
            dpa.dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0, 3.0], [0.5, 0.5, 0.0]),
            ac.MixtureOfGaussians(2.0, (0.0, 1.0), (0.5, 0.5)),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_further_events_become_runs(event, run):
    assert from_dp_event(event) == 1 * run


@pytest.mark.audit
@pytest.mark.parametrize("relation", audit_after(1, dpa.NeighboringRelation), ids=lambda each: each.name)
def test_truncated_samples_cost_no_more_than_theirs(relation):
    """Random truncated samples; theirs, too, are pessimistic: all swaps are compared with full batches."""
    own, crowded = (
        ac.Adjacency(name)
        for name in {
            ADD: ("add-remove", "add-remove"),
            REPLACE: ("replace", "replace"),
            SPECIAL: ("add-remove", "replace"),
        }[relation]
    )
    rng = np.random.default_rng(8)
    for _ in range(2):
        size = int(rng.integers(5, 60))
        sizes = size, float(rng.uniform(0.05, 0.9)), int(rng.integers(1, size + 2)), float(rng.uniform(0.8, 3))
        event = dpa.dp_event.TruncatedSubsampledGaussianDpEvent(*sizes)
        ours = Accountant(relation).compose(event, 5).get_epsilon(1e-5)
        theirs = dpa.pld.PLDAccountant(relation, 1e-2).compose(event, 5).get_epsilon(1e-5)
        assert ours <= theirs, sizes
        release = ac.TruncatedPoissonGaussian(sizes[3], sizes[1], sizes[0], sizes[2])
        price = price_of_parts(release, own, crowded)
        whole = ac.epsilon(5 * getattr(price, "whole", price), 1e-5, tolerance=1e-4).epsilon
        assert ours <= whole * (1 + 1e-2), sizes
        if relation is not ADD:
            assert whole == pytest.approx(theirs, rel=5e-3), sizes


def reached_by_opposite_vectors(epsilon, share, sigma):
    """delta of x or 0 in a full batch, in another's place with probability `share`, where all others are -x."""
    t = np.linspace(-14.0, 14.0, 200_001)
    others, one, none = (np.exp(-((t - mean) ** 2) / 2) / math.sqrt(2 * math.pi) for mean in (-1 / sigma, 1 / sigma, 0))
    pair = [(1 - share) * others + share * own for own in (one, none)]
    return max(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0.0), t) for p, q in (pair, pair[::-1]))


@pytest.mark.parametrize("sizes", [(100, 1.0, 10, 1.0), (10**5, 0.01, 64, 1.0), (3, 1.0, 1, 0.8)])
def test_batches_that_are_surely_full_are_known_between_bounds(sizes):
    """A record whose vector is 0 may stand in another's place, or the other in its own, once as `ClippedSum(1, 2)`."""
    event = dpa.dp_event.TruncatedSubsampledGaussianDpEvent(*sizes)
    accountant = Accountant(SPECIAL).compose(event)
    price, share, sigma = accountant.guarantee(1e-5), sizes[2] / sizes[0], sizes[3]
    least = ac.epsilon(ac.PoissonSubsampled(ac.ClippedSum(sigma), share), 1e-5)
    other = ac.FixedSizeSampled(ac.ClippedSum(sigma, adjacency=ac.Adjacency.REPLACE), sizes[2], sizes[0])
    assert least.lower * (1 - 1e-3) <= price.lower <= price.epsilon <= ac.epsilon(other, 1e-5).epsilon
    assert 0.8e-5 <= reached_by_opposite_vectors(price.epsilon, share, sigma) <= 1e-5
    both = accountant.compose(dpa.GaussianDpEvent(3.0)).guarantee(1e-5)
    assert both.adjacency is ac.Adjacency.ADD_REMOVE
    assert both.epsilon > price.epsilon


@pytest.mark.parametrize("largest", [1, 2])
def test_no_price_leaps_where_all_records_join(largest):
    event = dpa.dp_event.TruncatedSubsampledGaussianDpEvent
    rare, sure = (Accountant(SPECIAL).compose(event(3, rate, largest, 0.8)) for rate in (1 - 1e-9, 1.0))
    assert sure.get_epsilon(0.05) == pytest.approx(rare.get_epsilon(0.05), rel=1e-8)
    assert sure.get_delta(1.0) == pytest.approx(rare.get_delta(1.0), rel=1e-7)
    assert sure.compose(event(3, 1.0, largest, 0.8)).get_epsilon(1e-5) < 2 * sure.get_epsilon(1e-5)


@pytest.mark.parametrize("sizes", [(100, 1.0, 10, 1.0), (10**5, 0.01, 64, 1.0)])
def test_no_sample_is_drawn_from_a_batch_that_is_surely_full(sizes):
    event = dpa.dp_event.PoissonSampledDpEvent(0.5, dpa.dp_event.TruncatedSubsampledGaussianDpEvent(*sizes))
    with pytest.raises(dpa.UnsupportedEventError, match="has no price when sampled"):
        Accountant().compose(event, 100)


@pytest.mark.parametrize(
    ("sizes", "exposed"), [((0, 0.1, 5, 1.0), False), ((9, 0.0, 5, 0.0), False), ((9, 0.1, 5, 0.0), True)]
)
def test_truncated_samples_of_nothing_are_free_and_without_noise_they_are_not(sizes, exposed):
    accountant = Accountant().compose(dpa.dp_event.TruncatedSubsampledGaussianDpEvent(*sizes))
    assert accountant.get_epsilon(1e-5) == (math.inf if exposed else 0.0)


def test_events_of_later_versions_are_known_by_name():
    """Which the installed version need not have."""
    import attr

    kinds = {
        "EpsilonDeltaDpEvent": (("epsilon", "delta"), (1.0, 0.1), ac.ApproximateDP(1.0, 0.1)),
        "ExponentialMechanismDpEvent": (("epsilon",), (0.7,), ac.ExponentialMechanism(0.7)),
        "PermuteAndFlipDpEvent": (("epsilon",), (0.7,), ac.PermuteAndFlip(0.7)),
    }
    for name, (fields, values, event) in kinds.items():
        kind = attr.make_class(name, list(fields), bases=(dpa.DpEvent,), frozen=True)
        assert from_dp_event(kind(*values)) == 1 * event
        assert Accountant().compose(kind(*values), 2).run == 2 * event


def test_approximate_events_compose_as_their_suite_says():
    """(1, 0.1) and (2, 0.2): a loss of up to 3, but with probability 1 - 0.9 * 0.8."""
    run = ac.ApproximateDP(1.0, 0.1) + ac.ApproximateDP(2.0, 0.2)
    accountant = Accountant()
    accountant.run = run
    assert accountant.get_delta(3.0) == 0.28
    assert accountant.get_epsilon(0.28) == 3.0
    assert accountant.get_epsilon(math.nextafter(0.28, 0)) == math.inf


def test_attack_risk_as_later_versions_of_the_peer_ask_for_it():
    accountant = Accountant().compose(dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(1.0)))
    assert isinstance(accountant.get_true_positive_rates(1e-8), float)
    rates = accountant.get_true_positive_rates(np.array([1e-8, 1e-6]))
    assert rates == pytest.approx([2.084e-7, 9.6218e-6], rel=1e-3)  # by the definition; others state 1.4e-12
    gaussian = Accountant().compose(dpa.GaussianDpEvent(2.0), 4)
    assert gaussian.get_gdp_parameter_estimate() == pytest.approx(1.0, rel=1e-6)
    floors = [accountant.get_gdp_parameter_estimate([floor, 0.1]) for floor in (1e-2, 1e-9)]
    assert 0 < floors[0] < floors[1] < 1
    bare = Accountant().compose(dpa.dp_event.NonPrivateDpEvent())
    assert bare.get_true_positive_rates([0.0, 0.5]).tolist() == [1.0, 1.0]
    assert (bare.get_true_positive_rates(0.5), bare.get_gdp_parameter_estimate()) == (1.0, math.inf)
    assert Accountant().get_true_positive_rates(0.3) == pytest.approx(0.3)
    assert Accountant().get_gdp_parameter_estimate() == 0.0
    with pytest.raises(ac.ParameterError, match="accepted"):
        accountant.get_true_positive_rates([1.5])


@pytest.mark.parametrize("adjacency", list(ac.Adjacency))
@pytest.mark.parametrize(("count", "delta"), [(1, 0.1), (5, 0.1), (200, 0.01), (3, 1e-9), (1, 1e-21)])
def test_what_only_loses_without_bound_is_exported(count, delta, adjacency):
    """No finite loss is above 0: delta was 0."""
    run = count * ac.ApproximateDP(0.0, delta, adjacency) + ac.PureDP(0.0, adjacency)
    lost = -math.expm1(count * math.log1p(-delta))
    for step in (None, 7.0):
        for above, near in ((True, 1 + 1e-9), (False, 1 - 1e-9)):
            for losses in grid_losses(run, above=above, step=step):
                assert losses.infinite == pytest.approx(lost * near, rel=1.01e-9)
                assert losses.infinite >= lost if above else losses.infinite <= lost
    assert lost <= profile_above(run)(0.5) <= lost * (1 + 1e-9)


@pytest.mark.parametrize(
    ("sizes", "own"),
    [
        ((1000, 999, 1.0), ac.Adjacency.ADD_REMOVE),
        ((50, 49, 0.7), ac.Adjacency.ADD_REMOVE),
        ((50, 49, 0.7), ac.Adjacency.REPLACE),
    ],
)
def test_curves_of_full_batches_are_no_more_than_those_of_their_vectors(sizes, own):
    """Five steps of 1000 records of which 999 are kept cost 63.97 at delta 1e-5, for 12.30, which both vectors tell."""
    records, largest, sigma = sizes
    event = price_of_parts(ac.TruncatedPoissonGaussian(sigma, 1.0, records, largest, 1.0), own, ac.Adjacency.REPLACE)
    for order in (1.0, 1.5, 8.0, 1e3):
        assert 0.9 < event.renyi(order) / ac.ClippedSum(sigma, 1.0, own).renyi(order) <= 1 + 1e-14


@pytest.mark.parametrize(("sigma", "clip"), [(1e-40, 1e40), (1e40, 1e-40), (1e10, 1e-40)])
@pytest.mark.parametrize("own", list(ac.Adjacency))
def test_curves_of_full_batches_at_the_ends_of_their_range(sigma, clip, own):
    """Their ratio is no scale of noise, or norm, that an event may have."""
    event = price_of_parts(ac.TruncatedPoissonGaussian(sigma, 0.5, 20, 19, clip), own, ac.Adjacency.REPLACE)
    assert 0.0 < event.renyi(2.0) <= ac.ClippedSum(sigma, clip, own).renyi(2.0) * (1 + 1e-14)
