"""Chances of noisy votes against their definitions: integrals at high precision, enumeration, the mechanism itself."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
import mechanisms as mx
from mechanisms.noise.source import Seeded
from mechanisms.vote_chances import winning_probability
from mechanisms.voting import noisy_argmax, passes_screening

SAMPLED = ac.PoissonSubsampled(ac.GNMax(4.0), 0.2)
EVENTS = [ac.GNMax(4.0), ac.LNMax(3.0), ac.DiscreteGaussian(2.5), ac.DiscreteLaplace(2.0), SAMPLED]


def by_quadrature(event, votes, label):
    """P[label wins] at 30 digits, by the definition."""
    noise = event.additive_noise
    with mp.workdps(30):
        gaps = [(mp.mpf(votes[label]) - mp.mpf(v)) / mp.mpf(noise.scale) for j, v in enumerate(votes) if j != label]
        if noise.distribution == "gaussian":
            corners = [-12, -6, -3, -1, 0, 1, 3, 6, 12]
            return mp.quad(lambda x: mp.npdf(x) * mp.fprod(mp.ncdf(x + gap) for gap in gaps), corners)
        corners = sorted({mp.mpf(each) for each in range(-64, 65, 4)} | {-gap for gap in gaps if abs(gap) < 64})
        return mp.quad(lambda x: mp.exp(-abs(x)) / 2 * mp.fprod(laplace_cdf(x + gap) for gap in gaps), corners)


def laplace_cdf(x):
    return mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2


@pytest.mark.each_run(1)
@pytest.mark.parametrize("event", [SAMPLED, ac.LNMax(3.0)], ids=repr)
@pytest.mark.parametrize("votes", [[5.0], [7, 7], [3, 11, 12, 0], [0.25, 1.5, 2.0], [0, 40]])
def test_continuous_noise_against_quadrature_at_30_digits(event, votes):
    for label in {0, len(votes) - 1, int(np.argmax(votes))}:
        assert abs(mx.answer_probability(event, votes, label) - by_quadrature(event, votes, label)) < 1e-14


def test_many_classes_against_quadrature():
    """299 others with one of two numbers of votes, so that the product has two powers."""
    votes = [30.0] + 200 * [12.0] + 99 * [5.0]
    with mp.workdps(30):
        near, far = mp.mpf(18) / 8, mp.mpf(25) / 8
        corners = [-12, -6, -3, 0, 3, 6, 12]
        exact = mp.quad(lambda x: mp.npdf(x) * mp.ncdf(x + near) ** 200 * mp.ncdf(x + far) ** 99, corners)
        assert abs(mx.answer_probability(ac.GNMax(8.0), votes) - exact) < 1e-13
        corners = sorted({*range(-64, 65, 4), -near, -far})
        exact = mp.quad(
            lambda x: mp.exp(-abs(x)) / 2 * laplace_cdf(x + near) ** 200 * laplace_cdf(x + far) ** 99, corners
        )
        assert abs(mx.answer_probability(ac.LNMax(8.0), votes) - exact) < 1e-13


def discrete_chances(event):
    """Probabilities of integers by the definition, at 30 digits."""
    noise = event.additive_noise
    with mp.workdps(30):
        scale = mp.mpf(noise.scale)
        sizes = {
            n: mp.exp(-(n**2) / (2 * scale**2) if noise.distribution == "gaussian" else -mp.mpf(abs(n)) / scale)
            for n in range(-90, 91)
        }
        total = mp.fsum(sizes.values())
        return {n: size / total for n, size in sizes.items()}


@pytest.mark.parametrize("event", [ac.DiscreteGaussian(1.5), ac.DiscreteLaplace(0.8)], ids=repr)
@pytest.mark.parametrize("votes", [(2, 2), (3, 1), (0, 2), (1, 1, 1), (2, 0, 3), (0.5, 1.0), (0.5, 1.0, 1.5)])
def test_discrete_noise_against_enumeration_of_all_draws(event, votes):
    """Every combination of draws, with the arg max of the mechanism: ties go to the lower label."""
    chances = {n: float(p) for n, p in discrete_chances(event).items() if p > 1e-13}
    draws = np.array(list(chances))
    grids = np.meshgrid(*[draws] * len(votes), indexing="ij")
    winner = np.argmax([vote + grid for vote, grid in zip(votes, grids, strict=True)], axis=0)
    weight = math.prod(np.ix_(*[[chances[n] for n in draws]] * len(votes)))
    for label in range(len(votes)):
        assert mx.answer_probability(event, votes, label) == pytest.approx(weight[winner == label].sum(), abs=1e-11)


@pytest.mark.each_run(3)
@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_the_mechanism_returns_labels_as_often(event):
    votes, runs, source = np.array([9, 5, 9, 2]), 4000, Seeded(np.random.default_rng(1))
    found = np.bincount([noisy_argmax(event, votes, source) for _ in range(runs)], minlength=4) / runs
    expected = np.array([mx.answer_probability(event, votes, label) for label in range(4)])
    assert np.abs(found - expected).max() < 4.5 * math.sqrt(0.25 / runs)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(EVENTS), st.lists(st.integers(0, 60), min_size=1, max_size=6), st.integers(0, 100))
def test_chances_sum_to_one_and_rise_with_the_gap(event, votes, more):
    chances = [mx.answer_probability(event, votes, label) for label in range(len(votes))]
    assert sum(chances) == pytest.approx(1.0, abs=1e-12)
    assert mx.answer_probability(event, votes) == pytest.approx(chances[int(np.argmax(votes))])
    ahead = [votes[0] + more, *votes[1:]]
    assert mx.answer_probability(event, ahead, 0) >= chances[0] - 1e-13


@pytest.mark.parametrize(("make", "least"), [(ac.GNMax, 1e-3), (ac.LNMax, 1e-3), (ac.DiscreteLaplace, 1e-2)])
def test_both_limits(make, least):
    """Without noise the plurality wins; with nothing but noise every label wins alike."""
    assert mx.answer_probability(make(least), [3, 2, 0]) == 1.0
    assert mx.answer_probability(make(least), [3, 2, 0], 1) < 1e-40
    for label in range(3):
        assert mx.answer_probability(make(2e4), [3, 2, 0], label) == pytest.approx(1 / 3, abs=1e-4)


def test_many_rows_are_as_single_ones():
    votes = np.random.default_rng(2).integers(0, 30, (700, 5))
    labels = np.arange(700) % 5
    for event in EVENTS:
        found = mx.answer_probability(event, votes, labels)
        for row in (0, 311, 699):
            assert found[row] == pytest.approx(mx.answer_probability(event, votes[row], int(labels[row])), abs=1e-14)
    assert mx.answer_probability(ac.GNMax(1.0), np.empty((0, 3))).shape == (0,)


# --- screening -------------------------------------------------------------------------------------------


def test_passing_is_the_normal_distribution_of_the_plurality():
    event = ac.PoissonSubsampled(ac.NoisyScreening(3.0, 10.0, 20), 0.5)
    for votes in ([12, 1], [2, 9, 9], [0]):
        with mp.workdps(30):
            exact = mp.ncdf((mp.mpf(max(votes)) - 10) / 3)
        assert abs(mx.pass_probability(event, votes) - exact) < 1e-15
    source = Seeded(np.random.default_rng(3))
    found = np.mean([passes_screening(event, np.array([12, 1]), source) for _ in range(4000)])
    assert abs(found - mx.pass_probability(event, [12, 1])) < 0.04
    assert mx.pass_probability(event, [[12, 1], [0, 10]]) == pytest.approx([0.7475074624, 0.5])


# --- numbers of answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [None, 0, 1, 2, 5, 9])
def test_expected_answers_against_all_outcomes(cap):
    chances = [0.1, 0.9, 0.5, 0.3, 0.0, 1.0]
    expected = 0.0
    for passed in itertools.product([False, True], repeat=len(chances)):
        weight = math.prod(p if one else 1 - p for p, one in zip(chances, passed, strict=True))
        expected += weight * min(sum(passed), len(chances) if cap is None else cap)
    assert mx.expected_answers(chances, cap) == pytest.approx(expected, abs=1e-15)


def test_expected_answers_of_a_long_run_keep_to_the_limit():
    assert mx.expected_answers(np.full(3000, 0.5), 1000) == pytest.approx(1000)
    assert mx.expected_answers(np.ones(7), 7) == 7
    assert mx.expected_answers([], 3) == 0


# --- integers of different distributions -----------------------------------------------------------------


def test_winner_of_different_integers_against_enumeration():
    rng = np.random.default_rng(4)
    chances = rng.dirichlet(np.ones(4), (3, 3))
    first = rng.integers(-2, 2, (3, 3))
    for row in range(3):
        expected = np.zeros(3)
        for draw in itertools.product(range(4), repeat=3):
            weight = math.prod(chances[row, j, draw[j]] for j in range(3))
            expected[int(np.argmax(first[row] + draw))] += weight
        for label in range(3):
            found = winning_probability(chances[row : row + 1], first[row : row + 1], np.array([label]))
            assert found[0] == pytest.approx(expected[label], abs=1e-14)


# --- bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: mx.answer_probability(ac.NoisyScreening(1.0, 2.0, 3), np.zeros((2, 2, 2))), "votes have shape"),
        (lambda: mx.answer_probability(ac.PureDP(1.0), [1, 2]), "additive noise"),
        (lambda: mx.answer_probability(ac.GNMax(1.0), []), "votes have shape"),
        (lambda: mx.answer_probability(ac.GNMax(1.0), "many"), "votes = 'many'"),
        (lambda: mx.answer_probability(ac.GNMax(1.0), [1.0, math.nan]), "in range"),
        (lambda: mx.answer_probability(ac.GNMax(1.0), [1, 2], 2), "labels = 2"),
        (lambda: mx.answer_probability(ac.GNMax(1.0), [1, 2], 0.5), "labels = 0.5"),
        (lambda: mx.answer_probability(ac.DiscreteLaplace(2e5), [1, 2]), "at most 100000"),
        (lambda: mx.pass_probability(ac.GNMax(1.0), [1, 2]), "NoisyScreening"),
        (lambda: mx.pass_probability("screening", [1, 2]), "NoisyScreening"),
        (lambda: mx.expected_answers([0.5, 1.5]), "pass_probabilities"),
        (lambda: mx.expected_answers([0.5], -1), "max_labels = -1"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, named):
    with pytest.raises(ac.ParameterError, match=named) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert "accepted" in str(caught.value)
