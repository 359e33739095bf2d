"""Selection: bounds against enumeration of every order of scores, limits, peers and refusals."""

import contextlib
import itertools
import json
import math
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import accountant as ac
from accountant import patience, tried_runs
from accountant.cli import main
from accountant.events.finite_pairs import FinitePair
from accountant.renyi import route
from accountant.renyi.many_epsilons import bound_deltas
from accountant.renyi.route import LONG, renyi_delta, renyi_epsilon
from accountant.selection import DRAWN
from tests.cases import count_calls


@dataclass(frozen=True)
class Finite(ac.Event):
    """P against Q on a few outcomes."""

    p: tuple[int, ...] = (1,)
    q: tuple[int, ...] = (1,)
    adjacency: ac.Adjacency = field(default=ac.Adjacency.ADD_REMOVE)

    def probabilities(self):
        return tuple([Fraction(each, sum(weights)) for each in weights] for weights in (self.p, self.q))

    def _pair(self):
        p, q = (np.array([float(each) for each in part]) for part in self.probabilities())
        return FinitePair(np.log(p), np.log(q), np.log(p) - np.log(q))

    def _curve(self, orders):
        return self._pair().curve(orders)

    def _log_profile(self, epsilons):
        return self._pair().log_profile(epsilons)

    def _profile_knots(self):
        return tuple(abs(each) for each in self._pair().losses.tolist() if each)


def generating(tries, s):
    """E s^K, from the distribution itself."""
    if isinstance(tries, ac.Poisson):
        return mp.exp(tries.mean * (s - 1))
    if tries.shape == 1:
        g = mp.mpf(1) / tries.mean
        return g * s / (1 - (1 - g) * s)
    if tries.shape == 0:
        g = mp.findroot(lambda g: (1 / g - 1) / mp.log(1 / g) - tries.mean, (mp.mpf("1e-6"), 0.999), solver="anderson")
        return mp.log(1 - (1 - g) * s) / mp.log(g)
    h = tries.shape
    g = mp.findroot(lambda g: h * (1 - g) / (g * (1 - g**h)) - tries.mean, (mp.mpf("1e-6"), 0.999), solver="anderson")
    return ((1 - (1 - g) * s) ** -h - 1) / (g**-h - 1)


def best_of(weights, ranking, tries):
    """Probabilities of the outcomes of a selection, then of no try; `ranking` has groups of equals, the worst first.

    Ties are broken at random.
    """
    found, below = {}, Fraction(0)
    for group in ranking:
        mass = sum(weights[each] for each in group)
        low, high = (generating(tries, mp.mpf(x.numerator) / x.denominator) for x in (below, below + mass))
        for each in group:
            share = weights[each] / mass
            found[each] = (high - low) * mp.mpf(share.numerator) / share.denominator
        below += mass
    return [found[each] for each in range(len(weights))] + [generating(tries, mp.mpf(0))]


def rankings(size):
    """All orders of the scores of so many outcomes, with ties."""
    for levels in itertools.product(range(size), repeat=size):
        if set(levels) == set(range(max(levels) + 1)):
            yield [[each for each in range(size) if levels[each] == level] for level in range(max(levels) + 1)]


TRIES = [
    ac.Poisson(3.0),
    ac.Poisson(0.4),
    ac.Geometric(4.0),
    *(ac.NegativeBinomial(3.0, shape) for shape in (0.0, 0.5)),
]


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=2, max_size=3),
    st.sampled_from(TRIES),
    st.sampled_from([1.3, 2.0, 7.0, 40.0]),
)
def test_no_order_of_scores_costs_more(pairs, tries, order):
    event = Finite(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))
    selection = ac.Selection(event, tries)
    bound, at_infinity = float(selection.renyi(order)), float(selection.renyi(math.inf))
    delta = 0.01
    price = selection.guarantee(delta).epsilon
    assert price <= ac.epsilon(selection, delta, method="renyi").epsilon
    with mp.workdps(40):
        for ranking in rankings(len(pairs)):
            both = [best_of(part, ranking, tries) for part in event.probabilities()]
            for p, q in (both, both[::-1]):
                rows = [(a, b) for a, b in zip(p, q, strict=True) if a > 0]
                moment = mp.fsum(a**order * b ** (1 - order) for a, b in rows)
                assert mp.log(moment) / (order - 1) <= bound + 1e-12
                assert max(mp.log(a / b) for a, b in rows) <= at_infinity + 1e-12
                assert mp.fsum(max(a - mp.exp(price) * b, 0) for a, b in rows) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("tries", [*TRIES, ac.Geometric(1.0), ac.NegativeBinomial(1e6, 3.0)])
def test_the_mean_is_that_of_the_distribution(tries):
    with mp.workdps(40):
        slope = mp.diff(lambda s: generating(tries, s), 1) if tries.mean > 1 and tries.mean < 1e3 else tries.mean
    assert float(tries.log_slope(np.zeros(1))[0]) == pytest.approx(math.log(float(slope)), rel=1e-9, abs=1e-9)
    x = np.array([0.3, 0.9])
    if 1 < tries.mean < 1e3:
        with mp.workdps(40):
            exact = [float(mp.log(mp.diff(lambda s: generating(tries, s), 1 - mp.mpf(each)))) for each in x]
        assert tries.log_slope(x) == pytest.approx(exact, rel=1e-9)


def test_limits():
    orders = np.array([1.5, 4.0, 30.0, math.inf])
    one = ac.Laplace(2.0)
    assert ac.Selection(one, ac.Geometric(1.0)).renyi(orders) == pytest.approx(one.renyi(orders), rel=1e-8)
    free = ac.Selection(ac.PureDP(1e-9), ac.Geometric(10.0)).renyi(orders)
    assert (free < 1e-8).all()
    assert float(ac.Selection(ac.PureDP(0.5), ac.Poisson(1e-9)).renyi(2.0)) < 1e-8
    many = [float(ac.Selection(ac.PureDP(0.5), ac.Geometric(mean)).renyi(math.inf)) for mean in (2.0, 10.0, 1e9)]
    assert many == sorted(many)
    # Liu & Talwar 2019: three epsilon
    assert 1.499 < many[-1] <= 1.5 + 1e-9


@pytest.mark.parametrize("mean", [2.0, 100.0])
@pytest.mark.parametrize("rho", [0.1])
def test_never_above_the_printed_theorems(mean, rho):
    """Papernot & Steinke 2022, Thm 2 (shape 1) with the best second order, and Thm 6 by the profile."""
    event, orders = ac.ZeroConcentratedDP(rho), np.array([2.0, 5.0, 20.0])
    others = np.geomspace(1.01, 1e4, 4000)
    second = float(np.min(2 * ((1 - 1 / others) * rho * others + math.log(mean) / others)))
    printed = rho * orders + second + math.log(mean) / (orders - 1)
    assert (ac.Selection(event, ac.Geometric(mean)).renyi(orders) <= printed).all()
    for order in orders.tolist():
        inner = ac.delta(event, math.log1p(1 / (order - 1)), method="renyi").delta
        printed = rho * order + mean * inner + math.log(mean) / (order - 1)
        none = math.exp(-mean) * math.exp(-(order - 1) * printed) / (order - 1)  # the outcome of no try
        assert float(ac.Selection(event, ac.Poisson(mean)).renyi(order)) <= (printed + none) * 1.002


def test_whole_runs():
    run = 20 * ac.Gaussian(20.0) + 1 * ac.Gaussian(30.0)
    selection = ac.Selection(run, ac.Geometric(8.0))
    assert selection.adjacency is ac.Adjacency.ADD_REMOVE
    single, chosen = ac.epsilon(run, 1e-6), selection.guarantee(1e-6)
    assert single.epsilon < chosen.epsilon < 3 * single.epsilon
    assert chosen.lower is None
    twice = ac.epsilon(2 * selection, 1e-6, method="renyi").epsilon
    assert chosen.epsilon < twice < 2 * ac.epsilon(selection, 1e-6, method="renyi").epsilon + 1e-9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ac.Selection(ac.Composition(), ac.Geometric(2.0)), "accepted: an event, a composition of some"),
        (lambda: ac.Selection(ac.Gaussian(1.0), 40), r"tries = 40; accepted: ac\.Poisson"),
        (lambda: ac.Poisson(0.0), "mean = 0 is out of range"),
        (lambda: ac.Geometric(0.5), "mean = 0.5 is out of range"),
        (lambda: ac.NegativeBinomial(2.0, -0.5), "shape = -0.5 is out of range"),
        (lambda: ac.Selection([], ac.Geometric(2.0)), r"event = \[\]; accepted: an event, a composition"),
        (lambda: ac.Selection([ac.Gaussian(1.0), 3], ac.Geometric(2.0)), "event: 3 among settings; accepted"),
        (lambda: ac.Selection([ac.Composition()], ac.Geometric(2.0)), r"event: Composition\(\) among settings"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ac.ParameterError, match=message):
        make()


def test_no_pure_price_without_a_pure_limit():
    with pytest.raises(ac.NoGuarantee):
        ac.Selection(ac.Gaussian(1.0), ac.Geometric(3.0)).guarantee(0.0)


@pytest.mark.parametrize(
    ("tried", "tries", "delta"),
    [
        (ac.Gaussian(2.0), ac.Poisson(3.0), 0.05),
        (20 * ac.Gaussian(20.0), ac.Geometric(40.0), 1e-6),
        ([ac.PureDP(0.3), ac.Laplace(2.0)], ac.Geometric(4.0), 0.0),
        (ac.ApproximateDP(1.0, 1e-7), ac.Geometric(4.0), 1e-5),
    ],
)
def test_plan_price_and_guarantee_agree(tmp_path, capsys, tried, tries, delta):
    """A single selection has one price, the smaller of that of its curve and of its shifted profile."""
    selection = ac.Selection(tried, tries)
    price = selection.guarantee(delta)
    assert price == ac.epsilon(selection, delta) == ac.epsilon(1 * selection, delta)
    assert ac.epsilon(selection, delta, method="auto").epsilon == price.epsilon
    (tmp_path / "plan.toml").write_text((1 * selection).to_toml(delta=delta))
    assert main(["epsilon", str(tmp_path / "plan.toml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["epsilon"] == price.epsilon
    alone = selection._alone(delta)
    with contextlib.suppress(ac.NoGuarantee):  # the curve may be infinite
        curve = renyi_epsilon(1 * selection, delta, "improved").epsilon
        assert price.epsilon == (curve if alone is None else min(curve, alone.epsilon))
        assert ac.epsilon(2 * selection, delta).source is None


def test_a_plan_says_what_is_tried(tmp_path, capsys):
    selection = ac.Selection([20 * ac.PoissonSubsampled(ac.Gaussian(1.1), 0.25), ac.Laplace(2.0)], ac.Poisson(4.0))
    (tmp_path / "plan.toml").write_text((1 * selection).to_toml(delta=1e-3))
    assert main(["epsilon", str(tmp_path / "plan.toml"), "--csv"]) == 0
    text = capsys.readouterr().out
    for words in (
        "20 x gaussian: sigma 1.1",
        "sampling_rate 0.25",
        "laplace: scale 2.0",
        "distribution poisson, mean 4.0",
    ):
        assert words in text


# --- several settings ------------------------------------------------------------------------------------

SETTINGS = Finite((5, 3, 2), (3, 3, 4)), Finite((6, 3, 1), (5, 2, 3)), Finite((2, 2, 6), (3, 1, 6))
ORDERS = [1.0, 1.2, 2.0, 5.0, 40.0, math.inf]


@pytest.mark.each_run(1)
@pytest.mark.parametrize("tries", [ac.Geometric(4.0), ac.Poisson(3.0), ac.NegativeBinomial(5.0, 0.0)], ids=repr)
def test_settings_cost_as_the_dearest(tries):
    """At least as much as each setting alone, and as a try that draws one of them, which is one run of its own."""
    chosen = ac.Selection(SETTINGS, tries)
    for each in SETTINGS:
        alone = ac.Selection(each, tries)
        assert (chosen.renyi(ORDERS) >= alone.renyi(ORDERS) * (1 - 1e-9)).all()
        assert chosen.guarantee(1e-3).epsilon >= alone.guarantee(1e-3).epsilon * (1 - 1e-9)
    joint = Finite(*(tuple(int(120 * part) for each in SETTINGS for part in each.probabilities()[i]) for i in (0, 1)))
    assert sum(joint.p) == sum(joint.q) == 360
    drawn = ac.Selection(joint, tries)
    assert (chosen.renyi(ORDERS) >= drawn.renyi(ORDERS) * (1 - 1e-9)).all()
    assert chosen.guarantee(1e-3).epsilon >= drawn.guarantee(1e-3).epsilon * (1 - 1e-9)


@pytest.mark.audit
@settings(max_examples=6, deadline=None, derandomize=True)
@given(data=st.data())
def test_the_best_of_drawn_settings_against_enumeration(data):
    """Every outcome is (setting, released value), ranked in any way, equals drawn by lot."""
    weights = st.lists(st.integers(1, 9), min_size=2, max_size=2)
    pairs = [(data.draw(weights), data.draw(weights)) for _ in range(2)]
    tries = data.draw(st.sampled_from([ac.Geometric(3.0), ac.Poisson(2.0), ac.NegativeBinomial(4.0, 0.0)]))
    order = data.draw(st.sampled_from([1.5, 3.0, 12.0]))
    chosen = ac.Selection([Finite(tuple(p), tuple(q)) for p, q in pairs], tries)
    joint = [[Fraction(each, 2 * sum(pair[i])) for pair in pairs for each in pair[i]] for i in (0, 1)]
    ranking = [[i] for i in data.draw(st.permutations(range(4)))]
    with mp.workdps(30):
        p, q = (best_of(each, ranking, tries) for each in joint)
        moment = mp.fsum(x**order * y ** (1 - order) for x, y in zip(p, q, strict=True) if x)
        assert float(mp.log(moment) / (order - 1)) <= float(chosen.renyi(order)) * (1 + 1e-9)


def test_settings_are_compositions_without_repetition():
    one, other = 3 * ac.Gaussian(2.0), ac.Laplace(3.0)
    assert ac.Selection([one, other, one], ac.Geometric(3.0)).event == (one, 1 * other)
    assert ac.Selection([one, one], ac.Geometric(3.0)) == ac.Selection(one, ac.Geometric(3.0))
    with pytest.raises(ac.AdjacencyMismatch):
        ac.Selection([one, ac.Gaussian(1.0, adjacency="replace")], ac.Geometric(3.0))


def test_cheaper_settings_change_no_price():
    dear, tries = 30 * ac.Gaussian(20.0), ac.Geometric(5.0)
    both = ac.Selection([dear, 20 * ac.Gaussian(20.0), 30 * ac.Gaussian(25.0)], tries)
    alone = ac.Selection(dear, tries)
    assert alone.guarantee(1e-6).epsilon <= both.guarantee(1e-6).epsilon <= 1.01 * alone.guarantee(1e-6).epsilon


def test_screenings_have_a_price():
    """Many screenings would take a game for each epsilon: the Rényi curve bounds their profile."""
    tried = 20 * ac.NoisyScreening(30.0, 60, 100) + 5 * ac.GNMax(20.0)
    found = ac.Selection(tried, ac.Geometric(3.0)).guarantee(1e-5)
    assert ac.epsilon(tried, 1e-5).epsilon < found.epsilon < 3 * ac.epsilon(tried, 1e-5).epsilon


# --- work ------------------------------------------------------------------------------------------------

BESIDE = 20 * ac.PoissonSubsampled(ac.Gaussian(1.1), 0.01) + ac.Laplace(2.0)


def count_searches(monkeypatch):
    return count_calls(monkeypatch, route, "_best_order")


@pytest.mark.audit
@pytest.mark.parametrize(
    "run",
    [
        3 * ac.PoissonSubsampled(ac.Selection(BESIDE, ac.Geometric(11.3)), 0.1),
        1 * ac.Selection([BESIDE, 2 * BESIDE], ac.Geometric(11.3)),
        1 * ac.Selection(ac.Selection(BESIDE, ac.Geometric(2.0)), ac.Poisson(11.3)) + ac.Gaussian(30.0),
    ],
    ids=["sampled", "settings", "nested"],
)
def test_the_profile_of_what_is_tried_is_counted(run, monkeypatch):
    """It took 320 searches for an order, and prices at 320 epsilons: half a minute at a patience of a fifth second."""
    searches = count_searches(monkeypatch)
    for seconds in (0.1, 0.1, 0.5):
        with patience.allow_work(seconds) as work:
            ac.epsilon(run, 1e-6)
        lines = 2 * DRAWN / patience.OPERATIONS_PER_SECOND  # which are drawn whatever the patience
        assert 0.2 * seconds < work.taken <= 1.01 * seconds + lines
    assert len(searches) < 100


def test_a_longer_patience_makes_what_is_tried_no_dearer():
    """A profile that was cut short for want of patience was kept for whoever had more."""
    selection = ac.Selection(30 * ac.PoissonSubsampled(ac.Gaussian(1.3), 0.02) + ac.Laplace(4.0), ac.Geometric(9.0))
    short = ac.epsilon(selection, 1e-6, patience=0.01).epsilon
    long = ac.epsilon(selection, 1e-6, patience=2.0).epsilon
    assert long < 0.9 * short
    assert ac.epsilon(selection, 1e-6, patience=0.01).epsilon == short


def test_what_is_kept_counts_again():
    selection = ac.Selection(BESIDE, ac.Geometric(7.7))
    taken = []
    for _ in range(2):
        with patience.allow_work(0.3) as work:
            selection.renyi(3.0)
            selection.renyi(4.0)
        taken.append(work.taken)
    assert taken[0] == taken[1] > 0.01


def test_curves_that_take_long_are_asked_at_fewer_orders_and_counted():
    bits = [ac.RandomizedResponse(0.3 + 0.01 * k, 40, adjacency="replace") for k in range(20)]
    tried = ac.Composition([(ac.FixedSizeSampled(each, 10, 1000), 3) for each in bits])
    few, many = (tried_runs.orders_of(tried, seconds).size for seconds in (1e-6, 1e6))
    assert few < 150 < 500 < many
    needed = few * tried._curve_work()
    assert needed > LONG
    with patience.allow_work(1e-9 * 0.9 * needed), pytest.raises(ac.OutOfPatience, match="of what is tried"):
        tried_runs.spend_on_curves((tried,), 1e-6)
    with patience.allow_work(1e-9 * 1.1 * needed) as work:
        tried_runs.spend_on_curves((tried,), 1e-6)
    assert work.spent == pytest.approx(needed)


@pytest.mark.parametrize("run", [BESIDE, 3 * ac.Gaussian(0.5), 10 * ac.SparseVector(10.0, 20.0, 1)], ids=str)
def test_many_deltas_are_as_good_as_searches(run):
    """From above, and as near as a grid of orders and one more order come to the best."""
    losses, b = np.array([0.0, 0.01, 0.3, 1.0, 4.0]), tried_runs.DISTANCES
    found = bound_deltas(run, losses, b, run.renyi(1 + b))
    best = [renyi_delta(run, epsilon, "improved").delta for epsilon in losses.tolist()]
    assert (found >= np.array(best) * (1 - 1e-9)).all()
    assert found == pytest.approx(best, rel=3e-3)
    coarse = bound_deltas(run, losses, b[::4], run.renyi(1 + b[::4]), nearer=False)
    assert (coarse >= found * (1 - 1e-12)).all()


# --- plans -----------------------------------------------------------------------------------------------

SAMPLED = 20 * ac.PoissonSubsampled(ac.Gaussian(1.1), 0.01)


@pytest.mark.parametrize(
    "selection",
    [
        ac.Selection(ac.Gaussian(1.1), ac.Poisson(3.25)),
        ac.Selection(1 * ac.Gaussian(1.1), ac.Geometric(1 / 3 + 2)),
        ac.Selection(SAMPLED + ac.Laplace(2.0), ac.NegativeBinomial(3.3, 0.1)),
        ac.Selection([SAMPLED, 2 * SAMPLED, ac.Laplace(0.1)], ac.Geometric(10.0)),
        ac.Selection(ac.Selection(SAMPLED, ac.Geometric(2.0)), ac.Poisson(2.0)),
        ac.Selection(ac.FixedSizeSampled(ac.ClippedSum(1.1, adjacency="replace"), 3, 40), ac.Geometric(2.0)),
    ],
    ids=repr,
)
def test_plans_read_back_what_a_run_wrote(tmp_path, selection):
    run = 3 * selection + 2 * ac.Gaussian(3.0, adjacency=selection.adjacency)
    (tmp_path / "plan.toml").write_text(run.to_toml(delta=1e-5))
    assert ac.load_plan(tmp_path / "plan.toml").run == run
    assert ac.composition_from_tables(ac.composition_to_tables(run)) == run


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('tries = {distribution = "binomial", mean = 3}', "tries: .*accepted: distribution, and what belongs to it"),
        ("tries = 40", "tries: 40; accepted: distribution, and what"),
        ('tries = {distribution = "poisson", mean = 3, shape = 1}', "accepted: distribution, and what belongs to it"),
        ('tries = {distribution = "poisson", mean = -3}', "mean = -3 is out of range"),
        ("", "tries missing; selection needs of, tries"),
    ],
)
def test_plans_refuse_tries(tmp_path, lines, words):
    text = f'[[release]]\nevent = "selection"\nof = {{event = "gaussian", sigma = 2}}\n{lines}\n'
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(ac.PlanError, match=words) as caught:
        ac.load_plan(tmp_path / "plan.toml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("of", "words"),
    [
        ("[]", r"event = \[\]; accepted: an event, a composition"),
        ("3", "event = 3; accepted: an event"),
        ('[{event = "gaussian", sigma = 2, count = -1}]', "count = -1"),
        ('[[{event = "gaussian", sigma = 2}], [3]]', "3; accepted: tables of events"),
        ('[{event = "gaussian"}]', "of 1: sigma missing"),
        ('[{event = "gaussian", sigma = 2, name = "a"}]', "unknown key 'name'"),
    ],
)
def test_plans_refuse_what_is_tried(tmp_path, of, words):
    text = f'[[release]]\nevent = "selection"\nof = {of}\ntries = {{distribution = "geometric", mean = 2}}\n'
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(ac.PlanError, match=words) as caught:
        ac.load_plan(tmp_path / "plan.toml")
    assert "\n" not in str(caught.value)


def test_a_plan_states_a_tuned_training_as_a_recipe(tmp_path):
    """What is tried may state records, batch and epochs, and has the plan's adjacency."""
    text = """adjacency = "replace"
[[release]]
event = "selection"
tries = {distribution = "geometric", mean = 10}
[[release.of]]
event = "clipped-sum"
noise_multiplier = 1.5
records = 1000
batch = 10
epochs = 2
"""
    (tmp_path / "plan.toml").write_text(text)
    step = ac.PoissonSubsampled(ac.ClippedSum(1.5, adjacency="replace"), 0.01)
    assert ac.load_plan(tmp_path / "plan.toml").run == 1 * ac.Selection(200 * step, ac.Geometric(10.0))


def test_votes_that_were_cast_are_not_tried():
    """Their profile compares them with a neighbour's in one order: the best of geometrically many tries costs more.

    Of 8 against 0 votes with sigma 2 and ten tries epsilon was 0.0383 at delta 0.05, where an attacker has 0.09.
    """
    votes = ac.DataDependentGNMax(2.0, (0.0, 8.0))
    for tried in (votes, 3 * votes, [3 * votes, ac.Gaussian(2.0)], ac.Gaussian(2.0) + votes):
        with pytest.raises(ac.DataDependentError, match="in one order only"):
            ac.Selection(tried, ac.Geometric(10.0))
    # the winner is ranked last, so that it is released only if all tries name it; a neighbour has 7 against 1 vote
    lost = [NormalDist().cdf(-gap / (2.0 * 2**0.5)) for gap in (8.0, 6.0)]
    first, second = ((1 - each) * 0.1 / (1 - 0.9 * (1 - each)) for each in lost)
    assert first - math.exp(0.0383) * second > 0.09


@pytest.mark.parametrize("method", ["renyi", "auto"])
def test_a_calibration_grants_all_its_prices_as_much(method):
    """Later prices were granted less, and were dearer: "the cost is not monotone", with the usual patience."""

    def make(sigma):
        return 1 * ac.Selection(20 * ac.PoissonSubsampled(ac.Gaussian(sigma), 0.01), ac.Geometric(5.0))

    sigma = ac.calibrate(make, epsilon=1.0, delta=1e-6, method=method)
    assert 0.98 < ac.epsilon(make(sigma), 1e-6).epsilon <= 1.0


def test_a_shape_next_to_nothing_is_that_of_0():
    """Where shape * log g has no digits left g came out too large, and the price too small."""
    for mean in (1.05, 1.3, 40.0):
        whole = ac.NegativeBinomial(mean, 0.0)
        price = ac.epsilon(ac.Selection(ac.PureDP(1.0), whole), 0.0).epsilon
        for shape in (5e-324, 3e-323, 1e-310, 1e-291, 1e-289, 1e-100):
            tries = ac.NegativeBinomial(mean, shape)
            assert tries.log_g == pytest.approx(whole.log_g, rel=1e-12)
            assert ac.epsilon(ac.Selection(ac.PureDP(1.0), tries), 0.0).epsilon == pytest.approx(price, rel=1e-12)
