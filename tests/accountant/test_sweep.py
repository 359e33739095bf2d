"""Sweeps against prices asked for one at a time, and the search for the worst pair against all pairs."""

import importlib
import math
import os
import random
from functools import partial

import numpy as np
import pytest
from mpmath import mp, mpf

import accountant as ac
from accountant.events.screening_search import SLACK, bound_between, log_mean_of, pair_at, worst_pair
from accountant.events.subsampled_moments import moments
from accountant.numerics.special import log_phi_steps
from accountant.renyi.conversion import epsilon_from_renyi
from accountant.sweep import BLOCK
from tests.cases import audit_after
from tests.reference import definitions

sampled = ac.PoissonSubsampled
sweeps = importlib.import_module("accountant.sweep")  # its function has its name


def private_knn(sigma, rate, count=1000):
    return count * sampled(ac.NoisyScreening(sigma, 210, 300), rate) + 500 * sampled(ac.Gaussian(20, 2**0.5), rate)


def laplace(scale):
    return 30 * ac.Laplace(scale)


@pytest.mark.parametrize("conversion", ["improved", "classic", "optimal"])
def test_equals_prices_asked_for_one_at_a_time(conversion):
    found = ac.sweep(private_knn, {"sigma": [30.0, 85.0], "rate": [0.01, 0.3]}, delta=1e-6, conversion=conversion)
    assert list(found) == ["sigma", "rate", "epsilon", "delta", "order"]
    assert found["sigma"].tolist() == [30.0, 30.0, 85.0, 85.0]
    assert found["rate"].tolist() == [0.01, 0.3, 0.01, 0.3]
    for i in range(4):
        one = ac.epsilon(private_knn(found["sigma"][i], found["rate"][i]), 1e-6, conversion=conversion)
        assert found["epsilon"][i] == pytest.approx(one.epsilon, rel=1e-13)
        assert found["order"][i] == pytest.approx(one.order, rel=1e-5)
        assert found["delta"][i] == 1e-6


def test_delta_at_an_epsilon():
    found = ac.sweep(private_knn, {"sigma": [30.0, 85.0], "rate": 0.1}, epsilon=1.0)
    expected = [ac.delta(private_knn(sigma, 0.1), 1.0, method="renyi").delta for sigma in (30.0, 85.0)]
    assert found["delta"].tolist() == pytest.approx(expected, rel=1e-12)
    assert found["epsilon"].tolist() == [1.0, 1.0]


def test_events_that_are_not_compiled_and_those_of_users_are_priced_by_their_own_curves():
    class Dearer(ac.Gaussian):
        @classmethod
        def _curves(cls, gathered, orders):
            return 2 * super()._curves(gathered, orders)

    plain = (lambda scale: 3 * ac.DiscreteLaplace(scale, 2), lambda scale: 3 * Dearer(scale) + ac.Gaussian(2.0))
    for make in (Dearer, *plain):
        found = ac.sweep(make, {"scale": [50.0, 70.0]}, n_jobs=1)
        assert found["epsilon"].tolist() == [
            ac.epsilon(make(scale), 1e-5, method="renyi").epsilon for scale in (50.0, 70.0)
        ]
    assert (
        ac.epsilon(Dearer(3.0), 1e-5, method="renyi").epsilon
        > ac.epsilon(ac.Gaussian(3.0), 1e-5, method="renyi").epsilon * 1.3
    )


def test_values_may_be_passed_by_position_by_keyword_or_zipped():
    by_position = ac.sweep(lambda s, /, n: n * ac.Gaussian(s), {"sigma": [10.0, 20.0], "count": [3, 7]}, zipped=True)
    by_keyword = ac.sweep(
        lambda **values: values["count"] * ac.Gaussian(values["sigma"]), {"sigma": [10.0, 20.0], "count": [3, 7]}
    )
    assert by_position["epsilon"].tolist() == pytest.approx(by_keyword["epsilon"][[0, 3]].tolist(), rel=1e-13)
    assert by_keyword["count"].tolist() == [3, 7, 3, 7]


def test_a_run_that_is_pure_or_empty():
    grid = {"sigma": [2.0], "count": [0, 1]}
    found = ac.sweep(lambda sigma, count: count * ac.NoisyScreening(sigma, 2, 3), grid, delta=1e-300)
    assert found["order"].tolist() == [math.inf, math.inf]
    once = ac.NoisyScreening(2, 2, 3)
    assert found["epsilon"].tolist() == [0.0, ac.epsilon(once, 1e-300, method="renyi").epsilon]
    assert 0.0 < found["epsilon"][1] / once.renyi(math.inf) - 1.0 < 2e-12  # rounded up
    assert ac.sweep(laplace, {"scale": []})["epsilon"].size == 0


def test_a_setting_that_cannot_be_priced_is_named_or_nan():
    grid = {"sigma": [1.0, -1.0, 2.0]}
    with pytest.raises(ac.ParameterError, match=r"^sigma = -1.0: sigma = -1 is out of range; accepted"):
        ac.sweep(ac.Gaussian, grid)
    found = ac.sweep(ac.Gaussian, grid, errors="nan")
    assert np.isnan(found["epsilon"]).tolist() == [False, True, False]
    with pytest.raises(ac.NoGuarantee, match=r"^scale = 2.0: "):
        ac.sweep(lambda scale: ac.Gaussian(scale), {"scale": [2.0]}, delta=0.0)
    with pytest.raises(ac.DataDependentError, match="plurality = 3"):
        ac.sweep(lambda plurality: ac.DataDependentScreening(9, 3, plurality), {"plurality": [3]}, errors="nan")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"delta": 2.0}, "delta = 2"),
        ({"delta": 1e-5, "epsilon": 1.0}, "accepted: one of them"),
        ({"grid": {}}, "grid = "),
        ({"make": 3}, "make = 3; accepted: a function"),
        ({"grid": {"epsilon": [1.0]}}, "parameter name"),
        ({"grid": {"scale": [[1.0]]}}, "one dimension"),
        ({"grid": {"scale": [1.0], "b": [1, 2]}, "zipped": True}, "lengths"),
        ({"n_jobs": 0}, "n_jobs = 0"),
        ({"errors": "ignore"}, "errors = "),
        ({"method": "exact"}, "method = "),
        ({"make": lambda scale: scale}, "make returned 50.0"),
        ({"grid": {name: range(10**4) for name in "abcd"}}, r"10000000000000000 settings need 1.12e\+09 GB of"),
    ],
)
def test_bad_requests_are_refused(changes, words):
    with pytest.raises(ac.ParameterError, match=words):
        ac.sweep(**{"make": laplace, "grid": {"scale": [50.0]}} | changes)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([[1.0], [1.0, 2.0]], r"n = \[\[1.0\], \[1.0, 2.0\]\]; accepted: a list of values, in one dimension"),
        (np.ma.masked_array([1.0, 2.0], [False, True]), "masked values; accepted"),
        ([1.0, np.ma.masked], "masked values; accepted"),
        ([2**53 + 1, 0.5], "n = 9007199254740993 becomes 9007199254740992.0 beside the others; accepted"),
        ([np.int64(2**53 + 1), 0.5], r"n = 9007199254740993 becomes 9007199254740992.0 beside the others; accepted"),
        ([np.uint64(2**63 + 1), np.int64(1)], r"n = 9223372036854775809 becomes 9.2\d*e\+18 beside the others"),
        ([2**63 + 1, -1], r"n = 9223372036854775809 becomes 9.2\d*e\+18 beside the others"),
        ([2**63 + 1, 2], "beside the others; accepted: values that an array can hold together"),
        ([1 + 2**60, 2j], "beside the others"),
        (["a", 1], "n = 1 becomes '1' beside the others"),
        ([True, 2.0], r"n = True becomes 1\.0 beside the others; accepted"),
        ([2, np.bool_(False)], "n = False becomes 0 beside the others"),
        ((1 + 1j, True), "n = True becomes "),
        ([b"a\0", b"b"], "beside the others"),
    ],
)
def test_no_value_is_changed_before_it_is_priced(values, words):
    """Lists of several lengths were an error of NumPy; masked values were priced; large integers became floats."""
    with pytest.raises(ac.ParameterError, match=words) as caught:
        ac.sweep(lambda n: pytest.fail(f"made of {n}"), {"n": values})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        [2**53, 0.5],
        [2**53 + 1, 2**62],
        [2**64 + 1, 0.5],
        [math.nan, 1.0],
        [None, 1],
        [np.float32(0.1), 1.5],
        np.ma.masked_array([1.0, 2.0], [False, False]),
        (1, 2),
        [np.int64(2**53), np.float64(0.5)],
        [True, np.bool_(False)],
    ],
)
def test_values_reach_the_function_as_they_are(values):
    seen = []

    def make(n):
        seen.append(n)
        return ac.Gaussian(9.0)

    found = ac.sweep(make, {"n": values}, n_jobs=1)["n"].tolist()
    for reached in (seen[-2:], found):
        assert all(a == b or (a != a and b != b) for a, b in zip(reached, list(values), strict=True))


def test_missing_values_of_pandas_are_refused_in_a_line():
    """They equal nothing, not even themselves: an error of two lines by its type."""
    pandas = pytest.importorskip("pandas")
    for values in (pandas.Series([3, None], dtype="Int64"), [0.5, pandas.NA], [3, pandas.NA], pandas.NA):
        with pytest.raises(ac.ParameterError, match="missing values; accepted: values that are there") as caught:
            ac.sweep(lambda n: pytest.fail(f"made of {n}"), {"n": values})
        assert "\n" not in str(caught.value)
    whole = pandas.Series([2**53 + 1, 2], dtype="Int64")
    assert ac.sweep(lambda n: ac.Gaussian(9.0), {"n": whole}, n_jobs=1)["n"].tolist() == [2**53 + 1, 2]


def test_numbers_of_pyarrow_are_numbers():
    """Floats were refused, as their scalars equal none of Python."""
    arrow = pytest.importorskip("pyarrow")
    assert ac.sweep(ac.Gaussian, {"sigma": arrow.array([1.5, 2.5])}, n_jobs=1)["sigma"].tolist() == [1.5, 2.5]


def gaussians(sigma, count):
    return count * ac.Gaussian(sigma)


@pytest.mark.audit
def test_workers_do_not_change_the_result():
    pytest.importorskip("joblib")
    grid = {"sigma": np.geomspace(1, 1e3, BLOCK // 2 + 1), "count": [1, 20, 300]}
    alone = ac.sweep(gaussians, grid, n_jobs=1)
    shared = ac.sweep(gaussians, grid, n_jobs=2, backend="loky")
    assert all(np.array_equal(alone[name], shared[name]) for name in alone)
    threads = ac.sweep(gaussians, grid, n_jobs=2, backend="threading")
    assert np.array_equal(alone["epsilon"], threads["epsilon"])


def watched_gaussian(sigma, path):
    """Writes down which process made it."""
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")
    return ac.Gaussian(sigma)


@pytest.mark.audit
@pytest.mark.parametrize(("method", "size"), [("renyi", 2 * BLOCK + 100), ("tight", 100)])
def test_workers_are_started_only_where_they_are_done_sooner(tmp_path, monkeypatch, method, size):
    """Wherever this process leaves off, the table is the same."""
    pytest.importorskip("joblib")
    grid = {"sigma": np.geomspace(1.0, 1e3, size)}
    alone = ac.sweep(ac.Gaussian, grid, method=method, n_jobs=1)
    monkeypatch.setattr(sweeps, "LOOK", 0.0)
    for start, shared in ((math.inf, False), (0.0, True)):
        monkeypatch.setattr(sweeps, "START", start)
        path = tmp_path / str(start)
        found = ac.sweep(partial(watched_gaussian, path=str(path)), grid, method=method, n_jobs=2)
        assert np.array_equal(alone["epsilon"], found["epsilon"])
        makers = set(path.read_text().split())
        assert str(os.getpid()) in makers
        assert (len(makers) > 1) == shared


def test_few_seconds_of_work_are_not_shared():
    pytest.importorskip("joblib")
    assert not sweeps._is_shared_sooner(sweeps.START, 64)
    assert not sweeps._is_shared_sooner(1.9 * sweeps.START, 2)
    assert sweeps._is_shared_sooner(2.1 * sweeps.START, 2)
    assert sweeps._is_shared_sooner(1.1 * sweeps.START, 64)
    assert not sweeps._is_shared_sooner(1e9, 1)


def test_settings_that_are_priced_one_by_one_are_shared_fairly():
    from accountant.sweep import Call, block_length, check_task

    prices = {"conversion": "improved", "tolerance": 0.01}
    tight, together = (check_task(1e-5, None, "raise", method=method, **prices) for method in ("tight", "renyi"))
    call = Call(ac.Gaussian, ("sigma",), by_keyword=False)
    assert block_length(call, tight, [(2.0,)], 100, 2) == 7
    assert block_length(call, tight, [(2.0,)], 10**6, 2) == BLOCK
    assert block_length(call, together, [(2.0,)], 100, 2) == BLOCK


@pytest.mark.filterwarnings("ignore:Creating scratch directories is taking")  # on a slow disk
def test_a_dask_cluster_gives_the_same():
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("joblib")
    grid = {"sigma": np.geomspace(1, 1e3, BLOCK // 2 + 1), "count": [1, 20, 300]}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        found = ac.sweep(gaussians, grid, backend="dask")
    assert np.array_equal(found["epsilon"], ac.sweep(gaussians, grid, n_jobs=1)["epsilon"])


# --- the compiled search for an order -------------------------------------------------------------------------


@pytest.mark.each_run(11)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("conversion", ["improved", "classic"])
def test_no_order_of_a_fine_grid_is_better(seed, conversion):
    """Also where the curve turns steep at once, or the worst pair jumps."""
    dice = random.Random(seed)
    run = ac.Composition()
    for _ in range(dice.choice([1, 1, 2, 3])):
        events = [
            ac.Gaussian(10 ** dice.uniform(-1, 3)),
            sampled(ac.Gaussian(10 ** dice.uniform(-0.5, 2)), 10 ** dice.uniform(-5, -0.1)),
            sampled(ac.NoisyScreening(10 ** dice.uniform(-1, 2), dice.uniform(0, 60), 50), 10 ** dice.uniform(-3, 0)),
            ac.ZeroConcentratedDP(10 ** dice.uniform(-6, 0)),
        ]
        run = run + int(10 ** dice.uniform(0, 4)) * dice.choice(events)
    delta = 10 ** dice.uniform(-12, -2)
    price = ac.epsilon(run, delta, conversion=conversion)
    near = (price.order - 1) * np.exp(np.linspace(-1, 1, 41) ** 3) if price.order < math.inf else np.array([1.0])
    b = np.concatenate([near, np.geomspace(1e-9, 1e12, 400)])
    b = (1 + b) - 1
    values = epsilon_from_renyi(conversion, b, run.renyi(1 + b), math.log(delta))
    assert price.epsilon <= values.min() * (1 + 1e-11)
    if price.order < math.inf:
        at = np.array([price.order - 1])
        again = epsilon_from_renyi(conversion, at, run.renyi(1 + at), math.log(delta))[0]
        assert price.epsilon == pytest.approx(again, rel=1e-11)


@pytest.mark.parametrize(("mu", "order"), [(1e-3, 2), (1e-3, 900), (0.3, 3), (0.3, 60), (1.0, 2), (1.0, 17), (3.0, 3)])
@pytest.mark.parametrize("rate", [1e-9, 0.01, 0.9])
def test_moments_are_binomial_sums_at_integer_orders(mu, rate, order):
    """E[(P/Q)^a] = sum_j C(a,j) (1-g)^(a-j) g^j e^{j(j-1) mu^2/2}, and G' by differences of neighbouring orders."""
    mean, second, third = moments(order - 1.0, mu, rate)
    with mp.workdps(60):
        g, m = mpf(rate), mpf(mu)
        whole = mp.fsum(
            mp.binomial(order, j) * (1 - g) ** (order - j) * g**j * mp.exp(j * (j - 1) * m * m / 2)
            for j in range(order + 1)
        )
        true = (whole - 1) / (order - 1)
    assert float(abs(mean / true - 1)) < 1e-12
    b, step = order - 1.0, 3e-5
    low, high = (moments(b * (1 + sign * step), mu, rate)[0] * b * (1 + sign * step) for sign in (-1, 1))
    assert second + b * mean == pytest.approx((high - low) / (2 * step), rel=1e-4)
    assert third == pytest.approx((high - 2 * b * mean + low) / step**2, rel=3e-3)


def test_moments_do_not_stop_before_a_far_second_peak():
    """With little noise the two components lie apart, and between them nothing adds up."""
    value = float(sampled(ac.Gaussian(10**-1.5), 0.5).renyi(2))
    assert value == pytest.approx(998.6137056388802, rel=1e-13)


# --- the worst pair of counts --------------------------------------------------------------------------------


def settings_of_screenings(n, seed):
    dice = random.Random(seed)
    for _ in range(n):
        high = dice.choice([1, 2, 3, 40, 300])
        low = dice.choice([0, 0, dice.randrange(high)])
        sigma = dice.choice([10 ** dice.uniform(-3, 5), high * 10 ** dice.uniform(-2, 1)])
        threshold = dice.choice([dice.uniform(-high, 2 * high), dice.uniform(0, high), 10 * sigma, float(high)])
        rate = dice.choice([1.0, 10 ** dice.uniform(-12, 0), dice.uniform(0.01, 0.99)])
        yield sigma, threshold, low, high, rate, 10 ** dice.choice([dice.uniform(-8, 0), dice.uniform(-1, 3), 9.0])


@pytest.mark.parametrize("seed", range(4))
def test_the_worst_pair_is_found_wherever_it_lies(seed):
    for sigma, threshold, low, high, rate, b in settings_of_screenings(60, seed):
        every = [log_mean_of(b, pair_at(float(t), sigma, threshold, rate), rate) for t in range(low, high)]
        every += [log_mean_of(b, pair_at(float(t), sigma, -threshold, rate), rate) for t in range(-high, -low)]
        found, count, side = worst_pair(b, sigma, threshold, float(low), float(high), rate, threshold, 1.0)
        where = (sigma, threshold, low, high, rate, b, count, side)
        assert max(every) <= found <= max(every) + 2 * SLACK * (1 + abs(found)), where


@pytest.mark.parametrize("seed", range(4))
def test_no_pair_exceeds_the_bound_of_its_block(seed):
    dice = random.Random(seed)
    for sigma, threshold, _, high, rate, b in settings_of_screenings(150, 100 + seed):
        left = dice.uniform(-high, high)
        right = left + 10 ** dice.uniform(-2, 3)
        middle = left + (right - left) * dice.uniform(0.05, 0.95)
        at = partial(pair_at, sigma=sigma, threshold=threshold, rate=rate)
        ends = at(left), at(right)
        passed, failed, *_ = at(middle)
        bounds = [
            bound_between(b, left, right, *ends, middle, passed, failed, rate, backward)
            for backward in ((False, True) if rate < 1.0 else (False,))
        ]
        for t in np.linspace(left, right, 60):
            inside = log_mean_of(b, at(float(t)), rate)
            assert inside <= max(bounds) + 1e-11 * (1 + abs(inside)), (
                sigma,
                threshold,
                rate,
                b,
                left,
                middle,
                right,
                t,
            )


def test_a_step_across_the_threshold_is_not_missed():
    """At little noise one pair costs twelve times the next: a search by blocks once passed it by."""
    sigma, threshold, rate, order = 0.08548179574760602, 1018.1454915618, 0.6142709841858889, 1.0000482641871642
    event = sampled(ac.NoisyScreening(sigma, threshold, 2000), rate)
    pairs = definitions.screening_pairs(mpf(sigma), mpf(threshold), 1010, 1026, mpf(rate))
    with mp.workdps(60):
        true = definitions.worst_renyi(pairs, mpf(order))
    assert float(event.renyi(order)) == pytest.approx(float(true), rel=1e-11)


@pytest.mark.parametrize("votes", [10**5, 10**7])
def test_many_votes_cost_as_the_pairs_around_the_worst(votes):
    """The worst of very many pairs, against all pairs within six standard deviations of a few candidates."""
    event = ac.NoisyScreening(0.1 * votes, 0.6 * votes, votes)
    small = ac.NoisyScreening(0.1 * 1000, 0.6 * 1000, 1000)
    # h^2 times the same function of (t - T)/sigma, to second order in h
    assert float(event.renyi(3.0)) * votes**2 == pytest.approx(float(small.renyi(3.0)) * 1000**2, rel=1e-4)


@pytest.mark.each_run(1)
@pytest.mark.parametrize("h", audit_after(5, [1e-6, 0.19, 0.21, 8.1, 100.0, 1e-3, 1.0, 7.9]))
def test_steps_of_log_phi(h):
    points = [sign * x for x in (0.0, 1e-3, 0.4, 1.7, 6.9, 7.1, 12.0, 31.0) for sign in (-1, 1)] + [-h / 2, -h]
    for x in points:
        with mp.workdps(700):
            low, high = mpf(x), mpf(x) + mpf(h)
            phi = [mp.erfc(sign * z / mp.sqrt(2)) / 2 for z in (low, high) for sign in (-1, 1)]
            true = mp.log(phi[0]), mp.log(phi[1]), mp.log(phi[2] / phi[0]), mp.log(phi[3] / phi[1])
            for ours, exact in zip(log_phi_steps(x, h), true, strict=True):
                if abs(exact) > 1e-290:
                    assert float(abs(ours / exact - 1)) < 1e-11 or abs(exact) < 1e-15, (x, h, ours, exact)


@pytest.mark.parametrize("conversion", ["classic", "improved"])
def test_a_curve_that_leaps_up_has_one_price_wherever_the_search_begins(conversion):
    """At orders of 4e9 the best order is known to 1e-8 by differences: values near it are looked at themselves."""

    def make(sigma):
        return ac.PoissonSubsampled(ac.Gaussian(sigma), 1e-9)

    found = ac.sweep(make, {"sigma": [1.0, 9e3, 1e4, 1.1e4]}, delta=1e-12, conversion=conversion)
    one = ac.epsilon(make(1e4), 1e-12, conversion=conversion)
    assert found["epsilon"][2] == pytest.approx(one.epsilon, rel=1e-13)
    assert one.epsilon <= {"classic": 6.6666667e-9, "improved": 1.08234299e-9}[conversion]
