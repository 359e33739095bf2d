"""Runs of Gaussian releases on samples of a fixed size: triples, curves above them, and the game that they make."""

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import accountant as ac
from accountant.errors import OutOfPatience
from accountant.events.drawn_triples import EDGES, DrawnTriples, cover_circle, log_height_of_triple, nodes_of
from accountant.events.fixed_size import ReplacedInSample
from accountant.numerics.roots import Interval
from accountant.patience import allow_work, share_patience
from accountant.tight.answers import pair_trade_off
from accountant.tight.drawn_game import (
    LEAST_DELTA,
    SHARE,
    DrawnBlock,
    DrawnTradeOff,
    join_drawn,
    shares_between,
    with_blocks,
)
from accountant.tight.drawn_values import play_below, repeat_losses
from accountant.tight.loss_composition import bound_epsilon
from accountant.tight.polygon import Masses
from accountant.tight.searched import skip_lower_ends
from tests.cases import audit_after

REPLACE = ac.Adjacency.REPLACE
EPSILONS = np.array([0.0, 0.01, 0.1, 0.4, 1.0, 2.5])


def sampled(mu, rate, records=10**6):
    return ac.FixedSizeSampled(ac.Gaussian(1 / mu, adjacency=REPLACE), round(rate * records), records)


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("mu", "own", "base", "rate", "epsilon"),
    audit_after(
        3,
        [
            (1.0, 1.0, 0.15, 0.1, 0.5),
            (8.0, 1.2, 8.0, 0.9, 1.0),
            (2.0, 1.2, 2.0, 1e-4, 1e-3),
            (1.0, 0.15, 1.0, 0.1, 0.02),
            (8.0, 8.0, 8.0, 0.001, 3.0),
        ],
    ),
)
def test_heights_of_triples_by_their_definition(mu, own, base, rate, epsilon):
    """In the plane, with the line through Q and R across: what is left of P on every line along it."""
    with mp.workdps(20):
        p, q = mp.mpf(mu), mp.mpf(own)
        along = (p * p + mp.mpf(base) ** 2 - q * q) / (2 * base)  # of P from Q towards R
        height = mp.sqrt(p * p - along**2)

        def left(v):
            """Integral over w of (P - e^e Q - (1 - g)(e^t - 1) R)_+, P at 0 and the others at this height."""
            far = (1 - mp.mpf(rate)) * (mp.expm1(epsilon) / mp.mpf(rate))
            others = mp.exp(epsilon) * mp.npdf(v, -along) + far * mp.npdf(v, base - along)
            ratio = others / mp.npdf(v)
            end = height / 2 - mp.log(ratio) / height  # where phi(w) is ratio times phi(w - height)
            return mp.npdf(v) * mp.ncdf(end) - others * mp.ncdf(end - height)

        exact = rate * mp.quad(left, mp.linspace(-10, 10, 21))
        found = mp.exp(float(log_height_of_triple(mu, own, base, rate, np.array([epsilon]))[0]))
        assert exact * (1 - mp.mpf(10) ** -12) <= found <= exact * (1 + mp.mpf(10) ** -11) + rate * mp.mpf(10) ** -13


def divergences(points, rate, epsilons):
    """H(A||B) and H(B||A) of three points of the plane, by sums over a lattice: kinks err by the step's square / 12."""
    x = np.arange(-8.0, 8.01, 0.04)
    low, high = points.min(axis=0), points.max(axis=0)
    axes = [np.concatenate([x + low[i], np.arange(x[-1] + low[i] + 0.04, x[-1] + high[i], 0.04)]) for i in (0, 1)]
    p, q, r = (np.multiply.outer(*(np.exp(-((axes[i] - at[i]) ** 2) / 2) for i in (0, 1))) for at in points)
    a, b = ((1 - rate) * r + rate * each for each in (p, q))
    cell = 0.04**2 / (2 * math.pi)
    return [
        np.array([np.maximum(one - math.exp(e) * other, 0.0).sum() * cell for e in epsilons])
        for one, other in ((a, b), (b, a))
    ]


def least_excess(points, rate, curves):
    """By how much three points cost more than the curve, in either of its directions, that they exceed least."""
    forward, backward = divergences(points, rate, EPSILONS)
    best = math.inf
    for curve in curves:
        above = [np.exp(each) for each in curve._log_profile(EPSILONS)]
        for high, low in (above, above[::-1]):
            best = min(best, float(np.max(np.maximum(forward - high, backward - low))))
    return best


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_no_three_points_cost_more_than_a_curve(data):
    """One of the curves is above both directions, at all epsilons."""
    mu, rate = data.draw(st.sampled_from([0.5, 1.0, 2.0])), data.draw(st.sampled_from([0.05, 0.5, 0.9]))
    points = np.array([[data.draw(st.floats(-1, 1)) for _ in range(2)] for _ in range(3)])
    apart = max(float(np.linalg.norm(points[i] - points[j])) for i, j in ((0, 1), (0, 2), (1, 2)))
    points *= mu / max(apart, 0.1)
    best = least_excess(points, rate, [DrawnTriples.isosceles(mu, rate, near, far) for near, far in pairwise(EDGES)])
    assert best <= 1e-4, (mu, rate, points.tolist(), best)


@pytest.mark.audit
@settings(max_examples=10, deadline=None)
@given(st.data())
def test_no_three_points_of_a_disc_cost_more_than_a_cell(data):
    """Anywhere in it, or on its circle; one of the cells is above both directions, at all epsilons."""
    mu, rate = data.draw(st.sampled_from([0.5, 1.0, 2.0])), data.draw(st.sampled_from([0.05, 0.5, 0.9]))
    edge = data.draw(st.booleans())
    radii = [1.0 if edge else data.draw(st.floats(0, 1)) for _ in range(3)]
    angles = [data.draw(st.floats(0, 2 * math.pi)) for _ in range(3)]
    points = np.array([(r * math.cos(a), r * math.sin(a)) for r, a in zip(radii, angles, strict=True)]) * mu / 2
    best = least_excess(points, rate, cover_circle(100, partial(DrawnTriples.on_circle, mu, rate)))
    assert best <= 1e-4, (mu, rate, points.tolist(), best)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_divergences_by_weights_and_distances(data):
    """Three points of which one weighs more than 0 and two less: farther from those, which are nearer, it has more."""
    weights = np.array([data.draw(st.floats(0.05, 2)), -data.draw(st.floats(0.05, 2)), -data.draw(st.floats(0.05, 2))])
    own, other, angle = (data.draw(st.floats(0, high)) for high in (2.0, 2.0, math.pi))
    shares = [data.draw(st.floats(1.0, 1.5)) for _ in range(2)]
    nearer = data.draw(st.floats(0, 1)) * math.hypot(own - other * math.cos(angle), other * math.sin(angle))
    sides = own * shares[0], other * shares[1], nearer
    if sides[2] < abs(sides[0] - sides[1]) or min(sides[:2]) < 0.05:
        return
    turned = math.acos(max(min((sides[0] ** 2 + sides[1] ** 2 - sides[2] ** 2) / (2 * sides[0] * sides[1]), 1), -1))
    x = np.arange(-8.0, 11.01, 0.05)
    found = []
    for one, two, between in ((own, other, angle), (sides[0], sides[1], turned)):
        places = [(0.0, 0.0), (one, 0.0), (two * math.cos(between), two * math.sin(between))]
        total = sum(
            w * np.multiply.outer(*(np.exp(-((x - at) ** 2) / 2) for at in place))
            for w, place in zip(weights, places, strict=True)
        )
        found.append(float(np.maximum(total, 0.0).sum()) * 0.05**2 / (2 * math.pi))
    assert found[1] >= found[0] - 2e-4


@pytest.mark.audit
@pytest.mark.parametrize(
    ("mu", "rate", "count", "share"), audit_after(1, [(1.0, 0.1, 100, 1.05), (2.0, 0.01, 1000, 0.75)])
)
def test_vectors_of_a_ball_cost_less_than_outcomes_as_far_apart(mu, rate, count, share):
    """Where they are many: with few steps what cells add is about as much."""
    apart, event = (
        sampled(mu, rate),
        ac.FixedSizeSampled(ac.ClippedSum(2 / mu, adjacency=REPLACE), 10, round(10 / rate)),
    )
    known, ball = ac.epsilon(count * apart, delta=1e-5), ac.epsilon(count * event, delta=1e-5)
    assert ball.lower == pytest.approx(known.lower, rel=1e-6)
    assert ball.lower < ball.epsilon < ball.lower + share * (known.epsilon - known.lower)


def test_arcs_of_no_length_are_a_triangle():
    """A right one and an acute one: both directions are those of its sides."""
    for first, second in ((0.6, math.pi - 0.6), (0.5, 1.0)):
        forward, backward = DrawnTriples.on_circle(2.0, 0.1, (first, first), (second, second))._log_profile(EPSILONS)
        own, base, apart = 2 * math.cos(first / 2), 2 * math.cos(second / 2), 2 * math.sin((first + second) / 2)
        assert np.allclose(forward, log_height_of_triple(apart, own, base, 0.1, EPSILONS), atol=1e-9)
        assert np.allclose(backward, log_height_of_triple(apart, base, own, 0.1, EPSILONS), atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.1, 6.0), st.floats(1e-3, 0.99), st.floats(0.1, 0.9), st.floats(0.01, 0.1))
def test_distance_of_the_others_costs_one_direction_what_it_gives_the_other(mu, rate, base, more):
    heights = [
        [log_height_of_triple(mu, *lengths, rate, EPSILONS) for lengths in ((mu, b * mu), (b * mu, mu))]
        for b in (base, base + more)
    ]
    assert np.all(heights[1][0] <= heights[0][0] + 1e-9)
    assert np.all(heights[1][1] >= heights[0][1] - 1e-9)


@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.3), (2.0, 0.1)])
def test_two_steps_cost_no_less_than_an_adversary_who_chooses(mu, rate):
    """First R = Q or R = P, as an integral; then the best of four triples, given the loss so far."""
    event, last = sampled(mu, rate), [(mu, 0.0), (0.0, mu), (mu, mu)]
    places, values = DrawnBlock(event, 2, 2)._played()[0]
    x = np.arange(-9.0, 9.0 + mu, 0.02)
    other = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    drawn = (1 - rate) * other + rate * np.exp(-((x - mu) ** 2) / 2) / math.sqrt(2 * math.pi)

    def second(epsilons):
        """The best of the triples whose P is mu from Q, at epsilons of either sign."""
        size, best = np.abs(epsilons), np.zeros_like(epsilons)
        for own, base in last:
            ways = [height(mu, own, base, rate, size), height(mu, base, own, rate, size)]
            for forward, backward in (ways, ways[::-1]):
                negative = -np.expm1(-size) + np.exp(-size) * backward
                best = np.maximum(best, np.where(epsilons < 0, negative, forward))
        return best

    for epsilon in (0.0, 0.5, 2.0):
        reached = max(
            float(np.sum(one * second(epsilon - np.log(one / two))) * 0.02)
            for one, two in ((drawn, other), (other, drawn))
        )
        bound = float(np.exp(DrawnBlock(event, 2, 2)._log_profile(np.array([epsilon]))[0][0]))
        assert reached * (1 - 1e-7) <= bound <= 1.1 * reached + 1e-9, (epsilon, reached, bound)
    assert np.all(np.diff(values) <= 0)
    assert np.all(np.diff(places) > 0)


@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.3), (2.0, 0.1)])
def test_two_steps_from_below_are_what_an_adversary_reaches(mu, rate):
    """First R = Q, then that or R = P, given the loss so far: as an integral."""
    event = sampled(mu, rate)
    known = play_below(event._certain(2), event, 2, 0.02)
    x = np.arange(-9.0, 9.0 + mu, 0.02)
    other = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    drawn = (1 - rate) * other + rate * np.exp(-((x - mu) ** 2) / 2) / math.sqrt(2 * math.pi)

    def second(epsilons):
        size = np.abs(epsilons)
        ways = [height(mu, *lengths, rate, size) for lengths in ((mu, 0.0), (0.0, mu))]
        turned = [-np.expm1(-size) + np.exp(-size) * way for way in ways]
        return np.where(epsilons < 0, np.maximum(*turned), np.maximum(*ways))

    for place in (0, 20, 100):
        epsilon = place * known.step
        reached = max(
            float(np.sum(one * second(epsilon - np.log(one / two))) * 0.02)
            for one, two in ((drawn, other), (other, drawn))
        )
        assert 0.97 * reached - 1e-9 <= known.at[2][place] <= reached * (1 + 1e-7) + 1e-12, (epsilon, reached)


def test_an_adversary_who_exchanges_the_data_sets_reaches_more_than_any_data():
    event = sampled(2.0, 0.05)
    price = ac.epsilon(300 * event, delta=1e-5)
    data = bound_epsilon([(event._certain(300), 300)], 1e-5, 1e-4)
    assert 1.002 * data.upper < price.lower <= price.epsilon < 1.05 * price.lower
    least = ac.delta(300 * event, epsilon=price.lower)
    assert least.lower <= 1.05e-5
    assert least.delta >= 1e-5


@pytest.mark.parametrize("many", [1, 2, 3, 7, 12])
def test_losses_in_a_row_are_never_more_than_their_sum(many):
    rng = np.random.default_rng(many)
    weights = rng.random(9)
    one = Masses(weights / weights.sum(), -3, 0.0, math.log(0.99))
    exact = np.zeros(2 * 120 + 1)
    whole = np.array([1.0])
    for _ in range(many):
        whole = np.convolve(whole, one.weights * 0.99)
    exact[120 - 3 * many : 120 - 3 * many + whole.size] = whole
    found = repeat_losses(one, many, 120)
    assert np.all(found <= exact * (1 + 1e-14))
    assert np.all(found >= exact - 1e-12)
    assert repeat_losses(one, many, 4).sum() <= found.sum()  # what is beyond is left out


@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.1), (3.0, 0.02)])
def test_strides_hold_the_whole_game(mu, rate):
    """Of eight steps each, after which eight or more are left."""
    event = sampled(mu, rate)
    for count in (24, 27, 40):
        parts = join_drawn([(event, count)], 1e-5, 8)
        assert sum(part.steps * many for part, many in parts) == count
        whole = bound_epsilon([(DrawnBlock(event, count, count), 1)], 1e-5, 1e-3, above=True).upper
        strides = bound_epsilon(parts, 1e-5, 1e-3, above=True).upper
        blocks = bound_epsilon(
            [(DrawnBlock(event, 8, 8), count // 8), (DrawnBlock(event, count, count), 0)], 1e-5, 1e-3
        )
        assert 0.995 * whole <= strides
        if count % 8 == 0:
            assert strides < blocks.upper


def test_what_strides_may_add_is_told_by_what_is_left():
    """With twice that probability all is told: more than it where delta is at most a half."""
    event = sampled(1.0, 0.1)
    (stride, many), (left, _) = join_drawn([(event, 40)], 1e-5, 8)
    more = replace(left, stride=stride.stride._replace(lost=1e-3))
    known, most = (np.exp(part._log_profile(EPSILONS)[0]) for part in (left, more))
    some = known < 0.4
    assert some.any()
    assert np.all(most[some] >= known[some] + many * 1e-3)


def test_large_deltas_take_no_strides():
    event = sampled(1.0, 0.3)
    asked = []
    with_blocks([(event, 2000)], 0.6, lambda entries: asked.extend(entries) or Interval(0.0, 1.0), Interval(0.0, 2.0))
    assert all(isinstance(part, DrawnBlock) for part, _ in asked)
    assert sum(part.steps * many for part, many in asked) == 2000


def height(mu, own, base, rate, epsilons):
    """H(A||B) by what is known of two points: R = Q or R = P; by the integral of three."""
    if base > 0.0 and own > 0.0:
        return np.exp(log_height_of_triple(mu, own, base, rate, epsilons))
    pair = ReplacedInSample(ac.Gaussian(1 / mu, adjacency=REPLACE), rate, sampled(mu, rate))
    return np.exp(pair._log_profile(epsilons)[0 if base == 0.0 else 1])


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("mu", "rate", "count"), [(1.0, 0.1, 100), (2.0, 0.01, 300), (0.1, 0.5, 40), (3.0, 0.5, 30)])
def test_prices_of_runs_are_between_data_and_both_directions(mu, rate, count):
    event = sampled(mu, rate)
    price = ac.epsilon(count * event, delta=1e-5)
    both = bound_epsilon([(event, count)], 1e-5, 1e-3).upper
    data = bound_epsilon([(ReplacedInSample(event.event, event.rate, event), count)], 1e-5, 1e-3)
    # what is below may choose as it goes
    assert data.lower * 0.99 <= price.lower <= price.epsilon
    # most of the gap is gone
    assert data.upper <= price.epsilon < data.upper + 0.4 * (both - data.upper)
    assert ac.delta(count * event, epsilon=price.epsilon).delta <= 1.1e-5


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("mu", "rate", "count", "delta"), [(8.0, 0.999, 256, 0.4), (6.0, 0.9, 60, 1e-5)])
def test_losses_beyond_exponentials_have_a_price(mu, rate, count, delta):
    """Of thousands of nats, where the profile is 1 over more of them than an exponential reaches."""
    event = sampled(mu, rate)
    price = ac.epsilon(count * event, delta=delta)
    assert 1000 < price.lower <= price.epsilon <= bound_epsilon([(event, count)], delta, 1e-2).upper


@pytest.mark.parametrize(("part", "whole"), [(0.0, 1e-9), (3e-10, 1e-9), (0.5, 2.0), (700.0, 705.0), (1499.0, 1500.0)])
def test_shares_between_two_places(part, whole):
    exact = mp.expm1(part) / mp.expm1(whole)
    assert float(shares_between(np.array(part), np.array(whole))) == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize(("mu", "rate", "steps"), [(1.2, 2 / 3, 2), (4.0, 0.3, 2), (2.0, 0.9, 10), (1.0, 0.1, 100)])
def test_cells_are_not_halved_for_nothing(mu, rate, steps):
    """Where one triple costs what its cell does, cells of no width next to it had tens of thousands of nodes."""
    lengths = [
        each
        for cell in cover_circle(steps, partial(DrawnTriples.on_circle, mu, rate))
        for each in cell.directed()
        if each.base > 0.0
    ]
    assert max(nodes_of(*each)[2].size for each in lengths) < 1000


def test_one_step_is_a_profile():
    """Of one step the block is the profile, from above, at any step of the grid."""
    event = sampled(1.0, 0.2)
    (above, _), (known, _) = (each._log_profile(EPSILONS) for each in (DrawnBlock(event, 1, 1), event))
    assert np.all(above >= known - 1e-12)
    assert np.all(above <= known + 0.01)


def test_a_block_that_is_one_step_shorter_is_of_the_same_game():
    event = sampled(1.0, 0.2)
    shorter, alone = (DrawnBlock(event, 4, played)._log_profile(EPSILONS)[0] for played in (5, 4))
    longer = DrawnBlock(event, 5, 5)._log_profile(EPSILONS)[0]
    assert np.allclose(np.exp(shorter), np.exp(alone), rtol=0.01, atol=1e-9)
    assert np.all(longer > shorter)


def test_blocks_hold_every_release_once():
    event, other = sampled(1.0, 0.01), ac.Gaussian(20.0, adjacency=REPLACE)
    blocks = join_drawn([(event, 1000), (other, 3)], 1e-5)
    assert (other, 3) in blocks
    assert sum(block.steps * many for block, many in blocks if isinstance(block, DrawnBlock)) == 1000
    assert len({block.played for block, _ in blocks if isinstance(block, DrawnBlock)}) == 1


@pytest.mark.parametrize(
    ("event", "count", "delta"),
    [
        (partial(sampled, 1.0, 0.01), 1, 1e-5),
        (partial(sampled, 1.0, 0.01), 10, LEAST_DELTA / 2),
        (partial(sampled, 20.0, 0.01), 10, 1e-5),
        (partial(sampled, 1.0, 1.0), 10, 1e-5),
        (lambda: ac.FixedSizeSampled(ac.Laplace(2.0, adjacency=REPLACE), 1, 10), 10, 1e-5),
    ],
)
def test_what_is_not_played(event, count, delta):
    assert join_drawn([(event(), count)], delta) is None


@pytest.mark.each_run(1)
@pytest.mark.parametrize("sigma", [0.3, 1e6])
def test_both_ends_of_the_noise(sigma):
    """Hardly any, and very much: a price all the same, between the data's and that of both directions."""
    event = ac.FixedSizeSampled(ac.ClippedSum(sigma, adjacency=REPLACE), 10, 100)
    price = ac.epsilon(20 * event, delta=1e-5)
    assert 0.0 <= price.lower <= price.epsilon <= bound_epsilon([(event, 20)], 1e-5, 1e-2).upper * 1.01


def test_what_attackers_tell_of_runs_is_that_of_blocks():
    """Between what data tell and what both directions at once would."""
    event, fprs = sampled(1.0, 0.1), np.array([1e-4, 1e-2, 0.1])
    found = ac.true_positive_rate(100 * event, fprs)
    data = ReplacedInSample(event.event, event.rate, event)
    reached = pair_trade_off([(data, 100)], (), "remove", 1e-3).rates(fprs)
    both = pair_trade_off([(event, 100)], (), "remove", 1e-3).rates(fprs)
    assert np.all(found.lower <= reached[1])
    assert np.all(reached[0] <= found.upper)
    assert np.all(found.upper < reached[1] + 0.4 * (both[0] - reached[1]))


def test_a_trade_off_is_the_smaller_of_releases_alone_and_blocks():
    event = sampled(1.0, 0.1)
    sides = [
        pair_trade_off(entries, (), "remove", 1e-2)
        for entries in ([(event, 40)], join_drawn([(event, 40)], LEAST_DELTA))
    ]
    found, fprs = DrawnTradeOff(*sides), np.array([1e-3, 0.1])
    lower, upper = found.rates(fprs)
    assert np.array_equal(upper, np.minimum(sides[0].rates(fprs)[1], sides[1].rates(fprs)[1]))
    assert np.all(lower <= upper)
    assert found.profile(0.5).upper == sides[1].profile(0.5).upper < sides[0].profile(0.5).upper
    assert np.array_equal(found.segments(1e-3, 0.1), sides[1].segments(1e-3, 0.1))
    assert found.at_zero() == sides[0].at_zero()


def test_without_patience_for_a_game_releases_alone_are_known():
    event = sampled(1.0, 0.013)
    with allow_work(0.4):
        sides = [
            pair_trade_off(entries, (), "remove", 1e-2)
            for entries in ([(event, 300)], join_drawn([(event, 300)], LEAST_DELTA))
        ]
        with pytest.raises(OutOfPatience), share_patience(SHARE):
            sides[1].rates(np.array([0.01]))
        upper = DrawnTradeOff(*sides).rates(np.array([0.01]))[1]
    assert 0.01 < upper[0] < 1.0


def test_a_calibration_plays_games_in_the_end():
    """On the way there are none; what was found without them costs 4 % less than the target."""

    def run(sigma):
        return 40 * ac.FixedSizeSampled(ac.ClippedSum(sigma, adjacency=REPLACE), 50, 1000)

    sigma = ac.calibrate(run, epsilon=4.0, delta=1e-5, patience=10)
    with skip_lower_ends():
        alone = ac.epsilon(run(sigma), delta=1e-5).epsilon
    assert 3.8 < ac.epsilon(run(sigma), delta=1e-5).epsilon <= 4.0 < 4.1 < alone
