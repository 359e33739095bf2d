"""Filters and odometers: adaptive runs in exact arithmetic never lose more than they say; what is refused; files."""

import copy
import math
import os
import pickle
import random
import signal
import threading
import time
from contextlib import contextmanager
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import accountant as ac
from accountant.filters.mixture import Mixture, log_worst_share
from accountant.filters.spending import Charge, Spent
from tests.cases import in_child

EPSILONS = [math.log(r) for r in (1.1, 1.3, 1.6, 2.0, 3.0)]
RATIOS = [Fraction(11, 10), Fraction(13, 10), Fraction(8, 5), Fraction(2), Fraction(3)]


# --- never over ------------------------------------------------------------------------------------------


def hockey(path_p, path_q, limit):
    """(P - e^eps Q)_+ of one outcome."""
    return max(path_p - limit * path_q, 0)


def play(strategy, charge, worth, depth=7):
    """Sum over all histories of (P - e^eps Q)_+, where each answer chooses the next release, or stops.

    `charge(history)` pays for the releases of a history, the last one too, and says whether it may be made;
    `worth(history)` is the e^eps with which a run ends.
    """
    total = Fraction(0)

    def go(history, p, q):
        nonlocal total
        choice = strategy(tuple(bit for _, bit in history))
        made = [index for index, _ in history]
        if len(history) == depth or choice is None or not charge([*made, choice]):
            total += hockey(p, q, worth(made))
            return
        ratio = RATIOS[choice]
        for bit, (up, down) in enumerate([(ratio, 1), (1, ratio)]):
            go([*history, (choice, bit)], p * up / (1 + ratio), q * down / (1 + ratio))

    go([], Fraction(1), Fraction(1))
    return total


def strategy_of(seed, stops):
    """A random choice for every history of answers."""
    chosen = {}
    source = random.Random(seed)

    def strategy(bits):
        if bits not in chosen:
            chosen[bits] = None if stops and source.random() < 0.15 else source.randrange(len(RATIOS))
        return chosen[bits]

    return strategy


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6), st.floats(0.05, 2.0), st.sampled_from([0.3, 0.1, 0.02]), st.sampled_from(["auto", 1.5, 4])
)
def test_a_filter_is_never_over(seed, epsilon, delta, kind):
    how = {} if kind == "auto" else {"kind": "renyi", "order": kind}

    def charge(made):
        budget = ac.Filter(epsilon, delta, **how)
        for index in made[:-1]:
            budget.spend(ac.PureDP(EPSILONS[index]))
        return budget.covers(ac.PureDP(EPSILONS[made[-1]]))

    limit = Fraction(math.exp(epsilon))
    assert play(strategy_of(seed, False), charge, lambda _: limit, depth=6) <= Fraction(delta)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.3, 0.1, 0.02]), st.sampled_from([None, 2.0]))
def test_an_odometer_holds_wherever_the_run_stops(seed, delta, order):
    seen = {}

    def worth(made):
        key = tuple(sorted(made))
        if key not in seen:
            meter = ac.Odometer(order=order)
            for index in made:
                meter.spend(ac.PureDP(EPSILONS[index]))
            seen[key] = Fraction(math.exp(meter.guarantee(delta).epsilon))
        return seen[key]

    assert play(strategy_of(seed, True), lambda made: True, worth) <= Fraction(delta)


def test_the_share_against_its_definition():
    mix = Mixture(np.array([0.5, 3.0, 20.0]), np.array([1.0, 2.0, 1.0]))
    sums = np.array([0.1, 0.35, math.inf])
    found = log_worst_share(1.0, mix.distances, mix.log_weights, sums)
    with mp.workdps(30):

        def share(x):
            terms = zip([0.25, 0.5], [mp.mpf("0.5"), 3], [mp.mpf("0.1"), mp.mpf("0.35")], strict=True)
            return (1 - mp.exp(-x)) / sum(w * mp.exp(b * (1 + x - s)) for w, b, s in terms)

        slope = mp.findroot(lambda x: mp.diff(share, x), 0.3)
        exact = mp.log(share(slope))
    assert 0 <= found - float(exact) < 1e-9


def test_one_order_is_the_renyi_filter():
    """(a, B)-RDP and the improved conversion: Canonne, Kamath & Steinke 2020, Prop. 12."""
    order, curve, delta = 12.0, 0.3, 1e-5
    meter = ac.Odometer(order=order)
    meter.spend(ac.ZeroConcentratedDP(curve / order))
    expected = curve + math.log((order - 1) / order) - (math.log(delta) + math.log(order)) / (order - 1)
    assert 0 <= meter.guarantee(delta).epsilon - expected < 1e-6


# --- how much fits -----------------------------------------------------------------------------------------


def most(budget, event):
    """How many releases fit."""
    total, step = 0, 2**24
    while step:
        if budget.covers(event, step):
            budget.spend(event, step)
            total += step
        else:
            step //= 2
    return total


@pytest.mark.parametrize(
    "event", [ac.Laplace(50.0), ac.PureDP(0.01), ac.PoissonSubsampled(ac.Gaussian(3.0), 0.05), ac.Gaussian(40.0)]
)
def test_a_filter_loses_little_to_a_fixed_plan(event):
    budget = ac.Filter(2.0, 1e-6)
    count = most(budget, event)
    assert ac.epsilon(count * event, 1e-6, method="renyi").epsilon > 0.93 * 2.0
    assert budget.reading(1e-6).odometer
    assert not budget.guarantee().odometer
    assert budget.guarantee().epsilon == 2.0
    assert budget.run == count * event


def test_gaussian_filter_is_exact():
    budget = ac.Filter(1.0, 1e-5, kind="gdp")
    count = most(budget, ac.GaussianDP(0.001))
    mu = math.sqrt(count) * 0.001
    assert ac.epsilon(ac.GaussianDP(mu), 1e-5, method="tight").epsilon <= 1.0
    assert ac.epsilon(ac.GaussianDP(mu * 1.0001), 1e-5, method="tight").epsilon > 1.0
    assert budget.guarantee(1e-5).epsilon <= 1.0 < budget.guarantee(1e-6).epsilon


def test_no_gaussian_filter_says_more_than_its_own_epsilon():
    """Next to delta = 1 the price of its mu is known between 0 and 34 times that."""
    budget = ac.Filter(1e-10, 0.999999, kind="gdp")
    assert budget.guarantee().epsilon <= 1e-10
    assert budget.guarantee(0.9999999).epsilon <= 1e-10
    with pytest.raises(ac.ParameterError, match="is not Gaussian DP; accepted: Gaussian"):
        budget.spend(ac.PureDP(1e-9))


def test_other_releases_after_gaussian_ones():
    budget = ac.Filter(1.0, 1e-5)
    budget.spend(ac.Gaussian(10.0))
    assert most(budget, ac.PureDP(0.01)) > 100
    gaussian = ac.Filter(1.0, 1e-5)
    assert most(gaussian, ac.GaussianDP(0.01)) > most(ac.Filter(1.0, 1e-5, kind="renyi"), ac.GaussianDP(0.01))


def test_pure_budgets_add_up():
    budget = ac.Filter(1.0, 0.0)
    for _ in range(10):
        budget.spend(ac.PureDP(0.1))
    with pytest.raises(ac.BudgetExceeded, match=r"1 x PureDP.* does not fit; accepted: .* epsilon = 1, delta = 0"):
        budget.spend(ac.PureDP(1e-9))
    assert budget.run == 10 * ac.PureDP(0.1)
    assert ac.Filter(1.0, 0.0).covers(ac.PureDP(1e-6), 10**6)
    assert not ac.Filter(1.0, 0.0).covers(ac.PureDP(1e-6), 10**6 + 1)


@given(st.lists(st.floats(1e-12, 1e3), max_size=30), st.integers(1, 10**12))
@settings(max_examples=50)
def test_pure_sums_are_exact(values, count):
    meter = ac.Odometer()
    for value in values:
        meter.spend(ac.PureDP(value), count)
    exact = sum(Fraction(value) * count for value in values)
    assert abs(Fraction(meter.guarantee(0.0).epsilon) - exact) <= exact * Fraction(2) ** -52


@pytest.mark.parametrize(
    "event",
    [
        ac.NoisyScreening(85.0, 210.0, 300),
        ac.PoissonSubsampled(ac.Laplace(2.0), 0.3),
        ac.Shuffled(1.0, 1000),
        ac.Laplace(3.0),
        ac.PureDP(0.1),
        ac.LNMax(20.0),
    ],
)
def test_no_odometer_reads_less_than_the_price_of_a_fixed_run(event):
    tenth = ac.PureDP(0.1, adjacency=event.adjacency)
    run = 3 * event + 7 * tenth
    one_by_one, together = ac.Odometer(), ac.Odometer()
    for _ in range(3):
        one_by_one.spend(event)
    for _ in range(7):
        one_by_one.spend(tenth)
    together.spend(run)
    fixed = ac.epsilon(run, 0.0, method="renyi").epsilon
    for meter in (one_by_one, together):
        assert fixed <= meter.guarantee(0.0).epsilon <= fixed * (1 + 2.0**-51)


def test_thirds_add_up():
    budget = ac.Filter(1.0, 0.0)
    for _ in range(3):
        budget.spend(ac.Laplace(3.0))
    assert ac.Filter(1.0, 0.0).covers(3 * ac.Laplace(6.0) + 2 * ac.Laplace(4.0))
    assert ac.Filter(1.0, 0.0).covers(10 * ac.PureDP(0.1))
    assert not ac.Filter(1.0, 0.0).covers(3 * ac.Laplace(6.0) + 3 * ac.Laplace(4.0))


def test_a_pure_filter_says_what_its_run_is_priced_at(tmp_path):
    """It said 1.0 of a run that costs 1.0000000000000002."""
    above = math.nextafter(1.0, 2.0)
    for delta in (0.0, 1e-6):
        budget = ac.Filter(1.0, delta, path=tmp_path / f"spent-{delta}")
        budget.spend(ac.PureDP(1.0))
        assert budget.guarantee().epsilon == 1.0
        assert most(budget, ac.PureDP(1e-17)) >= 11
        assert budget.guarantee().epsilon == ac.Filter(1.0, delta, path=tmp_path / f"spent-{delta}").guarantee().epsilon
        assert budget.guarantee().epsilon == ac.epsilon(budget.run, 0.0).epsilon == above
    thirds = ac.Filter(1.0, 0.0)
    thirds.spend(ac.Laplace(3.0), 3)
    assert thirds.guarantee().epsilon == 1.0


def test_many_pure_charges_are_never_said_to_be_less():
    """Of equal shares the last one fits, whatever its last digit."""
    for count in range(2, 200):
        budget, share = ac.Filter(2.0, 0.0), ac.PureDP(2.0 / count)
        for _ in range(count - 1):
            budget.spend(share)
        assert budget.covers(share)
        budget.spend(share)
        exact = Fraction(2.0 / count) * count
        assert budget.guarantee().epsilon == max(2.0, ac.epsilon(budget.run, 0.0).epsilon)
        assert Fraction(budget.guarantee().epsilon) >= exact
        assert not budget.covers(ac.PureDP(1e-15))


@given(st.lists(st.floats(1e-300, 1e3), min_size=1, max_size=20), st.integers(1, 10**30))
@settings(max_examples=100)
def test_no_part_of_a_pure_sum_is_rounded_away(values, count):
    """The second of two floats was rounded to the nearest one."""
    spent = Spent.nothing(1)
    for value in values:
        for number in (1, count):
            spent = spent.plus(Charge(np.zeros(1), value, value * 2.0**-60, 0.0, 0.0), number, np.zeros(1))
    exact = sum(Fraction(value) + Fraction(value * 2.0**-60) for value in values) * (1 + count)
    assert exact <= Fraction(spent.pure) + Fraction(spent.pure_rest) <= exact * (1 + Fraction(2) ** -95)


def test_nothing_is_spent_for_nothing(tmp_path):
    for place in (None, tmp_path / "spent"):
        budget = ac.Filter(1.0, 0.0, path=place)
        budget.spend(ac.Composition([]))
        budget.spend(ac.Gaussian(1.0), 0)
        assert budget.covers(ac.Gaussian(1.0), 0)
        assert budget.run == ac.Composition([])
        assert budget.adjacency is None
    meter = ac.Odometer(path=tmp_path / "read")
    meter.spend(ac.Composition([]))
    assert meter.guarantee(0.0).epsilon == 0.0


@pytest.mark.parametrize("count", [True, "1", None, np.array([1, 2]), math.nan])
def test_counts_are_integers(count):
    for meter in (ac.Filter(1.0, 1e-5), ac.Odometer()):
        with pytest.raises(ac.ParameterError, match="count = "):
            meter.spend(ac.PureDP(0.1), count)
        assert not meter.run.entries


@pytest.mark.parametrize("again", [1, 10**30])
@pytest.mark.parametrize(
    ("make", "event", "checks"),
    [(ac.Odometer, ac.GaussianDP(1e-18), False), (partial(ac.Filter, 1e-4, 0.0), ac.PureDP(3e-35), True)],
)
def test_no_event_is_paid_for_more_often_than_its_run_can_say(tmp_path, make, event, checks, again):
    """The second charge was taken, and `run` and `reading` were refused ever after."""
    release = event if again > 1 else 10**30 * event + ac.PureDP(1e-40)
    for place in (None, tmp_path / "spent"):
        meter = make(path=place)
        meter.spend(event, 10**30)
        before = meter.guarantee(1e-5).epsilon
        for call in (meter.spend, *([meter.covers] if checks else [])):
            with pytest.raises(
                ac.ParameterError, match=rf"count = {again} of .* after 10+ of .*; accepted: an integer"
            ):
                call(release, again)
        assert meter.run == 10**30 * event
        assert meter.reading(1e-5).epsilon <= before == meter.guarantee(1e-5).epsilon
        meter.spend(event, 10**13)
        assert meter.run.entries[event] == 10**30 + 10**13
        meter.close()


@pytest.mark.parametrize("delta", [5e-324, 1e-310, 1e-300])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-10, 1.0])
def test_the_least_budgets_refuse_what_does_not_fit(epsilon, delta):
    for kind in ("auto", "renyi", "gdp"):
        budget = ac.Filter(epsilon, delta, kind=kind)
        assert not budget.covers(ac.Gaussian(5.0))
        assert budget.covers(ac.GaussianDP(0.0))
        assert budget.guarantee().epsilon <= epsilon


def test_compositions_and_counts():
    parts = [(ac.Gaussian(9.0), 2), (ac.Laplace(20.0), 3), (ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01), 5)]
    one, many, together = ac.Odometer(), ac.Odometer(), ac.Odometer()
    for event, count in parts:
        one.spend(event, count)
        for _ in range(count):
            many.spend(event)
    together.spend(ac.Composition(parts))
    epsilons = [each.guarantee(1e-5).epsilon for each in (one, many, together)]
    assert epsilons == pytest.approx([epsilons[0]] * 3, rel=1e-9)
    assert one.run == many.run == together.run == ac.Composition(parts)
    assert one.reading(1e-5).epsilon < epsilons[0]
    assert ac.Odometer().guarantee(1e-5).epsilon == 0.0


def test_releases_that_may_fail():
    event = ac.ApproximateDP(0.01, 1e-7)
    with pytest.raises(ac.ParameterError, match=r"may lose infinitely much; accepted: .* failures="):
        ac.Filter(1.0, 1e-5).spend(event)
    with pytest.raises(ac.ParameterError, match="may lose infinitely much"):
        ac.Odometer().spend(event)
    budget = ac.Filter(1.0, 1e-5, failures=1e-6)
    assert most(budget, event) == 9
    assert budget.reading(1e-5).epsilon <= 1.0
    sampled = ac.PoissonSubsampled(event, 0.1)
    assert most(ac.Filter(1.0, 1e-5, failures=1e-6), sampled) == 99


def test_refusals_change_nothing():
    budget = ac.Filter(1.0, 1e-5)
    budget.spend(ac.Laplace(10.0))
    before = budget.run
    for wrong, error in [
        (ac.Laplace(0.1), ac.BudgetExceeded),
        (ac.PureDP(0.1, adjacency="replace"), ac.AdjacencyMismatch),
        (ac.DataDependentGNMax(40.0, [200.0, 40.0]), ac.DataDependentError),
        (3, ac.ParameterError),
    ]:
        with pytest.raises(error):
            budget.spend(wrong)
    with pytest.raises(ac.ParameterError, match="count = -1"):
        budget.spend(ac.Laplace(10.0), -1)
    budget.spend(ac.Laplace(0.1), 0)
    assert budget.run == before
    with pytest.raises(ac.ParameterError, match=r"delta = 1e-06; accepted: \[1e-05, 1\)"):
        budget.guarantee(1e-6)
    assert budget.guarantee(1e-4).epsilon == 1.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilon": 0.0}, "epsilon = 0 is out of range"),
        ({"delta": 1.0}, "delta = 1 is out of range"),
        ({"kind": "zcdp"}, "kind = 'zcdp'; accepted: auto, renyi, gdp"),
        ({"delta": 0.0, "kind": "gdp"}, "delta = 0 with kind"),
        ({"order": 3.0}, "order = 3.0 with kind = 'auto'"),
        ({"order": 1.0, "kind": "renyi"}, "order = 1 is out of range"),
        ({"failures": 1e-5}, "failures = 1e-05 is out of range"),
    ],
)
def test_wrong_settings(given, message):
    with pytest.raises(ac.ParameterError, match=message):
        ac.Filter(**{"epsilon": 1.0, "delta": 1e-5, **given})


# --- files -------------------------------------------------------------------------------------------------


def test_a_file_goes_on(tmp_path):
    path = tmp_path / "spent"
    first = ac.Filter(1.0, 1e-5, path=path)
    second = ac.Filter(1.0, 1e-5, path=path)
    for _ in range(3):
        first.spend(ac.Laplace(20.0))
        second.spend(ac.Gaussian(30.0), 2)
    plain = ac.Filter(1.0, 1e-5)
    plain.spend(ac.Laplace(20.0), 3)
    plain.spend(ac.Gaussian(30.0), 6)
    second.close()
    third = ac.Filter(1.0, 1e-5, path=path)
    assert first.run == third.run == plain.run
    assert most(third, ac.PureDP(0.01)) == most(plain, ac.PureDP(0.01))
    with pytest.raises(ac.BudgetExceeded):
        first.spend(ac.PureDP(0.01))
    with pytest.raises(ac.FilterError, match=r"made with other settings \(epsilon"):
        ac.Filter(2.0, 1e-5, path=path)
    with pytest.raises(ac.FilterError, match="made with other settings"):
        ac.Odometer(path=path)


def test_a_release_that_could_not_be_written_is_not_charged(tmp_path, monkeypatch):
    budget = ac.Filter(1.0, 0.0, path=tmp_path / "spent")
    transaction = budget._stored._database.transaction

    @contextmanager
    def fail():
        with transaction() as run:
            yield run
            raise ac.FilterError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(budget._stored._database, "transaction", fail)
        with pytest.raises(ac.FilterError, match="no room"):
            budget.spend(ac.PureDP(0.6))
    assert budget.covers(ac.PureDP(1.0))
    with pytest.raises(ac.ParameterError, match="path = 3; accepted"):
        ac.Filter(1.0, 0.0, path=3)


def test_an_event_without_a_name_is_not_spent_from_a_file(tmp_path):
    class Local(ac.PureDP):
        pass

    meter = ac.Odometer(path=tmp_path / "spent")
    with pytest.raises(ac.ParameterError):
        meter.spend(Local(0.1))
    assert not meter.run.entries
    assert meter.guarantee(1e-5).epsilon == 0.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_processes_forget_nothing(tmp_path):
    """Whatever was released had been paid for, and all of it together fits, also after many kills."""
    kills = 15
    path, outcomes = tmp_path / "spent", tmp_path / "released"
    outcomes.touch()
    ac.Filter(1.0, 1e-5, path=path).close()
    for turn in range(kills):
        child = os.fork()
        if child == 0:
            try:
                budget = ac.Filter(1.0, 1e-5, path=path, wait=60.0)
                with outcomes.open("ab", buffering=0) as out:
                    while True:
                        budget.spend(ac.PureDP(0.01))
                        out.write(b".")
            except ac.BudgetExceeded:
                os._exit(0)
            finally:
                os._exit(1)
        time.sleep(random.Random(turn).uniform(0.005, 0.06))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    budget = ac.Filter(1.0, 1e-5, path=path)
    released, paid = outcomes.stat().st_size, budget.run.releases
    assert released <= paid <= released + kills
    whole = ac.Filter(1.0, 1e-5)
    assert paid + most(budget, ac.PureDP(0.01)) == most(whole, ac.PureDP(0.01))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("made", [partial(ac.Filter, 1.0, 1e-5), ac.Odometer])
def test_what_a_forked_child_spends_is_known_or_refused(tmp_path, made):
    """Each of several children could spend the whole budget, and the parent once more."""
    memory, stored = made(), made(path=tmp_path / "spent")
    for run in (memory, stored):
        run.spend(ac.PureDP(0.25))
    assert "in the memory of process" in in_child(lambda: memory.spend(ac.PureDP(0.25)))
    assert in_child(lambda: memory.run.releases) == "1"
    for spent in (2, 3):
        assert in_child(lambda: stored.spend(ac.PureDP(0.25))) == "None"
        assert stored.run.releases == spent
    memory.spend(ac.PureDP(0.25))
    stored.spend(ac.PureDP(0.25))
    assert (memory.run.releases, stored.run.releases) == (2, 4)
    (tmp_path / "spent").rename(tmp_path / "elsewhere")
    assert "removed or replaced" in in_child(lambda: stored.spend(ac.PureDP(1e-3)))
    assert not (tmp_path / "spent").exists()


@pytest.mark.parametrize("made", [partial(ac.Filter, 1.0, 1e-5), ac.Odometer])
def test_copies_are_refused(tmp_path, made):
    """Both would have the whole budget: a shallow copy spent it twice."""
    for run in (made(), made(path=tmp_path / "spent")):
        for keep in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(ac.FilterError, match=r"accepted: .* with a path"):
                keep(run)


@pytest.mark.parametrize("made", [partial(ac.Filter, 1.0, 1e-5), ac.Odometer])
def test_a_file_that_is_put_back_is_refused(tmp_path, made):
    """A copy from before the last release is put back under an open filter, with its generation file or without."""
    path = tmp_path / "spent.db"
    before = tmp_path / "spent.db.generation"
    run = made(path=path)
    for spent in (0.3, 0.2):  # before the first release, and before the second
        copies = {each: each.read_bytes() for each in (path, before)}
        run.spend(ac.PureDP(spent))
        latest = {each: each.read_bytes() for each in (path, before)}
        for back in ([path], [path, before]):
            for each in back:
                each.write_bytes(copies[each])
            with pytest.raises(ac.FilterError, match="replaced by an older copy"):
                run.spend(ac.PureDP(0.1))
            with pytest.raises(ac.FilterError, match="replaced by an older copy"):
                run.guarantee(1e-5) if isinstance(run, ac.Odometer) else run.covers(ac.PureDP(0.1))
            for each in back:
                each.write_bytes(latest[each])
    assert run.run == ac.PureDP(0.3) + ac.PureDP(0.2)
    path.unlink()
    path.write_bytes(latest[path])
    with pytest.raises(ac.FilterError, match="removed or replaced while it was open"):
        run.spend(ac.PureDP(0.1))
    run.close()


@pytest.mark.parametrize("made", [partial(ac.Filter, 1.0, 1e-5), ac.Odometer])
def test_what_was_released_is_never_half_of_a_composition(made):
    """Another thread asks while the second of two events is recorded."""
    run, seen = made(), []

    class Counts(dict):
        def __setitem__(self, event, count):
            super().__setitem__(event, count)
            if len(self) == 1:
                reader.start()
                reader.join(0.2)

    reader = threading.Thread(target=lambda: seen.append(run.run))
    run._counts = Counts()
    both = ac.PureDP(0.1) + ac.Gaussian(9.0)
    run.spend(both)
    reader.join()
    assert seen == [both]
