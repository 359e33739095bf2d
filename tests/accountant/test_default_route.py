"""The route that is taken unless one is named: the certified one where it is to be had, and never above Rényi."""

import math
from contextlib import suppress

import mpmath as mp
import numpy as np
import pytest

import accountant as ac
from accountant import price
from accountant.calibration import solve_near
from accountant.renyi.route import _best_order
from accountant.report.html import report

given = pytest.importorskip("hypothesis").given
st = pytest.importorskip("hypothesis.strategies")
settings = pytest.importorskip("hypothesis").settings

SAMPLED = ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01)
KNOWN_BY_A_BOUND = ac.ZeroConcentratedDP(0.1)
MANY = 10**9 * ac.PoissonSubsampled(ac.Laplace(1.0), 1e-5)


def renyi(run, delta, **more):
    return ac.epsilon(run, delta, method="renyi", **more)


# --- which route -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "route"),
    [
        (3 * ac.Gaussian(2.0), "tight"),
        (100 * SAMPLED, "tight"),
        (20 * ac.NoisyScreening(30.0, 20.0, 50) + 4 * ac.GNMax(30.0), "tight"),
        (ac.Composition(), "tight"),
        (2 * KNOWN_BY_A_BOUND, "renyi"),
        (KNOWN_BY_A_BOUND + ac.Gaussian(2.0), "tight"),
        (30 * ac.Collision(1.0, 2, 8), "tight"),
        (ac.ApproximateDP(1.0, 1e-6) + ac.Gaussian(2.0), "tight"),  # its Rényi curve is infinite
    ],
    ids=str,
)
def test_the_default_is_auto_and_says_which_route_it_was(run, route):
    for ask, at in ((ac.epsilon, 1e-5), (ac.delta, 0.3)):
        found = ask(run, at)
        assert found == ask(run, at, method="auto")
        assert found.method == route
        assert f"({route}, " in str(found)
        assert route in found.heading()
    assert ac.curve(run, [0.3]).method == route


def test_a_named_conversion_is_a_price_by_the_only_route_that_has_conversions():
    for ask, at in ((ac.epsilon, 1e-5), (ac.delta, 0.7)):
        for rule in ("classic", "improved", "optimal"):
            assert ask(SAMPLED, at, conversion=rule) == ask(SAMPLED, at, method="renyi", conversion=rule)
        assert ask(SAMPLED, at, method="auto", conversion="classic").method == "tight"
        weak, alone = (ask(KNOWN_BY_A_BOUND, at, method=way, conversion="classic") for way in ("auto", None))
        assert (weak.epsilon, weak.delta, weak.order) == (alone.epsilon, alone.delta, alone.order)
        assert ask(SAMPLED, at, method="tight", conversion="classic") == ask(SAMPLED, at, method="tight")
    assert ac.curve(SAMPLED, [0.7], conversion="classic").method == "renyi"
    sigma = ac.calibrate(ac.Gaussian, 1.0, 1e-5, conversion="classic")
    assert sigma == ac.calibrate(ac.Gaussian, 1.0, 1e-5, method="renyi", conversion="classic")
    for call in (ac.epsilon, ac.delta, ac.curve):
        with pytest.raises(ac.ParameterError, match="conversion = 'exact'; accepted: improved, classic, optimal"):
            call(SAMPLED, [0.5] if call is ac.curve else 0.5, conversion="exact")


def test_a_sweep_keeps_the_renyi_route():
    grid = {"sigma": [2.0, 3.0]}
    for how, method in (({}, "renyi"), ({"method": "tight"}, "tight"), ({"conversion": "optimal"}, None)):
        table = ac.sweep(ac.Gaussian, grid, delta=1e-5, n_jobs=1, **how)
        prices = [ac.epsilon(ac.Gaussian(sigma), 1e-5, **(how or {"method": method})).epsilon for sigma in (2.0, 3.0)]
        # the search over orders begins elsewhere, and ends where it promises less than 1e-14 of the value
        assert table["epsilon"].tolist() == pytest.approx(prices, rel=1e-13)


def test_a_report_quotes_the_certified_price():
    plan = ac.load_plan("dp-sgd")
    price = ac.epsilon(plan.composition, 1e-5)
    assert price.method == "tight"
    assert f"{price}." in report(plan, 1e-5)


# --- what it says ----------------------------------------------------------------------------------------

EVENTS = st.one_of(
    st.builds(ac.Gaussian, st.floats(0.3, 30.0)),
    st.builds(ac.Laplace, st.floats(0.3, 30.0)),
    st.builds(ac.RandomizedResponse, st.floats(0.01, 3.0)),
    st.builds(lambda s, q: ac.PoissonSubsampled(ac.Gaussian(s), q), st.floats(0.5, 9.0), st.floats(1e-3, 0.5)),
    st.builds(ac.ZeroConcentratedDP, st.floats(1e-3, 0.5)),
    st.builds(lambda e: ac.ApproximateDP(e, 1e-7), st.floats(0.01, 1.0)),
    st.builds(ac.PureDP, st.floats(0.01, 3.0)),
)


@pytest.mark.audit
@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(EVENTS, st.integers(1, 40)), min_size=1, max_size=3),
    st.floats(-5.0, -2.0),
    st.sampled_from([1.0, 0.1, 0.01]),
)
def test_never_above_either_route_and_with_the_certified_lower_end(parts, log_delta, tolerance):
    run, delta = ac.Composition(parts), 10**log_delta
    prices = {}
    for method in ("renyi", "tight"):
        with suppress(ac.NoGuarantee, ac.ProfileUnavailable, ac.ToleranceUnreachable):
            prices[method] = ac.epsilon(run, delta, method=method, tolerance=tolerance)
    if not prices:  # a bound on the Rényi curve beside an infinite one
        with pytest.raises(
            ac.NoGuarantee, match=r"infinite at every order, and ZeroConcentratedDP .* accepted: runs that"
        ):
            ac.epsilon(run, delta, tolerance=tolerance)
        return
    found = ac.epsilon(run, delta, tolerance=tolerance)
    bounds = [price.epsilon for price in prices.values()]
    if "tight" in prices:
        assert found.lower == prices["tight"].lower, "beside the upper end, whichever route that is from"
        back = ac.delta(run, found.epsilon, tolerance=tolerance)
        assert (back.lower or 0.0) <= delta * (1 + 1e-9)
    assert found.epsilon <= min(bounds) * (1 + 1e-9), "an inverted closed form is as near as that to its limit"
    assert found.lower is None or found.lower <= found.epsilon


@pytest.mark.parametrize("mu", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_holds_the_exact_epsilon_of_gaussian_noise(mu, delta):
    """Balle & Wang 2018, Thm 8, in 40 digits, at the ends."""
    found = ac.epsilon(4 * ac.Gaussian(2 / mu), delta)

    def exact(epsilon):
        with mp.workdps(40):
            e, m = mp.mpf(epsilon), mp.mpf(mu)
            return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)

    assert exact(found.epsilon) <= delta * (1 + mp.mpf("1e-15"))
    assert found.lower == 0.0 or exact(found.lower) >= delta * (1 - mp.mpf("1e-9"))
    assert found.epsilon <= renyi(4 * ac.Gaussian(2 / mu), delta).epsilon


def test_the_renyi_bound_is_taken_where_it_is_smaller():
    run = 1 * ac.PureDP(50.0) + 1 * ac.Gaussian(1e4)
    tight = ac.epsilon(run, 1e-5, method="tight", tolerance=1.0)
    bound = renyi(run, 1e-5)
    found = ac.epsilon(run, 1e-5, tolerance=1.0)
    assert found.epsilon == min(tight.epsilon, bound.epsilon)
    wide = 40 * ac.NoisyScreening(3.0, 2.0, 5) + 20 * ac.NoisyScreening(9.0, 2.0, 5)
    found, tight = (ac.epsilon(wide, 1e-3, method=method, tolerance=1.0) for method in ("auto", "tight"))
    assert found.epsilon == min(tight.epsilon, renyi(wide, 1e-3).epsilon)
    assert found.lower == tight.lower
    few = 2 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.9)  # a grid that coarse is worse than the curve
    at = ac.delta(few, 1.0, tolerance=1.0)
    ends = [ac.delta(few, 1.0, method=method, tolerance=1.0) for method in ("renyi", "tight")]
    assert at.delta == min(each.delta for each in ends)
    assert at.lower == ends[1].lower


def test_the_renyi_bound_is_taken_where_the_pure_limit_stands_for_an_exact_price():
    bits = ac.RandomizedResponse(2.1e-6, 467, adjacency=ac.Adjacency.REPLACE)
    for tolerance in (0.1, 0.03, 1e-3):
        found = ac.epsilon(bits, 1e-144, tolerance=tolerance)
        assert found.epsilon <= renyi(bits, 1e-144).epsilon
        assert found.lower <= ac.epsilon(bits, 1e-144, method="tight", tolerance=1e-3).lower <= found.epsilon


def test_a_renyi_price_says_its_certified_lower_end():
    price = ac.Guarantee(2.0, 1e-5, ac.Adjacency.ADD_REMOVE, "renyi", "improved", 5.0, lower=1.99)
    assert str(price).endswith("(renyi, improved conversion, order 5, certified from below at 1.99)")
    assert price.heading() == "epsilon = 2 at delta = 1e-05 (renyi; epsilon is at least 1.99)"


def test_one_release_that_dwarfs_the_rest_bounds_from_below_what_has_no_tight_price():
    run = 1 * ac.PureDP(50.0) + 1 * ac.ZeroConcentratedDP(1e-9)
    for patience in (1e-3, 0.01, 5.0):  # what little patience leaves is never above the Rényi price
        found = ac.epsilon(run, 1e-5, patience=patience)
        assert found.epsilon <= ac.epsilon(run, 1e-5, method="renyi").epsilon
    assert 0.99 * found.epsilon <= found.lower <= found.epsilon


@pytest.mark.parametrize("run", [1 * KNOWN_BY_A_BOUND, 2 * KNOWN_BY_A_BOUND, 3 * ac.ZeroConcentratedDP(0.02, 0.1)])
def test_what_zcdp_alone_costs_from_below_is_gaussian_noise(run):
    """Gaussian noise with mu^2 = 2 rho is rho-zCDP (Bun & Steinke 2016, Prop. 1.6): no smaller price holds for all."""
    noise = ac.GaussianDP(math.sqrt(2 * sum(event.rho * count for event, count in run)))
    for ask, at, name in ((ac.epsilon, 1e-5, "epsilon"), (ac.delta, 0.7, "delta")):
        found, true, bound = ask(run, at), ask(noise, at), ask(run, at, method="renyi")
        assert found.method == "renyi"
        assert getattr(found, name) == getattr(bound, name)
        assert bound.lower is None
        assert found.lower <= getattr(true, name) <= getattr(found, name)
        assert found.lower == pytest.approx(true.lower, rel=1e-9)
        assert found.source == "ZeroConcentratedDP is known between two bounds only"
    curve = ac.curve(run, [0.7, 0.0, 40.0])
    assert curve.method == "renyi"
    assert curve.lower[0] == pytest.approx(ac.delta(run, 0.7).lower, rel=1e-9)
    assert np.all(curve.lower <= curve.upper)
    assert not ac.curve(run, [0.7], method="renyi").lower.any()


def test_nothing_from_below_where_nothing_may_be_gaussian_noise():
    for run in (ac.ZeroConcentratedDP(0.0, 0.1), ac.Selection(KNOWN_BY_A_BOUND, ac.Geometric(5.0))):
        assert ac.epsilon(run, 1e-5).lower is None
        assert ac.curve(run, [0.7]).lower.tolist() == [0.0]


WIDE = (
    ac.Gaussian(25.14) + ac.GaussianDP(0.00266) + 3 * ac.DiscreteLaplace(7.874, 3) + 2 * ac.PureDP(0.1446)
    + 2 * ac.RandomizedResponse(0.0244) + ac.Laplace(1000.0)
)  # fmt: skip
"""A run whose interval rounding keeps wider than 2e-6."""


@pytest.mark.audit
def test_a_wider_interval_is_taken_where_it_ends_below_the_renyi_price():
    with pytest.raises(ac.ToleranceUnreachable, match="certified so far") as refusal:
        ac.epsilon(WIDE, 0.0185, method="tight", tolerance=2e-6)
    found, narrow = ac.epsilon(WIDE, 0.0185, tolerance=2e-6), ac.epsilon(WIDE, 0.0185, tolerance=1e-4)
    lower, upper = refusal.value.found
    assert lower <= found.epsilon <= upper
    assert (found.method, found.source) == ("tight", narrow.source)
    assert found.lower <= narrow.epsilon
    assert narrow.lower <= found.epsilon < ac.epsilon(WIDE, 0.0185, method="renyi").epsilon
    delta, exact = ac.delta(WIDE, 0.5, tolerance=1e-6), ac.delta(WIDE, 0.5, tolerance=1e-3)
    assert delta.method == "tight"
    assert delta.lower <= exact.delta
    assert exact.lower <= delta.delta


@pytest.mark.audit
def test_what_the_tight_route_refuses_is_refused_alike_every_time():
    prices = {ac.epsilon(MANY, 1e-5, patience=patience) for patience in (1e-3, 1e-3, 1e-9)}
    assert prices == {renyi(MANY, 1e-5)}
    assert ac.delta(MANY, 5.0, patience=1e-3) == ac.delta(MANY, 5.0, method="renyi")


def test_errors():
    with pytest.raises(ac.NoGuarantee, match="delta = 0 and this run is not pure DP"):
        ac.epsilon(2 * SAMPLED, 0.0)
    with pytest.raises(ac.NoGuarantee, match="delta = 0 and this run is not pure DP"):
        ac.epsilon(KNOWN_BY_A_BOUND, 0.0)
    with pytest.raises(ac.NoGuarantee, match=r"accepted: above 0\.001, the probability of an infinite loss"):
        ac.epsilon(ac.ApproximateDP(1.0, 1e-3), 1e-6)
    assert ac.epsilon(3 * ac.Laplace(1.0), 0.0).epsilon == 3


# --- calibration -----------------------------------------------------------------------------------------


def steps(sigma):
    return 1000 * ac.PoissonSubsampled(ac.Gaussian(sigma), 0.01)


@pytest.mark.each_run(2)
@pytest.mark.parametrize(
    ("make", "rises", "options"),
    [
        (ac.Gaussian, False, {}),
        (steps, False, {}),
        (lambda rate: 500 * ac.PoissonSubsampled(ac.Gaussian(2.0), rate), True, {"bounds": (1e-9, 1.0)}),
        (lambda count: int(count) * ac.PoissonSubsampled(ac.Gaussian(5.0), 0.05), True, {"integer": True}),
        (lambda sigma: 20 * ac.NoisyScreening(3 * sigma, 20.0, 50) + 4 * ac.GNMax(sigma), False, {}),
        (lambda scale: 20 * ac.LNMax(scale), False, {}),
    ],
)
def test_calibration_profits_and_meets_the_target(make, rises, options):
    found = ac.calibrate(make, 1.0, 1e-5, **options)
    bound = ac.calibrate(make, 1.0, 1e-5, method="renyi", **options)
    assert found > bound if rises else found < bound
    price = ac.epsilon(make(found), 1e-5)
    assert price.epsilon <= 1.0
    assert price.method == "tight"
    share = 1 + 1e-3
    beyond = found + 1 if options.get("integer") else found * share if rises else found / share
    assert ac.epsilon(make(beyond), 1e-5).epsilon > 1.0 - 0.01, "nothing is left but the width of an interval"


@pytest.mark.audit
def test_calibration_with_little_patience_ends_between_both_routes():
    def draws(scale):
        return 1000 * ac.PoissonSubsampled(ac.Laplace(scale), 0.01)

    bound = ac.calibrate(draws, 1.0, 1e-5, method="renyi")
    whole = ac.calibrate(draws, 1.0, 1e-5)
    found = [*(ac.calibrate(draws, 1.0, 1e-5, patience=seconds) for seconds in (1e-9, 1.5)), whole]
    assert bound <= found[0] <= 2 * bound, "where the search by the Rényi route ended"
    assert found == sorted(found, reverse=True), "more patience never costs noise"
    assert whole < found[1] < bound, "the search ended on its way"
    for scale in found:
        assert ac.epsilon(draws(scale), 1e-5).epsilon <= 1.0


def test_calibration_of_what_only_one_route_can_price():
    rho = ac.calibrate(ac.ZeroConcentratedDP, 1.0, 1e-5)
    assert rho == ac.calibrate(ac.ZeroConcentratedDP, 1.0, 1e-5, method="renyi")
    bit = ac.calibrate(lambda epsilon: 10 * ac.ApproximateDP(epsilon, 1e-7), 1.0, 1e-5)
    assert 0.99 <= ac.epsilon(10 * ac.ApproximateDP(bit, 1e-7), 1e-5).epsilon <= 1.0
    # a target between the two prices of the best value that there is
    ends = [ac.epsilon(steps(5.0), 1e-5, method=method).epsilon for method in ("tight", "renyi")]
    target = sum(ends) / 2
    sigma = ac.calibrate(steps, target, 1e-5, bounds=(1.0, 5.0))
    assert ac.epsilon(steps(sigma), 1e-5).epsilon <= target
    with pytest.raises(ac.CalibrationError, match="no value in"):
        ac.calibrate(steps, target, 1e-5, bounds=(1.0, 5.0), method="renyi")
    with pytest.raises(ac.CalibrationError, match="no value in"):
        ac.calibrate(steps, 0.9 * ends[0], 1e-5, bounds=(1.0, 5.0))
    with pytest.raises(ac.NoGuarantee, match="delta = 0"):
        ac.calibrate(ac.Gaussian, 1.0, 0.0)
    assert ac.calibrate(ac.Gaussian, 0.0, 0.5) < ac.calibrate(ac.Gaussian, 0.0, 0.5, method="renyi")


@pytest.mark.parametrize("method", ["auto", "tight"])
def test_a_rate_next_to_what_the_event_refuses(method):
    def make(rate):
        return ac.PoissonSubsampled(ac.Gaussian(5.0), rate)

    target = ac.epsilon(make(0.97), 1e-5).epsilon
    assert ac.calibrate(make, target, 1e-5, method=method) == pytest.approx(0.97, rel=1e-4)
    assert ac.calibrate(make, 50.0, 1e-5, method=method) == 1.0


def test_a_search_near_a_guess_ends_at_a_refusal_and_passes_on_what_has_no_price():
    def share(x):
        if x > 1.0:
            raise ac.ParameterError("rate")
        return x / 0.99

    assert solve_near(share, (1e-9, 1e12), (0.95, 1)) == pytest.approx(0.99, rel=1e-6)
    assert solve_near(share, (1e-9, 1e12), (1.0, 1)) == pytest.approx(0.99, rel=1e-6)
    assert solve_near(lambda x: share(x) / 2, (1e-9, 1e12), (0.95, 1)) == pytest.approx(1.0, rel=1e-6)

    def refused(x):
        raise ac.ToleranceUnreachable("x")

    with pytest.raises(ac.ToleranceUnreachable):
        solve_near(lambda x: 0.5 if x == 1.0 else refused(x), (1e-9, 1e12), (1.0, 1))
    assert math.isclose(solve_near(lambda x: x, (1e-9, 1e12), (0.5, 1)), 1.0, rel_tol=1e-6)


@pytest.mark.parametrize("integer", [False, True])
def test_a_search_near_a_guess_goes_by_any_number_of_refusals(integer):
    """The ratio was squared at each value, beside a refusal too, until it was no float."""

    def share(x):
        if x > 5e11:
            raise ac.ParameterError("x")
        return 0.5

    assert 4.9e11 < solve_near(share, (1e-9, 1e12), (1.0, 1), integer=integer) <= 5e11
    assert solve_near(lambda x: 0.5, (1e-9, 1e300), (1.0, 1), integer=integer) == 1e300


@pytest.mark.audit
def test_what_grids_certify_is_not_lost_where_an_inversion_takes_too_long():
    """Many distinct releases at a small rate: neither ends in time; what is certified is a sixth of the Rényi price."""
    run = sum((ac.PoissonSubsampled(ac.Gaussian(1 + 0.001 * k), 0.001) for k in range(1, 1000)), ac.Composition([]))
    with pytest.raises(ac.OutOfPatience, match="characteristic functions would take") as refused:
        ac.epsilon(run, 1e-5, method="tight", tolerance=1e-6, patience=2)
    assert refused.value.found is not None
    price = ac.epsilon(run, 1e-5, tolerance=1e-6, patience=2)
    assert refused.value.found[0] <= price.lower <= price.epsilon <= refused.value.found[1]  # by a coarser tolerance
    found = ac.epsilon(run, 1e-5, method="tight")
    assert found.lower <= price.epsilon
    assert found.epsilon == pytest.approx(found.lower, rel=0.01)
    assert price.epsilon < 0.2 * ac.epsilon(run, 1e-5, method="renyi").epsilon


def test_many_orders_at_once_find_the_best_one_of_a_gaussian():
    # epsilon from rho a, a = 1 + b, by the classic conversion is least at b = sqrt(log(1/delta)/rho)
    rho, log_delta = 0.003, math.log(1e-7)

    def price(b):
        return rho * (1 + b) - log_delta / b

    for at_once in (1, 8):
        order, best = _best_order(price, at_once)
        assert order - 1 == pytest.approx(math.sqrt(-log_delta / rho), rel=1e-6)
        assert best == pytest.approx(rho + 2 * math.sqrt(-log_delta * rho), rel=1e-13)


@pytest.mark.audit
def test_a_curve_is_as_near_as_each_delta_where_one_game_serves_all():
    run = 1871 * ac.NoisyScreening(32.94841108204407, 20.0, 40)
    run += 3 * ac.PoissonSubsampled(ac.GNMax(20.0), 0.1)
    curve, alone = ac.curve(run, [0.0, 1.0, 1.97, 3.0]), ac.delta(run, 1.97)
    assert curve.widths[2] <= 1.5 * (alone.delta - alone.lower) / alone.delta
    assert curve.widths.max() < 0.1
    assert max(curve.lower[2], alone.lower) <= min(curve.upper[2], alone.delta)


def test_a_refusal_says_how_near_it_came():
    run = 2520 * ac.PoissonSubsampled(ac.NoisyScreening(2.8447110197824266, 20.0, 40), 0.03200179888568021)
    with pytest.raises(ac.OutOfPatience, match=r"\D10 % wide, and at tolerance = 1 there is a price"):  # 9.94 %
        ac.delta(run, 2.5697534342205155, method="tight", patience=1.3)
    found = ac.delta(run, 2.5697534342205155, method="tight", patience=2.0)
    assert found.delta * 0.99 <= found.lower


@pytest.mark.parametrize(
    ("run", "epsilon"),
    [
        (2520 * ac.PoissonSubsampled(ac.NoisyScreening(2.8447110197824266, 20.0, 40), 0.032), 2.57),
        (2000 * ac.NoisyScreening(20.0, 14.0, 20) + 1500 * ac.NoisyScreening(26.0, 14.0, 20), 8.0),
    ],
    ids=str,
)
def test_a_patience_that_a_refusal_names_knows_of_games_on_clocks(run, epsilon):
    """What they take is known without playing them; 25 s were named where 2 do."""
    with pytest.raises(ac.OutOfPatience, match="games on clocks") as refusal:
        ac.delta(run, epsilon, method="tight", patience=1.0)
    assert 1.0 < refusal.value.seconds < 5.0
    found = ac.delta(run, epsilon, method="tight", patience=refusal.value.seconds)
    assert found.delta * 0.99 <= found.lower <= found.delta


def test_a_reason_advises_no_route_that_was_taken():
    """Where "auto" says why there is no tight price, it is no advice to take "auto"."""
    refusal = ac.ToleranceUnreachable("it takes too long")
    refusal.found, refusal.wide = (0.97, 1.0), "1"
    assert "'auto'" in str(refusal)
    said = price._reason(refusal)
    assert said.startswith("it takes too long; certified so far: [0.97, 1], 3")
    assert "'auto'" not in said
    refusal.wide = ""
    assert "'auto'" in str(refusal)
    assert "'auto'" not in price._reason(refusal)
