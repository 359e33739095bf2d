"""Curves of many points: few are asked, all are certified, and patience is kept however many they are."""

import copy
import pickle

import numpy as np
import pytest

import accountant as ac
from accountant import curve_points, patience
from accountant.curve_points import KnownCurve
from accountant.tight.route import TightRun

P, S = ac.PoissonSubsampled, ac.NoisyScreening
PLAN = 18_000 * P(S(85, 210, 300), 0.2) + 3877 * P(ac.GNMax(20), 0.2)
SHORT = 20 * S(10, 5, 9) + 3 * P(ac.Gaussian(2), 0.1)
LAPLACE = 20 * ac.Laplace(4.0)
DISTINCT = ac.Composition((P(ac.Gaussian(1 + i / 40), 0.01 + i * 1e-5), 10) for i in range(40))


@pytest.fixture
def asked(monkeypatch):
    """The epsilons at which deltas are asked."""
    found, plain = [], TightRun.deltas

    def deltas(self, epsilons, together=False):
        found.extend(epsilons)
        return plain(self, epsilons, together)

    monkeypatch.setattr(TightRun, "deltas", deltas)
    return found


@pytest.mark.each_run(4)
@pytest.mark.parametrize("run", [LAPLACE, DISTINCT, SHORT])
@pytest.mark.parametrize("method", ["auto", "tight"])
def test_every_point_is_as_near_as_was_asked(run, method):
    curve = ac.curve(run, np.linspace(0.0, 2.0, 60), method=method)
    assert curve.method == "tight"
    assert np.all(curve.upper - curve.lower <= 0.01 * np.maximum(curve.upper, 1e-12))
    assert np.all(np.diff(curve.upper) <= 0)
    assert np.all(np.diff(curve.lower) <= 0)
    for place in (0, 7, 31, 59):
        alone = ac.delta(run, curve.epsilons[place], method="tight", tolerance=1e-3)
        assert alone.lower <= curve.upper[place]
        assert curve.lower[place] <= alone.delta


def test_few_of_many_points_are_asked(asked):
    few = ac.curve(DISTINCT, np.linspace(0.0, 3.0, 3000), patience=1.5)
    assert len(asked) < 1000
    assert np.all(few.upper - few.lower <= 0.01 * np.maximum(few.upper, 1e-12))


@pytest.mark.audit
def test_patience_is_kept_however_many_points_there_are():
    """5000 points took 56 s, and nearly all were known by the Rényi bound alone."""
    seen = [0.0]
    with patience.watch_work(lambda done, until: seen.append(until)):
        curve = ac.curve(PLAN, np.linspace(0.0, 4.5, 300), patience=2.0)
    assert seen[-1] <= 2.01
    assert curve.method == "tight"
    assert curve.lower.min() > 0.0
    assert curve.widths.max() < 0.5
    assert np.median(curve.widths) < 0.2
    assert np.all(np.diff(curve.upper) <= 0)
    alone = ac.delta(PLAN, 2.0)
    low, high = (np.interp(2.0, curve.epsilons, each) for each in (curve.lower, curve.upper))
    assert low <= alone.delta * 1.001
    assert alone.lower <= high * 1.001


@pytest.mark.audit
def test_epsilons_at_deltas_tell_of_deltas():
    """8192 screenings: an epsilon takes a tenth of the work of a delta as near."""
    run = 8192 * S(85, 210, 300)
    curve = ac.curve(run, np.linspace(0.0, 4.0, 40), patience=3.0)
    assert np.median(curve.widths) < 0.3
    for delta in (1e-2, 1e-4):
        price = ac.epsilon(run, delta)
        above = curve.epsilons >= price.epsilon
        below = curve.epsilons <= price.lower
        assert np.all(curve.lower[above] <= delta)
        assert np.all(curve.upper[below] >= delta)


def test_a_hundred_thousand_points_take_little_more_than_a_hundred(monkeypatch):
    """Every sixteen deltas all points were looked at again, uncounted: a million points took 155 s."""
    drawn, plain = [], curve_points.bound_between

    def bound_between(epsilons, *bounds):
        drawn.append(epsilons.size)
        return plain(epsilons, *bounds)

    monkeypatch.setattr(curve_points, "bound_between", bound_between)
    with patience.tally_work() as work:
        curve = ac.curve(LAPLACE, np.linspace(0.0, 4.0, 100_000))
    assert work[0] > curve_points.LINES * sum(drawn) > 0
    assert len(drawn) < 20
    assert np.all(curve.upper - curve.lower <= 0.01 * np.maximum(curve.upper, 1e-12))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 17, 100])
def test_halves_hold_every_place_once(count):
    halves = curve_points._in_halves(list(range(count)))
    assert sorted(halves) == list(range(count))
    assert halves[:2] == [0, count - 1][:count]


def test_points_come_back_in_their_order():
    mixed = [1.0, 0.2, 1.0, *np.linspace(0.0, 2.0, 40)[::-1].tolist()]
    curve, rising = ac.curve(LAPLACE, mixed), ac.curve(LAPLACE, sorted(mixed))
    assert curve.epsilons.tolist() == mixed
    order = np.argsort(mixed, kind="stable")
    assert curve.upper[order].tolist() == rising.upper.tolist()
    assert curve.upper[0] == curve.upper[2]


def test_a_refusal_of_many_points_keeps_its_name():
    with pytest.raises(ac.OutOfPatience, match=r"patience = 0\.01; accepted: patience = "):
        ac.curve(PLAN, np.linspace(0.0, 4.0, 50), method="tight", patience=0.01)
    curve = ac.curve(PLAN, np.linspace(0.0, 4.0, 50), patience=0.001)
    assert curve.method == "renyi"


@pytest.mark.parametrize("method", ["auto", "tight", "renyi"])
def test_points_are_a_number_or_a_row(method):
    """Rows of rows were made one row."""
    with pytest.raises(ac.ParameterError, match=r"= \[\[1, 2\], \[3, 4\]\], of 2 dimensions; accepted: a number, or"):
        ac.curve(LAPLACE, [[1, 2], [3, 4]], method=method)
    with pytest.raises(ac.ParameterError, match="of 3 dimensions"):
        ac.curve(LAPLACE, np.zeros((1, 1, 0)), method=method)
    one, row = ac.curve(LAPLACE, 1.0, method=method), ac.curve(LAPLACE, [1.0], method=method)
    assert one.upper.tolist() == row.upper.tolist()
    assert ac.curve(LAPLACE, [], method=method).upper.shape == (0,)


def test_bounds_that_are_known_when_patience_ends_are_kept():
    """A curve was refused, and what was certified of it lost, where one Rényi bound of many took too long."""
    epsilons, left = np.linspace(0.0, 2.0, 40), [6]

    def bound(points):
        for epsilon in points.tolist():
            left[0] -= 1
            if left[0] < 0:
                raise ac.OutOfPatience("it would take longer")
            yield np.array([ac.delta(LAPLACE, epsilon, method="renyi").delta])

    known = KnownCurve(LAPLACE, epsilons)
    known.lower_by(bound, 40)
    true = np.array([ac.delta(LAPLACE, epsilon, tolerance=1e-4).lower for epsilon in epsilons])
    assert np.all(known.at_all()[:, 1] >= true)
    assert known.at_all()[-1, 1] == ac.delta(LAPLACE, 2.0, method="renyi").delta
    known.lower_by(bound)
    with pytest.raises(ac.OutOfPatience):
        KnownCurve(LAPLACE, epsilons).lower_by(bound)


def test_at_the_largest_epsilons():
    """The tilt of 1e300 was no number, and the price an IndexError."""
    for run in (LAPLACE, 10 * P(ac.Gaussian(1.0), 0.01), SHORT):
        for epsilon in (1e290, 1e300):
            assert ac.delta(run, epsilon).delta <= 5e-324
        curve = ac.curve(run, [1.0, 1e300])
        assert curve.upper[1] <= 5e-324
        assert curve.lower[1] == 0.0
    with pytest.raises(ac.ToleranceUnreachable, match="takes a grid"):
        ac.delta(10 * P(ac.Gaussian(1.0), 0.01), 1e300, method="tight")


@pytest.mark.parametrize("method", ["renyi", "tight", "auto"])
def test_a_curve_that_depends_on_private_data_says_so_and_stays_here(method):
    run = 10 * ac.DataDependentScreening(85.0, 210.0, 180)
    secret, public = (ac.curve(each, [0.1, 0.5], method=method) for each in (run, LAPLACE))
    assert secret.data_dependent
    assert "DataDependent" in repr(secret)
    for keep in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(ac.DataDependentError, match="depends on private data"):
            keep(secret)
    assert not public.data_dependent
    assert repr(pickle.loads(pickle.dumps(public))) == repr(public)
