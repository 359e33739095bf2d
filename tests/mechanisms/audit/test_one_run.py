"""One-run audits: their tail against enumeration and worst cases, and mechanisms that take many records."""

import itertools
import math
from unittest import mock

import numpy as np
import pytest
from scipy import stats

import accountant as ac
import mechanisms as mx
from mechanisms.audit import one_run_tail
from mechanisms.federation import reverse_rounds
from tests.cases import audit_after
from tests.mechanisms.audit.broken_lines import with_lines


def responses(epsilon, leak=0.0):
    """Every canary's bit by randomized response, or with probability `leak` the bit itself, marked as certain."""

    def mechanism(included, rng):
        kept = rng.random(len(included)) < 1 / (1 + math.exp(-epsilon))
        leaked = rng.random(len(included)) < leak
        return np.where(included == (kept | leaked), 1.0, -1.0) * np.where(leaked, 2.0, 1.0)

    return mechanism


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize(("correct", "guesses"), [(0, 5), (1, 1), (4, 7), (30, 40), (40, 40)])
def test_without_delta_it_is_the_binomial_tail(correct, guesses, epsilon):
    share = 1 / (1 + math.exp(-epsilon))
    expected = stats.binom.sf(correct - 1, guesses, share)
    assert one_run_tail(correct, guesses, 50, epsilon, 0.0) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("correct", [3, 6, 9])
def test_the_excess_is_spent_as_a_linear_programme_would(correct):
    from scipy.optimize import linprog

    guesses, records, epsilon, delta = 10, 30, 0.7, 0.02
    share, eta = 1 / (1 + math.exp(-epsilon)), records * delta / (1 + math.exp(epsilon))
    below = np.arange(correct)
    best = linprog(
        -np.ones(correct),
        A_ub=(correct - below)[None],
        b_ub=[eta],
        bounds=[(0, chance) for chance in stats.binom.pmf(below, guesses, share)],
    )
    expected = min(stats.binom.sf(correct - 1, guesses, share) - best.fun, 1.0)
    assert one_run_tail(correct, guesses, records, epsilon, delta) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "leak"), [(0.0, 0.1), (1.0, 0.05), (1.0, 0.3)])
def test_the_tail_bounds_every_strategy_on_two_responses(epsilon, leak):
    """All functions from the outputs of two leaking responses to one or two guesses: none beats the bound."""
    kept = 1 / (1 + math.exp(-epsilon))
    # outputs: -1, +1 say a bit by response, -2, +2 the bit itself
    chances = {bit: {o: 0.0 for o in (-2, -1, 1, 2)} for bit in (0, 1)}
    for bit, sign in ((0, -1), (1, 1)):
        chances[bit][2 * sign] = leak
        chances[bit][sign], chances[bit][-sign] = (1 - leak) * kept, (1 - leak) * (1 - kept)
    outputs = list(itertools.product(chances[0], repeat=2))
    joint = {
        (bits, out): 0.25 * chances[bits[0]][out[0]] * chances[bits[1]][out[1]]
        for bits in itertools.product((0, 1), repeat=2)
        for out in outputs
    }
    for wanted, guesses in ((1, 1), (1, 2), (2, 2)):
        total = 0.0
        for out in outputs:  # the best guess for each output maximises the whole
            options = []
            for positions in itertools.combinations(range(2), guesses):
                for guess in itertools.product((0, 1), repeat=guesses):
                    hits = [
                        joint[bits, out]
                        for bits in itertools.product((0, 1), repeat=2)
                        if sum(bits[i] == g for i, g in zip(positions, guess, strict=True)) >= wanted
                    ]
                    options.append(sum(hits))
            total += max(options)
        assert total <= one_run_tail(wanted, guesses, 2, epsilon, leak) + 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_with_enough_records_the_bound_is_near_the_truth(seed):
    found = mx.audit_one_run(responses(1.0), records=20_000, guesses=20_000, delta=0.0, rng=seed)
    assert 0.9 < float(found) <= 1.0
    assert found.correct == pytest.approx(20_000 * 0.731, rel=0.02)


def test_the_bound_solves_its_equation_from_below():
    found = mx.audit_one_run(responses(1.0), records=500, guesses=300, delta=1e-4, rng=1)
    at = [one_run_tail(found.correct, 300, 500, float(found) + away, 1e-4) for away in (-1e-5, 1e-5)]
    assert at[0] <= 0.05
    assert at[1] > 0.05 - 1e-4


def test_the_surest_scores_become_guesses():
    found = mx.audit_one_run(responses(0.5, leak=0.05), records=4000, guesses=100, delta=0.0, rng=2)
    assert found.correct == 100
    assert float(found) > 3
    allowed = mx.audit_one_run(responses(0.5, leak=0.05), records=4000, guesses=100, delta=0.05, rng=2)
    assert float(allowed) == 0


def test_a_constant_score_says_nothing():
    found = mx.audit_one_run(lambda included, rng: np.zeros(len(included)), records=1000, guesses=1000, delta=0, rng=0)
    assert float(found) < 0.2


def test_a_promise_is_refuted_as_a_whole():
    def gaussian(included, rng):
        return included + rng.normal(0, 1.0, len(included)) - 0.5

    found = mx.audit_one_run(gaussian, records=2000, guesses=400, delta=1e-3, rng=0)
    assert found.p_value(ac.Gaussian(1.0)) > 0.05
    assert found.p_value(ac.Gaussian(4.0)) < found.p_value(ac.Gaussian(2.0)) < 0.05
    assert str(found).startswith("epsilon >= ")


@pytest.mark.parametrize(("factor", "caught"), [(1.0, False), (0.25, True)])
def test_reverse_knn_in_one_run(factor, caught):
    """Every canary has its own query, and a label that says which of two records it is."""
    m, epsilon = 200, 2.0
    points = 100 * np.arange(m, dtype=np.float32)[:, None]
    parameters = {"n_queries": m, "n_neighbors": 1, "n_classes": 2}
    centres = mock.patch.object(reverse_rounds, "cluster_centres", lambda points, *_: points)

    def mechanism(included, rng):
        model = mx.ReverseKNN(**parameters, epsilon=epsilon / factor, rng=rng)
        counts = model.label(points, included.astype(int), points).counts
        clipped = np.clip(counts, 0, 1)
        return clipped[:, 1] - clipped[:, 0]

    with centres:
        found = mx.audit_one_run(mechanism, records=m, guesses=m // 2, delta=0.0, rng=3)
    assert float(found) > 0.5
    assert (float(found) > epsilon) is caught


@pytest.mark.audit
@pytest.mark.parametrize("broken", audit_after(1, [True, False]))
def test_individual_knn_in_one_run(broken):
    """Every canary has its own direction, with queries until the promised budget is spent and beyond."""
    m, queries = 300, 24
    parameters = {"budget": 0.5, "count_sigma": 1.5, "vote_sigma": 1e3, "min_count": 0.01, "threshold": 0.5}
    line = ("units[granted])", "np.ones_like(units[granted]))")
    make = with_lines(mx.IndividualKNN, "_charge", line) if broken else mx.IndividualKNN
    directions = np.eye(m + 1, dtype=np.float32)

    def mechanism(included, rng):
        there = np.append(np.flatnonzero(included), m)  # the last is always included, and never asked about
        model = make(**parameters, n_classes=2, rng=rng).fit(directions[there], np.zeros(len(there), int))
        model.predict(np.tile(directions[:m], (queries, 1)))
        # a count of 0 or 1 with this noise is 0.91 on average, as none is below 0.01
        return model.counts_.reshape(queries, m).sum(axis=0) - 0.91 * queries

    found = mx.audit_one_run(mechanism, records=m, guesses=150, delta=1e-3, rng=0)
    p_value = found.p_value(ac.GaussianDP(math.sqrt(2 * parameters["budget"])))
    assert (p_value < 0.05) is broken


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mechanism": 3}, "mechanism = 3; accepted: a callable"),
        ({"mechanism": lambda included: []}, r"takes .*; accepted: .*mechanism\(included, rng\)"),
        ({"records": 0}, "records = 0; accepted"),
        ({"guesses": 11}, "guesses = 11; accepted"),
        ({"delta": 1.0}, r"delta = 1.0; accepted: \[0, 1\)"),
        ({"confidence": 1.0}, r"confidence = 1.0; accepted: \(0, 1\)"),
        ({"rng": -1}, "rng = -1; accepted: a numpy Generator"),
        ({"mechanism": lambda included, rng: "x"}, "mechanism returned 'x'; accepted: 10 scores"),
        ({"mechanism": lambda included, rng: [1.0]}, r"scores of shape \(1,\); accepted: \(10,\)"),
        ({"mechanism": lambda included, rng: [math.nan] * 10}, "none nan"),
    ],
)
def test_mistakes_are_answered_in_one_line(changes, message):
    settings = {"mechanism": responses(1.0), "records": 10, "guesses": 5, "delta": 0.0, **changes}
    with pytest.raises(ac.ParameterError, match=message) as caught:
        mx.audit_one_run(**settings)
    assert "\n" not in str(caught.value)
