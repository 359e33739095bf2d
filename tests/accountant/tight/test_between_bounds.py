"""Runs that are known between a pair above and an attack below, against all outcomes of runs that are known exactly."""

import math
from functools import lru_cache
from itertools import combinations, product

import numpy as np
import pytest
from mpmath import mp, mpf

import accountant as ac
from accountant.events.composition import Composition
from accountant.numerics.roots import Interval
from accountant.tight.games_last import BetweenBounds
from tests.accountant.events.test_approximate_dp import pair, score
from tests.cases import audit_after
from tests.soak.exact import screening_pairs

TOLD = ac.PoissonSubsampled(ac.ApproximateDP(0.5, 1e-2), 0.1)
EPOCH = ac.RandomAllocation(ac.PureDP(0.8), 4, 2)
SCREENING = ac.NoisyScreening(2.0, 1.0, 3)
FPRS = [0.0, 1e-5, 1e-3, 0.05, 0.6, 0.9995]


def epoch_pair(event):
    """Randomized response in some steps, all sets of so many equally likely, against none; by outcomes."""
    odds = mp.exp(mpf(event.event.epsilon))
    yes, no = [odds / (1 + odds), 1 / (1 + odds)], [1 / (1 + odds), odds / (1 + odds)]
    outcomes, sets = list(product(range(2), repeat=event.steps)), list(combinations(range(event.steps), event.selected))
    p = [
        mp.fsum(mp.fprod((yes if i in drawn else no)[each] for i, each in enumerate(o)) for drawn in sets) / len(sets)
        for o in outcomes
    ]
    return p, [mp.fprod(no[each] for each in o) for o in outcomes]


@lru_cache(maxsize=4)
def whole_pair(told):
    """The epoch, and if `told` what may tell all, in which the individual takes part."""
    with mp.workdps(40):
        p, q = epoch_pair(EPOCH)
        if told:
            others = pair(TOLD.event, TOLD.rate)
            p, q = ([a * b for a, b in product(*each)] for each in zip((p, q), others, strict=True))
        return p, q


def corners(p, q):
    """False- and true-positive rates of the best tests."""
    ranked = sorted(zip(p, q, strict=True), key=lambda each: each[1] / each[0] if each[0] else mp.inf)
    places, rates = [mpf(0)], [mpf(0)]
    for a, b in ranked:
        places.append(places[-1] + b)
        rates.append(rates[-1] + a)
    return places, rates


def rate_at(fpr, places, rates):
    k = max(i for i, place in enumerate(places) if place <= fpr)
    if k + 1 == len(places) or fpr == 0:
        return rates[k]
    return rates[k] + (rates[k + 1] - rates[k]) * (fpr - places[k]) / (places[k + 1] - places[k])


def hockey_stick(p, q, epsilon):
    return mp.fsum(max(a - mp.exp(mpf(epsilon)) * b, mpf(0)) for a, b in zip(p, q, strict=True))


def run_of(told):
    return EPOCH + TOLD if told else 1 * EPOCH


@pytest.mark.each_run(1)
@pytest.mark.parametrize("told", [False, True])
def test_prices_hold_what_the_run_costs(told):
    p, q = whole_pair(told)
    with mp.workdps(40):
        for epsilon in (0.0, 0.1, 0.4, 0.9):
            exact = max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
            found = ac.delta(run_of(told), epsilon, method="tight")
            assert found.lower <= exact * (1 + mpf("1e-12"))
            assert exact <= found.delta * (1 + mpf("1e-12"))
            assert found.lower > 0.3 * found.delta
            priced = ac.epsilon(run_of(told), float(exact), method="tight")
            assert priced.lower <= epsilon * (1 + 1e-9)
            assert epsilon <= priced.epsilon * (1 + 1e-9)


@pytest.mark.parametrize("told", audit_after(1, [False, True]))
def test_attack_risks_hold_what_attackers_do(told):
    floor, worst, risks = 1e-3, mpf(0), []
    with mp.workdps(40):
        p, q = whole_pair(told)
        for direction, first, second in (("remove", p, q), ("add", q, p)):
            places, rates = corners(first, second)
            found = ac.true_positive_rate(run_of(told), FPRS, direction=direction, method="tight")
            for fpr, lower, upper in zip(FPRS, found.lower, found.upper, strict=True):
                exact = rate_at(mpf(fpr), places, rates)
                if fpr == 0:
                    exact = mp.fsum(a for a, b in zip(first, second, strict=True) if b == 0)
                assert lower <= exact * (1 + mpf("1e-12"))
                assert exact <= upper * (1 + mpf("1e-12"))
                assert upper - lower <= 0.25 * upper
            prior = mpf(0.3) if direction == "remove" else mpf(0.7)
            risks.append(mpf(0.3) * (1 - hockey_stick(first, second, mp.log(mpf(0.7) / mpf(0.3)))))
            error = ac.bayes_risk(run_of(told), float(prior), direction="remove", method="tight")
            assert error.lower <= risks[-1] * (1 + mpf("1e-12"))
            assert risks[-1] <= error.upper * (1 + mpf("1e-12"))
            tests = [*zip(places, rates, strict=True), (mpf(floor), rate_at(mpf(floor), places, rates))]
            scores = [score(b) - score(a) for a, b in tests if a == floor or (a >= floor and 1 - b >= floor)]
            worst = max(worst, *scores)
        distance = hockey_stick(p, q, 0.0)
        for exact, interval in (
            (distance, ac.advantage(run_of(told), method="tight")),
            (worst, ac.gaussian_dp(run_of(told), floor, method="tight")),
        ):
            assert interval.lower <= exact * (1 + mpf("1e-9"))
            assert exact <= interval.upper * (1 + mpf("1e-9"))
            assert interval.upper - interval.lower < 0.25 * interval.upper


@mp.workdps(40)
def test_both_sides_are_asked_at_tolerances_that_grids_accept():
    asked = []

    def side(tolerance, remainders):
        asked.append(tolerance)
        return Interval(0.4, 1.0 / len(asked))

    sides = BetweenBounds(side, side, 1e-6)
    for _ in range(5):
        sides(None)
    assert min(asked) == 1e-6


@pytest.mark.audit
def test_a_screening_beside_what_is_known_between_bounds():
    """After the epoch the adversary chooses the votes: the largest chord of the screening's pairs at every outcome."""
    p, q = whole_pair(False)
    choices = screening_pairs(SCREENING)
    for epsilon in (0.0, 0.3):
        u, both = mp.exp(mpf(epsilon)), []
        for way in (1, -1):
            total = mpf(0)
            for a, b in zip(*(p, q)[::way], strict=True):
                total += max(
                    mp.fsum(max(a * x - u * b * y, mpf(0)) for x, y in (each[::way] for each in outcomes))
                    for outcomes in choices
                )
            both.append(total)
        exact = max(both)
        found = ac.delta(EPOCH + SCREENING, epsilon, method="tight")
        assert found.lower <= exact * (1 + mpf("1e-9"))
        assert exact <= found.delta * (1 + mpf("1e-9"))
        assert found.lower > 0.5 * found.delta
    advantage = ac.advantage(EPOCH + SCREENING, method="tight")
    assert 0 < advantage.lower <= advantage.upper < 1


def test_a_shuffled_epoch_is_known_no_nearer_beside_infinite_losses():
    """No amplification is above, an attack below: what is beside them does not bring both together."""
    epoch = ac.ShuffledEpoch(ac.Gaussian(1.0), 100)
    alone, beside = ac.delta(epoch, 0.3, method="tight"), ac.delta(epoch + TOLD, 0.3, method="tight")
    assert beside.lower < alone.lower + 0.01
    assert alone.delta < beside.delta < alone.delta + 0.01


def test_what_a_curve_says_is_above_the_attackers_of_noise_that_has_it():
    """zCDP beside other releases: above the Gaussian noise that has its curve, from below that noise itself."""
    run, rest = ac.ZeroConcentratedDP(0.01) + ac.Gaussian(5.0) + TOLD, ac.Gaussian(5.0) + TOLD
    noisy = rest + ac.Gaussian(math.sqrt(50))
    found, least, real = (ac.true_positive_rate(each, FPRS, method="tight") for each in (run, rest, noisy))
    assert (real.lower <= found.upper * (1 + 1e-12)).all()
    assert (found.lower <= real.upper * (1 + 1e-12)).all()
    np.testing.assert_allclose(found.lower[1:], real.lower[1:], rtol=0.02)
    assert found.upper[0] == pytest.approx(least.upper[0], rel=1e-6)


def drawn(sigma):
    return ac.FixedSizeSampled(ac.Gaussian(sigma, adjacency="replace"), 10, 100)


def screened(*values):
    return ac.NoisyScreening(*values, adjacency="replace")


WIDE = [
    (30 * drawn(1.0) + 400 * screened(8, 50, 100), 11.9, {"tolerance": 1e-3, "patience": 10}),
    (20 * drawn(1.5) + 600 * screened(25, 50, 100), 6.0, {}),
    (
        30 * drawn(1.0) + 400 * screened(8, 50, 100) + ac.ApproximateDP(0.1, 1e-9, adjacency="replace"),
        11.9,
        {"tolerance": 1e-3, "patience": 10},
    ),
    (
        10 * ac.PoissonSubsampled(ac.NoisyScreening(2.1578173718635694, 0, 3), 0.1)
        + ac.ReportNoisyMax(1.9853714397817235),
        1.2132498519133748,
        {"tolerance": 1e-4, "patience": 1},
    ),
]


@pytest.mark.parametrize(("run", "epsilon", "how"), WIDE)
@pytest.mark.parametrize("method", ["auto", "tight"])
def test_no_lower_end_is_that_of_a_pair_which_stands_above(run, epsilon, how, method):
    """A refusal of what stands above knew that pair from both sides, and the price was said to reach it."""
    least = Composition((event._certain(count), count) for event, count in run)
    known = ac.delta(least, epsilon).delta
    try:
        low = ac.delta(run, epsilon, method=method, **how).lower
    except ac.ToleranceUnreachable as error:
        low = 0.0 if error.found is None else error.found[0]
    assert low <= known * (1 + 1e-9)


def test_no_point_of_a_curve_is_certified_by_a_pair_which_stands_above():
    run, epsilon, how = WIDE[0]
    least = Composition((event._certain(count), count) for event, count in run)
    curve = ac.curve(run, [11.5, epsilon, 12.3], **how)
    known = [ac.delta(least, each).delta for each in curve.epsilons]
    assert (curve.lower <= np.multiply(known, 1 + 1e-9)).all()
