"""What a refusal names is enough, and what is certified at a coarser tolerance is kept at a finer one."""

import math
import random
import re

import numpy as np
import pytest

import accountant as ac
from accountant import advice, patience
from accountant.errors import ToleranceUnreachable
from accountant.numerics.roots import Interval
from tests.cases import audit_after

P, S, G = ac.PoissonSubsampled, ac.NoisyScreening, ac.Gaussian
ROUNDS = 2000 * P(S(85, 210, 300), 0.2) + 3000 * P(S(50, 150, 300), 0.2) + 800 * P(ac.GNMax(30), 0.2)
PLAN = 18_000 * P(S(85, 210, 300), 0.2) + 3877 * P(ac.GNMax(20), 0.2)
COUNTS = 1000 * ac.ExponentialMechanism(1.85651, ac.Adjacency.REPLACE) + 1000 * ac.ShuffledCounts(4.93156, 256.888, 0.5)
EVENTS = (
    lambda scale: G(scale),
    lambda scale: P(G(scale), 0.01),
    lambda scale: P(ac.Laplace(scale), 0.1),
    lambda scale: ac.DiscreteLaplace(scale),
    lambda scale: S(scale, 3.0, 20),
    lambda scale: ac.ExponentialMechanism(1 / scale),
)


def random_runs(number):
    draw = random.Random(7)
    for _ in range(number):
        kinds = draw.sample(EVENTS, draw.choice([2, 2, 3]))
        yield ac.Composition((make(10 ** draw.uniform(0, 1.3)), draw.choice([1, 10, 100])) for make in kinds)


def named(refusal, what):
    found = re.search(rf"{what} = ([0-9.e+-]+)", str(refusal).partition("accepted: ")[2])
    return float(found[1].rstrip(".,;")) if found else None


def tight(run, delta, **more):
    return ac.epsilon(run, delta, method="tight", **more)


def steps_to_a_price(run, delta, tolerance, seconds):
    """How often the patience that is named is refused again."""
    for steps in range(-1, 5):
        try:
            tight(run, delta, tolerance=tolerance, patience=seconds)
        except ac.OutOfPatience as refusal:
            before, seconds, wide = seconds, named(refusal, "patience"), named(refusal, "tolerance")
            if not before < seconds <= 1.05 * refusal.seconds or (wide or 1.0) < tolerance:
                raise
        else:
            return steps
    return math.inf


@pytest.mark.audit
@pytest.mark.parametrize("seconds", audit_after(1, [0.03, 0.003]))
def test_the_patience_that_is_named_is_enough(seconds):
    steps = [steps_to_a_price(run, 1e-6, 0.01, seconds) for run in random_runs(8)]
    assert max(steps) <= 1
    assert sum(each == 1 for each in steps) <= 1


@pytest.mark.each_run(3)
@pytest.mark.parametrize(
    ("run", "tolerance", "seconds"),
    [*((run, 1e-4, 0.03) for run in random_runs(6)), (PLAN, 1e-4, 1.0), (PLAN, 1e-4, 5.0), (ROUNDS, 1e-3, 1.0)],
)
def test_the_tolerance_that_is_named_is_enough(run, tolerance, seconds):
    try:
        tight(run, 1e-5, tolerance=tolerance, patience=seconds)
    except ac.OutOfPatience as refusal:
        wide = named(refusal, "tolerance")
        if wide is None:  # not even the coarsest is
            with pytest.raises(ac.OutOfPatience):
                tight(run, 1e-5, tolerance=1.0, patience=seconds)
        else:
            found = tight(run, 1e-5, tolerance=wide, patience=seconds)
            lower, upper = refusal.found
            assert found.lower <= upper
            assert lower <= found.epsilon


def test_all_stages_are_named_at_once():
    """The plan took 0.062 s, then 0.096, 0.16, 0.18 and 0.19; and of a finer tolerance 1.2 s and 11 s first."""
    assert steps_to_a_price(PLAN, 1e-5, 0.01, 0.01) == 0
    usual = tight(PLAN, 1e-5, tolerance=1e-4)
    assert usual.epsilon - usual.lower <= 1e-4 * usual.epsilon
    for seconds in (1.0, 2.0):
        with pytest.raises(ac.OutOfPatience) as refusal:
            tight(PLAN, 1e-5, tolerance=1e-4, patience=seconds)
        assert named(refusal.value, "patience") <= 500.0
        found = tight(PLAN, 1e-5, tolerance=1e-4, patience=named(refusal.value, "patience"))
        assert found.epsilon - found.lower <= 1e-4 * found.epsilon


@pytest.mark.parametrize(("run", "delta"), audit_after(1, [(PLAN, 1e-5), (ROUNDS, 1e-5), (COUNTS, 3.42e-7)]))
def test_a_finer_tolerance_is_no_dearer(run, delta):
    usual = ac.epsilon(run, delta)
    for tolerance in (1e-3, 1e-4, 1e-6):
        finer = ac.epsilon(run, delta, tolerance=tolerance)
        assert finer.epsilon <= usual.epsilon
        assert finer.lower >= usual.lower
        usual = finer


@pytest.mark.audit
@pytest.mark.parametrize("number", [4, pytest.param(40, marks=pytest.mark.audit)])
def test_a_finer_tolerance_is_no_dearer_for_random_runs(number):
    for run in random_runs(number):
        for seconds in (0.02, 0.1):
            prices = [ac.epsilon(run, 1e-6, tolerance=each, patience=seconds) for each in (0.01, 1e-3, 1e-5)]
            assert prices == sorted(prices, key=lambda price: price.epsilon, reverse=True)
            point = 0.7 * prices[0].epsilon
            deltas = [ac.delta(run, point, tolerance=each, patience=seconds).delta for each in (0.01, 1e-3, 1e-5)]
            assert deltas == sorted(deltas, reverse=True)


def test_a_curve_keeps_what_is_certified_at_a_coarser_tolerance():
    run = PLAN
    coarse, fine = (ac.curve(run, [3.0, 4.0], tolerance=each, patience=1.5) for each in (0.1, 1e-4))
    assert fine.method == coarse.method == "tight"
    assert np.all(fine.upper <= 1.1 * coarse.upper)
    assert np.all(coarse.lower <= fine.upper)


@pytest.mark.audit
def test_a_calibration_keeps_what_a_coarser_tolerance_finds():
    def rounds(sigma):
        return 100 * P(S(sigma, 150, 300), 0.2) + 80 * P(ac.GNMax(30), 0.2)

    usual, fine = (ac.calibrate(rounds, 1.0, 1e-5, tolerance=each, patience=1.0) for each in (0.01, 1e-4))
    assert fine <= usual
    assert ac.epsilon(rounds(fine), 1e-5, tolerance=1e-4, patience=1.0).epsilon <= 1.0


def test_a_calibration_is_never_dearer_than_by_the_renyi_route():
    """It was, by 1.5e-6: what is nearly a Gaussian at its best order needed no more than that."""

    def trees(scale):
        return ac.TreeAggregation(scale, 100, "laplace")

    both, renyi = (ac.calibrate(trees, epsilon=1.0, delta=1e-6, method=each) for each in ("auto", "renyi"))
    assert both <= renyi


@pytest.mark.audit
def test_sums_of_likelihood_ratios_name_the_time_that_they_take():
    run = 100 * ac.RandomAllocation(G(6.2), 1000, 2)
    with pytest.raises(ac.OutOfPatience, match=r"likelihood ratios would take about .* the whole price") as refusal:
        ac.delta(run, 2.0, method="tight", tolerance=1e-3)
    wide = named(refusal.value, "tolerance")
    assert ac.delta(run, 2.0, method="tight", tolerance=wide).method == "tight"


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (5 * ac.SparseVector(20.0, 40.0, 2, threshold_noise="gaussian"), "SparseVector is"),
        (ac.Selection(ac.PureDP(0.3), ac.Geometric(10.0)) + 10 * G(9.0), "Selection is"),
        (40 * ac.PermuteAndFlip(2.0), "PermuteAndFlip is"),
        (5 * ac.ReportNoisyMax(3.0, "laplace"), "ReportNoisyMax is"),
        (ac.SparseVector(10.0, 20.0, queries=1), "SparseVector is"),
        pytest.param(
            ac.TruncatedPoissonGaussian(1.0, 0.1, 30, 3), "TruncatedPoissonGaussian is", marks=pytest.mark.audit
        ),
        (5 * ac.PoissonSubsampled(ac.ReportNoisyMax(3.0, "laplace"), 0.5), "ReportNoisyMax is"),
        (20 * ac.PermuteAndFlip(0.5) + 5 * ac.ReportNoisyMax(3.0, "laplace"), "PermuteAndFlip and ReportNoisyMax are"),
        (ac.PermuteAndFlip(3.35), None),
        (10 * G(9.0), None),
    ],
)
def test_a_guarantee_names_what_is_known_between_two_bounds_only(run, reason):
    for price in (tight(run, 1e-5), ac.epsilon(run, 1e-5)):
        wide = price.epsilon - price.lower > 0.01 * price.epsilon
        assert wide == (reason is not None)
        assert ("known between two bounds only" in str(price)) == wide
        assert reason is None or f"{reason} known between two bounds only" in price.source


def test_a_delta_names_what_is_known_between_two_bounds_only():
    run = 3 * ac.PermuteAndFlip(3.35) + ac.ReportNoisyMax(3.0, "laplace")
    for method in ("tight", "auto"):
        price = ac.delta(run, 6.0, method=method)
        assert price.delta - price.lower > 0.01 * price.delta
        assert "PermuteAndFlip and ReportNoisyMax are known between two bounds only" in str(price)


@pytest.mark.audit
@pytest.mark.parametrize("seconds", audit_after(1, [0.03, 0.003]))
def test_coarser_prices_stay_within_the_patience(seconds):
    for run in random_runs(12):
        with patience.allow_work(seconds) as work:
            found = ac.epsilon(run, 1e-6, tolerance=1e-4)
        assert found.epsilon < math.inf
        assert work.taken <= seconds


def test_what_is_likely_to_follow_is_counted():
    with patience.allow_work(1.0), pytest.raises(ac.OutOfPatience) as refusal, patience.followed_by(lambda: 3e9):
        patience.spend(2e9, "squares")
    assert refusal.value.seconds == pytest.approx(3.8)


def test_an_advice_says_when_nothing_is_known():
    def ask(tolerance):
        patience.spend(10e9, "cubes")
        return Interval(0.0, 1.0)

    def refuse():
        raise ToleranceUnreachable("as it was")

    def within(work):
        with advice.allow_with_advice(1.0, ask, 0.01):
            work()

    with pytest.raises(ac.OutOfPatience, match=r"about 10 s, .* accepted: patience = 20 at least$"):
        within(lambda: ask(0.01))
    with patience.tally_work(), pytest.raises(ToleranceUnreachable, match=r"^as it was$"):  # part of other work
        within(refuse)


def test_a_tolerance_is_named_where_it_does_with_no_more_than_the_patience():
    """What is begun or not by the patience that is left took another way with 0.1 s than with the advice's 0.3 s."""

    def ask(tolerance):
        if tolerance < 0.1 and not patience.fits(0.2e9):
            patience.spend(0.15e9, "a dear way")
        patience.spend(0.05e9 if tolerance > 0.001 else 10e9, "a cheap way")
        return Interval(0.0, 1.0)

    with pytest.raises(ac.OutOfPatience) as refusal, advice.allow_with_advice(0.1, ask, 1e-4):
        ask(1e-4)
    wide = named(refusal.value, "tolerance")
    assert wide == 1.0
    with patience.allow_work(0.1):
        ask(wide)


def test_a_patience_is_named_that_does_by_itself():
    """A price took 0.05 s where there was patience for more, and 0.2 s where there was not."""

    def ask(tolerance):
        patience.spend(0.05e9 if patience.fits(0.2e9) else 0.15e9, "one of two ways")
        return Interval(0.0, 1.0)

    with pytest.raises(ac.OutOfPatience) as refusal, advice.allow_with_advice(0.01, ask, 0.01):
        ask(0.01)
    with patience.allow_work(named(refusal.value, "patience")):
        ask(0.01)


def test_grants_are_those_of_the_patience_that_is_asked():
    """A share of what is left is the same whenever it is asked, in work of its own, and in what a refusal rehearses."""
    with patience.allow_work(4.0):
        patience.spend(1e9, "something")
        assert patience.grant("a", 0.5) == 1.5
        patience.spend(1e9, "something")
        assert patience.grant("a", 0.5) == 1.5
        assert patience.grant("b", 0.5) == 1.0
        with patience.spend_apart(0.5) as work:
            assert patience.grant("a", 0.5) == 1.5
            patience.spend(0.1e9, "more", free=1e9)
            with pytest.raises(ac.OutOfPatience):
                patience.spend(0.5e9, "too much", free=1e9)
        assert work.spent == 0.1e9
    with patience.rehearse_work(0.3, asked=4.0):
        assert patience.grant("a", 0.5) == 2.0
    assert patience.grant("a", 0.5) == patience.PATIENCE
