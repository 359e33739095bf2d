"""Calibration: the search on synthetic functions, and the promise of `ac.calibrate` on events."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable

import pytest

import accountant as ac
from accountant import patience
from accountant.calibration import FINE, solve, solve_near

mpmath = pytest.importorskip("mpmath")
given = pytest.importorskip("hypothesis").given
st = pytest.importorskip("hypothesis.strategies")
settings = pytest.importorskip("hypothesis").settings

RANGE = (1e-9, 1e12)
WHOLE = (1.0, 1e15)


class Counted:
    """A function that refuses to be evaluated more often than any search needs, or outside its range."""

    def __init__(self, function: Callable[[float], float], low: float, high: float) -> None:
        self.function, self.low, self.high = function, low, high
        self.seen: dict[float, float] = {}

    def __call__(self, x: float) -> float:
        assert self.low <= x <= self.high
        assert x not in self.seen, "evaluated twice"
        assert len(self.seen) < 300, "no end"
        self.seen[x] = self.function(x)
        return self.seen[x]


def solved(function, low=RANGE[0], high=RANGE[1], start=1.0, *, integer=False) -> float:
    """The answer, checked to have been evaluated itself and to meet the target."""
    counted = Counted(function, low, high)
    answer = solve(counted, (low, high), start, integer=integer)
    assert counted.seen[answer] <= 0
    if integer:
        assert all(x == int(x) for x in counted.seen)
    return answer


@pytest.fixture
def _time_limit():
    """End a search that does not."""

    def stop(number, frame):
        raise TimeoutError("the search does not end")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


# --- solve ---------------------------------------------------------------------------------------------

DECREASING = {
    "1/x": lambda x: 1 / x,
    "1/x^2": lambda x: 1 / x**2,
    "-log x": lambda x: -math.log(x),
    "-x": lambda x: -x,
    "exp(1/x)": lambda x: math.exp(min(1 / x, 700)),
    "-x^7": lambda x: -((x / 1e3) ** 7),
    "steep": lambda x: -math.tanh(50 * math.log(x)),
}
ROOTS = [3e-9, 1e-6, 0.3, 1.0, 1.0000001, 7.0, 12345.678, 3e11]


@pytest.mark.parametrize("start", [1e-9, 1.0, 50.0, 1e12])
@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("name", DECREASING)
def test_decreasing(name, root, start):
    function = DECREASING[name]
    answer = solved(lambda x: function(x) - function(root) if math.isfinite(function(x)) else math.inf, start=start)
    assert answer >= root * (1 - 1e-15) or function(answer) <= function(root)
    if name == "steep" and not 0.8 < root < 1.25:
        return  # flat to rounding there
    if name == "exp(1/x)" and not 2e-3 < root < 1e3:
        return
    assert answer <= root * (1 + 1.01 * FINE) or function(answer * (1 - FINE)) == function(root)


@pytest.mark.parametrize("start", [1e-9, 1.0, 50.0, 1e12])
@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("power", [0.1, 1, 2, 7])
def test_increasing(root, start, power):
    answer = solved(lambda x: (x / root) ** power - 1, start=start)
    assert root * (1 - 1.01 * FINE) <= answer <= root * (1 + 1e-15)


@settings(max_examples=200, deadline=None)
@given(st.floats(-8.5, 11.5), st.floats(0.05, 20), st.sampled_from([-1, 1]), st.floats(-9, 12), st.floats(-3, 3))
def test_any_power_from_any_start(log_root, power, sign, log_start, log_scale):
    root = 10**log_root
    scale = 10**log_scale

    def excess(x):
        return sign * scale * math.expm1(min(power * math.log(x / root), 700.0))

    answer = solved(excess, start=10**log_start)
    assert abs(math.log(answer / root)) <= 1.01 * FINE
    assert sign * (answer - root) <= 1e-15 * root


@pytest.mark.parametrize("root", [2.0, 1e-7, 1e9])
def test_infinite_on_the_failing_side(root):
    assert solved(lambda x: math.inf if x < root else -1.0) == pytest.approx(root, rel=1.01 * FINE)
    assert solved(lambda x: math.inf if x > root else -1.0) == pytest.approx(root, rel=1.01 * FINE)


@pytest.mark.parametrize("edge", [0.37, 1.0, 42.0, 1e8])
@pytest.mark.parametrize("heights", [(1.0, -1.0), (1e-12, -1e12), (1e12, -1e-12), (1.0, 0.0)])
def test_steps(edge, heights):
    above, below = heights
    fall = solved(lambda x: above if x < edge else below)
    assert edge <= fall <= edge * (1 + 1.01 * FINE)
    rise = solved(lambda x: below if x <= edge else above)
    assert edge * (1 - 1.01 * FINE) <= rise <= edge


def test_flat_parts_on_either_side():
    # clipped at both ends, as an epsilon is
    def excess(x):
        return min(max(5 - x, -1.0), 1.0)

    assert 5 <= solved(excess) <= 5 * (1 + 1.01 * FINE)
    assert 5 <= solved(excess, start=1e9) <= 5 * (1 + 1.01 * FINE)


def test_flat_at_the_target_gives_its_nearest_end():
    # meets it with equality on [3, 8]: the most economical noise is 3, the most releases 8
    assert solved(lambda x: 3 - x if x < 3 else (0.0 if x <= 8 else 8 - x)) == pytest.approx(3, rel=1.01 * FINE)
    assert solved(lambda x: x - 8 if x > 8 else (0.0 if x >= 3 else x - 3)) == pytest.approx(8, rel=1.01 * FINE)


def test_target_met_everywhere_gives_the_cheap_end():
    assert solved(lambda x: 1 / x - 10, 1.0, 100.0, 5.0) == 1.0, "least noise of the range"
    assert solved(lambda x: x - 1000, 1.0, 100.0, 5.0) == 100.0, "most releases of the range"


@pytest.mark.parametrize("excess", [lambda x: 1 + 1 / x, lambda x: 1 + x, lambda x: 1.0, lambda x: math.inf])
@pytest.mark.parametrize("integer", [False, True])
def test_target_out_of_reach(excess, integer):
    with pytest.raises(ac.CalibrationError) as caught:
        solve(excess, (1.0, 1e6), 10.0, integer=integer)
    message = str(caught.value)
    assert message.startswith("no value in [1, 1e+06] meets the target (over it by ")
    assert "\n" not in message


def test_start_outside_the_range_is_moved_in():
    for start in (1e-300, 1e300):
        assert solved(lambda x: 7 - x, 1.0, 100.0, start) == pytest.approx(7, rel=FINE)


def test_nan_is_refused():
    with pytest.raises(ac.CalibrationError, match="the cost at 1 is not a number"):
        solve(lambda x: math.nan, RANGE, 1.0)
    with pytest.raises(ac.CalibrationError, match="is not a number"):
        solve(lambda x: math.nan if 2 < x < 3 else 2.5 - x, RANGE, 1.0)


@pytest.mark.parametrize("sign", [1, -1])
def test_not_monotone_is_refused(sign):
    # 5, 3, 6, then past the target
    def excess(x):
        return sign * (5 if x < 2 else 3 if x < 4 else 6 if x < 64 else -1)

    with pytest.raises(ac.CalibrationError, match="not monotone"):
        solve(Counted(excess, 1.0, 1e6), (1.0, 1e6), 1.0)


def test_error_at_an_end_of_the_range_ends_it():
    def excess(x):
        if x > 1e3:
            raise ac.ParameterError(f"x = {x:g} is out of range; accepted: (0, 1e3]")
        return 100 - x

    assert solved(excess) == pytest.approx(100, rel=1.01 * FINE)
    with pytest.raises(ac.CalibrationError, match=r"no value .* meets the target .*out of range; accepted: \(0, 1e3\]"):
        solve(lambda x: excess(x) + 1e4, RANGE, 1.0)


@pytest.mark.parametrize("start", [0.01, 0.2, 0.3])
@pytest.mark.parametrize("best", [0.9, 0.99])
def test_error_beyond_an_end_does_not_hide_what_lies_before_it(start, best):
    def excess(x):
        if x > 1:
            raise ac.ParameterError("rate")
        return x - best

    # the second doubling passes 1: all of (last step, 1] is left out, and less than the best comes back
    assert solved(excess, start=start) == pytest.approx(best, rel=1.01 * FINE)


def test_error_beyond_an_end_does_not_hide_a_value_that_meets_the_target():
    def excess(x):
        if x > 1:
            raise ac.ParameterError("rate")
        return 0.9 - x

    assert solved(excess, start=0.3) == pytest.approx(0.9, rel=1.01 * FINE)


def test_error_at_the_start():
    def excess(x):
        if x > 0.5:
            raise ac.ParameterError("rate")
        return x - 0.25

    assert solved(excess, start=1.0) == pytest.approx(0.25, rel=1.01 * FINE)


def test_errors_of_other_kinds_pass_through():
    def excess(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        solve(excess, RANGE, 1.0)


# --- solve over integers -------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [1.0, 2.4, 10.0, 1e6])
@pytest.mark.parametrize("root", [1, 2, 3, 10, 999, 1000, 1001, 123_456, 9_999_999])
def test_integers(root, start):
    assert solved(lambda x: root - x, *WHOLE, start, integer=True) == root
    assert solved(lambda x: x - root, *WHOLE, start, integer=True) == root
    assert solved(lambda x: root - 0.5 - x, *WHOLE, start, integer=True) == root
    assert solved(lambda x: x - root - 0.5, *WHOLE, start, integer=True) == root


@pytest.mark.parametrize("root", [1, 2, 77, 12345])
def test_integer_steps(root):
    if root > 1:
        assert solved(lambda x: 1.0 if x < root else -1.0, *WHOLE, integer=True) == root
    assert solved(lambda x: -1.0 if x <= root else 1.0, *WHOLE, integer=True) == root


@pytest.mark.usefixtures("_time_limit")
def test_large_integers():
    for root in (10**8 + 7, 799_828_352_621, 10**14 + 3):
        for offset in (0.0, 0.5):
            assert solve(lambda x, r=root + offset: x - r, WHOLE, 10.0, integer=True) == root
            assert solve(lambda x, r=root - offset: r - x, WHOLE, 10.0, integer=True) == root


# --- ac.calibrate --------------------------------------------------------------------------------------


def sampled_sigma(sigma):
    return 1000 * ac.PoissonSubsampled(ac.Gaussian(sigma), 0.01)


def sampled_rate(rate):
    return 1000 * ac.PoissonSubsampled(ac.Gaussian(2.0), rate)


def mixed_sigma(sigma):
    screening = ac.PoissonSubsampled(ac.NoisyScreening(85.0, 210.0, 300), 0.2)
    return 1000 * screening + 200 * ac.PoissonSubsampled(ac.GNMax(sigma), 0.2)


CASES = {
    # family: (make, more of it costs more, targets (epsilon, delta))
    "Gaussian sigma": (
        ac.Gaussian,
        False,
        [(1.0, 1e-5), (1e-6, 1e-5), (50.0, 1e-5), (1.0, 1e-300), (1e-6, 1e-300), (50.0, 1e-300)],
    ),
    "10^4 Gaussians": (lambda sigma: 10**4 * ac.Gaussian(sigma), False, [(1.0, 1e-5), (0.01, 1e-9)]),
    "subsampled sigma": (sampled_sigma, False, [(1.0, 1e-5), (0.1, 1e-5), (50.0, 1e-5), (1.0, 1e-300)]),
    "rate": (sampled_rate, True, [(1.0, 1e-5), (5.0, 1e-8), (50.0, 1e-5)]),
    "votes beside screening": (mixed_sigma, False, [(1.0, 1e-5), (3.0, 1e-6)]),
    "GDP mu": (ac.GaussianDP, True, [(1.0, 1e-5), (1e-6, 1e-5), (50.0, 1e-5), (1.0, 1e-300)]),
    "zCDP rho": (ac.ZeroConcentratedDP, True, [(1.0, 1e-5), (50.0, 1e-10)]),
    "pure epsilon": (
        lambda epsilon: 3 * ac.PureDP(epsilon),
        True,
        [(1.0, 0.0), (1.0, 1e-300), (50.0, 0.0), (1e-6, 0.0)],
    ),
    "many pure releases": (lambda epsilon: 1000 * ac.PureDP(epsilon), True, [(1.0, 1e-5), (50.0, 1e-5)]),
    "Laplace scale": (lambda scale: ac.Laplace(scale, coordinates=10), False, [(1.0, 0.0), (1.0, 1e-5), (1e-6, 0.0)]),
}


@pytest.mark.parametrize(
    ("family", "target"), [(family, target) for family, case in CASES.items() for target in case[2]], ids=str
)
def test_calibrated_parameter_is_the_best(family, target):
    make, costs_more, _ = CASES[family]
    epsilon, delta = target
    value = ac.calibrate(make, epsilon, delta, method="renyi")
    price = ac.epsilon(make(value), delta, method="renyi")
    assert price.epsilon <= epsilon, "exactly, not up to a tolerance"
    assert price.delta <= delta
    better = value * (1 + 1e-6 if costs_more else 1 - 1e-6)
    assert ac.epsilon(make(better), delta, method="renyi").epsilon > epsilon


def test_rate_that_need_not_be_sampled():
    assert ac.calibrate(lambda rate: ac.PoissonSubsampled(ac.Gaussian(20), rate), 1.0, 1e-5, bounds=(1e-9, 1.0)) == 1.0


@pytest.mark.parametrize("start", [0.01, 0.2, 0.3])
def test_rate_does_not_depend_on_the_start(start):
    def make(rate):
        return ac.PoissonSubsampled(ac.Gaussian(5.0), rate)

    target = ac.epsilon(make(0.9), 1e-5, method="renyi").epsilon
    assert ac.calibrate(make, target, 1e-5, start=start, method="renyi") == pytest.approx(0.9, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.3, 1e-8), (50.0, 1e-5), (50.0, 1e-300)])
@pytest.mark.parametrize("start", [1.0, 1000.0])
def test_count(epsilon, delta, start):
    def make(count):
        return int(count) * ac.PoissonSubsampled(ac.Gaussian(10.0), 0.05)

    count = ac.calibrate(make, epsilon, delta, bounds=(1, 10**9), start=start, integer=True, method="renyi")
    assert count == int(count)
    assert ac.epsilon(make(count), delta, method="renyi").epsilon <= epsilon
    assert ac.epsilon(make(count + 1), delta, method="renyi").epsilon > epsilon


@pytest.mark.parametrize("conversion", ["classic", "improved", "optimal"])
def test_conversions(conversion):
    sigma = ac.calibrate(ac.Gaussian, 1.0, 1e-5, conversion=conversion)
    assert ac.epsilon(ac.Gaussian(sigma), 1e-5, conversion=conversion).epsilon <= 1.0
    assert ac.epsilon(ac.Gaussian(sigma * (1 - 1e-6)), 1e-5, conversion=conversion).epsilon > 1.0
    # in closed form for classic; the exact sigma, 3.7306..., is below every Rényi one
    assert sigma > 3.730631634815942
    if conversion == "classic":
        rho = (math.sqrt(math.log(1e5) + 1.0) - math.sqrt(math.log(1e5))) ** 2
        assert sigma == pytest.approx(1 / math.sqrt(2 * rho), rel=2 * FINE)


@pytest.mark.parametrize("method", ["auto", "tight"])
@pytest.mark.parametrize(("epsilon", "delta", "count"), [(1.0, 1e-5, 1), (0.5, 1e-5, 100), (8.0, 1e-9, 7)])
def test_noise_of_a_closed_form_is_exact_but_for_rounding(epsilon, delta, count, method):
    sigma = ac.calibrate(lambda sigma: count * ac.Gaussian(sigma), epsilon, delta, method=method)
    assert ac.epsilon(count * ac.Gaussian(sigma), delta, method=method).epsilon <= epsilon
    mu = math.sqrt(count) / sigma
    with mpmath.workdps(40):
        above, below = (
            mpmath.ncdf(x / 2 - epsilon / x) - mpmath.exp(epsilon) * mpmath.ncdf(-x / 2 - epsilon / x)
            for x in (mpmath.mpf(mu) * (1 + mpmath.mpf(2e-11)), mpmath.mpf(mu))
        )
    assert below <= delta < above
    if (epsilon, delta, count) == (1.0, 1e-5, 1):
        assert sigma == pytest.approx(3.730631634815942, rel=1e-11)


def test_calibrations_that_are_known_between_two_ends_take_no_more_prices():
    asked = []

    def make(sigma):
        asked.append(sigma)
        return 100 * ac.PoissonSubsampled(ac.Gaussian(sigma), 0.1)

    sigma = ac.calibrate(make, 1.0, 1e-5, method="tight")
    assert abs(math.log(sorted(asked, key=lambda x: abs(math.log(x / sigma)))[1] / sigma)) > 1e-9


def test_pure_limit_is_met_exactly():
    assert ac.calibrate(ac.PureDP, 1.0, 0.0) == 1.0
    assert ac.calibrate(lambda scale: ac.Laplace(scale), 0.5, 0.0) == pytest.approx(2.0, rel=FINE)


def test_parts_that_cannot_be_paid():
    with pytest.raises(ac.CalibrationError, match=r"no value in .* meets the target"):
        ac.calibrate(lambda sigma: ac.Gaussian(sigma) + 100 * ac.PureDP(1.0), 1.0, 1e-5)


def test_no_pure_guarantee():
    with pytest.raises(ac.NoGuarantee, match="delta = 0"):
        ac.calibrate(ac.Gaussian, 1.0, 0.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": -1.0}, r"epsilon = -1 .*\[0, 1e\+300\]"),
        ({"epsilon": math.nan}, "epsilon = nan"),
        ({"epsilon": math.inf}, "epsilon = inf"),
        ({"epsilon": "1"}, "epsilon = '1'"),
        ({"delta": 1.0}, r"delta = 1 .*\[0, 1\)"),
        ({"delta": math.nan}, "delta = nan"),
        ({"bounds": (0.0, 1.0)}, r"bounds\[0\] = 0"),
        ({"bounds": (2.0, 1.0)}, r"bounds\[1\] = 1"),
        ({"bounds": (-1.0, 1.0)}, r"bounds\[0\] = -1"),
        ({"conversion": "exact"}, "conversion = 'exact'; accepted: improved, classic, optimal"),
        ({"method": "exact"}, "method = 'exact'; accepted: renyi"),
        ({"make": lambda x: x}, r"run = 1\.0; accepted: an event"),
        ({"make": 3}, "make = 3; accepted: a function"),
    ],
)
def test_parameters_out_of_range(changes, words):
    arguments = {"make": ac.Gaussian, "epsilon": 1.0, "delta": 1e-5, **changes}
    with pytest.raises(ac.ParameterError, match=words):
        ac.calibrate(**arguments)


@pytest.mark.parametrize("far", [1.0, 1.05, 1e2, 1e-2])
def test_a_guess_is_left_faster_the_farther_its_cost_is_from_the_target(far):
    asked = []

    def share(x):
        asked.append(x)
        return (3.0 / x) ** 2

    assert 3.0 <= solve_near(share, (1e-6, 1e6), (3.0 * far, -1)) <= 3.0 * (1 + FINE)
    assert max(asked[1] / asked[0], asked[0] / asked[1]) == pytest.approx(1.1 if 0.5 < far < 2.0 else 2.0)
    assert len(asked) < 20


@pytest.mark.audit
def test_calibration_goes_on_by_the_tight_route_where_the_renyi_route_is_far_off_and_dear():
    def make(sigma):
        return ac.RandomAllocation(ac.Gaussian(sigma), 10**6)

    sigma = ac.calibrate(make, 1.0, 1e-6, tolerance=0.05, patience=8.0)
    assert 0.8 < ac.epsilon(make(sigma), 1e-6).epsilon <= 1.0
    assert ac.epsilon(make(0.7), 1e-6).epsilon < 0.01  # where the Rényi route ends


@pytest.mark.parametrize("target", [{"epsilon": 1.0, "delta": 1e-5}, {"target": "advantage", "value": 0.2}])
@pytest.mark.parametrize("secret", [ac.DataDependentGNMax(10.0, (100, 95, 3)), ac.DataDependentScreening(85, 210, 180)])
def test_a_number_that_depends_on_private_data_is_refused(secret, target):
    """It would be a bare number, which cannot say so: the most releases differ where one vote does."""
    for run in (1 * secret, secret + ac.Gaussian(50.0)):
        with pytest.raises(ac.DataDependentError, match="depends on private data"):
            ac.calibrate(lambda count, run=run: int(count) * run, integer=True, bounds=(1, 1000), **target)


def test_releases_between_bounds_are_calibrated_by_their_upper_ends():
    """Lower ends took 17 times as long, so that patience ended at a deviation of 2.48, which costs 0.56."""

    def make(sigma):
        return 1 * ac.TruncatedPoissonGaussian(sigma, 0.1, 1000, 110)

    sigma = ac.calibrate(make, epsilon=1.0, delta=1e-5)
    found = ac.epsilon(make(sigma), 1e-5)
    assert 0.999 < found.epsilon <= 1.0
    assert found.lower > 0.3


@pytest.mark.parametrize(("power", "exact"), [(-2.0, 0.1), (-0.5, 1e4), (1.0, 0.01), (-2.0, 0.97)])
def test_a_guess_that_is_far_off_takes_few_prices(power, exact):
    """The next value is where a straight line through the last two meets the target, and a little beyond."""
    asked = []

    def share(x):
        asked.append(x)
        return (x / exact) ** power

    found = solve_near(share, (1e-9, 1e12), (1.0, 1 if power > 0 else -1), fine=1e-5)
    assert abs(found / exact - 1) < 1e-5
    assert share(found) <= 1.0
    assert len(asked) <= 11


def test_a_cost_that_is_infinite_beside_a_guess_ends_the_search():
    """The line through a finite and an infinite cost meets nothing: its step was no number, the search without end."""
    asked = []

    def share(x):
        asked.append(x)
        assert len(asked) < 200
        return 2.0 if x == 1.0 else math.inf

    with pytest.raises(ac.CalibrationError, match="no value in"):
        solve_near(share, (1e-9, 1e12), (1.0, -1))


def test_a_calibration_grants_nothing_to_prices_after_it():
    """Those that share its patience are granted shares of what is left, as before."""
    with patience.allow_work(10.0) as work:
        ac.calibrate(lambda sigma: 10 * ac.Gaussian(sigma), epsilon=1.0, delta=1e-5)
        assert work.each is None


def test_a_target_below_what_other_releases_cost_is_named_with_what_would_be_met():
    fixed = 1000 * ac.Gaussian(10.0)
    said = r"at best\): target = 1; accepted: a larger one, such as [0-9.]+$"
    with pytest.raises(ac.CalibrationError, match=said) as refused:
        ac.calibrate(lambda sigma: fixed + ac.Gaussian(sigma), epsilon=1.0, delta=1e-5)
    least = float(str(refused.value).rpartition(" ")[2])
    assert ac.calibrate(lambda sigma: fixed + ac.Gaussian(sigma), epsilon=least, delta=1e-5) > 0.0


def test_a_count_that_is_no_integer_is_refused_with_what_makes_integers():
    with pytest.raises(ac.ParameterError, match=r"^count = .*; accepted: an integer .*; calibrate with integer = True"):
        ac.calibrate(lambda count: count * ac.Gaussian(20.0), 1.0, 1e-5)
    assert ac.calibrate(lambda count: count * ac.Gaussian(20.0), 1.0, 1e-5, integer=True) > 1
    with pytest.raises(ac.ParameterError, match=r"^count = -1 .*1e\+30\]$"):
        ac.calibrate(lambda count: -1 * ac.Gaussian(20.0), 1.0, 1e-5)


@pytest.mark.parametrize("method", ["auto", "tight"])
@pytest.mark.parametrize(
    ("target", "sigma"),
    [
        ({"target": "advantage", "value": 0.1}, 4.06067),
        ({"target": "tpr", "value": 0.05, "fpr": 0.01}, 1.47133),
        ({"target": "mu", "value": 0.5}, 2.01010),
    ],
)
def test_risks_of_which_the_renyi_route_says_nothing_are_calibrated(target, sigma, method):
    """It says 1, or inf, of all values: the first that was tried was taken for the best, and refused."""

    def make(s):
        return ac.Gaussian(s) + ac.ApproximateDP(0.05, 1e-12)

    assert ac.calibrate(make, method=method, **target) == pytest.approx(sigma, rel=1e-4)
