"""Compositions: how they are built, what they refuse, that they do not change, and what a million entries cost."""

from __future__ import annotations

import contextlib
import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

import accountant as ac
from accountant.testing import compositions, events

given = pytest.importorskip("hypothesis").given
st = pytest.importorskip("hypothesis.strategies")
settings = pytest.importorskip("hypothesis").settings

GAUSSIAN = ac.Gaussian(20.0)
LAPLACE = ac.Laplace(3.0)
REPLACED = ac.Gaussian(20.0, adjacency=ac.Adjacency.REPLACE)
ORDERS = [1.0, 1.5, 2.0, 10.0, 1e3]


# --- building ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "built",
    [
        3 * GAUSSIAN,
        GAUSSIAN * 3,
        GAUSSIAN + GAUSSIAN + GAUSSIAN,
        GAUSSIAN + 2 * GAUSSIAN,
        2 * GAUSSIAN + GAUSSIAN,
        sum([GAUSSIAN] * 3),
        sum([GAUSSIAN, 2 * GAUSSIAN]),
        sum([2 * GAUSSIAN, GAUSSIAN], ac.Composition()),
        3 * (1 * GAUSSIAN),
        (1 * GAUSSIAN) * 3,
        ac.Composition([(GAUSSIAN, 3)]),
        ac.Composition([(GAUSSIAN, 1), (ac.Gaussian(20), 2)]),
        ac.Composition(3 * GAUSSIAN),
        ac.Composition({GAUSSIAN: 3}.items()),
        ac.Composition(iter([(GAUSSIAN, 3), (LAPLACE, 0)])),
        np.int64(3) * GAUSSIAN,
        np.uint8(3) * GAUSSIAN,
        GAUSSIAN * np.int32(3),
        np.int64(3) * (1 * GAUSSIAN),
        np.array(3) * GAUSSIAN,
        3.0 * GAUSSIAN,
        np.float64(3) * GAUSSIAN,
        np.float64(3) * (1 * GAUSSIAN),
        3 * GAUSSIAN + 0 * LAPLACE,
        3 * GAUSSIAN + ac.Composition(),
    ],
)
def test_ways_to_say_three_of_an_event(built):
    assert isinstance(built, ac.Composition)
    assert built == ac.Composition([(GAUSSIAN, 3)])
    assert hash(built) == hash(3 * GAUSSIAN)
    assert dict(built.entries) == {GAUSSIAN: 3}
    assert list(built) == [(GAUSSIAN, 3)]
    assert (len(built), built.releases) == (1, 3)
    assert built.adjacency is ac.Adjacency.ADD_REMOVE
    assert all(type(count) is int for _, count in built)
    np.testing.assert_array_equal(built.renyi(ORDERS), 3 * GAUSSIAN.renyi(ORDERS))


def test_equal_events_are_grouped_in_order_of_appearance():
    built = LAPLACE + 2 * GAUSSIAN + ac.Laplace(3) + GAUSSIAN
    assert list(built) == [(LAPLACE, 2), (GAUSSIAN, 3)]
    assert built.releases == 5
    assert built == 3 * GAUSSIAN + 2 * LAPLACE, "order does not matter"


def test_events_that_differ_in_one_parameter_are_kept_apart():
    built = ac.Gaussian(20) + ac.Gaussian(20, 2.0) + ac.PoissonSubsampled(ac.Gaussian(20), 0.5)
    assert len(built) == 3
    assert 1 * ac.Gaussian(2.0) != 1 * ac.GaussianDP(0.5), "equal curves are not equal events"


@pytest.mark.parametrize(
    "nothing", [ac.Composition(), 0 * GAUSSIAN, 0 * (5 * LAPLACE), 0.0 * GAUSSIAN, 5 * (0 * GAUSSIAN)]
)
def test_nothing(nothing):
    assert nothing == ac.Composition()
    assert (len(nothing), nothing.releases, nothing.adjacency) == (0, 0, None)
    assert not nothing.data_dependent
    np.testing.assert_array_equal(nothing.renyi([1, 2, math.inf]), [0, 0, 0])
    assert repr(nothing) == "Composition()"
    assert (nothing + GAUSSIAN).adjacency is ac.Adjacency.ADD_REMOVE
    assert (nothing + REPLACED).adjacency is ac.Adjacency.REPLACE
    price = ac.epsilon(nothing, 0)
    assert (price.epsilon, price.delta, price.adjacency) == (0, 0, None)


COUNTS = [-1, -1.0, 1.5, 1e-9, True, False, np.True_, math.nan, math.inf, -math.inf, "3", None, [3], 2j, Fraction(3, 2)]


@pytest.mark.parametrize("count", [*COUNTS, np.array([3, 4]), 10**31, GAUSSIAN, 2 * GAUSSIAN], ids=repr)
@pytest.mark.parametrize("thing", [GAUSSIAN, 2 * GAUSSIAN], ids=["event", "composition"])
def test_counts_that_are_refused(thing, count):
    with pytest.raises(ac.ParameterError, match=r"count = .*accepted: an integer in \[0, 1e\+30\]"):
        count * thing
    with pytest.raises(ac.ParameterError, match=r"count = .*accepted: an integer in \[0, 1e\+30\]"):
        thing * count


@pytest.mark.parametrize("count", COUNTS, ids=repr)
def test_counts_that_are_refused_in_entries(count):
    with pytest.raises(ac.ParameterError, match=r"count = .*accepted: an integer in \[0, 1e\+30\]"):
        ac.Composition([(GAUSSIAN, count)])


def test_counts_beyond_floats_stay_exact():
    whole = 10**30 * GAUSSIAN
    assert whole.releases == 10**30
    assert (whole + GAUSSIAN).releases == 10**30 + 1
    assert float(whole.renyi(2)) == pytest.approx(1e30 / 400, rel=1e-15)
    with pytest.raises(ac.ParameterError, match="out of range"):
        10**20 * (10**20 * GAUSSIAN)


@pytest.mark.parametrize("other", [1, -1, 1.0, None, "a", [GAUSSIAN]], ids=repr)
def test_only_events_are_added(other):
    for thing in (GAUSSIAN, 2 * GAUSSIAN):
        with pytest.raises(TypeError):
            thing + other
        with pytest.raises(TypeError):
            other + thing


def test_entries_that_are_not_events():
    with pytest.raises(ac.ParameterError, match=r"20\.0 is not an event; accepted: an event such as"):
        ac.Composition([(20.0, 3)])
    with pytest.raises(ac.ParameterError, match="is not an event"):
        ac.Composition([(3, GAUSSIAN)])


@pytest.mark.parametrize("entries", [{GAUSSIAN: 3}, GAUSSIAN, [GAUSSIAN], 3], ids=repr)
def test_entries_that_are_not_pairs(entries):
    if isinstance(entries, dict):
        assert ac.Composition(entries) == 3 * GAUSSIAN
    else:
        with pytest.raises(ac.ParameterError):
            ac.Composition(entries)


# --- adjacency -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mix",
    [
        lambda: GAUSSIAN + REPLACED,
        lambda: REPLACED + GAUSSIAN,
        lambda: 2 * GAUSSIAN + REPLACED,
        lambda: GAUSSIAN + 2 * REPLACED,
        lambda: sum([GAUSSIAN, LAPLACE, REPLACED]),
        lambda: ac.Composition([(GAUSSIAN, 1), (REPLACED, 1)]),
        lambda: 2 * GAUSSIAN + (3 * LAPLACE + GAUSSIAN) + ac.Collision(1.0, 2, 8),
    ],
)
def test_mixed_adjacency_is_refused_at_once(mix):
    with pytest.raises(ac.AdjacencyMismatch, match=r"add-remove.*replace|replace.*add-remove"):
        mix()


def test_zero_of_another_adjacency_is_nothing():
    assert GAUSSIAN + 0 * REPLACED == 1 * GAUSSIAN
    assert ac.Composition([(GAUSSIAN, 1), (REPLACED, 0)]) == 1 * GAUSSIAN


def test_data_dependence_is_passed_on():
    seen = ac.DataDependentScreening(85.0, 210.0, 40)
    assert (GAUSSIAN + 3 * seen).data_dependent
    assert not (GAUSSIAN + 0 * seen).data_dependent


# --- identity and immutability -------------------------------------------------------------------------


def test_arithmetic_leaves_its_operands_alone():
    first, second = 2 * GAUSSIAN, 3 * LAPLACE
    total = first + second
    assert (first, second) == (2 * GAUSSIAN, 3 * LAPLACE)
    assert 2 * total == 4 * GAUSSIAN + 6 * LAPLACE
    assert total == 2 * GAUSSIAN + 3 * LAPLACE


def test_attributes_cannot_be_set():
    run = 2 * GAUSSIAN
    for name in ("adjacency", "entries", "releases", "data_dependent", "anything"):
        with pytest.raises(AttributeError):
            setattr(run, name, None)


def test_entries_cannot_be_changed():
    run = 2 * GAUSSIAN
    with contextlib.suppress(TypeError):
        run.entries[REPLACED] = 5
    assert run == 2 * GAUSSIAN


def test_equality_hash_and_copies():
    run = 2 * GAUSSIAN + LAPLACE
    assert run != 2 * GAUSSIAN
    assert run != 3 * GAUSSIAN + LAPLACE
    assert 1 * GAUSSIAN != GAUSSIAN
    assert run != "2 * Gaussian"
    assert {run: "cost"}[LAPLACE + GAUSSIAN + GAUSSIAN] == "cost"
    for twin in (copy.copy(run), copy.deepcopy(run), pickle.loads(pickle.dumps(run))):
        assert twin == run
        assert hash(twin) == hash(run)
        assert twin.adjacency is run.adjacency


def test_long_sums_can_be_copied():
    for make in (copy.copy, copy.deepcopy, lambda run: pickle.loads(pickle.dumps(run))):
        assert make(sum([1 * GAUSSIAN] * 5000)) == 5000 * GAUSSIAN


def test_repr_shows_counts_and_events():
    assert repr(2 * GAUSSIAN + LAPLACE) == f"2 * {GAUSSIAN!r} + 1 * {LAPLACE!r}"


# --- curves and profiles -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "orders", [2, 2.5, 1, math.inf, [2], [], [[2, 3, 4], [1, 1.5, math.inf]], np.ones((2, 0, 3)), (2, 3)]
)
def test_curve_has_the_shape_of_the_orders(orders):
    run = 2 * ac.Laplace(2.0) + ac.PureDP(1.0) + ac.PoissonSubsampled(ac.RandomizedResponse(1.0), 0.1)
    curve = run.renyi(orders)
    assert isinstance(curve, np.ndarray)
    assert (curve.shape, curve.dtype) == (np.shape(orders), np.float64)
    one_by_one = [float(run.renyi(order)) for order in np.ravel(orders)]
    np.testing.assert_allclose(curve.ravel(), one_by_one, rtol=1e-14)


def test_limits_of_the_orders():
    pure = 3 * ac.Laplace(2.0, coordinates=2) + 2 * ac.PureDP(0.5)
    assert float(pure.renyi(math.inf)) == pytest.approx(4, rel=1e-15)
    assert float((GAUSSIAN + pure).renyi(math.inf)) == math.inf
    assert float((2 * GAUSSIAN).renyi(1)) == pytest.approx(2 / 800, rel=1e-15)


@pytest.mark.parametrize("order", [0.5, 0, -1, math.nan, -math.inf, [2, 0.999999]])
def test_orders_out_of_range(order):
    with pytest.raises(ac.ParameterError, match=r"order = .*accepted: \[1, inf\]"):
        (2 * GAUSSIAN).renyi(order)


def test_profile_of_a_single_release():
    np.testing.assert_array_equal((1 * GAUSSIAN).profile([0, 0.1]).worst, GAUSSIAN.profile([0, 0.1]).worst)


@pytest.mark.parametrize(
    ("run", "releases"),
    [(2 * GAUSSIAN, "2"), (GAUSSIAN + LAPLACE, "2"), (10**6 * GAUSSIAN, "1000000"), (0 * GAUSSIAN, "0")],
)
def test_profiles_do_not_add(run, releases):
    with pytest.raises(ac.ProfileUnavailable, match=f"{releases} releases"):
        run.profile(1.0)


def test_profile_of_an_event_without_one():
    with pytest.raises(ac.ProfileUnavailable, match="ZeroConcentratedDP"):
        (1 * ac.ZeroConcentratedDP(1.0)).profile(1.0)


@settings(max_examples=40, deadline=None)
@given(compositions(), compositions(), st.integers(0, 10**6), st.floats(1.0, 50.0))
def test_curves_add(first, second, count, order):
    both = float((first + second).renyi(order))
    assert both == pytest.approx(float(first.renyi(order)) + float(second.renyi(order)), rel=1e-12)
    assert float((count * first).renyi(order)) == pytest.approx(count * float(first.renyi(order)), rel=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(events(ac.Adjacency.ADD_REMOVE), st.integers(0, 5)), max_size=6), st.randoms())
def test_order_of_entries_does_not_matter(entries, random):
    shuffled = random.sample(entries, len(entries))
    expected = ac.Composition(entries)
    assert ac.Composition(shuffled) == expected
    assert sum((count * event for event, count in shuffled), ac.Composition()) == expected
    assert expected.releases == sum(count for _, count in entries)


# --- many entries --------------------------------------------------------------------------------------


@pytest.mark.audit
def test_a_hundred_thousand_heterogeneous_entries():
    sigmas = 10 + np.arange(100_000) % 1000 / 100
    runs = [ac.Gaussian(sigma) for sigma in sigmas[:1000].tolist()] * 100
    summed = sum(runs)
    built = ac.Composition((event, 1) for event in runs)
    assert summed == built
    assert (len(summed), summed.releases) == (1000, 100_000)
    assert all(count == 100 for _, count in summed)
    np.testing.assert_allclose(summed.renyi(ORDERS), np.array(ORDERS) * np.sum(0.5 / sigmas**2), rtol=1e-11)
    assert ac.epsilon(summed, 1e-5) == ac.epsilon(built, 1e-5)


def test_sums_may_nest_deeply():
    # a chain of 20 000 additions on either side is grouped without recursion
    left, right = ac.Composition(), ac.Composition()
    for _ in range(20_000):
        left, right = left + GAUSSIAN, LAPLACE + right
    assert left + right == 20_000 * GAUSSIAN + 20_000 * LAPLACE


@pytest.mark.audit
def test_a_hundred_thousand_distinct_gaussians_are_one_zcdp():
    sigmas = 20 + np.arange(100_000) / 1000
    run = sum(ac.Gaussian(sigma) for sigma in sigmas.tolist())
    assert len(run) == 100_000
    zcdp = ac.ZeroConcentratedDP(math.fsum(0.5 / sigmas**2))
    orders = np.array([1.0, 1.000001, 2.0, 33.3, 1e6])
    np.testing.assert_allclose(run.renyi(orders), zcdp.renyi(orders), rtol=1e-12)
    assert ac.epsilon(run, 1e-5, method="renyi").epsilon == pytest.approx(
        ac.epsilon(zcdp, 1e-5, method="renyi").epsilon, rel=1e-11
    )


def test_a_hundred_thousand_distinct_pure_releases():
    epsilons = np.linspace(1e-6, 1e-3, 100_000)
    run = ac.Composition((ac.PureDP(epsilon), 2) for epsilon in epsilons.tolist())
    assert float(run.renyi(math.inf)) == pytest.approx(2 * math.fsum(epsilons), rel=1e-12)
    assert ac.epsilon(run, 0, method="renyi").epsilon == pytest.approx(2 * math.fsum(epsilons), rel=1e-12)
