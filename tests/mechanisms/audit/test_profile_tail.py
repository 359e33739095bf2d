"""Correct guesses under a whole profile: against a linear programme, mechanisms close to the bound, and coverage."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

import accountant as ac
from mechanisms.audit import OneRunAudit, audit_one_run, one_run, one_run_tail
from mechanisms.audit.profile_tail import profile_tail


def points_of(event, low=0.02, high=8.0, count=60):
    """Points of a profile at positive and negative epsilons."""
    positive = np.geomspace(low, high, count)
    deltas = np.array([ac.delta(event, epsilon).delta for epsilon in positive])
    others = -np.expm1(-positive) + np.exp(-positive) * deltas
    return np.concatenate([-positive[::-1], positive]), np.concatenate([others[::-1], deltas])


def linear_programme(correct, guesses, records, epsilons, deltas):
    """The largest tail that the inequalities of the proof allow, for all sets {i, .., r}."""
    rows, limits = [], []
    for first in range(1, guesses + 1):
        ours, theirs = np.zeros(guesses + 1), np.zeros(guesses + 1)
        for i in range(first, guesses + 1):
            ours[i] += i / records
            theirs[i - 1] += (guesses - i + 1) / records
        for epsilon, delta in zip(epsilons, deltas, strict=True):
            rows.append(ours - math.exp(epsilon) * theirs)
            limits.append(delta)
    worth = np.where(np.arange(guesses + 1) >= correct, 1.0, 0.0)
    found = linprog(-worth, A_ub=rows, b_ub=limits, A_eq=np.ones((1, guesses + 1)), b_eq=[1.0], bounds=(0, 1))
    return -found.fun


@pytest.mark.parametrize("event", [ac.Gaussian(1.0), ac.Gaussian(0.4), ac.Laplace(1.0), ac.PureDP(0.5)], ids=repr)
@pytest.mark.parametrize(("correct", "guesses", "records"), [(1, 1, 1), (3, 4, 4), (6, 8, 8), (6, 8, 20), (12, 15, 15)])
def test_it_is_what_a_linear_programme_finds(event, correct, guesses, records):
    epsilons, deltas = points_of(event, count=25)
    expected = linear_programme(correct, guesses, records, epsilons, deltas)
    assert profile_tail(correct, guesses, records, epsilons, deltas) == pytest.approx(expected, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
@pytest.mark.parametrize(("correct", "guesses"), [(5, 5), (20, 30), (28, 30), (70, 100)])
def test_randomized_response_stays_below(epsilon, correct, guesses):
    truth = stats.binom.sf(correct - 1, guesses, 1 / (1 + math.exp(-epsilon)))
    assert profile_tail(correct, guesses, guesses, *points_of(ac.PureDP(epsilon))) >= truth * (1 - 1e-9)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("guesses", [10, 40, 100])
def test_gaussian_noise_on_every_canary_stays_below(sigma, guesses):
    """Each canary is seen with its own noise; the likelier guess is right with probability Phi(1/(2 sigma))."""
    chance = stats.norm.cdf(0.5 / sigma)
    points = points_of(ac.Gaussian(sigma))
    for correct in range(guesses // 2, guesses + 1, 5):
        truth = stats.binom.sf(correct - 1, guesses, chance)
        assert profile_tail(correct, guesses, guesses, *points) >= truth


def test_with_abstentions_gaussian_noise_stays_below():
    """The 20 most certain of 100 guesses of canaries with their own noise, by simulation."""
    rng, runs, sigma = np.random.default_rng(0), 20000, 1.0
    bits = rng.random((runs, 100)) < 0.5
    scores = bits + sigma * rng.normal(size=bits.shape) - 0.5
    surest = np.argsort(-np.abs(scores), axis=1)[:, :20]
    right = np.take_along_axis((scores > 0) == bits, surest, axis=1).sum(axis=1)
    points = points_of(ac.Gaussian(sigma))
    for correct in range(10, 21):
        seen = np.mean(right >= correct)
        assert profile_tail(correct, 20, 100, *points) >= seen - 4 * math.sqrt(seen * (1 - seen) / runs)


@pytest.mark.parametrize("sigma", [0.7, 1.5])
def test_a_whole_profile_refutes_with_fewer_guesses(sigma):
    """Each single (epsilon, delta) of Gaussian noise allows more correct guesses than all of them together."""
    epsilons, deltas = points_of(ac.Gaussian(sigma))
    chance = stats.norm.cdf(0.5 / sigma)
    correct = math.ceil(100 * chance + 4 * math.sqrt(100 * chance * (1 - chance)))
    single = min(
        one_run_tail(correct, 100, 100, epsilon, delta)
        for epsilon, delta in zip(epsilons, deltas, strict=True)
        if epsilon > 0
    )
    assert profile_tail(correct, 100, 100, epsilons, deltas) < single


def test_limits():
    points = points_of(ac.Gaussian(1.0))
    assert profile_tail(0, 10, 10, *points) == 1.0
    nothing = np.array([0.0]), np.array([0.0])
    assert profile_tail(10, 10, 10, *nothing) == pytest.approx(2.0**-10, rel=1e-6)
    everything = np.array([0.0]), np.array([1.0])
    assert profile_tail(10, 10, 10, *everything) == 1.0
    tails = [profile_tail(correct, 30, 30, *points) for correct in range(31)]
    assert (np.diff(tails) <= 1e-12).all()


def test_a_promise_that_is_kept_is_refuted_no_more_often_than_stated():
    rng, refuted, runs = np.random.default_rng(1), 0, 1000
    p_values = {}
    for _ in range(runs):

        def mechanism(included, generator):
            return included + generator.normal(size=included.size) - 0.5

        found = audit_one_run(mechanism, records=60, guesses=60, delta=0.0, rng=rng)
        if found.correct not in p_values:
            p_values[found.correct] = found.p_value(ac.Gaussian(1.0))
        refuted += p_values[found.correct] <= 0.05
    assert stats.binomtest(refuted, runs, 0.05, alternative="greater").pvalue > 1e-4


def test_half_the_noise_is_refuted():
    def mechanism(included, generator):
        return included + 0.5 * generator.normal(size=included.size) - 0.5

    found = audit_one_run(mechanism, records=3000, guesses=300, delta=0.0, rng=0)
    assert found.p_value(ac.Gaussian(1.0)) < 0.01 < 0.5 < found.p_value(ac.Gaussian(0.5))


def test_a_thousand_times_more_guesses_are_no_thousand_times_slower(monkeypatch):
    """With too many guesses the points of the profile are tried one by one."""
    monkeypatch.setattr(one_run, "profile_tail", lambda *_: pytest.fail("tried together"))
    found = OneRunAudit(0.0, 1_200_000, 2_000_000, 2_000_000, 0.0, 0.95)
    assert 0 <= found.p_value(ac.PureDP(0.1)) < 0.01
