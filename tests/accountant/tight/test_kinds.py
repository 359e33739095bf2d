"""Several kinds of screening in one run, against exact games; by their game, and as blocks."""

import math
import random

import mpmath as mp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant.adjacency import DIRECTIONS
from accountant.errors import ToleranceUnreachable
from accountant.patience import allow_work
from accountant.tight import block_answers, block_rates, games_last, screening_families
from accountant.tight.both_sides import BothSides
from accountant.tight.game_setup import Asked, round_down, set_up, work_of
from accountant.tight.kinds_above import bound_kinds
from accountant.tight.loss_composition import bound_delta, bound_epsilon
from accountant.tight.mixed_game import play_kinds
from accountant.tight.screening_blocks import Aim, cut_in_one
from accountant.tight.screening_families import solve_between, solve_game, solve_in_order, solve_near
from tests.cases import audit_after
from tests.soak.cases import draw_screening
from tests.soak.exact import FewOutcomes, game_chain, play, screening_pairs, value_by_recursion

S, P = ac.NoisyScreening, ac.PoissonSubsampled
ROUNDS = 2000 * P(S(85.0, 210.0, 300), 0.03) + 2000 * P(S(60.0, 210.0, 300), 0.03)
VOTES = 500 * P(ac.Gaussian(25.0, math.sqrt(2.0)), 0.03) + 500 * P(ac.Gaussian(20.0, math.sqrt(2.0)), 0.03)


def tight(run, delta, **options):
    return ac.epsilon(run, delta, method="tight", **options)


def draw_run(seed):
    """Three kinds, up to six screenings."""
    dice = random.Random(f"kinds {seed}")
    return ac.Composition((draw_screening(dice), dice.randint(1, 2)) for _ in range(3))


# --- what the tests compare with ----------------------------------------------------------------------------


@pytest.mark.parametrize("x", [0.0, 0.05, 0.4])
@pytest.mark.parametrize("swap", [False, True])
def test_chains_are_the_recursion(x, swap):
    run = 2 * S(1.0, 1.0, 2) + P(S(0.7, 2.0, 2), 0.4)
    with mp.workdps(60):
        kinds = [screening_pairs(event) for event in run.entries]
        if swap:
            kinds = [[[(q, p) for p, q in pair] for pair in pairs] for pairs in kinds]
        true = value_by_recursion(kinds, (2, 1), mp.exp(x))
        chain = [(q, p) for p, q in game_chain(run)] if swap else game_chain(run)
        found = mp.ldexp(sum(max(p - int(mp.exp(x) * q), 0) for q, p in chain), -300)
        assert abs(found - true) < mp.mpf("1e-55")


# --- the game -------------------------------------------------------------------------------------------------


@pytest.mark.audit
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), share=st.floats(0.0, 1.0), tolerance=st.sampled_from([0.1, 0.01, 1e-3]))
def test_three_kinds_in_any_order(seed, share, tolerance):
    run = draw_run(seed)
    epsilon = share * float(run.renyi(math.inf))
    bounds = [solve_game(run, way, delta=1e-3, tolerance=tolerance).delta(epsilon) for way in DIRECTIONS]
    with mp.workdps(60):
        assert max(each.lower for each in bounds) <= play(run, epsilon) <= max(each.upper for each in bounds)


def fixed(kinds, order, u):
    """The same where the kinds come in one order, the pairs as one likes."""
    if not order:
        return max(1 - u, mp.mpf(0))
    return max(mp.fsum(p * fixed(kinds, order[1:], u * q / p) for p, q in pair) for pair in kinds[order[0]])


@pytest.mark.audit
def test_looking_before_choosing_the_kind_pays():
    """No order that is fixed in advance is worth as much; the certificate tells them apart."""
    run = 2 * S(0.5, 1.5, 3) + 2 * S(1.0, 0.0, 3)
    orders = [(0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 0), (1, 0, 0, 1), (1, 0, 1, 0), (1, 1, 0, 0)]
    with mp.workdps(40):
        kinds = [screening_pairs(event) for event in run.entries]
        best = max(fixed(kinds, order, mp.exp(2)) for order in orders)
        bounds = solve_game(run, "remove", delta=0.1, tolerance=1e-4).delta(2.0)
        assert best < bounds.lower <= play(run, 2.0) <= bounds.upper


@pytest.mark.audit
@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), step=st.sampled_from([0.2, 0.05, 0.0125]), slack=st.sampled_from([1e-9, 1e-2]))
def test_the_game_from_above_is_that_with_tests(seed, step, slack):
    setup = set_up(Asked(draw_run(seed), 1e-3))
    step = math.ldexp(round(2**20 * step * setup.deviation) or 1, -20)
    windows = setup.windows(step)
    both = [played(setup.families, windows, step, slack) for played in (bound_kinds, play_kinds)]
    above, (upper, tests) = both[0], both[1]
    assert (tests["value"] <= np.minimum(above, upper)).all()
    assert above == pytest.approx(upper, rel=slack + 1e-12, abs=1e-14)


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), share=st.floats(0.0, 0.9), order=st.sampled_from([1.5, 5.0, 50.0]))
def test_one_order_of_the_kinds_is_one_of_those_that_may_be_chosen(seed, share, order):
    dice = random.Random(f"one order {seed}")
    run = ac.Composition((draw_screening(dice), dice.randint(1, 2)) for _ in range(2))
    epsilon = share * float(run.renyi(math.inf))
    bounds = [each.delta(epsilon) for each in solve_in_order(run, order, 1e-3, 1e-3)]
    with mp.workdps(40):
        kinds = [screening_pairs(event) for event in run.entries]
        cheapest = sorted(range(2), key=lambda k: float([*run.entries][k].renyi(order)))
        steps = [k for k in cheapest for _ in range(list(run)[k][1])]
        swapped = [[[(q, p) for p, q in pair] for pair in pairs] for pairs in kinds]
        true = [fixed(each, steps, mp.exp(mp.mpf(epsilon))) for each in (kinds, swapped)]
        for found, exact in zip(bounds, true, strict=True):
            assert found.lower <= exact <= found.upper
        assert max(found.lower for found in bounds) <= play(run, epsilon)
        if true[0] > 1e-3:
            assert bounds[0].upper - bounds[0].lower <= 0.05 * bounds[0].upper


def delta_width(epsilon):
    """Of the larger delta of both directions, relative to its upper end."""

    def width(values):
        found = [value.delta(epsilon) for value in values.values()]
        high = max(each.upper for each in found)
        return (high - max(each.lower for each in found)) / max(high, 1e-300)

    return width


@pytest.mark.each_run(2)
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), share=st.floats(0.0, 0.9), tolerance=st.sampled_from([0.1, 0.01, 1e-3]))
def test_what_one_order_and_the_game_from_above_tell_holds(seed, share, tolerance):
    """Also where the run is so small that its tests are played at once, and whether or not one order is enough."""
    run, few = draw_run(seed), screening_families.FEW_MOVES
    epsilon = share * float(run.renyi(math.inf))
    screening_families.FEW_MOVES = 0
    try:
        values, refusal = solve_between(run, 1e-3, tolerance, delta_width(epsilon))
    finally:
        screening_families.FEW_MOVES = few
    bounds = [value.delta(epsilon) for value in values.values()]
    with mp.workdps(60):
        assert max(each.lower for each in bounds) <= play(run, epsilon) <= max(each.upper for each in bounds)
    assert refusal is not None or delta_width(epsilon)(values) <= tolerance


def test_where_one_order_is_not_enough_the_tests_of_the_game_are_played(monkeypatch):
    """As whoever looks before choosing the kind gets more, the bounds of one order would never meet."""
    run, played = 2 * S(0.5, 1.5, 3) + 2 * S(1.0, 0.0, 3), []
    monkeypatch.setattr(screening_families, "FEW_MOVES", 0)
    tests = screening_families.play_kinds
    monkeypatch.setattr(screening_families, "play_kinds", lambda *args: played.append(args) or tests(*args))
    screening_families._play.cache_clear()
    values, refusal = solve_between(run, 0.1, 1e-4, delta_width(2.0))
    assert refusal is None
    assert played
    assert delta_width(2.0)(values) <= 1e-4


def test_one_order_from_below_is_enough_for_two_rounds(monkeypatch):
    """7884 states, and no test of any but one order's: the delta took three times the usual patience."""
    run = 218 * P(S(26.87, 20.0, 40), 0.2) + 35 * P(S(13.96, 20.0, 40), 0.2)
    monkeypatch.setattr(screening_families, "play_kinds", None)
    screening_families._play.cache_clear()
    found = ac.delta(run, 0.443282, method="tight")
    assert found.delta * 0.99 <= found.lower <= found.delta


def test_what_is_known_when_patience_ends_is_kept():
    """On the first grid, by one order; the refusal says what finer ones take."""
    run = 218 * P(S(26.87, 20.0, 40), 0.2) + 35 * P(S(13.96, 20.0, 40), 0.2)
    with allow_work(2.5):
        values, refusal = solve_between(run, 1e-6, 3e-3, delta_width(0.443282))
    assert isinstance(refusal, ac.OutOfPatience)
    assert "known within" in str(refusal)
    assert 3e-3 < delta_width(0.443282)(values) < 0.5
    with allow_work(1e-3), pytest.raises(ac.OutOfPatience):
        solve_between(run, 1e-6, 3e-3, delta_width(0.443282))


def test_what_is_known_where_tests_have_no_room_is_kept(monkeypatch):
    """From above the game fits into memory; with its tests, which its tolerance takes, it does not."""
    monkeypatch.setattr(screening_families, "FEW_MOVES", 0)
    monkeypatch.setattr(screening_families, "MAX_POINTS", 1)
    screening_families._play.cache_clear()
    values, refusal = solve_between(2 * S(0.5, 1.5, 3) + 2 * S(1.0, 0.0, 3), 0.1, 1e-4, delta_width(2.0))
    assert isinstance(refusal, ToleranceUnreachable)
    assert 1e-4 < delta_width(2.0)(values) < 0.5


# --- blocks of kinds ------------------------------------------------------------------------------------------


@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), share=st.floats(0.05, 0.8))
def test_dominating_pairs_of_all_kinds_bound_every_interleaving(seed, share):
    run = draw_run(seed)
    epsilon = share * float(run.renyi(math.inf))
    blocks = [block for event, count in run for block in cut_in_one(event, count, Aim(5.0, -30.0, 0.0, 0.01)).blocks]
    found = bound_delta(blocks, epsilon, 1.0)
    with mp.workdps(60):
        assert found.lower <= play(run, epsilon) <= found.upper


@pytest.mark.audit
@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), share=st.floats(0.05, 0.8))
def test_one_block_of_several_kinds_bounds_every_interleaving_with_another(seed, share):
    *kinds, last = draw_run(seed)
    epsilon = share * float((run := ac.Composition([*kinds, last])).renyi(math.inf))
    aim = Aim(5.0, -30.0, 0.0, 0.01)
    found = bound_delta([(aim.block(*kinds), 1), (aim.block(last), 1)], epsilon, 1.0)
    with mp.workdps(60):
        assert found.lower <= play(run, epsilon) <= found.upper


@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(0.0, 0.8),
    beside=st.booleans(),
    together=st.booleans(),
    order=st.sampled_from([1.5, 5.0, 20.0]),
)
def test_both_sides_bound_every_interleaving(seed, share, beside, together, order):
    """Blocks above, one order below, with and without a release of few outcomes; deltas and epsilons."""
    families, singles = list(draw_run(seed))[: 2 if beside else 3], [(FewOutcomes((2, 3), (3, 2)), 1)] * beside
    run = ac.Composition([*singles, *families])
    aim = Aim(order, -30.0, 0.0, 0.01)
    blocks = [(aim.block(*some), 1) for some in ([families] if together else [[kind] for kind in families])]
    asked = BothSides(families, singles, blocks, order, lambda _: 1e-3, 1.0)
    epsilon = share * float(run.renyi(math.inf))
    (found,) = asked.deltas([epsilon])
    with mp.workdps(60):
        true = play(run, epsilon)
        assert found.lower <= true <= found.upper
        if together and true > 1e-3:
            assert found.upper - found.lower <= 0.2 * found.upper
        delta = min(max(float(true), 1e-4), 0.9)
        ends = asked.epsilon(delta)
        assert play(run, ends.upper) <= delta
        assert ends.lower == 0.0 or play(run, ends.lower) >= delta


@pytest.mark.parametrize(
    ("run", "delta"),
    [
        (20 * S(20.0, 30.0, 50) + 20 * S(15.0, 30.0, 50), 1e-5),
        (15 * P(S(20.0, 30.0, 50), 0.1) + 10 * P(S(5.0, 30.0, 50), 0.1) + 4 * S(30.0, 3.0, 5), 1e-6),
        (20 * S(2.0, 3.0, 5) + 20 * S(3.0, 2.0, 5), 1e-5),
    ],
)
def test_blocks_and_the_game_meet(run, delta):
    games = [solve_game(run, way, delta=delta, tolerance=0.01).epsilon(delta) for way in DIRECTIONS]
    low, high = max(each.lower for each in games), max(each.upper for each in games)
    assert low <= high <= low * 1.012
    order = ac.epsilon(run, delta, method="renyi").order
    blocks = [cut_in_one(*kind, Aim(order, math.log(delta) - 12, 0.0, 0.01)).blocks[0] for kind in run]
    composed = bound_epsilon(blocks, delta, 0.2)
    assert composed.lower <= high
    assert low <= composed.upper <= high * 1.1
    found = tight(run, delta)
    assert low <= found.epsilon <= high * 1.012
    assert found.lower >= found.epsilon * 0.99


def test_two_rounds_of_private_knn():
    """With the union of kinds at every step these were known within 29 % and 4.5 %."""
    screenings, both = tight(ROUNDS, 1e-5), tight(ROUNDS + VOTES, 1e-5)
    for found, run in ((screenings, ROUNDS), (both, ROUNDS + VOTES)):
        assert "blocks of screenings" in found.source
        assert (
            0.99 * found.epsilon <= found.lower <= found.epsilon < 0.93 * ac.epsilon(run, 1e-5, method="renyi").epsilon
        )
    _, (costlier, _) = ROUNDS
    assert tight(2000 * costlier, 1e-5).lower < screenings.epsilon
    assert screenings.lower < tight(4000 * costlier, 1e-5).epsilon


@pytest.mark.parametrize(
    ("run", "epsilon", "most"),
    audit_after(
        1,
        [
            (5620 * S(42.35, 140, 300) + 433 * S(77.11, 140, 300), 7.84, 0.12),
            (
                62 * P(S(17.4, 56, 80), 0.246) + 408 * P(S(15.3, 56, 80), 0.031) + 2491 * P(S(17.1, 56, 80), 0.189),
                1.14,
                0.05,
            ),
            (5123 * P(S(10.34, 28, 40), 0.043) + 68 * P(S(4.0, 28, 40), 0.074), 0.578, 0.05),
            (
                7087 * P(S(10.4, 28, 40), 0.09) + 50 * P(S(13.8, 28, 40), 0.08) + 1439 * P(S(6.0, 28, 40), 0.16),
                3.7,
                0.12,
            ),
        ],
    ),
)
def test_blocks_certify_a_delta_before_patience_ends_with_games(run, epsilon, most):
    """Games of a whole kind were refused, and with them what shorter blocks know: deltas up to 30 times too large."""
    found = ac.delta(run, epsilon)
    assert found.method == "tight"
    assert (1 - most) * found.delta <= found.lower
    assert found.delta < 0.6 * ac.delta(run, epsilon, method="renyi").delta
    # epsilon is known by other blocks
    assert ac.epsilon(run, 1.02 * found.delta).lower <= epsilon <= ac.epsilon(run, 0.98 * found.lower).epsilon


def test_a_delta_of_two_rounds_is_certified():
    """The game that counts both kinds takes too long: the Rényi price, three times what is true, was all there was."""
    run, epsilon = 1000 * S(85.0, 210.0, 300) + 1000 * S(60.0, 210.0, 300), 1.449
    found = ac.delta(run, epsilon)
    assert "blocks of screenings" in found.source
    assert 0.9 * found.delta <= found.lower <= found.delta < 0.4 * ac.delta(run, epsilon, method="renyi").delta
    # epsilon at a delta above is certified by the game of both kinds
    assert ac.epsilon(run, 1.1 * found.delta).lower <= epsilon <= ac.epsilon(run, 0.9 * found.lower).epsilon


# --- prices ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "delta"),
    [
        (2 * P(S(11.6, 0.64, 4, 1), 0.058) + 2 * S(0.5, 1.53, 2) + 5 * ac.Gaussian(27.0), 0.36),
        (2 * S(7.33, 0.18, 2) + P(ac.DiscreteLaplace(0.86), 0.0075), 0.045),
        (3 * S(4.0, 3.0, 9) + 2 * P(S(2.0, 5.0, 9), 0.3) + 4 * ac.GNMax(30.0), 1e-4),
        (S(4.0, 3.0, 9) + 2 * P(S(2.0, 5.0, 9), 0.3) + 10 * P(ac.Gaussian(3.0), 0.2) + ac.Laplace(5.0), 1e-4),
        (ac.DataDependentScreening(9.0, 20.0, 12) + 2 * ac.DataDependentScreening(9.0, 20.0, 25), 1e-3),
    ],
)
def test_several_kinds_are_certified(run, delta):
    found = tight(run, delta)
    assert 0.0 < 0.99 * found.epsilon <= found.lower <= found.epsilon
    assert found.lower <= ac.epsilon(run, delta, method="renyi").epsilon
    one = ac.delta(run, found.epsilon, method="tight")
    assert one.lower <= delta
    assert one.delta >= ac.delta(run, found.epsilon * 1.02, method="tight").lower


def test_limits():
    plain, other = S(2.0, 3.0, 5), S(3.0, 2.0, 5)
    run = 3 * plain + 2 * other
    found = tight(run, 1e-3)
    free = P(S(1.0, 3.0, 5), 0.0)
    assert tight(run + 5 * free, 1e-3) == found
    assert tight(3 * P(plain, 1.0) + 2 * other, 1e-3).epsilon == pytest.approx(found.epsilon, rel=0.011)
    assert tight(3 * plain + 3 * other, 1e-3).lower > found.epsilon
    assert max(tight(kinds, 1e-3).lower for kinds in (3 * plain, 2 * other)) < found.epsilon
    # a kind that hardly costs anything changes hardly anything
    assert tight(3 * plain + S(1e9, 3.0, 5), 1e-3).epsilon == pytest.approx(tight(3 * plain, 1e-3).epsilon, rel=0.02)
    everything = ac.delta(run, run._largest_loss(), method="tight")
    assert everything.delta == 0.0
    assert tight(run, 0.0).epsilon == pytest.approx(float(run.renyi(math.inf)))


@pytest.mark.audit
def test_curves_and_risks_of_several_kinds(monkeypatch):
    run = 10 * S(10.0, 30.0, 50) + 12 * S(8.0, 30.0, 50)
    curve = ac.curve(run, [0.0, 0.5, 1.0], tolerance=0.02)
    games = [solve_game(run, way, delta=1e-4, tolerance=3e-3) for way in DIRECTIONS]
    for epsilon, low, high in zip(curve.epsilons, curve.lower, curve.upper, strict=True):
        exact = [game.delta(epsilon) for game in games]
        assert low <= max(each.upper for each in exact)
        assert max(each.lower for each in exact) <= high
    run = 60 * S(10.0, 30.0, 50) + 60 * S(8.0, 30.0, 50)
    by_blocks = ac.true_positive_rate(run, 0.01)
    assert "blocks" in by_blocks.source
    monkeypatch.setattr(block_rates, "SOME_MOVES", 10**6)
    by_game = ac.true_positive_rate(run, 0.01, patience=10.0)
    assert 0.05 < by_game.lower <= by_game.upper < 1.1 * by_game.lower
    assert 0.05 < by_blocks.lower <= by_blocks.upper < 1.3 * by_blocks.lower
    assert by_game.lower <= by_blocks.upper
    assert by_blocks.lower <= by_game.upper


# --- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.audit
def test_what_takes_too_long_is_refused_at_once(monkeypatch):
    run = 200 * S(2.0, 3.0, 5) + 200 * S(3.0, 2.0, 5)
    with pytest.raises(ac.OutOfPatience, match=r"patience = 0\.01; accepted: patience = "):
        tight(run, 1e-5, patience=0.01)
    assert ac.epsilon(run, 1e-5, method="auto", patience=0.01).method == "renyi"
    monkeypatch.setattr(block_answers, "BLOCK_SHARE", 0.0)
    with pytest.raises(ac.OutOfPatience, match=r"otherwise: .* certified so far: .* tolerance = "):
        tight(run, 1e-5, tolerance=1e-4, patience=5.0)


@pytest.mark.audit
def test_ten_kinds_are_composed_however_many_states_their_game_has():
    run = ac.Composition((P(S(5.0 + i, 10.0, 20), 0.2), 10) for i in range(10))
    found = tight(run, 1e-5, tolerance=0.05)
    assert 0.95 * found.epsilon <= found.lower <= found.epsilon < ac.epsilon(run, 1e-5, method="renyi").epsilon
    near = ac.epsilon(run, 1e-5)  # groups of four and three kinds
    assert 0.99 * near.epsilon <= near.lower <= near.epsilon
    assert near.lower <= found.epsilon
    assert found.lower <= near.epsilon
    with pytest.raises(ac.ToleranceUnreachable, match=r"otherwise: .* certified so far: ") as refusal:
        tight(run, 1e-5, tolerance=1e-4)
    wide = ac.epsilon(run, 1e-5, tolerance=1e-4)  # the nearest of what was certified
    lower, upper = refusal.value.found
    assert lower <= wide.epsilon <= 1.001 * upper  # it comes to it by coarser tolerances, on other grids
    assert wide.source == "privacy-loss distribution of blocks of screenings"
    assert wide.lower <= found.epsilon
    assert found.lower <= wide.epsilon < ac.epsilon(run, 1e-5, method="renyi").epsilon


@pytest.mark.audit
@pytest.mark.parametrize(("seed", "rate", "votes"), audit_after(2, [(6, 1.0, 20), (7, 0.3, 20), (4, 1.0, 0)]))
def test_ten_random_kinds_are_certified(seed, rate, votes):
    """With a pair of each kind from below, and blocks of three kinds, these were 1.0 to 1.2 % wide."""
    dice = random.Random(f"ten {seed}")
    kinds = []
    for _ in range(10):
        sigma, most = dice.uniform(3, 30), dice.randint(10, 60)
        kinds.append((P(S(sigma, dice.uniform(0.2, 0.8) * most, most), rate * dice.uniform(0.1, 1.0)), 10))
    found = tight(ac.Composition(kinds) + votes * ac.Gaussian(15.0), 1e-5)
    assert 0.99 * found.epsilon <= found.lower <= found.epsilon
    assert "blocks of screenings" in found.source


@pytest.mark.audit
def test_a_time_that_a_refusal_names_is_enough():
    run = ac.Composition((P(S(5.0 + i, 10.0, 20), 0.2), 10) for i in range(10))
    with pytest.raises(ac.OutOfPatience) as refusal:
        tight(run, 1e-5, patience=0.3)
    assert tight(run, 1e-5, patience=1.01 * refusal.value.seconds).lower > 0.0


def test_refusals_have_names_that_users_know(monkeypatch):
    """A remainder that stays too wide is, in the end, a tolerance that cannot be had."""
    monkeypatch.setattr(games_last, "FAMILY_SHARES", (50.0, 40.0))
    with pytest.raises(ac.ToleranceUnreachable, match="certified so far") as refusal:
        tight(2 * S(0.5, 1.53, 2) + S(2.0, 0.0, 2) + 5 * ac.Gaussian(27.0), 0.36, tolerance=1e-3)
    assert type(refusal.value) is ac.ToleranceUnreachable


@pytest.mark.parametrize(
    ("run", "delta", "refused"),
    [
        # both directions are known since the pairs that are played are the best at each point
        (2 * P(S(6.466, 3.94, 3), 0.111) + P(S(0.3677, -0.705, 2), 0.3619), 0.009987083673401603, False),
        (
            P(S(3.024, 0.516, 1), 0.657) + P(S(20.51, 0.43, 3), 0.01452) + P(S(0.3412, -0.92, 3), 0.03071),
            0.0001076371839420492,
            True,
        ),
    ],
)
def test_a_direction_that_does_not_decide_may_be_known_less_well(run, delta, refused):
    """It is far from the tolerance on every grid; the other one has the larger epsilon, and is known."""
    assert (solve_near(run, delta, 0.01)[1] is not None) == refused
    for method in ("tight", "auto"):
        found = ac.epsilon(run, delta, method=method)
        assert play(run, found.epsilon) <= delta <= play(run, found.lower)
        assert found.epsilon - found.lower <= 0.01 * found.epsilon


def test_a_game_that_is_too_wide_says_what_it_knows(monkeypatch):
    monkeypatch.setattr(screening_families, "MAX_WORK", 1e4)
    run, delta = 2 * P(S(6.466, 3.94, 3), 0.111) + P(S(0.3677, -0.705, 2), 0.3619), 0.009987083673401603
    with pytest.raises(ac.ToleranceUnreachable, match="certified so far: ") as refusal:
        tight(run, delta, tolerance=1e-6)
    lower, upper = refusal.value.found
    assert play(run, upper) <= delta <= play(run, lower)
    found = ac.epsilon(run, delta, tolerance=1e-6)
    assert lower <= found.epsilon <= upper
    assert found.epsilon < 0.05 * ac.epsilon(run, delta, method="renyi").epsilon


def test_prices_of_games_are_narrow_relative_to_their_upper_ends():
    """Where epsilon is small its interval was as wide as the loss's deviation allowed, and delta's as it came."""
    run, delta = 2 * S(17.16, -0.81, 3) + 2 * S(0.6609, 2.47, 2), 0.40764
    found = tight(run, delta, tolerance=0.01)
    assert play(run, found.epsilon) <= delta <= play(run, found.lower)
    assert found.epsilon - found.lower <= 0.01 * found.epsilon
    run = 2 * P(S(6.466, 3.94, 3), 0.111) + P(S(0.3677, -0.705, 2), 0.3619)
    risks = [ac.delta(run, epsilon, method="tight", tolerance=0.01) for epsilon in (0.07435, 0.5)]
    for risk in risks:
        assert risk.lower <= play(run, risk.epsilon) <= risk.delta
        assert risk.delta - risk.lower <= 0.01 * risk.delta


def test_a_game_of_few_screenings_counts_all_pairs():
    """Each of them is the best one somewhere; their number hardly counted."""
    work = []
    for scale in (1, 10):
        kinds = [(P(S(20.0 * scale + i, 100 * scale, 200 * scale), 0.1), 1) for i in range(3)]
        asked = Asked(ac.Composition(kinds), 1e-5, tests=False)
        setup = set_up(asked)
        pairs = min(family.above.up.size for family in setup.families)
        work.append((pairs, work_of(asked, round_down(setup.first_step(1e-3)), 2e-4)))
    (few, less), (many, more) = work
    assert many > 5 * few
    assert more > 2 * less


def test_groups_whose_games_take_too_long_are_not_begun(monkeypatch):
    """Small groups were played before the large one was refused."""
    run, begun = sum((P(S(20.0 + i, 100, 200), 0.1) for i in range(1, 12)), P(S(20.0, 100, 200), 0.1)), []
    monkeypatch.setattr(screening_families, "bound_kinds", lambda *args: begun.append(args))
    with pytest.raises(ac.OutOfPatience):
        tight(run, 1e-5, patience=0.05)
    assert not begun


def test_what_a_game_knows_is_enough_beside_other_releases():
    """By Rényi 9.34: a refused game of the screenings refused the whole run."""
    screenings = P(S(3.024, 0.516, 1), 0.657) + P(S(20.51, 0.43, 3), 0.01452) + P(S(0.3412, -0.92, 3), 0.03071)
    found = tight(screenings + ac.PureDP(1.0), 0.0001076371839420492)
    alone = ac.epsilon(screenings, 0.0001076371839420492).epsilon
    assert alone < found.lower <= found.epsilon <= 1.0 + alone * 1.01
    assert found.epsilon - found.lower <= 0.01 * found.epsilon


def test_a_refusal_says_what_all_that_is_certified_has_in_common():
    refusals = [ToleranceUnreachable("no"), ToleranceUnreachable("nor this"), ToleranceUnreachable("unknown")]
    refusals[0].found, refusals[0].wide = (0.5, 1.0), "0.5"
    refusals[1].found, refusals[1].wide = (0.75, 2.0), "0.63"
    blocks = object.__new__(block_answers.Blocks)
    assert blocks._refusal(refusals[2], refusals).found == (0.75, 1.0)
    assert blocks._refusal(refusals[2], refusals).wide == "0.5"
    assert blocks._refusal(refusals[2], refusals[2:]).found is None


def test_ways_that_are_too_wide_meet():
    """The upper end of games on clocks, and the lower one of a game: neither way is within the tolerance."""
    run = 2915 * S(36.11, 195.71, 300) + 591 * S(5.93, 5.17, 10)
    found = ac.delta(run, 14.0, method="tight", patience=3.818)
    assert found.delta * 0.99 <= found.lower <= found.delta
    nearer = ac.delta(run, 14.0, method="tight", patience=60.0)
    assert max(found.lower, nearer.lower) <= min(found.delta, nearer.delta)


@pytest.mark.parametrize(("found", "answered"), [((0.995, 1.0), True), ((0.98, 1.0), False), (None, False)])
def test_what_refusals_have_in_common_is_an_answer_where_it_is_near_enough(monkeypatch, found, answered):
    refusal = ToleranceUnreachable("too wide")
    refusal.found = found

    def refuse(*_):
        raise refusal

    monkeypatch.setattr(block_answers.Blocks, "_ask_by_ways", refuse)
    answers = block_answers.answers_of(ac.Composition([(S(1.0, 1.0, 2), 20), (S(2.0, 1.0, 2), 20)]), math.inf, 0.01)
    if answered:
        assert answers.epsilon(1e-5) == found
    else:
        with pytest.raises(ToleranceUnreachable, match="too wide"):
            answers.epsilon(1e-5)
