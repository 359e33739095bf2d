"""Gaussian noise beside releases of few losses: exact prices against their definition in high precision."""

import math

import mpmath as mp
import numpy as np
import pytest

import accountant as ac
from accountant.errors import ToleranceUnreachable
from accountant.patience import allow_work
from accountant.tight.few_losses import FewLosses, answers_of_few
from accountant.tight.route import TightRun
from tests.cases import audit_after

P, PURE, BITS, INTEGERS, GAUSS = ac.PoissonSubsampled, ac.PureDP, ac.RandomizedResponse, ac.DiscreteLaplace, ac.Gaussian
ANSWERS = ac.KaryRandomizedResponse(0.7, 5, ac.Adjacency.ADD_REMOVE)


def noise_on_integers(scale, shift):
    """P and Q of discrete Laplace noise that moves by a shift, all outcomes one by one, the tails together."""
    t = 1 / mp.mpf(scale)
    mass = [mp.tanh(t / 2) * mp.exp(-abs(x) * t) for x in range(shift + 1)]
    tail = mp.exp(-t) / (1 + mp.exp(-t))
    inner = [(mass[x], mass[shift - x]) for x in range(1, shift)]
    return [(mass[0] + tail, mass[shift] / (1 - mp.exp(-t))), *inner, (mass[shift] / (1 - mp.exp(-t)), mass[0] + tail)]


def pair_of(event):
    """P and Q of one release, outcome by outcome."""
    inner, rate = event.unsampled, mp.mpf(event.sampling_rate)
    if isinstance(inner, INTEGERS):
        pairs = noise_on_integers(inner.scale, inner.sensitivity)
    elif isinstance(inner, ac.KaryRandomizedResponse):
        other = 1 / (mp.exp(inner.epsilon) + inner.categories - 1)
        truth = other * mp.exp(inner.epsilon)
        pairs = [(truth, other), (other, truth), *[(other, other)] * (inner.categories - 2)]
    else:
        truth = 1 / (1 + mp.exp(-mp.mpf(inner.epsilon)))
        pairs = [(truth, 1 - truth), (1 - truth, truth)]
        for _ in range(getattr(inner, "bits", 1) - 1):
            pairs = [(p * a, q * b) for p, q in pairs for a, b in [(truth, 1 - truth), (1 - truth, truth)]]
    return [((1 - rate) * q + rate * p, q) for p, q in pairs]


def true_delta(run, epsilon):
    """sum over outcomes of sup_S (P(S) - e^eps Q(S)), the larger of both directions."""
    square, pairs = mp.mpf(0), [(mp.mpf(1), mp.mpf(1))]
    for event, count in run:
        if isinstance(event, GAUSS):
            square += count / mp.mpf(event.sigma) ** 2
            continue
        for _ in range(count):
            pairs = [(p * a, q * b) for p, q in pairs for a, b in pair_of(event)]

    def value(p, q):
        ratio = mp.exp(mp.mpf(epsilon)) * q / p
        if not square:
            return p * max(1 - ratio, 0)
        mu = mp.sqrt(square)
        place = mp.log(ratio) / mu
        return p * (mp.ncdf(mu / 2 - place) - ratio * mp.ncdf(-mu / 2 - place))

    return max(mp.fsum(value(p, q) for p, q in pairs), mp.fsum(value(q, p) for p, q in pairs))


RUNS = [
    2 * GAUSS(25.14) + 2 * INTEGERS(7.874, 2) + PURE(0.1446) + BITS(0.0244, bits=2),
    GAUSS(0.7) + PURE(0.3) + BITS(0.3, bits=2) + P(PURE(3.0), 0.01),
    PURE(0.3) + PURE(0.31) + 2 * ANSWERS,
    3 * P(BITS(1.0), 0.2) + P(INTEGERS(0.8, 2), 0.05) + P(ANSWERS, 0.5) + GAUSS(50.0),
    3 * P(PURE(8.0), 1e-6) + GAUSS(1000.0),
    P(INTEGERS(2.0), 1.0) + GAUSS(0.05),
    3 * P(ANSWERS, 0.9) + GAUSS(300.0),
    2 * P(INTEGERS(2.0, 3), 0.3) + P(ANSWERS, 1e-5) + GAUSS(3.0),
    5 * P(ac.KaryRandomizedResponse(1.0, 2, ac.Adjacency.ADD_REMOVE), 0.2) + 2 * P(ANSWERS, 0.1),
]


@pytest.mark.each_run(1)
@pytest.mark.parametrize("run", audit_after(6, RUNS), ids=str)
def test_prices_hold_the_definition(run):
    with mp.workdps(50):
        for epsilon in (0.0, 1e-7, 0.05, 0.3, 1.0):
            found, true = TightRun(run, 1e-6).delta(epsilon), true_delta(run, epsilon)
            assert found.lower <= true <= found.delta
            assert found.delta - found.lower <= 2e-9 * found.delta + 1e-300
        for delta in (1e-9, 1e-4, 0.02):
            found = ac.epsilon(run, delta, method="tight", tolerance=1e-6)
            assert true_delta(run, found.epsilon) <= delta
            assert found.lower == 0.0 or true_delta(run, found.lower) >= mp.mpf(delta) * (1 - mp.mpf(10) ** -40)
            assert found.epsilon - found.lower <= 1e-6 * found.epsilon


@pytest.mark.each_run(4)
@pytest.mark.parametrize("run", RUNS, ids=str)
def test_prices_lie_inside_those_of_grids(run):
    """Two ways to certify, which know nothing of each other."""
    answers = TightRun(run, 1e-3)._answers
    assert isinstance(answers, FewLosses)
    for delta in (1e-6, 0.01):
        exact, wide = answers.epsilon(delta), answers._make_others().epsilon(delta)
        assert answers.source == answers.own
        assert wide.lower <= exact.upper * (1 + 1e-12)
        assert exact.lower <= wide.upper * (1 + 1e-12)
        assert exact.upper - exact.lower <= wide.upper - wide.lower


def test_losses_that_are_infinite_are_apart():
    """delta = d + (1 - d) delta'."""
    rest = PURE(0.5) + GAUSS(3.0)
    lost = TightRun(ac.ApproximateDP(0.5, 0.01) + GAUSS(3.0), 1e-6).delta(0.4)
    kept = TightRun(rest, 1e-6).delta(0.4)
    assert "sum over 2 losses" in lost.source
    assert lost.lower == pytest.approx(0.01 + 0.99 * kept.lower, rel=1e-9)
    assert lost.delta == pytest.approx(0.01 + 0.99 * kept.delta, rel=1e-9)


def test_the_limits():
    """Without losses it is the Gaussian profile; with hardly any noise, the binomial sum."""
    alone = ac.epsilon(GAUSS(2.0), 1e-5, method="tight")
    beside = ac.epsilon(GAUSS(2.0) + PURE(1e-12) + PURE(2e-12), 1e-5, method="tight")
    assert alone.epsilon <= beside.epsilon <= alone.epsilon + 3.1e-12 + 1e-9
    bits = ac.epsilon(20 * PURE(0.3), 1e-5, method="tight")
    hardly = ac.epsilon(20 * PURE(0.3) + GAUSS(1e12), 1e-5, method="tight")
    assert bits.epsilon * (1 - 1e-9) <= hardly.epsilon <= bits.epsilon + 1e-9


@pytest.mark.audit
def test_where_the_sum_does_not_do_grids_answer():
    """Many losses, and plateaus of delta, on which rounding leaves epsilon open."""
    many = 2000 * PURE(0.01) + GAUSS(5.0)
    found = ac.epsilon(many, 1e-5, method="tight")
    assert found.source == "privacy-loss distribution"
    near = ac.epsilon(many, 1e-5, method="tight", tolerance=1e-6)
    assert found.lower <= near.lower <= near.epsilon <= found.epsilon
    flat = PURE(30.0) + PURE(1e-4)
    with allow_work(1.0):
        answers = answers_of_few(flat, 1e-3, lambda: pytest.fail("not asked"))
        assert answers is not None
        found = answers.deltas([1.0])[0]
    assert found.lower <= 1 - math.exp(-29.0) <= found.upper + 1e-4
    with allow_work(2.0):
        try:
            wide = TightRun(flat, 1e-6)._answers.epsilon(1 - 2 * math.exp(-28.0))
        except ToleranceUnreachable as error:
            wide = error.found
    with mp.workdps(50):
        delta = 1 - 2 * math.exp(-28.0)
        assert true_delta(flat, wide[1]) <= delta
        assert true_delta(flat, wide[0]) >= delta


def test_what_has_no_few_losses():
    for run in (
        PURE(0.1) + ac.Laplace(1.0),
        GAUSS(1.0) + P(GAUSS(1.0), 0.5),
        ac.NoisyScreening(5.0, 10.0, 20) + PURE(0.1),
        300 * PURE(0.1) + 300 * PURE(0.2),
        300 * P(INTEGERS(1.0, 3), 0.1),
        2 * P(INTEGERS(1.0, 3, coordinates=2), 0.1),
        INTEGERS(1e-3, 3) + GAUSS(1.0),
    ):
        assert answers_of_few(run, 0.01, lambda: None) is None


# --- several samples ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1e-12, 0.3, 1 - 2.0**-53])
@pytest.mark.parametrize("times", [1, 2, 7])
def test_losses_of_several_samples_are_those_of_all_outcomes(times, rate):
    """Means of e^(s loss) over all of them are powers of those of one sample, at orders of both signs."""
    sides = P(INTEGERS(0.9, 3), rate)._few_losses(times)
    with mp.workdps(50):
        pairs = pair_of(P(INTEGERS(0.9, 3), rate))
        assert sides[0].losses.size == math.comb(times + len(pairs) - 1, times)
        for side, own in zip(sides, (pairs, [(q, p) for p, q in pairs]), strict=True):
            for s in (-2.0, -1.0, 0.0, 0.5, 3.0):
                true = mp.fsum(p * (p / q) ** s for p, q in own) ** times
                found = mp.fsum(mp.exp(mp.mpf(lp) + s * mp.mpf(loss)) for loss, lp in zip(*side, strict=True))
                assert abs(found / true - 1) < 1e-12


def test_at_rate_one_they_are_those_of_the_release():
    whole, nearly = (P(ANSWERS, rate)._few_losses(3)[0] for rate in (1.0, 1 - 2.0**-53))
    for loss, log_p in zip(*whole, strict=True):
        same = np.abs(nearly.losses - loss) < 1e-12
        assert np.exp(nearly.log_p[same]).sum() == pytest.approx(math.exp(log_p), rel=1e-12)


@pytest.mark.parametrize(("times", "there"), [(179, True), (180, False), (10**9, False)])
def test_of_very_many_samples_losses_are_too_many(times, there):
    assert (P(ANSWERS, 0.5)._few_losses(times) is not None) == there


def test_a_delta_far_below_what_grids_round_by():
    """Losses of 0.06 thrice beside hardly any noise: grids said [0.0016, 0.184]."""
    answers = ac.KaryRandomizedResponse(0.06719847417889259, 3, ac.Adjacency.ADD_REMOVE)
    run, delta = 3 * P(answers, 0.9) + GAUSS(2874.8065129601655), 2.9628430182208317e-12
    found = ac.epsilon(run, delta, method="tight", tolerance=1e-6)
    with mp.workdps(50):
        assert true_delta(run, found.epsilon) <= delta <= true_delta(run, found.lower)
    assert found.lower == pytest.approx(0.183684667934721898, rel=1e-12)
