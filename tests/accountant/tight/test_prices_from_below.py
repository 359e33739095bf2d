"""Events that are priced by a bound from above: the lower end is reached by some data, which are enumerated here."""

import itertools
import math
from functools import lru_cache

import numpy as np
import pytest
from scipy.integrate import quad

import accountant as ac
from accountant.events.two_candidates import Contest

REPLACE = ac.Adjacency.REPLACE
SLACK = 1 + 1e-9


def hockey_stick(p, q, epsilon):
    return math.fsum(max(a - math.exp(epsilon) * b, 0.0) for a, b in zip(p, q, strict=True))


def product_pair(pairs):
    """Probabilities of all outcomes of independent releases."""
    sides = []
    for side in range(2):
        sides.append([math.prod(each) for each in itertools.product(*(pair[side] for pair in pairs))])
    return sides


def check(run, truth, epsilons, least=0.0):
    """`truth` is at least what any data reach, or the least of that: the lower end must not be above."""
    for epsilon in epsilons:
        found = ac.delta(run, epsilon)
        assert least * truth(epsilon) / SLACK <= found.lower <= truth(epsilon) * SLACK, (run, epsilon)
        assert truth(epsilon) <= found.delta * SLACK, (run, epsilon)


# --- sparse vector -----------------------------------------------------------------------------------------


def above_threshold(query, threshold_scale, query_scale):
    """Probability that a query with this value is above the threshold 0."""

    def term(z):
        at = (query - z) / query_scale
        wins = 1 - math.exp(-at) / 2 if at > 0 else math.exp(at) / 2
        return wins * math.exp(-abs(z) / threshold_scale) / (2 * threshold_scale)

    ends = sorted({-40.0 * threshold_scale, 0.0, query, 40.0 * threshold_scale})
    return math.fsum(quad(term, low, high, limit=200)[0] for low, high in itertools.pairwise(ends))


@pytest.mark.parametrize(("threshold", "query"), [(10.0, 20.0), (20.0, 3.0), (0.5, 1.0)])
def test_one_query_of_a_sparse_vector_is_one_bit(threshold, query):
    values = np.linspace(-8 * max(threshold, query), 0.5, 301)
    chances = [(above_threshold(x, threshold, query), above_threshold(x - 1, threshold, query)) for x in values]

    def truth(epsilon):
        bits = [hockey_stick((p, 1 - p), (q, 1 - q), epsilon) for p, q in chances]
        return max(bits) * (1 + 5e-4)  # the best value lies between two that are tried

    check(ac.SparseVector(threshold, query, queries=1), truth, (0.0, 0.1 / threshold, 0.4 / threshold), 0.99)


def test_one_query_tells_no_more_than_its_density():
    event = ac.SparseVector(10.0, 20.0, queries=1)
    assert ac.delta(event, 0.0).lower <= 1 / 60
    assert ac.epsilon(event, 0.0985).lower == 0.0


# --- noisy maxima ------------------------------------------------------------------------------------------

NOISES = {
    "laplace": (lambda z: math.exp(-abs(z)) / 2, lambda z: 1 - math.exp(-z) / 2 if z > 0 else math.exp(z) / 2, -40.0),
    "exponential": (lambda z: math.exp(-z), lambda z: -math.expm1(-z) if z > 0 else 0.0, 0.0),
}


@lru_cache
def wins(noise, lead):
    """Probability that a candidate with this lead over another one wins; leads in scales of each noise."""
    density, cdf, low = NOISES[noise]
    ends = sorted({low, max(0.0, low), max(-lead, low), 40.0})
    return math.fsum(
        quad(lambda z: density(z) * cdf(lead + z), a, b, limit=200)[0] for a, b in itertools.pairwise(ends)
    )


def bit(noise, lead, apart):
    p, q = wins(noise, lead), wins(noise, lead - apart)
    return (p, 1 - p), (q, 1 - q)


MAXIMA = [
    (ac.ReportNoisyMax(4.0), "laplace", 0.5),
    (ac.ReportNoisyMax(1.0, monotone=True), "laplace", 1.0),
    (ac.ReportNoisyMax(4.0, "exponential"), "exponential", 0.5),
    (ac.PermuteAndFlip(2.0), "exponential", 2.0),
]


@pytest.mark.parametrize(("event", "noise", "apart"), MAXIMA, ids=str)
def test_two_candidates_reach_the_lower_end_of_a_noisy_maximum(event, noise, apart):
    leads = np.linspace(apart / 2 - 12.0, apart / 2, 601)
    leads = [x for x in leads.tolist() if abs(x) < 15.0]

    def reached(epsilon):
        return max(hockey_stick(*bit(noise, lead, apart), epsilon) for lead in leads) * (1 + 1e-3)

    check(event, reached, (0.0, 0.3 * apart, 0.8 * apart), 0.998)
    fair = bit(noise, apart / 2, apart)
    assert float(ac.true_positive_rate(event, 0.01).lower) <= 0.01 * fair[0][0] / fair[1][0] * SLACK
    pair = product_pair([bit(noise, apart / 2, apart)] * 3)
    check(3 * event, lambda epsilon: hockey_stick(*pair, epsilon), (0.0, apart, 2.2 * apart), 0.99)


@pytest.mark.parametrize("contest", [Contest("laplace", 2e-9), Contest("exponential", 1e-9)])
def test_hardly_any_difference_keeps_its_digits(contest):
    slope = {"laplace": 1 / 4, "exponential": 1 / 2}[contest.noise]
    found = float(np.exp(contest.log_reached(np.zeros(1)))[0])
    assert found == pytest.approx(slope * contest.apart, rel=1e-8)
    assert contest.bit() == pytest.approx(4 * slope * contest.apart / 2, rel=1e-8)


# --- samples -----------------------------------------------------------------------------------------------


def test_samples_of_a_fixed_size_reach_one_direction():
    event = ac.FixedSizeSampled(ac.RandomizedResponse(1.0, 1, REPLACE), 1, 4)
    likely, other = 1 / (1 + math.exp(-1.0)), 1 / (1 + math.exp(1.0))
    drawn = [0.25 * likely + 0.75 * other, 0.25 * other + 0.75 * likely], [other, likely]
    check(event, lambda epsilon: hockey_stick(*drawn, epsilon), (0.0, 0.1, 0.2), 1.0)
    pair = product_pair([drawn] * 3)

    def truth(epsilon):
        return max(hockey_stick(*pair, epsilon), hockey_stick(*pair[::-1], epsilon))

    check(3 * event, truth, (0.0, 0.2, 0.5), 0.99)


@pytest.mark.parametrize("adjacency", list(ac.Adjacency))
def test_truncated_samples_hold_the_individual_as_often_as_it_is_kept(adjacency):
    rate, records, largest = 0.4, 5, 2
    event = ac.TruncatedPoissonGaussian(1.0, rate, records, largest, adjacency=adjacency)
    kept = 0.0
    for joined in range(records):  # of the others
        chance = math.comb(records - 1, joined) * rate**joined * (1 - rate) ** (records - 1 - joined)
        kept += chance * rate * min(1.0, largest / (joined + 1))
    alone = ac.PoissonSubsampled(ac.ClippedSum(1.0, adjacency=adjacency), kept)
    if adjacency is REPLACE:
        check(event, lambda epsilon: ac.delta(alone, epsilon).delta, (0.0, 0.5, 1.0), 1.0)
        return
    for epsilon in (0.0, 0.5, 1.0):  # others' vectors that are not 0 tell more, not too much: test_truncated_poisson.py
        found = ac.delta(event, epsilon)
        assert ac.delta(alone, epsilon).delta < found.lower < found.delta


# --- in runs -----------------------------------------------------------------------------------------------

BOUNDED = [each[0] for each in MAXIMA] + [
    ac.SparseVector(10.0, 20.0),
    ac.SparseVector(10.0, 20.0, queries=3),
    ac.FixedSizeSampled(ac.ClippedSum(1.0, adjacency=REPLACE), 1, 100),
    ac.TruncatedPoissonGaussian(1.0, 0.4, 5, 2),
]


@pytest.mark.parametrize("event", BOUNDED, ids=str)
def test_what_is_added_to_a_run_adds_to_its_ends(event):
    beside = ac.Laplace(3.0, adjacency=event.adjacency)
    alone, both = (ac.epsilon(run, 1e-5, method="tight") for run in (1 * beside, event + beside))
    assert both.lower >= alone.lower * (1 - 0.02)
    assert both.epsilon >= max(alone.epsilon, both.lower)
    assert float(ac.true_positive_rate(event + beside, 0.05).lower) > 0.05


@pytest.mark.parametrize("event", [ac.ReportNoisyMax(2.0), ac.PermuteAndFlip(1.0)], ids=str)
def test_groups_and_samples_have_lower_ends_of_their_own(event):
    one = ac.epsilon(event, 1e-3)
    group = ac.epsilon(ac.Group(event, 3), 1e-3)
    assert group.lower <= one.epsilon < group.epsilon
    sample = ac.epsilon(ac.PoissonSubsampled(event, 0.1), 1e-3)
    assert sample.lower <= one.lower
    assert sample.epsilon < one.epsilon


@pytest.mark.parametrize("event", BOUNDED, ids=str)
def test_largest_losses(event):
    if float(event.renyi(math.inf)) == math.inf:
        with pytest.raises(ac.NoGuarantee):
            ac.epsilon(event, 0.0)
        return
    found = ac.epsilon(2 * event, 0.0)
    assert found.epsilon == pytest.approx(2 * float(event.renyi(math.inf)))
    assert 0.0 <= found.lower <= found.epsilon
