"""Fourier inversion of composed Gaussians: each bound against its definition in high precision, and the prices."""

import math
from functools import partial
from itertools import pairwise, product

import mpmath as mp
import numpy as np
import pytest

import accountant as ac
from accountant.adjacency import DIRECTIONS
from accountant.errors import OutOfPatience
from accountant.events.composition import Composition
from accountant.patience import allow_work
from accountant.tight import inversion, inversion_plan, normal_limit
from accountant.tight.directed_run import Question
from accountant.tight.inversion import Inversion, prepare_inversion
from accountant.tight.inversion_falls import RATIO, fall_of_run
from accountant.tight.inversion_kernels import (
    Line,
    add_transforms,
    nodes_of,
    scale_spectrum,
    transform_run,
)
from accountant.tight.inversion_plan import plan_inversion, rows_of
from accountant.tight.loss_composition import settle_on_grids
from tests.cases import audit_after


def invert(run, question):
    """What inversion says where a grid is not likely to be quicker, else None."""
    attempt = prepare_inversion(run, question)
    return attempt.solve() if attempt is not None and attempt.quick else None


SAMPLED = ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01)
MILLIARD = 10**9 * ac.PoissonSubsampled(ac.Gaussian(1.0), 1e-5)

PAIRS = [
    # mu, rate, tilt
    (1.0, 0.01, 3.1),
    (1 / 0.6, 0.256, 0.19),
    (0.05, 0.25, 3.9),
    (0.2, 1e-3, 175.0),
    (1 / 0.7, 1e-3, 3.6),
    (1.0, 1e-5, 10.7),
    (0.5, 0.999, 1.5),
]
ORDERS = [(1 + tilt, 1.0) for *_, tilt in PAIRS], [(-tilt, -1.0) for *_, tilt in PAIRS]
SIDES = [(pair, order) for orders in ORDERS for pair, order in zip(PAIRS, orders, strict=True)]


def sampled(sigma, rate):
    return ac.PoissonSubsampled(ac.Gaussian(sigma), rate)


def loss(mu, rate, y):
    return mp.log1p(rate * mp.expm1(mu * y - mu * mu / 2))


def transform(mu, rate, a):
    """E e^{a L} by the definition."""
    mu, rate, a = mp.mpf(mu), mp.mpf(rate), mp.mpmathify(a)
    ends = mp.linspace(min(0, mp.re(a) * mu) - 12, max(0, mp.re(a) * mu) + 12, 13)
    return mp.quad(lambda y: mp.npdf(y) * mp.exp(a * loss(mu, rate, y)), ends, maxdegree=7)


def log_mean(mu, rate, alpha):
    with mp.workdps(30):
        return float(mp.log(transform(mu, rate, alpha))) + 1e-9


# --- the parts -----------------------------------------------------------------------------------------------


@pytest.mark.audit
@pytest.mark.parametrize(("pair", "order"), audit_after(7, SIDES[::2] + SIDES[1::2]), ids=str)
def test_transforms_err_by_no_more_than_they_say(pair, order):
    (mu, rate, tilt), (alpha, turn) = pair, order
    line = Line(alpha, turn, 4.0 / (1 + 1 / tilt) if rate < 0.9 else 0.8, 12)
    nodes = nodes_of(mu, rate, line, log_mean(mu, rate, alpha), math.log(1e4))
    total = np.zeros((3, line.last + 1))
    assert add_transforms(mu, rate, 1.0, line, nodes, np.empty((5, nodes.size)), total)
    with mp.workdps(20):
        for k in (1, 12):
            true = mp.log(transform(mu, rate, mp.mpc(alpha, turn * k * line.step)))
            found = mp.mpc(total[0, k], total[1, k])
            assert abs(found - true) <= total[2, k] < 1e-12 * math.exp(total[0, 0] - total[0, k]) + 1e-10


@pytest.mark.audit
def test_copies_multiply_the_logarithm_and_its_error():
    line = Line(4.1, 1.0, 1.0, 30)
    rows = np.array([[1.0, 0.01, 10_000.0, log_mean(1.0, 0.01, 4.1)], [0.5, 0.1, 7.0, log_mean(0.5, 0.1, 4.1)]])
    total = np.empty((3, 31))
    assert transform_run(rows, 0.3, line, -math.inf, math.inf, total)[:3] == (True, 30, 0.0)
    with mp.workdps(30):
        for k in (0, 30):
            a = mp.mpc(4.1, k)
            true = (
                10_000 * mp.log(transform(1.0, 0.01, a))
                + 7 * mp.log(transform(0.5, 0.1, a))
                + mp.mpf(0.3) * a * (a - 1)
            )
            assert abs(mp.mpf(total[0, k]) - mp.re(true)) <= total[2, k] < 1e-7
            turns = (total[1, k] - mp.im(true)) / (2 * mp.pi)
            assert abs(turns - mp.nint(turns)) * 2 * mp.pi <= total[2, k] + 1e-12


DISTINCT = ac.Composition([(ac.PoissonSubsampled(ac.Gaussian(1 + j / 50), 0.01), 1 + j % 3) for j in range(50)])


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    "run", [DISTINCT, DISTINCT + 3 * ac.Gaussian(9.0), 400 * SAMPLED + DISTINCT], ids=["", "+", "*"]
)
def test_frequencies_that_are_left_out_are_as_small_as_is_said(run, direction):
    """Against all of them."""
    plan = plan_inversion(run, Question(1e-6, 0.0, 0.01))
    way = plan.way(direction)
    whole, part = np.empty((3, way.line.last + 1)), np.empty((3, way.line.last + 1))
    full = transform_run(way.rows, plan.slope, way.line, -math.inf, math.inf, whole)
    some = transform_run(way.rows, plan.slope, way.line, way.log_least, math.inf, part)
    assert full[:3] == (True, way.line.last, 0.0)
    assert some.known
    assert 1 < some.last < full.last
    assert some.work < full.work
    kept = slice(0, some.last + 1)
    assert np.all(np.abs(whole[0, kept] - part[0, kept]) <= whole[2, kept] + part[2, kept])
    z = plan.tilt + 1j * way.line.step * np.arange(some.last + 1, full.last + 1)
    left_out = np.sum(np.exp(whole[0, some.last + 1 :] - whole[0, 0]) / np.abs(z * (z + 1)))
    assert left_out <= some.left_out <= math.exp(way.log_least) * (full.last - some.last)


def test_what_is_left_out_counts_for_more_where_its_unit_is_not_known(monkeypatch):
    """Bounds are relative to M(t), values to what was computed of it."""
    plan = plan_inversion(DISTINCT, Question(1e-6, 0.0, 0.01))
    way = plan.way("remove")
    true, errors = inversion.transform_run, []

    def poor(*args, first_error, left_out):
        found = true(*args)
        args[-1][2, 0] = first_error
        return found._replace(left_out=left_out)

    for first_error, left_out in ((0.0, 0.0), (0.0, 1e9), (3.0, 0.0), (3.0, 1e9)):
        monkeypatch.setattr(inversion, "transform_run", partial(poor, first_error=first_error, left_out=left_out))
        errors.append(Inversion(plan, way).error)
    unit = way.line.step / math.pi * 1e9
    assert unit < errors[1] - errors[0] < 1.02 * unit
    assert math.exp(3.0) * unit < errors[3] - errors[2] < 1.02 * math.exp(3.0) * unit


def test_no_more_work_is_done_than_is_allowed():
    plan = plan_inversion(DISTINCT, Question(1e-6, 0.0, 0.01))
    way = plan.way("remove")
    total = np.empty((3, way.line.last + 1))
    whole = transform_run(way.rows, plan.slope, way.line, way.log_least, math.inf, total)
    part = transform_run(way.rows, plan.slope, way.line, way.log_least, whole.work / 2, total)
    assert not part.known
    assert whole.work / 2 < part.work < 0.8 * whole.work


@pytest.mark.each_run(2)
@pytest.mark.parametrize(("pair", "order"), SIDES, ids=str)
def test_transforms_fall_as_they_are_said_to(pair, order):
    """The bound beyond a frequency against |E_f e^{ixL}| at many frequencies beyond it."""
    (mu, rate, tilt), (alpha, _) = pair, order
    falls, first = np.empty(inversion_plan.FALLS), 0.1 * tilt
    fall_of_run(np.array([[mu, rate, 1.0, log_mean(mu, rate, alpha)]]), 0.0, alpha, first, 1e9, falls, np.empty(1))
    assert (np.diff(falls) >= 0).all()
    y, width = np.linspace(min(0.0, alpha * mu) - 10, max(0.0, alpha * mu) + 10, 100_001, retstep=True)
    losses = np.log1p(rate * np.expm1(mu * y - mu * mu / 2))
    logs = alpha * losses - y * y / 2
    density = np.exp(logs - logs.max())
    density /= density.sum()
    slope = mu * rate * np.exp(mu * y - mu * mu / 2 - losses)
    dice = np.random.default_rng(0)
    seen = 0
    for m in range(0, falls.size - 1, 3):
        places = first * RATIO ** (m + dice.uniform(0, 3, 2))
        places = places[places * slope.max() * width < 1.0]  # what the sum resolves
        for x in places:
            actual = -math.log(abs(np.sum(density * np.exp(1j * x * losses))) + 1e-300)
            assert falls[m] <= actual + 1e-9
            seen += 1
    assert seen > 10
    assert falls[-1] > 0.01


def test_what_the_rule_adds_is_bounded():
    """Against the sum itself, for a Gaussian, whose delta is known at every epsilon."""
    run = Composition([(ac.Gaussian(2.0), 9)])
    plan = plan_inversion(run, Question(1e-5, 0.0, 0.01))
    assert plan.log_wrapped(plan.guess.start) < math.log(1e-5 * 1e-4)
    assert 1 + plan.tilt - 1 == plan.tilt  # the order 1 + t is not rounded
    with mp.workdps(40):
        mu, t = mp.mpf(1.5), mp.mpf(plan.tilt)

        def delta(e):
            return mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)

        for period, epsilon in product((2.0, 4.0, plan.period), (0.0, 1.0, 6.0)):
            at = [mp.mpf(m) * period for m in range(-40, 41) if m]
            added = mp.fsum(mp.exp(t * shift) * delta(epsilon + shift) for shift in at)
            assert mp.log(added) <= plan._replace(period=period).log_wrapped(epsilon)


# --- prices that are known -----------------------------------------------------------------------------------


def gaussian_delta(mu, e):
    return mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)


@pytest.mark.audit
@pytest.mark.parametrize("epsilon", audit_after(2, [0.5, 3.0, 0.0]))
@pytest.mark.parametrize(("sigma", "rate", "mu"), [(1.0, 0.2, 1.0), (0.7, 0.01, 0.5), (3.0, 0.9, 0.3)])
def test_a_sampled_release_and_a_gaussian(sigma, rate, mu, epsilon):
    """Given the first release's loss the rest is a Gaussian: one integral."""
    run = ac.Composition([(sampled(sigma, rate), 1), (ac.GaussianDP(mu), 1)])
    found = invert(run, Question(None, epsilon, 1e-4))
    assert found is not None
    with mp.workdps(25):
        step, rate, mu = 1 / mp.mpf(sigma), mp.mpf(rate), mp.mpf(mu)
        ends = mp.linspace(-12, 16, 15)
        removed = mp.quad(
            lambda y: mp.npdf(y) * mp.exp(loss(step, rate, y)) * gaussian_delta(mu, epsilon - loss(step, rate, y)), ends
        )
        added = mp.quad(lambda y: mp.npdf(y) * gaussian_delta(mu, epsilon + loss(step, rate, y)), ends)
        true = max(removed, added)
    assert found.lower <= true <= found.upper
    assert found.upper - found.lower <= 1e-4 * found.upper
    back = invert(run, Question(float(true), 0.0, 1e-3))
    if epsilon > 0.0 and back is not None:
        assert back.lower <= epsilon * (1 + 1e-12)
        assert epsilon * (1 - 1e-12) <= back.upper <= epsilon * 1.001


@pytest.mark.parametrize("mu", [1e-3, 0.3, 2.0, 20.0])
@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-40])
def test_gaussians_alone(mu, delta):
    """Where nothing is sampled the price has a closed form."""
    found = invert(1 * ac.GaussianDP(mu), Question(delta, 0.0, 1e-2))
    known = ac.epsilon(ac.GaussianDP(mu), delta, method="tight")
    if found is None:  # at tilts that are out of range; elsewhere it must be found
        assert mu == 1e-3 or delta == 0.3
        return
    assert found.lower <= known.epsilon * (1 + 1e-12)
    assert known.lower * (1 - 1e-12) <= found.upper
    assert found.upper - found.lower <= 1e-2 * max(found.upper, 0.01 * mu)


def test_nearly_no_sampling_is_as_none():
    nearly, whole = 30 * sampled(3.0, 1 - 1e-9), 30 * ac.Gaussian(3.0)
    found, known = invert(nearly, Question(1e-6, 0.0, 1e-3)), ac.epsilon(whole, 1e-6, method="tight")
    assert found.lower <= known.epsilon
    assert found.upper == pytest.approx(known.epsilon, rel=1e-4)
    rare = invert(ac.Composition([(sampled(3.0, 1e-12), 5), (ac.Gaussian(3.0), 30)]), Question(1e-6, 0.0, 1e-3))
    assert rare.lower <= known.epsilon <= rare.upper * (1 + 1e-9)


def test_a_milliard_of_steps():
    """By an integral in 30 digits of the same transform, which no other part of this file shares."""
    found = ac.epsilon(MILLIARD, 1e-5, method="tight")
    assert found.epsilon - found.lower <= 0.01 * found.epsilon
    with mp.workdps(30):
        t = mp.mpf(10)

        def density(s):
            z = mp.mpc(t, s)
            return mp.re(transform(1.0, 1e-5, 1 + z) ** (10**9) * mp.exp(-z * found.epsilon) / (z * (z + 1)))

        # the integrand is analytic and falls as e^{-s^2/12}: a trapezoidal rule
        delta = (density(0) / 2 + mp.fsum(density(k * mp.mpf("1.4")) for k in range(1, 14))) * mp.mpf("1.4") / mp.pi
        assert 1e-5 * (1 - 1e-2) <= delta <= 1e-5 * (1 + 1e-9)


def random_run(dice):
    run = ac.Composition()
    for _ in range(int(dice.integers(1, 4))):
        sigma, rate = 10 ** dice.uniform(-0.2, 1.0), 10 ** dice.uniform(-3, -0.3)
        run = run + int(10 ** dice.uniform(1.5, 4)) * sampled(sigma, rate)
    return run + ac.Gaussian(30.0) if dice.random() < 0.3 else run


def test_random_runs_against_grids():
    """Two certificates of one number that share nothing but the events."""
    dice, compared = np.random.default_rng(5), 0
    for _ in range(25):
        run, delta = random_run(dice), 10 ** dice.uniform(-12, -2)
        found = invert(run, Question(delta, 0.0, 0.01))
        try:
            known = settle_on_grids(run, Question(delta, 0.0, 0.1), None, DIRECTIONS)
        except ac.ToleranceUnreachable:
            continue
        if found is None:
            continue
        compared += 1
        assert found.lower <= known.upper, run
        assert known.lower <= found.upper, run
        at = invert(run, Question(None, found.upper, 0.1))
        if at is not None:
            assert at.lower <= delta * (1 + 1e-9), run
            assert at.upper >= delta * 0.9, run
    assert compared >= 12


def test_more_releases_cost_more():
    prices = [invert(count * SAMPLED, Question(1e-5, 0.0, 0.01)) for count in (500, 1000, 1010, 5000, 20_000)]
    assert all(first.lower < second.upper for first, second in pairwise(prices))
    assert all(first.upper < second.lower for first, second in pairwise(prices[2:]))


@pytest.mark.parametrize("tolerance", [0.3, 0.01, 1e-4])
def test_narrower_intervals_are_inside_up_to_their_ends(tolerance):
    wide, narrow = (invert(1000 * SAMPLED, Question(1e-5, 0.0, width)) for width in (tolerance, 1e-5))
    assert wide.upper - wide.lower <= tolerance * wide.upper
    assert narrow.upper - narrow.lower <= 1e-5 * narrow.upper
    assert max(wide.lower, narrow.lower) <= min(wide.upper, narrow.upper)


# --- which runs ----------------------------------------------------------------------------------------------


class Dearer(ac.Gaussian):
    """A Gaussian that says it costs more."""

    def _curve(self, orders):
        return 2 * super()._curve(orders)


def test_only_what_is_known_to_be_gaussian():
    assert rows_of(3 * SAMPLED + ac.GNMax(5.0)).slope == pytest.approx(1 / 25)
    assert rows_of(3 * ac.PoissonSubsampled(ac.ClippedSum(2.0), 0.1)).sampled.tolist() == [[0.5, 0.1, 3.0]]
    replaced = ac.PoissonSubsampled(ac.ClippedSum(2.0, adjacency="replace"), 0.1)
    for event in (replaced, ac.Laplace(1.0), ac.PoissonSubsampled(ac.Laplace(1.0), 0.1), Dearer(2.0)):
        assert rows_of(1 * event) is None
        assert invert(1 * event, Question(1e-5, 0.0, 0.1)) is None
    assert rows_of(1 * ac.PoissonSubsampled(Dearer(2.0), 0.1)) is None
    assert rows_of(ac.PoissonSubsampled(ac.Gaussian(1.0), 0.0) + ac.Gaussian(1.0)).sampled.size == 0


def test_few_steps_are_left_to_grids():
    """Their transforms do not fall."""
    assert invert(2 * SAMPLED, Question(1e-5, 0.0, 0.01)) is None
    assert ac.epsilon(2 * SAMPLED, 1e-5, method="tight").epsilon > 0


def test_where_no_grid_does_inversion_takes_its_time(monkeypatch):
    quick = ac.epsilon(MILLIARD, 1e-5, method="tight")
    monkeypatch.setattr(normal_limit, "MANY", math.inf)
    monkeypatch.setattr(inversion, "MOST_WORK", 0.0)
    monkeypatch.setattr(inversion, "MOST_ROW_WORK", 0.0)
    assert invert(MILLIARD, Question(1e-5, 0.0, 0.01)) is None
    assert ac.epsilon(MILLIARD, 1e-5, method="tight") == quick


@pytest.mark.parametrize(
    ("sigma", "rate", "count", "delta", "epsilon"),
    [(0.75, 1e-6, 10**6, 1e-9, (0.01036, 0.01038)), (0.6, 1e-5, 10**4, 1e-8, (0.1379, 0.1385))],
    ids=str,
)
def test_many_releases_at_tiny_rates(sigma, rate, count, delta, epsilon):
    """Rényi's price of the first is 0.19, and the best tilt is far from a saddle point: one large loss decides.

    The first epsilon was found by a plain tilted transform on grids of 4e-7, 2e-7 and 1e-7, and extrapolated; in the
    second, the price is that of the one large loss but for a few percent.
    """
    found = ac.epsilon(count * sampled(sigma, rate), delta, method="tight", tolerance=0.01)
    assert epsilon[0] < found.lower < found.epsilon < epsilon[1]
    assert found.epsilon - found.lower <= 0.01 * found.epsilon
    mu = 1 / sigma
    y = np.linspace(-3, 40, 400_001)
    losses = np.logaddexp(math.log1p(-rate), math.log(rate) + mu * y - mu * mu / 2)
    # under P, which has one more record, the density is e^losses times that of N(0,1)
    density = np.exp(losses - y * y / 2) / math.sqrt(2 * math.pi) * (y[1] - y[0])
    one = count * np.sum(density * np.maximum(-np.expm1(found.epsilon - losses), 0.0))
    assert (0.9 if sigma == 0.6 else 0.0) * delta < one < delta


@pytest.mark.parametrize("route", ["quick", "slow"])
def test_a_price_far_below_the_rényi_route_is_found_by_trying_again(route, monkeypatch):
    """Five or more times smaller; at the Rényi price the value of the integral is no more than its error."""
    if route == "slow":
        monkeypatch.setattr(inversion, "MOST_WORK", 0.0)
        monkeypatch.setattr(inversion, "MOST_ROW_WORK", 0.0)
    run = 200 * sampled(2.2, 0.0044)
    for delta in (1e-12, 1e-8):
        found = prepare_inversion(run, Question(delta, 0.0, 1e-3)).solve()
        assert found is not None
        known = settle_on_grids(run, Question(delta, 0.0, 1e-3), None, DIRECTIONS)
        assert max(found.lower, known.lower) <= min(found.upper, known.upper)
        at = prepare_inversion(run, Question(None, found.upper, 0.01)).solve()
        assert at is not None
        assert at.lower <= delta <= at.upper * 1.01
        assert ac.epsilon(run, delta, method="tight", tolerance=1e-3).epsilon <= known.upper * 1.001


def test_its_work_is_counted_too():
    with pytest.raises(OutOfPatience, match="characteristic function would take about"):
        ac.epsilon(1000 * SAMPLED, 1e-5, method="tight", patience=1e-5)


@pytest.mark.audit
def test_transforms_that_are_too_small_are_bounded():
    """At high frequencies nothing but a bound on the size is known."""
    line = Line(2.5, 1.0, 2.0, 12)
    nodes = nodes_of(0.5, 0.999, line, log_mean(0.5, 0.999, 2.5), 0.0)
    total = np.zeros((3, 13))
    assert add_transforms(0.5, 0.999, 1.0, line, nodes, np.empty((5, nodes.size)), total)
    assert math.isinf(total[2, 12])
    with mp.workdps(40):
        assert mp.log(abs(transform(0.5, 0.999, mp.mpc(2.5, 24)))) <= total[0, 12] < -20
    again = total.copy()
    assert add_transforms(0.5, 0.999, 1.0, line, nodes, np.empty((5, nodes.size)), again)
    assert again[0, 12] == pytest.approx(2 * total[0, 12])
    scaled = again.copy()
    whole, wrong = scale_spectrum(1.5, 2.0, scaled)
    assert scaled[0, 12] == scaled[1, 12] == 0.0
    size = math.exp(again[0, 12] - again[0, 0]) / abs((1.5 + 24j) * (2.5 + 24j))
    assert wrong >= size > 0.0
    assert whole < 1.0


def test_a_poor_bound_on_a_mean_costs_points_only():
    plan = plan_inversion(1000 * SAMPLED, Question(1e-5, 0.0, 0.01))
    way = plan.way("remove")
    rows = plan.rows.copy()
    rows[:, 3] = 400.0
    plain, finer = Inversion(plan, way), Inversion(plan, way._replace(rows=rows, work=math.inf))
    assert plain.known
    assert finer.known
    assert finer.log_scale == pytest.approx(plain.log_scale, abs=1e-10)


@pytest.mark.audit
def test_a_transform_of_which_nothing_is_known_is_left_to_grids():
    """At a delta of 1e-323 the error of log M was 1e109, and its exponential in no float."""
    rare = ac.PoissonSubsampled(ac.Gaussian(33.45507028829363), 0.006547171150607069)
    run = 13 * ac.PoissonSubsampled(ac.Gaussian(52.078051917684306), 0.18357612325031789) + 11442 * rare
    found = ac.delta(run, 9.742616187514203)
    assert found.delta == 5e-324
    with pytest.raises(OutOfPatience):
        ac.delta(run, 9.742616187514203, method="tight")


def test_many_kinds_are_inverted_at_once():
    """A fifth of 300 kinds misjudged the tail of all: the period was too short, and grids took twenty times as long."""
    dice = np.random.default_rng(300)
    numbers = zip(dice.uniform(0.8, 3, 300), 10 ** dice.uniform(-3, -1.5, 300), dice.integers(1, 5, 300), strict=True)
    run = ac.Composition(
        [(ac.PoissonSubsampled(ac.Gaussian(float(s)), float(rate)), int(count)) for s, rate, count in numbers]
    )
    for tolerance in (0.01, 1e-3):
        found = invert(run, Question(1e-5, 0.0, tolerance))
        assert found is not None
        assert found.upper - found.lower <= tolerance * found.upper
        with allow_work(0.5) as work:
            price = ac.epsilon(run, 1e-5, method="tight", tolerance=tolerance)
        assert work.taken < 0.35
        assert found.lower <= price.epsilon
        assert price.lower <= found.upper
