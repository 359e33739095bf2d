"""All prices of a calibration share one patience: what is counted for them, and where the search ends."""

import math
from functools import partial

import pytest

import accountant as ac
from accountant import patience, target_costs
from accountant.calibration import Bounds, solve
from accountant.patience import allow_work, spend
from accountant.renyi.route import POOL
from accountant.value_search import Bracket

SECONDS = POOL / patience.OPERATIONS_PER_SECOND


def draws(scale):
    return 1000 * ac.PoissonSubsampled(ac.Laplace(scale), 0.01)


def beside(scale):
    """Epsilon does not fall to 0.3, whatever the scale."""
    return 100 * ac.PoissonSubsampled(ac.Laplace(scale), 0.1) + 10 * ac.Gaussian(20.0)


def counted(ask):
    """The error that is raised, and the seconds of work that were counted before."""
    seen = [0.0]
    with patience.watch_work(lambda done, until: seen.append(until)), pytest.raises(ac.AccountantError) as error:
        ask()
    return error.value, seen[-1]


@pytest.fixture
def prices(monkeypatch):
    """The routes by which prices are asked for."""
    asked = []
    for name in ("price", "sharper_epsilon"):

        def ask(*args, plain, name, **options):
            asked.append(options.get("method", name))
            return plain(*args, **options)

        monkeypatch.setattr(target_costs, name, partial(ask, plain=getattr(target_costs, name), name=name))
    return asked


@pytest.mark.parametrize("dear", [1, 2, 3])
def test_a_search_ends_at_the_value_that_takes_too_long(dear):
    asked = []

    def excess(x):
        asked.append(x)
        if len(asked) == dear:
            raise ac.OutOfPatience("too long", 7.0)
        return 1 / x - 1e-3

    with pytest.raises(ac.OutOfPatience, match="too long"):
        solve(excess, (1e-9, 1e12), 1.0)
    assert len(asked) == dear


@pytest.mark.audit
@pytest.mark.parametrize("seconds", [0.05, *(pytest.param(each, marks=pytest.mark.audit) for each in (0.3, 1.0))])
def test_a_calibration_ends_within_its_patience_and_says_how_long_it_would_take(seconds, prices):
    error, taken = counted(lambda: ac.calibrate(draws, 1.0, 1e-5, method="tight", patience=seconds))
    assert isinstance(error, ac.OutOfPatience)
    assert str(error).startswith(f"price {len(prices)} of a calibration ends it: ")
    assert f"patience = {seconds:g}; accepted: patience = " in str(error)
    assert "\n" not in str(error)
    assert taken <= max(seconds, SECONDS)
    assert prices[-1] == "tight"
    priced = ac.calibrate(draws, 1.0, 1e-5, method="tight", patience=error.seconds)
    assert ac.epsilon(draws(priced), 1e-5).epsilon <= 1.0


@pytest.mark.audit
def test_searches_of_renyi_orders_are_counted_together():
    """Each is free by itself; sixty were not counted. The same one is done, and counted, once."""
    event = ac.HeterogeneousPoisson(ac.Laplace(0.3, 340.0, 5), (0.02, 0.65))

    def search(delta):
        for i in range(60):
            ac.epsilon(event, delta * (1 + i / 60), method="renyi")

    with patience.allow_work(1e-9):
        search(1e-5)
    with patience.allow_work(1e-9, POOL), pytest.raises(ac.OutOfPatience, match="a Rényi curve of"):
        search(1e-6)
    with pytest.raises(ac.OutOfPatience, match="a Rényi curve of"):
        ac.curve(event, [1.0 + i for i in range(60)], method="renyi", patience=1e-9)


@pytest.mark.audit
@pytest.mark.parametrize(("method", "fine"), [("auto", "sharper_epsilon"), ("tight", "tight")])
def test_a_target_that_is_out_of_reach_takes_one_fine_price(method, fine, prices):
    with pytest.raises(ac.CalibrationError, match=r"no value in \[1e-09, 1e\+12\] meets the target"):
        ac.calibrate(beside, 0.3, 1e-5, method=method)
    assert prices.count(fine) == 1
    assert len(prices) < 11, "where the cost rises it is not followed"
    assert ac.epsilon(beside(1e12), 1e-5, method="tight").lower > 0.3


def test_values_that_are_refused_are_not_tried_until_patience_ends(prices):
    """The tight route was asked at some fifty values for which it takes too large a grid."""
    rest = 46 * ac.PoissonSubsampled(ac.TreeAggregation(0.65, 65, sensitivity=2.8e27), 0.22)

    def make(scale):
        return rest + 2 * ac.PoissonSubsampled(ac.Selection(ac.Laplace(scale), ac.Geometric(7.0)), 0.016)

    error, taken = counted(lambda: ac.calibrate(make, 2.6, 6e-10, method="tight", tolerance=0.03))
    assert taken <= 5.0
    assert prices.count("tight") <= 1
    assert isinstance(error, ac.CalibrationError | ac.ToleranceUnreachable)


@pytest.mark.audit
def test_an_infinite_curve_is_not_looked_for_at_sixty_values():
    made = []
    rest = 5 * ac.PoissonSubsampled(ac.ApproximateDP(0.3, 1e-10), 1e-4)

    def make(sigma):
        made.append(sigma)
        return 100 * ac.PoissonSubsampled(ac.Gaussian(sigma), 0.01) + rest

    found = ac.calibrate(make, 1.0, 1e-6, method="tight", tolerance=0.03)
    assert ac.epsilon(make(found), 1e-6, method="tight", tolerance=0.03).epsilon <= 1.0
    assert len(made) < 30


def test_the_end_of_a_range_is_found_without_prices():
    priced = []

    def excess(x):
        if x < 1e-6:
            raise ac.ParameterError(f"x = {x:g}; accepted: 1e-6 or more")
        priced.append(x)
        return -1.0 - math.log(x) / 100

    found = solve(excess, Bounds(1e-9, 1e12, accepts=lambda x: x >= 1e-6), 1.0)
    assert found == pytest.approx(1e-6, rel=1e-8)
    below = len(priced)
    priced.clear()
    assert solve(excess, (1e-9, 1e12), 1.0) == pytest.approx(1e-6, rel=1e-8)
    assert below < len(priced) - 10


@pytest.mark.parametrize("seconds", [0.3, 1.0, 5.0])
def test_a_target_that_the_renyi_route_just_misses_is_searched_where_it_is(seconds):
    """The screenings alone cost 0.938, by the Rényi route 1.021: 6.6e11 was said for 202.1 with 0.7 s and less."""
    screenings = 18_000 * ac.PoissonSubsampled(ac.NoisyScreening(85.0, 210.0, 300), 0.2)

    def make(sigma):
        return screenings + 3877 * ac.PoissonSubsampled(ac.GNMax(sigma), 0.2)

    try:
        found = ac.calibrate(make, 1.0, 1e-5, start=20.0, patience=seconds)
    except ac.OutOfPatience:
        assert seconds < 1.0
    else:
        assert 202.0 < found < (203.0 if seconds == 5.0 else 250.0)


@pytest.mark.parametrize(("draws", "population"), [(5, 100), (20, 1000)])
def test_runs_of_samples_with_replacement_end_next_to_their_target(draws, population):
    """Their curves were counted as several times what they take: the search ended at 0.77 and 0.18 for 1."""

    def make(scale):
        return 6 * ac.SampledWithReplacement(ac.Laplace(scale, adjacency="replace"), draws, population)

    found = ac.calibrate(make, epsilon=1.0, delta=1e-5)
    assert 0.99 < ac.epsilon(make(found), 1e-5).epsilon <= 1.0


def test_the_last_price_is_next_to_the_target():
    """Patience that ends with a value on either side is enough for one between them."""
    bracket, asked = Bracket(1.0, -1, False), []

    def cost(x, width):
        asked.append(x)
        spend(1e9, "a price")
        return x**-2.0

    with allow_work(3.9):
        for x in (2.0, 0.5):
            bracket.ask(cost, x, 0.01)
        with pytest.raises(ac.OutOfPatience):
            bracket.ask(cost, 1.5, 0.01)
        last = bracket.safe_side(0.01)
        assert bracket.ask(cost, last, 0.01, 0) == pytest.approx(1.0, rel=0.1)
    assert 1.0 < last < 1.1
    assert asked == [2.0, 0.5, last]
    assert bracket.met == [2.0, last]
    assert Bracket(1.0, -1, False).safe_side(0.01) is None


def test_coarser_prices_tell_where_the_last_one_is():
    bracket = Bracket(1.0, 1, True)
    for x, width, price in ((90.0, 0.1, 0.9), (110.0, 0.1, 1.1), (90.0, 0.01, 0.85)):
        bracket.ask(lambda x, width, price=price: price, x, width)
    assert bracket.safe_side(0.1) == 99.0
    assert bracket.safe_side(0.01) == 100.0  # there 110 costs about 1.04, and a line meets the target at 106


def test_a_target_beside_which_no_cost_is_seen_names_those_that_are():
    with pytest.raises(ac.CalibrationError, match=r"target = 1e\+300, .* meet; accepted: \[0, 999.999\]"):
        ac.calibrate(ac.Laplace, epsilon=1e300, delta=1e-5, bounds=(1e-3, 1e9))
    assert ac.calibrate(ac.Laplace, epsilon=999.999, delta=1e-5, bounds=(1e-3, 1e9)) >= 1e-3
    with pytest.raises(ac.CalibrationError, match="nothing to calibrate; accepted: a target that some"):
        ac.calibrate(lambda x: 3 * ac.Laplace(1.0), epsilon=1e300, delta=1e-5)
