"""Shuffled counts: the law of what is seen by enumeration, in high precision; bounds, limits, composition."""

import math
from functools import cache
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant.events import shuffled_counts
from accountant.events.event import Event
from accountant.events.shuffled_counts import MovedCount, cut, given_finite, one_count, spread

REPLACE = ac.Adjacency.REPLACE
PARAMETERS = [(0.3, 2.0, 0.05), (0.4, 0.0, 0.5), (0.25, 0.3, 0.1), (0.3, 6.0, 0.01)]


# --- against everything that is seen -------------------------------------------------------------------


@cache
def seen(scale, shape, ratio, size):
    """P[U = u, V = v] of a count of 0: a sum over all of Z1, Z2, Z3 below `size`."""
    p = mpmath.exp(-1 / mpmath.mpf(scale))
    pairs = [(1 - mpmath.mpf(ratio)) ** shape]
    for z in range(1, size):
        pairs.append(pairs[-1] * ratio * (z + mpmath.mpf(shape) - 1) / z)
    law = {}
    for z1, z2, z3 in product(range(size), repeat=3):
        place = z1 + z3, z2 + z3
        law[place] = law.get(place, 0) + (1 - p) ** 2 * p ** (z1 + z2) * pairs[z3]
    return law


def moved(law):
    return {(u + 1, v): mass for (u, v), mass in law.items()}


def hockey_stick(first, second, u):
    return mpmath.fsum(max(mass - u * second.get(place, 0), 0) for place, mass in first.items())


@pytest.mark.each_run(1)
@pytest.mark.parametrize("parameters", PARAMETERS)
def test_one_count_is_what_is_seen(parameters):
    before = seen(*parameters, 18)
    after, missing = moved(before), float(1 - mpmath.fsum(before.values()))
    assert missing < 1e-14
    pair = one_count(*parameters)
    for epsilon in np.linspace(0, 1.3 / parameters[0], 7).tolist():
        exact = [float(hockey_stick(*laws, mpmath.exp(epsilon))) for laws in ((before, after), (after, before))]
        forward = math.exp(float(pair.forward.log_value(np.array([epsilon]))[0])) + pair.lost
        backward = math.exp(float(pair.backward.log_value(np.array([epsilon]))[0])) + pair.lost_after
        assert forward == pytest.approx(exact[0], rel=1e-12, abs=1e-13)
        assert backward == pytest.approx(exact[1], rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_a_rising_and_a_falling_count_are_what_is_seen(parameters):
    law = seen(*parameters, 6)
    rises, missing = moved(law), float(1 - mpmath.fsum(law.values()))
    p, q = {}, {}
    for (a, b), (c, d) in product(set(law) | set(rises), repeat=2):
        place = a, b, c, d
        p[place] = float(law.get((a, b), 0) * rises.get((c, d), 0))
        q[place] = float(rises.get((a, b), 0) * law.get((c, d), 0))
    event = ac.ShuffledCounts(*parameters)
    for epsilon in np.linspace(0, 2 / parameters[0], 7).tolist():
        exact = sum(max(mass - math.exp(epsilon) * q[place], 0.0) for place, mass in p.items())
        # outcomes beyond the enumeration have mass of P, and of Q times e^epsilon
        room = 3 * missing * math.exp(epsilon) + 1e-13
        assert exact - room <= float(event.profile(epsilon).worst) <= exact + room


@pytest.mark.each_run(2)
@pytest.mark.parametrize(
    ("scale", "shape", "ratio"),
    [(2.0, 12.0, 0.8), (4.0, 30.0, 0.9), (0.05, 5.0, 0.2), (20.0, 0.3, 0.9), (1.0, 1e-3, 0.5)],
)
def test_losses_and_masses_in_high_precision(scale, shape, ratio):
    pair = one_count(scale, shape, ratio)
    with mpmath.workdps(40):
        t, x, r = mpmath.mpf(1 / scale), mpmath.mpf(ratio), mpmath.mpf(shape)
        p = mpmath.exp(-t)
        mass, power = (1 - x) ** r, mpmath.mpf(1)
        total = mass
        laws = [(-t, p / (1 + p))]
        assert pair.lost == pytest.approx(float((1 - p) * total), rel=1e-12)
        for a in range(1, pair.losses.size):
            mass *= x * (a + r - 1) / a
            power *= p * p
            following = total + mass / power
            laws.append((mpmath.log(following / total) - t, (1 - p) * power * following))
            total = following
        laws.sort()
        for loss, log_p, (exact_loss, exact_mass) in zip(pair.losses, pair.log_p, laws, strict=True):
            assert abs(loss - exact_loss) < 1e-15 * (1 + 20 / scale)
            assert abs(log_p - mpmath.log(exact_mass)) < 3e-13
        whole = float(mpmath.fsum(each for _, each in laws)) + pair.lost
        assert whole == pytest.approx(1, abs=1e-14)
        for epsilon in np.linspace(float(laws[0][0]), float(laws[-1][0]), 9)[:-1].tolist():
            u = mpmath.exp(epsilon)
            forward = mpmath.fsum(max(each * (1 - u * mpmath.exp(-loss)), 0) for loss, each in laws)
            backward = mpmath.fsum(max(each * (mpmath.exp(-loss) - u), 0) for loss, each in laws)
            for sticks, exact in ((pair.forward, forward), (pair.backward, backward)):
                found = float(sticks.log_value(np.array([epsilon]))[0])
                assert found == pytest.approx(float(mpmath.log(exact)) if exact else -math.inf, abs=1e-12)


def test_the_tail_is_below_its_bound_in_high_precision():
    for scale, shape, ratio in ((2.0, 5.0, 0.6), (0.3, 0.5, 0.9), (10.0, 40.0, 0.3)):
        last, log_tail = cut(scale, shape, ratio)
        with mpmath.workdps(60):
            square, x = mpmath.exp(-2 / mpmath.mpf(scale)), mpmath.mpf(ratio)
            pairs, smaller = [(1 - x) ** shape], [1 - square]
            for z in range(1, last):
                pairs.append(pairs[-1] * x * (z + mpmath.mpf(shape) - 1) / z)
                smaller.append(smaller[-1] * square)
            cumulative = [mpmath.mpf(0)]
            for mass in smaller:
                cumulative.append(cumulative[-1] + mass)
            within = mpmath.fsum(mass * cumulative[last - z] for z, mass in enumerate(pairs))
            tail = float(mpmath.log(1 - within))
        assert log_tail - 12 < tail <= log_tail


# --- the tight route -----------------------------------------------------------------------------------


def composed(event, count, epsilon):
    """Delta of so many copies by convolution of the finite laws, outcome by outcome."""
    pair = one_count(event.scale, event.shape, event.ratio)
    law = {0.0: 1.0}
    up = list(zip(pair.losses.tolist(), np.exp(pair.log_p).tolist(), strict=True))
    down = [(-loss, mass * math.exp(-loss)) for loss, mass in up]
    for one in [up, down] * count * event.nonzeros:
        one = [(loss, mass) for loss, mass in one if mass > 1e-14]
        following: dict[float, float] = {}
        for (loss, mass), (more, chance) in product(law.items(), one):
            key = round(loss + more, 9)
            following[key] = following.get(key, 0.0) + mass * chance
        law = {loss: mass for loss, mass in following.items() if mass > 1e-15}
    kept = ((1 - pair.lost) * (1 - pair.lost_after)) ** (count * event.nonzeros)
    return 1 - kept + sum(mass * max(-math.expm1(epsilon - loss), 0.0) for loss, mass in law.items())


@pytest.mark.each_run(6)
@pytest.mark.parametrize(
    ("event", "count"),
    [
        (ac.ShuffledCounts(0.7, 4.0, 0.4), 1),
        (ac.ShuffledCounts(0.7, 4.0, 0.4), 2),
        (ac.ShuffledCounts(0.5, 3.0, 0.2, 2), 1),
        (ac.ShuffledCounts(0.8, 0.0, 0.5, 2), 1),
    ],
)
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.5])
def test_composition_is_the_convolution(event, count, epsilon):
    found = ac.delta(count * event, epsilon, method="tight", tolerance=1e-4)
    exact = composed(event, count, epsilon)
    assert found.lower * (1 - 1e-9) <= exact * (1 + 1e-7)
    assert exact * (1 - 1e-7) <= found.delta
    assert found.delta - found.lower <= 1.01e-4 * found.delta


def test_one_release_is_priced_alike_with_and_without_its_own_profile(monkeypatch):
    event = ac.ShuffledCounts(2.4, 15.0, 0.92)
    whole = ac.epsilon(event, 1e-6, method="tight")
    assert whole.source == "profile of one release"
    assert whole.epsilon - whole.lower < 1e-9
    monkeypatch.setattr(ac.ShuffledCounts, "_profile_work", lambda event: 1e30)
    parts = ac.epsilon(event, 1e-6, method="tight", tolerance=1e-3)
    assert parts.source == "privacy-loss distribution"
    assert parts.lower <= whole.epsilon
    assert whole.lower <= parts.epsilon <= whole.epsilon * (1 + 1e-3)
    deltas = ac.curve(event, [0.3, 0.9], method="tight", tolerance=1e-3)
    monkeypatch.undo()
    exact = event.profile([0.3, 0.9]).worst
    assert (deltas.lower <= exact * (1 + 1e-12)).all()
    assert (exact <= deltas.upper).all()


def test_entries_are_rounds():
    many, rounds = ac.ShuffledCounts(9.0, 5.0, 0.97, 6), 6 * ac.ShuffledCounts(9.0, 5.0, 0.97)
    assert many.delta_infinite == pytest.approx(1 - (1 - ac.ShuffledCounts(9.0, 5.0, 0.97).delta_infinite) ** 6)
    first, second = (ac.epsilon(run, 1e-5, method="tight", tolerance=1e-4) for run in (many, rounds))
    assert first.epsilon == second.epsilon
    assert first.delta == 1e-5
    assert first.adjacency is REPLACE
    with pytest.raises(ac.ProfileUnavailable, match="nonzeros = 6 has no computed profile; accepted: 1"):
        many.profile(1.0)


def test_other_releases_may_come_along():
    counts, noise = ac.ShuffledCounts(6.0, 10.0, 0.95, 2), ac.Gaussian(4.0, adjacency=REPLACE)
    both = ac.epsilon(3 * counts + 5 * noise, 1e-5, method="tight", tolerance=1e-3)
    alone = [ac.epsilon(run, 1e-5, method="tight", tolerance=1e-3).epsilon for run in (3 * counts, 5 * noise)]
    assert max(alone) < both.epsilon < sum(alone)
    assert both.lower > 0.999 * both.epsilon


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("run", "delta"),
    [
        (300 * ac.ShuffledCounts(3.944, 182.6, 0.99544, 2), 3e-9),
        (30 * ac.ShuffledCounts(851.2, 13.76, 0.98801, 4), 5.8e-4),
        (300 * ac.ShuffledCounts(221.7, 3.185, 0.99807, 1), 8.6e-4),
        (1000 * ac.ShuffledCounts(216.3, 26.73, 0.99261, 4), 3e-4),
    ],
)
def test_rounds_are_narrow_within_the_default_patience(run, delta, monkeypatch):
    """With losses rounded down from below these ended up to 0.8 % wide, or out of patience."""
    found = ac.epsilon(run, delta, method="tight", tolerance=1e-3)
    assert 0.999 * found.epsilon <= found.lower <= found.epsilon
    monkeypatch.setattr(MovedCount, "_outcomes", lambda event: None)
    wide = ac.epsilon(run, delta, method="tight", tolerance=0.05)
    assert wide.lower <= found.epsilon
    assert found.lower <= wide.epsilon


def test_no_epsilon_takes_the_infinite_losses_away():
    event = ac.ShuffledCounts(3.0, 5.0, 0.8, 4)
    assert event.delta_infinite == pytest.approx(1 - (1 - -math.expm1(-1 / 3) * 0.2**5) ** 4, rel=1e-12)
    assert np.isinf(event.renyi([1.0, 1.5, 30.0, math.inf])).all()
    below, above = event.delta_infinite * (1 - 1e-6), event.delta_infinite * (1 + 1e-6)
    for delta in (0.0, below):
        with pytest.raises(ac.NoGuarantee, match=r"accepted: above 0\.00036"):
            ac.epsilon(event, delta, method="tight")
    with pytest.raises(ac.NoGuarantee, match="Rényi curve is infinite"):
        ac.epsilon(event, above, method="renyi")
    far = ac.epsilon(event, above, method="auto")
    assert far.method == "tight"
    assert far.epsilon > ac.epsilon(event, 1e-2, method="auto").epsilon
    for epsilon in (50.0, 1e300):
        found = ac.delta(event, epsilon, method="tight")
        assert found.delta == pytest.approx(event.delta_infinite, rel=1e-10)
        assert found.delta >= event.delta_infinite
    alone = ac.ShuffledCounts(3.0, 5.0, 0.8)
    with pytest.raises(ac.NoGuarantee, match="infinite"):
        ac.epsilon(alone, alone.delta_infinite * (1 - 1e-6), method="tight")
    assert float(alone.profile(900.0).worst) == pytest.approx(alone.delta_infinite, rel=1e-12)


def test_a_probability_that_underflows_is_not_nothing():
    event = ac.ShuffledCounts(5.0, 1e4, 0.5, 3)
    assert 0 < event.delta_infinite < 1e-300
    with pytest.raises(ac.NoGuarantee):
        ac.epsilon(event, 0.0, method="tight")
    assert ac.delta(event, 100.0, method="tight").delta > 0


# --- bounds and limits ---------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(
    st.floats(-0.5, 0.8),
    st.floats(0.0, 30.0),
    st.floats(0.05, 0.9),
    st.lists(st.floats(0.0, 4.0), min_size=1, max_size=4),
)
def test_more_noise_and_more_pairs_cost_less_and_sums_alone_least(log_scale, shape, ratio, shares):
    scale = 10**log_scale
    epsilons = np.array(shares) / scale
    here = ac.ShuffledCounts(scale, shape, ratio).profile(epsilons).worst
    for other in (
        ac.ShuffledCounts(scale * 1.2, shape, ratio),
        ac.ShuffledCounts(scale, shape * 1.3 + 0.01, ratio),
        ac.ShuffledCounts(scale, shape, ratio + 0.2 * (1 - ratio)),
        ac.DiscreteLaplace(scale, 1, 2, adjacency=REPLACE),
    ):
        assert (other.profile(epsilons).worst <= here * (1 + 1e-11)).all()


@pytest.mark.parametrize(("scale", "shape", "ratio", "eta"), [(4.0, 30.0, 0.9, 0.2), (1.0, 12.0, 0.7, 0.5)])
def test_not_above_the_bound_by_randomized_response(scale, shape, ratio, eta):
    """Ghazi et al.: losses above 1/b + eta only where P3(z)/P3(z-1) > e^eta; then randomized response on 2 c bits."""
    epsilons = np.linspace(0, 2 * (1 / scale + eta), 9)
    steep, mass, z = 0.0, (1 - ratio) ** shape, 0
    while z == 0 or ratio * (z + shape - 1) / z > math.exp(eta):
        steep, z = steep + mass, z + 1
        mass *= ratio * (z + shape - 1) / z
    bound = steep + (1 - steep) * ac.RandomizedResponse(1 / scale + eta, 2, REPLACE).profile(epsilons).worst
    exact = ac.ShuffledCounts(scale, shape, ratio).profile(epsilons).worst
    assert (exact <= bound * (1 + 1e-12)).all()
    assert exact[3] < 0.9 * bound[3]


@pytest.mark.parametrize("nonzeros", [1, 3])
@pytest.mark.parametrize("scale", [0.05, 0.5, 4.0])
def test_without_a_flood_a_missing_message_tells(scale, nonzeros):
    event = ac.ShuffledCounts(scale, 0.0, 0.5, nonzeros)
    assert event.delta_infinite == pytest.approx(-math.expm1(-nonzeros / scale), rel=1e-12)
    # all other losses of a rising count are -1/b, hence those of a falling one 1/b
    pair = one_count(scale, 0.0, 0.5)
    assert pair.losses.min() == pair.losses.max() == -1 / scale


def test_with_a_huge_flood_only_the_sums_tell():
    gaps = []
    for shape in (1e3, 1e4, 1e5):
        found = ac.epsilon(ac.ShuffledCounts(2.0, shape, 0.5, 2), 1e-4, method="tight", tolerance=1e-4).epsilon
        gaps.append(found / ac.epsilon(ac.DiscreteLaplace(2.0, 1, 4, REPLACE), 1e-4, method="tight").lower - 1)
    assert gaps[0] > gaps[1] > gaps[2] > -1e-9
    assert gaps[2] < 0.01
    whole = ac.ShuffledCounts(0.5, 5e4, 0.01).profile([0.0, 1.0, 3.0]).worst
    sums = ac.DiscreteLaplace(0.5, 1, 2, adjacency=REPLACE).profile([0.0, 1.0, 3.0]).worst
    assert whole == pytest.approx(sums, rel=0.01)


def test_with_ever_wider_noise_nothing_tells():
    totals = [
        ac.delta(ac.ShuffledCounts(scale, 3.0, 1 - 1 / scale, 2), 0.0, method="tight").delta
        for scale in (3.0, 30.0, 300.0, 3000.0)
    ]
    assert totals == sorted(totals, reverse=True)
    assert totals[-1] < 2e-3
    assert totals[0] > 0.1


# --- what it is made of --------------------------------------------------------------------------------


def test_the_curve_stands_above_that_of_all_losses(monkeypatch):
    law = 3.0, 8.0, 0.9
    event = MovedCount(*law, rises=True)
    orders = np.array([1.0, 1.5, 4.0, 40.0, 1e3, math.inf])
    exact = event._curve(orders)
    monkeypatch.setattr(shuffled_counts, "SPREAD", 150)
    spread.cache_clear()
    above = event._curve(orders)
    losses, log_p = spread(*law)
    assert losses.size <= 300 < given_finite(*law).losses.size
    assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-12)
    assert np.exp(log_p - losses).sum() == pytest.approx(1, abs=1e-12)
    spread.cache_clear()
    assert (above >= exact * (1 - 1e-12)).all()
    assert above == pytest.approx(exact, rel=0.03)
    assert above[-1] == exact[-1]


@pytest.mark.parametrize("law", [(1000.0, 100.0, 0.99), (300.0, 0.5, 0.9)])
def test_the_curve_is_short_where_losses_coincide(law):
    losses, log_p = spread(*law)
    all_losses, masses = (getattr(given_finite(*law), name) for name in ("losses", "log_p"))
    assert losses.size <= 2 * shuffled_counts.SPREAD < all_losses.size
    assert (np.diff(losses) > 0).all()
    assert losses[[0, -1]].tolist() == all_losses[[0, -1]].tolist()
    assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-11)
    assert np.exp(log_p - losses).sum() == pytest.approx(1, abs=1e-11)
    points = np.linspace(all_losses[0], all_losses[-1], 9)[1:-1]
    for point in points.tolist():  # it dominates
        above, below = (
            (np.exp(p) * -np.expm1(np.minimum(point - x, 0))).sum() for x, p in ((losses, log_p), (all_losses, masses))
        )
        assert above >= below * (1 - 1e-9) - 1e-13


@pytest.mark.parametrize("rises", [True, False])
def test_parts_keep_every_law(rises):
    from accountant.testing import check_event

    event: Event = MovedCount(1.5, 6.0, 0.8, rises=rises)
    remove, add = event._log_profile(np.array([0.2]))
    other = MovedCount(1.5, 6.0, 0.8, rises=not rises)._log_profile(np.array([0.2]))
    assert (remove, add) == (other[1], other[0])
    check_event(event, max_examples=10)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ((0.0, 1.0, 0.5), r"scale = 0 is out of range; accepted: \[0.01, 1e\+06\]"),
        ((1.0, -1.0, 0.5), r"shape = -1 is out of range; accepted: \[0, 1e\+07\]"),
        ((1.0, 1.0, 1.0), r"ratio = 1 is out of range; accepted: \[1e-12, 1\]"),
        ((1.0, 1.0, 0.5, 0), r"nonzeros = 0 is out of range; accepted"),
        ((1e6, 1.0, 0.5), r"spread the messages of a count over 2\.\d+e\+07 values; accepted: 8388608"),
    ],
)
def test_parameters_out_of_range(parameters, message):
    with pytest.raises(ac.ParameterError, match=message):
        ac.ShuffledCounts(*parameters)
