"""Scores from promised likelihoods, and canaries: compared with direct counts, and more powerful than outputs."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

import accountant as ac
import mechanisms as mx
from mechanisms.audit import canaries
from mechanisms.audit.likelihood import (
    View,
    individual_score,
    label_log_ratios,
    label_score,
    number_score,
    sampled_view,
)


def test_a_sampled_view_is_what_subsets_give():
    labels, k, rate = [0, 1, 1, 2, 0], 2, 0.3
    chances = {}
    for bits in itertools.product((0, 1), repeat=len(labels)):
        chosen = [label for label, bit in zip(labels, bits, strict=True) if bit][:k]
        votes = tuple(np.bincount(chosen, minlength=3).tolist()) if chosen else (0, 0, 0)
        weight = math.prod(rate if bit else 1 - rate for bit in bits)
        chances[votes] = chances.get(votes, 0.0) + weight
    view = sampled_view(labels, 3, k, rate)
    found = {tuple(int(v) for v in row): chance for row, chance in zip(view.values, view.chances, strict=True)}
    assert found == pytest.approx(chances)


def test_too_many_counts_are_refused():
    with pytest.raises(ac.ParameterError, match="different counts; accepted: at most 20000"):
        sampled_view(list(range(30)), 30, 30, 0.5)


def test_two_classes_by_their_difference():
    without, joined = View.certain([2, 1]), View.certain([1, 2])
    ratios = label_log_ratios(ac.GNMax(2.0), without, joined)
    p = ndtr(1 / (2 * math.sqrt(2)))
    assert ratios == pytest.approx([0.0, math.log((1 - p) / p), math.log(p / (1 - p))], rel=1e-6)


@pytest.mark.parametrize("event", [ac.GNMax(1.5), ac.LNMax(1.0)])
def test_more_classes_against_draws(event):
    votes, rng = np.array([2.0, 1.0, 0.0]), np.random.default_rng(0)
    noise = rng.normal(0, 1.5, (200_000, 3)) if isinstance(event, ac.GNMax) else rng.laplace(0, 1, (200_000, 3))
    drawn = np.bincount((votes + noise).argmax(axis=1), minlength=3) / 200_000
    ratios = label_log_ratios(event, View.certain([0, 0, 0]), View.certain(votes))
    assert np.exp(ratios[1:]) / 3 == pytest.approx(drawn, abs=0.005)


def test_a_screening_bit_with_its_sampling():
    screening = ac.PoissonSubsampled(ac.NoisyScreening(1.0, 1.0, 1), 0.25)
    view = sampled_view([0], 2, 1, 0.25)
    ratios = label_log_ratios(ac.GNMax(1e9), View.certain([0, 0]), view, screening)
    p, q = 0.25 * ndtr(0.0) + 0.75 * ndtr(-1.0), ndtr(-1.0)
    assert ratios == pytest.approx([math.log((1 - p) / (1 - q)), math.log(p / q), math.log(p / q)], rel=1e-6)


def test_numbers_by_their_densities():
    score = number_score(ac.Gaussian(2.0), [View.certain([0.0, 0.0])], [View.certain([1.0, 0.0])])
    out = np.array([[0.7, 5.0]])
    assert score(out) == pytest.approx(stats.norm.logpdf(0.7, 1, 2) - stats.norm.logpdf(0.7, 0, 2))
    mixed = View(np.array([[0.0], [1.0]]), np.array([0.9, 0.1]))
    sampled = number_score(ac.PoissonSubsampled(ac.Laplace(1.0), 0.1), [View.certain([0.0])], [mixed])
    assert sampled(np.array([[3.0]])) == pytest.approx(math.log(0.9 + 0.1 * math.e))


def test_individual_records_retire_in_the_score_as_promised():
    knn = mx.IndividualKNN(budget=0.5, threshold=0.5, count_sigma=1.0, vote_sigma=1e6, min_count=0.1)
    counts = [1.3, 0.8, 2.0]
    one = stats.norm.logpdf(1.3, 1, 1) - stats.norm.logpdf(1.3, 0, 1)
    assert individual_score(knn, [1], 2)(counts, [0, 1, 0]) == pytest.approx(one, abs=1e-4)
    each = sum(stats.norm.logpdf(c, 1, 1) - stats.norm.logpdf(c, 0, 1) for c in counts)
    assert individual_score(knn, [1], 2, retiring=False)(counts, [0, 1, 0]) == pytest.approx(each, abs=1e-4)
    at_least = individual_score(knn, [1], 2)([0.1], [0])
    assert at_least == pytest.approx(stats.norm.logcdf(0.1, 1, 1) - stats.norm.logcdf(0.1, 0, 1), abs=1e-4)


@pytest.mark.parametrize(
    "canary",
    [
        canaries.near_tie(3),
        canaries.near_tie(4, 0),
        canaries.near_tie(5, 5, n_classes=3),
        canaries.near_tie(1, crowd=9),
        canaries.at_threshold(3, 2.0),
        canaries.at_threshold(4, 3.0, n_classes=3),
    ],
)
def test_views_are_what_the_nearest_neighbours_say(canary):
    k = int(canary.views[0].values.sum())
    for (X, y), view in zip(canary.neighbours, canary.views, strict=True):
        nearest = np.argsort(np.abs(X[:, 0]), kind="stable")[:k]
        classes = view.values.shape[1]
        assert view.values.tolist() == [np.bincount(y[nearest], minlength=classes).tolist()]


def test_a_near_tie_flips_and_a_threshold_is_crossed():
    without, joined = (view.values[0] for view in canaries.near_tie(5).views)
    assert (without.argmax(), joined.argmax()) == (0, 1)
    without, joined = (view.values[0] for view in canaries.at_threshold(5, 4.0).views)
    assert (without.max(), joined.max()) == (3, 4)


def test_a_replaced_record_moves_all_its_votes():
    canary = canaries.replaced_record(3)
    before, after = (view.values[0] for view in canary.views)
    assert np.abs(before - after).sum() == 6
    (X, _), (Z, _) = canary.neighbours
    assert len(X) == len(Z)
    assert np.count_nonzero((X != Z).any(axis=1)) == 1


def test_the_largest_gradient_is_the_unit_that_is_released():
    canary = canaries.largest_gradient(3.0)
    assert np.linalg.norm(canary.views[1].values) == pytest.approx(1.0)
    settings = {"noise_multiplier": 1e-6, "sampling_rate": 1.0, "steps": 1, "learning_rate": 1.0, "n_classes": 2}
    released = [-mx.LinearNoisySGD(**settings, rng=0).fit(*data).weights_ for data in canary.neighbours]
    # the intercept of the other record is the same in both
    assert (released[1] - released[0]).ravel() == pytest.approx(canary.views[1].values[0], abs=1e-4)


@pytest.mark.audit
def test_many_queries_with_the_score_show_more_than_one():
    parameters = {"n_neighbors": 3, "sampling_rate": 1.0, "screening_sigma": None, "vote_sigma": 4.0}
    canary, bounds = canaries.near_tie(3), []
    for queries in (1, 8):
        without, joined = ([view] * queries for view in canary.views)
        score = label_score(mx.PrivateKNN(**parameters).vote_event, without, joined)

        def mechanism(data, rng, runs, queries=queries):
            model = mx.PrivateKNN(**parameters, n_classes=2, rng=rng).fit(*data)
            return model.label(canary.queries(queries * runs)).labels.reshape(runs, queries)

        settings = {"runs": 3000, "delta": 0.05, "confidence": 0.95, "batched": True, "rng": 0}
        bounds.append(float(mx.audit(mechanism, neighbours=canary.neighbours, score=score, **settings)))
    assert bounds[1] > bounds[0] + 0.3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: canaries.near_tie(3, 0), "lead = 0; accepted: an integer of the parity of n_neighbors = 3"),
        (lambda: canaries.near_tie(3, 5), "lead = 5"),
        (lambda: canaries.near_tie(0), "n_neighbors = 0"),
        (lambda: canaries.at_threshold(1, 1.0), "n_neighbors = 1"),
        (lambda: canaries.largest_gradient(0.0), "length = 0"),
        (lambda: label_log_ratios(ac.PureDP(1.0), View.certain([1]), View.certain([1])), "event = PureDP"),
        (
            lambda: label_log_ratios(ac.GNMax(1), View.certain([1]), View.certain([1]), ac.GNMax(1)),
            "screening = GNMax",
        ),
    ],
)
def test_mistakes_are_answered_in_one_line(make, message):
    with pytest.raises(ac.ParameterError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
