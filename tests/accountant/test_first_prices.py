"""A first price compiles the kinds of events that its run holds, and is the same number as a later one."""

import numpy as np
import pytest
from mpmath import mp

import accountant as ac
from accountant.events.answers import LINEAR
from accountant.events.subsampled_moments import cumulant_apart
from accountant.renyi import order_search, rows
from accountant.renyi.conversion import epsilon_from_renyi, log_delta_from_renyi
from accountant.renyi.order_search import CLASSIC_DELTA, CLASSIC_EPSILON, IMPROVED_EPSILON, best_orders

SAMPLED = 1000 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01)
SCREENED = 100 * ac.PoissonSubsampled(ac.NoisyScreening(8.0, 20.0, 40), 0.1)
ORDERS = (np.log(1e-9), np.log(1e12))


@pytest.fixture
def asked(monkeypatch):
    """Names of the curves that are compiled, in a process that has compiled none."""
    names = []

    def address_of(function):
        names.append(function.__name__)
        return rows.curve_by_address.address_of(function)

    monkeypatch.setattr(rows, "_addresses", np.zeros_like(rows._addresses))
    monkeypatch.setattr(rows, "_known", {LINEAR})
    monkeypatch.setattr(rows, "_address_of", address_of)
    return names


def best(run, given=-11.5, rule=CLASSIC_EPSILON):
    found = best_orders([run], np.array([given]), rule, *ORDERS)
    return np.concatenate(found[:3]).tolist()


@pytest.mark.parametrize(
    ("run", "curves"),
    [
        (10 * ac.Gaussian(20.0), []),
        (SAMPLED, ["gaussian_row"]),
        (10 * ac.Laplace(20.0) + ac.Gaussian(20.0), ["pure_row"]),
        (10 * ac.RandomizedResponse(0.1), ["pure_row"]),
        (SCREENED, ["screening_row"]),
    ],
)
def test_curves_that_a_run_does_not_hold_are_not_compiled(run, curves, asked):
    first = best(run)
    assert asked == curves
    assert best(run) == first
    assert asked == curves


# the best order of the first is where moments end and there is no closed form yet, that of the second would cancel
RARE = 1000 * ac.PoissonSubsampled(ac.Gaussian(20.0), 2.5e-5)
BEYOND = [(RARE, -14.0, CLASSIC_EPSILON), (100 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.995), -11.5, CLASSIC_EPSILON)]


@pytest.mark.parametrize("hard", BEYOND)
def test_prices_do_not_depend_on_what_was_compiled_before(hard, asked):
    easy = best(SAMPLED)
    assert asked == ["gaussian_row"]
    found = best(*hard)
    assert asked == ["gaussian_row", "gaussian_row_anywhere"]
    assert np.isfinite(found[:2]).all()
    assert best(*hard) == found
    assert best(SAMPLED) == easy


def test_many_runs_of_which_one_reaches_beyond(asked):
    runs, given = [RARE, SAMPLED + SCREENED], np.array([2e-3, 1.0])
    together = np.stack(best_orders(runs, given, CLASSIC_DELTA, *ORDERS)[:3])
    assert sorted(asked) == ["gaussian_row", "gaussian_row_anywhere", "screening_row"]
    again = np.stack(best_orders(runs, given, CLASSIC_DELTA, *ORDERS)[:3])
    assert np.array_equal(together, again)


# a closed form reaches orders at which moments overflow
@pytest.mark.parametrize(
    "far", [(SAMPLED, 1e9, CLASSIC_DELTA), (1 * ac.PoissonSubsampled(ac.Gaussian(0.01), 0.5), -1e-3, CLASSIC_EPSILON)]
)
def test_far_components_need_no_other_curve(far, asked):
    found = best(*far)
    assert asked == ["gaussian_row"]
    assert np.isfinite(found[:2]).all()


@pytest.mark.parametrize("sigma", [0.02, 0.08, 0.3, 1.0, 20.0])
@pytest.mark.parametrize("rate", [1e-6, 2.5e-5, 0.003])
def test_best_orders_are_found_soon(sigma, rate, monkeypatch):
    """Curves of samples leap up where their rate hides them no more: the best order is often just before."""
    run = 1000 * ac.PoissonSubsampled(ac.Gaussian(sigma), rate)
    table, asked, total, polish = rows.table_of(run.entries), [], order_search.total, order_search.polish
    state = np.array([[1000.0, 0.0, 0.0]])
    entries = order_search.Entries(table, state, rows.addresses_anywhere(table), 0, 1, 1, 1.0, False)
    target = order_search.Target(np.log(1e-6), IMPROVED_EPSILON, *ORDERS)
    first = order_search.first_guess(entries, target)
    monkeypatch.setattr(order_search, "total", lambda run, b: asked.append(b) or total(run, b))
    monkeypatch.setattr(order_search, "polish", polish.function)
    b, curve = order_search.search.function(entries, target, first)
    assert len(asked) <= 2 * order_search.STEPS
    nearby = b * np.exp(np.concatenate([np.linspace(-1.0, 1.0, 41), np.linspace(-1e-6, 1e-6, 41)]))
    least = np.min(epsilon_from_renyi("improved", nearby, run.renyi(1 + nearby), np.log(1e-6)))
    assert epsilon_from_renyi("improved", np.array([b]), np.array([curve]), np.log(1e-6))[0] <= least * (1 + 1e-12)


@pytest.mark.parametrize(
    ("b", "mu", "rate"),
    [(1e-7, 60.0, 0.3), (0.003, 200.0, 1e-9), (0.02, 50.0, 0.01), (0.7, 30.0, 1e-12), (9.0, 8.0, 0.5)],
)
def test_derivatives_of_far_components(b, mu, rate):
    def cumulant(x):
        rest = mp.mpf(rate)
        return mp.log((1 - rest) ** (1 + x) + rest ** (1 + x) * mp.exp(x * (1 + x) * mp.mpf(mu) ** 2 / 2))

    with mp.workdps(50):
        first, second = mp.diff(cumulant, b), mp.diff(cumulant, b, 2)
        wanted = [cumulant(mp.mpf(b)) / b, b * first - cumulant(mp.mpf(b)), b**2 * second]
    found = cumulant_apart(b, mu, rate)
    assert found.value == pytest.approx(float(wanted[0]), rel=1e-13)
    assert found.first == pytest.approx(float(wanted[1]), rel=2e-3)
    assert found.second == pytest.approx(float(wanted[2]), rel=1e-6)


def test_a_search_beyond_is_made_anew(asked, monkeypatch):
    calls = []
    search = order_search.search_all
    monkeypatch.setattr(order_search, "search_all", lambda *given: calls.append(search(*given)) or calls[-1])
    best(*BEYOND[0])
    best(*BEYOND[0])
    best(SAMPLED)
    assert [each.beyond for each in calls] == [True, False, False, False]


def test_curves_where_moments_are_floats_and_where_they_are_not():
    """A grid that mixes them has at every order the value that this order has by itself."""
    event = ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01)
    orders = np.array([1.0, 1.5, 7.0, 64.0, 4097.0, 1e12])
    assert event.renyi(orders).tolist() == [float(event.renyi(order)) for order in orders]


@pytest.mark.parametrize("rule", range(4))
def test_prices_are_converted_as_everywhere(rule):
    rng = np.random.default_rng(rule)
    b, curves = 10 ** rng.uniform(-9, 12, 500), 10 ** rng.uniform(-12, 12, 500)
    convert = epsilon_from_renyi if rule <= IMPROVED_EPSILON else log_delta_from_renyi
    name = "classic" if rule in (CLASSIC_EPSILON, CLASSIC_DELTA) else "improved"
    given = np.log(1e-300) * rng.random(500) if rule <= IMPROVED_EPSILON else curves * 2 * rng.random(500)
    found = [order_search.price_at(rule, *each) for each in zip(given, b, curves, strict=True)]
    said = [convert(name, *np.array([[one], [curve]]), at)[0] for one, curve, at in zip(b, curves, given, strict=True)]
    assert found == pytest.approx(said, rel=1e-15, abs=1e-300)


def test_an_epsilon_of_0_is_told_at_the_best_order():
    """What is below 0 is still searched: orders at which it is 0 are not alike."""
    run, given = 1 * ac.Gaussian(1e3), np.log(0.5)
    found = ac.epsilon(run, 0.5, method="renyi")
    there, *beside = (
        order_search.value(IMPROVED_EPSILON, given, order - 1, run.renyi(order))
        for order in (found.order, 1.1 * found.order, found.order / 1.1)
    )
    assert found.epsilon == 0.0 > there
    assert there < min(beside)
