"""Runs of Gaussian releases on samples with replacement: curves above all data, and what a game makes of them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import accountant as ac
from accountant.events.answers import Repeats, Triple
from accountant.events.drawn_triples import DrawnTriples, Lengths
from accountant.events.gaussian import gaussian_log_profile
from accountant.events.numbers_of_draws import MOST_REPEATS, repeats_of
from accountant.events.repeated_triples import (
    RepeatedTriples,
    convex_log_profiles,
    cover_triples,
    share_out,
    usual_draws,
)
from accountant.tight.drawn_game import join_drawn
from accountant.tight.loss_composition import bound_epsilon
from tests.cases import audit_after

REPLACE = ac.Adjacency.REPLACE
EPSILONS = np.array([0.0, 0.01, 0.1, 0.4, 1.0, 2.5])


def divergences(p, q, others, records):
    """H(A||B) and H(B||A) of sums of as many draws as there are others given, by sums over a lattice of the plane."""
    step, reach = 0.06, len(others) * max(float(np.linalg.norm(each)) for each in (p, q, *others)) + 6.0
    axis = np.arange(-reach, reach, step)
    totals = []
    for record in (p, q):
        total = np.zeros((axis.size, axis.size))
        for drawn in itertools.product((False, True), repeat=len(others)):
            chance = math.prod(1 / records if own else 1 - 1 / records for own in drawn)
            place = np.sum([record if own else other for own, other in zip(drawn, others, strict=True)], axis=0)
            total += chance * np.multiply.outer(*(np.exp(-((axis - at) ** 2) / 2) for at in place))
        totals.append(total)
    cell = step**2 / (2 * math.pi)
    return [
        np.array([np.maximum(one - math.exp(e) * other, 0.0).sum() * cell for e in EPSILONS])
        for one, other in (totals, totals[::-1])
    ]


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_no_data_in_a_disc_cost_more_than_the_mean_of_their_triples(data):
    """Both directions are below the mean of the curves; of others that are all alike below one of the cells."""
    mu, records = data.draw(st.sampled_from([0.5, 1.0, 2.0])), data.draw(st.sampled_from([2, 5, 20]))
    places = st.tuples(st.just(1.0) | st.floats(0, 1), st.sampled_from([0.0, math.pi]) | st.floats(0, 2 * math.pi))

    def draw():
        radius, angle = data.draw(places)
        return mu / 2 * radius * np.array([math.cos(angle), math.sin(angle)])

    p, q, alike = draw(), draw(), data.draw(st.booleans())
    many = data.draw(st.sampled_from([2, 3]))
    others = [draw()] * many if alike else [data.draw(st.sampled_from([p, q])), *(draw() for _ in range(many - 1))]
    if np.linalg.norm(p - q) < 0.02:
        return
    forward, backward = divergences(p, q, others, records)
    rate, repeats = 1 - (1 - 1 / records) ** many, repeats_of(many, records)
    above = np.zeros((2, EPSILONS.size))
    for other in others:
        # who is drawn instead is a little farther from the line of both, which does not cost less
        sides = [math.hypot(float(np.linalg.norm(each - other)), 0.03 * mu) for each in (p, q)]
        lengths = Lengths(float(np.linalg.norm(p - q)), *sides)
        curve = RepeatedTriples.of_sums(DrawnTriples(lengths, lengths, rate), mu, repeats)
        above += np.exp(curve._log_profile(EPSILONS)) / many
    assert np.all(forward <= above[0] + 1e-4)
    assert np.all(backward <= above[1] + 1e-4)
    if alike:
        cells = [np.exp(each._log_profile(EPSILONS)) for each in cover_triples(Triple(mu, rate, True, repeats), 30)]
        over = [np.max(np.maximum(forward - a, backward - b)) for each in cells for a, b in (each, each[::-1])]
        assert min(over) <= 1e-4


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("mu", "own", "draws", "records", "epsilon"), [(1.0, 0.7, 3, 10, 0.3), (2.0, 1.4, 4, 50, 1.0)])
def test_terms_by_their_definition(mu, own, draws, records, epsilon):
    """The triple of one draw as a double integral, all others by normal distribution functions; and R where Q is."""
    repeats, epsilons = repeats_of(draws, records), np.array([epsilon])
    shared = [float(each[0]) for each in share_out(mu, repeats, epsilons)]
    apart = math.hypot(own, own)  # a right angle at R
    lengths = Lengths(apart, own, own)
    curve = RepeatedTriples(DrawnTriples(lengths, lengths, 0.1), (apart, own), (apart, own), 1.1 * apart, repeats)
    shared = [float(each[0]) for each in share_out(1.1 * apart, repeats, epsilons)]
    with mp.workdps(20):
        alpha, weights = mp.exp(epsilon), [mp.exp(each) for each in shared]

        def left(v):
            """Along the line through R and Q; across is P."""
            others = alpha * mp.npdf(v, own) + weights[0] * mp.npdf(v)
            end = mp.mpf(own) / 2 + mp.log(others / mp.npdf(v)) / own
            return mp.npdf(v) * mp.ncdf(own - end) - others * mp.ncdf(-end)

        total = mp.exp(repeats.log_probabilities[0]) * mp.quad(left, mp.linspace(-9, 11, 21))

        def hat(distance, farthest, t):
            heights = [mp.ncdf(d / 2 - t / d) - mp.exp(t) * mp.ncdf(-d / 2 - t / d) for d in (distance, farthest)]
            place = farthest / 2 - t / farthest
            return heights[0] if place < 0 else max(heights[0], heights[1] - (farthest - distance) * mp.npdf(place))

        for k, (log_b, weight) in enumerate(zip(repeats.log_probabilities[1:], weights[1:], strict=True), 2):
            t = mp.log(alpha + weight)
            parts = alpha * hat(k * mp.mpf(apart), k * mp.mpf(1.1 * apart), t) + weight * hat(
                k * mp.mpf(own), k * mp.mpf(1.1 * apart), t
            )
            total += mp.exp(log_b) * parts / (alpha + weight)
    for found in curve._log_profile(epsilons):
        assert math.exp(found[0]) == pytest.approx(float(total + mp.exp(repeats.log_rest)), rel=1e-9)


@pytest.mark.parametrize(("mu", "draws", "records"), [(1.0, 2, 100), (2.0, 3, 1000), (0.5, 4, 40)])
def test_all_others_like_the_replacement_reach_one_direction(mu, draws, records):
    """The bound is the profile of a sum that shows the record, where no share would have to be below 0."""
    repeats, epsilons = repeats_of(draws, records), np.array([1.0, 2.0])
    triples = DrawnTriples(Lengths(mu, mu, 0.0), Lengths(mu, 0.0, mu), 0.1)
    found = RepeatedTriples.of_sums(triples, mu, repeats)._log_profile(epsilons)[0]
    assert np.all(np.isfinite(share_out(mu, repeats, epsilons)))
    with mp.workdps(30):
        parts = [(mp.binomial(draws, k) * mp.mpf(records - 1) ** (draws - k), k * mp.mpf(mu)) for k in range(draws + 1)]
        parts = [(weight / mp.mpf(records) ** draws, shift) for weight, shift in parts]
        for epsilon, log in zip(epsilons.tolist(), found.tolist(), strict=True):

            def loss(y, epsilon=epsilon):
                return mp.log(mp.fsum(b * mp.exp(s * y - s * s / 2) for b, s in parts)) - epsilon

            y = mp.findroot(loss, (-20, 40), solver="ridder", maxsteps=300, verify=False)
            exact = mp.fsum(b * mp.ncdf(s - y) for b, s in parts) - mp.exp(epsilon) * mp.ncdf(-y)
            assert float(exact) * (1 - 1e-11) <= math.exp(log) <= float(exact) * (1 + 1e-8) + 1e-13


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 40.0), st.floats(0.0, 30.0))
def test_a_convex_function_above_the_profile(farthest, t):
    """Above, convex, rising, and the same at the end."""
    distances, epsilon = np.linspace(0.0, farthest, 81), np.array([t])
    found = np.exp(convex_log_profiles(distances, farthest, epsilon)[:, 0])
    known = np.exp([gaussian_log_profile(d, epsilon)[0] if d > 0 else -math.inf for d in distances.tolist()])
    assert np.all(found >= known * (1 - 1e-12))
    assert np.all(np.diff(found) >= -1e-10)
    assert np.all(np.diff(found, 2) >= -1e-10)
    assert found[-1] == pytest.approx(known[-1], rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.05, 8.0), st.integers(2, 60), st.integers(2, 3000), st.floats(0.0, 20.0))
def test_what_is_shared_out_is_there(mu, draws, records, epsilon):
    repeats = repeats_of(draws, records)
    logs = share_out(mu, repeats, np.array([epsilon]))[:, 0]
    with mp.workdps(30):
        parts = zip(repeats.log_probabilities, logs.tolist(), strict=True)
        asked = mp.fsum(mp.exp(b + log) for b, log in parts if log > -math.inf)
        there = mp.exp(repeats.log_none) * mp.expm1(epsilon)
        assert asked <= there
        # nearly all of it is used, where what is left out is rare enough
        used = asked >= there * (1 - mp.mpf(10) ** -4)
        assert used or epsilon < 1e-8 or mp.exp(repeats.log_rest) * mp.exp(epsilon) > 1e-13 * there


@pytest.mark.audit
@pytest.mark.parametrize(
    ("noise", "draws", "records", "count", "share"),
    audit_after(
        2,
        [
            (ac.ClippedSum(4.0, adjacency=REPLACE), 3, 100, 40, 0.6),
            (ac.Gaussian(1.0, adjacency=REPLACE), 10, 100, 100, 0.8),
            (ac.ClippedSum(2.0, adjacency=REPLACE), 10, 100, 100, 0.5),
        ],
    ),
)
def test_runs_cost_less_than_releases_one_by_one(noise, draws, records, count, share):
    """Between what one record alone shows and both directions at once, and most of the gap is gone."""
    event = ac.SampledWithReplacement(noise, draws, records)
    price = ac.epsilon(count * event, delta=1e-5)
    both = bound_epsilon([(event, count)], 1e-5, 1e-3, above=True).upper
    assert price.lower <= price.epsilon <= price.lower + share * (both - price.lower)
    assert ac.delta(count * event, epsilon=price.epsilon).delta <= 1.1e-5
    rates = ac.true_positive_rate(count * event, np.array([1e-3]))
    assert 0.0 < rates.lower[0] <= rates.upper[0] < 1.0


@pytest.mark.audit
@pytest.mark.parametrize("sigma", audit_after(2, [0.3, 1e3, 1e6]))
def test_both_ends_of_the_noise(sigma):
    event = ac.SampledWithReplacement(ac.ClippedSum(sigma, adjacency=REPLACE), 10, 100)
    price = ac.epsilon(20 * event, delta=1e-5)
    assert 0.0 <= price.lower <= price.epsilon <= bound_epsilon([(event, 20)], 1e-5, 1e-2, above=True).upper * 1.01


@pytest.mark.parametrize(("draws", "records"), [(5, 1), (10**6, 10**4), (1, 10**12)])
def test_what_is_not_played(draws, records):
    """One record, hundreds of numbers of draws; a draw of very many is a sample of one."""
    event = ac.SampledWithReplacement(ac.ClippedSum(1.0, adjacency=REPLACE), draws, records)
    repeats = repeats_of(draws, records)
    assert repeats is None or len(repeats.log_probabilities) == 1 <= MOST_REPEATS
    assert (join_drawn([(event, 10)], 1e-5) is None) == (repeats is None)


def test_grids_do_not_reach_for_draws_that_hardly_occur():
    """Of ten draws of a hundred records all are the record with probability 1e-20."""
    repeats = repeats_of(10, 100)
    assert isinstance(repeats, Repeats)
    assert len(usual_draws(1.0, repeats, 1).sensitivities) < 8
    assert len(usual_draws(1.0, repeats, 10**4).sensitivities) >= len(usual_draws(1.0, repeats, 1).sensitivities)
