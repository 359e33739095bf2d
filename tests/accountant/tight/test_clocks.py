"""Many kinds of screening in one run: mixtures of references, games on a clock, and one order from below."""

import math
import random
import tracemalloc
from fractions import Fraction
from itertools import pairwise, product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant import patience
from accountant.errors import OutOfPatience, ToleranceUnreachable
from accountant.tight import (
    block_answers,
    clock_blocks,
    clock_game,
    clock_ladders,
    clock_laws,
    clock_plans,
    clock_references,
)
from accountant.tight.clock_blocks import set_clock_run
from accountant.tight.clock_game import play_on_clock, set_clock, size_clock
from accountant.tight.clock_ladders import Spread, find_clocks
from accountant.tight.clock_laws import PRODUCT, Law, law_of, law_work, least_chance
from accountant.tight.clock_order import play_in_clock_order, set_order
from accountant.tight.clock_pairs import ClockPair, SamePairs, use_same_pairs
from accountant.tight.clock_references import Clock, Kind, Reference, find_kinds, share_of
from accountant.tight.game_value import GameValue
from accountant.tight.loss_composition import bound_delta, bound_delta_above
from accountant.tight.pairs import Pairs
from accountant.tight.screening_blocks import Aim
from tests.cases import audit_after
from tests.soak.cases import draw_screening
from tests.soak.exact import play

S, P = ac.NoisyScreening, ac.PoissonSubsampled
LEAST = 1e-30


def draw_run(seed):
    """Three kinds, up to six screenings."""
    dice = random.Random(f"clock {seed}")
    return ac.Composition((draw_screening(dice), dice.randint(1, 2)) for _ in range(3))


def near_run(seed):
    """The same, of kinds that are alike."""
    dice = random.Random(f"near {seed}")
    sigma, most = dice.uniform(1.0, 8.0), dice.randint(2, 4)
    kinds = [S(sigma * dice.uniform(1.0, 1.5), dice.uniform(0.3, 0.7) * most, most) for _ in range(3)]
    rate = dice.choice([1.0, 0.3])
    return ac.Composition((P(kind, rate), dice.randint(1, 2)) for kind in kinds)


def one_clock(run, order=5.0, least=LEAST, fineness=1.0, widest=8.2):
    """All kinds in one game, however little alike they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock_ladders, "LOOSE", 1e3)
        return find_clocks(find_kinds(list(run), order, least), order, fineness, Spread(widest, 1e3))


def short_stride(sized, left=1, long=0.5):
    """Strides of a run that is too short for any; None where even these are too long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock_game, "LEFT", (left,))
        patch.setattr(clock_game, "LONG", (long,))
        patch.setattr(clock_game, "SPARE_DEVIATIONS", 0.0)
        return sized.strides()[-1]


def delta_of_games(clocks, order, epsilon, cut, tolerance=3e-3, fit=lambda *game: game):
    """From above, of all kinds together; with strides, if they are `cut`, and of games as `fit` makes them."""
    blocks, lost = [], sum(clock.lost for clock in clocks)
    for clock in clocks:
        sized = size_clock(clock, order, math.log(1e-4))
        stride = short_stride(sized) if cut else None
        games, added = play_on_clock(set_clock(*fit(sized, sized.cuts(stride, [tolerance])[0])))
        like = clock.kinds[0].event
        blocks, lost = [*blocks, *((ClockPair(like, game), many) for game, many in games)], lost + added
    return bound_delta_above(blocks, epsilon, 0.1).upper + lost


def exact_step(pairs, value, u):
    """The largest mean of `value` that a pair of log-ratios (up, down) gives at u, and at which."""
    best = mp.mpf(0)
    for up, down in pairs:
        p = mp.expm1(-mp.mpf(down)) / mp.expm1(-mp.mpf(up) - mp.mpf(down))
        best = max(best, p * value(u * mp.exp(-mp.mpf(up))) + (1 - p) * value(u * mp.exp(mp.mpf(down))))
    return best


# --- mixtures -------------------------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), x=st.floats(-2.0, 2.0), near=st.booleans(), fineness=st.sampled_from([1.0, 2.5]))
def test_mixtures_of_references_are_above_their_kind(seed, x, near, fineness):
    """For random convex falling W, at random u, in high precision."""
    clocks, _ = one_clock(near_run(seed) if near else draw_run(seed), fineness=fineness)
    assert_mixtures_are_above(clocks, seed, x)


def assert_mixtures_are_above(clocks, seed, x, tried=1, apart=0.2):
    """Each kind, for random convex falling W, at so many random u around e^x."""
    dice = random.Random(seed)
    corners = [(mp.mpf(dice.random()), mp.exp(x + dice.gauss(0.0, 0.3))) for _ in range(3)]

    def value(u):
        return mp.fsum(weight * max(1 - u / corner, 0) for weight, corner in corners)

    with mp.workdps(40):
        for clock in clocks:
            pairs = [None, *(list(zip(*map(np.ndarray.tolist, each.pairs), strict=True)) for each in clock.references)]
            for kind, (below, above), share in zip(clock.kinds, clock.rungs, clock.shares, strict=True):
                own = list(zip(*map(np.ndarray.tolist, kind.above), strict=True))
                for _ in range(tried):
                    u = mp.exp(mp.mpf(x) + mp.mpf(dice.gauss(0.0, apart)))
                    high = exact_step(pairs[above], value, u)
                    low = value(u) if below == 0 else exact_step(pairs[below], value, u)
                    mixed = share * high + (1 - mp.mpf(share)) * low
                    assert exact_step(own, value, u) <= mixed + mp.mpf(10) ** -38


def test_shares_at_their_limits():
    pairs = Pairs(np.array([0.1, 0.2]), np.array([0.25, 0.1]))
    wider = Pairs(pairs.up * 1.5, pairs.down * 1.5)
    assert share_of(pairs, pairs, None) == pytest.approx(1.0, abs=1e-9) or share_of(pairs, pairs, None) == math.inf
    assert 1 / 1.5 <= share_of(pairs, wider, None) <= 1.2 / 1.5
    assert share_of(wider, pairs, None) == math.inf
    middle = Pairs(pairs.up * 1.25, pairs.down * 1.25)
    assert 0.4 < share_of(middle, wider, pairs) < 0.7


# --- ticks ----------------------------------------------------------------------------------------------------


def some_kind(count):
    one = Pairs(np.ones(1), np.ones(1))
    return Kind(S(1.0, 1.0, 2), count, one, one, 0.0, 1.0, 0.0)


def test_the_law_of_ticks_is_that_of_the_sum():
    shares, rungs, counts, ticks = [0.25, 0.5, 0.875], [(0, 1), (1, 2), (0, 2)], [3, 2, 4], [0, 2, 5]
    references = [Reference(each, Pairs(np.ones(1), np.ones(1))) for each in ticks[1:]]
    law = law_of(Clock([some_kind(count) for count in counts], references, rungs, shares), 0.0)
    exact = {0: Fraction(1)}
    for share, (low, high), count in zip(shares, rungs, counts, strict=True):
        for _ in range(count):
            after = {}
            for at, chance in exact.items():
                for more, part in ((ticks[low], 1 - Fraction(share)), (ticks[high], Fraction(share))):
                    after[at + more] = after.get(at + more, 0) + chance * part
            exact = after
    for at in range(max(exact) + 1):
        i = at - law.first
        found = Fraction(float(law.chances[i])) if 0 <= i < law.chances.size else Fraction(0)
        assert exact.get(at, 0) <= found <= exact.get(at, 0) * Fraction(1 + 1e-12)
    assert law.beyond == 0.0


@given(lost=st.sampled_from([1e-12, 1e-4, 0.05]), share=st.floats(0.0, 1.0))
@settings(deadline=None, derandomize=True, max_examples=20)
def test_what_is_not_told_apart_is_moved_to_more_ticks(lost, share):
    one = Law(1, np.array([1 - share, 0.0, share]), 0.0)
    exact, found = one.times(40, 0.0), one.times(40, lost)
    for least in range(130):
        wanted = sum(c for i, c in enumerate(exact.chances.tolist()) if exact.first + i >= least)
        above = found.beyond + sum(c for i, c in enumerate(found.chances.tolist()) if found.first + i >= least)
        assert above >= wanted * (1 - 1e-12)


def wide_clock(count):
    """Two rungs, of which the second one's references are three ticks apart."""
    references = [Reference(each, Pairs(np.ones(1), np.ones(1))) for each in (2, 5)]
    return Clock([some_kind(count), some_kind(2 * count)], references, [(0, 1), (1, 2)], [0.25, 0.5])


@given(share=st.floats(0.0, 1.0), count=st.integers(1, 40), rate=st.floats(1e-3, 3.0))
@settings(deadline=None, derandomize=True, max_examples=20)
def test_exponential_means_of_ticks_are_those_of_their_law(share, count, rate):
    references = [Reference(each, Pairs(np.ones(1), np.ones(1))) for each in (2, 5)]
    clock = Clock([some_kind(count), some_kind(3)], references, [(0, 1), (1, 2)], [0.25, share])
    law = law_of(clock, 0.0)
    ticks = law.first + np.arange(law.chances.size)
    assert float(clock.log_means(np.array([rate]))[0]) == pytest.approx(
        float(np.logaddexp.reduce(np.log(np.maximum(law.chances, 1e-300)) + rate * ticks)), rel=1e-9
    )
    assert clock.mean() == pytest.approx(float(law.chances @ ticks))
    assert clock.most >= ticks[law.chances > 0.0][-1]


@given(ticks=st.integers(0, 150), least=st.integers(0, 60))
@settings(deadline=None, derandomize=True, max_examples=40)
def test_what_is_left_after_strides_is_no_less_than_it_may_be(ticks, least):
    law = law_of(wide_clock(7), 1e-9)
    found = law.less(ticks, least)
    assert found.beyond == law.beyond
    assert found.first >= least
    for at in range(160):
        wanted = sum(c for i, c in enumerate(law.chances.tolist()) if max(law.first + i - ticks, least) >= at)
        above = float(np.sum(found.chances[max(at - found.first, 0) :]))
        assert wanted * (1 - 1e-12) <= above <= wanted * (1 + 1e-12)


@pytest.mark.parametrize("count", [1, 50, 3000, 100_000])
def test_the_work_of_laws_is_known_before(count, monkeypatch):
    """Products of two chances, and the chances that are told apart."""
    clock, done, convolve = wide_clock(count), [], np.convolve

    def counted(one, other):
        done.append(one.size * other.size)
        return convolve(one, other)

    monkeypatch.setattr(clock_laws.np, "convolve", counted)
    law_of(clock, least_chance(math.log(1e-5)))
    assert sum(done) <= law_work(clock, math.log(1e-5)) / PRODUCT <= 8 * sum(done) + 1e6 * math.log2(8 * count)


@given(share=st.floats(0.0, 1.0), count=st.integers(1, 10**12), depth=st.floats(1.0, 700.0))
@settings(deadline=None, derandomize=True)
def test_widths_hold_what_is_likely(share, count, depth):
    """By Bernstein's inequality, or all there is."""
    variance = count * share * (1 - share)
    width = clock_laws._width(count, variance, depth)
    t = (width - 1) / 2
    assert width == count + 1 or t**2 / (2 * (variance + t / 3)) >= depth * (1 - 1e-9)


# --- games ----------------------------------------------------------------------------------------------------


@pytest.mark.audit
def test_the_game_on_a_clock_is_its_recursion():
    """Two references of one or two pairs; every time up to six ticks, in high precision."""
    small, large = [(0.2, 0.3)], [(0.5, 0.4), (0.3, 0.6)]
    references = [Reference(ticks, Pairs(*map(np.array, zip(*sorted(each, key=lambda p: p[0] / p[1]), strict=True))))
                  for ticks, each in ((2, small), (3, large))]  # fmt: skip
    own = references[1].pairs
    clock = Clock([Kind(S(1.0, 1.0, 2), 2, own, own, 0.0, 1.0, 0.0)], references, [(1, 2)], [0.25])
    sized = size_clock(clock, 5.0, math.log(1e-3))
    ((whole, one),), lost = play_on_clock(set_clock(sized, sized.cuts(None, [1e-4])[0]))
    assert (one, lost) == (1, 0.0)

    def value(ticks, u, swap):
        best = max(1 - u, mp.mpf(0))
        for many, pairs in ((2, small), (3, large)):
            if many <= ticks:
                turned = [pair[::-1] for pair in pairs] if swap else pairs
                best = max(best, exact_step(turned, lambda v, left=ticks - many: value(left, v, swap), u))
        return best

    with mp.workdps(30):
        for way in range(2):
            for x in (0.0, 0.3, 0.75):
                u = mp.exp(mp.mpf(x))
                wanted = [value(ticks, u, way == 1) for ticks in range(7)]
                mean = (9 * wanted[4] + 6 * wanted[5] + wanted[6]) / 16
                found = GameValue(whole, whole, way).delta(x).upper
                assert mean <= found <= mean * 1.02 + 1e-9


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(0.0, 0.8),
    order=st.sampled_from([2.0, 6.0, 30.0]),
    near=st.booleans(),
    cut=st.booleans(),
    least=st.sampled_from([LEAST, 1e-2]),
    widest=st.sampled_from([8.2, 1e3]),
)
def test_games_on_clocks_bound_every_interleaving(seed, share, order, near, cut, least, widest):
    """Above and below, for three kinds and up to six steps; whole, and with strides; however different kinds are."""
    run = near_run(seed) if near else draw_run(seed)
    epsilon = share * float(run.renyi(math.inf))
    clocks, alone = one_clock(run, order, least=least, widest=widest)
    with mp.workdps(40):
        true = play(run, epsilon)
        if not alone:
            assert true <= delta_of_games(clocks, order, epsilon, cut)
        if not any(kind.cost for kind in [*alone, *(kind for clock in clocks for kind in clock.kinds)]):
            return
        games = play_in_clock_order(set_order(clocks, alone, order, math.log(1e-4), 3e-3))
        assert max(game.delta(epsilon).lower for game in games.values()) <= true
        same = bound_delta([(SamePairs(list(run), order), 1)], epsilon, 0.5)
        assert same.lower <= true


def test_windows_of_an_order_are_those_of_each_step():
    run = kinds_between(10.0, 20.0, 5, 700)
    kinds = find_kinds(list(run), 5.0, LEAST)
    asked = set_order([], kinds, 5.0, math.log(1e-5), 3e-3)
    b, total = clock_game.ORDERS * 4.0, np.zeros(clock_game.ORDERS.size)
    reaches = [0.0]
    for kind in asked.kinds:
        curve = clock_references.curve_of(Reference(1, kind.above), b)
        for _ in range(kind.times):
            total = total + curve
            reaches.append(float(np.min(total - (math.log(1e-5) - math.log(3500) - 25.0) / b)))
    wanted, found = np.array(reaches), asked.windows()
    assert asked.steps == 3500 == found.size - 1
    sure = np.arange(wanted.size) > 40
    assert found[sure] == pytest.approx(wanted[sure] / asked.step + 1, rel=2e-3, abs=1.0)
    assert asked.work == pytest.approx(120 * float(np.sum(found + 8.0)) + 5e5 * 5, rel=0.01)


def numbered(sigma, kinds, count):
    return ac.Composition((S(sigma * (1 + 0.1 * i), 25.0, 50), count) for i in range(kinds))


@pytest.mark.audit
@pytest.mark.parametrize("count", [20_000, 100_000, 10**6, 10**12])
def test_memory_does_not_grow_with_screenings(count):
    """There were 121 numbers for each of them."""
    run, aim = list(numbered(100.0, 8, count)), Aim(3.0, math.log(1e-5) - 12.0, 0.01, 0.01)
    set_clock_run(list(numbered(100.0, 8, 10)), aim, math.log(1e-5))
    tracemalloc.start()
    found = set_clock_run(run, aim, math.log(1e-5))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found is None) == (8 * count > clock_blocks.MOST_STEPS)
    assert peak < 2e7


def two_games():
    """Two games on clocks, and the grids and strides that each may have."""
    sized = []
    for run in (numbered(100.0, 8, 100), numbered(20.0, 4, 300)):
        (clock,), _ = find_clocks(find_kinds(list(run), 3.0, LEAST), 3.0)
        sized.append(size_clock(clock, 3.0, math.log(1e-5)))
    return sized, [clock_plans.choices_of(each, 0.01) for each in sized]


@pytest.mark.parametrize("most", [1e9, 1e8, 1e7])
def test_work_is_shared_where_it_gains_most(most):
    """No other grids and strides of the same games take no more work and lose less."""
    sized, choices = two_games()
    plans = list(clock_plans.plans_of(choices, [], 0.0, most))
    assert all(plan.work <= most for plan in plans[1:])
    assert all(one.lost >= other.lost for one, other in pairwise(plans))
    for plan in plans[-1:]:
        others = (clock_plans.Plan(sized, [cut for _, cut in each], [], 0.0) for each in product(*choices))
        assert not any(other.work <= plan.work and other.lost < plan.lost * (1 - 1e-12) for other in others)
    for each, cut in zip(sized, plans[-1].cuts, strict=True):
        setup = set_clock(each, cut)
        assert setup.stride == cut.stride
        assert 0.8 * cut.played <= setup.work <= 1.02 * cut.played < cut.work


@pytest.mark.parametrize("most", [3e9, 1e9, 7e8])
def test_what_is_left_of_work_is_used(most):
    """Between two plans of one weight there are others; no game could be played more nearly with what is left."""
    _, choices = two_games()
    *_, last = clock_plans.plans_of(choices, [], 0.0, most)
    found = clock_plans.use_rest(last, choices, most)
    assert found.work <= most
    assert found.lost <= last.lost
    assert found.sized == last.sized
    for i, each in enumerate(choices):
        rest = most - found.work + found.cuts[i].work
        assert not any(cut.work <= rest * (1 - 1e-12) and cut.lost < found.cuts[i].lost for _, cut in each)


@pytest.mark.parametrize("cut", audit_after(1, [True, False]))
def test_what_is_beyond_windows_adds_next_to_nothing(cut, monkeypatch):
    """Twenty nats further out epsilon's delta is the same; with windows that end at delta itself it is larger."""
    run, order, log_delta = list(kinds_between(10.0, 14.0, 6, 60 if cut else 6)), 6.0, math.log(1e-6)
    (clock,), _ = find_clocks(find_kinds(run, order, LEAST), order)
    epsilon = ac.epsilon(ac.Composition(run), 1e-6, method="renyi").epsilon

    def priced(outer):
        monkeypatch.setattr(clock_game, "OUTER", outer)
        sized = size_clock(clock, order, log_delta)
        setup = set_clock(sized, sized.cuts(short_stride(sized, 16, 1.0) if cut else None, [1e-3])[0])
        games, lost = play_on_clock(setup)
        assert (len(games) > 1) == cut
        pairs = [(ClockPair(run[0][0], game), many) for game, many in games]
        return bound_delta_above(pairs, epsilon, 1e-3).upper + lost, int(setup.reach[-1])

    (usual, reach), (far, farther), (near, nearer) = (priced(each) for each in (clock_game.OUTER, 29.0, -8.0))
    assert nearer < reach < farther
    assert usual == pytest.approx(far, rel=1e-3)
    assert near >= far * (1 - 1e-3)


# --- prices ---------------------------------------------------------------------------------------------------


def tight(run, delta, **options):
    return ac.epsilon(run, delta, method="tight", **options)


def kinds_between(low, high, kinds, count, rate=1.0):
    """Noise from `low` to `high`, thresholds not far from the middle."""
    sigmas = np.linspace(low, high, kinds).tolist()
    return ac.Composition((P(S(sigma, 28.0 + i % 5, 60), rate), count) for i, sigma in enumerate(sigmas))


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("run", "delta"),
    audit_after(
        2,
        [
            (kinds_between(12.0, 15.0, 40, 3), 1e-10),
            (kinds_between(10.0, 16.0, 25, 4, 0.1), 1e-6),
            (kinds_between(10.0, 20.0, 30, 4), 1e-5),
        ],
    ),
)
def test_many_near_kinds_are_known_within_the_tolerance(run, delta):
    """By blocks of groups they were 2.5 % wide, and more."""
    found = tight(run, delta, patience=60.0)
    assert 0.99 * found.epsilon <= found.lower <= found.epsilon < ac.epsilon(run, delta, method="renyi").epsilon
    assert "blocks of screenings" in found.source


@pytest.mark.audit
def test_many_kinds_beside_other_releases():
    run, delta = kinds_between(10.0, 20.0, 30, 3), 1e-5
    votes = 100 * P(ac.Gaussian(2.0), 0.01)
    alone, both = tight(run, delta), tight(run + votes, delta)
    assert 0.99 * both.epsilon <= both.lower <= both.epsilon < ac.epsilon(run + votes, delta, method="renyi").epsilon
    assert alone.lower < both.epsilon
    assert both.lower <= alone.epsilon + tight(votes, 1e-9).epsilon
    one = ac.delta(run, alone.epsilon, method="tight", tolerance=0.3)
    assert one.lower <= delta
    assert 0.7 * one.delta <= one.lower
    assert one.delta >= ac.delta(run, alone.epsilon * 1.03, method="tight", tolerance=0.3).lower


def test_kinds_of_equal_pairs_cost_what_one_kind_does():
    """Counts and thresholds moved by the same number: the run is one of 60 screenings of one kind."""
    run = ac.Composition((S(12.0, 30.0 + i, 60 + i, i), 5) for i in range(12))
    found, known = tight(run, 1e-5), tight(60 * S(12.0, 30.0, 60), 1e-5)
    assert found.lower <= known.epsilon
    assert known.lower <= found.epsilon <= known.epsilon * 1.012


def test_kinds_that_cost_nothing_change_nothing():
    run = kinds_between(10.0, 14.0, 10, 3)
    found = tight(run, 1e-5)
    for little in (P(S(12.0, 30.0, 60), 0.0), S(1e9, 3.0, 5)):
        assert tight(run + little, 1e-5).epsilon == pytest.approx(found.epsilon, rel=0.01)


def test_the_game_of_all_kinds_meets_that_on_a_clock(monkeypatch):
    """Two kinds, whose own game says what is true."""
    run, delta = 30 * S(12.0, 30.0, 60) + 30 * S(10.0, 31.0, 60), 1e-5
    true = tight(run, delta)
    monkeypatch.setattr(block_answers, "MANY_KINDS", 2)
    found = tight(run, delta)
    assert found.source != true.source
    assert found.lower <= true.epsilon
    assert true.lower <= found.epsilon <= 1.01 * true.epsilon


@pytest.mark.audit
def test_too_many_screenings_for_clocks_are_priced_as_blocks_of_each_kind(monkeypatch):
    run = numbered(1000.0, 8, 10**6)
    found = ac.epsilon(run, 1e-5)
    monkeypatch.setattr(block_answers, "MANY_KINDS", 10**9)
    known = ac.epsilon(run, 1e-5)
    assert (found.lower, found.epsilon) == (known.lower, known.epsilon)
    assert 0.99 * found.epsilon <= found.lower


def test_what_clocks_certified_is_told_where_blocks_take_too_long(monkeypatch):
    run = kinds_between(10.0, 20.0, 9, 3)
    known = tight(run, 1e-5)

    def wide(self, aim, delta, ask, most_lost):
        refusal = ToleranceUnreachable("no nearer")
        refusal.found, refusal.wide = (0.9 * known.lower, known.epsilon), "0.11"
        raise refusal

    def long(families, aim):
        raise OutOfPatience("blocks take too long", 100.0)

    monkeypatch.setattr(block_answers.Blocks, "_ask_clocks", wide)
    monkeypatch.setattr(block_answers, "cut_kinds", long)
    found = ac.epsilon(run, 1e-5)
    assert found.lower == pytest.approx(0.9 * known.lower, rel=1e-12)
    assert found.epsilon == pytest.approx(known.epsilon, rel=1e-12)


def test_pairs_that_are_played_at_every_step_fit_in_memory():
    """Every number of screenings has a loss: with much patience they were made of any number."""
    millions = [(ac.NoisyScreening(sigma, 200, 300), 30_000_000) for sigma in (1000.0, 2000.0)]
    with patience.allow_work(math.inf), pytest.raises(ac.ToleranceUnreachable, match=r"60000000 screenings .* memory"):
        use_same_pairs(millions, 2.0)


def test_games_that_lose_too_much_are_refused_only_where_patience_would_help():
    """What they take is named before one is played; where none is near enough nothing is."""
    run, aim = list(numbered(100.0, 3, 2000)), Aim(3.0, math.log(1e-9) - 12.0, 1e-3, 0.01)
    with (
        patience.allow_work(0.3),
        pytest.raises(ac.OutOfPatience, match="games on clocks of 3 kinds of screening") as refusal,
    ):
        set_clock_run(run, aim, math.log(1e-9), 1e-3)
    with patience.allow_work(refusal.value.seconds * 1.01):
        assert set_clock_run(run, aim, math.log(1e-9), 1e-3).about <= 1e-3
    with patience.allow_work(0.3):
        assert set_clock_run(run, aim, math.log(1e-9), 1e-12) is None
