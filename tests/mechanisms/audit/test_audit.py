"""Audits: the bound holds with the promised confidence, is close to the truth, and detects half the noise."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

import accountant as ac
from mechanisms.audit import Audit, Outcomes, Tail, audit
from mechanisms.audit.paired import log_ratio

TABLE = np.eye(40)


def randomized_response(epsilon, leak=0.0):
    """One bit; with probability `leak` it is the record itself, which costs delta = leak and no epsilon."""

    def run(bit, rng, runs):
        kept = np.where(rng.random(runs) < 1 / (1 + math.exp(-epsilon)), bit, 1 - bit)
        return np.where(rng.random(runs) < leak, 10 + bit, kept)

    return run


def laplace(scale):
    return lambda value, rng, runs: value + rng.laplace(0, scale, runs)


def gaussian_argmax(sigma):
    return lambda votes, rng, runs: np.argmax(votes + rng.normal(0, sigma, (runs, len(votes))), axis=1)


def screening(sigma, threshold, queries=1):
    return lambda votes, rng, runs: votes + rng.normal(0, sigma, (runs, queries)) >= threshold


def many_outcomes(_, rng, runs):
    return rng.integers(0, 300, runs)


TWO_CLASSES = (np.array([5.0, 5.0]), np.array([4.0, 6.0]))
ARGMAX_EPSILON = math.log(0.5 / stats.norm.cdf(-2 / math.sqrt(2)))  # at sigma = 1: P[first wins] is 1/2 or that


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("mechanism", "neighbours", "delta", "truth"),
    [
        (randomized_response(1.0), (0, 1), 0.0, 1.0),
        (randomized_response(1.0, leak=0.1), (0, 1), 0.1, 1.0),
        (gaussian_argmax(1.0), TWO_CLASSES, 0.0, ARGMAX_EPSILON),
        (laplace(1.0), (0.0, 1.0), 0.0, 1.0),
        (many_outcomes, (0, 1), 0.0, 0.0),
        (lambda *args: np.sort(randomized_response(1.0)(*args)), (0, 1), 0.0, 1.0),
    ],
    ids=["randomized response", "with a leak", "argmax", "laplace", "many outcomes", "sorted batch"],
)
def test_the_bound_is_above_the_truth_as_seldom_as_promised(mechanism, neighbours, delta, truth):
    bounds = [
        float(audit(mechanism, neighbours=neighbours, runs=400, delta=delta, confidence=0.9, batched=True, rng=seed))
        for seed in range(200)
    ]
    assert sum(bound > truth + 1e-12 for bound in bounds) <= 20


def test_at_low_confidence_the_bound_does_go_wrong_so_the_test_above_can_fail():
    bounds = [
        float(audit(many_outcomes, neighbours=(0, 1), runs=400, delta=0, confidence=0.1, batched=True, rng=seed))
        for seed in range(200)
    ]
    assert 10 <= sum(bound > 0 for bound in bounds) <= 180


@pytest.mark.parametrize(("likely", "other"), [(0, 0), (3, 0), (50, 17), (99, 1), (100, 0), (100, 100)])
def test_both_ends_of_the_ratio_solve_the_binomial_equations(likely, other):
    runs, alpha = 100, 2.5e-4
    low = 0.0 if likely == 0 else brentq(lambda p: stats.binom.sf(likely - 1, runs, p) - alpha, 0, 1, xtol=1e-15)
    high = 1.0 if other == runs else brentq(lambda p: stats.binom.cdf(other, runs, p) - alpha, 0, 1, xtol=1e-15)
    expected = math.log((low - 0.01) / high) if low > 0.01 else -math.inf
    assert float(log_ratio(likely, other, runs, alpha, 0.01)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("mechanism", "neighbours", "delta", "truth"),
    [
        (randomized_response(1.0), (0, 1), 0.0, 1.0),
        (randomized_response(1.0), (1, 0), 0.0, 1.0),
        (randomized_response(1.0, leak=0.05), (0, 1), 0.05, 1.0),
        (laplace(1.0), (0.0, 1.0), 0.0, 1.0),
        (laplace(1.0), (1.0, 0.0), 0.0, 1.0),
        (gaussian_argmax(1.0), TWO_CLASSES, 0.0, ARGMAX_EPSILON),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_with_enough_runs_the_bound_is_near_the_truth(mechanism, neighbours, delta, truth, seed):
    found = audit(mechanism, neighbours=neighbours, runs=20_000, delta=delta, batched=True, rng=seed)
    assert 0.8 * truth <= float(found) <= truth


def price(run, delta):
    return ac.epsilon(run, delta, conversion="optimal").epsilon


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("make", "sigma", "event", "neighbours", "delta", "score"),
    [
        (lambda s: screening(s, 3), 2.0, ac.NoisyScreening(2.0, 3, 5), (0, 1), 0.0, None),
        (lambda s: screening(s, 3, 20), 2.0, 20 * ac.NoisyScreening(2.0, 3, 5), (2, 3), 0.02, lambda bits: bits.sum(1)),
        (laplace, 1.0, ac.Laplace(1.0), (0.0, 1.0), 0.0, None),
        (laplace, 1.0, ac.Laplace(1.0), (1.0, 0.0), 0.0, None),
        (gaussian_argmax, 2.0, ac.GNMax(2.0), (np.array([5.0, 5, 0, 0]), np.array([4.0, 6, 0, 0])), 0.1, None),
    ],
    ids=["screening", "twenty screenings", "laplace", "laplace, swapped", "gnmax"],
)
def test_half_the_noise_is_caught_and_the_right_noise_is_not(make, sigma, event, neighbours, delta, score):
    promise = price(event, delta)
    settings = {"neighbours": neighbours, "runs": 40_000, "delta": delta, "score": score, "batched": True, "rng": 0}
    assert float(audit(make(sigma), **settings)) <= promise < float(audit(make(sigma / 2), **settings))


def test_an_outright_leak_grows_with_the_runs():
    bounds = [float(audit(lambda data, rng: data, neighbours=("a", "b"), runs=n, delta=0)) for n in (100, 1000, 10_000)]
    assert bounds == sorted(bounds)
    assert bounds[-1] > 6
    assert all(bound <= math.log(n / 16) for bound, n in zip(bounds, (100, 1000, 10_000), strict=True))


def test_a_leak_with_probability_delta_is_allowed_at_that_delta_only():
    mechanism = randomized_response(1e-9, leak=0.05)
    settings = {"neighbours": (0, 1), "runs": 20_000, "batched": True}
    assert all(float(audit(mechanism, delta=0.05, rng=seed, **settings)) <= 1e-9 for seed in range(20))
    caught = audit(mechanism, delta=0.0, rng=0, **settings)
    assert float(caught) > 3
    assert caught.event in (Outcomes(frozenset({10})), Outcomes(frozenset({11})))


@pytest.mark.parametrize(
    "constant", [7, "label", None, math.nan, (1, math.nan), np.array([1.0, math.nan]), [np.zeros(2), 1], 10**400]
)
def test_a_constant_output_says_nothing(constant):
    found = audit(lambda data, rng: constant, neighbours=(0, 1), runs=200, delta=0.0)
    assert float(found) == 0
    assert found.counts in ((0, 0), (100, 100))


def test_a_rare_outcome_is_found():
    def mechanism(likely, rng):
        return "rare" if rng.random() < (0.02 if likely else 0.001) else rng.integers(0, 5)

    found = audit(mechanism, neighbours=(True, False), runs=40_000, delta=0.0, rng=0)
    assert found.event == Outcomes(frozenset({"rare"}))
    assert found.direction == (0, 1)
    assert 1.5 < float(found) < math.log(20)


def test_outputs_that_never_repeat_count_together():
    def mechanism(data, rng):
        return f"{rng.random()}" if data and rng.random() < 0.1 else "same"

    found = audit(mechanism, neighbours=(0, 1), runs=5000, delta=0.0, rng=0)
    assert found.event == Outcomes(frozenset({"same"}), complement=True)
    assert found.direction == (1, 0)
    assert float(found) > 3


@pytest.mark.each_run(3)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda bit: np.array([bit, 0.5]),
        lambda bit: np.array(bit),
        lambda bit: np.array([[bit], ["x"]], dtype=object),
        lambda bit: (np.array([bit]), "x"),
        lambda bit: [bit, [math.nan]],
        lambda bit: {0: "no", 1: None}[bit],
        lambda bit: math.nan if bit else 0.0,
        lambda bit: np.float32(bit),
        lambda bit: 10**400 + bit,
    ],
)
def test_any_form_of_output_gives_the_same_counts(wrap):
    coin = randomized_response(1.0)
    settings = {"neighbours": (0, 1), "runs": 4000, "delta": 0.0, "rng": 3}
    plain = audit(lambda bit, rng: int(coin(bit, rng, 1)[0]), **settings)
    found = audit(lambda bit, rng: wrap(int(coin(bit, rng, 1)[0])), **settings)
    assert float(plain) > 0.7
    assert {found.counts, found.counts[::-1]} & {plain.counts, tuple(2000 - count for count in plain.counts)}


def test_rows_of_a_batch_are_outputs():
    rows = screening(1.0, 3, queries=3)
    settings = {"neighbours": (2, 3), "runs": 2000, "delta": 0.0, "rng": 3}
    one_by_one = audit(lambda votes, rng: rows(votes, rng, 1)[0], **settings)
    assert one_by_one == audit(rows, batched=True, **settings)
    assert float(one_by_one) > 1
    assert one_by_one == audit(lambda *args: list(rows(*args)), batched=True, **settings)


def test_a_score_finds_what_outputs_that_never_repeat_hide():
    def mechanism(data, rng):
        return data + rng.laplace(0, 1, 8)

    settings = {"neighbours": (np.zeros(8), np.ones(8)), "runs": 10_000, "delta": 0.0, "rng": 0}
    assert float(audit(mechanism, **settings)) == 0
    found = audit(mechanism, score=np.sum, **settings)
    assert isinstance(found.event, Tail)
    assert 2 < float(found) < 8


def test_evidence_agrees_with_itself():
    found = audit(laplace(1.0), neighbours=(0.0, 1.0), runs=10_001, delta=0.0, batched=True, rng=5)
    assert isinstance(found, Audit)
    assert found.held_out == 5001
    likely, other = (found.counts[side] for side in found.direction)
    assert float(found) == pytest.approx(float(log_ratio(likely, other, 5001, (1 - 0.999) / 4, 0.0)))
    inside = found.event.threshold + (1e-9 if found.event.upper else -1e-9)
    assert inside in found.event
    assert 2 * found.event.threshold - inside not in found.event
    assert str(found).startswith("epsilon >= 0.")
    with pytest.raises(AttributeError):
        found.epsilon_lower = 0.0


def test_sets_of_outcomes_contain_what_they_print():
    some, rest = Outcomes(frozenset({1, "a"})), Outcomes(frozenset(range(9)), complement=True)
    assert 1 in some
    assert 2 not in some
    assert np.zeros(1) in rest
    assert 3 not in rest
    assert str(some) == "output in {'a', 1}"
    assert str(rest) == "output not in {0, 1, 2, 3, ...}"


def test_seeds_repeat_and_system_entropy_does_not():
    def bound(rng):
        return audit(laplace(1.0), neighbours=(0.0, 1.0), runs=1000, delta=0.0, batched=True, rng=rng)

    assert bound(4) == bound(np.random.default_rng(4)) == bound(np.int64(4))
    assert bound(None) != bound(None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mechanism": 3}, r"mechanism = 3; accepted: a callable, mechanism\(data, rng\)"),
        ({"mechanism": lambda data: data}, r"takes \(data\): too many .*; accepted: .*mechanism\(data, rng\)"),
        ({"mechanism": lambda data, *, rng, big=TABLE: 0}, r"takes \(data, rng, big\): .*; accepted: "),
        ({"batched": True, "mechanism": lambda data, rng: []}, r"takes .*; accepted: .*mechanism\(data, rng, runs\)"),
        ({"score": 0}, "score = 0; accepted: a callable or None"),
        ({"neighbours": (1, 2, 3)}, r"neighbours = \(1, 2, 3\); accepted: a pair"),
        ({"neighbours": np.zeros((2, 30))}, r"neighbours = array\(\[\[0.*\.\.\.; accepted: a pair"),
        ({"runs": 7}, "runs = 7; accepted: an integer in"),
        ({"runs": 10.5}, "runs = 10.5; accepted: an integer in"),
        ({"runs": math.inf}, "runs = inf; accepted: an integer in"),
        ({"runs": True}, "runs = True; accepted: an integer in"),
        ({"runs": "10"}, "runs = '10'; accepted: an integer in"),
        ({"delta": 1.0}, r"delta = 1.0; accepted: \[0, 1\)"),
        ({"delta": -1e-9}, r"delta = -1e-09; accepted: \[0, 1\)"),
        ({"delta": math.nan}, r"delta = nan; accepted: \[0, 1\)"),
        ({"confidence": 1.0}, r"confidence = 1.0; accepted: \(0, 1\)"),
        ({"confidence": 0}, r"confidence = 0; accepted: \(0, 1\)"),
        ({"rng": -1}, "rng = -1; accepted: a numpy Generator"),
        ({"rng": True}, "rng = True; accepted: a numpy Generator"),
        ({"mechanism": lambda data, rng: {}}, r"an output \{\} is not hashable; accepted: numbers"),
        ({"score": lambda output: math.nan}, "score returned nan or no number"),
        ({"score": str}, "score returned nan or no number"),
        ({"batched": True, "mechanism": lambda *_: 3}, "mechanism returned 3; accepted: an array, list or tuple of 10"),
        ({"batched": True, "mechanism": lambda *_: [3]}, "mechanism returned 1 entries; accepted"),
        ({"batched": True, "mechanism": lambda *_: range(10)}, r"mechanism returned range\(0, 10\); accepted"),
        ({"batched": True, "mechanism": laplace(1), "score": np.sum}, "score returned .*; accepted: an array"),
    ],
)
def test_mistakes_are_answered_in_one_line(changes, message):
    settings = {"mechanism": lambda data, rng: data, "neighbours": (0, 1), "runs": 10, "delta": 0.0, **changes}
    with pytest.raises(ac.ParameterError, match=message) as caught:
        audit(**settings)
    assert "\n" not in str(caught.value)


def test_whole_floats_are_run_counts():
    assert audit(laplace(1.0), neighbours=(0.0, 1.0), runs=1e3, delta=0, batched=True).runs == 1000
