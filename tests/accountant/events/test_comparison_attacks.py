"""Streams of noisy comparisons: what is above every stream, and what one reaches, against integrals and all answers."""

import math
import warnings
from itertools import pairwise, product

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.stats import laplace, norm

import accountant as ac
from accountant.events.comparison_attacks import (
    Aim,
    Stream,
    attack_pair,
    bound_chances,
    choose_stream,
    log_chances,
)
from accountant.events.comparisons import GaussianComparisons
from tests.cases import audit_after

STREAMS = [
    Stream("gaussian", 20.0, "gaussian", 40.0, 1, 100, False),
    Stream("gaussian", 5.0, "gaussian", 10.0, 3, 40, True),
    Stream("laplace", 2.0, "gaussian", 4.0, 1, 10_000, False),
    Stream("gaussian", 2.0, "laplace", 4.0, 2, 0, False),
    Stream("laplace", 3.0, "gaussian", 9.0, 1, 1, True),
]


def event_of(stream):
    scales = stream.threshold_scale, stream.query_scale
    noises = stream.threshold_noise, stream.query_noise
    return ac.SparseVector(*scales, stream.tops, 1.0, stream.monotone, *noises, stream.queries)


def cdf(noise, x):
    if noise == "gaussian":
        return mp.ncdf(x)
    return mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2


def survival(noise, x):
    return cdf(noise, -x)


def outcomes(stream, asked, moves, z):
    """Chances of what is seen given the threshold's noise: by the definition of a stream."""
    rounds, many, probes = stream.rounds()
    found, before = [], mpf(1)
    for i in range(rounds):
        low, probe = ((z - asked[2 * i + j] - moves[j]) / mpf(stream.query_scale) for j in range(2))
        if many:
            passed = (1 - survival(stream.query_noise, low)) ** many
            found.append(before * (1 - passed))
            before *= passed
        yes, no = survival(stream.query_noise, probe), cdf(stream.query_noise, probe)
        found += [before * mp.binomial(probes, j) * yes**j * no ** (probes - j) for j in range(1, probes + 1)]
        before *= no**probes
    return [*found, before]


def exact_law(stream, asked, moves):
    """Integrals over the threshold's noise."""
    scale = mpf(stream.threshold_scale)

    def density(z):
        return (
            mp.npdf(z / scale) / scale if stream.threshold_noise == "gaussian" else mp.exp(-abs(z) / scale) / 2 / scale
        )

    nodes, weights = np.polynomial.legendre.leggauss(24)
    cuts = (-40, -25, -15, -10, -8, *np.arange(-6, 6.5, 0.5).tolist(), 8, 10, 15, 25, 40)
    total = [mpf(0)] * len(outcomes(stream, asked, moves, mpf(0)))
    for low, high in pairwise(cuts):
        for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
            z = scale * (mpf(low + high) + mpf(node) * (high - low)) / 2
            share = scale * mpf(weight) * (high - low) / 2 * density(z)
            total = [
                so_far + share * each for so_far, each in zip(total, outcomes(stream, asked, moves, z), strict=True)
            ]
    return total


@pytest.mark.audit
@pytest.mark.parametrize("stream", audit_after(1, STREAMS))
@mp.workdps(20)
def test_chances_are_bounded_and_the_pair_is_below(stream):
    """Of every outcome, by chords of a concave logarithm; what both directions say of the pair is below the stream."""
    aim = Aim(1e-4, None)
    asked, moves = choose_stream(stream, aim)
    noise = np.linspace(-1.0, 1.0, 8193) * (12 if stream.threshold_noise == "gaussian" else 40) * stream.threshold_scale
    laws = [exact_law(stream, asked, each) for each in ((0.0, 0.0), moves)]
    for exact, moved in zip(laws, ((0.0, 0.0), moves), strict=True):
        lower, upper = bound_chances(log_chances(stream, asked, moved, noise), noise[1] - noise[0])
        assert sum(exact) == pytest.approx(1.0, abs=1e-12)
        for low, value, high in zip(lower, exact, upper, strict=True):
            assert low <= value * (1 + mpf("1e-10")) + mpf("1e-28")
            assert value <= high * (1 + mpf("1e-10")) + mpf("1e-28")
            assert high - low <= 2e-3 * high + 1e-15
    p, q = laws
    for direction, first, second in (("remove", 0, 1), ("add", 1, 0)):
        profiles = attack_pair(stream, aim, direction)._log_profile(np.array([0.0, 0.01, 0.1, 0.4]))
        for epsilon, *both in zip((0.0, 0.01, 0.1, 0.4), *np.exp(profiles), strict=True):
            u = mp.exp(mpf(epsilon))
            exact = [sum(max(a - u * b, mpf(0)) for a, b in zip(*each, strict=True)) for each in ((p, q), (q, p))]
            ours = both[first], both[second]  # of the likelier answers against the others, and in reverse
            assert ours[0] <= exact[0] * (1 + mpf("1e-9"))
            assert ours[1] <= exact[1] * (1 + mpf("1e-9"))
            assert ours[0] >= exact[0] - mpf("1e-3") * max(exact)


@pytest.mark.audit
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("times", [1, 5])
def test_certified_intervals_say_something(stream, times):
    """The lower end is what an attack reaches: above 0, for one stream and for several, beside noise or not."""
    run = times * event_of(stream)
    found = ac.epsilon(run, 1e-5, method="tight")
    assert 0.1 * found.epsilon < found.lower < found.epsilon
    delta = ac.delta(run, found.lower, method="tight")
    assert 0.0 < delta.lower <= delta.delta
    assert delta.delta >= 1e-5
    beside = ac.epsilon(run + ac.Gaussian(10.0), 1e-5, method="tight")
    assert found.lower * 0.9 < beside.lower < beside.epsilon
    advantage = ac.advantage(run, method="tight")
    assert 0.0 < advantage.lower < advantage.upper


def test_one_query_is_known_within_a_percent():
    """Its answer is a test of one Gaussian value, and the threshold's noise is part of it."""
    found = ac.epsilon(ac.SparseVector(20.0, 40.0, 1, 1.0, False, "gaussian", "gaussian", 1), 1e-5, method="tight")
    noise = ac.epsilon(ac.Gaussian(math.hypot(20.0, 40.0)), 1e-5, method="tight")
    assert found.epsilon == pytest.approx(noise.epsilon, rel=1e-3)
    assert found.lower > 0.99 * found.epsilon


def largest_profile(mu, count, epsilon):
    """Hockey stick of the largest of `count` standard normal values against the same moved down, at the best cut."""
    x = np.linspace(-8.0, 9.0, 340_001)
    logs = count * norm.logcdf(x), count * norm.logcdf(x + mu)
    return float(np.max(-np.expm1(logs[0]) + math.exp(epsilon) * np.expm1(logs[1])))


@pytest.mark.parametrize("count", audit_after(1, [2, 1, 5]))
def test_no_queries_against_a_known_threshold_tell_more_than_their_largest(count):
    """Any cuts and any moves of every query, and any set of answers, given the threshold; ours is above and near."""
    rng, mu = np.random.default_rng(3), 0.7
    event = GaussianComparisons(1e9, 1.0, 1, 0.35, mu, "laplace", count)
    outcome = event._answers(1e-4, -60.0, 1)
    for epsilon in (-1.0, 0.0, 0.2, 0.6, 1.0):
        exact, reached = max(largest_profile(mu, count, epsilon), 1 - math.exp(epsilon)), 0.0
        for trial in range(400):
            x = rng.normal(0.5, 1.5, count) if trial % 2 else np.full(count, rng.normal(0.8, 1.0))
            moves = rng.uniform(0, mu, count) if trial % 3 else np.full(count, mu)
            laws = []
            for cuts in (x, x + moves):
                below = np.cumprod(norm.cdf(cuts))
                laws.append(np.append(np.append(1.0, below[:-1]) * norm.sf(cuts), below[-1]))
            reached = max(reached, float(np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0).sum()))
        assert reached <= exact * (1 + 1e-9)
        assert reached > 0.97 * exact
        u = math.exp(epsilon)
        ours = float(np.maximum(outcome.masses * (outcome.places - u), 0).sum()) + outcome.lost
        assert exact <= ours * (1 + 1e-9)
        assert ours <= exact + 1e-3 * mu


def answers(queries, tops, z, sigma, noise):
    """Chances of all sequences of answers, given the threshold's noise, that end with the last top or query."""
    found = {(): np.ones_like(z)}
    for query in queries:
        above = noise.sf((z - query) / sigma)
        grown = {}
        for said, chance in found.items():
            if sum(said) == tops:
                grown[said] = chance
            else:
                grown[(*said, 1)], grown[(*said, 0)] = chance * above, chance * (1 - above)
        found = grown
    return found


@pytest.mark.parametrize(("tops", "monotone"), audit_after(1, [(2, False), (2, True), (3, False)]))
def test_no_stream_with_several_tops_costs_more(tops, monotone):
    """All sequences of answers, to queries that move in all ways, in both directions."""
    rng, z = np.random.default_rng(11), np.linspace(-16, 16, 4001)
    weights, epsilons = norm.pdf(z / 2.0), (0.0, 0.1, 0.5, 1.5)
    weights /= weights.sum()
    event = ac.SparseVector(2.0, 1.5, tops, 1.0, monotone, "gaussian", "gaussian", 5)
    bounds = [ac.delta(event, epsilon, method="tight", tolerance=0.05) for epsilon in epsilons]
    moves = list(product((0.0, 1.0) if monotone else (-1.0, 1.0), repeat=5))
    largest = 0.0
    for _ in range(12):
        queries = rng.choice([-4.0, -2.0, 0.0, 1.0, 3.0], 5) + rng.normal()
        for moved in moves[:: 1 if monotone else 2]:
            laws = [answers(each, tops, z, 1.5, norm) for each in (queries, queries + np.array(moved))]
            p, q = (np.array([np.sum(weights * each) for each in law.values()]) for law in laws)
            for first, second in ((p, q), (q, p)):
                for epsilon, bound in zip(epsilons, bounds, strict=True):
                    delta = float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
                    assert delta <= bound.delta + 1e-9
                    largest = max(largest, delta / bound.delta)
    assert largest > 0.3


def test_the_search_for_a_stream_sees_what_the_pair_says():
    """Choosing for a small delta or for an order: each is better at its own."""
    stream = STREAMS[0]
    tail, whole = (attack_pair(stream, aim, "remove") for aim in (Aim(1e-5, None), Aim(1e-5, 10.0)))
    values = [np.exp(pair._log_profile(np.array([0.0, 0.17]))[0]) for pair in (tail, whole)]
    assert values[0][1] > values[1][1]
    assert values[0][0] < values[1][0]


@pytest.mark.audit
@pytest.mark.parametrize(
    ("event", "delta"),
    [
        (ac.SparseVector(1.0, 1.0), 0.2),
        (ac.SparseVector(1.0, 2.0, query_noise="gaussian", threshold_noise="gaussian", queries=100), 0.01),
    ],
)
def test_a_stream_is_chosen_for_the_epsilon_at_which_delta_is_asked(event, delta):
    """A stream chosen for a far smaller delta was below: 0.0035 where 0.2 is told, and 3e-5 where 0.01 is."""
    found = ac.delta(event, ac.epsilon(event, delta).lower)
    assert 0.9 * delta <= found.lower <= found.delta


def test_what_a_stream_tells_at_an_epsilon_is_what_simple_queries_tell():
    """One query against a threshold of Laplace noise, by integrals; many queries tell no less."""
    noise = np.linspace(-40.0, 40.0, 160_001)
    density = laplace.pdf(noise) * (noise[1] - noise[0])
    for epsilon in (0.0, 0.1):
        above = [[float(np.sum(density * laplace.sf(noise - at - moved))) for moved in (0, 1)] for at in (-0.5, 0.0)]
        simple = max(q - math.exp(epsilon) * p for p, q in above)
        assert ac.delta(ac.SparseVector(1.0, 1.0), epsilon).lower >= simple > 0.0


def test_laplace_noise_has_a_concave_logarithm():
    """What the bounds on chances need of noise: of its distribution function, and of what it lacks of 1."""
    x = np.linspace(-30, 30, 6001)
    for noise in (norm, laplace):
        for power in (1, 7, 10_000):
            logs = power * noise.logcdf(x)
            with np.errstate(divide="ignore"):
                others = np.log(-np.expm1(logs))
            for each in (logs, others[logs < -1e-9]):
                assert (np.diff(each, 2) <= 1e-6 * np.abs(each[1:-1]) + 1e-9).all()


def test_chances_of_what_is_no_float_are_anything():
    """A row that does not rise on the left may be large there, and one that does is nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lower, upper = bound_chances(np.array([np.linspace(-800.0, -900.0, 9), np.linspace(-1500.0, -1400.0, 9)]), 1.0)
        _, falls_on_both_sides = bound_chances(np.array([-((np.arange(9.0) - 4) ** 2) - 800.0]), 1.0)
    assert (lower == 0.0).all()
    assert (upper >= 1.0).all()
    assert falls_on_both_sides[0] < 1e-200
