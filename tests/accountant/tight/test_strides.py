"""Strides: one pair for many ticks of a game, wherever some are left after them."""

import math
import random

import mpmath as mp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant.tight import clock_game, strides
from accountant.tight.clock_game import play_on_clock, set_clock, size_clock
from accountant.tight.clock_pairs import ClockPair
from accountant.tight.clock_references import Clock, Kind, Reference, cost_of
from accountant.tight.hulls import hull_of_both, lower_to_hull
from accountant.tight.loss_composition import bound_delta_above, bound_epsilon
from accountant.tight.pairs import Pairs
from accountant.tight.strides import Stride, add_tents, cut_off, find_stride, outcomes_of
from tests.accountant.tight.test_clocks import one_clock

S, P = ac.NoisyScreening, ac.PoissonSubsampled


def profile_of(losses, masses, step, points):
    """Of a pair with probabilities at multiples of a step, by direction and grid point, exact."""
    found = np.zeros((2, points))
    for k in range(points):
        for i, p in zip(losses, masses, strict=True):
            found[0, k] += float(p * max(1 - mp.exp(mp.mpf(step) * (k - i)), 0))
            found[1, k] += float(p * mp.exp(-mp.mpf(step) * i) * max(1 - mp.exp(mp.mpf(step) * (k + i)), 0))
    return found


def value_at(profile, step, x):
    """A profile between grid points, linear in u = e^x, in high precision; 0 beyond."""
    if x < 0:
        u = mp.exp(x)
        return 1 - u + u * value_at(profile[::-1], step, -x)
    k = int(mp.floor(x / mp.mpf(step) + mp.mpf(10) ** -20))
    if k + 1 >= profile.shape[1]:
        return mp.mpf(float(profile[0, -1])) if k + 1 == profile.shape[1] and x == k * mp.mpf(step) else mp.mpf(0)
    low, high, u = mp.exp(k * mp.mpf(step)), mp.exp((k + 1) * mp.mpf(step)), mp.exp(x)
    share = (u - low) / (high - low)
    return (1 - share) * mp.mpf(float(profile[0, k])) + share * mp.mpf(float(profile[0, k + 1]))


# --- profiles on grids ----------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), step=st.sampled_from([1e-3, 0.05, 1.0]))
@settings(deadline=None, derandomize=True, max_examples=40)
def test_probabilities_of_a_profile_are_not_too_large(seed, step):
    """Those of a pair whose losses are grid points, told from its profile."""
    dice, points = random.Random(seed), 12
    losses = sorted(dice.sample(range(-points + 1, points), 6))
    with mp.workdps(40):
        masses = [mp.mpf(dice.random()) for _ in losses]
        if not losses[0] < 0 < losses[-1]:
            return
        masses = [p * mp.mpf(0.8) for p in balanced(losses, masses, step)]
        masses, losses = [*masses, mp.mpf(0.2)], [*losses, 0]
        profile = profile_of(losses, masses, step, points)
        right, left = np.zeros_like(profile), np.zeros_like(profile)
        assert outcomes_of(profile, step, right, left)
        other = [p * mp.exp(-mp.mpf(step) * i) for i, p in zip(losses, masses, strict=True)]
        # values are rounded before their probabilities are asked
        error = 4e-16 / step * 2
        for sign, found in ((1, right), (-1, left)):
            for i in range((1 - sign) // 2, points):
                for way, each in enumerate((masses, other)):
                    at = sign * i * (1 - 2 * way)
                    p = float(mp.fsum(p for place, p in zip(losses, each, strict=True) if place == at))
                    assert p - 400 * error <= found[way, i] <= p + 10 * error


def test_a_profile_with_a_dent_at_0_is_none():
    profile = np.array([[0.3, 0.1, 0.0], [0.3, 0.1, 0.0]])
    assert outcomes_of(profile, 0.5, *np.zeros((2, 2, 3)))
    profile[:, 0] = 0.9
    assert not outcomes_of(profile, 0.5, *np.zeros((2, 2, 3)))


def test_composing_is_composing():
    """Two pairs of a few losses against the sum over both, in high precision."""
    step, points = 0.25, 16
    with mp.workdps(30):
        one = profile_of([-2, 0, 3], balanced([-2, 0, 3], [0.3, 0.4, 0.3], step), step, points)
        losses, masses = [-1, 1, 4], balanced([-1, 1, 4], [0.5, 0.3, 0.2], step)
        other = profile_of(losses, masses, step, points)
        right, left = np.zeros_like(other), np.zeros_like(other)
        assert outcomes_of(other, step, right, left)
        found = other + add_tents(right, left, one, step)
        for k in range(points):
            wanted = mp.fsum(
                p * value_at(one, step, (k - i) * mp.mpf(step)) for i, p in zip(losses, masses, strict=True)
            )
            assert found[0, k] == pytest.approx(float(wanted), rel=1e-11, abs=1e-14)
            assert found[0, k] <= float(wanted) * (1 + 1e-13)


def balanced(losses, masses, step):
    """Probabilities changed so that both distributions add up to 1."""
    up = mp.fsum(p * (1 - mp.exp(-mp.mpf(step) * i)) for i, p in zip(losses, masses, strict=True) if i > 0)
    down = mp.fsum(p * (mp.exp(-mp.mpf(step) * i) - 1) for i, p in zip(losses, masses, strict=True) if i < 0)
    changed = [mp.mpf(p) * (down / up if i > 0 else 1) for i, p in zip(losses, masses, strict=True)]
    return [p / mp.fsum(changed) for p in changed]


# --- strides --------------------------------------------------------------------------------------------------


def small_clock(seed, times):
    """One kind whose references have a few random pairs, and take 2 and 3 ticks."""
    dice, references = random.Random(seed), []
    for ticks in (2, 3):
        pairs = sorted(
            ((dice.uniform(0.05, 0.4), dice.uniform(0.05, 0.4)) for _ in range(2)), key=lambda p: p[0] / p[1]
        )
        references.append(Reference(ticks, Pairs(*map(np.array, zip(*pairs, strict=True)))))
    own = references[1].pairs
    return Clock([Kind(S(1.0, 1.0, 2), times, own, own, 0.0, cost_of(own, 3.0), 0.0)], references, [(1, 2)], [0.25])


def values_and_stride(seed, monkeypatch, times=60, least=4, long=2.0):
    """What a stride is made of, and the stride."""
    kept = {}

    def keep(stride, values, step):
        kept.update(stride=stride, values=values, step=step)
        return find_stride(stride, values, step)

    monkeypatch.setattr(clock_game, "find_stride", keep)
    monkeypatch.setattr(clock_game, "LEFT", (least,))
    monkeypatch.setattr(clock_game, "LONG", (long,))
    sized = size_clock(small_clock(seed, times), 3.0, math.log(1e-5))
    games, lost = play_on_clock(set_clock(sized, sized.cuts(sized.strides()[-1], [3e-3])[0]))
    return kept["stride"], kept["values"], kept["step"], games, lost


@pytest.mark.each_run(2)
@pytest.mark.parametrize("seed", range(6))
def test_a_stride_is_as_large_as_it_must_be(seed, monkeypatch):
    """At grid points and between them, whatever is left after it, in both directions, in high precision."""
    stride, values, step, ((game, many), _), _ = values_and_stride(seed, monkeypatch)
    assert many == stride.many > 1
    dice, pair = random.Random(seed), game.upper
    profile = hull_of_both(pair, step)
    with mp.workdps(30):
        for _ in range(8):
            ticks, way = dice.choice(stride.compared), dice.randrange(2)
            left = hull_of_both(values[ticks], step)
            x = step * (dice.randrange(left.shape[1] // 2) + dice.choice([0.0, dice.random()]))
            wanted = value_at(values[ticks + stride.ticks][:: 1 - 2 * way], step, mp.mpf(x)) - stride.lost
            # the probabilities of the stride's pair, and of what is left after each of its losses
            whole = mp.mpf(0)
            for i in range(-profile.shape[1] + 1, profile.shape[1]):
                whole += mass_at(profile[:: 1 - 2 * way], step, i) * flat_at(
                    left[:: 1 - 2 * way], step, x - i * mp.mpf(step)
                )
            assert whole >= wanted * (1 - mp.mpf(10) ** -12)


def mass_at(profile, step, i):
    """The probability at a loss: how much the slope of a profile in u changes there, times u."""
    near = [value_at(profile, step, (i + k) * mp.mpf(step)) for k in (-1, 0, 1)]
    on, back = mp.expm1(mp.mpf(step)), -mp.expm1(-mp.mpf(step))
    return max((near[2] - near[1]) / on - (near[1] - near[0]) / back, mp.mpf(0))


def flat_at(profile, step, x):
    """The same beyond the grid as at its edge."""
    last = (profile.shape[1] - 1) * mp.mpf(step)
    return value_at(profile, step, min(x, last))


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), log_delta=st.floats(-11.5, -2.0), long=st.sampled_from([0.5, 2.0, 6.0]))
def test_strides_hold_what_is_played_to_its_end(seed, log_delta, long):
    """Against the same game without strides, which is known within a thousandth, about."""
    delta, like, times = math.exp(log_delta), S(1.0, 1.0, 2), 400
    with pytest.MonkeyPatch.context() as patch:
        stride, *_, games, lost = values_and_stride(seed, patch, times, least=16, long=long)
        sized = size_clock(small_clock(seed, times), 3.0, math.log(1e-5))
        ((whole, _),), none = play_on_clock(set_clock(sized, sized.cuts(None, [1e-3])[0]))
    assert stride.many > 1
    assert none == 0.0
    true = bound_epsilon([(ClockPair(like, whole), 1)], delta, 1e-3, above=True).upper
    found = bound_epsilon([(ClockPair(like, game), many) for game, many in games], delta - lost, 1e-3, above=True).upper
    assert true * (1 - 3e-3) <= found <= true * 1.08


@pytest.mark.parametrize(("epsilon", "times"), [(0.05, 2000), (0.5, 300)])
def test_strides_of_one_pair_are_its_composition(epsilon, times, monkeypatch):
    """Randomized response has one pair: there is no choice, and the composition is known exactly."""
    pairs = Pairs(np.array([epsilon]), np.array([epsilon]))
    kind = Kind(S(1.0, 1.0, 2), times, pairs, pairs, 0.0, cost_of(pairs, 2.0), 0.0)
    clock = Clock([kind], [Reference(1, pairs)], [(0, 1)], [1.0])
    monkeypatch.setattr(clock_game, "LEFT", (32,))
    sized, exact = size_clock(clock, 2.0, math.log(1e-5)), times * ac.RandomizedResponse(epsilon)
    for stride in sized.strides()[1:]:
        games, lost = play_on_clock(set_clock(sized, sized.cuts(stride, [1e-3])[0]))
        assert games[0][1] == stride.many
        entries = [(ClockPair(S(1.0, 1.0, 2), game), many) for game, many in games]
        for delta in (1e-2, 1e-5):
            true = ac.epsilon(exact, delta, method="tight")
            found = bound_epsilon(entries, delta - lost, 1e-3, above=True).upper
            # sums of equal losses lie on a lattice of their own, between the losses of a stride
            assert true.lower <= found <= true.epsilon * 1.04


NEAR = 2000 * S(20.0, 14.0, 20) + 2000 * S(20.4, 14.0, 20)


def screenings_with_strides(stride_of, tolerance=1e-3):
    run = NEAR
    ((clock,), _) = one_clock(run, 5.0, widest=8.2)
    sized = size_clock(clock, 5.0, math.log(1e-6))
    games, lost = play_on_clock(set_clock(sized, sized.cuts(stride_of(sized.strides()), [tolerance])[0]))
    return run, [(ClockPair(S(20.0, 14.0, 20), game), many) for game, many in games], lost


def test_many_short_strides_lose_less_than_a_few_blocks():
    """What strides lose is less than a tenth of a screening each; blocks lost more than one."""
    run, entries, lost = screenings_with_strides(
        lambda found: next(each for each in found[1:] if each.least >= 32 * each.longest)
    )
    assert entries[0][1] > 20
    exact = ac.epsilon(run, 1e-6, method="tight", tolerance=2e-3)
    found = bound_epsilon(entries, 1e-6 - lost, 1e-3, above=True).upper
    assert exact.lower <= found <= exact.epsilon * 1.02


def grids(seed=1):
    with pytest.MonkeyPatch.context() as patch:
        return values_and_stride(seed, patch)[:3]


def test_what_is_too_small_is_found_short():
    """A thousandth less at a single grid point, or everywhere, and the pair is none."""
    stride, values, step = grids()
    search = strides._Search(stride, values, step)
    sought, lost = find_stride(stride, values, step)
    assert lost == stride.lost
    assert search.find_short(sought) == []
    assert search.find_short(sought * (1 - 1e-3))
    short = search.find_short(sought * (1 - 1e-3))
    assert {each.way for each in short} == {0, 1}
    assert all(each.missing > 0.0 for each in short)


@pytest.mark.filterwarnings("error")
def test_ticks_that_cost_less_than_may_be_lost_need_no_loss():
    """All is worth as much with a stride of nothing: its profile is 0, and no number that is not one."""
    stride, values, step = grids()
    first = stride.compared[0]
    still = {ticks: values[first] for ticks in stride.kept}
    found, lost = find_stride(stride._replace(lost=1e-9), still, step)
    assert lost == 1e-9
    assert np.all(found >= 0.0)
    assert float(np.max(found)) < 1e-3 * float(np.max(values[first]))


def test_what_is_no_number_is_no_stride():
    stride, values, step = grids()
    search = strides._Search(stride, values, step)
    assert search.find_short(np.full_like(values[stride.enough], math.nan)) != []


def test_what_a_stride_adds_beyond_the_grid_is_lost(monkeypatch):
    """On a grid that ends too early values do not fall to nothing: a stride of few losses adds nothing there."""
    monkeypatch.setattr(clock_game, "OUTER", -2.0)
    step, times, pairs = 0.125, 27, Pairs(np.array([0.25]), np.array([0.125]))
    kind = Kind(S(1.0, 1.0, 2), times, pairs, pairs, 0.0, cost_of(pairs, 1.5), 0.0)
    sized = size_clock(Clock([kind], [Reference(1, pairs)], [(0, 1)], [1.0]), 1.5, -2.3)
    stride = Stride(2, 12, 3, 1, 1e-28, 0.5)
    games, lost = play_on_clock(set_clock(sized, clock_game.Cut(stride, step, 0.0, 0.0)))
    entries = [(ClockPair(S(1.0, 1.0, 2), game), many) for game, many in games]
    up, down = mp.mpf(0.25), mp.mpf(0.125)
    q = (1 - mp.exp(-down)) / (mp.exp(up) - mp.exp(-down))
    p = q * mp.exp(up)
    for epsilon in (5.0, 5.625, 6.0, 6.5):
        true = mp.fsum(
            mp.binomial(times, k)
            * max(p**k * (1 - p) ** (times - k) - mp.exp(epsilon) * q**k * (1 - q) ** (times - k), 0)
            for k in range(times + 1)
        )
        assert true > 0
        assert bound_delta_above(entries, epsilon, 1e-3).upper + lost >= true


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("b", [1e3, 1e5, 1e8])
def test_a_stride_is_found_where_moments_overflow(b):
    """Their logs are compared; what is found is large enough, or what is enough is taken."""
    stride, values, step = grids()
    found, lost = find_stride(stride._replace(b=b), values, step)
    wanted, edge = cut_off(lower_to_hull(values[stride.enough], step))
    short = strides._Search(stride._replace(b=b), values, step).find_short(found)
    assert (short == [] and lost == stride.lost) or ((found == wanted).all() and lost == edge)


def test_strides_that_lose_more_than_delta_leave_the_renyi_price():
    """Nothing is left for the pairs; the run is priced, or refused by name."""
    run = 2000 * S(10.0, 0.5, 1)
    found = ac.epsilon(run, 1e-300, method="tight", tolerance=3e-3)
    assert found.epsilon <= ac.epsilon(run, 1e-300, method="renyi").epsilon * (1 + 1e-9)


def test_losses_that_are_far_larger_than_their_deviation_have_a_grid():
    """A screening whose noise is next to nothing: log-ratios of 142, and next to no chance of any."""
    run = ac.Composition((S(0.03 + 0.0005 * i, 0.5, 1), 600) for i in range(8))
    found = ac.epsilon(run, 1e-5, method="tight")
    assert found.epsilon * 0.99 <= found.lower <= found.epsilon


def test_where_no_stride_is_found_ticks_that_are_enough_are_one(monkeypatch):
    stride, values, step = grids()
    wanted, edge = cut_off(lower_to_hull(values[stride.enough], step))
    monkeypatch.setattr(strides._Search, "solve", lambda search: None)
    found, lost = find_stride(stride, values, step)
    assert (found == wanted).all()
    assert lost == edge


def test_what_is_still_missing_is_added_in_the_end(monkeypatch):
    """After the last linear programme as much of what is enough as it takes."""
    stride, values, step = grids()
    usual, _ = find_stride(stride, values, step)
    solve = strides._Search.solve
    monkeypatch.setattr(strides._Search, "solve", lambda search: solve(search) * (1 - 1e-4))
    found, lost = find_stride(stride, values, step)
    assert lost == stride.lost
    assert strides._Search(stride, values, step).find_short(found) == []
    assert found[0, 0] <= usual[0, 0] * 1.01


def test_ticks_of_a_stride():
    stride = Stride(3, 40, 10, 4, 1e-12, 2.0)
    assert list(stride.compared) == [10, 11, 12, 13]
    assert stride.enough == 43
    assert stride.last == 53 == max(stride.kept)
    assert stride.kept == [10, 11, 12, 13, 43, 50, 51, 52, 53]


def test_strides_and_what_is_left_make_up_the_run():
    (clock,), _ = one_clock(NEAR, 5.0, widest=8.2)
    sized = size_clock(clock, 5.0, math.log(1e-6))
    none, *found = sized.strides()
    assert none is None
    assert found
    for each in found:
        left = sized.mean - each.many * each.ticks
        assert left >= each.least + 2 * sized.spread
        assert left < each.least + 2 * sized.spread + each.many + 1
        assert each.lost * each.many == pytest.approx(1e-6 * math.exp(-9.0))
