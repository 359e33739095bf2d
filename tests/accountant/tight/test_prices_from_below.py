"""Events that are priced by a bound from above: the lower end is reached by some data, which are enumerated here."""

import itertools
import math
from functools import lru_cache

import numpy as np
import pytest
from scipy.integrate import quad

import accountant as ac
from accountant.events.team_contests import log_beats_crowd, team_wins
from accountant.events.two_candidates import Contest, best_bit
from tests.cases import audit_after

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


@lru_cache
def beats_many(place, many=20_000):
    """Probability that one Laplace variable is above the largest of many, moved to about this place."""
    density, cdf, low = NOISES["laplace"]
    shift = math.log(many / 2) - place
    return quad(lambda z: density(z) * cdf(z + shift) ** many, low, 40.0, limit=400, points=[0.0, place])[0]


@lru_cache
def beats_two(lead):
    """Probability that the larger of two Laplace variables that lead is above the larger of two others."""
    density, cdf, low = NOISES["laplace"]
    return quad(lambda z: 2 * density(z) * cdf(z) * cdf(z + lead) ** 2, low, 40.0, limit=400, points=[-lead, 0.0])[0]


def contests(noise, apart):
    """Bits of who wins: two candidates at many leads, one against a crowd, two against two."""
    leads = [x for x in np.linspace(apart / 2 - 12.0, apart / 2, 301).tolist() if abs(x) < 15.0]
    found = [bit(noise, lead, apart) for lead in leads]
    if noise == "laplace":
        for p, q in [(beats_many(x), beats_many(x + apart)) for x in np.linspace(-1.0, 4.5, 23).tolist()]:
            found.append(((p, 1 - p), (q, 1 - q)))
        p = beats_two(apart / 2)
        found.append(((p, 1 - p), (1 - p, p)))
        places = np.linspace(apart / 2 - 8.0, apart / 2 + 4.0, 121)
        for one, other in ((2, 2), (2, 3), (3, 2), (2, 4), (4, 2)):
            chances = team_wins(one, other, places), team_wins(one, other, places - apart)
            found += [((p, 1 - p), (q, 1 - q)) for p, q in zip(*(each.tolist() for each in chances), strict=True)]
    return found


@pytest.mark.each_run(2)
@pytest.mark.parametrize(("event", "noise", "apart"), MAXIMA, ids=str)
def test_few_candidates_and_a_crowd_reach_the_lower_end_of_a_noisy_maximum(event, noise, apart):
    bits = contests(noise, apart)

    for epsilon in (0.0, 0.3 * apart, 0.8 * apart):  # the best lead lies between two that are tried
        reached, found = max(hockey_stick(*each, epsilon) for each in bits), ac.delta(event, epsilon)
        assert 0.999 * reached <= found.lower <= reached * (1 + 1e-3)
        assert reached <= found.delta * (1 + 1e-7)
    assert float(ac.true_positive_rate(event, 0.01).lower) <= 0.01 * math.exp(apart) * SLACK
    pairs = [product_pair([each] * 3) for each in bits]
    for epsilon in (0.0, apart, 2.2 * apart):
        best = max(max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) for p, q in pairs)
        found = ac.delta(3 * event, epsilon)
        assert 0.98 * best <= found.lower <= best * 1.02  # a lead between two that are tried here tells 1 % more
        assert best <= found.delta * (1 + 1e-3)
    price = ac.epsilon(3 * event, 1e-6, method="tight")
    assert 0.84 * price.epsilon <= price.lower


@pytest.mark.parametrize("lead", [0.05, 0.6, 3.0])
def test_two_against_two_by_their_integral(lead):
    p = beats_two(lead)
    assert Contest("laplace", 2 * lead).bit() == pytest.approx(math.log(p / (1 - p)), rel=1e-7)


@pytest.mark.parametrize("sides", [(2, 2), (3, 2), (2, 4)])
def test_few_against_few_by_their_integral(sides):
    """Of the largest of k and of j Laplace variables, far into both tails."""
    density, cdf, _ = NOISES["laplace"]
    one, other = sides
    leads = np.array([-60.0, -3.0, -0.4, 0.0, 0.7, 12.0])
    for lead, found in zip(leads.tolist(), team_wins(one, other, leads).tolist(), strict=True):
        low, high = sorted((0.0, -lead))

        def term(z, lead=lead):
            return one * density(z) * cdf(z) ** (one - 1) * cdf(z + lead) ** other

        parts = [
            quad(term, a, b, epsabs=0.0, limit=400)[0] for a, b in ((low - 60.0, low), (low, high), (high, high + 60.0))
        ]
        assert found == pytest.approx(math.fsum(parts), rel=1e-8)
    sides_sum = team_wins(one, other, leads) + team_wins(other, one, -leads)
    assert sides_sum == pytest.approx(1.0, abs=1e-13)


@pytest.mark.parametrize("place", [-1.0, 0.5, 2.0, 3.9, 4.1, 6.0])
def test_one_against_a_crowd_by_its_integral(place):
    def term(z):  # of a Gumbel variable z
        at = z + place
        wins = math.exp(-at) / 2 if at > 0 else 1 - math.exp(at) / 2
        return wins * math.exp(-z - math.exp(-z))

    truth = quad(term, -6.0, 60.0, limit=400, points=[-place, 0.0])[0]
    assert math.exp(log_beats_crowd(place)) == pytest.approx(truth, rel=1e-9)
    assert beats_many(place) == pytest.approx(truth, rel=1e-3)


@pytest.mark.parametrize("times", [1, 5, 60, 1000])
@pytest.mark.parametrize("noise", ["laplace", "exponential"])
def test_contests_in_runs_are_none_that_no_candidates_reach(noise, times):
    """The bit that is chosen is one of the contests: on the trade-off of no better one than Laplace noise."""
    found = best_bit(Contest(noise, 1.0), ac.Adjacency.ADD_REMOVE, times)
    epsilons = np.linspace(0.0, 0.99, 12)
    limit = -np.expm1((epsilons - 1.0) / 2)
    assert (found.profile(epsilons).remove <= limit).all()
    assert (found.profile(epsilons).add <= limit).all()
    assert (
        ac.epsilon(times * found, 1e-6).epsilon
        >= ac.epsilon(times * ac.PureDP(Contest(noise, 1.0).bit()), 1e-6).lower * 0.98
    )


@pytest.mark.each_run(1)
@pytest.mark.parametrize("noise", ["laplace", "exponential"])
@pytest.mark.parametrize("delta", audit_after(2, [1e-2, 1e-10, 1e-6]))
def test_contests_of_a_run_are_chosen_for_the_delta_that_is_asked(noise, delta):
    """As dear as the dearest contest, and no dearer: by all outcomes of five."""
    run = 5 * ac.ReportNoisyMax(4.0, noise)
    pairs = [product_pair([each] * 5) for each in contests(noise, 0.5)]
    ways = [way for p, q in pairs for way in ((p, q), (q, p))]
    low, high = 0.0, 2.5
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if max(hockey_stick(*way, middle) for way in ways) > delta else (low, middle)
    assert 0.98 * low <= ac.epsilon(run, delta, method="tight").lower <= high * 1.02


@pytest.mark.audit
def test_contests_of_several_kinds_are_chosen_for_the_whole_run():
    """One of each of many near kinds costs at least about what as many of the cheapest do."""
    kinds = ac.Composition((ac.ReportNoisyMax(5.0 + 0.01 * i), 1) for i in range(40))
    same = 40 * ac.ReportNoisyMax(5.4)
    found, cheaper = (ac.epsilon(run, 1e-6, method="tight") for run in (kinds, same))
    assert 0.97 * cheaper.lower <= found.lower <= found.epsilon


@pytest.mark.parametrize("contest", [Contest("laplace", 2e-9), Contest("exponential", 1e-9)])
def test_hardly_any_difference_keeps_its_digits(contest):
    slope = {"laplace": 7 / 24, "exponential": 1 / 2}[contest.noise]
    found = float(np.exp(contest.log_reached(np.zeros(1)))[0])
    assert found == pytest.approx(slope * contest.apart, rel=1e-8)
    assert contest.bit() == pytest.approx(4 * slope * contest.apart / 2, rel=1e-8)


# --- samples -----------------------------------------------------------------------------------------------


@pytest.mark.audit
def test_samples_of_a_fixed_size_reach_one_direction():
    event = ac.FixedSizeSampled(ac.RandomizedResponse(1.0, 1, REPLACE), 1, 4)
    likely, other = 1 / (1 + math.exp(-1.0)), 1 / (1 + math.exp(1.0))
    drawn = [0.25 * likely + 0.75 * other, 0.25 * other + 0.75 * likely], [other, likely]
    check(event, lambda epsilon: hockey_stick(*drawn, epsilon), (0.0, 0.1, 0.2), 1.0)
    pair = product_pair([drawn] * 3)

    def truth(epsilon):
        return max(hockey_stick(*pair, epsilon), hockey_stick(*pair[::-1], epsilon))

    check(3 * event, truth, (0.0, 0.2, 0.5), 0.99)


@pytest.mark.each_run(1)
@pytest.mark.parametrize("adjacency", list(ac.Adjacency))
def test_truncated_samples_hold_the_individual_as_often_as_it_is_kept(adjacency):
    rate, records, largest = 0.4, 5, 2
    event = ac.TruncatedPoissonGaussian(1.0, rate, records, largest, adjacency=adjacency)
    kept = 0.0
    for joined in range(records):  # of the others
        chance = math.comb(records - 1, joined) * rate**joined * (1 - rate) ** (records - 1 - joined)
        kept += chance * rate * min(1.0, largest / (joined + 1))
    alone = ac.PoissonSubsampled(ac.ClippedSum(1.0, adjacency=adjacency), kept)
    for epsilon in (0.0, 0.5, 1.0):  # others' vectors that are not 0 tell more, not too much: test_truncated_poisson.py
        found, least = ac.delta(event, epsilon), ac.delta(alone, epsilon).delta
        assert least * (1 - 1e-9) <= found.lower <= found.delta
        assert epsilon == 0.0 or least < found.lower < found.delta


# --- in runs -----------------------------------------------------------------------------------------------

BOUNDED = [each[0] for each in MAXIMA] + [
    ac.SparseVector(10.0, 20.0),
    ac.SparseVector(10.0, 20.0, queries=3),
    ac.FixedSizeSampled(ac.ClippedSum(1.0, adjacency=REPLACE), 1, 100),
    ac.TruncatedPoissonGaussian(1.0, 0.4, 5, 2),
]


@pytest.mark.each_run(1)
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


@pytest.mark.parametrize("noise", ["laplace", "exponential", "gumbel"])
@pytest.mark.parametrize("apart", [1.1e-3, 1.0, 38.0, 75.0, 299.0])
@pytest.mark.parametrize("delta", [None, 1e-300, 0.4])
def test_contests_whose_winner_is_certain_as_far_as_floats_tell(noise, apart, delta):
    """A chance of 1 had no logarithm of its rest, at a scale that a calibration tried."""
    found = best_bit(Contest(noise, apart), ac.Adjacency.ADD_REMOVE, 3, delta)
    at = np.array([0.0, apart / 2])
    told, bound = found._log_profile(at)[0], ac.PureDP(apart)._log_profile(at)[0]
    assert np.all(np.isfinite(told))
    assert np.all(told <= bound + 1e-9)


@pytest.mark.parametrize(("run", "delta"), [(2 * ac.ReportNoisyMax(1.0), 1e-3), (50 * ac.ReportNoisyMax(4.0), 1e-4)])
def test_contests_of_a_run_are_chosen_for_the_epsilon_at_which_delta_is_asked(run, delta):
    """With the contest for all deltas the first was 0 from below."""
    found = ac.delta(run, ac.epsilon(run, delta).lower)
    assert 0.98 * delta <= found.lower <= found.delta
